//! `rescore decide`.

use std::path::PathBuf;

use crate::input;
use crate::verdict::{DecisionPolicy, Thresholds};

/// `rescore decide`.
#[derive(Debug)]
pub(crate) struct DecideConfig {
    /// The scored file.
    pub(crate) file: input::FileSettings,
    /// What the names of the verdict's columns start with.
    pub(crate) prefix: String,
    /// What to do with it.
    pub(crate) task: DecideTask,
}

/// What to do with a scored file.
#[derive(Debug)]
pub(crate) enum DecideTask {
    /// Write it again with other decisions.
    Rewrite(Box<RewriteTask>),
    /// Count what other thresholds would do.
    WhatIf {
        /// The thresholds that are marked.
        today: Thresholds,
        /// For programs.
        json: bool,
    },
}

/// A scored file that gets other decisions.
#[derive(Debug)]
pub(crate) struct RewriteTask {
    /// How decisions are made.
    pub(crate) policy: DecisionPolicy,
    /// The column with the level, if levels decide: its name, or a JSON pointer.
    pub(crate) level: Option<String>,
    /// Where rows go.
    pub(crate) output: DecideOutput,
    /// Nothing but warnings and errors is shown.
    pub(crate) quiet: bool,
}

/// Where the rows of a scored file go.
#[derive(Debug)]
pub(crate) struct DecideOutput {
    /// The output; `None` is standard output.
    pub(crate) path: Option<PathBuf>,
    /// Where rows go whose decision changed, if anywhere.
    pub(crate) changes: Option<PathBuf>,
    /// Where the summary goes as JSON.
    pub(crate) summary: Option<PathBuf>,
    /// Output and changes that exist may be replaced.
    pub(crate) overwrite: bool,
}
