//! The accounts of a ledger, each an address and a service ID: their answers, what was spent, how
//! many calls their budgets leave, and the limit that runs found.
//!
//! A budget is for a run with all its starts, or for all runs of an account in a day or a month of
//! UTC, by the database's clock.

use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use jiff::SignedDuration;
use jiff::civil::Date;
use rusqlite::params;
use serde::Serialize;

use super::database::{Database, TableRow, first, from_millis, hex, to_millis};
use super::fault::DbFault;
use super::key::RequestHasher;
use super::location::LedgerLocation;
use crate::base::error::{Error, Result as RunResult};
use crate::base::money::{Money, Tariff};
use crate::base::threads::lock;
use crate::telemetry::counts::BudgetNumbers;
use crate::telemetry::event::CancelReason;
use crate::telemetry::pace::FoundLimit;

/// Milliseconds of a day.
pub(super) const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// How long a limit is used. After that the plan, the quota or the service itself may have
/// changed, and searching for the limit again takes a minute. It is long enough for jobs that rest
/// at weekends.
const LIMIT_LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Whose calls a budget counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Per {
    /// The run's, in all its starts.
    Run,
    /// The account's, on a calendar day.
    Day,
    /// The account's, in a calendar month.
    Month,
}

impl Per {
    /// The days of the day or month that this day is in, counted from 1970; `None` for a run.
    fn days_around(self, day: i64) -> Option<Range<i64>> {
        match self {
            Self::Run => None,
            Self::Day => Some(day..day + 1),
            Self::Month => {
                let date = date(day);
                let first = day + 1 - i64::from(date.day());
                Some(first..first + i64::from(date.days_in_month()))
            }
        }
    }

    /// Its word for programs.
    const fn word(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Day => "day",
            Self::Month => "month",
        }
    }

    /// The name of the day or month that this day is in: `2026-11-27`, `2026-11`.
    fn name(self, day: i64) -> String {
        let format = match self {
            Self::Month => "%Y-%m",
            _ => "%Y-%m-%d",
        };
        date(day).strftime(format).to_string()
    }
}

/// The date of a day that is counted from 1970.
fn date(day: i64) -> Date {
    let since = SignedDuration::from_hours(day.saturating_mul(24));
    jiff::civil::date(1970, 1, 1).saturating_add(since)
}

/// How many calls may be made.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Budget {
    cap: Cap,
    per: Per,
}

#[derive(Debug, Clone, PartialEq)]
enum Cap {
    /// `--max-calls`.
    Calls(NonZeroU64),
    /// `--max-cost`, and what a call of this run costs.
    Cost(Money, Tariff),
}

impl Budget {
    /// `--max-calls`.
    pub(crate) const fn calls(calls: NonZeroU64, per: Per) -> Self {
        let cap = Cap::Calls(calls);
        Self { cap, per }
    }

    /// `--max-cost`.
    ///
    /// # Errors
    /// There is no price, or the amount does not pay for a single call.
    pub(crate) fn cost(amount: Money, per: Per, price: Option<&Tariff>) -> RunResult<Self> {
        let Some(tariff) = price else {
            return Err(Error::usage("`--max-cost` needs the price of a call")
                .hint("add it, as in `--price 0.004`"));
        };
        if tariff.price.calls_for(amount, Money::default()) == 0 {
            return Err(Error::usage(format!(
                "`--max-cost` is {}, which is less than the price of a call: {}",
                tariff.display(amount),
                tariff.display_for(1)
            )));
        }
        let cap = Cap::Cost(amount, tariff.clone());
        Ok(Self { cap, per })
    }

    /// Whether it counts the calls of all runs of an account, which needs a ledger that outlives
    /// the run.
    pub(crate) fn is_of_account(&self) -> bool {
        self.per != Per::Run
    }

