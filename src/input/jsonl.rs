//! Lines of JSON to records, keeping every byte.
//!
//! A line that is no JSON object stays in its place as it is; only its row fails. Values that are not sent are never
//! read, let alone re-printed.

use std::borrow::Cow;
use std::collections::HashSet;

use bytes::Bytes;
use memchr::memchr2;
use serde_json::value::RawValue;

use super::existing::{self, Conflict, Found};
use super::member::{self, quoted_key};
use super::members::{Lookup, Members, Uses};
use super::{Bodies, Buffer, Extent, Settings, line_end, sniff};
use crate::base::error::Result;
use crate::fields::{
    self, ColumnSource, InvalidPhone, Mapping, PerField, Sample, Template, UserRequest,
};
use crate::layout::{DECISION_COLUMN, Existing, SCORE_COLUMN};
use crate::raw_json::{self, Pointer};
use crate::row::{Earlier, Row, Span};
use crate::verdict::{Failure, Reason};

/// Makes requests of records.
pub(super) struct Parser {
    members: Members,
    sources: PerField<ColumnSource<usize>>,
    columns: Vec<String>,
    existing: Existing,
    /// Our columns that the first objects have.
    seen: Vec<usize>,
}

/// Rows whose members are looked at for the mapping: as many as are in the first block, at most this many.
const SAMPLE_ROWS: usize = 100;
/// From so many objects without a required field on, the file is refused rather than each of its rows.
const FEW_ROWS: usize = 10;

impl Parser {
    /// Looks at the first objects and holds the mapping against their members.
    pub(super) fn open(settings: &Settings, buffer: &mut Buffer) -> Result<(Self, String)> {
        while !buffer.at_end
            && memchr::memchr(b'}', &buffer.bytes).is_none()
            && buffer.bytes.len() <= settings.max_record
        {
            buffer.fill()?;
        }
        let (file, at_end) = (buffer.source.name(), buffer.at_end);
        let mut parser = Self::new(settings);
        parser.refuse_sources(file)?;
        let (mut members, mut seen, mut objects) = (Vec::new(), HashSet::new(), 0);
        let mut lines = lines_of(&buffer.bytes);
        for (row, line) in (1..).zip(lines.by_ref().take(SAMPLE_ROWS)) {
            let mut names = OurNames::default();
            let mut note = |key: &RawValue, value: &RawValue| {
                names.take(parser.members.uses(key), value);
                if let Some(name) = raw_json::string(key)
                    && !seen.contains(&*name)
                {
                    seen.insert(name.clone().into_owned());
                    members.push(name.into_owned());
                }
            };
            if raw_json::members(&readable(line), &mut note).is_err() {
                continue;
            }
            objects += 1;
            if let Some(conflict) = names.conflict(settings.existing) {
                return Err(conflict.refuses(&settings.columns, file, row));
            }
            parser
                .seen
                .extend(names.found.iter().map(|found| found.column));
        }
        let rest = lines.next();
        if objects == 0 && (at_end || rest.is_some()) {
            sniff::refuse_other_text(lines_of(&buffer.bytes).next(), file)?;
        }
        let whole = at_end && rest.is_none();
        let described = if objects == 0 {
            // Nothing to hold the mapping against: an empty file, or one whose rows will say what is wrong with them.
            String::new()
        } else {
            let sample = match (whole, objects) {
                (true, _) => Sample::Whole,
                (false, FEW_ROWS..) => Sample::Part,
                (false, _) => Sample::Few,
            };
            Mapping::of_members(&members, sample, &settings.assignments, file)?.described
        };
        Ok((parser, described))
    }

    /// The names of our columns that the first objects have and that are replaced.
    pub(super) fn replaced(&self) -> Vec<String> {
        if self.existing != Existing::Replace {
            return Vec::new();
        }
        let columns = self.columns.iter().enumerate();
        let seen = columns.filter(|(column, _)| self.seen.contains(column));
        seen.map(|(_, name)| name.clone()).collect()
    }

    /// Fails when a field is looked for under a name that we write. Whether the first objects have it does not matter, as
    /// others may.
    fn refuse_sources(&self, file: &str) -> Result<()> {
        for column in &self.columns {
            let mut lookups = self.members.lookups_of(column);
            let field = lookups.find_map(|(lookup, _)| existing::field_of(&self.sources, &lookup));
            if let Some(field) = field {
                return Err(existing::is_source(column, field, file));
            }
        }
        Ok(())
    }

