//! A ledger on a server as a run writes it, and look-ups in it.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postgres::types::Type;
use postgres::{Client, Row};
use tokio::time::Instant;

use super::server::{Server, ServerFault};
use crate::base::elapsed;
use crate::base::error::{Error, Result};
use crate::ledger::clock;
use crate::ledger::database::Database as _;
use crate::ledger::index::OwnAnswers;
use crate::ledger::key::{RequestKey, random_nonces};
use crate::ledger::known_limit::{KnownLimit, LimitRecorder};
use crate::ledger::outcome::{LookupResult, Outcome, Scope, Stored};
use crate::ledger::outputs::{self, OutputState};
use crate::ledger::run::{ABANDONED, Leased, RunPlan};
use crate::ledger::settings::ServerWait;
use crate::ledger::store::{
    ClaimResult, LeaseRenewal, Lookup, OutputRecorder, RunEnd, Store, Work, answered_in,
};

/// How long a server is waited for when all answers are durable.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// A ledger on a server, open for a run.
pub(super) struct PostgresStore {
    pub(super) server: Server,
    /// How the server is waited for, once the run has started.
    pub(super) wait: ServerWait,
    pub(super) secret: [u8; 32],
    pub(super) view: ServerView,
    pub(super) plan: RunPlan,
    pub(super) account: i64,
    /// Who claims, once the run has started: the run, and a random number of this start.
    pub(super) us: (i64, i64),
    /// By how much the server's clock is ahead of this machine's, in milliseconds.
    pub(super) ahead: i64,
    pub(super) limits: LimitRecorder,
}

/// What must be known to say what stored answers mean.
#[derive(Clone)]
pub(super) struct ServerView {
    pub(super) scope: Scope,
    pub(super) own: Arc<Mutex<OwnAnswers>>,
}

impl PostgresStore {
    fn write_group(
        &mut self,
        work: Work<'_>,
        limit: &str,
    ) -> Result<Vec<ClaimResult>, ServerFault> {
        let ((run, start), account) = (self.us, self.account);
        let mut records = (Vec::new(), Vec::new(), Vec::new());
        let nonces = random_nonces(work.records.len()).ok_or_else(no_random_numbers)?;
        for (record, nonce) in work.records.iter().zip(nonces) {
            let at = record
                .at
                .saturating_add(self.ahead)
                .max(self.plan.earliest());
            let sealed = record
                .outcome
                .seal(&record.key, nonce, at)
                .ok_or_else(no_random_numbers)?;
            records.0.push(record.key.fingerprint);
            records.1.push(at);
            records.2.push(sealed);
        }
        let text = |key: &RequestKey| key.fingerprint.to_string();
        let ended = { work.records.iter().map(|record| &record.key) }.chain(work.releases);
        let ended: Vec<_> = ended.map(text).collect();
        let abandoned: Vec<_> = work.abandoned.iter().map(text).collect();
        let statements = format!(
            "DELETE FROM claims WHERE fp = ANY('{{{}}}') AND run = {run} AND start = {start};
            UPDATE claims SET start = {ABANDONED} WHERE fp = ANY('{{{}}}') AND run = {run} AND start = {start};
            UPDATE accounts SET answers = answers + {new} WHERE id = {account} AND {new} > 0;
            UPDATE runs SET {progress} WHERE id = {run} AND start = {start}; {limit}",
            ended.join(","),
            abandoned.join(","),
            new = { work.records.iter() }
                .filter(|record| matches!(record.outcome, Outcome::Answer(_)))
                .count(),
            progress = self.plan.progress::<Server>(work.calls),
        );
        let append = format!(
            "INSERT INTO answers (fp, account, at, sealed) SELECT fp, {account}, at, sealed
            FROM unnest($1, $2, $3) AS new (fp, at, sealed) RETURNING seq"
        );
        let (view, us) = (&self.view, self.us);
        let (places, results) = self.server.transaction(&statements, |client| {
            let values = [
                (&records.0 as _, Type::INT8_ARRAY),
                (&records.1 as _, Type::INT8_ARRAY),
                (&records.2 as _, Type::BYTEA_ARRAY),
            ];
            let rows = client.query_typed(&append, &values)?;
            let places = rows
                .iter()
                .map(|row| row.try_get(0))
                .collect::<Result<Vec<i64>, _>>()?;
            Ok((places, claim(client, view, us, work.claims)?))
        })?;
        if let (Some(first), Some(last)) = (places.iter().min(), places.iter().max()) {
            // Nobody else can have written in between.
            let mut own = self.view.own.lock().unwrap_or_else(PoisonError::into_inner);
            own.add(*first, *last);
        }
        Ok(results)
    }

