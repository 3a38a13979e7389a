//! Columns that are needed and not there: all of them in one error, with those that may be meant.

use super::mapping::{Assigned, Assignments, columns_line};
use super::{Field, Template, names};
use crate::base::error::{Error, quoted};
use crate::raw_json::Pointer;

/// A field that gets no value from any row.
enum Missing<'a> {
    /// No column means it.
    Unmapped(Field),
    /// `--map` takes it from columns of which these are not there.
    Named(Field, &'a Template<String>, Vec<&'a str>),
}

/// Which of the fields' columns must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needed {
    /// Those of required fields: of a file's other members too few were seen.
    Required,
    /// Those that a `--map` names as well.
    All,
}

/// Fails where columns are missing. `is_there` tells whether a column that a `--map` names is.
pub(super) fn refuse(
    assignments: &Assignments,
    columns: &[String],
    needed: Needed,
    is_there: impl Fn(&str) -> bool,
    file: &str,
) -> Result<(), Error> {
    let is_of =
        |field: Field, name: &str| names::rank(name).is_some_and(|(found, _)| found == field);
    let is_absent = |field: Field| {
        assignments.get(field).is_none() && !columns.iter().any(|name| is_of(field, name))
    };
    let missing = |field: Field| match assignments.get(field) {
        Some(Assigned::Columns(template)) if needed == Needed::All => {
            let names: Vec<_> = template.columns().filter(|name| !is_there(name)).collect();
            (!names.is_empty()).then_some(Missing::Named(field, template, names))
        }
        _ => {
            let is_required = match field {
                Field::Name | Field::Ip | Field::UserAgent => true,
                Field::Email => is_absent(Field::Phone),
                Field::Phone => false,
            };
            (is_required && is_absent(field)).then_some(Missing::Unmapped(field))
        }
    };
    let missing: Vec<_> = Field::ALL.into_iter().filter_map(missing).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let words = |named: bool| {
        let of =
            { missing.iter() }.filter(|missing| matches!(missing, Missing::Named(..)) == named);
        listed(&of.map(Missing::words).collect::<Vec<_>>())
    };
    let words = match (words(true), words(false)) {
        (named, unmapped) if named.is_empty() || unmapped.is_empty() => named + &unmapped,
        (named, unmapped) => format!("{named}, and none {unmapped},"),
    };
    let error = Error::usage(format!("no column {words} in {file}")).detail(columns_line(columns));
    let meant: Vec<_> = missing
        .iter()
        .filter_map(|missing| missing.meant(columns))
        .collect();
    Err(match missing.first() {
        Some(first) if meant.is_empty() => {
            let field = first.field();
            let it = if missing.len() > 1 { "each" } else { "it" };
            error.hint(format!(
                "name {it} with `--map {field}=COLUMN`, or give a constant with `--set {field}=VALUE`"
            ))
        }
        _ => error.hint(format!("did you mean `{}`?", meant.join(" "))),
    })
}

/// As they stand in a sentence.
fn listed(words: &[String]) -> String {
    match words.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => words.concat(),
    }
}

impl Missing<'_> {
    const fn field(&self) -> Field {
        match self {
            Self::Unmapped(field) | Self::Named(field, ..) => *field,
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Unmapped(Field::Email) => "for `email` or `phone`".to_owned(),
            Self::Unmapped(field) => format!("for `{field}`"),
            Self::Named(field, _, names) => {
                let names: Vec<_> = names.iter().map(|name| quoted(name)).collect();
                format!("{} for `--map {field}=…`", names.join(", "))
            }
        }
    }

    /// The option that may be meant.
    fn meant(&self, columns: &[String]) -> Option<String> {
        let (field, template, names) = match self {
            Self::Unmapped(field) => return names::suggestion(*field, columns),
            Self::Named(field, template, names) => (field, template, names),
        };
        let near = template.try_map(|name| {
            if names.contains(&name.as_str()) {
                nearest(name, columns).ok_or(())
            } else {
                Ok(name.clone())
            }
        });
        match near {
            Ok(template) => {
                let shown = template.to_string();
                Some(names::option(*field, shown.trim_matches('`')))
            }
            Err(()) => names::suggestion(*field, columns),
        }
    }
}

/// The column that is written most like `name`, which may be a pointer into a member.
fn nearest(name: &str, columns: &[String]) -> Option<String> {
    /// Below this, jaro-winkler calls `note` like `name`.
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
