//! Engines for tests, here and in the modules above: a scripted service, and settings that a test can vary.

#![allow(clippy::unwrap_used)]

use std::num::NonZeroU64;
use std::time::Duration;

use super::parts::{AnswerRules, Engine, Limits};
use crate::ledger::{LedgerWriter, RequestKey};
use crate::pace::{
    CallBudget, CallLimit, FailureBudget, Gate, GiveUpPolicy, PaceLimits, Rate, RetryPolicy,
};
use crate::service::scripted::Scripted;
use crate::telemetry::hub::{Events, Observer};
use crate::telemetry::pace::Limit;
use crate::verdict::DecisionPolicy;

/// How long the service may keep a run waiting, as by default.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// An engine to be built. It starts with the defaults of `run`, except for one call at a time and a ledger that only pretends.
pub(crate) struct Fixture {
    service: Scripted,
    concurrency: usize,
    rate: Rate,
    retries: u32,
    resends: u32,
    max_calls: Option<NonZeroU64>,
    failures: FailureBudget,
    keep_going: bool,
    ledger: LedgerWriter,
    events: Events,
}

impl Fixture {
    /// An engine for this service.
    pub(crate) fn new(service: Scripted) -> Self {
        Self {
            service,
            concurrency: 1,
            rate: Rate::Unlimited,
            retries: 4,
            resends: 1,
            max_calls: None,
            failures: FailureBudget::default(),
            keep_going: false,
            ledger: LedgerWriter::pretending(),
            events: Events::new(Vec::new()),
        }
    }

    /// With this maximum of calls in flight.
    pub(crate) fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// With this rate at most.
    pub(crate) fn rate(mut self, rate: Rate) -> Self {
        self.rate = rate;
        self
    }

    /// With this number of retries a row.
    pub(crate) fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// With this number of resends a row of what may have been billed.
    pub(crate) fn resends(mut self, resends: u32) -> Self {
        self.resends = resends;
        self
    }

    /// With this maximum of calls.
    pub(crate) fn max_calls(mut self, most: Option<NonZeroU64>) -> Self {
        self.max_calls = most;
        self
    }

    /// With this maximum of failed rows.
    pub(crate) fn failures(mut self, failures: FailureBudget) -> Self {
        self.failures = failures;
        self
    }

    /// Without a limit on rows without a verdict.
    pub(crate) fn keep_going(mut self) -> Self {
        self.keep_going = true;
        self
    }

    /// With this ledger.
    pub(crate) fn ledger(mut self, ledger: LedgerWriter) -> Self {
        self.ledger = ledger;
        self
    }

    /// With an observer of its events.
    pub(crate) fn observer(self, observer: impl Observer + 'static) -> Self {
        self.events(Events::new(vec![Box::new(observer)]))
    }

    /// With this stream of events.
    pub(crate) fn events(mut self, events: Events) -> Self {
        self.events = events;
        self
    }

    /// The engine.
    pub(crate) fn build(self) -> Engine<Scripted> {
        let bounds = PaceLimits {
            rate: self.rate,
            in_flight: self.concurrency.try_into().unwrap(),
            known: Limit::NONE,
            max_wait: PATIENCE,
        };
        let gate = Gate::new(bounds, fastrand::Rng::with_seed(7));
        let limits = Limits {
            retries: RetryPolicy::new(self.retries, self.resends),
            max_wait: PATIENCE,
            calls: CallBudget::new(self.max_calls.map(CallLimit::Calls), 0),
            failures: self.failures,
            host: "scripted.test".to_owned(),
        };
        Engine::new(
            self.service,
            gate,
            self.ledger,
            self.events,
            AnswerRules {
                decisions: DecisionPolicy::default(),
                fields: Box::default(),
            },
            limits,
            GiveUpPolicy::new(self.keep_going),
        )
    }
}

impl Engine<Scripted> {
    /// The scripted service.
    pub(crate) const fn service(&self) -> &Scripted {
        &self.service
    }

    /// The limit of the service.
    pub(crate) fn limit(&self) -> Limit {
        self.gate.limit()
    }

    /// Makes the clock of the lease jump, and has the ledger's thread look at it.
    pub(super) fn advance_lease(&self, by: Duration, unclaimed: RequestKey) {
        self.ledger.advance_lease(by);
        self.ledger.release(unclaimed);
    }

    /// An earlier run had verdicts from the service.
    pub(crate) fn worked_before(&self) {
        self.seen.borrow_mut().give_up.worked_before();
    }
}
