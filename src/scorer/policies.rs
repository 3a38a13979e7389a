//! The part of the scorer that decides what a failure leads to: a retry, the row's failure, or the end of the run.

use std::time::Duration;

use super::outage::Outage;
use super::outcome::Stop;
use super::stop_reasons;
use crate::pace::{
    AnsweredBy, Attempts, CallBudget, FailedAttempt, FailureBudget, GiveUpPolicy, Reaction,
    RetryPolicy, Trouble,
};
use crate::row::RowNumber;
use crate::service::{Class, Fault};
use crate::telemetry::event::CancelReason;
use crate::telemetry::stats::Stats;

/// The limits of the run, and how much of them is used up.
pub(crate) struct Policies {
    /// Whether a row is tried again.
    pub(crate) retries: RetryPolicy,
    /// How long the service may keep the run waiting.
    pub(crate) patience: Patience,
    /// Tells an outage of the service from rows that always fail.
    pub(crate) outage: Outage,
    /// Whether so much trouble must stop the run.
    pub(crate) give_up: GiveUpPolicy,
    /// How many calls may be made.
    pub(crate) calls: CallBudget,
    /// How many rows may fail.
    pub(crate) failures: FailureBudget,
    /// The service's host, for messages.
    pub(crate) host: String,
}

/// How long the service may keep the run waiting before the run stops: a person should be told, and a nightly job should
/// free its slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// For a pause that the service asks for, or for pauses without an answer in between.
    pub(crate) wait: Duration,
    /// For a service that is down.
    pub(crate) outage: Duration,
}

/// What follows a failed call.
#[derive(Debug)]
pub(super) enum AfterFailure {
    /// The row is tried again after this back-off.
    BackOff(Duration),
    /// The row has failed. `warn`: so many rows in a row were refused that it is worth a warning.
    GiveUp { warn: Option<u32> },
    /// The run stops.
    Stop(Stop),
}

impl Policies {
    /// A call brought a verdict.
    pub(super) fn answered(&mut self) {
        self.retries.success();
        self.give_up.verdict();
    }

    /// Why the run must stop after a refusal that asks for this wait, if it must. For the time `refused` there were only
    /// refusals.
    pub(super) fn throttled(&mut self, wait: Option<Duration>, refused: Duration) -> Option<Stop> {
        self.give_up.answered();
        let longest = self.patience.wait;
        match wait.filter(|wait| *wait > longest) {
            Some(wait) => Some(stop_reasons::asks_to_wait(wait)),
            None if refused > longest => Some(stop_reasons::only_refuses(&self.host, refused)),
            None => None,
        }
    }

    /// What follows a failure that is not due to an outage. `fraction` is random, for the back-off.
    pub(super) fn failed(
        &mut self,
        (row, fault): (RowNumber, &Fault),
        attempts: &mut Attempts,
        fraction: f64,
    ) -> AfterFailure {
        if fault.class == Class::HostNotFound
            && let Reaction::Stop(_) = self.give_up.react(Trouble::HostNotFound)
        {
            return self.stop(Trouble::HostNotFound, 1, (row, fault));
        }
        let (failed, trouble) = consequences(fault);
        if let Some(back_off) = self.retries.next(failed, attempts, fraction) {
            return AfterFailure::BackOff(back_off);
        }
        match self.give_up.react(trouble) {
            Reaction::Stop(rows) => self.stop(trouble, rows, (row, fault)),
            Reaction::Warn(rows) => AfterFailure::GiveUp { warn: Some(rows) },
            Reaction::Continue => AfterFailure::GiveUp { warn: None },
        }
    }

    fn stop(&self, trouble: Trouble, rows: u32, (row, fault): (RowNumber, &Fault)) -> AfterFailure {
        let last = (row, &fault.failure);
        let stop = stop_reasons::for_trouble(&self.host, trouble, rows, last);
        AfterFailure::Stop(stop)
    }

    /// Why the run must stop, once too many rows have failed.
    pub(super) fn too_many_failures(&self, stats: &Stats) -> Option<Stop> {
        let error = self.failures.used_up(stats)?;
        Some(Stop::new(CancelReason::MaxFailures, error))
    }
}

/// What a fault means for the row's next attempt, and for the run if there is none.
const fn consequences(fault: &Fault) -> (FailedAttempt, Trouble) {
    let by = if fault.from_other_program {
        AnsweredBy::OtherProgram
    } else {
        AnsweredBy::Service
    };
    match fault.class {
        Class::OutcomeUnknown => (FailedAttempt::PerhapsBilled, Trouble::GaveUp),
        Class::HostNotFound | Class::NotProcessed => (FailedAttempt::NotProcessed, Trouble::GaveUp),
        Class::Unclear => (FailedAttempt::Refused, Trouble::GaveUp),
        Class::Useless => (FailedAttempt::ForGood, Trouble::Useless(by)),
        Class::Forbidden => (FailedAttempt::ForGood, Trouble::Forbidden),
        Class::RowsFault => (FailedAttempt::ForGood, Trouble::Refused(by)),
    }
}
