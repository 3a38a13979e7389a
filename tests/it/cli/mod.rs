//! The command line: settings, what people and programs see, the stand-in.

mod help;
mod levels;
mod refused;
mod sandbox;
mod sandbox_requests;
mod secrets;
mod settings;
mod thresholds;
mod variables;
mod watching;
mod what_is_shown;
