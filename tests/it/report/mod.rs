//! `rescore report` and `run --report`: the page, its numbers, and what a browser makes of it.

mod against;
mod html;
mod in_a_browser;
mod of_a_file;
mod of_a_run;
mod refused;
