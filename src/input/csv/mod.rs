//! Delimited text to records, keeping every byte.
//!
//! The csv crate returns cells, not the bytes that they came from, and reads a broken quote as well as it can. Here the
//! bytes are what matters, and a broken quote must not reach a paid call. So this module finds the cells itself, by the
//! same rules (a property test compares it with the csv crate).

mod columns;
mod parser;
mod scan;
#[cfg(test)]
mod tests;

pub(super) use parser::CsvParser;
pub(super) use scan::{RecordScan, find_record, scan, unquote};
