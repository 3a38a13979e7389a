//! The accounts of a ledger, each an address and a service ID: which of them is asked about, what there is of each, what was spent,
//! the load that its service was found to accept, and the row in which its runs share their pace.

use std::time::{Duration, SystemTime};

use rusqlite::params;
use serde::Serialize;

use super::budget::{Per, Spending};
use super::database::{Database, TableRow, first, hex};
use super::fault::DbFault;
use super::key::RequestHasher;
use super::settings::{LedgerAccount, LedgerLocation, millis, time};
use crate::base::error::{Error, Result as RunResult};
use crate::base::money::Money;
use crate::telemetry::pace::FoundLimit;

/// Milliseconds.
pub(super) const DAY: i64 = 24 * 60 * 60 * 1_000;

/// How long a limit is used. After that the plan, the quota or the service itself may have changed, and searching for the
/// limit again takes a minute. It is long enough for jobs that rest at weekends.
const LIMIT_IS_USED: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// What is in a ledger about one address and service ID.
pub(crate) struct StoredAccount {
    /// Its row.
    pub(super) id: i64,
    /// The address.
    pub(crate) address: String,
    /// Makes the keys of requests.
    pub(crate) hasher: RequestHasher,
    /// How many answers there are that brought a verdict; where all are counted, all.
    pub(crate) answers: u64,
    /// When the first and the last of them arrived, if that was looked for.
    pub(crate) span: Option<(SystemTime, SystemTime)>,
    /// The limit that runs found.
    pub(crate) limit: Option<KnownLimit>,
}

/// The load that a service was found to accept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct KnownLimit {
    /// The limit.
    pub(crate) limit: FoundLimit,
    /// When the service last showed it.
    pub(crate) found: SystemTime,
}

impl KnownLimit {
    /// Whether it may be used. A time in the future comes from a clock that was wrong, so the age is not known.
    pub(super) fn is_recent(&self, now: SystemTime) -> bool {
        let age = now.duration_since(self.found);
        age.is_ok_and(|age| age < LIMIT_IS_USED)
    }

    /// Stores it for an account.
    pub(super) fn store(&self, database: &mut dyn Database, account: i64) -> Result<(), DbFault> {
        let limit =
            (self.limit != FoundLimit::default()).then(|| serde_json::to_string(&self.limit).ok());
        let values = params![limit.flatten(), millis(self.found), account];
        let update = "UPDATE accounts SET limits = $1, limits_at = $2 WHERE id = $3";
        database.query(update, values).map(drop)
    }
}

impl StoredAccount {
    /// All accounts, with the answers as each group counts them.
    pub(super) fn all(database: &mut dyn Database) -> Result<Vec<Self>, DbFault> {
        let answers = "(SELECT cast(coalesce(sum(answers), 0) AS BIGINT) FROM spending WHERE account = accounts.id)";
        Self::read(database, &format!("{answers}, NULL, NULL"), "")
    }

    /// All accounts, with all that is stored about each counted: everything is read.
    pub(super) fn all_counted(database: &mut dyn Database) -> Result<Vec<Self>, DbFault> {
        let join = "LEFT JOIN answers ON account = accounts.id AND length(sealed) <> 8 GROUP BY accounts.id";
        Self::read(database, "count(seq), min(at), max(at)", join)
    }

    fn read(database: &mut dyn Database, numbers: &str, join: &str) -> Result<Vec<Self>, DbFault> {
        let query = format!(
            "SELECT accounts.id, hash, address, limits, limits_at, {numbers}
            FROM accounts {join} ORDER BY address, accounts.id"
        );
        let account = |row: &TableRow| {
            let limit = row.get::<Option<String>>(3)?.zip(row.get(4)?);
            let limit = limit.map(|(limit, found)| {
                let limit = serde_json::from_str(&limit).map_err(|_| DbFault::damaged())?;
                let found = time(found);
                Ok::<_, DbFault>(KnownLimit { limit, found })
            });
            let span = row.get::<Option<_>>(6)?.zip(row.get(7)?);
            Ok(Self {
                id: row.get(0)?,
                hasher: RequestHasher::of_account(row.hash(1)?),
                address: row.get(2)?,
                limit: limit.transpose()?,
                answers: row.get(5)?,
                span: span.map(|(first, last)| (time(first), time(last))),
            })
        };
        database.query(&query, &[])?.iter().map(account).collect()
    }

    /// Adds an account, whose keys are made so, if it is missing: whether it was.
    pub(super) fn add(
        database: &mut dyn Database,
        account: &LedgerAccount,
        hasher: &RequestHasher,
    ) -> Result<bool, DbFault> {
        let hash = hex(hasher.account());
        let find = "SELECT id FROM accounts WHERE hash = $1";
        if !database.query(find, params![hash])?.is_empty() {
            return Ok(false);
        }
        let add = "INSERT INTO accounts (hash, address) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        database.write(add, params![hash, account.endpoint])?;
        Ok(true)
    }
}

impl Spending {
    /// What an account has spent until now, in milliseconds since 1970.
    pub(super) fn read(
        &mut self,
        database: &mut dyn Database,
        account: i64,
        now: i64,
    ) -> Result<(), DbFault> {
        self.today = now.div_euclid(DAY);
        let month = Per::Month.around(self.today).map_or(0, |(first, _)| first);
        let query = "SELECT day, price, calls FROM spending WHERE account = $1 AND day >= $2";
        let rows = database.query(query, params![account, month])?;
        let day = |row: &TableRow| {
            let billionths = row.parse(1)?;
            Ok((row.get(0)?, Money { billionths }, row.get(2)?))
        };
        self.days = rows.iter().map(day).collect::<Result<_, DbFault>>()?;
        Ok(())
    }

