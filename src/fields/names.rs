//! Which column names mean which field, and which ones are near enough for a hint.
//!
//! A name that means a field beyond doubt is used. One that might (`last_login_ip`, `first_name`)
//! is only suggested: a wrong guess would be paid for in every row.

use super::aliases::{BARE_NAMES, FIRST_NAMES, LAST_NAMES, aliases, each};
use super::field::Field;
use crate::base::error::COLUMN_CHARACTERS;

/// A name without case, spaces, punctuation and the accents of the supported languages.
pub(super) fn plain(name: &str) -> String {
    let without_accent = |c: char| match c {
        'à'..='å' => 'a',
        'ç' => 'c',
        'è'..='ë' => 'e',
        'ì'..='ï' => 'i',
        'ñ' => 'n',
        'ò'..='ö' => 'o',
        'ù'..='ü' => 'u',
        c => c,
    };
    name.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .map(without_accent)
        .collect()
}

/// The field that a column's name means, and its rank: 0 is the field's own name.
#[must_use]
pub(crate) fn rank(name: &str) -> Option<(Field, usize)> {
    let plain = plain(name);
    Field::ALL.into_iter().find_map(|field| {
        let place = aliases(field).position(|alias| alias == plain)?;
        Some((field, place))
    })
}

/// A column that may be the other half of a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HalfName<'a> {
    /// Its name, which could also mean a full name.
    pub(super) column: &'a str,
    /// The column with the other half.
    pub(super) other: &'a str,
    /// What it may be: `first` or `last`.
    pub(super) which: &'static str,
    /// The `--map` option that joins both.
    pub(super) map: String,
}

/// The column that may be only half of a name: there is a column for one half, and no other column
/// for the second half. Sent alone, it would be a wrong name in every row.
pub(super) fn half(columns: &[String]) -> Option<HalfName<'_>> {
    let find = |names| {
        let is_in = |column: &&String| each(names).any(|name| name == plain(column));
        columns.iter().find(is_in)
    };
    let column = find(BARE_NAMES)?;
    let (other, which, map) = match (find(FIRST_NAMES), find(LAST_NAMES)) {
        (Some(first), None) => (first, "last", joined(first, column)),
        (None, Some(last)) => (last, "first", joined(column, last)),
        _ => return None,
    };
    Some(HalfName {
        column,
        other,
        which,
        map,
    })
}

fn joined(first: &str, last: &str) -> String {
    format!("--map 'name={{{first}}} {{{last}}}'")
}

/// Whether a column of this name is taken for this field.
#[must_use]
pub(super) fn is_of(field: Field, name: &str) -> bool {
    rank(name).is_some_and(|(found, _)| found == field)
}

/// The `--map` option to suggest for a field without a column.
#[must_use]
pub(crate) fn suggestion(field: Field, columns: &[String]) -> Option<String> {
    // Nobody types a name that is too long to be shown.
    let is_short = |column: &&String| column.chars().count() <= COLUMN_CHARACTERS;
    let columns: Vec<_> = columns.iter().filter(is_short).collect();
    let having = |parts| {
        let has = |column: &&&String| each(parts).any(|part| plain(column).contains(part));
        columns.iter().find(has)
    };
    if field == Field::Name
        && let Some(first) = having(FIRST_NAMES)
        && let Some(last) = having(LAST_NAMES)
    {
        return Some(joined(first, last));
    }
    let words = |column: &str| -> Vec<String> {
        column
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect()
    };
    let by_word = columns.iter().find(|column| {
        let words = words(column);
        aliases(field).any(|alias| words.iter().any(|word| word == alias))
    });
    let by_spelling = || {
        columns
            .iter()
            .map(|column| {
                let plain = plain(column);
                // Jaro-Winkler favours a common prefix: it finds `users` similar to `user ip`.
                let near =
                    |alias: &&str| strsim::normalized_damerau_levenshtein(alias, &plain) >= 0.7;
                let likeness = { aliases(field) }
                    .filter(near)
                    .map(|alias| strsim::jaro_winkler(alias, &plain))
                    .fold(0.0, f64::max);
                (likeness, column)
            })
            // Below this, Jaro-Winkler finds `note` similar to `name`.
            .filter(|(likeness, _)| *likeness >= 0.88)
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, column)| column)
    };
    let column = by_word.or_else(by_spelling)?;
    Some(option(field, column))
}

/// The `--map` option as the user would type it.
pub(super) fn option(field: Field, column: &str) -> String {
    let quote = quote(column);
    format!("--map {quote}{field}={column}{quote}")
}

