//! A run in a ledger: its record, by which the same command continues it, what it stores, and how it claims requests.
//!
//! A run is recognised by its output. It keeps the moment from which on answers are recent enough: so a run that is continued
//! gives what it would have given without the stop, and a run that asks for every row again does not start over.

use std::path::Path;
use std::time::Duration;

use rusqlite::params;

use super::accounts::KnownLimit;
use super::answers::{LookupResult, PaidResult, Scope, Stored};
use super::budget::{CallLimit, Spending};
use super::claims::{Claims, Holder, LEASE_SLACK_MS, Requests, lease_lasts};
use super::database::{Database, TableRow, first, hex};
use super::fault::{DbFault, DbFaultKind};
use super::key::{PathHash, RequestKey, SealNonce, random_number, random_secret};
use super::outputs::hash;
use super::settings::{self, LedgerSettings, Reuse, ages_in, in_millis, spread_in};
use crate::base::money::Money;
use crate::base::numbers::{AGED_DAYS, DAY};

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
    pub(crate) outcome: PaidResult,
    /// When it arrived, in milliseconds since 1970.
    pub(crate) at: i64,
}

/// How a call has ended that brought nothing to store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// It was not made after all: it does not count, and another run may ask.
    NotMade,
    /// It was not billed: another run may ask.
    NotBilled,
    /// It may have been billed: the run that calls for the request next counts that.
    MaybeBilled,
    /// Another call follows, which counts as well, and for which the claim holds.
    Again,
}

/// What is done in one transaction.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// What becomes durable. The claims of these requests end.
    pub(super) records: Vec<Record>,
    /// Then nothing is kept that this start of the run has stored about these requests, by fingerprint.
    pub(super) distrusted: Vec<i64>,
    /// Requests whose calls have ended with nothing to store.
    pub(super) unanswered: Vec<(RequestKey, Unanswered)>,
    /// After all that, these are looked up again, and claimed if nothing is known. None of them is among the records.
    pub(super) claims: Vec<RequestKey>,
    /// No more of these are claimed, from the first on.
    pub(super) most: Option<usize>,
    /// The service has shown another limit, or that there is none.
    pub(super) limit: Option<KnownLimit>,
}

