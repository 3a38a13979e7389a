//! Required columns that are missing: all of them in one error, with suggestions.

use super::assignments::{Assigned, Assignments};
use super::field::Field;
use super::header::columns_line;
use super::names;
use super::template::Template;
use crate::base::error::{Error, quoted};
use crate::raw_json::Pointer;

/// A field that would get no value in any row, or a column that is named and missing.
enum MissingField<'a> {
    /// No column matches it.
    Unmapped(Field),
    /// `--map` takes it from columns, and these are missing.
    Named(Field, &'a Template<String>, Vec<&'a str>),
    /// `--phone-region-column` names this column, which is missing.
    Region(&'a str),
}

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
    let missing = |field: Field| match assignments.get(field) {
        Some(Assigned::Columns(template)) if needed == Requirement::All => {
            let names: Vec<_> = template.columns().filter(|name| !is_there(name)).collect();
            (!names.is_empty()).then_some(MissingField::Named(field, template, names))
        }
        _ => {
            let is_required = match field {
                Field::Name | Field::Ip | Field::UserAgent => true,
                Field::Email => is_absent(Field::Phone),
                Field::Phone => false,
            };
            (is_required && is_absent(field)).then_some(MissingField::Unmapped(field))
        }
    };
    let region = { assignments.region_column() }
        .filter(|name| needed == Requirement::All && !is_there(name))
        .map(MissingField::Region);
    let fields = Field::ALL.into_iter().filter_map(missing);
    let missing: Vec<_> = fields.chain(region).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let words = |named: bool| {
        let of = { missing.iter() }
            .filter(|missing| matches!(missing, MissingField::Unmapped(_)) != named);
        listed(&of.map(MissingField::words).collect::<Vec<_>>())
    };
    let words = match (words(true), words(false)) {
        (named, unmapped) if named.is_empty() || unmapped.is_empty() => named + &unmapped,
        (named, unmapped) => format!("{named}, and none {unmapped},"),
    };
    // Those that `--map` names come first.
    let several = |missing: &MissingField<'_>| matches!(missing, MissingField::Named(_, _, names) if names.len() > 1);
    let is_named = |missing: &&MissingField<'_>| !matches!(missing, MissingField::Unmapped(_));
    let plural = match missing.iter().find(is_named) {
        Some(first) if several(first) => "s",
        _ => "",
    };
    let error = Error::usage(format!("no {word}{plural} {words} in {file}"));
    let error = error.columns(columns_line(word, columns));
    let meant: Vec<_> = { missing.iter() }
        .filter_map(|missing| missing.meant(columns))
        .collect();
    Err(match missing.first() {
        Some(first) if meant.is_empty() => error.hint(first.fix(word, missing.len() > 1)),
        _ => error.hint(format!("did you mean `{}`?", meant.join(" "))),
    })
}

/// Words as a list in a sentence.
fn listed(words: &[String]) -> String {
    match words.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => words.concat(),
    }
}

impl MissingField<'_> {
    /// How to name the column, or if there are `several`, each of them.
    fn fix(&self, word: &str, several: bool) -> String {
        let which = if several { "each" } else { "the" };
        match self {
            Self::Unmapped(field) | Self::Named(field, ..) => {
                let name = match word {
                    // One that is not in the outermost object has a pointer.
                    "member" => "MEMBER`, such as `/device/ip",
                    _ => "COLUMN",
                };
                format!(
                    "name {which} {word} with `--map {field}={name}`, or give a constant with `--set {field}=VALUE`"
                )
            }
            Self::Region(_) => format!(
                "name the {word} with the codes of countries, or give the same for all rows, as in \
                 `--phone-region DE`"
            ),
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Unmapped(Field::Email) => "for `email` or `phone`".to_owned(),
            Self::Unmapped(field) => format!("for `{field}`"),
            Self::Named(field, _, names) => {
                let names: Vec<_> = names.iter().map(|name| quoted(name)).collect();
                format!("{} for `--map {field}=…`", listed(&names))
            }
            Self::Region(name) => format!("{} for `--phone-region-column`", quoted(name)),
        }
    }

    /// The option that the user may have meant.
    fn meant(&self, columns: &[String]) -> Option<String> {
        let (field, template, names) = match self {
            Self::Unmapped(field) => return names::suggestion(*field, columns),
            Self::Named(field, template, names) => (field, template, names),
            Self::Region(name) => {
                let near = nearest(name, columns)?;
                return Some(names::with_column("--phone-region-column ", &near));
            }
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
            // A column that is found by its name need not be mapped.
            Err(()) if columns.iter().any(|name| names::is_of(*field, name)) => None,
            Err(()) => names::suggestion(*field, columns),
        }
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