/// An option that takes only a column, as the user would type it.
pub(super) fn with_column(option: &str, column: &str) -> String {
    let quote = quote(column);
    format!("{option}{quote}{column}{quote}")
}

/// The quotes that a shell needs around a column's name.
fn quote(column: &str) -> &'static str {
    if column.contains(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')) {
        "'"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_variants_are_understood() {
        for (name, field) in [
            ("E-mail", Field::Email),
            ("email_address", Field::Email),
            ("Full Name", Field::Name),
            ("ip_address", Field::Ip),
            ("userAgent", Field::UserAgent),
            ("UA", Field::UserAgent),
            ("Phone Number", Field::Phone),
        ] {
            assert_eq!(rank(name).map(|(field, _)| field), Some(field), "{name}");
        }
        for name in ["last_login_ip", "first_name", "username", "country", ""] {
            assert_eq!(rank(name), None, "{name}");
        }
    }

    #[test]
    fn near_names_are_only_suggested() {
        let columns = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            suggestion(Field::Ip, &columns(&["id", "last_login_ip"])).as_deref(),
            Some("--map ip=last_login_ip")
        );
        assert_eq!(
            suggestion(Field::Name, &columns(&["First Name", "Last Name"])).as_deref(),
            Some("--map 'name={First Name} {Last Name}'")
        );
        assert_eq!(
            suggestion(Field::Email, &columns(&["id", "emial"])).as_deref(),
            Some("--map email=emial")
        );
        for (field, other) in [
            (Field::Name, "note"),
            (Field::Name, "customer"),
            (Field::Email, "customer"),
            (Field::Ip, "users"),
        ] {
            assert_eq!(suggestion(field, &columns(&["id", other])), None, "{other}");
        }
    }

    /// The document's names for a field, in the form in which they are compared.
    fn documented(row: &str) -> Vec<String> {
        let document = include_str!("../../docs/columns.md");
        let start = format!("| {row} |");
        let lines = document.lines().filter(|line| line.starts_with(&start));
        let names = lines.flat_map(|line| line.split('`').skip(1).step_by(2));
        let mut names: Vec<_> = names.map(plain).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    #[test]
    fn the_document_has_all_names_and_no_others() {
        let sorted = |mut names: Vec<&str>| {
            names.sort_unstable();
            names.into_iter().map(ToOwned::to_owned).collect::<Vec<_>>()
        };
        for field in Field::ALL {
            let names = aliases(field).collect();
            assert_eq!(documented(field.name()), sorted(names), "{field}");
        }
        for (row, names) in [("first name", FIRST_NAMES), ("last name", LAST_NAMES)] {
            assert_eq!(documented(row), sorted(each(names).collect()));
        }
        let known = aliases(Field::Name).take(each(BARE_NAMES).count());
        assert!(known.eq(each(BARE_NAMES)));
    }

    #[test]
    fn names_in_other_languages_are_understood_with_and_without_accents() {
        for (name, field) in [
            ("E-Mail-Adresse", Field::Email),
            ("Téléphone", Field::Phone),
            ("Te\u{301}le\u{301}phone", Field::Phone),
            ("CORREO_ELECTRONICO", Field::Email),
            ("Endereço IP", Field::Ip),
            ("Nome e cognome", Field::Name),
            ("Telefoonnr.", Field::Phone),
        ] {
            assert_eq!(rank(name).map(|(field, _)| field), Some(field), "{name}");
        }
        for name in ["Prénom", "Nachname", "Straße", "Adresse", "Número"] {
            assert_eq!(rank(name), None, "{name}");
        }
    }

    #[test]
    fn a_column_may_be_half_of_a_name_if_there_is_one_for_the_other_half() {
        let columns = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        for (names, expected) in [
            (
                &["Vorname", "Name", "ip"][..],
                Some("--map 'name={Vorname} {Name}'"),
            ),
            (&["nom", "prénom"], Some("--map 'name={prénom} {nom}'")),
            (&["Nome", "Cognome"], Some("--map 'name={Nome} {Cognome}'")),
            (
                &["apellidos", "nombre"],
                Some("--map 'name={nombre} {apellidos}'"),
            ),
            // Both halves exist: the third column is the full name.
            (&["Vorname", "Nachname", "Name"], None),
            (&["name", "email"], None),
            (&["voornaam", "achternaam"], None),
        ] {
            let columns = columns(names);
            let map = half(&columns).map(|half| half.map);
            assert_eq!(map.as_deref(), expected, "{names:?}");
        }
    }
}
