//! Budgets: how many calls may still be made, by a run with all its starts, or in a day or a month by all runs of an account.
//!
//! Days and months are those of UTC, by the database's clock. Nothing is read or stored here.

use std::num::NonZeroU64;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::SignedDuration;
use jiff::civil::Date;

use crate::base::error::{Error, Result};
use crate::base::money::{Money, Tariff};
use crate::base::threads::lock;
use crate::telemetry::event::CancelReason;

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
    /// The first day of the time that this day is in, and the first day after it. A run has no such time.
    pub(super) fn around(self, day: i64) -> Option<(i64, i64)> {
        let date = date(day);
        match self {
            Self::Run => None,
            Self::Day => Some((day, day + 1)),
            Self::Month => {
                let first = day + 1 - i64::from(date.day());
                Some((first, first + i64::from(date.days_in_month())))
            }
        }
    }

    /// The name of the day or month that this day is in: `2026-11-27`, `2026-11`.
    pub(super) fn name(self, day: i64) -> String {
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

/// A limit of calls.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CallLimit {
    most: Most,
    per: Per,
}

#[derive(Debug, Clone, PartialEq)]
enum Most {
    /// `--max-calls`.
    Calls(NonZeroU64),
    /// `--max-cost`, and what a call of this run costs.
    Cost(Money, Tariff),
}

impl CallLimit {
    /// `--max-calls`.
    pub(crate) const fn calls((most, per): (NonZeroU64, Per)) -> Self {
        let most = Most::Calls(most);
        Self { most, per }
    }

    /// `--max-cost`.
    ///
    /// # Errors
    /// There is no price, or the amount does not pay for a single call.
    pub(crate) fn cost((amount, per): (Money, Per), price: Option<&Tariff>) -> Result<Self> {
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
        let most = Most::Cost(amount, tariff.clone());
        Ok(Self { most, per })
    }

    /// Whether it counts the calls of all runs of an account, which only a ledger that is kept knows.
    pub(crate) fn is_of_account(&self) -> bool {
        self.per != Per::Run
    }

    /// How many calls count, and what they cost: those of unknown price have that of this run.
    fn counted(&self, spending: &Spending) -> (u64, Money) {
        let own_price = match &self.most {
            Most::Calls(_) => Money::default(),
            Most::Cost(_, tariff) => tariff.price,
        };
        let (mut number, mut cost) = (spending.made, own_price.of(spending.made));
        let mut add = |calls: u64, spent: Money| {
            number = number.saturating_add(calls);
            cost.billionths = cost.billionths.saturating_add(spent.billionths);
        };
        let Some((first, _)) = self.per.around(spending.today) else {
            add(spending.earlier, spending.cost_of_earlier(own_price));
            return (number, cost);
        };
        // After a clock was ahead, calls of days to come count as well.
        for (_, price, calls) in spending.days.iter().filter(|(day, ..)| *day >= first) {
            let is_unknown = *price == Money::default();
            let price = if is_unknown { own_price } else { *price };
            add(*calls, price.of(*calls));
        }
        // The days have all calls that this start may make until they are stored again.
        let stored = own_price.of(spending.stored);
        number = number.saturating_sub(spending.stored);
        cost.billionths = cost.billionths.saturating_sub(stored.billionths);
        (number, cost)
    }

    /// How many calls it leaves.
    pub(crate) fn left(&self, spending: &Spending) -> u64 {
        let (calls, cost) = self.counted(spending);
        match &self.most {
            Most::Calls(most) => most.get().saturating_sub(calls),
            Most::Cost(most, tariff) => tariff.price.calls_for(*most, cost),
        }
    }

    /// Which limit it is, in a word.
    const fn reason(&self) -> CancelReason {
        match self.most {
            Most::Calls(_) => CancelReason::MaxCalls,
            Most::Cost(..) => CancelReason::MaxCost,
        }
    }

    /// Why the run stops if it leaves no call: which limit in a word, and an error of exit code 5.
    pub(crate) fn used_up(&self, spending: &Spending) -> Option<(CancelReason, Error)> {
        if self.left(spending) > 0 {
            return None;
        }
        let (calls, cost) = self.counted(spending);
        let reason = self.reason();
        let made = match &self.most {
            Most::Calls(most) => format!("{calls} of {most} calls made"),
            Most::Cost(most, tariff) => format!("{cost} of {} used", tariff.display(*most)),
        };
        let reached = format!("{}: {made}", reason.words());
        let error = match self.per.around(spending.today) {
            None => Error::limited(reached + " by this run"),
            Some((first, next)) => {
                let (first, next) = (date(first), date(next));
                let since =
                    format!("since {first} 00:00 UTC; there is room again from {next} 00:00 UTC");
                Error::limited(format!("{reached} {since}")).hint("the budget is for all runs with this ledger and account: the same command continues then, or now with a higher one")
            }
        };
        Some((reason, error))
    }
}