/// What a claim led to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ClaimResult {
    /// The request is this run's: no other one calls for it.
    Ours {
        /// A start that is gone had claimed it, and may have called for it.
        taken_over: bool,
    },
    /// It is known by now what became of the request.
    Known(LookupResult),
    /// Another run calls for it now.
    Taken,
    /// Nothing is known, and enough others were claimed.
    Free,
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
    /// What counts for its budgets.
    pub(crate) spending: Spending,
    /// How many requests starts that are gone have left, which may have been billed.
    pub(crate) left: u64,
    /// What a call costs, or zero if that is unknown.
    price: Money,
    /// Whether a budget counts the calls of its account.
    reads_spending: bool,
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
        let times = format!("SELECT {clock}, (SELECT max(at) FROM {latest})");
        let times = database.query(&times, &[])?;
        let times = first(&times)?;
        let (now, last) = (times.get::<i64>(0)?, times.get::<Option<i64>>(1)?);
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
                    _ => start.saturating_sub(in_millis(AGED_DAYS * DAY)),
                },
                start: random_number(),
                read: settings.read.clone(),
            },
            previous: None,
            same_input: false,
            continues: false,
            is_elsewhere: false,
            spending: Spending::default(),
            left: 0,
            price: settings.price,
            reads_spending: settings.limits.iter().any(CallLimit::is_of_account),
            longest_call: settings.longest_call,
            account: 0,
            id: 0,
            sealed: 0,
            ahead: now.saturating_sub(settings::now()),
        };
        if let Some(name) = &run.name {
            let query = format!(
                "SELECT input, reuse, not_before, failures_from, started, failed, calls, cost,
                CASE WHEN place <> $1 AND {} THEN 1 ELSE 0 END
                FROM runs WHERE name = $2",
                lease_lasts(clock)
            );
            let found = database.query(&query, params![run.place, hex(name)])?;
            if let Some(found) = found.first() {
                run.adopt_previous_run(found, reuse)?;
            }
        }
        run.left = Claims::left(database, run.name.as_ref())?;
        Ok(run)
    }

    /// Takes over what an earlier run to the output has recorded: its input, which answers it uses, its first start, the rows
    /// without a verdict if it has ended, its calls and what they cost, and whether its lease lasts in another place.
    fn adopt_previous_run(&mut self, found: &TableRow, reuse: Reuse) -> Result<(), DbFault> {
        let ended = found.get::<Option<_>>(5)?;
        self.same_input = found.hash(0)? == self.input;
        self.previous = Some(ended.map_or(RunEnd::Stopped, |failed| RunEnd::Finished { failed }));
        self.is_elsewhere = found.get::<u8>(8)? == 1;
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
            self.spending.earlier = found.get(6)?;
            let cost: Option<String> = found.get(7)?;
            let cost = cost.map(|_| found.parse(7)).transpose()?;
            self.spending.earlier_cost = cost.map(|billionths| Money { billionths });
        }
        Ok(())
    }

    /// Whether an earlier start of this run has written a file, judged by when it was modified.
    pub(crate) fn has_written(&self, file: &Path) -> bool {
        let modified = file.metadata().and_then(|there| there.modified());
        self.continues && modified.is_ok_and(|time| settings::millis(time) >= self.scope.started)
    }

    /// Now by the database's clock, in milliseconds since 1970.
    pub(super) fn now(&self) -> i64 {
        settings::now().saturating_add(self.ahead)
    }

    /// Records that the run is under way. What earlier starts of it have claimed belongs to nobody now. `false` if its lease lasts in
    /// another place.
    pub(super) fn start(&mut self, database: &mut dyn Database) -> Result<bool, DbFault> {
        let now = database.dialect().now;
        let insert = format!(
            "INSERT INTO runs
                (name, input, reuse, not_before, failures_from, started, calls, cost, start, until, lease, place)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, {now} + $10, $10, $11)
            ON CONFLICT (name) DO UPDATE SET input = excluded.input, reuse = excluded.reuse,
                not_before = excluded.not_before, failures_from = excluded.failures_from,
                started = excluded.started, failed = NULL, calls = excluded.calls,
                cost = excluded.cost, start = excluded.start, until = excluded.until,
                lease = excluded.lease, place = excluded.place
            WHERE runs.place = excluded.place OR NOT ({})
            RETURNING id",
            lease_lasts(now),
        );
        let (name, input) = (self.name.unwrap_or_else(random_secret), self.input);
        let (scope, (calls, cost)) = (&self.scope, self.calls_and_cost(0));
        let what = params![hex(&name), hex(&input), self.reuse, scope.not_before];
        let since = params![scope.failures_from, scope.started, calls, cost];
        let lease = params![scope.start, self.lease(), self.place];
        let started = database.write(&insert, &[what, since, lease].concat())?;
        let id = started.first().map(|row| row.get(0)).transpose()?;
        self.id = id.unwrap_or_default();
        Ok(id.is_some())
    }

    /// How long a lease lasts, in milliseconds.
    fn lease(&self) -> i64 {
        in_millis(self.longest_call).saturating_add(LEASE_SLACK_MS)
    }

    /// The calls of all starts of the run and what they cost, if this one has made so many: NULL where its price is not known.
    fn calls_and_cost(&self, calls: u64) -> (u64, Option<String>) {
        let (earlier, price) = (
            self.spending.cost_of_earlier(self.price),
            self.price.of(calls),
        );
        let spent = earlier.billionths.saturating_add(price.billionths);
        let is_same = calls == 0 && self.spending.earlier_cost.is_some();
        let is_known = is_same || self.price != Money::default();
        let cost = is_known.then(|| spent.to_string());
        (self.spending.earlier.saturating_add(calls), cost)
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
        let us = (self.id, self.scope.start);
        let (mut results, mut now, mut spending) = (Vec::new(), 0_i64, self.spending.clone());
        let is_durable = !(sealed.is_empty() && group.distrusted.is_empty());
        let stored = self.transaction(database, is_durable, |database| {
            let ours = "run = $1 AND claims.start = $2";
            let mut claims = Claims::read(database, ours, params![us.0, us.1])?;
            database.append(self.account, &sealed)?;
            if !group.distrusted.is_empty() {
                database.discard(self.scope.start, &group.distrusted)?;
            }
            let (not_made, again) = group.end(&mut claims);
            // On a full disk no new calls start.
            let asked = if database.is_full() {
                &[]
            } else {
                &group.claims[..]
            };
            let found = database.find(&self.scope, asked)?;
            results = claim(&mut claims, asked, group.most, found);
            spending.stored =
                (self.spending.stored + claims.granted + again).saturating_sub(not_made);
            let answers = group.records.iter();
            let answers = answers.filter(|it| matches!(it.outcome, PaidResult::Answer(_)));
            let lasts = self.lease();
            let (until, renewed) = self.count(database, spending.stored, answers.count(), lasts)?;
            now = renewed;
            claims.store(database, us)?;
            if let Some(limit) = &group.limit {
                limit.store(database, self.account)?;
            }
            if self.reads_spending {
                spending.read(database, self.account, now)?;
            }
            Ok(until)
        });
        stored.map_err(|mut fault| {
            if fault.may_pass() && !sealed.is_empty() {
                fault.words += "; paid answers that could not be stored: ";
                fault.words += &sealed.len().to_string();
            }
            fault
        })?;
        self.ahead = now.saturating_sub(settings::now());
        self.spending = spending;
        Ok(results)
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
        Some((key.fingerprint(), outcome.seal(key, nonce, at, self.price)?))
    }

    /// Does something in a transaction, which returns until when the lease then lasts. Where the end of the transaction is lost with
    /// the connection, it is repeated, unless it was committed after all: nothing is counted twice.
    fn transaction(
        &self,
        database: &mut dyn Database,
        durable: bool,
        mut work: impl FnMut(&mut dyn Database) -> Result<i64, DbFault>,
    ) -> Result<(), DbFault> {
        let mut written = None;
        database.transaction(durable, &mut |database| {
            if let Some(until) = written {
                let query = "SELECT id FROM runs WHERE id = $1 AND start = $2 AND until = $3";
                let values = params![self.id, self.scope.start, until];
                if !database.query(query, values)?.is_empty() {
                    return Ok(());
                }
            }
            written = Some(work(database)?);
            Ok(())
        })
    }

    /// Stores how many calls this start has made, which with these answers, and has the lease last for this many milliseconds from
    /// now. A budget set later counts what was spent without one. Until when the lease lasts, of which the last bit changes each
    /// time, and this moment.
    ///
    /// # Errors
    /// Another start has taken the run over, or it was removed.
    fn count(
        &self,
        database: &mut dyn Database,
        stored: u64,
        answers: usize,
        lasts: i64,
    ) -> Result<(i64, i64), DbFault> {
        let now = database.dialect().now;
        let (calls, cost) = self.calls_and_cost(stored);
        let update = format!(
            "UPDATE runs SET calls = $1, cost = $2, until = ({now} + $3) / 2 * 2 + (until + 1) % 2
            WHERE id = $4 AND start = $5 RETURNING until, {now}"
        );
        let values = params![calls, cost, lasts, self.id, self.scope.start];
        let renewed = database.query(&update, values)?;
        let new = stored.cast_signed() - self.spending.stored.cast_signed();
        Spending::add(database, self.account, self.price, (new, answers))?;
        let Some(row) = renewed.first() else {
            let words =
                "the run was removed from it, or another host has started a run to the same path";
            return Err(DbFault::new(DbFaultKind::Other, words));
        };
        Ok((row.get(0)?, row.get(1)?))
    }

    /// No more calls come: all claims and the lease end. How the run has ended is not recorded yet, so that a run that is killed
    /// before its files are written is one to continue. If this fails, others find out that the run is gone, and what it had
    /// claimed may have been billed.
    pub(super) fn leave(&self, database: &mut dyn Database, calls: u64, limit: Option<KnownLimit>) {
        let _ = self.transaction(database, true, |database| {
            let us = params![self.id, self.scope.start];
            database.query("DELETE FROM claims WHERE run = $1 AND start = $2", us)?;
            let (until, _) = self.count(database, calls, 0, -2)?;
            limit.map_or(Ok(()), |limit| limit.store(database, self.account))?;
            Ok(until)
        });
    }

    /// Records how the run has ended, once its files are written. If this fails, the next run to the same output takes itself for
    /// this one and continues it. That is not worth failing for when every row is written.
    pub(super) fn end(&self, database: &mut dyn Database, end: RunEnd) {
        let id = self.id;
        let _ = match end {
            // No run can continue it.
            _ if self.name.is_none() => {
                database.write("DELETE FROM runs WHERE id = $1", params![id])
            }
            RunEnd::Stopped => return,
            RunEnd::Finished { failed } => database.write(
                "UPDATE runs SET failed = $1 WHERE id = $2",
                params![failed, id],
            ),
        };
    }
}

