//! The pass over the inputs: a thread reads each as a run does, and the thread that called looks its rows up and counts them
//! in place of calling. It knows nothing of how the numbers are shown.

use std::collections::HashSet;

use bytes::{Buf as _, BufMut as _, BytesMut};
use tokio::time::{Duration, Instant};

use super::super::lookup::LookupStage;
use super::super::open_input::OpenInput;
use super::super::read_ahead::read_ahead;
use super::result::{CheckResult, CheckedFile};
use crate::base::error::{Error, Result};
use crate::base::stderr::draw;
use crate::config::CheckConfig;
use crate::fields::{Field, Invalid, UserRequest};
use crate::input::{Compose, FirstRows, ReadRow, ReaderSettings, RowBatch};
use crate::layout::Format;
use crate::ledger::KnownOutcome;
use crate::observe::{Style, counted};
use crate::output::{RejectsWriter, WriteError};
use crate::service::{self, Plan};
use crate::telemetry::event::PassedOver;
use crate::verdict::Reason;

/// Between two pictures of the progress. Most passes are over before the first one.
const REDRAWN: Duration = Duration::from_secs(1);

/// Makes the requests of a run, each behind a byte with a bit for each field that is unusually long or short: lengths are
/// counted on the reader's thread, where the fields are at hand.
pub(super) fn marked(plan: Plan) -> Compose {
    let compose = Compose::new(move |user: &UserRequest<'_>, to: &mut BytesMut| {
        let mut marks = 0;
        user.unusual_lengths(|field| marks |= bit(field));
        if user.dropped.is_some() {
            marks |= DROPPED;
        }
        to.put_u8(marks);
        service::write_body(user, plan, to);
    });
    compose.behind_marks(size_of::<u8>())
}

/// The bit for a phone number or an email address that is dropped.
const DROPPED: u8 = 1 << 7;

const fn bit(field: Field) -> u8 {
    1 << field as u8
}

/// A pass over one input after the other.
pub(super) struct Pass<'a> {
    pub(super) config: &'a CheckConfig,
    pub(super) lookup: LookupStage,
    /// The fingerprints of the requests that would be sent: 16 to 32 bytes for each. Two of ten million share one with a
    /// chance below one in 300,000, and the count would then be too low by one call.
    pub(super) calls: HashSet<i64>,
    /// What was counted so far.
    pub(super) result: CheckResult,
}

impl Pass<'_> {
    /// Reads an input to its end. Returns why it could not be read so far.
    ///
    /// # Errors
    /// The ledger cannot be read, or the rejects cannot be written.
    pub(super) fn file(
        &mut self,
        settings: &ReaderSettings,
        opened: OpenInput,
        file: &mut CheckedFile,
        mut rejects: Option<&mut RejectsWriter>,
    ) -> Result<Option<Error>> {
        let (facts, format) = (opened.facts, opened.layout.format);
        file.mapping = facts.mapping;
        let mut first = FirstRows::new(self.config.judges_first_rows);
        let (mut shown, mut broken) = (Instant::now(), None);
        for batch in read_ahead(opened.reader)? {
            match batch {
                Ok(batch) => self.count(file, &mut first, rejects.as_deref_mut(), batch)?,
                Err(error) => broken = Some(error),
            }
            if self.config.style == Style::Bar && shown.elapsed() >= REDRAWN {
                shown = Instant::now();
                let read = counted(file.counts.rows.read, "row");
                draw(&[format!("rescore: {read} of {} read", file.name)]);
            }
        }
        draw(&[]);
        file.ignores_bytes = facts.ignored.any();
        for (reason, rows) in &mut file.unsendable {
            rows.options = Some(options(*reason, settings, format));
        }
        Ok(broken)
    }

    fn count(
        &mut self,
        file: &mut CheckedFile,
        first: &mut FirstRows,
        mut rejects: Option<&mut RejectsWriter>,
        mut batch: RowBatch,
    ) -> Result<()> {
        for ReadRow { row, request, .. } in &mut batch.rows {
            let Ok(body) = request else { continue };
            let marks = body.first().copied().unwrap_or_default();
            body.advance(body.len().min(size_of::<u8>()));
            file.counts.rows.dropped += u64::from(marks & DROPPED != 0);
            // Nearly always there are none.
            if marks != 0 {
                for field in Field::ALL
                    .into_iter()
                    .filter(|field| marks & bit(*field) != 0)
                {
                    file.unusual_lengths
                        .entry(field)
                        .or_default()
                        .add(row.number);
                }
            }
        }
        let mut found = self.lookup.look_up(&batch.rows)?;
        let counts = &mut file.counts;
        for ReadRow { row, request, .. } in &batch.rows {
            counts.rows.read += 1;
            if let Some(reason) = first.take(request) {
                file.run_refuses = Some(reason);
            }
            if let Err(failure) = request {
                counts.rows.unsendable += 1;
                file.unsendable
                    .entry(failure.reason)
                    .or_default()
                    .add(row.number);
                if let Some(rejects) = &mut rejects {
                    rejects.add(row, failure);
                }
                continue;
            }
            counts.rows.sendable += 1;
            // There is one for each.
            let Some((key, found)) = found.next() else {
                continue;
            };
            if file.run_refuses.is_some() {
                continue;
            }
            match found.passed_over {
                Some(PassedOver::Damaged) => self.result.ledger_answers_damaged += 1,
                Some(PassedOver::TooOld) => self.result.ledger_answers_too_old += 1,
                Some(PassedOver::Failed) | None => {}
            }
            match found.known {
                Some(KnownOutcome::Answer(_)) => counts.known += 1,
                Some(KnownOutcome::Failure(_)) => counts.failed_before += 1,
                None if self.calls.insert(key.fingerprint()) => {}
                None => self.result.duplicates += 1,
            }
        }
        let written = rejects.map(RejectsWriter::write_out);
        written.unwrap_or(Ok(())).map_err(closed)
    }
}

/// The options that would help rows of a file that fail for this reason; none if only the rows themselves can be changed.
fn options(reason: Reason, settings: &ReaderSettings, format: Format) -> &'static [&'static str] {
    let has_region =
        settings.rules.region.is_some() || settings.assignments.region_column().is_some();
    let drops = matches!(settings.rules.invalid, Invalid::Drop);
    match reason {
        Reason::InvalidPhone if has_region && drops => &[],
        Reason::InvalidPhone if has_region => &["--invalid"],
        Reason::InvalidPhone if drops => &["--phone-region"],
        Reason::InvalidPhone => &["--phone-region", "--invalid"],
        // JSONL is always UTF-8.
        Reason::NotUtf8 if format == Format::Jsonl => &[],
        Reason::NotUtf8 | Reason::Undecodable => &["--encoding"],
        Reason::MissingName
        | Reason::MissingIp
        | Reason::InvalidIp
        | Reason::MissingContact
        | Reason::WrongType
        | Reason::AmbiguousField => &["--map"],
        Reason::InvalidEmail if drops => &["--map"],
        Reason::InvalidEmail => &["--map", "--invalid"],
        Reason::MissingUserAgent => &["--map", "--default"],
        Reason::ExistingColumns => &["--existing"],
        // With another delimiter, hardly any row would fit its header; and some reasons come from calls.
        _ => &[],
    }
}

/// The error for rejects that cannot be written. Rejects were asked for by name, so a reader that has gone away is an error.
pub(super) fn closed(error: WriteError) -> Error {
    match error {
        WriteError::Failed(error) => error,
        WriteError::Closed => Error::stopped("nobody reads the rejects any more"),
    }
}
