//! Which columns of a scored file are read, and the words for a file that lacks one.

use crate::base::error::{Error, quoted};
use crate::fields;
use crate::layout::{SCORE_COLUMN, VERDICT_COLUMNS};

/// What to do if the columns of a scored file have other names.
pub(super) const PREFIX: &str = "with `--prefix`, name the prefix of their columns";

/// The columns that are read: the verdict's three, then those that a command asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScoredColumns {
    names: Vec<String>,
    /// How many of them a file must have; it may lack the rest.
    needed: usize,
}

impl ScoredColumns {
    /// The number of columns of the verdict.
    pub(super) const OURS: usize = VERDICT_COLUMNS.len();

    /// The verdict's columns with this prefix, and further ones by name. In JSONL, a further one may be a JSON pointer.
    #[must_use]
    pub(crate) fn new(prefix: &str, further: &[String]) -> Self {
        let ours = VERDICT_COLUMNS.map(|name| format!("{prefix}{name}"));
        let names: Vec<_> = ours.into_iter().chain(further.iter().cloned()).collect();
        Self {
            needed: names.len(),
            names,
        }
    }

    /// These, and others behind them that a file may lack.
    #[must_use]
    pub(crate) fn and_if_there(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.names.extend(names);
        self
    }

    /// Whether a file may lack this column.
    pub(super) const fn may_lack(&self, index: usize) -> bool {
        index >= self.needed
    }

    /// The index of the first column after the verdict's; the next ones follow.
    #[must_use]
    pub(crate) const fn first_further() -> usize {
        Self::OURS
    }

    /// Their names, the verdict's first.
    #[must_use]
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The error for a file without this column. `word` says what the names that are there name: `column` or `member`.
    pub(super) fn missing(
        &self,
        index: usize,
        (word, there): (&str, &[String]),
        file: &str,
    ) -> Error {
        let name = self.names.get(index).map_or("", String::as_str);
        let error = if index < Self::OURS {
            Error::usage(format!(
                "{file} is not a scored file: it has no {word} {}",
                quoted(name)
            ))
            .hint(format!("`rescore run` writes scored files; {PREFIX}"))
        } else {
            let error = Error::usage(format!("no {word} {} in {file}", quoted(name)));
            // A pointer into an answer that a user copied from `rescore run`: there the field became a column.
            let last = name.rsplit('/').next().unwrap_or_default();
            let column = there.iter().find(|column| *column == last).cloned();
            match column.or_else(|| fields::nearest(name, there)) {
                Some(near) => error.hint(format!("did you mean {}?", quoted(&near))),
                None => error,
            }
        };
        error.columns(fields::columns_line(word, there))
    }

    /// The error for a file with two columns of this name.
    pub(super) fn twice(&self, index: usize, file: &str) -> Error {
        let name = self.names.get(index).map_or("", String::as_str);
        Error::usage(format!("{file} has {} twice", quoted(name)))
    }

    /// The error for a file with a value that we never write in one of our columns.
    pub(super) fn foreign(&self, index: usize, row: usize, file: &str) -> Error {
        let name = self.names.get(index).map_or("", String::as_str);
        let error = Error::usage(format!(
            "{file} is not a scored file: row {row} has a value in {} that rescore never writes",
            quoted(name)
        ));
        if index == SCORE_COLUMN {
            return error.hint("a spreadsheet may have saved scores with a decimal comma: rescore writes `2.5`, not `2,5`");
        }
        error
    }
}