    /// How many calls count, and what they cost: calls of unknown price count at the price of this
    /// run.
    fn counted(&self, spending: &Spending) -> (u64, Money) {
        let price = match &self.cap {
            Cap::Calls(_) => Money::default(),
            Cap::Cost(_, tariff) => tariff.price,
        };
        let made = price.of(spending.made);
        let Some(days) = self.per.days_around(spending.today) else {
            let calls = spending.earlier.saturating_add(spending.made);
            return (calls, made + spending.cost_of_earlier(price));
        };
        let (mut calls, mut cost) = (spending.made, made);
        // After a clock was ahead, calls of days to come count as well.
        for day in spending.days.iter().filter(|it| it.day >= days.start) {
            let is_unknown = day.price == Money::default();
            let price = if is_unknown { price } else { day.price };
            calls = calls.saturating_add(day.calls);
            cost = cost + price.of(day.calls);
        }
        // The days include all calls that this start may make before it stores its number again.
        let stored = price.of(spending.stored);
        cost.billionths = cost.billionths.saturating_sub(stored.billionths);
        (calls.saturating_sub(spending.stored), cost)
    }

    /// How many calls it leaves.
    pub(crate) fn left(&self, spending: &Spending) -> u64 {
        let (calls, cost) = self.counted(spending);
        match &self.cap {
            Cap::Calls(most) => most.get().saturating_sub(calls),
            Cap::Cost(most, tariff) => tariff.price.calls_for(*most, cost),
        }
    }

    /// Which option set it, as a reason to stop.
    const fn reason(&self) -> CancelReason {
        match self.cap {
            Cap::Calls(_) => CancelReason::MaxCalls,
            Cap::Cost(..) => CancelReason::MaxCost,
        }
    }

    /// Why the run stops if it leaves no call, with an error of exit code 5.
    pub(crate) fn used_up(&self, spending: &Spending) -> Option<(CancelReason, Error)> {
        if self.left(spending) > 0 {
            return None;
        }
        let (calls, cost) = self.counted(spending);
        let reason = self.reason();
        let made = match &self.cap {
            Cap::Calls(most) => format!("{calls} of {most} calls made"),
            Cap::Cost(most, tariff) => format!("{cost} of {} used", tariff.display(*most)),
        };
        let reached = format!("{}: {made}", reason.words());
        let error = match self.per.days_around(spending.today) {
            None => Error::limited(reached + " by this run"),
            Some(days) => {
                let (first, next) = (date(days.start), date(days.end));
                let since =
                    format!("since {first} 00:00 UTC; there is room again from {next} 00:00 UTC");
                Error::limited(format!("{reached} {since}")).hint("the budget is for all runs with this ledger and account: run the same command again after that, or now with a higher budget")
            }
        };
        Some((reason, error))
    }
}

/// The calls that budgets count, as of one moment.
///
/// A call is stored when its request is claimed, as a killed run can store nothing; if it is not
/// made after all, it is taken back.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Spending {
    /// The calls of the run's earlier starts.
    pub(crate) earlier: u64,
    /// What these cost, if that is known of all.
    pub(super) earlier_cost: Option<Money>,
    /// The calls that this start has made.
    made: u64,
    /// How many are stored for it.
    pub(super) stored: u64,
    /// The day, counted from 1970.
    today: i64,
    /// The calls that are stored for the account since the month began.
    days: Vec<DayCalls>,
}

/// The calls of an account on a day, at one price.
#[derive(Debug, Clone, PartialEq)]
struct DayCalls {
    day: i64,
    /// Zero if it is unknown.
    price: Money,
    calls: u64,
}

impl Spending {
    /// What the earlier starts cost, at this price if theirs is not known.
    pub(super) fn cost_of_earlier(&self, price: Money) -> Money {
        self.earlier_cost.unwrap_or_else(|| price.of(self.earlier))
    }

    /// Reads what an account has spent until now, in milliseconds since 1970.
    pub(super) fn read(
        &mut self,
        database: &mut dyn Database,
        account: i64,
        now: i64,
    ) -> Result<(), DbFault> {
        self.today = now.div_euclid(DAY_MS);
        let month = Per::Month.days_around(self.today).unwrap_or_default();
        let query = "SELECT day, price, calls FROM spending WHERE account = $1 AND day >= $2";
        let rows = database.query(query, params![account, month.start])?;
        let day = |row: &TableRow| {
            Ok(DayCalls {
                day: row.get(0)?,
                price: row.money(1)?,
                calls: row.get(2)?,
            })
        };
        self.days = rows.iter().map(day).collect::<Result<_, DbFault>>()?;
        Ok(())
    }

