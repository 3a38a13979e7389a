//! Errors about the columns of a file: required ones that are missing, all of them in one error, with suggestions; and whether
//! the names in a header may be shown, as the first row of a file without a header is a user.

use super::names;
use super::names::Field;
use super::sanitise::value_in;
use super::template::{Assigned, Assignments, Template};
use crate::base::error::Error;
use crate::base::text::{column, quoted};
use crate::layout::VERDICT_COLUMNS;
use crate::raw_json::Pointer;

/// How much of a file was read for its mapping: a header is all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemberSample {
    /// Too few objects to judge the others by.
    Few,
    /// Enough objects to judge the others by. There may still be one that has what `--map` names.
    Part,
    /// The whole file.
    Whole,
}

/// What is missing: in words, with the options that name it and those that may have been meant.
struct MissingColumn {
    words: String,
    meant: Option<String>,
    /// The option with `…` for what is not known.
    option: String,
    fix: String,
}

/// Fails if columns are missing, as far as so much of the file shows it: those of required fields, and those that `--map` and
/// `--phone-region-column` name. `is_there` tells whether one of these exists. `word` says what names name: `column` or `member`.
/// `further` are the pointers to nested members.
pub(super) fn refuse(
    assignments: &Assignments,
    (word, (columns, further)): (&'static str, (&[String], &[String])),
    sample: MemberSample,
    is_there: impl Fn(&str) -> bool,
    file: &str,
) -> Result<(), Error> {
    let is_absent = |field: Field| {
        assignments.get(field).is_none() && !columns.iter().any(|name| names::is_of(field, name))
    };
    let is_required = |field: Field| match field {
        Field::Name | Field::Ip | Field::UserAgent => true,
        Field::Email => is_absent(Field::Phone),
        Field::Phone => false,
    };
    let mut unmapped = Field::ALL.to_vec();
    unmapped.retain(|field| is_required(*field) && is_absent(*field));
    let mut missing = match sample {
        MemberSample::Whole => named(assignments, (word, columns), is_there),
        MemberSample::Few | MemberSample::Part => Vec::new(),
    };
    let is_enough = missing.is_empty() && unmapped.is_empty() || assignments.is_list;
    if is_enough || sample == MemberSample::Few {
        return Ok(());
    }
    let none = if missing.is_empty() { "" } else { "none " };
    let all = [columns, further].concat();
    missing.extend(unmapped.into_iter().map(|field| MissingColumn {
        words: match field {
            Field::Email => format!("{none}for `email` or `phone`"),
            field => format!("{none}for `{field}`"),
        },
        meant: names::suggestion(field, &all),
        option: format!("--map {field}=…"),
        fix: fix(field, word),
    }));
    let words: Vec<_> = missing
        .iter()
        .map(|missing| missing.words.as_str())
        .collect();
    let words = match words.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => words.concat(),
    };
    let error = Error::usage(format!("no {word} {words} in {file}"));
    let error = error.columns(columns_line(word, columns));
    let meant = |missing: &MissingColumn| missing.meant.clone();
    let options: Vec<_> = { missing.iter() }
        .map(|missing| meant(missing).unwrap_or_else(|| missing.option.clone()))
        .collect();
    let known = missing.iter().filter_map(meant).count();
    Err(match &*missing {
        [only] if known == 0 => error.hint(only.fix.clone()),
        all if known == all.len() => error.hint(format!("did you mean `{}`?", options.join(" "))),
        _ => error.hint(format!(
            "`{}` with the names of {word}s for `…`; `--set FIELD=VALUE` gives a constant",
            options.join(" ")
        )),
    })
}

/// The columns that `--map` and `--phone-region-column` name and that are missing.
fn named(
    assignments: &Assignments,
    (word, columns): (&str, &[String]),
    is_there: impl Fn(&str) -> bool,
) -> Vec<MissingColumn> {
    let mut missing = Vec::new();
    for field in Field::ALL {
        if let Some(Assigned::Columns(template)) = assignments.get(field)
            && let Some(name) = template.columns().find(|name| !is_there(name))
        {
            missing.push(MissingColumn {
                words: format!("{} for `--map {field}=…`", quoted(name)),
                meant: meant(field, template, columns, &is_there),
                option: format!("--map {field}=…"),
                fix: fix(field, word),
            });
        }
    }
    if let Some(name) = { assignments.region_column() }.filter(|name| !is_there(name)) {
        let option = |near: String| format!("--phone-region-column '{near}'");
        missing.push(MissingColumn {
            words: format!("{} for `--phone-region-column`", quoted(name)),
            meant: nearest(name, columns).map(option),
            option: "--phone-region-column …".to_owned(),
            fix: format!(
                "name the {word} with the codes of countries, or give the same for all rows, as in `--phone-region DE`"
            ),
        });
    }
    missing
}

/// How to name the column of a field.
fn fix(field: Field, word: &str) -> String {
    let name = match word {
        // One that is not in the outermost object has a pointer.
        "member" => "MEMBER`, such as `/device/ip",
        _ => "COLUMN",
    };
    format!(
        "name the {word} with `--map {field}={name}`, or give a constant with `--set {field}=VALUE`"
    )
}

/// The option that may have been meant where `--map` names columns that are not there.
fn meant(
    field: Field,
    template: &Template<String>,
    columns: &[String],
    is_there: impl Fn(&str) -> bool,
) -> Option<String> {
    let near = template.try_map(|name| match nearest(name, columns) {
        _ if is_there(name) => Ok(name.clone()),
        near => near.ok_or(()),
    });
    match near {
        Ok(template) => {
            let shown = template.to_string();
            Some(names::option(field, shown.trim_matches('`')))
        }
        // A column that is found by its name need not be mapped.
        Err(()) if columns.iter().any(|name| names::is_of(field, name)) => None,
        Err(()) => names::suggestion(field, columns),
    }
}

/// The column whose spelling is nearest to `name`, which may be a pointer into a member.
pub(crate) fn nearest(name: &str, columns: &[String]) -> Option<String> {
    let pointer = Pointer::parse(name).unwrap_or_else(|_| Pointer::of_member(name));
    let member = pointer.split_first().0;
    let plain = |name: &str| name.trim().to_lowercase();
    let likeness = |column: &String| names::likeness(&plain(column), &plain(member));
    let near = columns.iter().filter_map(|it| Some((likeness(it)?, it)));
    let (_, best) = near.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(name.replacen(member, best, 1))
}

/// More columns than this are counted, not listed: a wide export must not fill the screen.
const LISTED_COLUMNS: usize = 20;

/// With this number of known names, a row is a header. A user may have one by chance: `email` as the way to be reached.
const CLEARLY_KNOWN: usize = 2;

/// Names in one line; `word` says what they name, such as `column`.
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

/// The first column of a frame from Python, whose columns always have names.
const FRAME_ROW: &str = "rescore_row";

/// An error about a header, without the header's names if it may be a user: if a name looks like a user's value, or if
/// hardly any is known. One that is only like a known name may be a user's: `Emil`, or the surname `Nahme`.
///
/// `by_number` says what else `--no-header` needs, for a field and its column's number, and `otherwise` what to do if it
/// is a header.
pub(crate) fn without_user(
    error: Error,
    header: &[String],
    file: &str,
    by_number: impl Fn(Field, usize) -> String,
    otherwise: &str,
) -> Error {
    if header.first().is_some_and(|name| name == FRAME_ROW) {
        return error;
    }
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
    let is_ours = |ours: &&str| name.trim().ends_with(ours);
    names::is_known(name) || VERDICT_COLUMNS.iter().any(is_ours)
}
