//! The header's columns: whether it is a header at all, and which columns are ours.

use super::super::existing::{self, Conflict, OurColumn};
use super::super::settings::ReaderSettings;
use crate::base::error::{Error, Result, quoted};
use crate::fields::{self, Mapping};
use crate::layout::PREVIOUS;
use crate::row::Span;

/// The error for a header with values that only a user's row has; `None` if it has none.
pub(super) fn no_header(names: &[String], file: &str) -> Option<Error> {
    let mut values = { (1..).zip(names) }
        .filter_map(|(number, name)| fields::value_in(name).map(|field| (number, field)));
    let (number, field) = values.next()?;
    Some(
        Error::usage(format!("row 1 of {file} does not look like a header"))
            .detail(format!("column {number} holds what looks like a value for `{field}`"))
            .hint(format!(
                "if there is no header, add `--no-header` and give columns by number, as in `--map {field}={number}`"
            )),
    )
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
            return Err(existing::is_source(name, field, file));
        }
        found.push(OurColumn { column, fits: true });
        if place(&format!("{PREVIOUS}{name}")).is_some() {
            previous.push(column);
        }
    }
    if let Some(conflict) = Conflict::of(settings.existing, &found, &previous) {
        return Err(conflict.refuses(&settings.columns, file, 0));
    }
    Ok(if found.is_empty() {
        Box::default()
    } else {
        ours.into()
    })
}
