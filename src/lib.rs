//! `rescore` sends every user of a CSV or JSONL file to a user validation service and gives the same file back with three
//! more columns. `docs/architecture.md` follows a row through these modules.
//!
//! This is a program, not a library: [`main`] is all of it. [`internals`] is for its own tests and benchmarks.

// Only here: in benches and tests it would demand a comment on every helper.
#![warn(clippy::missing_docs_in_private_items)]
// The documentation is made with the private items.
#![allow(rustdoc::private_intra_doc_links)]

#[cfg(not(unix))]
compile_error!("rescore needs Unix: file modes, the identity of files, signals and Unix sockets");

mod analysis;
mod base;
mod cli;
mod commands;
mod config;
mod engine;
mod fields;
mod input;
mod layout;
mod ledger;
mod observe;
mod output;
mod pace;
mod program;
mod raw_json;
mod report;
mod row;
mod row_state;
mod sandbox;
mod selection;
mod service;
mod telemetry;
mod verdict;

pub use program::main;

/// What the tests, the benchmarks and the fuzz targets of this package need. Not an interface for others.
#[doc(hidden)]
pub mod internals {
    pub use crate::base::error::{Error, Result};
    pub use crate::base::private_file::Readers;
    pub use crate::base::secret::Secret;
    pub use crate::base::text::TextEncoding;
    pub use crate::base::text::is_unsafe_to_print;
    pub use crate::fields::{Assignments, Field, FieldRules, Invalid, UserRequest};
    pub use crate::input::{Compose, FileSettings, FormatChoice, Input, Reader, ReaderSettings};
    pub use crate::layout::{AddedColumns, Format, Layout, VERDICT_COLUMNS};
    pub use crate::output::{OutputFile, Replace, RowFiles, Target, Writer};
    pub use crate::pace::{Allowance, Gate, PaceLimits, Rate};
    pub use crate::raw_json::{Pointer, members, string};
    pub use crate::row::{RawRow, RowNumber, Span};
    pub use crate::row_state::{Row, RowState};
    pub use crate::selection::Selection;
    pub use crate::service::{
        ApiKeys, Classified, Plan, Quota, Reply, SentRequest, classify, write_body,
    };
    pub use crate::telemetry::pace::Limit;
    pub use crate::verdict::{
        Answer, Decision, DecisionPolicy, Failure, Reason, Score, TransactionId, Verdict,
    };
}
