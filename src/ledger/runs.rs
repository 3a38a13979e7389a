//! A run in a ledger: what it asks of the ledger, its record, by which the same command continues
//! it, what it stores, and how it claims requests.
//!
//! A run is recognised by its output. It keeps the moment from which on answers are recent enough:
//! so a run that is continued gives what it would have given without the stop, and a run that asks
//! for every row again does not start over.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::params;

use super::accounts::{Budget, RememberedLimit, Spending};
use super::answers::{PaidResult, ReadAnswer, Scope, Stored};
use super::claims::{ClaimResult, Claims, LEASE_SLACK_MS, Requests, Unanswered, lease_lasts};
use super::database::{Database, duration_millis, first, hex, now_millis, to_millis};
use super::fault::{DbFault, DbFaultKind};
use super::key::{PathHash, RequestKey, SealNonce, random_number, random_secret};
use super::location::{LedgerAccount, LedgerLocation, ServerWait};
use super::outputs::hash;
use crate::base::money::Money;
use crate::base::numbers::{AGED_DAYS, DAY};

/// Which answers are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reuse {
    /// All of them, and failures that were or may have been billed.
    All,
    /// Those that are not too old when the run first starts. The age from which on an answer is
    /// too old is between these two, as its request's fingerprint chooses, so that the answers of
    /// one night do not all expire in one night.
    Recent {
        /// No answer is too old at this age.
        least: Duration,
        /// Every answer is too old above this age.
        most: Duration,
    },
    /// Those that arrive since the run first starts.
    Nothing,
    /// All answers; requests that failed before the run first starts are sent again.
    Retry,
}

impl Reuse {
    /// The words by which the same command is recognised.
    fn word(self) -> String {
        match self {
            Self::All => "all".to_owned(),
            Self::Recent { least, most } if least == most => format!("max-age {}", most.as_secs()),
            Self::Recent { least, most } => {
                format!("max-age {}..{}", least.as_millis(), most.as_millis())
            }
            Self::Nothing => "fresh".to_owned(),
            Self::Retry => "retry-failed".to_owned(),
        }
    }
}

/// The two ages in a run's words, if it has a range of them.
fn ages_in(words: &str) -> Option<&str> {
    let (_, ages) = words.rsplit_once(' ')?;
    ages.contains("..").then_some(ages)
}

/// How much later than the oldest answer the youngest one expires, by a run's words, in
/// milliseconds.
fn spread_in(words: &str) -> u64 {
    let ages = ages_in(words).and_then(|ages| ages.split_once(".."));
    let number = |age: &str| age.parse::<u64>().ok();
    let spread = ages.and_then(|(least, most)| number(most)?.checked_sub(number(least)?));
    spread.unwrap_or(0)
}

/// What a run asks of a ledger, or a look that shows what a run would find.
#[derive(Clone)]
pub(crate) struct LedgerSettings {
    /// Where the ledger is.
    pub(crate) location: LedgerLocation,
    /// Which answers are used.
    pub(crate) reuse: Reuse,
    /// What the run writes. By its path a stopped run is recognised. `None` is standard output.
    pub(crate) output: Option<PathBuf>,
    /// What it reads; `None` is a stream, or several files.
    pub(crate) input: Option<PathBuf>,
    /// Who asks. `None`, for a look without a run, is the only account that the ledger has answers
    /// of.
    pub(crate) account: Option<LedgerAccount>,
    /// Reads the bodies of answers.
    pub(crate) read: ReadAnswer,
    /// How many calls can be in flight: answers arrive in groups of about that size.
    pub(crate) in_flight: NonZeroUsize,
    /// How long a call can take.
    pub(crate) longest_call: Duration,
    /// How it waits for a ledger's server.
    pub(crate) wait: ServerWait,
    /// How many calls it may make.
    pub(crate) budgets: Vec<Budget>,
    /// What each costs, or zero if that is unknown.
    pub(crate) price: Money,
}

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
pub(super) struct Record {
    pub(super) key: RequestKey,
    pub(super) result: PaidResult,
    /// When it arrived, in milliseconds since 1970.
    pub(super) at: i64,
}

