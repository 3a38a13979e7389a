//! Writes the rows of a scored file again with new decisions. All other bytes stay as they are.

use super::columns::CHANGE;
use super::csv;
use super::earlier::{DecisionChange, EarlierVerdict};
use super::jsonl;
use super::outcome::WriteError;
use super::row_files::RowFiles;
use super::side::Sides;
use super::sink::Sink;
use crate::layout::{Format, Layout};
use crate::row::{Row, Span};
use crate::verdict::{Decision, Score};

/// Writes rows with new decisions to the output, and those whose decision changed to the changes.
pub(crate) struct Rewriter {
    format: Format,
    files: RowFiles,
    cells: csv::CellEncoder,
    /// The columns in front of the changes in a delimited file.
    change: csv::FrontColumns,
}

/// A row and its new decision.
pub(crate) struct DecidedRow<'a> {
    /// The row as it was read.
    pub(crate) row: &'a Row,
    /// Where its decision is, and the new one, if that differs.
    pub(crate) new: Option<(Span, Option<Decision>)>,
    /// The verdict before, if both decisions are known.
    pub(crate) old: Option<OldVerdict>,
}

/// A verdict whose decision changes.
pub(crate) struct OldVerdict {
    /// The decision before.
    pub(crate) decision: Decision,
    /// The score, which stays.
    pub(crate) score: Score,
}

impl Rewriter {
    /// A rewriter whose output starts like the file with this layout.
    #[must_use]
    pub(crate) fn new(layout: &Layout, output: Sink, sides: Sides) -> Self {
        let mut files = RowFiles::new(output, sides);
        files.buffer.extend_from_slice(&layout.preamble);
        let mut cells = csv::CellEncoder::new(layout.format, layout.encoding);
        let header = layout.header.as_ref();
        let change = csv::FrontColumns::new(&CHANGE, header, &cells);
        if let Some(header) = header {
            files.buffer.extend_from_slice(&header.raw);
            if let Some(changes) = &mut files.sides.changes {
                csv::write_side_header(changes.header(), change, header, layout, &mut cells);
            }
        }
        Self {
            format: layout.format,
            files,
            cells,
            change,
        }
    }

    /// Adds a row.
    pub(crate) fn add(&mut self, decided: &DecidedRow<'_>) {
        let DecidedRow { row, new, old } = decided;
        let Some((span, decision)) = new else {
            self.files.buffer.extend_from_slice(&row.raw);
            return;
        };
        let end = Span::new(0, row.raw.len()).end;
        let piece = |start, end| row.slice(Span { start, end });
        let word = decision.map(Decision::word);
        let buffer = &mut self.files.buffer;
        buffer.extend_from_slice(piece(0, span.start));
        match (self.format, word) {
            // Our words never need quotes.
            (Format::Delimited { .. }, word) => {
                buffer.extend_from_slice(word.unwrap_or_default().as_bytes());
            }
            (Format::Jsonl, Some(word)) => {
                buffer.extend_from_slice(format!("\"{word}\"").as_bytes());
            }
            (Format::Jsonl, None) => buffer.extend_from_slice(b"null"),
        }
        buffer.extend_from_slice(piece(span.end, end));
        if let (Some(old), Some(decision)) = (old, decision) {
            self.change(row, old, *decision);
        }
    }

    fn change(&mut self, row: &Row, old: &OldVerdict, decision: Decision) {
        let Some(changes) = &mut self.files.sides.changes else {
            return;
        };
        let change = DecisionChange {
            before: &EarlierVerdict {
                decision: old.decision,
                score: Some(old.score.clone()),
            },
            decision,
            score: &old.score,
        };
        match self.format {
            Format::Delimited { .. } => {
                csv::write_change(changes.row(), self.change, row, &change, &mut self.cells);
            }
            Format::Jsonl => jsonl::write_change(changes.row(), row, &change),
        }
    }

    /// Adds the blank lines after the last row.
    pub(crate) fn trailer(&mut self, trailer: &[u8]) {
        self.files.buffer.extend_from_slice(trailer);
    }

    /// Writes the rows that were added, of which there are this many.
    ///
    /// # Errors
    /// The output or the changes cannot be written.
    pub(crate) fn write_out(&mut self, rows: u64) -> Result<(), WriteError> {
        self.files.write_out(rows)?;
        self.files.sides.write_out()
    }

    /// Its files, once there are no more rows.
    #[must_use]
    pub(crate) fn into_files(self) -> RowFiles {
        self.files
    }
}
