//! What a run has spent and saved, by the price of a call that the user gave.
//!
//! Only the service knows its bill. *Spent* are the calls that it answered with success, with a usable verdict or not: all
//! of these are billed. *Spent at most* are also the calls that may have been billed: without an answer, failed by the
//! service for no clear reason, still out, or lost when an earlier start was killed. *Paid earlier* are the rows whose answer was
//! in the ledger. *Saved* are the rows that repeat another one.

use serde::Serialize;

use super::numbers::counted;
use crate::base::money::{Money, Tariff};
use crate::telemetry::stats::Stats;

/// What a run has spent and saved.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Cost {
    pub(super) spent: Money,
    pub(super) spent_at_most: Money,
    pub(super) paid_earlier: Money,
    pub(super) saved: Money,
}

impl Cost {
    /// By these statistics.
    pub(super) fn of(stats: &Stats, tariff: &Tariff) -> Self {
        let (billed, maybe) = (stats.billed(), stats.maybe_billed());
        Self {
            spent: tariff.price.of(billed),
            spent_at_most: tariff.price.of(billed + maybe),
            paid_earlier: tariff.price.of(stats.known),
            saved: tariff.price.of(stats.duplicates),
        }
    }
}

/// A stand-in sends no bill, so in the sandbox all amounts are what the service would have charged.
const fn would_have(sandbox: bool) -> &'static str {
    if sandbox { "would have " } else { "" }
}

/// While the run lasts: `spent 1.20 EUR, saved 0.40 EUR`.
pub(super) fn so_far(cost: Cost, tariff: &Tariff, sandbox: bool) -> String {
    let spent = format!("{}spent {}", would_have(sandbox), tariff.shown(cost.spent));
    if cost.saved == Money::default() {
        return spent;
    }
    format!("{spent}, saved {}", tariff.shown(cost.saved))
}

/// When it is over: what was spent, on what, and what was saved.
pub(super) fn in_all(stats: &Stats, tariff: &Tariff, sandbox: bool) -> Vec<String> {
    let (cost, would_have) = (Cost::of(stats, tariff), would_have(sandbox));
    let (billed, maybe) = (stats.billed(), stats.maybe_billed());
    let lost = stats.asked_by_killed_run();
    let mut spent = format!("{would_have}spent {}", tariff.shown(cost.spent));
    if billed > 0 {
        spent += &format!(": {} at {}", counted(billed, "answer"), tariff.shown_for(1));
    }
    if maybe > 0 {
        spent += &format!(
            "; at most {}, with {} that may have been billed",
            tariff.shown(cost.spent_at_most),
            counted(maybe, if lost > 0 { "call" } else { "failed call" })
        );
    }
    let mut lines = vec![spent];
    if stats.calls_before > 0 {
        let calls = stats.calls_before + stats.calls;
        lines.push(format!(
            "all starts of this run: {}, at most {}",
            counted(calls, "call"),
            tariff.shown_for(calls)
        ));
    }
    if stats.known > 0 {
        let paid = if sandbox {
            "would have been paid for"
        } else {
            "paid for"
        };
        lines.push(format!(
            "{paid} earlier {}: {}",
            tariff.shown(cost.paid_earlier),
            counted(stats.known, "row")
        ));
    }
    if stats.duplicates > 0 {
        lines.push(format!(
            "{would_have}saved {}: {} repeated another one",
            tariff.shown(cost.saved),
            counted(stats.duplicates, "row")
        ));
    }
    lines
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn tariff(currency: Option<&str>) -> Tariff {
        Tariff {
            price: "0.004".parse().unwrap(),
            currency: currency.map(|word| word.parse().unwrap()),
        }
    }

    #[test]
    fn calls_that_may_have_been_billed_are_not_called_spent_and_not_kept_quiet() {
        let mut stats = Stats::default();
        (stats.answered, stats.billed_without_verdict) = (2_990, 10);
        (stats.unknown_outcome, stats.unclear) = (2, 1);
        (stats.known, stats.duplicates) = (900, 100);
        // The rest was not processed.
        (stats.calls, stats.throttled) = (4_000, 50);
        stats.calls_before = 500;
        let euros = tariff(Some("EUR"));
        let expected = [
            "spent 12.00 EUR: 3,000 answers at 0.004 EUR; at most 12.012 EUR, with 3 failed calls that may have been billed",
            "all starts of this run: 4,500 calls, at most 18.00 EUR",
            "paid for earlier 3.60 EUR: 900 rows",
            "saved 0.40 EUR: 100 rows repeated another one",
        ];
        assert_eq!(in_all(&stats, &euros, false), expected);
        let cost = Cost::of(&stats, &euros);
        assert_eq!(
            so_far(cost, &euros, false),
            "spent 12.00 EUR, saved 0.40 EUR"
        );
        assert_eq!(
            serde_json::to_string(&cost).unwrap(),
            r#"{"spent":12.0,"spent_at_most":12.012,"paid_earlier":3.6,"saved":0.4}"#
        );
    }

    #[test]
    fn nobody_takes_a_sandbox_for_a_bill() {
        let plain = tariff(None);
        let mut stats = Stats::default();
        assert_eq!(in_all(&stats, &plain, false), ["spent 0.00"]);
        (stats.answered, stats.duplicates) = (1, 1);
        let expected = [
            "would have spent 0.004: 1 answer at 0.004",
            "would have saved 0.004: 1 row repeated another one",
        ];
        assert_eq!(in_all(&stats, &plain, true), expected);
        let cost = Cost::of(&stats, &plain);
        let expected = "would have spent 0.004, saved 0.004";
        assert_eq!(so_far(cost, &plain, true), expected);
    }
}
