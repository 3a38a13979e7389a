//! The pass over the inputs: a thread reads each as a run does, and the thread that called looks its rows up and counts them
//! in place of calling. It knows nothing of how the numbers are shown.

use std::collections::HashSet;

use tokio::time::{Duration, Instant};

use super::super::lookup::LookupStage;
use super::super::open_input::OpenInput;
use super::super::read_ahead::read_ahead;
use super::result::{CheckResult, CheckedFile};
use crate::base::error::{Error, Result};
use crate::base::stderr::draw;
use crate::config::CheckConfig;
use crate::fields::InvalidPhone;
use crate::input::{FirstRows, ReaderSettings};
use crate::layout::Format;
use crate::ledger::KnownOutcome;
use crate::observe::{Style, counted};
use crate::output::{WriteError, Writer};
use crate::row_state::{RowBatch, RowState};
use crate::telemetry::event::PassedOver;
use crate::verdict::{Reason, Verdict};

/// Between two pictures of the progress. Most passes are over before the first one.
const REDRAWN: Duration = Duration::from_secs(1);

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
        mut rejects: Option<&mut Writer>,
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
        for (reason, rows) in &mut file.unsendable {
            rows.options = Some(options(*reason, settings, format));
        }
        Ok(broken)
    }

    fn count(
        &mut self,
        file: &mut CheckedFile,
        first: &mut FirstRows,
        rejects: Option<&mut Writer>,
        mut batch: RowBatch,
    ) -> Result<()> {
        self.lookup.look_up(&mut batch.rows)?;
        let counts = &mut file.counts;
        for row in &mut batch.rows {
            counts.rows.read += 1;
            let broken = row.state.failure();
            if let Some(reason) = first.take(broken) {
                file.run_refuses = Some(reason);
            }
            if let Some(failure) = broken {
                counts.rows.unsendable += 1;
                file.unsendable
                    .entry(failure.reason)
                    .or_default()
                    .add(row.number);
                let verdict = Verdict::Failed(failure.clone());
                row.state = RowState::Done { verdict, old: None };
            }
            let RowState::Waiting { key, found, .. } = &row.state else {
                continue;
            };
            counts.rows.sendable += 1;
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
        match rejects {
            // It writes those that have a verdict: that they cannot be sent.
            Some(rejects) => rejects.write(&batch.rows).map_err(closed),
            None => Ok(()),
        }
    }
}

/// The options that would help rows of a file that fail for this reason; none if only the rows themselves can be changed.
fn options(reason: Reason, settings: &ReaderSettings, format: Format) -> &'static [&'static str] {
    let has_region =
        settings.phones.region.is_some() || settings.assignments.region_column().is_some();
    let drops = matches!(settings.phones.invalid, InvalidPhone::Drop);
    match reason {
        Reason::InvalidPhone if has_region && drops => &[],
        Reason::InvalidPhone if has_region => &["--invalid-phone"],
        Reason::InvalidPhone if drops => &["--phone-region"],
        Reason::InvalidPhone => &["--phone-region", "--invalid-phone"],
        // JSONL is always UTF-8.
        Reason::NotUtf8 if format == Format::Jsonl => &[],
        Reason::NotUtf8 | Reason::Undecodable => &["--encoding"],
        Reason::MissingName
        | Reason::MissingIp
        | Reason::InvalidIp
        | Reason::MissingContact
        | Reason::InvalidEmail
        | Reason::WrongType
        | Reason::AmbiguousField => &["--map"],
        Reason::MissingUserAgent => &["--map", "--set"],
        Reason::ExistingColumns => &["--prefix"],
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
