//! A run in a ledger: its record, by which the same command continues it, what it stores, and how it claims requests.
//!
//! A run is recognised by its output. It keeps the moment from which on answers are recent enough: so a run that is continued
//! gives what it would have given without the stop, and a run that asks for every row again does not start over.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroUsize;
use std::time::Duration;

use super::accounts::KnownLimit;
use super::answers::{LookupResult, Outcome, Scope, Stored};
use super::budget::{CallLimit, Spending};
use super::database::{Database, TableRow, first, hex, listed};
use super::fault::{DbFault, DbFaultKind};
use super::key::{PathHash, RequestKey, SealNonce, random_number, random_secret};
use super::outputs::hash;
use super::settings::{self, LedgerSettings, Reuse, ages_in, in_millis, spread_in};
use crate::base::money::Money;

/// How much longer a lease lasts than the longest call. Calls wait if it was not renewed for this time, on a disk that hangs.
pub(super) const SPARE: i64 = 10_000;

/// In place of the number of a start: the claim was given up without an answer, and its call may have been billed.
const ABANDONED: i64 = -1;

/// Answers older than this are said to be old, unless a setting says how old they may be: 30 days, in milliseconds.
const AGED: i64 = 30 * 24 * 60 * 60 * 1_000;

/// How a run ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum RunEnd {
    /// It was stopped, and can be continued.
    #[default]
    Stopped,
    /// It reached the end of its input.
    Finished {
        /// Rows without a verdict.
        failed: u64,
    },
}

/// What became of a request, to be stored.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) key: RequestKey,
    pub(crate) outcome: Outcome,
    /// When it arrived, in milliseconds since 1970.
    pub(crate) at: i64,
}

/// What is done in one transaction.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// What becomes durable. The claims of these requests end.
    pub(super) records: Vec<Record>,
    /// Then nothing is kept that this start of the run has stored about these requests, by fingerprint.
    pub(super) distrusted: Vec<i64>,
    /// Claims of requests that were not called for, or got no answer, end as well.
    pub(super) releases: Vec<RequestKey>,
    /// These stay claimed by no start of a run: the run that claims them next knows that they may have been billed.
    pub(super) abandoned: Vec<RequestKey>,
    /// After all that, these are looked up again, and claimed if nothing is known. None of them is among the records.
    pub(super) claims: Vec<RequestKey>,
    /// How many calls this start of the run has made.
    pub(super) calls: u64,
    /// The service has shown another limit, or that there is none.
    pub(super) limit: Option<KnownLimit>,
}

/// What a claim led to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ClaimResult {
    /// The request is this run's: no other one calls for it.
    Ours {
        /// Another run that is gone had claimed it, and may have called for it.
        taken_over: bool,
    },
    /// It is known by now what became of the request.
    Known(LookupResult),
    /// Another run calls for it now.
    Taken,
}

/// The run that starts now, or is under way.
#[derive(Clone)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct RunRecord {
    /// A hash of its output's path; `None` for rows to a stream, which no run can continue.
    name: Option<PathHash>,
    /// A hash of its input's path.
    input: PathHash,
    /// Where its files are.
    place: String,
    /// Which answers it uses, as a word.
    reuse: String,
    /// What of the stored answers is of use to it.
    pub(super) scope: Scope,
    /// How the previous run to this output ended, if one was recorded.
    pub(crate) previous: Option<RunEnd>,
    /// Whether that had the same input.
    pub(crate) same_input: bool,
    /// Whether this run continues it.
    pub(crate) continues: bool,
    /// Whether it still runs, in another place.
    pub(super) is_elsewhere: bool,
    /// What counts for its budgets: before it has started, the calls of its earlier starts, with those that kills may have lost.
    pub(crate) spending: Spending,
    /// Calls that a kill may have lost: their rows may be billed twice.
    pub(crate) lost_calls: u64,
    /// Those of them that nobody has counted.
    uncounted_calls: u64,
    /// What a call costs, or zero if that is unknown.
    price: Money,
    /// Whether a budget counts the calls of its account.
    reads_spending: bool,
    in_flight: NonZeroUsize,
    longest_call: Duration,
    /// The row of its account.
    pub(super) account: i64,
    /// Its row, once it has started.
    id: i64,
    /// How many outcomes this start has sealed.
    sealed: u32,
    /// By how much the database's clock is ahead of this machine's, in milliseconds.
    ahead: i64,
}

