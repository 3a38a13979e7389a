//! Refusals that no limit explains, while they are counted, and what they show.

use std::time::Duration;

use super::in_order::FirstTryOutcome;
use super::share::HIGHEST_SHARE;
use crate::pace::limit_search::{BEYOND_CHANCE, CUT, FEWEST_OF_A_STEP};
use crate::pace::throughput::{LEAST_UNMEASURED, SPARE};

/// Refusals at paces that should have been sustained, over one or more cuts.
#[derive(Debug, Default)]
pub(super) struct UnexplainedRefusals {
    /// Calls that started since then count: earlier ones are about the pace before.
    since: Duration,
    /// How often the pace was cut without effect.
    cuts: u32,
    /// The lowest and the highest pace at which that was.
    lowest: f64,
    highest: f64,
    refused: u32,
    accepted: u32,
    /// Calls that were accepted of rows that had been refused.
    accepted_later: u32,
    /// Calls accepted between the first of these refusals and the refusal before it.
    gap_before: u32,
    /// The most calls accepted a second from one of these refusals to the next, pauses included: no limit is below that.
    best: f64,
}

/// What such refusals show.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Evidence {
    /// Nothing yet.
    Little,
    /// They are too rare to look into.
    Rare,
    /// They are random: so many of so many calls are refused.
    Share { refused: f64, calls: f64 },
    /// They are too many for chance. At a lower pace there may be fewer.
    TooMany,
    /// The same at the lowest pace that is tried without a measurement: this is sustained.
    Limit(f64),
}

/// More cuts than this without effect show random refusals. A limit that falls explains two or three, as each cut is to
/// what was last accepted.
const CUTS: u32 = 3;
/// A refusal that comes this many times sooner than those so far came one after the other is not one of them (chance brings one
/// in fifty): a limit fell.
const SOONER: f64 = 50.0;
/// Refusals that are rarer than one in this many calls cost too little to look into.
pub(super) const RAREST: u32 = 2_000;

impl UnexplainedRefusals {
    /// Counts from now on, before the first cut. Before this refusal, `gap` calls were accepted.
    pub(super) fn new(now: Duration, pace: f64, gap: u32) -> Self {
        Self {
            since: now,
            lowest: pace,
            highest: pace,
            gap_before: gap.min(RAREST),
            ..Self::default()
        }
    }

    /// `pace` was cut, and `accepted` is the rate since the refusal before.
    pub(super) fn cut(&mut self, pace: f64, accepted: Option<f64>) {
        // What was accepted before the first one may have been under another limit.
        if let Some(accepted) = accepted.filter(|_| self.cuts > 0) {
            self.best = self.best.max(accepted);
        }
        self.cuts += 1;
        self.lowest = self.lowest.min(pace);
        self.highest = self.highest.max(pace);
    }

    /// A call ended. Those count that started since then.
    pub(super) fn note(&mut self, outcome: FirstTryOutcome) {
        let (count, began) = match outcome {
            FirstTryOutcome::Accepted(began) => (&mut self.accepted, began),
            FirstTryOutcome::Refused(began) => (&mut self.refused, began),
            FirstTryOutcome::AcceptedLater(began) => (&mut self.accepted_later, began),
            FirstTryOutcome::NotCounted => return,
        };
        if began >= self.since {
            *count = count.saturating_add(1);
        }
    }

    /// What they show after a cut of `pace`.
    pub(super) fn evidence(&self, now: Duration, pace: f64) -> Evidence {
        let is_low = pace <= self.best.max(LEAST_UNMEASURED);
        if self.cuts <= CUTS || !is_low || !self.are_paces_apart() {
            return Evidence::Little;
        }
        let refused = f64::from(self.refused);
        let calls = (refused + f64::from(self.accepted)).max(1.0);
        // Of few calls the share is uncertain: less by a standard deviation.
        if (refused - refused.sqrt()) / calls > HIGHEST_SHARE {
            return if pace > LEAST_UNMEASURED {
                Evidence::TooMany
            } else {
                self.limit(now).map_or(Evidence::Little, Evidence::Limit)
            };
        }
        // If next to none are accepted, the pauses are too short.
        if self.accepted < FEWEST_OF_A_STEP {
            return Evidence::Little;
        }
        let share = refused / calls;
        if share * f64::from(RAREST) < 1.0 {
            return Evidence::Rare;
        }
        Evidence::Share {
            refused,
            calls: refused / share.min(HIGHEST_SHARE),
        }
    }

    /// Whether the last cut has helped, if `quiet` calls were accepted since the last refusal.
    pub(super) fn are_quiet(&self, quiet: u32) -> bool {
        self.is_longer(quiet, BEYOND_CHANCE)
    }

    /// Whether they are over. That takes longer than to see that a cut has helped: of few refusals it is uncertain how many
    /// calls bring one, and what was counted would be lost.
    pub(super) fn are_over(&self, quiet: u32) -> bool {
        let refusals = self.refusals().max(2.0);
        self.is_longer(
            quiet,
            BEYOND_CHANCE * refusals / (refusals - refusals.sqrt()),
        )
    }

    /// Whether there was no refusal for so many `times` the calls that brought one before.
    fn is_longer(&self, quiet: u32, times: f64) -> bool {
        let gap = self.accepted_before(quiet) / self.refusals();
        f64::from(quiet) > gap.max(1.0) * times
    }

    /// How many there were, with the first.
    fn refusals(&self) -> f64 {
        f64::from(self.refused) + 1.0
    }

    /// The calls accepted since the refusal before the first, without the `last` of them.
    fn accepted_before(&self, last: u32) -> f64 {
        f64::from(self.gap_before) + f64::from(self.accepted.saturating_sub(last))
    }

    /// Whether one that came after `gap` accepted calls, and is counted already, came too soon to belong to the others.
    pub(super) fn is_sooner(&self, gap: u32) -> bool {
        let others = self.refused.max(1);
        f64::from(gap.max(1)) * SOONER < self.accepted_before(gap) / f64::from(others)
    }

    /// Whether they came at paces that are a cut apart: a limit that refuses now and then what comes too early, or that others
    /// share, refuses next to nothing at the lower one.
    fn are_paces_apart(&self) -> bool {
        self.lowest <= self.highest * CUT || self.lowest <= LEAST_UNMEASURED
    }

    /// The limit that they show if they are too many for chance: what was accepted meanwhile.
    fn limit(&self, now: Duration) -> Option<f64> {
        let accepted = self.accepted + self.accepted_later;
        let lasted = now.saturating_sub(self.since).as_secs_f64();
        let rate = f64::from(accepted) / lasted;
        (accepted >= FEWEST_OF_A_STEP && rate.is_finite()).then_some(rate * SPARE)
    }
}
