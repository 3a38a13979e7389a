//! The command line: settings, what people and programs see, the stand-in.

pub(crate) mod sandbox;
mod secrets;
mod settings;
mod watching;
mod what_is_shown;