/// The calls that budgets count, as of one moment.
///
/// A call is stored when its request is claimed, as nothing can be stored after a kill; one that is not made is taken back.
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
    pub(super) today: i64,
    /// What is stored for the account since the month began: the day, the price of a call, which is zero if it is unknown, and
    /// how many.
    pub(super) days: Vec<(i64, Money, u64)>,
}

impl Spending {
    /// What the earlier starts cost, at this price where theirs is not known.
    pub(super) fn cost_of_earlier(&self, price: Money) -> Money {
        self.earlier_cost.unwrap_or_else(|| price.of(self.earlier))
    }
}

/// The calls that a start of a run may make. Each is reserved before it is sent, so that calls in flight cannot exceed a limit.
#[derive(Debug, Default)]
pub(crate) struct CallBudget {
    limits: Vec<CallLimit>,
    /// How many calls this start has made.
    calls: AtomicU64,
    /// What counted when that was last known.
    known: Mutex<Spending>,
}

impl CallBudget {
    /// The budget of a start that has made no calls.
    pub(super) fn new(limits: Vec<CallLimit>, spending: Spending) -> Self {
        Self {
            limits,
            known: Mutex::new(spending),
            ..Self::default()
        }
    }

    /// Takes what counts by now.
    pub(super) fn update(&self, spending: Spending) {
        *lock(&self.known) = spending;
    }

    /// How many calls this start has made.
    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// How many calls are left by the limit that leaves the fewest, and which that is; `None` if there is no limit.
    pub(crate) fn left(&self) -> Option<(u64, CancelReason)> {
        let mut spending = lock(&self.known);
        spending.made = self.calls();
        let left = |limit: &CallLimit| (limit.left(&spending), limit.reason());
        self.limits.iter().map(left).min_by_key(|(left, _)| *left)
    }

    /// Takes a call out of the budget, which is made now. It was stored with its claim, so that the calls of all starts of a run
    /// and of all runs of an account can be limited.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub(crate) fn reserve(&self) -> Result<(), (CancelReason, Error)> {
        self.check()?;
        self.calls.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Whether a call is left.
    ///
    /// # Errors
    /// None is: which limit stops the run, and exit code 5.
    pub(crate) fn check(&self) -> Result<(), (CancelReason, Error)> {
        if self.limits.is_empty() {
            return Ok(());
        }
        let mut spending = lock(&self.known);
        spending.made = self.calls();
        let mut limits = self.limits.iter();
        let used_up = limits.find_map(|limit| limit.used_up(&spending));
        used_up.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// 2026-11-27.
    const TODAY: i64 = 20_784;

    fn spending(days: &[(i64, &str, u64)]) -> Spending {
        let row = |(day, price, calls): &(i64, &str, u64)| (*day, price.parse().unwrap(), *calls);
        Spending {
            earlier: 2,
            today: TODAY,
            days: days.iter().map(row).collect(),
            ..Spending::default()
        }
    }

    fn calls(most: u64, per: Per) -> CallLimit {
        CallLimit::calls((NonZeroU64::new(most).unwrap(), per))
    }

    fn cost(most: &str, per: Per) -> CallLimit {
        let price = "0.1 EUR".parse().unwrap();
        CallLimit::cost((most.parse().unwrap(), per), Some(&price)).unwrap()
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
            assert_eq!(Per::Day.around(day), Some((day, day + 1)));
            let (first, after) = Per::Month.around(day).unwrap();
            assert_eq!([shows(first), shows(after)], [month, next]);
            assert_eq!(Per::Run.around(day), None);
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
        for (limit, left) in [
            (calls(9, Per::Run), 7),
            (calls(9, Per::Day), 5),
            (calls(9, Per::Month), 2),
            (calls(7, Per::Month), 0),
            (cost("0.3", Per::Run), 1),
            (cost("1", Per::Day), 5),
            (cost("1.19", Per::Month), 0),
            (cost("1.2", Per::Month), 1),
        ] {
            assert_eq!(limit.left(&spent), left, "{limit:?}");
            assert_eq!(limit.used_up(&spent).is_none(), left > 0);
        }
    }

    #[test]
    fn a_budget_that_is_used_up_names_the_moment_from_which_there_is_room() {
        let spent = spending(&[(TODAY - 1, "0.1", 3), (TODAY, "0.1", 9)]);
        for (limit, reason, words) in [
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
            let (stop, error) = limit.used_up(&spent).unwrap();
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
        let made = |budget: &CallBudget| (0..10).filter(|_| budget.reserve().is_ok()).count();
        for (limits, expected) in [
            (vec![], 10),
            (vec![calls(5, Per::Run)], 3),
            (vec![calls(2, Per::Run)], 0),
            (vec![calls(9, Per::Run), cost("0.5", Per::Day)], 4),
        ] {
            let budget = CallBudget::new(limits, spending(&[(TODAY, "0.1", 1)]));
            assert_eq!(made(&budget), expected);
        }
        let budget = CallBudget::new(vec![calls(6, Per::Day)], spending(&[(TODAY, "0", 2)]));
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
