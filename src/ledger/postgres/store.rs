//! A run's answers and claims on a server.
//!
//! While the server is away nothing is claimed, and the lease lets no call start. Answers of calls that were out go to a
//! file on this machine, and to the server when it is back.

use std::collections::HashMap;
use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::claims::{self, ClaimedRequest, Releases};
use super::contact::{ServerContact, ServerOutage};
use super::fault::ServerFault;
use super::limits;
use super::lookup::ServerJudge;
use super::own_answers::OwnAnswers;
use super::runs::ServerRun;
use super::server::Server;
use super::settle::{SettleScope, Settled, settle};
use super::sources::{self, FieldSources};
use super::spill::Spill;
use super::stored::{NewAnswers, key_of};
use super::workers::OwnWorker;
use crate::base::error::Error;
use crate::ledger::known_limit::KnownLimit;
use crate::ledger::lookup_result::{AnsweredIn, KnownOutcome, LookupResult};
use crate::ledger::request_key::{KeyHash, RequestHasher, RequestKey};
use crate::ledger::sealed_failure::SealedFailure;
use crate::ledger::store::{
    AnswerCounts, ClaimRequest, ClaimResult, Contact, LeaseRenewal, Payload, Record, RunEnd, Store,
    Work,
};
use crate::raw_json::Pointer;
use crate::telemetry::pace::Limit;

/// How long a run that reached the end of its input waits for a server that is away, so that its answers are there for
/// others: less than is waited for the ledger to be closed.
const AT_THE_END: Duration = Duration::from_secs(40);

/// How long to wait before the server is asked again.
const PAUSE: Duration = Duration::from_millis(500);

/// What a run writes for.
pub(super) struct StoreScope {
    pub(super) context: i32,
    /// The fields that answers are stored with.
    pub(super) fields: FieldSources,
    pub(super) run: ServerRun,
    pub(super) hasher: RequestHasher,
    pub(super) lease: Duration,
    /// The answers that it stores.
    pub(super) own: Arc<OwnAnswers>,
}

/// A ledger on a server, open for a run to write.
pub(super) struct ServerStore {
    server: Arc<Server>,
    contact: Arc<ServerContact>,
    scope: StoreScope,
    judge: ServerJudge,
    spill: Spill,
    worker: OwnWorker,
    /// Requests that this run must not send again: known to it alone.
    failures: HashMap<KeyHash, SealedFailure>,
    /// Claims that end without an answer of ours, until the server has heard of it.
    releases: Releases,
    limit: Option<Limit>,
    stored_limit: Option<Limit>,
    /// What the server has of the rows that may be billed twice.
    stored_double_bills: i64,
    /// The worker has left in order: the server has all answers.
    has_left: bool,
}

impl ServerStore {
    /// For this run.
    pub(super) fn new(
        server: Arc<Server>,
        contact: Arc<ServerContact>,
        scope: StoreScope,
        judge: ServerJudge,
        spill: Spill,
    ) -> Self {
        let worker = OwnWorker::new(scope.lease);
        let stored_double_bills = scope.run.maybe_billed_twice;
        Self {
            server,
            contact,
            scope,
            judge,
            spill,
            worker,
            failures: HashMap::new(),
            releases: Releases::default(),
            limit: None,
            stored_limit: None,
            stored_double_bills,
            has_left: false,
        }
    }

    fn settle_scope(&self) -> SettleScope {
        SettleScope {
            worker: self.worker.id(),
            started: self.scope.run.started,
            earliest: self.scope.run.earliest(),
        }
    }

    /// Writes on both connections at the same time: a claim does not wait for answers.
    fn write_group(
        &mut self,
        answers: &NewAnswers,
        releases: &Releases,
        claims: &[Uuid],
    ) -> (
        Result<Settled, ServerFault>,
        Result<Vec<ClaimedRequest>, ServerFault>,
    ) {
        let (server, worker, scope) = (&self.server, self.worker.id(), self.settle_scope());
        let (run, stored) = (&self.scope.run, &mut self.stored_double_bills);
        server.wait(async {
            let settled = async {
                // Before the answers: with them the claims end that tell it.
                if run.maybe_billed_twice != *stored {
                    run.record_double_bills(server).await?;
                    *stored = run.maybe_billed_twice;
                }
                if answers.is_empty() {
                    return Ok(Settled::default());
                }
                settle(server, answers, &scope).await
            };
            let claimed = async {
                if !releases.is_empty() {
                    claims::release(server, worker, releases).await?;
                }
                if claims.is_empty() {
                    Ok(Vec::new())
                } else {
                    claims::claim(server, worker, claims).await
                }
            };
            tokio::join!(settled, claimed)
        })
    }