/// What is done in one transaction.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// These become durable. The claims of their requests end.
    pub(super) records: Vec<Record>,
    /// Then everything is removed that this start of the run has stored about these requests, by
    /// fingerprint.
    pub(super) distrusted: Vec<i64>,
    /// Requests whose calls have ended with nothing to store.
    pub(super) unanswered: Vec<(RequestKey, Unanswered)>,
    /// After all that, these are looked up again, and claimed if they have no result. None of them
    /// is among the records.
    pub(super) claims: Vec<RequestKey>,
    /// At most this many are claimed, from the first on.
    pub(super) max_claims: usize,
    /// The service has shown another limit, or that there is none.
    pub(super) limit: Option<RememberedLimit>,
}

/// The run that starts now, or is under way.
#[derive(Clone)]
pub(crate) struct RunRecord {
    pub(super) settings: LedgerSettings,
    /// A hash of its output's path; random for rows to a stream, which no run can continue.
    name: PathHash,
    /// A hash of its input's path.
    input: PathHash,
    /// The host and the directory of its files.
    host_id: String,
    /// Which answers it uses, in words.
    reuse: String,
    /// Which of the stored results it uses.
    pub(super) scope: Scope,
    /// Whether answers of any account arrived late enough for it.
    pub(super) has_recent: bool,
    /// How the previous run to this output ended, if one was recorded.
    pub(crate) previous: Option<RunEnd>,
    /// Whether that had the same input.
    pub(crate) same_input: bool,
    /// Whether this run continues it.
    pub(crate) continues: bool,
    /// Whether it still runs, on another host or in another directory.
    pub(super) is_elsewhere: bool,
    /// What counts for its budgets.
    pub(crate) spending: Spending,
    /// How many requests killed starts have abandoned, which may have been billed.
    pub(crate) abandoned: u64,
    /// The row of its account.
    pub(super) account: i64,
    /// Its row, once it has started.
    id: i64,
    /// How many results this start has sealed.
    sealed: u32,
    /// By how much the database's clock is ahead of this machine's, in milliseconds.
    clock_ahead: i64,
}

/// A lease that was renewed, in milliseconds since 1970 by the database's clock.
struct Lease {
    renewed: i64,
    until: i64,
}

impl RunRecord {
    /// A run of these settings and this account that starts now, with its files on this host.
    pub(super) fn read(
        database: &mut dyn Database,
        secret: &[u8; 32],
        settings: &LedgerSettings,
        account: i64,
        host_id: String,
    ) -> Result<Self, DbFault> {
        let (output, reuse) = (settings.output.as_deref(), settings.reuse);
        let clock = database.dialect().now;
        // Answers that arrive at nearly the same time are stored in any order.
        let latest = "(SELECT at FROM answers ORDER BY seq DESC LIMIT 1000) AS latest";
        let times = format!("SELECT {clock}, (SELECT max(at) FROM {latest})");
        let times = database.query(&times, &[])?;
        let times = first(&times)?;
        let (now, latest) = (times.get::<i64>(0)?, times.get::<Option<i64>>(1)?);
        let started = match (reuse, latest) {
            // A clock that was ahead may have dated answers later: the run asks for these again,
            // too.
            (Reuse::Nothing | Reuse::Retry, Some(latest)) => {
                i64::max(now, latest.saturating_add(1))
            }
            _ => now,
        };
        let not_before = match reuse {
            Reuse::All | Reuse::Retry => i64::MIN,
            Reuse::Recent { most, .. } => started.saturating_sub(duration_millis(most)).max(0),
            Reuse::Nothing => started,
        };
        let mut run = Self {
            settings: settings.clone(),
            name: output.map_or_else(random_secret, |output| hash(secret, Some(output))),
            input: hash(secret, settings.input.as_deref()),
            host_id,
            reuse: reuse.word(),
            scope: Scope {
                not_before,
                spread: spread_in(&reuse.word()),
                failures_from: if reuse == Reuse::Retry {
                    started
                } else {
                    not_before
                },
                started,
                aged_before: match reuse {
                    Reuse::Recent { .. } => i64::MIN,
                    _ => started.saturating_sub(duration_millis(AGED_DAYS * DAY)),
                },
                start: random_number(),
                read: settings.read.clone(),
            },
            has_recent: false,
            previous: None,
            same_input: false,
            continues: false,
            is_elsewhere: false,
            spending: Spending::default(),
            abandoned: 0,
            account,
            id: 0,
            sealed: 0,
            clock_ahead: now.saturating_sub(now_millis()),
        };
        run.adopt_previous_run(database)?;
        run.has_recent = latest >= Some(run.scope.not_before);
        run.abandoned = Claims::count_abandoned(database, &run.name)?;
        run.spending.read(database, account, now)?;
        Ok(run)
    }