impl Group {
    /// Ends the claims that end with it: how many calls for them were not made, and how many follow.
    fn end(&self, claims: &mut Claims) -> (u64, u64) {
        let requests = |end| {
            let ended = self.unanswered.iter().filter(move |it| it.1 == end);
            fingerprints(ended.map(|(key, _)| key))
        };
        let not_made = claims.remove(Holder::Us, &requests(Unanswered::NotMade));
        // What others have left is counted by the first of our calls, as long as the request is ours.
        let repeated = claims.of(Holder::Us, &requests(Unanswered::Again));
        claims.remove(Holder::Nobody, &repeated);
        let not_billed = claims.of(Holder::Us, &requests(Unanswered::NotBilled));
        let answered = fingerprints(self.records.iter().map(|record| &record.key));
        let maybe_billed = requests(Unanswered::MaybeBilled);
        for ended in [&not_billed, &answered, &maybe_billed] {
            claims.end(ended);
        }
        claims.leave(&maybe_billed);
        let again = self
            .unanswered
            .iter()
            .filter(|it| it.1 == Unanswered::Again);
        (not_made as u64, again.count() as u64)
    }
}

fn fingerprints<'k>(keys: impl IntoIterator<Item = &'k RequestKey>) -> Requests {
    keys.into_iter().map(RequestKey::fingerprint).collect()
}

/// Claims the first requests about which nothing is known and that no other run has, up to `most` of them.
fn claim(
    claims: &mut Claims,
    keys: &[RequestKey],
    most: Option<usize>,
    found: Vec<LookupResult>,
) -> Vec<ClaimResult> {
    let unknown = { keys.iter().zip(&found) }.filter(|(_, found)| found.known.is_none());
    let unknown = unknown.map(|(key, _)| key.fingerprint());
    let of_others = claims.of(Holder::Other, &unknown.clone().collect());
    let free = unknown.filter(|request| !of_others.contains(request));
    let ours: Requests = free.take(most.unwrap_or(usize::MAX)).collect();
    let taken_over = claims.claim(&ours);
    let result = |(key, found): (&RequestKey, LookupResult)| match key.fingerprint() {
        _ if found.known.is_some() => ClaimResult::Known(found),
        request if of_others.contains(&request) => ClaimResult::Taken,
        request if !ours.contains(&request) => ClaimResult::Free,
        request => ClaimResult::Ours {
            taken_over: taken_over.contains(&request),
        },
    };
    keys.iter().zip(found).map(result).collect()
}
