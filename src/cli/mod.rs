//! What a person types, turned once into a valid config.
//!
//! What is wrong with arguments and variables by themselves is refused here; `commands` refuses what only a look at files
//! can show. This is the only module that names clap, and nothing below it knows of arguments or variables.

mod account;
mod check;
mod choices;
mod columns;
mod completions;
mod decide;
mod fields;
mod format;
mod help;
mod help_notes;
mod input_limits;
mod key;
mod ledger;
mod man;
mod parse;
mod policy;
mod price;
mod report;
mod run;
mod run_options;
mod sandbox;
mod selection;
mod service;
mod settings;
mod settings_file;
mod settings_shown;
mod sources;
mod thresholds;
mod unconfigured;
mod values;

pub(crate) use parse::{Command, ParseFailure, parse, variable_warnings};
pub(crate) use unconfigured::{asks_for_json, unconfigured_run};
