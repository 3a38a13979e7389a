//! Lines of JSON to rows: which members are fields, which are ours, and the request that an object makes.
//!
//! Every byte is kept. A line that is not a JSON object stays in its place as it is; only its row fails. Values that are not
//! sent are never read, let alone printed again.

use std::borrow::Cow;
use std::collections::HashSet;

use memchr::memchr2;

use super::buffer::{Buffer, Extent, MAX_RECORD, line_end, marks_at};
use super::members::{FoundMembers, MemberLookup, MemberUses, TextPlace};
use super::ours::{self, Conflict};
use super::settings::{Compose, ReaderSettings};
use super::sniff;
use crate::base::error::Result;
use crate::base::text::quoted;
use crate::fields::{
    self, ColumnSource, Field, FieldRules, Mapping, MemberSample, PerField, Template, UserRequest,
};
use crate::raw_json::{self, Pointer};
use crate::row::{RawRow, Span};
use crate::row_state::RowState;
use crate::selection::Condition;
use crate::verdict::{Failure, Reason};

/// Makes requests of records.
pub(super) struct JsonlParser {
    members: MemberUses,
    sources: PerField<ColumnSource<usize>>,
    /// Whether the file is one that an earlier run wrote, of whose rows no requests are made.
    is_scored: bool,
    /// How many of the first lookups are columns that are asked for.
    asked: usize,
    /// Rows for which one of these does not hold are not sent.
    only: Vec<Condition>,
    /// Which of the columns that are asked for is the key by which rows are compared with an earlier output.
    key: Option<usize>,
    /// Where the region of national phone numbers is looked up, if the file has it.
    region: Option<usize>,
    /// Our columns that the first objects have.
    seen: Vec<usize>,
    /// Which member is which field, as one line for people.
    described: String,
}

/// How many rows are used for the mapping: those in the first block, but at most this many.
const SAMPLE_ROWS: usize = 100;
/// If at least this many objects lack a required field, the file is rejected, and not each of its
/// rows.
const FEW_ROWS: usize = 10;

/// What the first objects have.
#[derive(Default)]
struct FirstObjects {
    /// How many there are.
    number: usize,
    /// The names of their members, in order.
    names: Vec<String>,
    /// The pointers to members of their objects.
    nested: Vec<String>,
    seen: HashSet<String>,
    /// Whether one has a value for each of the columns that are asked for.
    asked: Vec<bool>,
}

impl JsonlParser {
    /// Reads the first objects and maps their members.
    pub(super) fn open(settings: &ReaderSettings, buffer: &mut Buffer) -> Result<Self> {
        while !buffer.at_end
            && memchr::memchr(b'}', &buffer.bytes).is_none()
            && buffer.bytes.len() <= MAX_RECORD
        {
            buffer.fill()?;
        }
        let (file, at_end) = (&*buffer.source.name, buffer.at_end);
        let mut parser = Self::new(settings);
        parser.refuse_sources(file)?;
        let lines: Vec<_> = lines_of(&buffer.bytes).take(SAMPLE_ROWS + 1).collect();
        let sample = lines.get(..SAMPLE_ROWS).unwrap_or(&lines);
        let whole = at_end && sample.len() == lines.len();
        let mut first = FirstObjects::default();
        first.asked.resize(parser.asked, false);
        for (row, line) in (1..).zip(sample) {
            parser.look_at(&readable(line), row, settings, file, &mut first)?;
        }
        // Without objects there is nothing to check: the file is empty, or its rows will fail with their own reasons.
        if first.number == 0 {
            if whole || sample.len() < lines.len() {
                sniff::refuse_other_text(lines.first().copied(), file)?;
            }
            return Ok(parser);
        }
        if settings.scored.is_some() {
            parser.refuse_unscored(&first, file)?;
            refuse_unasked(settings, &first, file)?;
            return Ok(parser);
        }
        let part = match (whole, first.number) {
            (true, _) => MemberSample::Whole,
            (false, FEW_ROWS..) => MemberSample::Part,
            (false, _) => MemberSample::Few,
        };
        let (names, nested) = (&first.names, &first.nested);
        let mapping = Mapping::of_members(names, nested, part, &settings.assignments, file);
        let mapping = mapping.map_err(|error| match &*lines {
            [only] => sniff::wrapped(&readable(only), file).unwrap_or(error),
            _ => error,
        })?;
        if part != MemberSample::Few {
            refuse_unasked(settings, &first, file)?;
        }
        parser.described = mapping.described;
        Ok(parser)
    }

