//! The arguments that say which columns are written.

use std::collections::HashSet;

use clap::Args;

use super::fields::FIELDS;
use super::format::FILES;
use super::values::{self, Column};
use crate::base::error::{Error, Result, quoted};
use crate::layout::{AddedColumns, ColumnContent};
use crate::raw_json::Pointer;

// A doc comment would be taken for the help of the command.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown, reason = "these comments are the help's text")]
pub(super) struct ColumnArgs {
    /// Append another field of the answer, such as `risk_level=/summary/risk_level` (repeatable)
    ///
    /// `NAME=`, with an empty pointer, appends the whole answer on one line.
    #[arg(
        long, value_name = "NAME=POINTER", value_delimiter = '\n', value_parser = values::column, help_heading = FIELDS
    )]
    column: Vec<Column>,
    /// Put this before the names of all new columns, as in `rescore_decision`; those of an earlier run then stay
    #[arg(
        long, value_name = "TEXT", default_value = "", hide_default_value = true, value_parser = values::prefix,
        help_heading = FILES
    )]
    prefix: String,
    /// Append a column with the reason word of each row without a verdict, such as `no_answer`
    ///
    /// It is empty for all other rows. The words are those of the rejects.
    #[arg(long, value_name = "NAME", value_parser = values::new_column_name, help_heading = FILES)]
    reason_column: Option<String>,
}

impl ColumnArgs {
    /// The columns that we write, and where those of `--column` come from.
    ///
    /// # Errors
    /// Two of them would have the same name.
    pub(super) fn added(&self) -> Result<(AddedColumns, Vec<Pointer>)> {
        let captured = self.column.iter().map(|Column(name, _)| name.as_str());
        let columns = AddedColumns::new(&self.prefix, captured, self.reason_column.as_deref());
        let option = |column| match columns.content(column) {
            ColumnContent::Reason => "--reason-column",
            _ => "--column",
        };
        let mut seen = HashSet::new();
        let mut names = columns.iter().enumerate();
        if let Some((column, twice)) = names.find(|(_, name)| !seen.insert(name.to_lowercase())) {
            return Err(Error::usage(format!(
                "`{}`: there already is a column {}",
                option(column),
                quoted(twice)
            )));
        }
        let pointers = self.column.iter();
        let pointers = pointers.map(|Column(_, pointer)| pointer.clone());
        let pointers = pointers.collect();
        Ok((columns, pointers))
    }
}
