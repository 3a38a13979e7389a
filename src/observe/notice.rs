//! What should be shown as soon as it happens, picked from the events.
//!
//! Notices carry values; their words are in `words`.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::row::RowNumber;
use crate::telemetry::event::{CancelReason, Event, PassedOver};
use crate::telemetry::hub::Observer;
use crate::telemetry::pace::Pause;
use crate::telemetry::stats::Stats;

/// Something to show now, not with the next line.
#[derive(Debug, Clone)]
pub(super) enum Notice {
    /// All calls pause.
    Paused(Pause),
    /// The service is down: time until the next try.
    Down(Duration),
    /// The service is back, after this long.
    Up(Duration),
    /// The service was not down after all.
    OutageDismissed,
    /// The run continues with another key.
    KeyRenewed,
    /// Shown in every style.
    Warning(Warning),
    /// The run is stopping.
    Stopping {
        /// Why.
        reason: CancelReason,
        /// Calls that get time to finish.
        in_flight: u64,
        /// How much time they get.
        longest: Duration,
    },
    /// The run is over.
    End,
}

/// Something that is shown even where no progress is.
#[derive(Debug, Clone)]
pub(super) enum Warning {
    /// Two different users got the same transaction id, in these rows.
    TransactionRepeated(NamedRow, NamedRow),
    /// Connections to the service are no longer reused.
    ReuseEnded,
    /// The service has refused this many rows in a row.
    ManyRefused(u32),
    /// An answer has a score below zero, in this row.
    ScoreBelowZero(NamedRow),
    /// None of this many answers has these fields.
    FieldsAbsent(u32, Arc<str>),
    /// An answer in the ledger is damaged.
    LedgerDamaged,
}

/// A row, with the name of its file where there are several.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NamedRow {
    pub(super) file: Option<Arc<str>>,
    pub(super) row: RowNumber,
}

/// The observer that sends notices.
pub(crate) struct Notices {
    to: Sender<Notice>,
    /// The names of the files in their order, where there are several.
    files: Vec<Arc<str>>,
}

/// Where the notices of [`Notices`] arrive.
pub(crate) struct Inbox(Receiver<Notice>);

/// Ends the progress.
pub(crate) struct Ender(Sender<Notice>);

/// An observer, and the inbox for its notices. `files` are the names of the files in their order, where there are several.
#[must_use]
pub(crate) fn notices(files: Vec<Arc<str>>) -> (Notices, Inbox) {
    let (to, receiver) = channel();
    (Notices { to, files }, Inbox(receiver))
}

impl Notices {
    /// A handle that ends the progress.
    #[must_use]
    pub(crate) fn ender(&self) -> Ender {
        Ender(self.to.clone())
    }
}

impl Ender {
    /// Ends the progress.
    pub(super) fn end(&self) {
        // If nobody receives it, the progress has ended already.
        let _ = self.0.send(Notice::End);
    }
}

impl Inbox {
    /// The next notice; an error if none comes in this time, or if none can come any more.
    pub(super) fn next(&self, longest: Duration) -> Result<Notice, RecvTimeoutError> {
        self.0.recv_timeout(longest)
    }
}

impl Observer for Notices {
    fn observe(&mut self, _: Duration, event: &Event, stats: &Stats) {
        if let Some(notice) = notice_of(event, stats, &self.files) {
            // If nobody receives it, the run is over.
            let _ = self.to.send(notice);
        }
    }
}

fn notice_of(event: &Event, stats: &Stats, files: &[Arc<str>]) -> Option<Notice> {
    Some(match event {
        Event::CallsPaused(pause) => Notice::Paused(*pause),
        // Only once for each outage; later tries appear in the next line.
        Event::ServiceDown { lasted, next, .. } if lasted.is_zero() => Notice::Down(*next),
        Event::ServiceUp { lasted } => Notice::Up(*lasted),
        Event::OutageDismissed { .. } => Notice::OutageDismissed,
        Event::KeyRenewed => Notice::KeyRenewed,
        Event::CancelBegan(reason) if stats.in_flight == 0 => Notice::Stopping {
            reason: *reason,
            in_flight: 0,
            longest: Duration::ZERO,
        },
        Event::DrainBegan { reason, longest } => Notice::Stopping {
            reason: *reason,
            in_flight: stats.in_flight,
            longest: *longest,
        },
        event => Notice::Warning(warning_of(event, stats, files)?),
    })
}

fn warning_of(event: &Event, stats: &Stats, files: &[Arc<str>]) -> Option<Warning> {
    Some(match event {
        // Only once: a cache that mixes up one answer mixes up many.
        Event::TransactionRepeated {
            row,
            first,
            first_file,
        } if stats.repeated_transactions == 1 => {
            let (one, other) = (
                named_row(*row, stats.file, files),
                named_row(*first, *first_file, files),
            );
            Warning::TransactionRepeated(one.clone().min(other.clone()), one.max(other))
        }
        Event::ReuseEnded => Warning::ReuseEnded,
        Event::ManyRefused { rows } => Warning::ManyRefused(*rows),
        Event::ScoreBelowZero { row } => {
            Warning::ScoreBelowZero(named_row(*row, stats.file, files))
        }
        Event::FieldsAbsent { answers, fields } => {
            Warning::FieldsAbsent(*answers, Arc::clone(fields))
        }
        // Only once; the summary has the number.
        Event::AnswerPassedOver {
            why: PassedOver::Damaged,
            ..
        } => (stats.damaged_answers == 1).then_some(Warning::LedgerDamaged)?,
        _ => return None,
    })
}

/// The row of the file with this number.
fn named_row(row: RowNumber, file: u64, files: &[Arc<str>]) -> NamedRow {
    let index = usize::try_from(file)
        .ok()
        .and_then(|file| file.checked_sub(1));
    let file = index.and_then(|index| files.get(index)).cloned();
    NamedRow { file, row }
}