    fn new(settings: &Settings) -> Self {
        let mut lookups = Vec::new();
        let mut wanted = |lookup| {
            lookups.push(lookup);
            lookups.len() - 1
        };
        let sources = PerField::from_fn(|field| match settings.assignments.get(field) {
            Some(fields::Assigned::Constant(value)) => ColumnSource::Constant(value.clone()),
            Some(fields::Assigned::Columns(template)) => {
                let place = |name: &String| {
                    let pointer = Pointer::parse(name).unwrap_or_else(|_| Pointer::of_member(name));
                    Ok::<_, std::convert::Infallible>(wanted(Lookup::At(pointer)))
                };
                let Ok(template) = template.try_map(place);
                ColumnSource::Columns(template)
            }
            None => ColumnSource::Columns(Template(vec![fields::Part::Column(wanted(
                Lookup::Named(field),
            ))])),
        });
        Self {
            members: Members::new(lookups, &settings.columns),
            sources,
            columns: settings.columns.clone(),
            existing: settings.existing,
            seen: Vec::new(),
        }
    }

    /// The request that the record asks for; marks where the row holds our columns.
    pub(super) fn request(
        &mut self,
        row: &mut Row,
        invalid_phone: InvalidPhone,
        bodies: &mut Bodies,
    ) -> Result<Bytes, Failure> {
        let raw = row.raw.clone();
        let bytes = raw.get(row.content.range()).unwrap_or_default();
        let content = readable(bytes);
        let mut gathered = Gathered::new(self.members.lookups().len());
        // Where a part's text lies in the row: `content` has the same places.
        let place_of = |part: &RawValue| part.get().as_ptr().addr() - content.as_ptr().addr();
        let before = row.before().len();
        let span = |part: &RawValue| {
            let start = before + place_of(part);
            Span::new(start, start + part.get().len())
        };
        let damaged = matches!(content, Cow::Owned(_));
        let intact = |part: &RawValue| {
            if !damaged {
                return true;
            }
            let start = place_of(part);
            bytes.get(start..start + part.get().len()) == Some(part.get().as_bytes())
        };
        let policy = self.existing;
        let read = raw_json::members(&content, |key, value| {
            gathered.take(self.members.uses(key), key, value, span, policy);
        });
        if let Err(error) = read {
            return Err(not_an_object(&content, &error));
        }
        if let Some(conflict) = gathered.names.conflict(self.existing) {
            return Err(conflict.fails(&self.columns));
        }
        // Also for a row that fails: its old values must not be taken for new ones.
        row.existing = std::mem::take(&mut gathered.existing).into();
        row.earlier = gathered.earlier;
        if let Some(failure) = gathered.failure {
            return Err(failure);
        }
        let values = &gathered.values;
        let find = |field, lookup: &usize| match values.get(*lookup) {
            Some(Some((_, value))) => {
                let pointer = match self.members.lookups().get(*lookup) {
                    Some(Lookup::At(pointer)) => Some(pointer),
                    _ => None,
                };
                member::text(value, pointer, field, intact)
            }
            _ => Ok(None),
        };
        let mut found = PerField::try_from_fn(|field| match self.sources.get(field) {
            ColumnSource::Absent => Ok(None),
            ColumnSource::Constant(value) => Ok(Some(Cow::Borrowed(value.as_str()))),
            ColumnSource::Columns(template) => match template.column() {
                Some(lookup) => find(field, lookup),
                None => member::joined(template, field, find),
            },
        })?;
        let take = |field| Ok(found.get_mut(field).take());
        UserRequest::new(take, invalid_phone).map(|request| bodies.body(&request))
    }
}

/// Lines that say something.
fn lines_of(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n' || *byte == b'\r')
        .filter(|line| !line.trim_ascii().is_empty())
}

/// What one object has under names that we write.
#[derive(Default)]
struct OurNames {
    found: Vec<Found>,
    /// Our columns whose kept names it has.
    previous: Vec<usize>,
}

impl OurNames {
    fn take(&mut self, uses: &Uses, value: &RawValue) {
        self.previous.extend(uses.previous);
        if let Some(column) = uses.ours {
            let fits = value_fits(column, value);
            self.found.push(Found { column, fits });
        }
    }

