//! Columns of the input that have names that we write, and whether they may be touched.
//!
//! Our own columns are recognised by each other and by their values: `transaction_id`, `risk_score` and `decision` are all
//! there, and every value is one that we could have written. Anything else is the user's and is never replaced. This file
//! must not know how rows are parsed.

use serde::de::IgnoredAny;

use crate::base::error::{Error, quoted};
use crate::drift::Drift;
use crate::fields::{ColumnSource, Field, Part, PerField};
use crate::layout::{Existing, PREVIOUS, VERDICT_COLUMNS};
use crate::verdict::{Failure, Reason, Score, TransactionId};

/// How many of our columns make the others ours.
const KEY_COLUMNS: usize = VERDICT_COLUMNS.len();

/// A column of the input with a name that we write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    /// Its place among our columns.
    pub(super) column: usize,
    /// Its value could be ours.
    pub(super) fits: bool,
}

/// Why a header or a row with a column of our names stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conflict {
    /// `--existing error`.
    Present(usize),
    /// `--existing keep`, and the name that the column would get exists as well.
    Both(usize),
    /// Not all columns by which ours are recognised are there.
    Alone(usize),
    /// A value that we never write.
    Foreign(usize),
}

impl Conflict {
    /// What is wrong with a header or an object that has these columns of ours, and the kept names of those in `previous`.
    pub(super) fn of(existing: Existing, found: &[Found], previous: &[usize]) -> Option<Self> {
        let has = |column: usize| found.iter().any(|found| found.column == column);
        match existing {
            Existing::Error => found.first().map(|found| Self::Present(found.column)),
            Existing::Keep => {
                let both = previous.iter().find(|column| has(**column));
                both.map(|column| Self::Both(*column))
            }
            Existing::Replace => {
                let foreign = found.iter().find(|found| !found.fits);
                let ours = (0..KEY_COLUMNS).all(has);
                match (foreign, found.first()) {
                    (Some(foreign), _) => Some(Self::Foreign(foreign.column)),
                    (None, Some(first)) if !ours => Some(Self::Alone(first.column)),
                    _ => None,
                }
            }
        }
    }

    /// Why the file is refused. `row` is the row of the value that is not ours.
    pub(super) fn refuses(self, columns: &[String], file: &str, row: usize) -> Error {
        let name = self.name(columns);
        let (shown, kept) = (quoted(name), quoted(&format!("{PREVIOUS}{name}")));
        let recognised: Vec<_> = columns
            .iter()
            .take(KEY_COLUMNS)
            .map(|name| quoted(name))
            .collect();
        let other_names = "`--prefix rescore_` writes the new columns under other names";
        match self {
            Self::Present(_) => Error::usage(format!("{file} already has {shown}"))
                .hint(format!("`--existing keep` renames it to {kept}, {other_names}")),
            Self::Both(_) => {
                Error::usage(format!("{file} has both {shown} and {kept}")).hint(format!(
                    "{other_names}; without `--existing keep` the values of an earlier run are replaced"
                ))
            }
            Self::Alone(_) | Self::Foreign(_) => {
                let error = Error::usage(format!(
                    "{file} already has {shown}, which does not come from rescore and would be replaced"
                ));
                let error = if let Self::Foreign(_) = self {
                    error.detail(format!("its value in row {row} is one that rescore never writes"))
                } else {
                    error.detail(format!(
                        "columns are replaced only where {} are all there, as in rescore's own output",
                        recognised.join(", ")
                    ))
                };
                let other_name = if self.column() < KEY_COLUMNS {
                    ""
                } else {
                    "give another name to `--column`; "
                };
                error.hint(format!(
                    "{other_name}`--existing keep` renames it to {kept}, {other_names}"
                ))
            }
        }
    }

    /// Why a row fails that comes after those by which the file was judged.
    pub(super) fn fails(self, columns: &[String]) -> Failure {
        let name = self.name(columns);
        let shown = quoted(name);
        let message = match self {
            Self::Present(_) => format!("the row already has {shown}"),
            Self::Both(_) => {
                let kept = quoted(&format!("{PREVIOUS}{name}"));
                format!("the row has both {shown} and {kept}")
            }
            Self::Alone(_) => {
                format!("the row has {shown} without the other columns of an earlier run")
            }
            Self::Foreign(_) => {
                format!("the row has a value in {shown} that rescore never writes")
            }
        };
        Failure::new(Reason::ExistingColumns, message)
    }

