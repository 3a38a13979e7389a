//! What the pipeline asks of the scorer before, between and after calls.

use std::time::Duration;

use super::outcome::Stop;
use super::parts::Scorer;
use crate::ledger::{KnownOutcome, RunEnd};
use crate::pace::{Closed, FreshRows, Permit};
use crate::service::Service;
use crate::telemetry::event::Event;
use crate::telemetry::hub::Events;
use crate::verdict::Verdict;

impl<S> Scorer<S> {
    /// Where events go.
    pub(crate) const fn events(&self) -> &Events {
        &self.recorder.events
    }

    /// A permit, if a call may start now and nobody waits for one.
    pub(crate) fn try_permit(&self) -> Option<Permit<'_>> {
        self.caller.gate.try_permit()
    }

    /// Waits until a call may start. Dropped before, it has used up nothing.
    ///
    /// # Errors
    /// [`Closed`] as soon as the run is stopping.
    pub(crate) fn permit(&self) -> impl Future<Output = Result<Permit<'_>, Closed>> {
        self.caller.gate.permit()
    }

    /// Whether another row may start beside this many that are being scored. Until the first verdict one row is tried at
    /// a time (the canary). While the service is taken to be down there is one call at a time anyway, and a fresh row
    /// shows most; as it does if the service refuses all rows that were tried.
    pub(crate) fn may_start_beside(&self, rows: usize) -> bool {
        let gate = &self.caller.gate;
        gate.is_proven() || gate.is_down() || gate.refuses_all(rows)
    }

    /// Whether the latest call took less than this.
    pub(crate) fn answers_within(&self, time: Duration) -> bool {
        self.caller.latest.get() < time
    }

    /// Waits until another row may show more than the canary.
    pub(crate) fn canary_is_held_up(&self) -> impl Future<Output = ()> {
        self.caller.gate.canary_is_held_up()
    }

    /// Says whether there are rows that have not been called for.
    pub(crate) fn set_fresh_rows(&self, fresh: FreshRows) {
        self.caller.gate.set_fresh_rows(fresh);
    }

    /// No call may start any more.
    pub(crate) fn close(&self) {
        self.caller.gate.close();
    }

    /// The verdict of a row whose request is known from the ledger.
    pub(crate) fn known(&self, known: KnownOutcome) -> Verdict {
        match known {
            KnownOutcome::Answer(answer) => {
                self.policies.borrow_mut().give_up.worked_before();
                self.recorder.scored(answer)
            }
            KnownOutcome::Failure(failure) => Verdict::Failed(failure),
        }
    }

    /// Fails when too many rows have failed.
    ///
    /// # Errors
    /// The run must stop.
    pub(crate) fn check_failures(&self) -> Result<(), Stop> {
        let policies = self.policies.borrow();
        let stop = self
            .recorder
            .events
            .with_stats(|stats| policies.too_many_failures(stats));
        stop.map_or(Ok(()), Err)
    }

    /// The rows of the next of several files come now. `before` is how many bytes the files before it have.
    pub(crate) fn start_file(&self, file: u64, before: u64) {
        self.recorder.start_file(file);
        self.recorder
            .events
            .emit(Event::FileStarted { file, before });
    }

    /// No more answers will come.
    pub(crate) fn answers_ended(&self) {
        self.recorder.answers_ended();
    }

    /// Tells the ledger how the run ends once its files are written.
    pub(crate) fn end(&self, end: RunEnd) {
        if let Some(ledger) = &self.recorder.ledger {
            ledger.end(end);
        }
    }
}

impl<S: Service> Scorer<S> {
    /// How long a call can take.
    pub(crate) fn longest_call(&self) -> Duration {
        self.caller.service.longest_call()
    }
}
