//! Finds our members in JSON objects.

use super::super::buffer::Buffer;
use super::super::existing::Conflict;
use super::super::jsonl::{lines_of, not_an_object, readable, value_fits};
use super::super::sniff;
use super::columns::ScoredColumns;
use crate::base::error::{Result, quoted};
use crate::layout::ColumnContent;
use crate::raw_json::{self, JsonValue, Pointer};
use crate::row::{Row, Span};
use crate::verdict::{Failure, Reason};

/// How many objects are looked at before the first row: those in the first block, but at most this many.
const SAMPLE_ROWS: usize = 100;

/// Finds the columns in objects.
pub(super) struct ScoredJsonl {
    columns: ScoredColumns,
    /// The path of each column.
    paths: Box<[Pointer]>,
}

impl ScoredJsonl {
    /// Reads the first objects and finds the columns in them.
    ///
    /// # Errors
    /// Exit code 2: no object has one of the columns, or one of ours has a value that we never write.
    pub(super) fn open(
        max_record: usize,
        columns: ScoredColumns,
        buffer: &mut Buffer,
    ) -> Result<Self> {
        while !buffer.at_end
            && memchr::memchr(b'}', &buffer.bytes).is_none()
            && buffer.bytes.len() <= max_record
        {
            buffer.fill()?;
        }
        let path = |(index, name): (usize, &String)| match Pointer::parse(name) {
            Ok(pointer) if index >= ScoredColumns::OURS => pointer,
            _ => Pointer::of_member(name),
        };
        let parser = Self {
            paths: columns.names().iter().enumerate().map(path).collect(),
            columns,
        };
        parser.judge_first_rows(buffer)?;
        Ok(parser)
    }

    /// Fails if none of the objects in the buffer has a column, or if one has a value in our columns that is not ours.
    fn judge_first_rows(&self, buffer: &Buffer) -> Result<()> {
        let (file, mut members) = (buffer.source.name(), Vec::new());
        let mut there = vec![false; self.paths.len()];
        let mut objects = 0;
        for (row, line) in (1..).zip(lines_of(&buffer.bytes).take(SAMPLE_ROWS)) {
            let text = readable(line);
            let Ok(found) = self.find(&text) else {
                continue;
            };
            objects += 1;
            for ((index, value), there) in found.iter().enumerate().zip(&mut there) {
                let Some(value) = value else { continue };
                *there = true;
                if index < ScoredColumns::OURS
                    && !value_fits(ColumnContent::of_answer(index), *value)
                {
                    return Err(self.columns.foreign(index, row, file));
                }
            }
            if objects == 1 {
                let name =
                    |key: JsonValue<'_>| raw_json::string(key).unwrap_or_default().into_owned();
                let _ = raw_json::members(&text, |key, _| members.push(name(key)));
            }
        }
        if objects == 0 {
            return sniff::refuse_other_text(lines_of(&buffer.bytes).next(), file);
        }
        let mut missing = there.iter().enumerate().filter(|(_, there)| !**there);
        match missing.find(|(index, _)| !self.columns.may_lack(*index)) {
            Some((missing, _)) => Err(self.columns.missing(missing, ("member", &members), file)),
            None => Ok(()),
        }
    }

    /// The value of each column in an object, or why it cannot be read.
    fn find<'a>(&self, content: &'a str) -> Result<Vec<Option<JsonValue<'a>>>, Failure> {
        let (mut found, mut twice) = (vec![None; self.paths.len()], None);
        let read = raw_json::members(content, |key, value| {
            let Some(key) = raw_json::string(key) else {
                return;
            };
            for ((index, path), slot) in self.paths.iter().enumerate().zip(&mut found) {
                let (first, rest) = path.split_first();
                if first != key {
                    continue;
                }
                match raw_json::follow(value, rest) {
                    Ok(value) if slot.is_none() => *slot = value,
                    Ok(_) | Err(raw_json::Ambiguous) => twice = Some(index),
                }
            }
        });
        if let Err(error) = read {
            return Err(not_an_object(content, &error));
        }
        match twice.and_then(|index| self.columns.names().get(index)) {
            Some(name) => Err(Failure::new(
                Reason::DuplicateKey,
                format!("{} appears twice", quoted(name)),
            )),
            None => Ok(found),
        }
    }

    /// Where the columns are in a row.
    pub(super) fn cells(&self, row: &Row) -> Result<Box<[Span]>, Failure> {
        let content = readable(row.content());
        let before = row.before().len();
        // The text has the same positions as the row's bytes.
        let span = |part: JsonValue<'_>| {
            let start = before + part.get().as_ptr().addr() - content.as_ptr().addr();
            Span::new(start, start + part.get().len())
        };
        let found = self.find(&content)?;
        let ours = found.iter().enumerate().take(ScoredColumns::OURS);
        for (column, value) in ours {
            match value {
                Some(value) if value_fits(ColumnContent::of_answer(column), *value) => {}
                Some(_) => return Err(Conflict::Foreign(column).fails(self.columns.names())),
                None => {
                    let name = self.columns.names().get(column).map_or("", String::as_str);
                    let message = format!("the row has no {}", quoted(name));
                    return Err(Failure::new(Reason::ExistingColumns, message));
                }
            }
        }
        Ok(found
            .iter()
            .map(|value| value.map_or_else(Span::default, span))
            .collect())
    }
}
