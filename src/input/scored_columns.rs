//! Columns of the input that have the names of the columns that rescore writes: whether an earlier run wrote them, and the errors
//! for those of somebody else.
//!
//! Columns of an earlier run are recognised by each other and by their values: `transaction_id`, `risk_score` and `decision`
//! must all be there, with values that rescore could have written. All others belong to the user and are never replaced. This
//! file must not know how rows are parsed.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use crate::base::error::Error;
use crate::base::text::quoted;
use crate::fields::{self, ColumnSource, Field, Part, PerField};
use crate::layout::{AddedColumns, ColumnContent, SCORE_COLUMN, VERDICT_COLUMNS};
use crate::raw_json;
use crate::verdict::{Decision, Failure, Reason, Score, id_cell};

/// The hint for a scored file whose columns have other names.
pub(super) const HINT_PREFIX: &str = "with `--prefix`, name the prefix of their columns";

/// Why a header or a row must not be changed: it has columns with the names of those that rescore writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conflict {
    /// It has this column without all three of the verdict.
    Alone(usize),
    /// It has a value that rescore never writes, in this column.
    Foreign(usize),
}

impl Conflict {
    /// What is wrong with a header or an object that has the `found` columns; rescore never writes the value that it has in the
    /// `foreign` one.
    pub(super) fn of(
        found: &(impl Iterator<Item = usize> + Clone),
        foreign: Option<usize>,
    ) -> Option<Self> {
        if let Some(foreign) = foreign {
            return Some(Self::Foreign(foreign));
        }
        let first = found.clone().next()?;
        let has = |column| found.clone().any(|other| other == column);
        (!(0..VERDICT_COLUMNS.len()).all(has)).then_some(Self::Alone(first))
    }

    /// The error for the file, whose format calls a column `noun`. `row` is the row with the foreign value.
    pub(super) fn refuses(
        self,
        columns: &AddedColumns,
        noun: &str,
        file: &str,
        row: usize,
    ) -> Error {
        let error = Error::usage(format!(
            "{file} already has {}, which does not come from rescore and would be replaced",
            quoted(self.name(columns))
        ));
        let (Self::Alone(column) | Self::Foreign(column)) = self;
        let error = error.detail(match self {
            Self::Foreign(_) => {
                format!("rescore never writes a value like the one in row {row}")
            }
            Self::Alone(_) => {
                let verdict = columns.iter().take(VERDICT_COLUMNS.len());
                let verdict: Vec<_> = verdict.map(|name| quoted(name)).collect();
                format!(
                    "{noun}s are replaced only if the file has all of {}, as rescore writes them",
                    verdict.join(", ")
                )
            }
        });
        let other_name = match columns.content(column) {
            ColumnContent::Captured(_) => "give `--column` another name; ",
            ColumnContent::Reason => "give `--reason-column` another name; ",
            _ => "",
        };
        error.hint(format!(
            "{other_name}`--prefix rescore_` writes the new {noun}s under other names"
        ))
    }

    /// The failure of a row after those by which the file was checked.
    pub(super) fn fails(self, columns: &[String]) -> Failure {
        let name = quoted(self.name(columns));
        let message = match self {
            Self::Alone(_) => {
                format!("the row has {name} without the other members of an earlier run")
            }
            Self::Foreign(_) => format!("the row has a value in {name} that rescore never writes"),
        };
        Failure::new(Reason::ExistingColumns, message)
    }

