//! The pass over the files: a thread reads, and the thread that called counts.

use super::super::read_ahead::read_ahead;
use super::counts::CheckedRows;
use super::distinct::DistinctCounter;
use super::known::{RequestLookup, RequestState};
use super::progress::PassProgress;
use super::requests;
use crate::base::error::{Error, Result};
use crate::input::{FirstRows, ReadRow, Reader, RowBatch};
use crate::output::{RejectsWriter, WriteError};
use crate::row::RowNumber;
use crate::telemetry::event::Unusable;

/// A pass over one file after the other.
pub(super) struct Pass {
    requests: RequestLookup,
    progress: PassProgress,
    distinct: DistinctCounter,
    /// Requests that are sent for one row only.
    single: u64,
    /// The run refuses a file whose first rows all fail for the same reason.
    judges_first_rows: bool,
}

/// A file that was read.
pub(super) struct PassedFile {
    pub(super) rows: CheckedRows,
    /// With all rows that cannot be sent, and not yet under its final name.
    pub(super) rejects: Option<RejectsWriter>,
    /// Why it cannot be read to its end.
    pub(super) broken: Option<Error>,
}

impl Pass {
    /// Over no file yet.
    pub(super) fn new(
        requests: RequestLookup,
        progress: PassProgress,
        judges_first_rows: bool,
    ) -> Self {
        Self {
            requests,
            progress,
            distinct: DistinctCounter::new(),
            single: 0,
            judges_first_rows,
        }
    }

    /// Reads a file to its end.
    ///
    /// # Errors
    /// The ledger cannot be read, or a file cannot be written. Nothing is left then.
    pub(super) fn file(
        &mut self,
        mut reader: Reader,
        mut rejects: Option<RejectsWriter>,
    ) -> Result<PassedFile> {
        let mut rows = CheckedRows::default();
        let mut first = FirstRows::new(self.judges_first_rows);
        let (mut broken, mut position) = (None, 0);
        for batch in read_ahead(move || reader.next_batch())? {
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => {
                    broken = Some(error);
                    break;
                }
            };
            position = batch.position;
            self.count(&mut rows, &mut first, rejects.as_mut(), batch)?;
            self.progress.show(rows.read, position);
        }
        self.progress.end_file(rows.read, position);
        Ok(PassedFile {
            rows,
            rejects,
            broken,
        })
    }

    /// The requests to send.
    ///
    /// # Errors
    /// The temporary file cannot be read.
    pub(super) fn calls(self) -> Result<u64> {
        Ok(self.single + self.distinct.count()?)
    }

    fn count(
        &mut self,
        rows: &mut CheckedRows,
        first: &mut FirstRows,
        mut rejects: Option<&mut RejectsWriter>,
        batch: RowBatch,
    ) -> Result<()> {
        self.requests.begin()?;
        for ReadRow { row, request } in batch.rows {
            rows.read += 1;
            if let Some(reason) = first.take(&request) {
                rows.refused = Some(reason);
            }
            match request {
                Ok(request) => {
                    let (marks, body) = requests::split(&request);
                    for field in marks.fields() {
                        rows.unusual.entry(field).or_default().add(row.number);
                    }
                    self.request(rows, body, row.number)?;
                }
                Err(failure) => {
                    let tally = rows.unsendable.entry(failure.reason).or_default();
                    tally.add(row.number);
                    if let Some(rejects) = &mut rejects {
                        rejects.add(&row, &failure);
                    }
                }
            }
        }
        self.requests.end()?;
        let written = rejects.map(RejectsWriter::write_out);
        written.unwrap_or(Ok(())).map_err(closed)
    }

    /// Counts a row that can be sent, unless the run refuses its file.
    fn request(&mut self, rows: &mut CheckedRows, body: &[u8], row: RowNumber) -> Result<()> {
        if rows.refused.is_some() {
            return Ok(());
        }
        let (state, unusable) = self.requests.find(body, row)?;
        match unusable {
            Some(Unusable::Damaged) => rows.damaged += 1,
            Some(Unusable::FromTheFuture) => rows.from_the_future += 1,
            None => {}
        }
        match state {
            RequestState::Known => rows.known += 1,
            RequestState::FailedBefore => rows.failed_before += 1,
            RequestState::New(Some(hash)) => self.distinct.add(hash)?,
            RequestState::New(None) => self.single += 1,
        }
        Ok(())
    }
}

/// The error for rejects that cannot be written. Rejects were asked for by name, so a reader that has gone away is an error.
pub(super) fn closed(error: WriteError) -> Error {
    match error {
        WriteError::Failed(error) => error,
        WriteError::Closed => Error::stopped("nobody reads the rejects any more"),
    }
}