    /// Remembers a lease; whether there is one.
    fn set_lease(&mut self, lease: Option<Leased>) -> bool {
        let is_ours = lease.is_some();
        if let Some(Leased { us, now }) = lease {
            self.us = us;
            self.ahead = now.saturating_sub(clock::now());
        }
        is_ours
    }
}

fn no_random_numbers() -> ServerFault {
    ServerFault::Refused("the system has no random numbers".to_owned())
}

impl Store for PostgresStore {
    fn lookup(&self) -> Result<Box<dyn Lookup>> {
        let server = Server::for_run(&self.server.url, self.wait.clone())?;
        let view = self.view.clone();
        Ok(Box::new(PostgresLookup { server, view }))
    }

    fn output_state(&mut self, file: &Path, input: Option<&Path>) -> Result<OutputState> {
        outputs::state(&mut self.server, &self.secret, file, input)
            .map_err(|fault| fault.error("read", &self.server.url))
    }

    fn output_recorder(&self) -> OutputRecorder {
        let (url, wait, secret) = (self.server.url.clone(), self.wait.clone(), self.secret);
        Arc::new(move |files, input| {
            let statements = outputs::record(&secret, files, input);
            let recorded = Server::for_run(&url, wait.clone())?.write(&statements);
            recorded
                .map(drop)
                .map_err(|fault| fault.error("write", &url))
        })
    }

    fn start(&mut self) -> Result<()> {
        let lease = { self.plan.start(&mut self.server) }
            .map_err(|fault| fault.error("write", &self.server.url))?;
        if !self.set_lease(lease) {
            return Err(on_another_host());
        }
        self.server.wait = self.wait.clone();
        Ok(())
    }

    fn write(&mut self, work: Work<'_>) -> io::Result<Vec<ClaimResult>> {
        let (started, limits) = (Instant::now(), self.limits);
        let limit = self.limits.statement(self.account, false);
        self.write_group(work, &limit).map_err(|fault| {
            self.limits = limits;
            failed(&fault, started, work.records.len())
        })
    }

    fn renew(&mut self, calls: u64) -> io::Result<LeaseRenewal> {
        let (started, us) = (Instant::now(), self.us);
        let lease = { self.plan.renew(&mut self.server, us, calls) }
            .map_err(|fault| failed(&fault, started, 0))?;
        if !self.set_lease(lease) {
            let words =
                "the run was removed from it, or another host has started a run to the same path";
            return Err(io::Error::other(words));
        }
        if self.us == us {
            Ok(LeaseRenewal::Kept)
        } else {
            Ok(LeaseRenewal::NewWorker)
        }
    }

    fn given_up(&self) -> Option<Error> {
        None
    }

    fn set_limit(&mut self, latest: KnownLimit) {
        self.limits.set(latest);
    }

    fn leave(&mut self, calls: u64) {
        self.server.wait.longest = LAST_WAIT.min(self.server.wait.longest);
        let limit = self.limits.statement(self.account, true);
        // If this fails, others find out that the run is gone, and the next start counts calls that have ended.
        let _ = self
            .server
            .write(&(self.plan.leave::<Server>(self.us, calls) + &limit));
    }

    fn end(&mut self, end: RunEnd) {
        self.plan.end(&mut self.server, self.us.0, end);
    }
}

/// Why a run cannot start: the lease of one to the same path lasts, which no lock here keeps apart from it.
pub(super) fn on_another_host() -> Error {
    Error::busy("another host runs the same command, or a run to an output of the same path")
        .hint("give it another path; after a kill there, run this again a minute later")
}

