//! Columns of the input with the names of our columns, and whether they may be changed.
//!
//! Our own columns are recognised by each other and by their values: `transaction_id`, `risk_score`
//! and `decision` must all be there, with values that we could have written. Anything else belongs
//! to the user and is never replaced. This file must not know how rows are parsed.

use serde::de::IgnoredAny;

use crate::base::error::{Error, quoted};
use crate::fields::{ColumnSource, Field, Part, PerField};
use crate::layout::{AddedColumns, ColumnContent, Existing, PREVIOUS, VERDICT_COLUMNS};
use crate::verdict::{Decision, Failure, Reason, Score, TransactionId};

/// The number of columns by which ours are recognised.
const KEY_COLUMNS: usize = VERDICT_COLUMNS.len();

/// A column of the input with the name of one of our columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OurColumn {
    /// Its index among our columns.
    pub(super) column: usize,
    /// Whether its value could be ours.
    pub(super) fits: bool,
}

/// Why a header or a row with columns that have our names must not be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conflict {
    /// `--existing error`.
    Present(usize),
    /// `--existing keep`, and the name that the column would get exists, too.
    Both(usize),
    /// Some of the columns by which ours are recognised are missing.
    Alone(usize),
    /// A value that we never write.
    Foreign(usize),
}

impl Conflict {
    /// What is wrong with a header or an object that has these columns, and under their kept names
    /// the columns in `previous`.
    pub(super) fn of(existing: Existing, found: &[OurColumn], previous: &[usize]) -> Option<Self> {
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

    /// The error for the file, whose format calls a column `noun`. `row` is the row with the value that is not ours.
    pub(super) fn refuses(
        self,
        columns: &AddedColumns,
        noun: &str,
        file: &str,
        row: usize,
    ) -> Error {
        let name = self.name(columns);
        let (shown, kept) = (quoted(name), quoted(&format!("{PREVIOUS}{name}")));
        let recognised: Vec<_> = columns
            .iter()
            .take(KEY_COLUMNS)
            .map(|name| quoted(name))
            .collect();
        let other_names = format!("`--prefix rescore_` writes the new {noun}s under other names");
        match self {
            Self::Present(_) => Error::usage(format!("{file} already has {shown}"))
                .hint(format!("`--existing keep` renames it to {kept}; {other_names}")),
            Self::Both(_) => {
                Error::usage(format!("{file} has both {shown} and {kept}")).hint(format!(
                    "{other_names}; without `--existing keep`, values of an earlier run are replaced"
                ))
            }
            Self::Alone(_) | Self::Foreign(_) => {
                let error = Error::usage(format!(
                    "{file} already has {shown}, which does not come from rescore and would be replaced"
                ));
                let error = if let Self::Foreign(_) = self {
                    error.detail(format!("rescore never writes a value such as the one in row {row}"))
                } else {
                    error.detail(format!(
                        "{noun}s are replaced only if {} are all there, as in rescore's own output",
                        recognised.join(", ")
                    ))
                };
                let other_name = match columns.content(self.column()) {
                    ColumnContent::Captured(_) => "give `--column` another name; ",
                    ColumnContent::Reason => "give `--reason-column` another name; ",
                    _ => "",
                };
                error.hint(format!(
                    "{other_name}`--existing keep` renames it to {kept}; {other_names}"
                ))
            }
        }
    }

    /// The failure of a row after those by which the file was checked.
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
                format!("the row has {shown} without the other members of an earlier run")
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

/// The field that is taken from this column, alone or together with others.
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

/// The error if a field is taken from a column that would be written: whatever `--existing` says,
/// the next run would send our values.
pub(super) fn is_source(column: &str, field: Field, noun: &str, file: &str) -> Error {
    Error::usage(format!(
        "a new {noun} cannot be named {}: {file} has the field `{field}` in that {noun}",
        quoted(column)
    ))
    .hint(format!(
        "give it another name, or give all new {noun}s a prefix with `--prefix rescore_`"
    ))
}

/// Whether we could have written this value into a column with this content: it is empty or has the right form.
/// `None` is a value that is not text.
pub(super) fn fits(content: ColumnContent, text: Option<&str>) -> bool {
    let Some(text) = text else {
        return matches!(content, ColumnContent::Captured(_));
    };
    let is_score = || {
        // A JSON number, which `01` and `1.` are not.
        Score::from_json_number(text).is_ok() && serde_json::from_str::<IgnoredAny>(text).is_ok()
    };
    text.is_empty()
        || match content {
            ColumnContent::TransactionId => TransactionId::new(text).is_ok(),
            ColumnContent::Score => is_score(),
            ColumnContent::Decision => Decision::of_word(text).is_some(),
            ColumnContent::Captured(_) => true,
            ColumnContent::Reason => Reason::of_word(text).is_some(),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_we_write_fit_and_others_do_not() {
        for (content, fitting, foreign) in [
            (
                ColumnContent::TransactionId,
                &["", "t-1", "8f14e45f"][..],
                &["=1+1", "a\u{1b}b"][..],
            ),
            (
                ColumnContent::Score,
                &["", "1.50", "-0.5", "1e2"],
                &["low", "01", "1.", "1,5", " 1", "NaN"],
            ),
            (
                ColumnContent::Decision,
                &["", "approve", "review", "block"],
                &["manually approved by Eve", "Block", " block"],
            ),
            (ColumnContent::Captured(0), &["", "anything"], &[]),
            (
                ColumnContent::Reason,
                &["", "refused", "not_json"],
                &["Refused", "was fired"],
            ),
        ] {
            for (texts, expected) in [(fitting, true), (foreign, false)] {
                for text in texts {
                    assert_eq!(fits(content, Some(text)), expected, "{content:?} {text}");
                }
            }
        }
        let columns = AddedColumns::new("", ["x"], Some("reason"));
        assert_eq!(
            [0, 1, 2, 3, 4].map(|column| fits(columns.content(column), None)),
            [false, false, false, true, false]
        );
    }

    #[test]
    fn only_all_three_columns_with_our_values_are_ours() {
        let found = |columns: &[usize]| -> Vec<_> {
            let found = |column: &usize| OurColumn {
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
        one_foreign.extend([OurColumn {
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
