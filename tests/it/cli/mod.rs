//! The command line: settings, what people and programs see, the stand-in.

mod completions;
pub(crate) mod for_programs;
mod help;
mod levels;
mod log;
mod man;
mod metrics;
mod not_started;
mod refused;
mod sandbox;
mod sandbox_requests;
mod secrets;
mod settings;
mod settings_file;
mod thresholds;
mod variables;
mod watching;
mod what_is_shown;
