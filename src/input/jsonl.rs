//! Lines of JSON to rows: which members are fields, which ones an earlier run wrote, and the request that an object makes.
//!
//! Every byte is kept. A line that is not a JSON object stays in its place as it is; only its row fails. Values that are not
//! sent are never read, let alone printed again.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;
use memchr::memchr2;

use super::scored_columns::{self, Conflict};
use super::settings::{Compose, ReaderSettings};
use super::sniff;
use super::source::{Buffer, Extent, MAX_RECORD, line_end, marks_at};
use crate::base::error::Result;
use crate::base::text::quoted;
use crate::fields::{
    self, ColumnSource, Field, FieldRules, Mapping, MemberSample, PerField, Template, UserRequest,
};
use crate::layout::AddedColumns;
use crate::raw_json::{self, Pointer};
use crate::row::{RawRow, Span};
use crate::row_state::RowState;
use crate::selection::Condition;
use crate::verdict::{Failure, Reason};

/// Makes requests of records.
pub(super) struct JsonlParser {
    members: MemberUses,
    sources: PerField<ColumnSource<usize>>,
    /// Whether an earlier run wrote the file: no requests are made of its rows.
    is_scored: bool,
    /// How many of the first look-ups are for members that are read besides the fields: those that a command wants of a scored
    /// file, or those of `only` and the key.
    extra_members: usize,
    /// Only rows for which all of these hold are sent.
    only: Vec<Condition>,
    /// The look-up of the member by which rows are compared with an earlier output.
    key: Option<usize>,
    /// The look-up of the region of national phone numbers, if the file has it.
    region: Option<usize>,
    /// The columns of an earlier run that the first objects have.
    scored_columns: HashSet<usize>,
    /// Which member is which field, as one line for people.
    pub(super) mapping: String,
}

/// How many rows are used for the mapping: those in the first block, but at most this many.
const SAMPLE_ROWS: usize = 100;
/// If at least this many objects lack a required field, the file is rejected, and not each of its rows.
const FEW_ROWS: usize = 10;

