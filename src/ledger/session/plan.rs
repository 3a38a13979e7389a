//! What a run makes of the run before it: whether it continues that run, and which answers it uses.

use std::time::SystemTime;

use rusqlite::Connection;

use crate::ledger::clock::millis;
use crate::ledger::db::runs::{PreviousRun, RunRecord};
use crate::ledger::db::schema::fresh_from;
use crate::ledger::request_key::KeyHash;
use crate::ledger::settings::Reuse;

/// What a run does with what the ledger already has.
#[derive(Clone, Copy)]
pub(super) struct RunPlan {
    /// The run as it will be recorded.
    pub(super) run: RunRecord,
    /// What was recorded about the run before it.
    pub(super) previous: PreviousRun,
    pub(super) reuse: Reuse,
    /// Whether it uses no answer of its own ledger, and its first one replaces them all.
    pub(super) replaces: bool,
}

/// What a plan is made from.
pub(super) struct RunContext {
    /// The run's name.
    pub(super) name: KeyHash,
    /// The run of this name that is recorded.
    pub(super) found: Option<(RunRecord, PreviousRun)>,
    pub(super) reuse: Reuse,
    /// Whether the ledger is the run's own.
    pub(super) own: bool,
    /// Whether there are answers.
    pub(super) any: bool,
}

impl RunPlan {
    /// Makes the plan of a run that starts now.
    pub(super) fn make(
        connection: &Connection,
        context: &RunContext,
        now: SystemTime,
    ) -> rusqlite::Result<Self> {
        let RunContext {
            name,
            found,
            reuse,
            own,
            any,
        } = *context;
        let previous = found.map_or(PreviousRun::None, |(_, previous)| previous);
        let is_over = is_over(previous, reuse, own);
        let not_before = match reuse {
            Reuse::All | Reuse::Continue | Reuse::Retry => i64::MIN,
            Reuse::Recent(freshness) => millis(freshness.not_before(now)),
            // Once the run is recorded, no existing answer counts.
            Reuse::Nothing if own => i64::MIN,
            Reuse::Nothing => fresh_from(connection, millis(now))?,
        };
        let mut run = match found {
            Some((run, _)) if !is_over => continued(run, reuse, own, millis(now), not_before),
            // To a run that uses no older answers, an answer that is too old is from before it.
            _ => RunRecord::new(name, not_before.max(millis(now)), not_before),
        };
        if let Some((found, _)) = found {
            run.calls = found.calls;
        }
        Ok(Self {
            run,
            previous,
            reuse,
            replaces: own && any && (is_over || reuse == Reuse::Nothing),
        })
    }

    /// Whether the run continues the one before, or retries what failed there.
    pub(super) fn continues(&self) -> bool {
        match self.previous {
            PreviousRun::None => false,
            PreviousRun::Stopped => self.reuse != Reuse::Nothing,
            PreviousRun::Finished { .. } => matches!(self.reuse, Reuse::Continue | Reuse::Retry),
        }
    }
}

/// Whether a run to the same output is another one than the one that is recorded.
fn is_over(previous: PreviousRun, reuse: Reuse, own: bool) -> bool {
    match previous {
        PreviousRun::None => false,
        // In a shared ledger it is still compared with what was there before it was first stopped.
        PreviousRun::Stopped => own && reuse == Reuse::Nothing,
        PreviousRun::Finished { .. } => !matches!(reuse, Reuse::Continue | Reuse::Retry),
    }
}

/// A recorded run as it continues now.
fn continued(mut run: RunRecord, reuse: Reuse, own: bool, now: i64, not_before: i64) -> RunRecord {
    // It did not start in the future, whatever the clock did: answers of this run must not seem to be older than it.
    run.started = run.started.min(now);
    run.not_before = run.not_before.max(not_before);
    if reuse == Reuse::Retry && run.only_failed {
        run.discard_failures();
    }
    match reuse {
        // It sends every row again, including rows that earlier runs would not have sent again.
        Reuse::Nothing => run.discard_failures(),
        // It uses the answers of an earlier run after all, which it has not replaced yet.
        Reuse::Retry if own && run.leftover => {
            run.leftover = false;
            run.not_before = i64::MIN;
        }
        Reuse::All | Reuse::Continue | Reuse::Recent(_) | Reuse::Retry => {}
    }
    run
}