    /// Adds to the calls and the answers of this day. A negative number takes calls away that were
    /// counted and not made.
    pub(super) fn add(
        database: &mut dyn Database,
        account: i64,
        price: Money,
        calls: i64,
        answers: usize,
    ) -> Result<(), DbFault> {
        if calls == 0 && answers == 0 {
            return Ok(());
        }
        let now = database.dialect().now;
        let add = format!(
            "INSERT INTO spending AS before (account, day, price, calls, answers)
            VALUES ($1, {now} / {DAY_MS}, $2, $3, $4)
            ON CONFLICT (account, day, price) DO UPDATE SET answers = before.answers + excluded.answers,
                calls = CASE WHEN before.calls + $5 > 0 THEN before.calls + $5 ELSE 0 END"
        );
        let price = price.billionths.to_string();
        let values = params![account, price, calls.max(0), answers, calls];
        database.query(&add, values).map(drop)
    }
}

/// The calls of a start of a run. Each is reserved before it is sent, so that calls in flight
/// cannot exceed a budget.
#[derive(Debug, Default)]
pub(crate) struct BudgetedCalls {
    budgets: Vec<Budget>,
    /// How many calls this start has made.
    made: AtomicU64,
    /// What counted when that was last read.
    spending: Mutex<Spending>,
}

impl BudgetedCalls {
    /// Those of a start that has made no calls.
    pub(super) fn new(budgets: Vec<Budget>, spending: Spending) -> Self {
        Self {
            budgets,
            spending: Mutex::new(spending),
            ..Self::default()
        }
    }

    /// Takes what counts by now.
    pub(super) fn update(&self, spending: Spending) {
        *lock(&self.spending) = spending;
    }

    /// How many calls this start has made.
    pub(super) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    fn spending(&self) -> MutexGuard<'_, Spending> {
        let mut spending = lock(&self.spending);
        spending.made = self.made();
        spending
    }

    /// How many calls are left by the budget that leaves the fewest, and its reason to stop;
    /// `None` if there is no budget.
    pub(crate) fn left(&self) -> Option<(u64, CancelReason)> {
        let spending = self.spending();
        let left = |budget: &Budget| (budget.left(&spending), budget.reason());
        self.budgets.iter().map(left).min_by_key(|(left, _)| *left)
    }

    /// What each budget leaves, and what counts against it.
    pub(super) fn numbers(&self) -> Vec<BudgetNumbers> {
        let spending = self.spending();
        let numbers = |budget: &Budget| {
            let (calls, cost) = budget.counted(&spending);
            let (is_money, left, used) = match &budget.cap {
                Cap::Calls(_) => (false, budget.left(&spending) as f64, calls as f64),
                Cap::Cost(most, _) => {
                    let mut left = *most;
                    left.billionths = left.billionths.saturating_sub(cost.billionths);
                    (true, left.as_f64(), cost.as_f64())
                }
            };
            BudgetNumbers {
                per: budget.per.word(),
                is_money,
                left,
                used,
            }
        };
        self.budgets.iter().map(numbers).collect()
    }

    /// Counts a call that is made now. Its claim has stored it, so that budgets hold for all
    /// starts of a run and all runs of an account.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub(crate) fn reserve(&self) -> Result<(), (CancelReason, Error)> {
        self.check()?;
        self.made.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Whether a call is left.
    ///
    /// # Errors
    /// None is: why the run stops, and an error of exit code 5.
    pub(crate) fn check(&self) -> Result<(), (CancelReason, Error)> {
        let spending = self.spending();
        let mut budgets = self.budgets.iter();
        let used_up = budgets.find_map(|budget| budget.used_up(&spending));
        used_up.map_or(Ok(()), Err)
    }
}

/// What is stored about one address and service ID.
pub(crate) struct StoredAccount {
    /// Its row.
    pub(super) id: i64,
    /// The address.
    pub(crate) address: String,
    /// Makes the keys of requests.
    pub(crate) hasher: RequestHasher,
    /// How many answers with a verdict there are; if everything is counted, how many answers and
    /// failures.
    pub(crate) answers: u64,
    /// When the first and the last of them arrived, if everything is counted.
    pub(crate) span: Option<(SystemTime, SystemTime)>,
    /// The limit that runs found.
    pub(crate) limit: Option<RememberedLimit>,
}