impl RunRecord {
    /// A run of these settings that starts now, with its files in this place.
    pub(super) fn read(
        database: &mut dyn Database,
        secret: &[u8; 32],
        settings: &LedgerSettings,
        place: String,
    ) -> Result<Self, DbFault> {
        let (output, reuse) = (settings.output.as_deref(), settings.reuse);
        let clock = database.dialect().now;
        // Answers that arrive at nearly the same time are stored in any order.
        let latest = "(SELECT at FROM answers ORDER BY seq DESC LIMIT 1000) AS latest";
        let times = database.query(&format!("SELECT {clock}, (SELECT max(at) FROM {latest})"))?;
        let times = first(&times)?;
        let (now, last) = (times.get::<i64>(0)?, times.optional::<i64>(1)?);
        let start = match (reuse, last) {
            // Also answers are asked for again that a clock which was ahead has dated later.
            (Reuse::Nothing | Reuse::Retry, Some(last)) => now.max(last.saturating_add(1)),
            _ => now,
        };
        let (not_before, failures_from) = reuse.used_from(start);
        let mut run = Self {
            name: output.map(|output| hash(secret, Some(output))),
            input: hash(secret, settings.input.as_deref()),
            place,
            reuse: reuse.word(),
            scope: Scope {
                not_before,
                spread: spread_in(&reuse.word()),
                failures_from,
                started: start,
                aged_before: match reuse {
                    Reuse::Recent { .. } => i64::MIN,
                    _ => start.saturating_sub(AGED),
                },
                start: random_number(),
                read: settings.read.clone(),
            },
            previous: None,
            same_input: false,
            continues: false,
            is_elsewhere: false,
            spending: Spending::default(),
            lost_calls: 0,
            uncounted_calls: 0,
            price: settings.price,
            reads_spending: settings.limits.iter().any(CallLimit::is_of_account),
            in_flight: settings.in_flight,
            longest_call: settings.longest_call,
            account: 0,
            id: 0,
            sealed: 0,
            ahead: now.saturating_sub(settings::now()),
        };
        if let Some(name) = &run.name {
            let query = format!(
                "SELECT input, reuse, not_before, failures_from, started, failed, calls, in_flight,
                (SELECT count(*) FROM claims WHERE run = runs.id),
                (SELECT count(*) FROM claims WHERE run = runs.id AND start = {ABANDONED}),
                CASE WHEN place <> '{}' AND until >= {clock} THEN 1 ELSE 0 END
                FROM runs WHERE name = '{}'",
                run.place,
                hex(name)
            );
            if let Some(found) = database.query(&query)?.first() {
                run.follow(found, reuse)?;
            }
        }
        Ok(run)
    }

