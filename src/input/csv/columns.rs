//! The header's columns: which of them are fields, and which are ours.

use super::super::existing::{self, Conflict, OurColumn};
use super::super::settings::ReaderSettings;
use crate::base::error::{Error, Result, quoted};
use crate::fields::{self, Mapping};
use crate::layout::PREVIOUS;
use crate::row::Span;

/// Maps the columns. `names` are those of a header, or else numbers.
///
/// # Errors
/// A column is missing or ambiguous. What may be a user is not shown.
pub(super) fn mapped(
    names: &[String],
    is_header: bool,
    settings: &ReaderSettings,
    file: &str,
) -> Result<Mapping<usize>> {
    Mapping::of_header(names, &settings.assignments, file).map_err(|error| {
        let error = match (names, settings.file.delimiter) {
            ([_], None) => error.hint(
                "only one column was found; if there are more, `--delimiter` says what is between them",
            ),
            ([_], Some(_)) => error.hint(
                "only one column was found; without `--delimiter`, it is found automatically",
            ),
            _ => error,
        };
        if !is_header {
            return error;
        }
        let by_number =
            |field, number| format!(" and give columns by number, as in `--map {field}={number}`");
        let otherwise = "name the columns with `--map FIELD=COLUMN`: `head -1` shows them";
        fields::without_user(error, names, file, by_number, otherwise)
    })
}

pub(super) fn spans(columns: &[Option<usize>], cells: &[Span]) -> Box<[(Span, usize)]> {
    let cell = |index: &Option<usize>| index.and_then(|index| cells.get(index).copied());
    let mut spans: Vec<_> = columns
        .iter()
        .enumerate()
        .filter_map(|(column, index)| Some((cell(index)?, column)))
        .collect();
    spans.sort_unstable_by_key(|(span, _)| span.start);
    spans.into()
}

/// The header's cells with our columns' names; empty if there are none.
///
/// # Errors
/// A column that must not be changed.
pub(super) fn ours(
    names: &[String],
    mapping: &Mapping<usize>,
    settings: &ReaderSettings,
    file: &str,
) -> Result<Box<[Option<usize>]>> {
    let encoding = settings.file.encoding;
    let unfit = |name: &&String| !encoding.has_all_of(name);
    if let Some(name) = settings.columns.iter().find(unfit) {
        return Err(Error::usage(format!(
            "a new column cannot be named {} in {file}: {encoding} does not have all of its characters",
            quoted(name)
        ))
        .hint("give the column another name with `--column`, `--reason-column` or `--prefix`"));
    }
    let place = |ours: &str| names.iter().position(|name| name.trim() == ours);
    let (mut ours, mut found, mut previous) = (Vec::new(), Vec::new(), Vec::new());
    for (column, name) in settings.columns.iter().enumerate() {
        let first = place(name);
        ours.push(first);
        let Some(first) = first else {
            continue;
        };
        let mut others = names.iter().skip(first + 1);
        if let Some(second) = others.position(|other| other.trim() == name) {
            return Err(Error::usage(format!(
                "{file} has {} twice: columns {} and {}",
                quoted(name),
                first + 1,
                first + second + 2
            )));
        }
        if let Some(field) = existing::field_of(&mapping.sources, &first) {
            return Err(existing::is_source(name, field, "column", file));
        }
        found.push(OurColumn { column, fits: true });
        if place(&format!("{PREVIOUS}{name}")).is_some() {
            previous.push(column);
        }
    }
    if let Some(conflict) = Conflict::of(settings.existing, &found, &previous) {
        return Err(conflict.refuses(&settings.columns, "column", file, 0));
    }
    Ok(if found.is_empty() {
        Box::default()
    } else {
        ours.into()
    })
}