/// The load that a service was found to accept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RememberedLimit {
    /// The limit.
    pub(crate) limit: FoundLimit,
    /// When the service last showed it.
    pub(crate) found: SystemTime,
}

impl RememberedLimit {
    /// Whether it may be used. A time in the future comes from a clock that was wrong, so the age
    /// is not known.
    pub(super) fn is_recent(&self, now: SystemTime) -> bool {
        let age = now.duration_since(self.found);
        age.is_ok_and(|age| age < LIMIT_LIFETIME)
    }

    /// Stores it for an account.
    pub(super) fn store(&self, database: &mut dyn Database, account: i64) -> Result<(), DbFault> {
        let limit =
            (self.limit != FoundLimit::default()).then(|| serde_json::to_string(&self.limit).ok());
        let values = params![limit.flatten(), to_millis(self.found), account];
        let update = "UPDATE accounts SET limits = $1, limits_at = $2 WHERE id = $3";
        database.query(update, values).map(drop)
    }
}

impl StoredAccount {
    /// All accounts, with the numbers of answers that `spending` keeps.
    pub(super) fn all(database: &mut dyn Database) -> Result<Vec<Self>, DbFault> {
        let answers = "(SELECT cast(coalesce(sum(answers), 0) AS BIGINT) FROM spending WHERE account = accounts.id)";
        Self::read(database, &format!("{answers}, NULL, NULL"), "")
    }

    /// All accounts, with everything counted, for which all answers are read.
    pub(super) fn all_counted(database: &mut dyn Database) -> Result<Vec<Self>, DbFault> {
        // Grouped before the join, so that only times are sorted and not all the columns of an account for each answer.
        let join = "LEFT JOIN (SELECT account, count(seq) AS n, min(at) AS oldest, max(at) AS latest
            FROM answers WHERE length(sealed) <> 8 GROUP BY account) AS counted ON account = accounts.id";
        Self::read(database, "coalesce(n, 0), oldest, latest", join)
    }

    fn read(database: &mut dyn Database, numbers: &str, join: &str) -> Result<Vec<Self>, DbFault> {
        let query = format!(
            "SELECT accounts.id, hash, address, limits, limits_at, {numbers}
            FROM accounts {join} ORDER BY address, accounts.id"
        );
        let account = |row: &TableRow| {
            let limit = match row.get::<Option<String>>(3)?.zip(row.get(4)?) {
                None => None,
                Some((limit, found)) => Some(RememberedLimit {
                    limit: serde_json::from_str(&limit).map_err(|_| DbFault::damaged())?,
                    found: from_millis(found),
                }),
            };
            let span = row.get::<Option<_>>(6)?.zip(row.get(7)?);
            Ok(Self {
                id: row.get(0)?,
                hasher: RequestHasher::of_account(row.hash(1)?),
                address: row.get(2)?,
                limit,
                answers: row.get(5)?,
                span: span.map(|(first, last)| (from_millis(first), from_millis(last))),
            })
        };
        database.query(&query, &[])?.iter().map(account).collect()
    }

    /// Adds the account of an address, whose keys this hasher makes, unless another run has just
    /// added it: its row.
    pub(super) fn add(
        database: &mut dyn Database,
        address: &str,
        hasher: &RequestHasher,
    ) -> Result<i64, DbFault> {
        let add = "INSERT INTO accounts (hash, address) VALUES ($1, $2)
            ON CONFLICT (hash) DO UPDATE SET address = excluded.address RETURNING id";
        let rows = database.write(add, params![hex(hasher.account()), address])?;
        first(&rows)?.get(0)
    }
}

/// What was spent with an account on a day or in a month.
#[derive(Debug, Serialize)]
pub(crate) struct PeriodSpending {
    /// `2026-11-27` or `2026-11`, in UTC.
    pub(crate) period: String,
    /// The calls that were made.
    pub(crate) calls: u64,
    /// How many of them brought a verdict, whether or not the answer is still stored.
    pub(crate) answers: u64,
    /// What a call cost, if it was the same for all of them.
    pub(crate) price: Option<Money>,
    /// What the answers cost, if the price of every call is known.
    pub(crate) cost: Option<Money>,
    /// The same for all calls, each of which may have been billed.
    pub(crate) cost_at_most: Option<Money>,
}