    /// Takes over what an earlier run to the output has recorded: its input, which answers it uses, its first start, the rows
    /// without a verdict if it has ended, its calls, the most that it may have had in flight, its claims that no start of it has
    /// ended, those of them that were given up without an answer, whose calls are counted, and whether its lease lasts in another
    /// place.
    fn follow(&mut self, found: &TableRow, reuse: Reuse) -> Result<(), DbFault> {
        let ended = found.optional(5)?;
        let (calls, in_flight) = (found.get::<u64>(6)?, found.get::<u64>(7)?);
        let (left_claims, abandoned) = (found.get::<u64>(8)?, found.get::<u64>(9)?);
        // How many calls for what was claimed kills may have lost: a run has claims for more than it has called for, and never
        // more calls in flight than this, of which each can be lost once while it is called for and once while its answer is
        // stored.
        let lost = |claims: u64| claims.min(in_flight.saturating_mul(2));
        self.lost_calls = lost(left_claims);
        self.uncounted_calls = lost(left_claims.saturating_sub(abandoned));
        self.same_input = found.hash(0)? == self.input;
        self.previous = Some(ended.map_or(RunEnd::Stopped, |failed| RunEnd::Finished { failed }));
        self.is_elsewhere = found.get::<u8>(10)? == 1;
        let is_stopped = ended.is_none() && self.same_input;
        let word = found.get::<String>(1)?;
        if let (Reuse::Retry, Some(ages)) = (reuse, ages_in(&word)) {
            self.reuse = format!("{} {ages}", reuse.word());
        }
        let is_same = is_stopped && word == self.reuse;
        if is_same || reuse == Reuse::Retry {
            // Of the answers of the run before, none is asked for again.
            self.scope.not_before = found.get(2)?;
            self.scope.spread = spread_in(&self.reuse);
            self.continues = is_stopped;
        }
        if is_same {
            self.scope.failures_from = found.get(3)?;
            self.scope.started = found.get(4)?;
        }
        if self.continues {
            self.spending.of_run = calls.saturating_add(self.uncounted_calls);
        }
        Ok(())
    }

    /// Now by the database's clock, in milliseconds since 1970.
    pub(super) fn now(&self) -> i64 {
        settings::now().saturating_add(self.ahead)
    }

    /// Records that the run is under way. What earlier starts of it had claimed is in the count of lost calls, and free now; what
    /// nobody has counted of that counts today. `false` if its lease lasts in another place.
    pub(super) fn start(&mut self, database: &mut dyn Database) -> Result<bool, DbFault> {
        let (now, place) = (database.dialect().now, &self.place);
        let name = hex(&self.name.unwrap_or_else(random_secret));
        let is_free = format!("(runs.place = '{place}' OR runs.until < {now})");
        let start = format!(
            "DELETE FROM claims WHERE run = (SELECT id FROM runs WHERE name = '{name}' AND {is_free});
            INSERT INTO runs (name, input, reuse, not_before, failures_from, started, calls, in_flight, start, until, place)
            VALUES ('{name}', '{}', '{}', {}, {}, {}, {}, {}, {}, {}, '{place}')
            ON CONFLICT (name) DO UPDATE SET input = excluded.input, reuse = excluded.reuse,
                not_before = excluded.not_before, failures_from = excluded.failures_from,
                started = excluded.started, failed = NULL, calls = excluded.calls,
                in_flight = excluded.in_flight, start = excluded.start, until = excluded.until,
                place = excluded.place
            WHERE {is_free}
            RETURNING id",
            hex(&self.input),
            self.reuse,
            self.scope.not_before,
            self.scope.failures_from,
            self.scope.started,
            self.spending.of_run,
            self.in_flight,
            self.scope.start,
            self.until(now),
        );
        let lost = Spending::add(self.account, self.price, (self.uncounted_calls, 0), now);
        let mut id = None;
        database.transaction(true, &mut |database| {
            let started = database.query(&start)?;
            id = started.first().map(|row| row.get(0)).transpose()?;
            id.map_or(Ok(()), |_| database.query(&lost).map(drop))
        })?;
        self.id = id.unwrap_or_default();
        Ok(id.is_some())
    }

    /// When a lease ends that is renewed now, as SQL.
    fn until(&self, now: &str) -> String {
        let longest = in_millis(self.longest_call);
        format!("{now} + {}", longest.saturating_add(SPARE))
    }