    /// Notes what one of the first lines has, if it is an object.
    ///
    /// # Errors
    /// It has members with our names that must not be changed.
    fn look_at(
        &mut self,
        line: &str,
        row: usize,
        settings: &ReaderSettings,
        file: &str,
        first: &mut FirstObjects,
    ) -> Result<()> {
        let place = TextPlace {
            text: line,
            before: 0,
        };
        let Ok(found) = FoundMembers::read(&mut self.members, place) else {
            return Ok(());
        };
        first.number += 1;
        let mut note = |names: &mut Vec<String>, name: String| {
            if first.seen.insert(name.clone()) {
                names.push(name);
            }
        };
        let _ = raw_json::members(line, |key, value| {
            let name = raw_json::string(key).unwrap_or_default();
            note(&mut first.names, name.clone().into_owned());
            let _ = raw_json::members(value, |key, _| {
                let inner = raw_json::string(key).unwrap_or_default();
                let [name, inner] = [&name, &inner].map(|name| Pointer::of_member(name));
                note(&mut first.nested, format!("{name}{inner}"));
            });
        });
        match (found.conflict(), &settings.scored) {
            (Some(Conflict::Foreign(column)), Some(_)) => {
                return Err(ours::has_foreign(&self.members.columns, column, row, file));
            }
            (Some(conflict), None) => {
                return Err(conflict.refuses(&self.members.columns, "member", file, row));
            }
            _ => {}
        }
        self.seen
            .extend(found.ours.iter().map(|(_, column)| *column));
        for (place, there) in first.asked.iter_mut().enumerate() {
            *there |= self
                .asked(&found.values, place)
                .is_ok_and(|value| value.is_some());
        }
        Ok(())
    }

    /// Fails if none of the first objects of a scored file has one of our columns.
    fn refuse_unscored(&self, first: &FirstObjects, file: &str) -> Result<()> {
        let mut ours = self.members.columns.iter().enumerate();
        match ours.find(|(column, _)| !self.seen.contains(column)) {
            Some((_, lacks)) => Err(ours::lacks_ours(lacks, ("member", &first.names), file)),
            None => Ok(()),
        }
    }

    /// The value that one of the columns that are asked for has in an object.
    fn asked<'a>(
        &self,
        values: &[Option<(usize, &'a str)>],
        place: usize,
    ) -> Result<Option<&'a str>, raw_json::Ambiguous> {
        let value = values.get(place).copied().flatten();
        match (value, self.members.lookups.get(place)) {
            (Some((_, value)), Some(MemberLookup::At(pointer))) => {
                raw_json::follow(value, pointer.split_first().1)
            }
            _ => Ok(None),
        }
    }

    /// Which member is which field, as one line for people.
    pub(super) fn mapping(&self) -> &str {
        &self.described
    }

    /// The names of our columns that the first objects have and that are replaced.
    pub(super) fn replaced(&self) -> Vec<String> {
        let columns = self.members.columns.iter().enumerate();
        let seen = columns.filter(|(column, _)| self.seen.contains(column));
        seen.map(|(_, name)| name.clone()).collect()
    }

    /// Fails if a field is looked up under a name that we write. It does not matter whether the
    /// first objects have it, as others may.
    fn refuse_sources(&self, file: &str) -> Result<()> {
        for column in self.members.columns.iter() {
            let mut lookups = self.members.lookups_of(column);
            let field = lookups.find_map(|(lookup, _)| ours::field_of(&self.sources, &lookup));
            if let Some(field) = field {
                return Err(ours::is_source(column, field, "member", file));
            }
        }
        Ok(())
    }

    fn new(settings: &ReaderSettings) -> Self {
        let mut lookups = Vec::new();
        let mut add = |lookup| {
            lookups.push(lookup);
            lookups.len() - 1
        };
        let at = |name: &str| {
            MemberLookup::At(Pointer::parse(name).unwrap_or_else(|_| Pointer::of_member(name)))
        };
        let asked = settings.asked();
        for name in &asked {
            add(at(name));
        }
        let is_scored = settings.scored.is_some();
        let sources = PerField::from_fn(|field| match settings.assignments.get(field) {
            _ if is_scored => ColumnSource::Absent,
            Some(fields::Assigned::Constant(value)) => ColumnSource::Constant(value.clone()),
            Some(fields::Assigned::Columns(template)) => {
                let place = |name: &String| Ok::<_, std::convert::Infallible>(add(at(name)));
                let Ok(template) = template.try_map(place);
                ColumnSource::Columns(template)
            }
            None => ColumnSource::Columns(Template(vec![fields::Part::Column(add(
                MemberLookup::Named(field),
            ))])),
        });
        let region = { settings.assignments.region_column() }.map(|name| add(at(name)));
        Self {
            members: MemberUses::new(lookups, &settings.columns),
            sources,
            is_scored,
            asked: asked.len(),
            only: settings.only.clone(),
            key: { settings.key.as_ref() }.map(|_| settings.only.len()),
            region,
            seen: Vec::new(),
            described: String::new(),
        }
    }

