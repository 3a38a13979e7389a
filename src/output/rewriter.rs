//! Writes the rows of a scored file again with new decisions. All other bytes stay as they are.

use super::earlier::{DecisionChange, EarlierVerdict};
use super::file::{RowFiles, WriteError};
use super::writer::RowsBeside;
use crate::layout::{Format, Layout};
use crate::row::{Row, Span};
use crate::verdict::{Decision, Score};

/// Writes rows with new decisions to the output, and those whose decision changed to the changes.
pub(crate) struct Rewriter {
    format: Format,
    files: RowFiles,
    beside: RowsBeside,
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
    pub(crate) fn new(layout: &Layout, mut files: RowFiles) -> Self {
        let beside = RowsBeside::new(layout, &mut files);
        let out = files.output.buffer();
        out.extend_from_slice(&layout.preamble);
        if let Some(header) = &layout.header {
            out.extend_from_slice(&header.raw);
        }
        Self {
            format: layout.format,
            files,
            beside,
        }
    }

    /// Adds a row.
    pub(crate) fn add(&mut self, decided: &DecidedRow<'_>) {
        let DecidedRow { row, new, old } = decided;
        let buffer = self.files.output.row();
        let Some((span, decision)) = new else {
            buffer.extend_from_slice(&row.raw);
            return;
        };
        let end = Span::new(0, row.raw.len()).end;
        let piece = |start, end| row.slice(Span { start, end });
        let word = decision.map(Decision::word);
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
        let change = DecisionChange {
            before: &EarlierVerdict {
                decision: old.decision,
                score: Some(old.score.clone()),
            },
            decision,
            score: &old.score,
        };
        self.beside.change(&mut self.files, row, &change);
    }

    /// Adds the blank lines after the last row.
    pub(crate) fn trailer(&mut self, trailer: &[u8]) {
        self.files.output.buffer().extend_from_slice(trailer);
    }

    /// Writes the rows that were added.
    ///
    /// # Errors
    /// The output or the changes cannot be written.
    pub(crate) fn write_out(&mut self) -> Result<(), WriteError> {
        self.files.output.write_out()?;
        self.files.write_out_beside()
    }

    /// Its files, once there are no more rows.
    #[must_use]
    pub(crate) fn into_files(self) -> RowFiles {
        self.files
    }
}
