//! The pass over the files: a thread reads, and the thread that called counts.

use super::super::read_ahead::read_ahead;
use super::counts::CheckedRows;
use super::known::RequestLookup;
use super::progress::PassProgress;
use super::requests;
use crate::base::error::{Error, Result};
use crate::input::{FirstRows, ReadRow, Reader, RowBatch};
use crate::ledger::{KnownOutcome, LookupResult, RequestKey};
use crate::output::{RejectsWriter, WriteError};
use crate::telemetry::event::PassedOver;

/// A pass over one file after the other.
pub(super) struct Pass {
    requests: RequestLookup,
    progress: PassProgress,
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
            judges_first_rows,
        }
    }

    /// Reads a file to its end.
    ///
    /// # Errors
    /// The ledger cannot be read, or a file cannot be written. Nothing is left then.
    pub(super) fn file(
        &mut self,
        reader: Reader,
        mut rejects: Option<RejectsWriter>,
    ) -> Result<PassedFile> {
        let mut rows = CheckedRows::default();
        let mut first = FirstRows::new(self.judges_first_rows);
        let (mut broken, mut position) = (None, 0);
        for batch in read_ahead(reader)? {
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
    pub(super) fn calls(&self) -> u64 {
        self.requests.calls()
    }

    fn count(
        &mut self,
        rows: &mut CheckedRows,
        first: &mut FirstRows,
        mut rejects: Option<&mut RejectsWriter>,
        batch: RowBatch,
    ) -> Result<()> {
        let bodies = { batch.rows.iter() }.filter_map(|row| row.request.as_ref().ok());
        let bodies = bodies.map(|request| requests::split(request).1);
        let mut found = self.requests.find(bodies)?.into_iter();
        for ReadRow { row, request, .. } in batch.rows {
            rows.read += 1;
            if let Some(reason) = first.take(&request) {
                rows.refused = Some(reason);
            }
            match request {
                Ok(request) => {
                    let (marks, _) = requests::split(&request);
                    for field in marks.fields() {
                        rows.unusual.entry(field).or_default().add(row.number);
                    }
                    // There is one for each.
                    if let Some((key, found)) = found.next() {
                        self.request(rows, &key, &found);
                    }
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
        let written = rejects.map(RejectsWriter::write_out);
        written.unwrap_or(Ok(())).map_err(closed)
    }

    /// Counts a row that can be sent, unless the run refuses its file.
    fn request(&mut self, rows: &mut CheckedRows, key: &RequestKey, found: &LookupResult) {
        if rows.refused.is_some() {
            return;
        }
        match found.passed_over {
            Some(PassedOver::Damaged) => rows.damaged += 1,
            Some(PassedOver::TooOld) => rows.too_old += 1,
            Some(PassedOver::Failed) | None => {}
        }
        match found.known {
            Some(KnownOutcome::Answer(_)) => rows.known += 1,
            Some(KnownOutcome::Failure(_)) => rows.failed_before += 1,
            None => self.requests.send(key),
        }
    }
}

/// The error for rejects that cannot be written. Rejects were asked for by name, so a reader that has gone away is an error.
pub(super) fn closed(error: WriteError) -> Error {
    match error {
        WriteError::Failed(error) => error,
        WriteError::Closed => Error::stopped("nobody reads the rejects any more"),
    }
}
