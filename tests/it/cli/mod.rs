//! The command line: settings, what people and programs see, the stand-in.

mod decisions;
pub(crate) mod for_programs;
mod help;
mod log;
mod metrics;
mod pages;
mod sandbox;
mod secrets;
mod settings;
mod settings_file;
mod what_exactly_ran;
mod what_is_shown;
