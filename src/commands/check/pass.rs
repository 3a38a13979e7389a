//! The pass over the file: a thread reads, and the thread that called counts.

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

/// What a pass needs besides the rows.
pub(super) struct Pass {
    pub(super) requests: RequestLookup,
    pub(super) rejects: Option<RejectsWriter>,
    pub(super) progress: PassProgress,
}

/// What a pass leaves.
pub(super) struct PassEnd {
    pub(super) counts: CheckedRows,
    /// With all rows that cannot be sent, and not yet under its final name.
    pub(super) rejects: Option<RejectsWriter>,
}

impl Pass {
    /// Reads to the end.
    ///
    /// # Errors
    /// The input cannot be read to its end, or a file cannot be written. Nothing is left then.
    pub(super) fn run(mut self, mut reader: Reader) -> Result<PassEnd> {
        let mut counter = Counter::default();
        for batch in read_ahead(move || reader.next_batch())? {
            let batch = batch?;
            let position = batch.position;
            self.count(&mut counter, batch)?;
            self.progress.show(counter.rows.read, position);
        }
        self.progress.end();
        let Counter {
            mut rows, distinct, ..
        } = counter;
        rows.calls += distinct.count()?;
        Ok(PassEnd {
            counts: rows,
            rejects: self.rejects,
        })
    }

    fn count(&mut self, counter: &mut Counter, batch: RowBatch) -> Result<()> {
        let bodies = batch.rows.iter().filter_map(|ReadRow { row, request }| {
            let (_, body) = requests::split(request.as_ref().ok()?);
            Some((body, row.number))
        });
        self.requests.begin(bodies)?;
        for ReadRow { row, request } in batch.rows {
            counter.rows.read += 1;
            if let Some(reason) = counter.first.take(&request) {
                counter.rows.refused = Some(reason);
            }
            match request {
                Ok(request) => {
                    let (marks, body) = requests::split(&request);
                    for field in marks.fields() {
                        let tally = counter.rows.unusual.entry(field).or_default();
                        tally.add(row.number);
                    }
                    counter.request(&mut self.requests, body, row.number)?;
                }
                Err(failure) => {
                    let reason = failure.reason;
                    let tally = counter.rows.unsendable.entry(reason).or_default();
                    tally.add(row.number);
                    if let Some(rejects) = &mut self.rejects {
                        rejects.add(&row, &failure);
                    }
                }
            }
        }
        self.requests.end()?;
        let written = self.rejects.as_mut().map(RejectsWriter::write_out);
        written.unwrap_or(Ok(())).map_err(closed)
    }
}

/// The error for rejects that cannot be written. Rejects were asked for by name, so a reader that has gone away is an error.
pub(super) fn closed(error: WriteError) -> Error {
    match error {
        WriteError::Failed(error) => error,
        WriteError::Closed => Error::stopped("nobody reads the rejects any more"),
    }
}

/// What has been counted so far.
struct Counter {
    rows: CheckedRows,
    first: FirstRows,
    distinct: DistinctCounter,
}

impl Default for Counter {
    fn default() -> Self {
        Self {
            rows: CheckedRows::default(),
            first: FirstRows::new(true),
            distinct: DistinctCounter::new(),
        }
    }
}

impl Counter {
    /// Counts a row that can be sent.
    fn request(&mut self, requests: &mut RequestLookup, body: &[u8], row: RowNumber) -> Result<()> {
        let (state, unusable) = requests.find(body, row)?;
        match unusable {
            Some(Unusable::Damaged) => self.rows.damaged += 1,
            Some(Unusable::FromTheFuture) => self.rows.from_the_future += 1,
            None => {}
        }
        match state {
            RequestState::Known => self.rows.known += 1,
            RequestState::FailedBefore => self.rows.failed_before += 1,
            RequestState::New(Some(hash)) => self.distinct.add(hash)?,
            RequestState::New(None) => self.rows.calls += 1,
        }
        Ok(())
    }
}