    fn conflict(&self, existing: Existing) -> Option<Conflict> {
        Conflict::of(existing, &self.found, &self.previous)
    }
}

/// Whether we could have written this value: our scores are numbers, all else that we write is a string or null.
fn value_fits(column: usize, value: &RawValue) -> bool {
    let text = match value.get() {
        "null" => Some(Cow::Borrowed("")),
        number if column == SCORE_COLUMN => Some(Cow::Borrowed(number)),
        _ => raw_json::string(value),
    };
    existing::fits(column, text.as_deref())
}

/// What one object has of what is wanted.
struct Gathered<'a> {
    values: Vec<Option<(usize, &'a RawValue)>>,
    /// Where our columns' values stand.
    existing: Vec<(Span, usize)>,
    earlier: Earlier,
    names: OurNames,
    failure: Option<Failure>,
}

impl<'a> Gathered<'a> {
    fn new(lookups: usize) -> Self {
        Self {
            values: vec![None; lookups],
            existing: Vec::new(),
            earlier: Earlier::default(),
            names: OurNames::default(),
            failure: None,
        }
    }

    fn take(
        &mut self,
        uses: &Uses,
        key: &'a RawValue,
        value: &'a RawValue,
        span: impl Fn(&RawValue) -> Span,
        policy: Existing,
    ) {
        if raw_json::too_deep(value) {
            let message = format!(
                "{} nests deeper than {} levels",
                quoted_key(key),
                raw_json::MAX_DEPTH
            );
            self.fail(Reason::TooDeep, message);
        }
        for (lookup, rank) in &uses.lookups {
            let Some(slot) = self.values.get_mut(*lookup) else {
                continue;
            };
            match slot {
                Some((held, _)) if *held < *rank => {}
                Some((held, _)) if *held == *rank => {
                    self.fail(
                        Reason::DuplicateKey,
                        format!("{} or its like stands twice", quoted_key(key)),
                    );
                    return;
                }
                _ => *slot = Some((*rank, value)),
            }
        }
        if let Some(column) = uses.ours {
            if self.existing.iter().any(|(_, there)| *there == column) {
                self.fail(
                    Reason::DuplicateKey,
                    format!("{} stands twice", quoted_key(key)),
                );
            }
            let part = if policy == Existing::Keep { key } else { value };
            self.existing.push((span(part), column));
            match column {
                SCORE_COLUMN => self.earlier.score = span(value),
                DECISION_COLUMN => self.earlier.decision = span(value),
                _ => {}
            }
        }
        self.names.take(uses, value);
    }

    fn fail(&mut self, reason: Reason, message: String) {
        self.failure
            .get_or_insert_with(|| Failure::new(reason, message));
    }
}

/// The bytes as text in which every byte keeps its place. What is not UTF-8 becomes question marks: a member that is not
/// sent may hold anything, and one that is sent is held against the bytes again.
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

fn not_an_object(content: &str, error: &serde_json::Error) -> Failure {
    if error.is_data() {
        let kind = if content.trim_start().starts_with('[') {
            "an array"
        } else {
            "a single value"
        };
        return Failure::new(Reason::NotAnObject, format!("{kind}, not an object"));
    }
    Failure::new(
        Reason::NotJson,
        format!("no JSON from column {} on", error.column()),
    )
}

/// Finds the line at the front of the buffer; `None` when it is not whole yet.
pub(super) fn scan(buffer: &Buffer, max_record: usize) -> Result<Option<Extent>> {
    let bytes = &buffer.bytes;
    let (mut start, mut lines_before) = (0, 0);
    loop {
        let rest = bytes.get(start..).unwrap_or_default();
        let (end, after) = match memchr2(b'\n', b'\r', rest) {
            Some(offset) => match line_end(bytes, start + offset, buffer.at_end) {
                Some(length) => (start + offset, length),
                None => return Ok(None),
            },
            None if buffer.at_end && !rest.is_empty() => (bytes.len(), 0),
            None if rest.trim_ascii().is_empty() => {
                return buffer.check_blank_lines(max_record).map(|()| None);
            }
            None => {
                return buffer
                    .check_size(rest.len(), max_record, buffer.line + lines_before)
                    .map(|()| None);
            }
        };
        if bytes
            .get(start..end)
            .unwrap_or_default()
            .trim_ascii()
            .is_empty()
        {
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
