//! Whether the names in a header may be shown: the first row of a file without a header is a user.

use super::aliases::{FIRST_NAMES, LAST_NAMES, each};
use super::field::Field;
use super::names::{plain, rank};
use super::sanitise::value_in;
use crate::base::error::{Error, column};
use crate::layout::VERDICT_COLUMNS;

/// More columns than this are counted, not listed: a wide export must not fill the screen.
const LISTED_COLUMNS: usize = 20;

/// So many names that are known are those of a header. A user may have one by chance: `email` as the way to be reached.
const CLEARLY_KNOWN: usize = 2;

/// Names in one line; `word` says what they name, such as `column`.
#[must_use]
pub(crate) fn columns_line(word: &str, names: &[String]) -> String {
    let shown = names.iter().take(LISTED_COLUMNS);
    let shown: Vec<_> = shown.map(|name| column(name)).collect();
    let more = names.len().saturating_sub(LISTED_COLUMNS);
    let tail = if more > 0 {
        format!(" … and {more} more")
    } else {
        String::new()
    };
    format!("{word}s: {}{tail}", shown.join(", "))
}

/// An error about a header, without the header's names if it may be a user: if a name looks like a user's value, or if
/// hardly any is known. One that is only like a known name may be a user's: `Emil`, or the surname `Nahme`.
///
/// `by_number` says what else `--no-header` needs, for a field and its column's number, and `otherwise` what to do if it
/// is a header.
#[must_use]
pub(crate) fn without_user(
    error: Error,
    header: &[String],
    file: &str,
    by_number: impl Fn(Field, usize) -> String,
    otherwise: &str,
) -> Error {
    let mut values = { (1..).zip(header) }
        .filter_map(|(number, name)| value_in(name).map(|field| (number, field)));
    if let Some((number, field)) = values.next() {
        return Error::usage(format!("row 1 of {file} does not look like a header"))
            .detail(format!(
                "column {number} holds what looks like a value for `{field}`"
            ))
            .hint(format!(
                "if there is no header, add `--no-header`{}",
                by_number(field, number)
            ));
    }
    let known = header.iter().filter(|name| is_known(name)).count();
    let is_clear = match header {
        // It may have all of a user behind another delimiter.
        [only] => is_known(only),
        _ => known >= CLEARLY_KNOWN,
    };
    if !error.lists_columns() || is_clear {
        return error;
    }
    let columns = match header {
        [_] => "1 column".to_owned(),
        _ => format!("{} columns", header.len()),
    };
    let error = error.columns(format!(
        "{columns} (not shown: if there is no header, the first row is a user)"
    ));
    match header {
        // Another delimiter is more likely.
        [_] => error,
        _ => error.hint(format!(
            "if there is no header, add `--no-header`{}; otherwise {otherwise}",
            by_number(Field::Name, 1)
        )),
    }
}

/// Whether it is the name of a field, of half a name, or of a column that rescore writes.
fn is_known(name: &str) -> bool {
    let plain = plain(name);
    let is_half = |names| each(names).any(|name| name == plain);
    rank(name).is_some()
        || is_half(FIRST_NAMES)
        || is_half(LAST_NAMES)
        || VERDICT_COLUMNS
            .iter()
            .any(|ours| name.trim().ends_with(ours))
}