    fn name(self, columns: &[String]) -> &str {
        columns.get(self.column()).map_or("", String::as_str)
    }

    const fn column(self) -> usize {
        match self {
            Self::Present(column)
            | Self::Both(column)
            | Self::Alone(column)
            | Self::Foreign(column) => column,
        }
    }
}

/// The field that is taken from this column, alone or with others.
pub(super) fn field_of<K: Clone + PartialEq>(
    sources: &PerField<ColumnSource<K>>,
    column: &K,
) -> Option<Field> {
    let part = Part::Column(column.clone());
    Field::ALL.into_iter().find(|field| {
        let source = sources.get(*field);
        matches!(source, ColumnSource::Columns(template) if template.0.contains(&part))
    })
}

/// A field is taken from a column that would be written: whatever `--existing` says, the next run would send our values.
pub(super) fn is_source(column: &str, field: Field, file: &str) -> Error {
    Error::usage(format!(
        "a new column cannot be called {}: {file} has the field `{field}` there",
        quoted(column)
    ))
    .hint("give another name to `--column`, or put something in front of all new names with `--prefix rescore_`")
}

/// Whether we could have written a value into this column: nothing, or what has its form. `None` is what is not text.
pub(super) fn fits(column: usize, text: Option<&str>) -> bool {
    let Some(text) = text else {
        return column >= KEY_COLUMNS;
    };
    let is_score = || {
        // A JSON number, which `01` and `1.` are not.
        Score::from_json_number(text).is_ok() && serde_json::from_str::<IgnoredAny>(text).is_ok()
    };
    text.is_empty()
        || match column {
            0 => TransactionId::new(text).is_ok(),
            1 => is_score(),
            2 => Drift::DECISIONS
                .iter()
                .any(|decision| decision.word() == text),
            _ => true,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_we_write_fit_and_others_do_not() {
        for (column, fitting, foreign) in [
            (0, &["", "t-1", "8f14e45f"][..], &["=1+1", "a\u{1b}b"][..]),
            (
                1,
                &["", "1.50", "-0.5", "1e2"],
                &["low", "01", "1.", "1,5", " 1", "NaN"],
            ),
            (
                2,
                &["", "approve", "review", "block"],
                &["manually approved by Eve", "Block", " block"],
            ),
            (3, &["", "anything"], &[]),
        ] {
            for (texts, expected) in [(fitting, true), (foreign, false)] {
                for text in texts {
                    assert_eq!(fits(column, Some(text)), expected, "{column} {text}");
                }
            }
        }
        assert_eq!(
            [0, 1, 2, 3].map(|column| fits(column, None)),
            [false, false, false, true]
        );
    }

    #[test]
    fn only_all_three_columns_with_our_values_are_ours() {
        let found = |columns: &[usize]| -> Vec<_> {
            let found = |column: &usize| Found {
                column: *column,
                fits: true,
            };
            columns.iter().map(found).collect()
        };
        let replaces = |columns: &[usize]| Conflict::of(Existing::Replace, &found(columns), &[]);
        assert_eq!(replaces(&[]), None);
        assert_eq!(replaces(&[2, 1, 0]), None);
        assert_eq!(replaces(&[0, 1, 2, 3]), None);
        assert_eq!(replaces(&[3]), Some(Conflict::Alone(3)));
        assert_eq!(replaces(&[0, 2, 3]), Some(Conflict::Alone(0)));
        let mut one_foreign = found(&[0, 1, 2]);
        one_foreign.extend([Found {
            column: 1,
            fits: false,
        }]);
        let conflict = Conflict::of(Existing::Replace, &one_foreign, &[]);
        assert_eq!(conflict, Some(Conflict::Foreign(1)));
        let keeps = |previous: &[usize]| Conflict::of(Existing::Keep, &one_foreign, previous);
        assert_eq!(
            (keeps(&[3]), keeps(&[3, 2])),
            (None, Some(Conflict::Both(2)))
        );
    }
}
