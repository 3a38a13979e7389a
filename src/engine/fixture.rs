//! Engines for tests, here and in the modules above: a scripted service, and settings that a test can vary.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use super::state::{AnswerRules, Engine, StopRules};
use crate::base::money::Money;
use crate::base::numbers::Tolerance;
use crate::ledger::{
    Budget, LedgerAccount, LedgerLocation, LedgerSettings, LedgerWriter, OpenLedger, RequestKey,
    Reuse, ServerWait, Unanswered,
};
use crate::pace::{Gate, GiveUpPolicy, PaceLimits, Rate, RetryPolicy};
use crate::service::scripted::Scripted;
use crate::service::{ApiKeys, read_kept};
use crate::telemetry::counts::Events;
use crate::telemetry::pace::FoundLimit;
use crate::verdict::DecisionPolicy;

/// A directory for a ledger, in memory if the system allows it: each answer is synced, and no disk is tested here.
pub(crate) fn directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

/// A ledger in this file, for a run with this output, this maximum of calls in flight, and these limits.
pub(crate) fn ledger(
    path: &Path,
    output: Option<PathBuf>,
    in_flight: usize,
    limits: Vec<Budget>,
) -> OpenLedger {
    let settings = LedgerSettings {
        location: LedgerLocation::File(path.to_owned()),
        reuse: Reuse::All,
        output,
        input: None,
        account: Some(LedgerAccount {
            endpoint: "https://scripted.test".to_owned(),
            service_id: "test".to_owned(),
        }),
        read: Arc::new(|body| read_kept(body, &[], &ApiKeys::default())),
        in_flight: in_flight.try_into().unwrap(),
        longest_call: Scripted::LONGEST_CALL,
        wait: ServerWait::default(),
        budgets: limits,
        price: Money::default(),
    };
    OpenLedger::open(&settings).unwrap()
}

/// How long the service may keep a run waiting, as by default.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// An engine to be built. A test names what it varies: `Fixture::new(service).build_with(|it| it.retries = 0)`.
pub(crate) struct Fixture {
    pub(crate) service: Scripted,
    pub(crate) concurrency: usize,
    pub(crate) rate: Rate,
    pub(crate) retries: u32,
    /// How often a row may be sent again that may have been billed.
    pub(crate) resends: u32,
    pub(crate) max_failures: Option<Tolerance>,
    pub(crate) keep_going: bool,
    pub(crate) ledger: LedgerWriter,
    pub(crate) events: Events,
}

impl Fixture {
    /// An engine with the defaults of `run`, except for one call at a time and no ledger: while its thread works, a paused clock
    /// would advance.
    pub(crate) fn new(service: Scripted) -> Self {
        Self {
            service,
            concurrency: 1,
            rate: Rate::Unlimited,
            retries: 4,
            resends: 1,
            max_failures: None,
            keep_going: false,
            ledger: LedgerWriter::in_memory(Vec::new()),
            events: Events::new(),
        }
    }

    /// The engine, with what a test varies.
    pub(crate) fn build_with(mut self, vary: impl FnOnce(&mut Self)) -> Engine<Scripted> {
        vary(&mut self);
        let bounds = PaceLimits {
            rate: self.rate,
            in_flight: self.concurrency.try_into().unwrap(),
            remembered: FoundLimit::default(),
            max_wait: PATIENCE,
        };
        let gate = Gate::new(bounds, fastrand::Rng::with_seed(7));
        let rules = StopRules {
            retries: RetryPolicy {
                retries: self.retries,
                resends: self.resends,
            },
            max_wait: PATIENCE,
            max_failures: self.max_failures,
            finishes: false,
            new_requests: None,
            host: "scripted.test".to_owned(),
        };
        let answers = AnswerRules {
            decisions: DecisionPolicy::default(),
            fields: Box::default(),
        };
        let give_up = GiveUpPolicy::new(self.keep_going);
        let (service, ledger, events) = (self.service, self.ledger, self.events);
        Engine::new(service, gate, ledger, events, answers, rules, give_up)
    }
}

impl Engine<Scripted> {
    /// The scripted service.
    pub(crate) const fn service(&self) -> &Scripted {
        &self.service
    }

    /// The limit of the service.
    pub(crate) fn limit(&self) -> FoundLimit {
        self.gate.limit()
    }

    /// Makes the clock of the lease jump, and has the ledger's thread look at it.
    pub(super) fn advance_lease(&self, by: Duration, unclaimed: RequestKey) {
        self.ledger.advance_lease(by);
        self.ledger.end_call(unclaimed, Unanswered::NotBilled);
    }

    /// An earlier run had verdicts from the service.
    pub(crate) fn worked_before(&self) {
        self.state.borrow_mut().give_up.worked_before = true;
    }
}