    fn name(self, columns: &[String]) -> &str {
        let (Self::Alone(column) | Self::Foreign(column)) = self;
        columns.get(column).map_or("", String::as_str)
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

/// The error if a field is taken from a column that would be written: the next run would send what this one has written.
pub(super) fn is_source(column: &str, field: Field, noun: &str, file: &str) -> Error {
    Error::usage(format!(
        "a new {noun} cannot be named {}: {file} has the field `{field}` in that {noun}",
        quoted(column)
    ))
    .hint(format!(
        "give it another name, or give all new {noun}s a prefix with `--prefix rescore_`"
    ))
}

/// Whether rescore could have written this value into a column with this content: it is empty or has the right form. `None` is a
/// value that is not text.
pub(super) fn could_be_written(content: ColumnContent, text: Option<&str>) -> bool {
    let Some(text) = text else {
        return matches!(content, ColumnContent::Captured(_));
    };
    let is_score = || {
        // A JSON number, which `01` and `1.` are not.
        Score::from_json_number(text).is_ok() && serde_json::from_str::<IgnoredAny>(text).is_ok()
    };
    text.is_empty()
        || match content {
            ColumnContent::TransactionId => id_cell(text) == text,
            ColumnContent::Score => is_score(),
            ColumnContent::Decision => Decision::of_word(text).is_some(),
            ColumnContent::Captured(_) => true,
            ColumnContent::Reason => Reason::of_word(text).is_some(),
        }
}

/// The same for a value in an object: rescore writes scores as numbers, and all other values as strings or null.
pub(super) fn could_be_written_as_json(content: ColumnContent, value: &str) -> bool {
    let text = match value {
        "null" => Some(Cow::Borrowed("")),
        number if content == ColumnContent::Score => Some(Cow::Borrowed(number)),
        _ => raw_json::string(value),
    };
    // An object has an id as the service sent it, and only a cell has it made harmless.
    let is_id = content == ColumnContent::TransactionId && text.is_some();
    is_id || could_be_written(content, text.as_deref())
}

/// The error for a file without one of the columns that a run adds, among these `names`.
pub(super) fn lacks_scored(name: &str, noun: &str, names: &[String], file: &str) -> Error {
    Error::usage(format!(
        "{file} is not a scored file: it has no {noun} {}",
        quoted(name)
    ))
    .hint(format!("`rescore run` writes scored files; {HINT_PREFIX}"))
    .columns(fields::columns_line(noun, names))
}

/// The error for a file without a column that an option names, among these `names`.
pub(super) fn lacks(name: &str, noun: &str, names: &[String], file: &str) -> Error {
    let error = Error::usage(format!("no {noun} {} in {file}", quoted(name)));
    // Users copy pointers into an answer from `rescore run`; the field became a column.
    let last = name.rsplit('/').next().unwrap_or_default();
    let column = names.iter().find(|column| *column == last).cloned();
    let error = match column.or_else(|| fields::nearest(name, names)) {
        Some(near) => error.hint(format!("did you mean {}?", quoted(&near))),
        None => error,
    };
    error.columns(fields::columns_line(noun, names))
}

/// The error for a file with a value that rescore never writes in a column that a run adds.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_rescore_writes_are_told_from_others() {
        use ColumnContent::{Captured, Decision, Reason, Score, TransactionId};
        for (content, possible, foreign) in [
            (
                TransactionId,
                "|t-1|8f14e45f|-abc_1|'=1+1| |\u{6f22}",
                "=1+1|-1+1|a\u{1b}b",
            ),
            (Score, "|1.50|-0.5|1e2", "low|01|1.|1,5| 1|NaN"),
            (
                Decision,
                "|approve|review|block",
                "Block| block|good, says Eve",
            ),
            (Reason, "|refused|not_json", "Refused|was fired"),
        ] {
            for (texts, expected) in [(possible, true), (foreign, false)] {
                for text in texts.split('|') {
                    let found = could_be_written(content, Some(text));
                    assert_eq!(found, expected, "{content:?} {text}");
                }
            }
            assert!(!could_be_written(content, None), "{content:?}");
        }
        let captured = [None, Some(""), Some("anything")];
        assert!(captured.map(|it| could_be_written(Captured(0), it)) == [true; 3]);
    }

    #[test]
    fn only_all_three_columns_with_such_values_come_from_an_earlier_run() {
        let of = |columns: &[usize], foreign| Conflict::of(&columns.iter().copied(), foreign);
        for columns in [&[][..], &[2, 1, 0], &[0, 1, 2, 3]] {
            assert_eq!(of(columns, None), None);
        }
        assert_eq!(of(&[3], None), Some(Conflict::Alone(3)));
        assert_eq!(of(&[0, 2, 3], None), Some(Conflict::Alone(0)));
        assert_eq!(of(&[0, 1, 2], Some(1)), Some(Conflict::Foreign(1)));
    }
}
