//! `rescore check`: the numbers that it promises, and how it says them.

mod agreement;
mod in_place_of_run;
mod ledger;
mod same_numbers;
mod several;
mod words;
