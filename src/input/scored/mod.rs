//! Files that a run has written, read back: rows with the places of our columns, and of other columns that are asked for.
//!
//! No field of a user is looked for and no request is made, so such a file needs neither a name nor an IP address.

mod columns;
mod csv;
mod jsonl;
mod reader;
mod row;
#[cfg(test)]
mod tests;

pub(crate) use columns::ScoredColumns;
pub(crate) use reader::{OpenedScored, ScoredReader};
pub(crate) use row::ScoredRow;