    /// Takes over what an earlier run to the output has recorded: its input, which answers it
    /// uses, its first start, the rows without a verdict if it has ended, its calls and what they
    /// cost, and whether its lease lasts elsewhere.
    fn adopt_previous_run(&mut self, database: &mut dyn Database) -> Result<(), DbFault> {
        let lasts = lease_lasts(database.dialect().now);
        let query = format!(
            "SELECT input, reuse, not_before, failures_from, started, failed, calls, cost,
            CASE WHEN place <> $1 AND {lasts} THEN 1 ELSE 0 END FROM runs WHERE name = $2"
        );
        let found = database.query(&query, params![self.host_id, hex(&self.name)])?;
        let Some(found) = found.first() else {
            return Ok(());
        };
        let reuse = self.settings.reuse;
        let ended = found.get::<Option<_>>(5)?;
        self.same_input = found.hash(0)? == self.input;
        self.previous = Some(ended.map_or(RunEnd::Stopped, |failed| RunEnd::Finished { failed }));
        self.is_elsewhere = found.get::<u8>(8)? == 1;
        let is_stopped = ended.is_none() && self.same_input;
        let words = found.get::<String>(1)?;
        if let (Reuse::Retry, Some(ages)) = (reuse, ages_in(&words)) {
            self.reuse = format!("{} {ages}", reuse.word());
        }
        let is_same = is_stopped && words == self.reuse;
        if is_same || reuse == Reuse::Retry {
            // No answer that the run before has used is asked for again.
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
            let cost = found.get::<Option<String>>(7)?;
            self.spending.earlier_cost = cost.map(|_| found.money(7)).transpose()?;
        }
        Ok(())
    }

    /// Whether an earlier start of this run has written a file, judged by when it was modified.
    pub(crate) fn has_written(&self, file: &Path) -> bool {
        let modified = file.metadata().and_then(|there| there.modified());
        self.continues && modified.is_ok_and(|time| to_millis(time) >= self.scope.started)
    }

    /// Now by the database's clock, in milliseconds since 1970.
    pub(super) fn now(&self) -> i64 {
        now_millis().saturating_add(self.clock_ahead)
    }

