//! Makes requests of lines.

use std::borrow::Cow;
use std::collections::HashSet;

use bytes::Bytes;

use super::super::bodies::Bodies;
use super::super::buffer::Buffer;
use super::super::existing;
use super::super::settings::ReaderSettings;
use super::super::sniff;
use super::lines::{lines_of, readable};
use super::member_text;
use super::member_uses::{MemberLookup, MemberUses};
use super::nested;
use super::object::{ObjectMembers, OurNames, TextPlace};
use crate::base::error::Result;
use crate::fields::{
    self, ColumnSource, Field, Mapping, MemberSample, PerField, PhoneRules, Template, UserRequest,
};
use crate::layout::{AddedColumns, Existing};
use crate::raw_json::{self, JsonValue, ObjectMember, Pointer};
use crate::row::Row;
use crate::verdict::{Failure, Reason};

/// Makes requests of records.
pub(in crate::input) struct JsonlParser {
    members: MemberUses,
    sources: PerField<ColumnSource<usize>>,
    /// Where the region of national phone numbers is looked up, if the file has it.
    region: Option<usize>,
    columns: AddedColumns,
    existing: Existing,
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

impl JsonlParser {
    /// Reads the first objects and maps their members.
    pub(in crate::input) fn open(settings: &ReaderSettings, buffer: &mut Buffer) -> Result<Self> {
        while !buffer.at_end
            && memchr::memchr(b'}', &buffer.bytes).is_none()
            && buffer.bytes.len() <= settings.file.max_record
        {
            buffer.fill()?;
        }
        let (file, at_end) = (buffer.source.name(), buffer.at_end);
        let mut parser = Self::new(settings);
        parser.refuse_sources(file)?;
        let (mut members, mut seen, mut objects) = (Vec::new(), HashSet::new(), 0);
        let mut lines = lines_of(&buffer.bytes);
        for (row, line) in (1..).zip(lines.by_ref().take(SAMPLE_ROWS)) {
            let (mut names, line) = (OurNames::default(), readable(line));
            parser.members.begin_object();
            let read = raw_json::read_object(&line, &mut |member: ObjectMember<'_>| {
                names.take(parser.members.uses(&member), member.value);
                if let Some(name) = raw_json::string(member.key)
                    && !seen.contains(&*name)
                {
                    seen.insert(name.clone().into_owned());
                    members.push(name.into_owned());
                }
            });
            if read.is_err() {
                continue;
            }
            objects += 1;
            if let Some(conflict) = names.conflict(settings.existing) {
                return Err(conflict.refuses(&settings.columns, "member", file, row));
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
        // Without objects there is nothing to check: the file is empty, or its rows will fail with
        // their own reasons.
        if objects > 0 {
            let sample = match (whole, objects) {
                (true, _) => MemberSample::Whole,
                (false, FEW_ROWS..) => MemberSample::Part,
                (false, _) => MemberSample::Few,
            };
            let nested = || nested::pointers(lines_of(&buffer.bytes).take(SAMPLE_ROWS));
            let mapping =
                Mapping::of_members(&members, nested, sample, &settings.assignments, file)?;
            parser.described = mapping.described;
        }
        Ok(parser)
    }

    /// Which member is which field, as one line for people.
    pub(in crate::input) fn mapping(&self) -> &str {
        &self.described
    }

    /// The names of our columns that the first objects have and that are replaced.
    pub(in crate::input) fn replaced(&self) -> Vec<String> {
        if self.existing != Existing::Replace {
            return Vec::new();
        }
        let columns = self.columns.iter().enumerate();
        let seen = columns.filter(|(column, _)| self.seen.contains(column));
        seen.map(|(_, name)| name.clone()).collect()
    }

    /// Fails if a field is looked up under a name that we write. It does not matter whether the
    /// first objects have it, as others may.
    fn refuse_sources(&self, file: &str) -> Result<()> {
        for column in self.columns.iter() {
            let mut lookups = self.members.lookups_of(column);
            let field = lookups.find_map(|(lookup, _)| existing::field_of(&self.sources, &lookup));
            if let Some(field) = field {
                return Err(existing::is_source(column, field, "member", file));
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
        let sources = PerField::from_fn(|field| match settings.assignments.get(field) {
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
            region,
            columns: settings.columns.clone(),
            existing: settings.existing,
            seen: Vec::new(),
            described: String::new(),
        }
    }

    /// The record's request. It also notes where the row has our columns.
    pub(in crate::input) fn request(
        &mut self,
        row: &mut Row,
        phones: PhoneRules,
        bodies: &mut Bodies,
    ) -> Result<Bytes, Failure> {
        let before = row.before().len();
        let bytes = row.raw.get(row.content.range()).unwrap_or_default();
        let content = readable(bytes);
        let place = TextPlace {
            text: &content,
            before,
        };
        let mut object = ObjectMembers::new(&mut self.members, place, self.existing);
        if let Err(error) = raw_json::read_object(&content, &mut object) {
            return Err(not_an_object(&content, &error));
        }
        let found = object.found;
        if let Some(conflict) = found.names.conflict(self.existing) {
            return Err(conflict.fails(&self.columns));
        }
        // Also for a row that fails: its old values must not be mistaken for new ones.
        row.existing = found.existing.into();
        row.earlier = found.earlier;
        if let Some(failure) = found.failure {
            return Err(failure);
        }
        let damaged = matches!(content, Cow::Owned(_));
        let intact = |part: JsonValue<'_>| {
            if !damaged {
                return true;
            }
            let start = place.offset(part);
            bytes.get(start..start + part.get().len()) == Some(part.get().as_bytes())
        };
        let values = found.values;
        let find = |field, lookup: &usize| match values.get(*lookup) {
            Some(Some((_, value))) => {
                let pointer = match self.members.lookups().get(*lookup) {
                    Some(MemberLookup::At(pointer)) => Some(pointer),
                    _ => None,
                };
                member_text::text(*value, pointer, field, intact)
            }
            _ => Ok(None),
        };
        let mut found = PerField::try_from_fn(|field| match self.sources.get(field) {
            ColumnSource::Absent => Ok(None),
            ColumnSource::Constant(value) => Ok(Some(Cow::Borrowed(value.as_str()))),
            ColumnSource::Columns(template) => template.text(|lookup| find(field, lookup)),
        })?;
        let take = |field| Ok(found.get_mut(field).take());
        // A value that is not a string names no region.
        let region = || {
            let found = find(Field::Phone, &self.region?);
            Some(found.ok().flatten().unwrap_or_default())
        };
        UserRequest::new(take, phones, region).map(|request| bodies.body(&request))
    }
}

/// The failure of a line that is not a JSON object.
pub(in crate::input) fn not_an_object(content: &str, error: &serde_json::Error) -> Failure {
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
        format!("invalid JSON at column {}", error.column()),
    )
}