impl PeriodSpending {
    /// Each day or month in which something was spent, in their order.
    pub(super) fn read(
        database: &mut dyn Database,
        account: i64,
        per: Per,
    ) -> Result<Vec<Self>, DbFault> {
        // Day 0 takes removed answers away, which were paid for all the same.
        let query = "SELECT day, price, calls, answers FROM spending WHERE account = $1 AND day > 0 ORDER BY day";
        let mut periods = Vec::<Self>::new();
        for row in database.query(query, params![account])? {
            let (calls, answers) = (row.get(2)?, row.get(3)?);
            let price = Some(row.money(1)?).filter(|price| *price != Money::default());
            let spending = Self {
                period: per.name(row.get(0)?),
                calls,
                answers,
                price,
                cost: price.map(|price| price.of(answers)),
                cost_at_most: price.map(|price| price.of(calls)),
            };
            match periods.last_mut() {
                Some(last) if last.period == spending.period => last.add(&spending),
                _ => periods.push(spending),
            }
        }
        Ok(periods)
    }

    /// Adds what was spent in the same period.
    fn add(&mut self, more: &Self) {
        let sum = |one: Option<Money>, other: Option<Money>| Some(one? + other?);
        self.calls += more.calls;
        self.answers += more.answers;
        self.price = self.price.filter(|price| Some(*price) == more.price);
        self.cost = sum(self.cost, more.cost);
        self.cost_at_most = sum(self.cost_at_most, more.cost_at_most);
    }
}

