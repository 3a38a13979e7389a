//! The arguments that say which columns are written, and what happens to those of an earlier run.

use std::collections::HashSet;

use clap::Args;

use super::choices::ExistingArg;
use super::fields::FIELDS;
use super::format::FILES;
use super::values::{self, Column};
use crate::base::error::{Error, Result, quoted};
use crate::layout::{Existing, PREVIOUS, VERDICT_COLUMNS};
use crate::raw_json::Pointer;

// A doc comment would be taken for the help of the command.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown, reason = "these comments are the help's text")]
pub(super) struct ColumnArgs {
    /// Append another field of the answer, such as `risk_level=/summary/risk_level` (repeatable)
    #[arg(
        long, value_name = "NAME=POINTER", value_delimiter = '\n', value_parser = values::column, help_heading = FIELDS
    )]
    column: Vec<Column>,
    /// What to do with the columns of an earlier run in the input; other columns with the same names are never replaced
    #[arg(long, value_name = "ACTION", value_enum, default_value = "replace", help_heading = FILES)]
    existing: ExistingArg,
    /// Put this before the names of all new columns, as in `rescore_decision`
    #[arg(
        long, value_name = "TEXT", default_value = "", hide_default_value = true, value_parser = values::prefix,
        help_heading = FILES
    )]
    prefix: String,
}

impl ColumnArgs {
    /// The names of all columns that we write, and where those of `--column` come from.
    ///
    /// # Errors
    /// Two of them would have the same name.
    pub(super) fn names(&self) -> Result<(Vec<String>, Vec<Pointer>)> {
        let further = self.column.iter().map(|Column(name, _)| name.as_str());
        let names: Vec<String> = VERDICT_COLUMNS
            .into_iter()
            .chain(further)
            .map(|name| format!("{}{name}", self.prefix))
            .collect();
        let mut seen = HashSet::new();
        if let Some(twice) = names.iter().find(|name| !seen.insert(name.to_lowercase())) {
            return Err(Error::usage(format!(
                "`--column`: there already is a column {}",
                quoted(twice)
            )));
        }
        let kept = |name: &String| names.contains(&format!("{PREVIOUS}{name}"));
        if let (ExistingArg::Keep, Some(name)) =
            (self.existing, names.iter().find(|name| kept(name)))
        {
            return Err(Error::usage(format!(
                "`--column`: {} is the name that `--existing keep` gives to an old {}",
                quoted(&format!("{PREVIOUS}{name}")),
                quoted(name)
            )));
        }
        Ok((
            names,
            self.column
                .iter()
                .map(|Column(_, pointer)| pointer.clone())
                .collect(),
        ))
    }

    /// What `--existing` says.
    pub(super) fn existing(&self) -> Existing {
        self.existing.into()
    }
}