/// What the first objects have.
#[derive(Default)]
struct FirstObjects {
    number: usize,
    /// The names of their members, in order.
    names: Vec<String>,
    /// The pointers to members of their objects.
    nested: Vec<String>,
    /// All of both.
    members_seen: HashSet<String>,
    /// For each extra member, whether one of them has a value for it.
    has_extra: Vec<bool>,
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
        let is_whole = at_end && sample.len() == lines.len();
        let mut first = FirstObjects::default();
        first.has_extra.resize(parser.extra_members, false);
        for (row, line) in (1..).zip(sample) {
            parser.note_first(&readable(line), row, settings, file, &mut first)?;
        }
        // Without objects there is nothing to check: the file is empty, or its rows will fail with their own reasons.
        if first.number == 0 {
            if is_whole || sample.len() < lines.len() {
                sniff::refuse_other_text(lines.first().copied(), file)?;
            }
            return Ok(parser);
        }
        if settings.scored.is_some() {
            parser.refuse_unscored(&first, file)?;
            refuse_without_extra(settings, &first, file)?;
            return Ok(parser);
        }
        let part = match (is_whole, first.number) {
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
            refuse_without_extra(settings, &first, file)?;
        }
        parser.mapping = mapping.described;
        Ok(parser)
    }

    /// Notes what one of the first lines has, if it is an object.
    ///
    /// # Errors
    /// It has members with the names of columns that rescore writes, and they must not be changed.
    fn note_first(
        &mut self,
        line: &str,
        row: usize,
        settings: &ReaderSettings,
        file: &str,
        first: &mut FirstObjects,
    ) -> Result<()> {
        let text = TextInRow {
            text: line,
            offset: 0,
        };
        let Ok(found) = FoundMembers::read(&mut self.members, text) else {
            return Ok(());
        };
        first.number += 1;
        let mut note = |names: &mut Vec<String>, name: String| {
            if first.members_seen.insert(name.clone()) {
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
        let columns = &self.members.columns;
        match (found.conflict(), &settings.scored) {
            (Some(Conflict::Foreign(column)), Some(_)) => {
                return Err(scored_columns::has_foreign(columns, column, row, file));
            }
            (Some(conflict), None) => {
                return Err(conflict.refuses(columns, "member", file, row));
            }
            _ => {}
        }
        let scored = found.scored_cells.iter().map(|(_, column)| *column);
        self.scored_columns.extend(scored);
        for (lookup, has_it) in first.has_extra.iter_mut().enumerate() {
            let value = self.value_of(&found.values, lookup);
            *has_it |= value.is_ok_and(|value| value.is_some());
        }
        Ok(())
    }

    /// Fails if none of the first objects of a scored file has one of the columns that a run adds.
    fn refuse_unscored(&self, first: &FirstObjects, file: &str) -> Result<()> {
        let mut columns = self.members.columns.iter().enumerate();
        match columns.find(|(column, _)| !self.scored_columns.contains(column)) {
            Some((_, name)) => Err(scored_columns::lacks_scored(
                name,
                "member",
                &first.names,
                file,
            )),
            None => Ok(()),
        }
    }

    /// The value that an object has for a look-up.
    ///
    /// # Errors
    /// It has a member on the path twice.
    fn value_of<'a>(
        &self,
        values: &[Option<(usize, &'a str)>],
        lookup: usize,
    ) -> Result<Option<&'a str>, Failure> {
        let Some((_, value)) = values.get(lookup).copied().flatten() else {
            return Ok(None);
        };
        match self.members.lookups.get(lookup) {
            Some(MemberLookup::At(pointer)) => raw_json::follow(value, pointer.split_first().1)
                .map_err(|_| {
                    let path = quoted(&pointer.to_string());
                    let message = format!("a member on the path {path} appears twice");
                    Failure::new(Reason::DuplicateKey, message)
                }),
            _ => Ok(Some(value)),
        }
    }

    /// The names of the columns of an earlier run that the first objects have and that are replaced.
    pub(super) fn replaced(&self) -> Vec<String> {
        let columns = self.members.columns.iter().enumerate();
        let replaced = columns.filter(|(column, _)| self.scored_columns.contains(column));
        replaced.map(|(_, name)| name.clone()).collect()
    }

    /// Fails if a field is looked up under a name that rescore writes. It does not matter whether the first objects have it, as
    /// others may.
    fn refuse_sources(&self, file: &str) -> Result<()> {
        for column in self.members.columns.iter() {
            let mut lookups = self.members.lookups_of(column);
            let field =
                lookups.find_map(|(lookup, _)| scored_columns::field_of(&self.sources, &lookup));
            if let Some(field) = field {
                return Err(scored_columns::is_source(column, field, "member", file));
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
        let extra = settings.extra_columns();
        for name in &extra {
            add(at(name));
        }
        let is_scored = settings.scored.is_some();
        let sources = PerField::from_fn(|field| match settings.assignments.get(field) {
            _ if is_scored => ColumnSource::Absent,
            Some(fields::Assigned::Constant(value)) => ColumnSource::Constant(value.clone()),
            Some(fields::Assigned::Columns(template)) => {
                ColumnSource::Columns(template.map(|name| add(at(name))))
            }
            None => ColumnSource::Columns(Template(vec![fields::Part::Column(add(
                MemberLookup::Named(field),
            ))])),
        });
        let region = settings.assignments.region_column();
        let region = region.map(|name| add(at(name)));
        let key = settings.key.as_ref().map(|_| settings.only.len());
        Self {
            members: MemberUses::new(lookups, &settings.columns),
            sources,
            is_scored,
            extra_members: extra.len(),
            only: settings.only.clone(),
            key,
            region,
            scored_columns: HashSet::new(),
            mapping: String::new(),
        }
    }

    /// Where a row of a scored file has the extra members; the span of one that it lacks is empty.
    fn spans_of_extra(
        &self,
        found: &FoundMembers<'_>,
        text: TextInRow<'_>,
    ) -> Result<Box<[Span]>, Failure> {
        if let (true, Some(name)) = (found.scored_cells.is_empty(), self.members.columns.first()) {
            let message = format!("the row has no {}", quoted(name));
            return Err(Failure::new(Reason::ExistingColumns, message));
        }
        let span = |lookup| {
            let value = self.value_of(&found.values, lookup)?;
            Ok(value.map_or_else(Span::default, |value| text.span(value)))
        };
        (0..self.extra_members).map(span).collect()
    }

    /// Whether `--only` chooses the object. A member that it lacks is empty.
    fn is_chosen(&self, values: &[Option<(usize, &str)>]) -> Result<bool, Failure> {
        for (lookup, condition) in self.only.iter().enumerate() {
            let value = self.value_of(values, lookup)?;
            if !condition.holds(&value.map(raw_json::text).unwrap_or_default()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The body of the request that the record makes; in a scored file, where it has the members that a command wants. It also
    /// notes where the row has the columns of an earlier run.
    #[inline]
    pub(super) fn state(
        &mut self,
        row: &mut RawRow,
        rules: &FieldRules,
        compose: &mut Compose,
    ) -> Result<RowState, Failure> {
        let bytes = row.bytes.get(row.content.range()).unwrap_or_default();
        let line = readable(bytes);
        let text = TextInRow {
            text: &line,
            offset: row.before().len(),
        };
        let found =
            FoundMembers::read(&mut self.members, text).map_err(|error| not_an_object(&error))?;
        if let Some(conflict) = found.conflict() {
            return Err(conflict.fails(&self.members.columns));
        }
        let extra = self.is_scored.then(|| self.spans_of_extra(&found, text));
        let extra = extra.transpose()?;
        // Also for a row that fails: its old values must not be mistaken for new ones.
        row.scored_cells = found.scored_cells.into();
        if let Some(failure) = found.failure {
            return Err(failure);
        }
        if let Some(extra) = extra {
            return Ok(RowState::Scored(extra));
        }
        let is_as_written = |value: &str| {
            let start = value.as_ptr().addr() - line.as_ptr().addr();
            bytes.get(start..start + value.len()) == Some(value.as_bytes())
        };
        let is_sendable = |value: &str| matches!(line, Cow::Borrowed(_)) || is_as_written(value);
        let values = found.values;
        if let Some(key) = self.key
            && let Some(value) = self.value_of(&values, key)?
        {
            row.key = text.span(value);
        }
        if !self.only.is_empty() && !self.is_chosen(&values)? {
            return Ok(RowState::Passed);
        }
        let find = |field, lookup: &usize| match self.value_of(&values, *lookup)? {
            Some(value) => text_to_send(value, field, is_sendable),
            None => Ok(None),
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

/// Fails if none of the first objects has one of the extra members.
fn refuse_without_extra(settings: &ReaderSettings, first: &FirstObjects, file: &str) -> Result<()> {
    let extra = settings.extra_columns();
    let mut extra = extra.iter().zip(&first.has_extra);
    match extra.find(|(_, has_it)| !**has_it) {
        Some((name, _)) => Err(scored_columns::lacks(name, "member", &first.names, file)),
        None => Ok(()),
    }
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

/// The text of a value that is sent. Null counts as absent.
fn text_to_send(
    value: &str,
    field: Field,
    is_sendable: impl Fn(&str) -> bool,
) -> Result<Option<Cow<'_, str>>, Failure> {
    if !is_sendable(value) {
        let message = format!("{field} is not UTF-8");
        return Err(Failure::new(Reason::NotUtf8, message));
    }
    match raw_json::string(value) {
        Some(text) => Ok(Some(text)),
        None if value == "null" => Ok(None),
        // Databases and spreadsheets write a phone number without a plus as a number.
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
fn lines_of(text: &[u8]) -> impl Iterator<Item = &[u8]> {
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
                let line = buffer.line + lines_before;
                return buffer.check_size(rest.len(), line).map(|()| None);
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
        return Ok(Some(Extent {
            content: Span::new(start, end),
            end: end + after,
            lines_before,
            lines: u64::from(after > 0),
            malformed: false,
        }));
    }
}

/// One value that is looked up in every object.
enum MemberLookup {
    /// At this path, by `--map`.
    At(Pointer),
    /// Under any of the field's usual names.
    Named(Field),
}

/// What the members with one key are used for.
#[derive(Debug, Default)]
struct KeyUses {
    /// The look-ups that it matches, with their rank (0 is best).
    lookups: Vec<(usize, usize)>,
    /// The column with the same name that rescore writes.
    column: Option<usize>,
}

/// How many different keys are remembered: more than a record has. A file with new keys in every row must not fill the memory.
const REMEMBERED_KEYS: usize = 1_024;
/// The longest key that is remembered: longer than any usual name.
const REMEMBERED_BYTES: usize = 256;

/// What the keys of a file's objects are used for. Keys repeat in every row, so each is judged once for the whole file.
struct MemberUses {
    lookups: Vec<MemberLookup>,
    /// The columns that rescore writes.
    columns: AddedColumns,
    remembered: Vec<KeyUses>,
    /// The index in `remembered` of each key as written.
    indexes: HashMap<Box<str>, usize, RandomState>,
    /// The uses of the last key that is not remembered.
    last: KeyUses,
}

impl MemberUses {
    fn new(lookups: Vec<MemberLookup>, columns: &AddedColumns) -> Self {
        Self {
            lookups,
            columns: columns.clone(),
            remembered: Vec::new(),
            indexes: HashMap::default(),
            last: KeyUses::default(),
        }
    }

    /// What members with this key are used for.
    #[inline]
    fn uses(&mut self, key: &str) -> &KeyUses {
        let index = match self.indexes.get(key) {
            Some(index) => *index,
            None => self.judge(key),
        };
        self.remembered.get(index).unwrap_or(&self.last)
    }

    /// The index of a new key, if it is to be remembered.
    #[cold]
    fn judge(&mut self, key: &str) -> usize {
        let name = raw_json::string(key).unwrap_or_default();
        let uses = KeyUses {
            lookups: self.lookups_of(&name).collect(),
            column: self.columns.iter().position(|column| *column == name),
        };
        let index = self.remembered.len();
        if index >= REMEMBERED_KEYS || key.len() > REMEMBERED_BYTES {
            self.last = uses;
            return usize::MAX;
        }
        self.indexes.insert(key.into(), index);
        self.remembered.push(uses);
        index
    }

    /// The look-ups that a member with this name matches, with their rank.
    fn lookups_of(&self, name: &str) -> impl Iterator<Item = (usize, usize)> {
        let named = fields::rank(name);
        let lookups = self.lookups.iter().enumerate();
        lookups.filter_map(move |(index, lookup)| {
            let rank = match lookup {
                MemberLookup::At(pointer) => fields::name_rank(pointer.split_first().0, name)?,
                MemberLookup::Named(field) => named.filter(|(found, _)| found == field)?.1,
            };
            Some((index, rank))
        })
    }
}

/// The text of an object, and its offset in the bytes of its row.
#[derive(Clone, Copy)]
struct TextInRow<'a> {
    text: &'a str,
    offset: usize,
}

impl TextInRow<'_> {
    /// The span that a part of the text has in the row.
    fn span(self, part: &str) -> Span {
        let start = self.offset + part.as_ptr().addr() - self.text.as_ptr().addr();
        Span::new(start, start + part.len())
    }
}

/// The values of one object that are needed.
struct FoundMembers<'a> {
    /// The value of each look-up, with the rank of its name.
    values: Vec<Option<(usize, &'a str)>>,
    /// The values under the names of columns that rescore writes, with the number of the column.
    scored_cells: Vec<(Span, usize)>,
    /// One of these columns with a value that rescore never writes.
    foreign: Option<usize>,
    failure: Option<Failure>,
}

impl<'a> FoundMembers<'a> {
    /// Reads an object.
    ///
    /// # Errors
    /// The text is not an object.
    #[inline]
    fn read(members: &mut MemberUses, text: TextInRow<'a>) -> serde_json::Result<Self> {
        let mut found = Self {
            values: vec![None; members.lookups.len()],
            scored_cells: Vec::new(),
            foreign: None,
            failure: None,
        };
        raw_json::members(text.text, |key, value| {
            let uses = members.uses(key);
            let mut lookups = uses.lookups.iter();
            if !lookups.all(|(lookup, rank)| found.note(*lookup, *rank, key, value)) {
                return;
            }
            if let Some(column) = uses.column {
                let content = members.columns.content(column);
                let is_possible = scored_columns::could_be_written_as_json(content, value);
                found.note_scored(column, key, text.span(value), is_possible);
            }
        })?;
        Ok(found)
    }

    /// Notes the value of a look-up, unless there is one under a better name. Whether it is the only one of its rank.
    #[inline]
    fn note(&mut self, lookup: usize, rank: usize, key: &str, value: &'a str) -> bool {
        let Some(slot) = self.values.get_mut(lookup) else {
            return true;
        };
        match slot {
            Some((noted, _)) if *noted < rank => {}
            Some((noted, _)) if *noted == rank => {
                let name = quoted_key(key);
                self.fail_twice(format!("{name} or an equivalent name appears twice"));
                return false;
            }
            _ => *slot = Some((rank, value)),
        }
        true
    }

    /// Notes a member with the name of a column that rescore writes. A function of its own, so that the loop over members stays
    /// small.
    #[cold]
    fn note_scored(&mut self, column: usize, key: &str, value: Span, is_possible: bool) {
        if self.scored_cells.iter().any(|(_, other)| *other == column) {
            self.fail_twice(format!("{} appears twice", quoted_key(key)));
        }
        self.scored_cells.push((value, column));
        if !is_possible {
            self.foreign.get_or_insert(column);
        }
    }

    /// Why the object must not be changed.
    fn conflict(&self) -> Option<Conflict> {
        let found = self.scored_cells.iter().map(|(_, column)| *column);
        Conflict::of(&found, self.foreign)
    }

    #[cold]
    fn fail_twice(&mut self, message: String) {
        self.failure
            .get_or_insert_with(|| Failure::new(Reason::DuplicateKey, message));
    }
}

/// A key's name, for messages.
fn quoted_key(key: &str) -> String {
    quoted(&raw_json::string(key).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_new_keys_do_not_fill_the_memory_and_still_work() {
        let lookups = vec![MemberLookup::Named(Field::Email)];
        let mut members = MemberUses::new(lookups, &AddedColumns::new("", [], None));
        let key = |name: &str| format!("\"{name}\"");
        let long = key(&"x".repeat(REMEMBERED_BYTES));
        assert!(members.uses(&long).lookups.is_empty());
        assert_eq!(members.remembered.len(), 0);
        for number in 0..3 * REMEMBERED_KEYS {
            let name = key(&format!("k{number}"));
            assert!(members.uses(&name).column.is_none());
        }
        // The first keys stay, so that keys that are in every row are found again.
        assert_eq!(members.remembered.len(), REMEMBERED_KEYS);
        assert!(members.indexes.contains_key("\"k0\""));
        let decision = members.uses("\"decision\"").column;
        assert_eq!(decision, Some(2));
        let email = members.uses("\"email\"");
        assert_eq!(email.lookups, [(0, 0)]);
    }
}