    /// The answers among records, each with the number of its source.
    fn answers_of(&mut self, records: &[Record]) -> Result<NewAnswers, ServerFault> {
        let (server, context) = (&self.server, self.scope.context);
        let mut answers = NewAnswers::default();
        for Record { key, payload, .. } in records {
            if let Payload::Answer(answer) = payload {
                let find = |list: &[Pointer]| sources::of_fields(server, context, list);
                let source = self.scope.fields.number(answer.captured.len(), find)?;
                answers.add(&key.hash, answer, source);
            }
        }
        Ok(answers)
    }

    /// What became of claims, in their order.
    fn results(
        &mut self,
        requests: &[ClaimRequest],
        claimed: Vec<ClaimedRequest>,
    ) -> Result<Vec<ClaimResult>, ServerFault> {
        let mut claimed: HashMap<_, _> = claimed.into_iter().map(|it| (it.key, it)).collect();
        let mut results = Vec::with_capacity(requests.len());
        for request in requests {
            if let Some(failure) = self.failure_of(request) {
                results.push(failure);
                continue;
            }
            results.push(match claimed.remove(&key_of(&request.key.hash)) {
                Some(claimed) => self.result(&request.key, claimed)?,
                None => ClaimResult::Taken,
            });
        }
        Ok(results)
    }

    fn failure_of(&self, request: &ClaimRequest) -> Option<ClaimResult> {
        let sealed = self.failures.get(&request.key.hash)?.clone();
        let failure = sealed.open(&self.scope.hasher, &request.key, &request.body)?;
        let known = LookupResult {
            known: Some(KnownOutcome::Failure(failure)),
            ..LookupResult::default()
        };
        Some(ClaimResult::Known(known, AnsweredIn::ThisRun))
    }

    fn result(
        &mut self,
        key: &RequestKey,
        claimed: ClaimedRequest,
    ) -> Result<ClaimResult, ServerFault> {
        let (found, run) = match claimed.answer {
            Some(answer) => self.judge.judge(&self.server, key, answer)?,
            None => (LookupResult::default(), AnsweredIn::OtherRun),
        };
        if found.known.is_some() {
            if claimed.is_ours {
                self.releases.settled.push(claimed.key);
            }
            return Ok(ClaimResult::Known(found, run));
        }
        Ok(if claimed.is_ours {
            ClaimResult::Ours {
                taken_over: claimed.taken_over,
            }
        } else {
            ClaimResult::Taken
        })
    }

    /// Stores answers on this machine until the server is back.
    fn spill(&mut self, records: &[Record]) -> io::Result<()> {
        let written = self.spill.write(records);
        self.contact.set_waiting(self.spill.waiting(false));
        written.map_err(|error| {
            let outage = self.contact.outage().map(|outage| outage.reason);
            let reason = outage.unwrap_or_default();
            let words = format!("{error}; and the ledger's server cannot be used: {reason}");
            io::Error::new(error.kind(), words)
        })
    }

    fn lose(&self, fault: &ServerFault) {
        self.contact.lose(&fault.to_string());
    }

    fn store_limit(&mut self) -> Result<(), ServerFault> {
        if let Some(limit) = self.limit.filter(|limit| self.stored_limit != Some(*limit)) {
            limits::store(&self.server, self.scope.context, limit)?;
            self.stored_limit = Some(limit);
        }
        Ok(())
    }

    fn store_double_bills(&mut self) -> Result<(), ServerFault> {
        let run = &self.scope.run;
        if run.maybe_billed_twice != self.stored_double_bills {
            self.server.wait(run.record_double_bills(&self.server))?;
            self.stored_double_bills = run.maybe_billed_twice;
        }
        Ok(())
    }

    /// Gives claims back that a server that was away has not heard of, or that nothing was written after.
    fn give_back(&mut self) -> Result<(), ServerFault> {
        if !self.releases.is_empty() {
            let released = claims::release(&self.server, self.worker.id(), &self.releases);
            self.server.wait(released)?;
            self.releases = Releases::default();
        }
        Ok(())
    }

    /// Waits for a server that is away, if answers wait for it; whether it answers now. A run that was `stopped` does not
    /// wait: the same command continues it, and brings them in.
    #[allow(
        clippy::disallowed_methods,
        reason = "no call is made on the ledger's thread"
    )]
    fn is_back(&mut self, stopped: bool) -> bool {
        let started = Instant::now();
        while self.contact.is_away() {
            let given_up = self.contact.outage().is_some_and(|it| it.given_up);
            let ends = stopped || given_up || started.elapsed() > AT_THE_END;
            if ends || self.spill.waiting(false).is_none() {
                return false;
            }
            std::thread::sleep(PAUSE);
            // It notes whether the server answers.
            let _ = self.renew();
        }
        true
    }

    /// Brings in what was stored on this machine while the server was away.
    fn bring_in(&mut self) -> io::Result<Result<(), ServerFault>> {
        let (server, scope) = (Arc::clone(&self.server), self.settle_scope());
        let brought = self.spill.bring_in(&server, &scope)?;
        self.contact.set_waiting(self.spill.waiting(false));
        Ok(brought)
    }
}

