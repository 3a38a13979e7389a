//! Required columns that are missing: all of them in one error, with suggestions.

use super::assignments::{Assigned, Assignments};
use super::field::Field;
use super::header::columns_line;
use super::names;
use super::template::Template;
use crate::base::error::{Error, quoted};
use crate::raw_json::Pointer;

/// Which columns must exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Requirement {
    /// Those of required fields: too few of the file's other members were seen.
    Required,
    /// Those, and the columns that `--map` and `--phone-region-column` name.
    All,
}

/// The columns of a file, or the members of its objects.
#[derive(Clone, Copy)]
pub(super) struct NamesInFile<'a> {
    /// `column` or `member`.
    pub(super) word: &'static str,
    pub(super) names: &'a [String],
}

/// What is missing: in words, with the options that name it and those that may have been meant.
struct MissingColumn {
    words: String,
    meant: Option<String>,
    fix: String,
}

/// Fails if columns are missing. `is_there` tells whether a column that `--map` names exists.
pub(super) fn refuse(
    assignments: &Assignments,
    columns: NamesInFile<'_>,
    needed: Requirement,
    is_there: impl Fn(&str) -> bool,
    file: &str,
) -> Result<(), Error> {
    let NamesInFile {
        word,
        names: columns,
    } = columns;
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
    let mut missing = match needed {
        Requirement::All => named(assignments, (word, columns), is_there),
        Requirement::Required => Vec::new(),
    };
    if missing.is_empty() && unmapped.is_empty() {
        return Ok(());
    }
    let none = if missing.is_empty() { "" } else { "none " };
    missing.extend(unmapped.into_iter().map(|field| MissingColumn {
        words: match field {
            Field::Email => format!("{none}for `email` or `phone`"),
            field => format!("{none}for `{field}`"),
        },
        meant: names::suggestion(field, columns),
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
    let meant: Vec<_> = { missing.iter() }
        .filter_map(|missing| missing.meant.as_deref())
        .collect();
    Err(match missing.first() {
        Some(first) if meant.is_empty() => error.hint(first.fix.clone()),
        _ => error.hint(format!("did you mean `{}`?", meant.join(" "))),
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
                fix: fix(field, word),
            });
        }
    }
    if let Some(name) = { assignments.region_column() }.filter(|name| !is_there(name)) {
        let option = |near: String| names::with_column("--phone-region-column ", &near);
        missing.push(MissingColumn {
            words: format!("{} for `--phone-region-column`", quoted(name)),
            meant: nearest(name, columns).map(option),
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
#[must_use]
pub(crate) fn nearest(name: &str, columns: &[String]) -> Option<String> {
    /// Below this, Jaro-Winkler finds `note` similar to `name`.
    const ALIKE: f64 = 0.88;
    let pointer = Pointer::parse(name).unwrap_or_else(|_| Pointer::of_member(name));
    let member = pointer.split_first().0;
    let plain = |name: &str| name.trim().to_lowercase();
    let likeness = |column: &&String| strsim::jaro_winkler(&plain(column), &plain(member));
    let best = columns
        .iter()
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(&best) >= ALIKE).then(|| name.replacen(member, best, 1))
}