    /// Where a row of a scored file has the columns that are asked for; a member that it lacks has an empty span.
    fn spans_of_asked(
        &self,
        found: &FoundMembers<'_>,
        place: TextPlace<'_>,
    ) -> Result<Box<[Span]>, Failure> {
        if let (true, Some(name)) = (found.ours.is_empty(), self.members.columns.first()) {
            let message = format!("the row has no {}", quoted(name));
            return Err(Failure::new(Reason::ExistingColumns, message));
        }
        let span = |lookup| match self.asked(&found.values, lookup) {
            Ok(value) => Ok(value.map_or_else(Span::default, |value| place.span(value))),
            Err(raw_json::Ambiguous) => Err(asked_twice()),
        };
        (0..self.asked).map(span).collect()
    }

    /// Whether the object is one to send. A member that it lacks is empty.
    fn is_chosen(&self, values: &[Option<(usize, &str)>]) -> Result<bool, Failure> {
        for (place, only) in self.only.iter().enumerate() {
            let value = self.asked(values, place).map_err(|_| asked_twice())?;
            if !only.holds(&value.map(raw_json::text).unwrap_or_default()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What asks for the record; in a scored file, where it has the columns that are asked for. It also notes where the row has
    /// our columns.
    #[inline]
    pub(super) fn state(
        &mut self,
        row: &mut RawRow,
        rules: &FieldRules,
        compose: &mut Compose,
    ) -> Result<RowState, Failure> {
        let bytes = row.bytes.get(row.content.range()).unwrap_or_default();
        let line = readable(bytes);
        let place = TextPlace {
            text: &line,
            before: row.before().len(),
        };
        let found =
            FoundMembers::read(&mut self.members, place).map_err(|error| not_an_object(&error))?;
        if let Some(conflict) = found.conflict() {
            return Err(conflict.fails(&self.members.columns));
        }
        let asked = { self.is_scored }
            .then(|| self.spans_of_asked(&found, place))
            .transpose()?;
        // Also for a row that fails: its old values must not be mistaken for new ones.
        row.ours = found.ours.into();
        if let Some(failure) = found.failure {
            return Err(failure);
        }
        if let Some(asked) = asked {
            return Ok(RowState::Scored(asked));
        }
        let is_as_written = |value: &str| {
            let start = value.as_ptr().addr() - line.as_ptr().addr();
            bytes.get(start..start + value.len()) == Some(value.as_bytes())
        };
        let is_sendable = |value: &str| matches!(line, Cow::Borrowed(_)) || is_as_written(value);
        let values = found.values;
        if let Some(key) = self.key {
            let value = self.asked(&values, key).map_err(|_| asked_twice())?;
            row.key = value.map_or_else(Span::default, |value| place.span(value));
        }
        if !self.only.is_empty() && !self.is_chosen(&values)? {
            return Ok(RowState::Passed);
        }
        let find = |field, lookup: &usize| match values.get(*lookup) {
            Some(Some((_, value))) => {
                let pointer = match self.members.lookups.get(*lookup) {
                    Some(MemberLookup::At(pointer)) => Some(pointer),
                    _ => None,
                };
                text(value, pointer, field, is_sendable)
            }
            _ => Ok(None),
        };
        let mut found = PerField::try_from_fn(|field| match self.sources.get(field) {
            ColumnSource::Absent => Ok(None),
            ColumnSource::Constant(value) => Ok(Some(Cow::Borrowed(value.as_str()))),
            ColumnSource::Columns(template) => {
                template.text(|lookup| rules.cell(find(field, lookup)))
            }
        })?;
        let take = |field| Ok(found.get_mut(field).take());
        // A value that is not a string names no region; only a phone number may be one.
        let region = || {
            let found = find(Field::Name, &self.region?);
            Some(found.ok().flatten().unwrap_or_default())
        };
        let request = UserRequest::new(take, rules, region, &mut compose.noticed)?;
        Ok(RowState::Asked(compose.body(&request)))
    }
}

/// Fails if none of the first objects has one of the members that are asked for.
fn refuse_unasked(settings: &ReaderSettings, first: &FirstObjects, file: &str) -> Result<()> {
    let asked = settings.asked();
    match asked.iter().zip(&first.asked).find(|(_, there)| !**there) {
        Some((lacks, _)) => Err(ours::lacks(lacks, ("member", &first.names), file)),
        None => Ok(()),
    }
}

/// The failure of an object of which it is not clear what a member is that is asked for.
fn asked_twice() -> Failure {
    Failure::new(
        Reason::DuplicateKey,
        "a member that is asked for appears twice",
    )
}

/// Whether a line is the beginning of a JSON value and not all of one.
pub(super) fn lacks_end(line: &[u8]) -> bool {
    let read = serde_json::from_slice::<serde::de::IgnoredAny>(line);
    read.is_err_and(|error| error.is_eof())
}

/// The failure of a line that is not a JSON object.
fn not_an_object(error: &serde_json::Error) -> Failure {
    if error.is_data() {
        return Failure::new(Reason::NotAnObject, "not an object");
    }
    let message = format!("invalid JSON at column {}", error.column());
    Failure::new(Reason::NotJson, message)
}

/// The text of a member that is sent, or of a value in it at this pointer. Null counts as absent.
fn text<'a>(
    value: &'a str,
    pointer: Option<&Pointer>,
    field: Field,
    is_sendable: impl Fn(&str) -> bool,
) -> Result<Option<Cow<'a, str>>, Failure> {
    let value = match pointer {
        Some(pointer) => match raw_json::follow(value, pointer.split_first().1) {
            Ok(Some(value)) => value,
            Ok(None) => return Ok(None),
            Err(raw_json::Ambiguous) => {
                return Err(Failure::new(
                    Reason::DuplicateKey,
                    format!("a member on the path to {field} appears twice"),
                ));
            }
        },
        None => value,
    };
    if !is_sendable(value) {
        let message = format!("{field} is not UTF-8");
        return Err(Failure::new(Reason::NotUtf8, message));
    }
    match raw_json::string(value) {
        Some(text) => Ok(Some(text)),
        None if value == "null" => Ok(None),
        // Databases and spreadsheets write one without a plus as a number.
        None if field == Field::Phone && value.starts_with(|c: char| c.is_ascii_digit()) => {
            Ok(Some(Cow::Borrowed(value)))
        }
        None => {
            let message = format!("{field} is not a string, or has broken escapes");
            Err(Failure::new(Reason::WrongType, message))
        }
    }
}

/// Lines that are not blank.
pub(super) fn lines_of(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n' || *byte == b'\r')
        .map(|line| line.get(marks_at(line)..).unwrap_or_default())
        .filter(|line| !line.trim_ascii().is_empty())
}

/// The bytes as text in which every byte keeps its position: those that are not UTF-8 become question marks. A member that is
/// not sent may have any bytes, and one that is sent is compared with what was written.
fn readable(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '?'));
    }
    Cow::Owned(text)
}