    /// Renews the lease, stores what became of requests, and claims others: the results of the claims, in their order. Without
    /// records it need not be durable: a claim is worth nothing after a power cut.
    ///
    /// # Errors
    /// The ledger cannot be written, the run was removed from it, or it has been started in another place.
    pub(super) fn store(
        &mut self,
        database: &mut dyn Database,
        group: &Group,
    ) -> Result<Vec<ClaimResult>, DbFault> {
        let sealed = { group.records.iter().map(|record| self.seal(record)) }
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| DbFault::new(DbFaultKind::Other, "an answer cannot be sealed"))?;
        let statements = self.statements(group, database.dialect().now);
        let (mut results, mut now, mut spending) = (Vec::new(), 0_i64, self.spending.clone());
        spending.of_run += self.new_calls(group.calls);
        spending.of_start = group.calls;
        let is_durable = !(sealed.is_empty() && group.distrusted.is_empty());
        let stored = database.transaction(is_durable, &mut |database| {
            let renewed = database.query(&statements)?;
            let Some(row) = renewed.first() else {
                let words = "the run was removed from it, or another host has started a run to the same path";
                return Err(DbFault::new(DbFaultKind::Other, words));
            };
            now = row.get(0)?;
            database.append(self.account, &sealed)?;
            if !group.distrusted.is_empty() {
                database.discard(self.scope.start, &group.distrusted)?;
            }
            // On a full disk no new calls start.
            let claims = if database.is_full() { &[] } else { &group.claims[..] };
            let found = database.find(&self.scope, claims)?;
            results = self.claim(database, claims, found)?;
            if self.reads_spending {
                spending.read(database, self.account, now)?;
            }
            Ok(())
        });
        stored.map_err(|mut fault| {
            if fault.kind == DbFaultKind::Away && !sealed.is_empty() {
                fault.words += "; paid answers that could not be stored: ";
                fault.words += &sealed.len().to_string();
            }
            fault
        })?;
        self.ahead = now.saturating_sub(settings::now());
        self.spending = spending;
        Ok(results)
    }

    /// How many of this start's calls are not stored yet.
    const fn new_calls(&self, calls: u64) -> u64 {
        calls.saturating_sub(self.spending.of_start)
    }

    /// Encrypts what became of a request, with a nonce that this start uses once: its number and a count.
    fn seal(&mut self, record: &Record) -> Option<(i64, Stored)> {
        let Record { key, outcome, at } = record;
        let mut nonce = SealNonce::default();
        let (start, count) = nonce.split_at_mut(8);
        start.copy_from_slice(&self.scope.start.to_le_bytes());
        count.copy_from_slice(&self.sealed.to_le_bytes());
        self.sealed = self.sealed.checked_add(1)?;
        // Answers that arrive from now on are dated no earlier.
        let scope = &self.scope;
        let earliest = { scope.started.max(scope.used_from(key)) }.max(scope.failures_from);
        let at = at.saturating_add(self.ahead).max(earliest);
        Some((key.fingerprint(), outcome.seal(key, nonce, at)?))
    }

    /// The statements that renew the lease, end claims, and change the numbers of the run and its account. A budget set later
    /// counts what was spent without one.
    fn statements(&self, group: &Group, now: &str) -> String {
        let (run, start, account) = (self.id, self.scope.start, self.account);
        let new_calls = self.new_calls(group.calls);
        let ended = { group.records.iter().map(|record| &record.key) }.chain(&group.releases);
        let mut statements = format!(
            "UPDATE runs SET calls = {}, until = {} WHERE id = {run} AND start = {start} RETURNING {now};",
            self.spending.of_run.saturating_add(new_calls),
            self.until(now),
        );
        if let Some(ended) = listed(ended) {
            statements += &format!(
                "DELETE FROM claims WHERE fp IN ({ended}) AND run = {run} AND start = {start};"
            );
        }
        if let Some(abandoned) = listed(group.abandoned.iter()) {
            statements += &format!(
                "UPDATE claims SET start = {ABANDONED} WHERE fp IN ({abandoned}) AND run = {run} AND start = {start};"
            );
        }
        let is_answer = |record: &&Record| matches!(record.outcome, Outcome::Answer(_));
        let new = group.records.iter().filter(is_answer).count();
        statements += &Spending::add(account, self.price, (new_calls, new), now);
        if let Some(limit) = &group.limit {
            statements += &limit.update(account);
        }
        statements
    }

    /// Claims those requests about which nothing is known.
    ///
    /// A claim belongs to one start of a run, and lasts for as long as that start renews its lease. What is left of it then may be
    /// taken over by any run, and may have been billed. What an earlier start of the same run has left is counted when the run
    /// starts.
    fn claim(
        &self,
        database: &mut dyn Database,
        keys: &[RequestKey],
        found: Vec<LookupResult>,
    ) -> Result<Vec<ClaimResult>, DbFault> {
        let (run, start, now) = (self.id, self.scope.start, database.dialect().now);
        let unknown: BTreeSet<_> = { keys.iter().zip(&found) }
            .filter(|(_, found)| found.known.is_none())
            .map(|(key, _)| key.fingerprint())
            .collect();
        let mut ours = HashMap::new();
        if !unknown.is_empty() {
            let claims = unknown.iter().map(|it| format!("({it},{run},{start},0)"));
            let claims = claims.collect::<Vec<_>>().join(",");
            let claimed = database.query(&format!(
                "INSERT INTO claims AS held (fp, run, start, taken_over) VALUES {claims}
                ON CONFLICT (fp) DO UPDATE SET run = excluded.run, start = excluded.start,
                    taken_over = CASE WHEN held.run <> excluded.run THEN 1
                        WHEN held.start = excluded.start THEN held.taken_over ELSE 0 END
                WHERE (held.run = excluded.run AND held.start = excluded.start) OR NOT EXISTS (
                    SELECT 1 FROM runs WHERE id = held.run AND runs.start = held.start AND until >= {now})
                RETURNING fp, taken_over"
            ))?;
            for row in claimed {
                ours.insert(row.get::<i64>(0)?, row.get::<u8>(1)? == 1);
            }
        }
        let result = |(key, found): (&RequestKey, LookupResult)| {
            if found.known.is_some() {
                return ClaimResult::Known(found);
            }
            match ours.get(&key.fingerprint()) {
                Some(&taken_over) => ClaimResult::Ours { taken_over },
                None => ClaimResult::Taken,
            }
        };
        Ok(keys.iter().zip(found).map(result).collect())
    }

    /// No more calls come: all claims and the lease end. How the run has ended is not recorded yet, so that a run that is killed
    /// before its files are written is one to continue. If this fails, others find out that the run is gone, and the next start
    /// counts calls that have ended.
    pub(super) fn leave(&self, database: &mut dyn Database, calls: u64, limit: Option<KnownLimit>) {
        let (run, start, now) = (self.id, self.scope.start, database.dialect().now);
        let new_calls = self.new_calls(calls);
        let calls = self.spending.of_run.saturating_add(new_calls);
        let spent = Spending::add(self.account, self.price, (new_calls, 0), now);
        let limit = limit.map(|limit| limit.update(self.account));
        let _ = database.write(&format!(
            "DELETE FROM claims WHERE run = {run} AND start = {start};
            UPDATE runs SET calls = {calls}, until = {now} - 1 WHERE id = {run} AND start = {start};
            {spent}{}",
            limit.unwrap_or_default(),
        ));
    }

    /// Records how the run has ended, once its files are written. If this fails, the next run to the same output takes itself for
    /// this one and continues it. That is not worth failing for when every row is written.
    pub(super) fn end(&self, database: &mut dyn Database, end: RunEnd) {
        let run = self.id;
        let statements = match end {
            // No run can continue it.
            _ if self.name.is_none() => format!("DELETE FROM runs WHERE id = {run}"),
            RunEnd::Stopped => return,
            RunEnd::Finished { failed } => format!(
                "DELETE FROM claims WHERE run = {run}; UPDATE runs SET failed = {failed} WHERE id = {run}"
            ),
        };
        let _ = database.write(&statements);
    }
}
