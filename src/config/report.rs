//! `rescore report`.

use std::path::PathBuf;

use crate::input;
use crate::verdict::Thresholds;

/// `rescore report`.
#[derive(Debug)]
pub(crate) struct ReportConfig {
    /// The scored file.
    pub(crate) scored: input::FileSettings,
    /// What stands before the names of the verdict's columns, also in the earlier file.
    pub(crate) prefix: String,
    /// What it is compared with, if with anything.
    pub(crate) against: Option<EarlierFile>,
    /// Columns by whose values decisions are counted.
    pub(crate) by: Vec<String>,
    /// The summary of the run that wrote the file.
    pub(crate) summary: Option<PathBuf>,
    /// Today's thresholds.
    pub(crate) thresholds: Thresholds,
    /// Where the report goes; `None` is standard output.
    pub(crate) output: Option<PathBuf>,
    /// A report that exists may be replaced.
    pub(crate) overwrite: bool,
}

/// An earlier scored file.
#[derive(Debug)]
pub(crate) struct EarlierFile {
    /// The file.
    pub(crate) file: input::FileSettings,
    /// The column by which rows are paired.
    pub(crate) key: String,
}