    /// Adds to the calls and the answers of this day, where there are any.
    ///
    /// Calls that were counted before they were made and are not made after all are taken away.
    pub(super) fn add(
        database: &mut dyn Database,
        account: i64,
        price: Money,
        (calls, answers): (i64, usize),
    ) -> Result<(), DbFault> {
        if calls == 0 && answers == 0 {
            return Ok(());
        }
        let now = database.dialect().now;
        let add = format!(
            "INSERT INTO spending AS before (account, day, price, calls, answers)
            VALUES ($1, {now} / {DAY}, $2, $3, $4)
            ON CONFLICT (account, day, price) DO UPDATE SET answers = before.answers + excluded.answers,
                calls = CASE WHEN before.calls + $5 > 0 THEN before.calls + $5 ELSE 0 END"
        );
        let price = price.billionths.to_string();
        let values = params![account, price, calls.max(0), answers, calls];
        database.query(&add, values).map(drop)
    }
}

/// What was spent with an account on a day or in a month.
#[derive(Debug, Serialize)]
pub(crate) struct PeriodSpending {
    /// `2026-11-27` or `2026-11`, in UTC.
    pub(crate) period: String,
    /// The calls that were made.
    pub(crate) calls: u64,
    /// How many of them brought a verdict, also where the answer was removed since.
    pub(crate) answers: u64,
    /// What a call cost, if it was the same for all of them.
    pub(crate) price: Option<Money>,
    /// What the answers cost, if the price of every call is known.
    pub(crate) cost: Option<Money>,
    /// The same of all calls, each of which may have been billed.
    pub(crate) cost_at_most: Option<Money>,
}

impl PeriodSpending {
    /// That of each day or month in which something was spent, in their order.
    pub(super) fn read(
        database: &mut dyn Database,
        account: i64,
        per: Per,
    ) -> Result<Vec<Self>, DbFault> {
        // What was removed from the answers, on no day, was paid for all the same.
        let query = "SELECT day, price, calls, answers FROM spending WHERE account = $1 AND day > 0 ORDER BY day";
        let mut periods = Vec::<Self>::new();
        for row in database.query(query, params![account])? {
            let (billionths, calls, answers) = (row.parse(1)?, row.get(2)?, row.get(3)?);
            let price = Some(Money { billionths }).filter(|price| *price != Money::default());
            let spending = Self {
                period: per.name(row.get(0)?),
                calls,
                answers,
                price,
                cost: price.map(|price| price.of(answers)),
                cost_at_most: price.map(|price| price.of(calls)),
            };
            match { periods.last_mut() }.filter(|last| last.period == spending.period) {
                Some(last) => last.add(&spending),
                None => periods.push(spending),
            }
        }
        Ok(periods)
    }

    /// Adds what was spent in the same period.
    fn add(&mut self, more: &Self) {
        let sum = |one: Option<Money>, other: Option<Money>| {
            let billionths = one?.billionths + other?.billionths;
            Some(Money { billionths })
        };
        self.calls += more.calls;
        self.answers += more.answers;
        self.price = self.price.filter(|price| Some(*price) == more.price);
        self.cost = sum(self.cost, more.cost);
        self.cost_at_most = sum(self.cost_at_most, more.cost_at_most);
    }
}

/// What makes the keys of the only account with answers, in a ledger that is shown by this name, where none was named.
///
/// # Errors
/// Exit code 2: several have answers.
pub(super) fn only(accounts: &[StoredAccount], ledger: &str) -> RunResult<RequestHasher> {
    let known: Vec<_> = { accounts.iter() }
        .filter(|account| account.answers > 0)
        .collect();
    match &known[..] {
        [] => Ok(RequestHasher::of_pass()),
        [only] => Ok(only.hasher.clone()),
        several => {
            // They are in the order of their addresses.
            let mut addresses: Vec<_> = several.iter().map(|it| it.address.as_str()).collect();
            addresses.dedup();
            let error = Error::usage(format!(
                "`{ledger}` has answers of several services or service ids, and none was named"
            ));
            let error = addresses.into_iter().fold(error, Error::detail);
            Err(error.hint("name one as in `run`, with `--base-url URL` and `--service-id ID`"))
        }
    }
}

/// The row in which the runs of an account share their pace, on a server, over a connection of its own. What is in it is theirs:
/// here it is text.
pub(crate) struct PaceRow {
    pub(super) database: Box<dyn Database>,
    pub(super) account: i64,
    pub(super) location: LedgerLocation,
}

impl PaceRow {
    /// Sends what was seen and asks what is allowed, both as JSON. A server that does not answer is waited for.
    ///
    /// # Errors
    /// Exit code 3: the server does not answer for too long. Exit code 2: it refuses.
    pub(crate) fn ask(&mut self, ask: &str) -> RunResult<String> {
        let statement = "SELECT cast(ask_pace($1, $2) AS TEXT)";
        let reply = self.database.query(statement, params![self.account, ask]);
        let reply = reply.and_then(|rows| first(&rows)?.get(0));
        reply.map_err(|fault| self.location.cannot("ask", &fault))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_used_for_a_week() {
        let limit = KnownLimit {
            limit: FoundLimit::default(),
            found: SystemTime::now(),
        };
        let days = |days: u64| Duration::from_secs(days * 24 * 60 * 60);
        assert!(limit.is_recent(limit.found + days(6)));
        assert!(!limit.is_recent(limit.found + days(7)));
        assert!(!limit.is_recent(limit.found - days(1)));
    }
}