/// Why a group could not be written or a lease not be renewed, after all attempts.
fn failed(fault: &ServerFault, started: Instant, answers: usize) -> io::Error {
    let mut words = fault.words().to_owned();
    if let ServerFault::Away(why) = fault {
        let time = elapsed::time(started.elapsed());
        words = format!("the ledger's server has not answered for {time} ({why})");
    }
    if answers > 0 {
        words.push_str(&format!(
            "; paid answers that could not be stored: {answers}"
        ));
    }
    io::Error::other(words)
}

/// Looks requests up, and claims those about which nothing is known.
fn claim(
    client: &mut Client,
    view: &ServerView,
    (run, start): (i64, i64),
    keys: &[RequestKey],
) -> Result<Vec<ClaimResult>, ServerFault> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let claim = format!(
        "INSERT INTO claims AS held (fp, run, start, taken_over)
        SELECT DISTINCT fp, {run}, {start}, false FROM unnest($1) AS fp
        ON CONFLICT (fp) DO UPDATE SET run = excluded.run, start = excluded.start,
            taken_over = held.run <> excluded.run OR held.start = excluded.start AND held.taken_over
        WHERE (held.run, held.start) = (excluded.run, excluded.start) OR NOT EXISTS (
            SELECT FROM runs WHERE id = held.run AND runs.start = held.start AND until >= {now})
        RETURNING fp, taken_over",
        now = Server::NOW
    );
    let known = find(client, view, keys)?;
    let unknown: Vec<_> = { keys.iter().zip(&known) }
        .filter(|(_, found)| found.known.is_none())
        .map(|(key, _)| key.fingerprint)
        .collect();
    let rows = client.query_typed(&claim, &[(&unknown, Type::INT8_ARRAY)])?;
    let ours: HashMap<i64, bool> = { rows.iter() }
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
        .collect::<Result<_, ServerFault>>()?;
    let result = |(key, found): (&RequestKey, LookupResult)| {
        ClaimResult::known(found).unwrap_or_else(|| match ours.get(&key.fingerprint) {
            Some(&taken_over) => ClaimResult::Ours { taken_over },
            None => ClaimResult::Taken,
        })
    };
    Ok(keys.iter().zip(known).map(result).collect())
}

/// What is known of each of these requests, in their order.
fn find(
    client: &mut Client,
    view: &ServerView,
    keys: &[RequestKey],
) -> Result<Vec<LookupResult>, ServerFault> {
    let fingerprints: Vec<_> = keys.iter().map(|key| key.fingerprint).collect();
    let query = "SELECT fp, seq, at, sealed FROM answers WHERE fp = ANY($1) ORDER BY fp, seq DESC";
    let rows = client.query_typed(query, &[(&fingerprints, Type::INT8_ARRAY)])?;
    let stored = |row: &Row| {
        let (seq, at, sealed) = (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
        Ok((row.try_get(0)?, Stored { seq, at, sealed }))
    };
    let rows: Vec<(i64, Stored)> = rows
        .iter()
        .map(stored)
        .collect::<Result<_, ServerFault>>()?;
    let own = view.own.lock().unwrap_or_else(PoisonError::into_inner);
    let judge = |key: &RequestKey| {
        let first = rows.partition_point(|(fingerprint, _)| *fingerprint < key.fingerprint);
        let mut of_key = { rows.iter().skip(first) }
            .take_while(|(fingerprint, _)| *fingerprint == key.fingerprint)
            .map(|(_, stored)| (stored.clone(), answered_in(own.contains(stored.seq))));
        view.scope.judge(key, || Ok(of_key.next()))
    };
    keys.iter().map(judge).collect()
}

/// Look-ups on a connection of their own.
pub(super) struct PostgresLookup {
    pub(super) server: Server,
    pub(super) view: ServerView,
}

impl Lookup for PostgresLookup {
    fn look_up(&mut self, keys: &[RequestKey]) -> Result<Vec<LookupResult>> {
        { self.server.run(|client| find(client, &self.view, keys)) }
            .map_err(|fault| fault.error("read", &self.server.url))
    }
}
