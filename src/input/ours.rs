//! Columns of the input with the names of our columns: whether they are ours, and the errors for those that are not.
//!
//! Our own columns are recognised by each other and by their values: `transaction_id`, `risk_score`
//! and `decision` must all be there, with values that we could have written. Anything else belongs
//! to the user and is never replaced. This file must not know how rows are parsed.

use serde::de::IgnoredAny;

use crate::base::error::Error;
use crate::base::text::quoted;
use crate::fields::{self, ColumnSource, Field, Part, PerField};
use crate::layout::{AddedColumns, ColumnContent, SCORE_COLUMN, VERDICT_COLUMNS};
use crate::verdict::{Decision, Failure, Reason, Score, id_cell};

/// The number of columns by which ours are recognised.
const KEY_COLUMNS: usize = VERDICT_COLUMNS.len();

/// What to do if the columns of a scored file have other names.
pub(super) const PREFIX: &str = "with `--prefix`, name the prefix of their columns";

/// Why a header or a row with columns that have our names must not be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conflict {
    /// Some of the columns by which ours are recognised are missing; this one is there.
    Alone(usize),
    /// A value that we never write, in this column.
    Foreign(usize),
}

impl Conflict {
    /// What is wrong with a header or an object that has these columns, of which `foreign` has a value that we never write.
    pub(super) fn of(
        found: &(impl Iterator<Item = usize> + Clone),
        foreign: Option<usize>,
    ) -> Option<Self> {
        if let Some(foreign) = foreign {
            return Some(Self::Foreign(foreign));
        }
        let first = found.clone().next()?;
        let has = |column| found.clone().any(|there| there == column);
        (!(0..KEY_COLUMNS).all(has)).then_some(Self::Alone(first))
    }

    /// The error for the file, whose format calls a column `noun`. `row` is the row with the value that is not ours.
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
                format!("rescore never writes a value such as the one in row {row}")
            }
            Self::Alone(_) => {
                let ours = columns.iter().take(KEY_COLUMNS);
                let ours: Vec<_> = ours.map(|name| quoted(name)).collect();
                format!(
                    "{noun}s are replaced only if {} are all there, as in rescore's own output",
                    ours.join(", ")
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
        let shown = quoted(self.name(columns));
        let message = match self {
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

/// The error if a field is taken from a column that would be written: the next run would send our values.
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
            ColumnContent::TransactionId => id_cell(text) == text,
            ColumnContent::Score => is_score(),
            ColumnContent::Decision => Decision::of_word(text).is_some(),
            ColumnContent::Captured(_) => true,
            ColumnContent::Reason => Reason::of_word(text).is_some(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_we_write_fit_and_others_do_not() {
        use ColumnContent::{Captured, Decision, Reason, Score, TransactionId};
        for (content, fitting, foreign) in [
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
            for (texts, expected) in [(fitting, true), (foreign, false)] {
                for text in texts.split('|') {
                    assert_eq!(fits(content, Some(text)), expected, "{content:?} {text}");
                }
            }
            assert!(!fits(content, None), "{content:?}");
        }
        assert!([None, Some(""), Some("anything")].map(|it| fits(Captured(0), it)) == [true; 3]);
    }

    #[test]
    fn only_all_three_columns_with_our_values_are_ours() {
        let of = |columns: &[usize], foreign| Conflict::of(&columns.iter().copied(), foreign);
        for columns in [&[][..], &[2, 1, 0], &[0, 1, 2, 3]] {
            assert_eq!(of(columns, None), None);
        }
        assert_eq!(of(&[3], None), Some(Conflict::Alone(3)));
        assert_eq!(of(&[0, 2, 3], None), Some(Conflict::Alone(0)));
        assert_eq!(of(&[0, 1, 2], Some(1)), Some(Conflict::Foreign(1)));
    }
}
