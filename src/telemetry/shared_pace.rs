//! One pace for many workers: what a worker and the shared row tell each other, in one round trip.
//!
//! `pace` decides what is asked, a ledger that many workers share keeps the row, and neither knows the other. The row
//! grants calls at its rate, passes reports on to the worker that leads, and keeps what that one decides. To the row,
//! reports and decisions are text.

use std::io;
use std::time::Duration;

/// The first rate of a run without `--rate`, and of a row before anybody has decided: ten calls a second hurt no service.
pub(crate) const FIRST_RATE: f64 = 10.0;
/// After a refusal all hold for this long, unless the leader decides before: it hears of it within a few round trips.
pub(crate) const HOLD: Duration = Duration::from_millis(300);
/// A leader that has not asked for this long leads no more: it asks forty times as often.
#[cfg_attr(not(test), allow(dead_code, reason = "for ledgers on a server"))]
pub(crate) const LEAD: Duration = Duration::from_secs(1);
/// A single call after a pause that is not heard of for this long is given to another worker: most answers come sooner, and
/// the first worker may have died.
#[cfg_attr(not(test), allow(dead_code, reason = "for ledgers on a server"))]
pub(crate) const SINGLE: Duration = Duration::from_secs(5);

/// The row that workers with one account share.
pub(crate) trait SharedPace: Send + 'static {
    /// Asks the row and waits for its answer. It answers one worker at a time.
    ///
    /// # Errors
    /// The row could not be reached, or did not answer in time.
    fn ask(&mut self, ask: &PaceAsk) -> io::Result<PaceReply>;
}

impl SharedPace for Box<dyn SharedPace> {
    fn ask(&mut self, ask: &PaceAsk) -> io::Result<PaceReply> {
        (**self).ask(ask)
    }
}

/// What a worker asks and tells. Times are on the row's clock.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PaceAsk {
    /// Who asks.
    pub(crate) worker: u32,
    /// Calls that it could make now.
    pub(crate) calls: u32,
    /// Calls that were due and were not granted count for this long.
    pub(crate) unused_for: Duration,
    /// The epoch under which a call started that was refused: all hold until the leader has decided, unless it has.
    pub(crate) refused: Option<u64>,
    /// What it has seen since it last asked.
    pub(crate) report: String,
    /// What it decides, if it believes that it leads.
    pub(crate) decision: Option<PaceDecision>,
}

/// What the leader decides for all.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PaceDecision {
    /// Calls a second, of all workers together.
    pub(crate) rate: f64,
    /// Counts the cuts: calls that were granted before one are about a pace that was given up.
    pub(crate) epoch: u64,
    /// Nobody calls before.
    pub(crate) paused_until: Duration,
    /// One call at a time: it finds out whether the pause was long enough.
    pub(crate) alone: bool,
    /// When the reports were read that it rests on.
    pub(crate) seen: Duration,
    /// The rest, for workers to read.
    pub(crate) state: String,
}

/// What the row answers. Times are on the row's clock.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PaceReply {
    /// When it answered.
    pub(crate) now: Duration,
    /// Calls that the worker may make from now on.
    pub(crate) calls: u32,
    /// Calls a second, of all workers together.
    pub(crate) rate: f64,
    /// The epoch of these calls.
    pub(crate) epoch: u64,
    /// Nobody calls before.
    pub(crate) paused_until: Duration,
    /// One call at a time.
    pub(crate) alone: bool,
    /// When the rate allows another call: before `now` if more have become due than this worker was granted.
    pub(crate) next: Duration,
    /// What the leader decided last; empty if there was none yet.
    pub(crate) state: String,
    /// What workers reported since the leader last asked, and when, if this worker leads.
    pub(crate) lead: Option<Vec<PaceReport>>,
    /// How long nobody had asked.
    pub(crate) idle: Duration,
}

/// What a worker reported.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PaceReport {
    /// When it came, on the row's clock.
    pub(crate) at: Duration,
    /// What it saw.
    pub(crate) text: String,
}
