//! Rejects without an output beside them: the rows of a file that cannot be sent.
//!
//! They have the form that they have beside an output. Nothing in them was paid for, so a file that is not complete is
//! removed.

use super::columns::REJECT;
use super::csv;
use super::jsonl;
use super::outcome::{Unfinished, WriteError, Written};
use super::row_files::sync_names;
use super::side::{SideFile, Sides, WhenEmpty};
use super::target::Target;
use crate::base::error::Result;
use crate::layout::{Format, Layout};
use crate::row::Row;
use crate::verdict::Failure;

/// Writes rows that cannot be sent.
pub(crate) struct RejectsWriter {
    /// `None` once it has its final name.
    file: Option<SideFile>,
    format: Format,
    cells: csv::CellEncoder,
    front: csv::FrontColumns,
}

impl RejectsWriter {
    /// Opens the file, with at most the permissions in `mode`. It stays empty until its first row.
    ///
    /// # Errors
    /// As [`Target::open`].
    pub(crate) fn open(target: &Target, mode: u32, layout: &Layout) -> Result<Self> {
        let mut file = SideFile::open(target, mode, WhenEmpty::Removed)?;
        let mut cells = csv::CellEncoder::new(layout.format, layout.encoding);
        let front = csv::FrontColumns::new(&REJECT, layout.header.as_ref(), &cells);
        if let Some(header) = &layout.header {
            csv::write_side_header(file.header(), front, header, layout, &mut cells);
        }
        Ok(Self {
            file: Some(file),
            format: layout.format,
            cells,
            front,
        })
    }

    /// Adds a row with the rule that it breaks. It is in the file after the next [`Self::write_out`].
    pub(crate) fn add(&mut self, row: &Row, failure: &Failure) {
        let Some(file) = &mut self.file else { return };
        match self.format {
            Format::Delimited { .. } => {
                csv::write_reject(file.row(), self.front, row, failure, &mut self.cells);
            }
            Format::Jsonl => jsonl::write_reject(file.row(), row, failure),
        }
    }

    /// Writes the rows that were added.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write_out(&mut self) -> Result<(), WriteError> {
        self.file.as_mut().map_or(Ok(()), SideFile::write_out)
    }

    /// Completes the file, and gives it its final name. Without rows there is none, and one from before is removed.
    ///
    /// # Errors
    /// The file cannot be written or renamed.
    pub(crate) fn commit(mut self) -> Result<Written, Box<Unfinished>> {
        let sides = Sides {
            rejects: self.file.take(),
            changes: None,
        };
        sync_names(sides.commit(Ok(None))?)
    }
}

impl Drop for RejectsWriter {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            file.discard();
        }
    }
}
