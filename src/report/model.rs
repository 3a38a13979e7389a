//! What a page shows.

use super::run::RunFacts;
use crate::analysis::{RowTally, TopValues};

/// Everything that is on a page.
#[derive(Debug)]
pub(crate) struct PageContent {
    /// The name of the file that it is about.
    pub(crate) file: String,
    /// When the page was made, in local time.
    pub(crate) made: String,
    /// The stand-in made the scores up.
    pub(crate) sandbox: bool,
    /// The counts of the rows.
    pub(crate) tally: RowTally,
    /// What the verdicts are compared with, if with anything.
    pub(crate) comparison: Option<Comparison>,
    /// Decisions by the values of columns.
    pub(crate) groups: Vec<ColumnGroups>,
    /// How the run went that wrote the file, if that is known.
    pub(crate) run: Option<RunFacts>,
    /// The decisions are not those that the run made.
    pub(crate) redecided: bool,
}

/// What verdicts are compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// Those that the rows themselves had before, or that the run knew.
    Own,
    /// Those of another file.
    File {
        /// Its name.
        name: String,
        /// How many rows were found in it.
        pairing: PairingCounts,
    },
}

/// How rows were paired with those of an earlier file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PairingCounts {
    /// The column by which rows are paired.
    pub(crate) key: String,
    /// Rows that were paired.
    pub(crate) paired: u64,
    /// Rows that the earlier file does not have.
    pub(crate) new: u64,
    /// Rows of the earlier file that are gone.
    pub(crate) gone: u64,
    /// Rows that have several pairs with different verdicts, and so are not compared.
    pub(crate) ambiguous: u64,
}

/// Decisions by the values of a column.
#[derive(Debug)]
pub(crate) struct ColumnGroups {
    /// The column's name.
    pub(crate) column: String,
    /// Its most frequent values.
    pub(crate) values: TopValues,
}
