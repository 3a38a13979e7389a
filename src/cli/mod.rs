//! Turns what a person types into a valid config, once.
//!
//! Mistakes in arguments, variables and the settings file are refused here; `commands` refuses what only other files can show. Besides this module only `config` names clap, as the options of a stage are
//! declared there, and nothing below knows of arguments or variables.

mod fields;
mod files;
mod help;
mod ledger;
mod parse;
mod run;
mod sandbox;
mod scored;
mod service;
mod settings;

pub(crate) use parse::{Command, ParseFailure, asks_for_json, parse};
