//! Which columns are read of a file that an earlier run wrote, and the errors for one that is not such a file.

use crate::base::error::{Error, quoted};
use crate::fields;
use crate::layout::{AddedColumns, SCORE_COLUMN};

/// What to do if the columns of a scored file have other names.
pub(super) const PREFIX: &str = "with `--prefix`, name the prefix of their columns";

/// The columns of a scored file that a command asks for besides ours, by name. In JSONL, a name may be a JSON pointer.
#[derive(Debug, Clone, Default)]
pub struct AskedColumns {
    names: Vec<String>,
    /// How many of them a file must have; it may lack the rest.
    needed: usize,
}

impl AskedColumns {
    /// These columns, and behind them others that a file may lack.
    #[must_use]
    pub(crate) fn new(needed: &[String], if_there: impl IntoIterator<Item = String>) -> Self {
        Self {
            names: needed.iter().cloned().chain(if_there).collect(),
            needed: needed.len(),
        }
    }

    /// Their names, each with whether a file may lack it.
    pub(super) fn names(&self) -> impl Iterator<Item = (&str, bool)> {
        let names = self.names.iter().enumerate();
        names.map(|(index, name)| (name.as_str(), index >= self.needed))
    }
}

/// The error for a file without one of our columns. `word` says what the names that are there name: `column` or `member`.
pub(super) fn lacks_ours(name: &str, (word, there): (&str, &[String]), file: &str) -> Error {
    Error::usage(format!(
        "{file} is not a scored file: it has no {word} {}",
        quoted(name)
    ))
    .hint(format!("`rescore run` writes scored files; {PREFIX}"))
    .columns(fields::columns_line(word, there))
}

/// The error for a file without a column that is asked for.
pub(super) fn lacks(name: &str, (word, there): (&str, &[String]), file: &str) -> Error {
    let error = Error::usage(format!("no {word} {} in {file}", quoted(name)));
    // A pointer into an answer that a user copied from `rescore run`: there the field became a column.
    let last = name.rsplit('/').next().unwrap_or_default();
    let column = there.iter().find(|column| *column == last).cloned();
    let error = match column.or_else(|| fields::nearest(name, there)) {
        Some(near) => error.hint(format!("did you mean {}?", quoted(&near))),
        None => error,
    };
    error.columns(fields::columns_line(word, there))
}

/// The error for a file with a value that we never write in one of our columns.
pub(super) fn has_foreign(columns: &AddedColumns, column: usize, row: usize, file: &str) -> Error {
    let name = columns.get(column).map_or("", String::as_str);
    let error = Error::usage(format!(
        "{file} is not a scored file: row {row} has a value in {} that rescore never writes",
        quoted(name)
    ));
    if column == SCORE_COLUMN {
        return error.hint(
            "a spreadsheet may have saved scores with a decimal comma: rescore writes `2.5`, not `2,5`",
        );
    }
    error
}