/// The hasher of the only account with answers, for a command that names none.
///
/// # Errors
/// Exit code 2: several accounts have answers.
pub(super) fn only_hasher(
    accounts: &[StoredAccount],
    ledger: &LedgerLocation,
) -> RunResult<RequestHasher> {
    let with_answers = accounts.iter().filter(|account| account.answers > 0);
    match &with_answers.collect::<Vec<_>>()[..] {
        [] => Ok(RequestHasher::of_pass()),
        [only] => Ok(only.hasher.clone()),
        several => {
            // They are in the order of their addresses.
            let mut addresses: Vec<_> = several.iter().map(|it| it.address.as_str()).collect();
            addresses.dedup();
            let error = Error::usage(format!(
                "`{}` has answers of several services or service ids, and none was named",
                ledger.to_display()
            ));
            let error = addresses.into_iter().fold(error, Error::detail);
            Err(error.hint("name one as in `run`, with `--base-url URL` and `--service-id ID`"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_used_for_a_week() {
        let limit = RememberedLimit {
            limit: FoundLimit::default(),
            found: SystemTime::now(),
        };
        let days = |days: u64| Duration::from_secs(days * 24 * 60 * 60);
        assert!(limit.is_recent(limit.found + days(6)));
        assert!(!limit.is_recent(limit.found + days(7)));
        assert!(!limit.is_recent(limit.found - days(1)));
    }

    /// 2026-11-27.
    const TODAY: i64 = 20_784;

    fn spending(days: &[(i64, &str, u64)]) -> Spending {
        let row = |(day, price, calls): &(i64, &str, u64)| DayCalls {
            day: *day,
            price: price.parse().unwrap(),
            calls: *calls,
        };
        Spending {
            earlier: 2,
            today: TODAY,
            days: days.iter().map(row).collect(),
            ..Spending::default()
        }
    }

    fn calls(most: u64, per: Per) -> Budget {
        Budget::calls(NonZeroU64::new(most).unwrap(), per)
    }

    fn cost(most: &str, per: Per) -> Budget {
        let price = "0.1 EUR".parse().unwrap();
        Budget::cost(most.parse().unwrap(), per, Some(&price)).unwrap()
    }

    #[test]
    fn days_and_months_are_those_of_the_calendar() {
        for (day, shown, [month, next]) in [
            (TODAY, "2026-11-27", ["2026-11-01", "2026-12-01"]),
            (20_818, "2026-12-31", ["2026-12-01", "2027-01-01"]),
            (19_782, "2024-02-29", ["2024-02-01", "2024-03-01"]),
            (0, "1970-01-01", ["1970-01-01", "1970-02-01"]),
        ] {
            let shows = |day: i64| date(day).to_string();
            assert_eq!(shows(day), shown);
            assert_eq!(Per::Day.days_around(day), Some(day..day + 1));
            let days = Per::Month.days_around(day).unwrap();
            assert_eq!([shows(days.start), shows(days.end)], [month, next]);
            assert_eq!(Per::Run.days_around(day), None);
        }
    }

    #[test]
    fn a_budget_counts_the_calls_of_its_time_at_their_price_or_at_that_of_the_run() {
        let spent = spending(&[
            (TODAY - 1, "0.2", 3),
            (TODAY, "0.1", 2),
            (TODAY, "0", 1),
            // The clock was ahead.
            (TODAY + 1, "0.2", 1),
        ]);
        for (budget, left) in [
            (calls(9, Per::Run), 7),
            (calls(9, Per::Day), 5),
            (calls(9, Per::Month), 2),
            (calls(7, Per::Month), 0),
            (cost("0.3", Per::Run), 1),
            (cost("1", Per::Day), 5),
            (cost("1.19", Per::Month), 0),
            (cost("1.2", Per::Month), 1),
        ] {
            assert_eq!(budget.left(&spent), left, "{budget:?}");
            assert_eq!(budget.used_up(&spent).is_none(), left > 0);
        }
    }

    #[test]
    fn a_budget_that_is_used_up_names_the_moment_from_which_there_is_room() {
        let spent = spending(&[(TODAY - 1, "0.1", 3), (TODAY, "0.1", 9)]);
        for (budget, reason, words) in [
            (
                calls(2, Per::Run),
                CancelReason::MaxCalls,
                "`--max-calls` is reached: 2 of 2 calls made by this run",
            ),
            (
                cost("0.299", Per::Run),
                CancelReason::MaxCost,
                "`--max-cost` is reached: 0.20 of 0.299 EUR used by this run",
            ),
            (
                cost("0.90", Per::Day),
                CancelReason::MaxCost,
                "`--max-cost` is reached: 0.90 of 0.90 EUR used since 2026-11-27 00:00 UTC; there is room again from 2026-11-28 00:00 UTC",
            ),
            (
                calls(12, Per::Month),
                CancelReason::MaxCalls,
                "`--max-calls` is reached: 12 of 12 calls made since 2026-11-01 00:00 UTC; there is room again from 2026-12-01 00:00 UTC",
            ),
        ] {
            let (stop, error) = budget.used_up(&spent).unwrap();
            assert_eq!((stop, error.exit().code()), (reason, 5));
            assert_eq!(error.message(), words);
        }
    }

    #[test]
    fn a_budget_of_a_run_keeps_what_its_calls_cost_when_they_were_made() {
        let most = cost("2", Per::Run);
        for (earlier_cost, left) in [(Some("1.5"), 5), (Some("0.2"), 18), (None, 10)] {
            let spent = Spending {
                earlier: 10,
                earlier_cost: earlier_cost.map(|cost| cost.parse().unwrap()),
                ..Spending::default()
            };
            assert_eq!(most.left(&spent), left, "{earlier_cost:?}");
        }
    }

    #[test]
    fn calls_are_reserved_up_to_the_smallest_limit_and_the_next_day_has_room() {
        let made = |budget: &BudgetedCalls| (0..10).filter(|_| budget.reserve().is_ok()).count();
        for (budgets, expected) in [
            (vec![], 10),
            (vec![calls(5, Per::Run)], 3),
            (vec![calls(2, Per::Run)], 0),
            (vec![calls(9, Per::Run), cost("0.5", Per::Day)], 4),
        ] {
            let budget = BudgetedCalls::new(budgets, spending(&[(TODAY, "0.1", 1)]));
            assert_eq!(made(&budget), expected);
        }
        let budget = BudgetedCalls::new(vec![calls(6, Per::Day)], spending(&[(TODAY, "0", 2)]));
        assert_eq!(made(&budget), 4);
        // They are stored, with two that are not made yet, and another run has made one.
        let stored = |stored, today| Spending {
            stored,
            today,
            ..spending(&[(TODAY, "0", 2 + stored + 1)])
        };
        budget.update(stored(6, TODAY));
        assert_eq!(budget.check().unwrap_err().0, CancelReason::MaxCalls);
        budget.update(stored(4, TODAY + 1));
        assert_eq!(made(&budget), 6);
    }
}