/// Finds the line at the front of the buffer; `None` if it is not complete yet.
pub(super) fn scan(buffer: &Buffer) -> Result<Option<Extent>> {
    let bytes = &buffer.bytes;
    let (mut start, mut lines_before) = (0, 0);
    loop {
        start += marks_at(bytes.get(start..).unwrap_or_default());
        let rest = bytes.get(start..).unwrap_or_default();
        let (end, after) = match memchr2(b'\n', b'\r', rest) {
            Some(offset) => match line_end(bytes, start + offset, buffer.at_end) {
                Some(length) => (start + offset, length),
                None => return Ok(None),
            },
            None if buffer.at_end && !rest.is_empty() => (bytes.len(), 0),
            None if rest.trim_ascii().is_empty() => {
                return buffer.check_blank_lines().map(|()| None);
            }
            None => {
                return buffer
                    .check_size(rest.len(), buffer.line + lines_before)
                    .map(|()| None);
            }
        };
        let line = bytes.get(start..end).unwrap_or_default();
        // The mark that DOS puts behind a text is blank as well.
        if line.trim_ascii().is_empty() || (after == 0 && line == [0x1a]) {
            if after == 0 {
                return Ok(None);
            }
            start = end + after;
            lines_before += 1;
            continue;
        }
        let lines = u64::from(after > 0);
        return Ok(Some(Extent {
            content: Span::new(start, end),
            end: end + after,
            lines_before,
            lines,
            malformed: false,
        }));
    }
}