    /// Records that the run is under way. What earlier starts of it have claimed is abandoned.
    /// `false` if its lease lasts elsewhere.
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
        let (name, input) = (hex(&self.name), hex(&self.input));
        let (scope, (calls, cost)) = (&self.scope, self.calls_and_cost(0));
        let what = params![name, input, self.reuse, scope.not_before];
        let since = params![scope.failures_from, scope.started, calls, cost];
        let lease = params![scope.start, self.lease_millis(), self.host_id];
        let started = database.write(&insert, &[what, since, lease].concat())?;
        let id = started.first().map(|row| row.get(0)).transpose()?;
        self.id = id.unwrap_or_default();
        Ok(id.is_some())
    }

    /// How long a lease lasts, in milliseconds.
    fn lease_millis(&self) -> i64 {
        duration_millis(self.settings.longest_call).saturating_add(LEASE_SLACK_MS)
    }

    /// The calls of all starts of the run if this one has made so many, and what they cost: `None`
    /// if the price is not known.
    fn calls_and_cost(&self, calls: u64) -> (u64, Option<String>) {
        let (spending, price) = (&self.spending, self.settings.price);
        let cost = spending.cost_of_earlier(price) + price.of(calls);
        let is_same = calls == 0 && spending.earlier_cost.is_some();
        let is_known = is_same || price != Money::default();
        let cost = is_known.then(|| cost.billionths.to_string());
        (spending.earlier.saturating_add(calls), cost)
    }

    /// Renews the lease, stores what became of requests, and claims others: the results of the
    /// claims, in their order. A group without records need not be durable: a claim is worth
    /// nothing after a power cut.
    ///
    /// # Errors
    /// The ledger cannot be written, the run was removed from it, or another start has taken it
    /// over.
    pub(super) fn store(
        &mut self,
        database: &mut dyn Database,
        group: &Group,
    ) -> Result<Vec<ClaimResult>, DbFault> {
        let records = group.records.iter();
        let sealed = records.map(|record| self.seal(record));
        let sealed = sealed.collect::<Option<Vec<_>>>();
        let sealed =
            sealed.ok_or_else(|| DbFault::new(DbFaultKind::Other, "an answer cannot be sealed"))?;
        let requests: Requests = sealed.iter().map(|it| it.fingerprint).collect();
        let answers = group.records.iter();
        let answers = answers.filter(|it| matches!(it.result, PaidResult::Answer(_)));
        let answers = answers.count();
        let (mut results, mut renewed, mut spending) = (Vec::new(), 0, self.spending.clone());
        let is_durable = !(sealed.is_empty() && group.distrusted.is_empty());
        let budgets = &self.settings.budgets;
        let reads_spending = budgets.iter().any(Budget::is_of_account);
        let stored = self.transaction(database, is_durable, |database| {
            let (id, start) = (self.id, self.scope.start);
            let is_of_this_start = "run = $1 AND claims.start = $2";
            let mut claims = Claims::read(database, is_of_this_start, params![id, start])?;
            database.append(self.account, &sealed)?;
            if !group.distrusted.is_empty() {
                database.discard(start, &group.distrusted)?;
            }
            claims.end_calls(&requests, &group.unanswered);
            // On a full disk no new calls start.
            let asked = if database.is_full() {
                &[]
            } else {
                &group.claims[..]
            };
            let found = database.find(&self.scope, asked)?;
            results = claims.grant(asked, group.max_claims, found);
            let calls = self.spending.stored + claims.added_calls;
            spending.stored = calls.saturating_sub(claims.unmade_calls);
            let lease = self.count(database, spending.stored, answers, self.lease_millis())?;
            renewed = lease.renewed;
            claims.store(database, id, start)?;
            if let Some(limit) = &group.limit {
                limit.store(database, self.account)?;
            }
            if reads_spending {
                spending.read(database, self.account, renewed)?;
            }
            Ok(lease)
        });
        stored.map_err(|mut fault| {
            if fault.may_pass() && !sealed.is_empty() {
                fault.words += "; paid answers that could not be stored: ";
                fault.words += &sealed.len().to_string();
            }
            fault
        })?;
        self.clock_ahead = renewed.saturating_sub(now_millis());
        self.spending = spending;
        Ok(results)
    }

    /// Encrypts what became of a request, with a nonce that this start uses once: its number and a
    /// count.
    fn seal(&mut self, record: &Record) -> Option<Stored> {
        let Record { key, result, at } = record;
        let mut nonce = SealNonce::default();
        let (start, count) = nonce.split_at_mut(8);
        start.copy_from_slice(&self.scope.start.to_le_bytes());
        count.copy_from_slice(&self.sealed.to_le_bytes());
        self.sealed = self.sealed.checked_add(1)?;
        // Answers that arrive from now on are dated no earlier.
        let scope = &self.scope;
        let earliest = scope.started.max(scope.used_from(key));
        let earliest = earliest.max(scope.failures_from);
        let at = at.saturating_add(self.clock_ahead).max(earliest);
        result.seal(key, nonce, at, self.settings.price)
    }

    /// Does `work` in a transaction, which renews the lease. If the end of the transaction is lost
    /// with the connection, it is repeated, unless it was committed after all: nothing is counted
    /// twice.
    fn transaction(
        &self,
        database: &mut dyn Database,
        durable: bool,
        mut work: impl FnMut(&mut dyn Database) -> Result<Lease, DbFault>,
    ) -> Result<(), DbFault> {
        let mut written = None;
        database.transaction(durable, &mut |database| {
            if let Some(Lease { until, .. }) = written {
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

    /// Stores how many calls this start has made, now with these answers, and has the lease last
    /// for this many milliseconds from now. A budget that is set later counts what was spent
    /// without one. The last bit of the lease's end changes each time, so that
    /// [`Self::transaction`] recognises it.
    ///
    /// # Errors
    /// Another start has taken the run over, or it was removed.
    fn count(
        &self,
        database: &mut dyn Database,
        stored: u64,
        answers: usize,
        lasts: i64,
    ) -> Result<Lease, DbFault> {
        let now = database.dialect().now;
        let (calls, cost) = self.calls_and_cost(stored);
        let update = format!(
            "UPDATE runs SET calls = $1, cost = $2, until = ({now} + $3) / 2 * 2 + (until + 1) % 2
            WHERE id = $4 AND start = $5 RETURNING until, {now}"
        );
        let values = params![calls, cost, lasts, self.id, self.scope.start];
        let renewed = database.query(&update, values)?;
        let new = stored.cast_signed() - self.spending.stored.cast_signed();
        Spending::add(database, self.account, self.settings.price, new, answers)?;
        let Some(row) = renewed.first() else {
            let words =
                "the run was removed from it, or another host has started a run to the same path";
            return Err(DbFault::new(DbFaultKind::Other, words));
        };
        Ok(Lease {
            until: row.get(0)?,
            renewed: row.get(1)?,
        })
    }

    /// No more calls come: all claims and the lease end. How the run has ended is not recorded
    /// yet, so that a run that is killed before its files are written is one to continue. If this
    /// fails, others find out when the lease ends, and what the run had claimed counts as
    /// abandoned.
    pub(super) fn leave(
        &self,
        database: &mut dyn Database,
        calls: u64,
        limit: Option<RememberedLimit>,
    ) {
        let _ = self.transaction(database, true, |database| {
            let this_start = params![self.id, self.scope.start];
            let delete = "DELETE FROM claims WHERE run = $1 AND start = $2";
            database.query(delete, this_start)?;
            let ended = self.count(database, calls, 0, -2)?;
            limit.map_or(Ok(()), |limit| limit.store(database, self.account))?;
            Ok(ended)
        });
    }

    /// Records how the run has ended, once its files are written. If this fails, the next run to
    /// the same output takes itself for this one and continues it. That is not worth failing for
    /// when every row is written.
    pub(super) fn end(&self, database: &mut dyn Database, end: RunEnd) {
        let id = self.id;
        let _ = match end {
            // No run can continue it.
            _ if self.settings.output.is_none() => {
                database.write("DELETE FROM runs WHERE id = $1", params![id])
            }
            RunEnd::Stopped => return,
            RunEnd::Finished { failed } => {
                let update = "UPDATE runs SET failed = $1 WHERE id = $2";
                database.write(update, params![failed, id])
            }
        };
    }
}
