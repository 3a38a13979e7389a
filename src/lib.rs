//! `rescore` sends every user of a CSV or JSONL file through a user validation service and gives the same file back
//! with three more columns.
//!
//! The path of a row: `input` reads it, `fields` makes a request of it, `scorer` gets its verdict from the `service`
//! at the `pace` that is allowed, `pipeline` keeps the order, `output` writes it. `README.md` says what it is for.

pub mod cli;
pub mod commands;
pub mod config;
pub mod decimal;
pub mod drift;
pub mod error;
pub mod event;
pub mod fields;
pub mod foreign;
pub mod input;
pub mod layout;
pub mod ledger;
pub mod observe;
pub mod output;
pub mod own_file;
pub mod pace;
pub mod pipeline;
pub mod raw_json;
pub mod row;
pub mod sandbox;
pub mod say;
pub mod scorer;
pub mod secret;
pub mod service;
pub mod stats;
pub mod timeline;
pub mod verdict;