impl Store for ServerStore {
    fn write(&mut self, work: Work<'_>) -> io::Result<Vec<ClaimResult>> {
        self.releases.add(work.releases);
        for Record { key, payload, .. } in work.records {
            match payload {
                Payload::Answer(_) => self.scope.own.insert(key),
                Payload::Failure(failure) => {
                    // Its claim is released next.
                    self.failures.insert(key.hash(), failure.clone());
                }
            }
        }
        let taken = || vec![ClaimResult::Taken; work.claims.len()];
        if self.contact.is_away() {
            self.spill(work.records)?;
            return Ok(taken());
        }
        let answers = self.answers_of(work.records);
        let Ok(answers) = answers.inspect_err(|fault| self.lose(fault)) else {
            self.spill(work.records)?;
            return Ok(taken());
        };
        let is_new = |request: &&ClaimRequest| !self.failures.contains_key(&request.key.hash());
        let claims = work.claims.iter().filter(is_new);
        let claims: Vec<_> = claims.map(|request| key_of(&request.key.hash)).collect();
        let releases = mem::take(&mut self.releases);
        let (settled, claimed) = self.write_group(&answers, &releases, &claims);
        let has_claimed = claimed.is_ok() && !claims.is_empty();
        if settled.is_ok() && (has_claimed || !answers.is_empty()) {
            self.contact.works();
        }
        match settled {
            Ok(Settled { fields, .. }) => self.scope.fields.learn(fields),
            Err(fault) => {
                self.lose(&fault);
                self.spill(work.records)?;
            }
        }
        let results = match claimed {
            Ok(claimed) => self.results(work.claims, claimed),
            Err(fault) => {
                self.releases.append(releases);
                Err(fault)
            }
        };
        Ok(results.unwrap_or_else(|fault| {
            if claims.is_empty() {
                self.lose(&fault);
            } else {
                self.contact.lose_claims(&fault.to_string());
            }
            taken()
        }))
    }

    fn renew(&mut self) -> io::Result<LeaseRenewal> {
        let mut renewed = self.worker.renew(&self.server);
        // What is brought in ends claims, too.
        if renewed.is_ok()
            && let Err(fault) = self.store_double_bills()
        {
            renewed = Err(fault);
        }
        if renewed.is_ok()
            && let Err(fault) = self.bring_in()?
        {
            renewed = Err(fault);
        }
        let renewed = renewed.and_then(|renewal| {
            self.give_back()?;
            self.store_limit()?;
            Ok(renewal)
        });
        Ok(match renewed {
            Ok(renewal) => {
                self.contact.regain();
                renewal
            }
            Err(fault) => {
                self.lose(&fault);
                LeaseRenewal::Away
            }
        })
    }

    fn contact(&self) -> Contact {
        let Some(ServerOutage { reason, given_up }) = self.contact.outage() else {
            return Contact::There;
        };
        if !given_up {
            return Contact::Away(reason);
        }
        let error = Error::stopped(format!(
            "cannot use the ledger `{}` any more: {reason}",
            self.server.shown()
        ));
        if self.spill.waiting(false).is_some() {
            // When the ledger is closed that is said, with all answers that have come until then.
            return Contact::GivenUp(error);
        }
        let again = "run the same command again when the server answers: it continues from here";
        Contact::GivenUp(error.hint(again))
    }

    fn set_limit(&mut self, latest: KnownLimit) {
        self.limit = Some(latest.limit.seen_as_limit());
    }

    /// Which users a service fails on is not shared.
    fn leave(&mut self, end: RunEnd) {
        self.contact.end();
        let (server, stopped) = (
            Arc::clone(&self.server),
            !matches!(end, RunEnd::Finished(_)),
        );
        let left = |store: &mut Self| {
            store.give_back()?;
            store.worker.leave(&server)
        };
        if !self.is_back(stopped) || left(self).is_err() {
            self.contact.set_waiting(self.spill.waiting(!stopped));
            // If this fails, the claims end with the lease.
            let doubtful = self.releases.doubtful.len();
            let _ = self.spill.leave_claims(self.worker.id(), stopped, doubtful);
            return;
        }
        self.has_left = true;
        // If this fails, the next run searches for the limit itself.
        let _ = self.store_limit();
    }

    fn end(&mut self, end: RunEnd) {
        // Answers that wait on this machine are brought in by the run that continues.
        if !self.has_left {
            return;
        }
        // If this fails, the next run takes itself for this one and continues it, or counts once more what this one has counted.
        let _ = if matches!(end, RunEnd::Finished(_)) {
            self.scope.run.forget(&self.server)
        } else {
            // Its summary has said so.
            self.scope.run.maybe_billed_twice = 0;
            self.store_double_bills()
        };
    }

    fn count(&self) -> Option<AnswerCounts> {
        None
    }
}
