//! One worker's side of a pace that several workers share: what it tells and asks, what it is granted, and when the calls that
//! it was granted may start.
//!
//! The value is in a store that all of them reach, with rules of its own (`ledger/pace.sql`). There is no leader: a step
//! that is due is given to the worker that asks next, which writes it with its next question. Nothing here knows that store.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::limiter::TICK;
use super::tally::Tally;
use super::types::Rate;
use super::value::PaceValue;

/// A worker's report and question in one. Times are seconds of the common clock.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PaceAsk {
    /// Who asks: a random number.
    pub(super) worker: String,
    /// The version of the value that it has.
    pub(super) known: Option<i64>,
    /// How many calls it could start soon, and how many it has in flight.
    pub(super) wants: u32,
    pub(super) out: u32,
    /// Its counts since its last question, if there are any, and when the pace had last been cut by then, as far as it knew.
    pub(super) tally: Option<(f64, Tally)>,
    /// A step should follow immediately, …
    pub(super) is_urgent: bool,
    /// … and until then no call should start.
    pub(super) holds: bool,
    /// The step that it was given, done.
    pub(super) step: Option<Step>,
}

/// The value after a step, with the parts that others must know without reading it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Step {
    /// The version before.
    pub(super) version: i64,
    pub(super) value: PaceValue,
    /// Calls a second, and calls in flight.
    pub(super) rate: f64,
    pub(super) most: u32,
    /// Until when no call starts, and whether one goes alone after that.
    pub(super) until: f64,
    pub(super) is_alone: bool,
    /// When the next step is due, and when the pace was last cut.
    pub(super) due: f64,
    pub(super) cut_at: f64,
}

/// The reply to a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PaceReply {
    /// The common time.
    pub(super) now: f64,
    /// 0 if there is no value yet, or if no worker has asked for so long that it is given up.
    pub(super) version: i64,
    /// The value, if the worker has another version.
    pub(super) value: Option<PaceValue>,
    /// Calls that may start, the first of them then, and then at this rate. They are due a little later, see [`UNUSED_FOR`].
    pub(super) calls: u32,
    pub(super) first: f64,
    pub(super) rate: f64,
    /// How many calls this worker may have in flight, how many the others have, and how many workers there are.
    pub(super) part: u32,
    pub(super) others: u32,
    pub(super) workers: u32,
    /// No call starts until then: one was refused, and the pace has not been stepped.
    pub(super) held_until: f64,
    /// A step that this worker is to do, with what all have seen since the last one; without a value, it makes the first.
    pub(super) step: Option<Vec<(f64, Tally)>>,
}

/// Workers ask so often: what is granted lasts for about as long.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// What no worker asked for stays granted for this number of seconds, and each call starts later by that than it might: so all workers
/// together start calls evenly, although each asks for several at a time.
const UNUSED_FOR: f64 = 0.13;
/// Without a reply, no call starts for so long after a refusal.
const HELD: Duration = Duration::from_millis(300);

/// A worker's view of a shared pace, besides its value.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct SharedPace {
    worker: String,
    pub(super) clock: CommonClock,
    slots: Slots,
    known: Option<i64>,
    /// The last reply, without its value and step.
    workers: u32,
    part: u32,
    others: u32,
    rate: f64,
    /// By the worker's own clock.
    held_until: Duration,
    may_go_alone: bool,
    /// When it asks again; a reply must have come before.
    asks_at: Duration,
    is_waiting: bool,
    is_urgent: bool,
    holds: bool,
    /// A call would have started if it was granted.
    is_wanted: bool,
    /// How many it has asked for.
    wants: u32,
    step: Option<Step>,
}

impl SharedPace {
    pub(super) fn new(worker: String) -> Self {
        Self {
            worker,
            workers: 1,
            is_wanted: true,
            ..Self::default()
        }
    }

    /// When to ask next; `None` while a reply is waited for.
    pub(super) fn asks_at(&self) -> Option<Duration> {
        (!self.is_waiting).then_some(self.asks_at)
    }

    /// The question to ask now. `random` is from 0 up to 1, so that workers that started together do not ask together for ever.
    pub(super) fn ask(
        &mut self,
        now: Duration,
        out: u32,
        seen: (f64, Tally),
        random: f64,
    ) -> PaceAsk {
        self.is_waiting = true;
        self.asks_at = now + ASK_EVERY.mul_f64(0.9 + 0.2 * random);
        let share = self.rate * ASK_EVERY.as_secs_f64() / f64::from(self.workers);
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate is positive, and what is too large is cut"
        )]
        let share = (share * 2.0).ceil().max(1.0) as u32;
        // Where something else holds calls back, such as the calls in flight, what is granted is left to others.
        let wants = seen.1.started.saturating_mul(2).clamp(1, share);
        let late = u32::try_from(self.slots.late(now)).unwrap_or(u32::MAX);
        self.wants = if std::mem::take(&mut self.is_wanted) {
            wants.saturating_sub(late)
        } else {
            0
        };
        PaceAsk {
            worker: self.worker.clone(),
            known: self.known,
            wants: self.wants,
            out,
            tally: Some(seen).filter(|(_, tally)| *tally != Tally::default()),
            is_urgent: std::mem::take(&mut self.is_urgent),
            holds: std::mem::take(&mut self.holds),
            step: self.step.take(),
        }
    }

    /// Whether the value that the worker has is given up.
    pub(super) fn is_new(&self, version: i64) -> bool {
        version == 0 && self.known != Some(0)
    }

    /// The question has been answered. `is_alone`: one call goes first, by itself.
    pub(super) fn replied(&mut self, reply: &PaceReply, is_alone: bool) {
        self.is_waiting = false;
        self.known = Some(reply.version);
        (self.workers, self.part) = (reply.workers.max(1), reply.part);
        (self.others, self.rate) = (reply.others, reply.rate);
        if reply.now < reply.held_until {
            self.hold(self.clock.here(reply.held_until));
        } else if !self.holds {
            self.held_until = Duration::ZERO;
        }
        if is_alone {
            self.slots.clear();
            self.may_go_alone |= reply.calls > 0;
            return;
        }
        self.may_go_alone = false;
        if reply.calls > 0 {
            let first = self.clock.here(reply.first + UNUSED_FOR);
            let interval = Duration::from_secs_f64(1.0 / reply.rate);
            self.slots.add(first, reply.calls, interval);
        }
    }

    /// This worker has done the step that it was given.
    pub(super) fn stepped(&mut self, now: Duration, step: Step) {
        self.step = Some(step);
        self.asks_at = now;
    }

    /// What has just been seen is asked about at once; if it `holds` calls back, none starts before the reply.
    pub(super) fn ask_soon(&mut self, now: Duration, holds: bool) {
        self.is_urgent = true;
        self.asks_at = now;
        if holds {
            self.holds = true;
            self.hold(now + HELD);
        }
    }

    fn hold(&mut self, until: Duration) {
        self.held_until = until;
        self.slots.clear();
    }

    /// The pace was cut, or it pauses: what was granted is lost.
    pub(super) fn is_cut(&mut self) {
        self.slots.clear();
        self.may_go_alone = false;
    }

    /// Takes a call that may start now, or says when the next one may, if that is known.
    pub(super) fn take(&mut self, now: Duration, is_alone: bool) -> Result<(), Option<Duration>> {
        self.is_wanted = true;
        if is_alone && std::mem::take(&mut self.may_go_alone) {
            return Ok(());
        }
        if !is_alone && self.slots.take(now) {
            return Ok(());
        }
        Err(self.slots.next(now).filter(|_| !is_alone))
    }

    /// Whether the rate holds calls back, as this reply shows.
    pub(super) fn is_short(&self, reply: &PaceReply) -> bool {
        reply.calls < self.wants
    }

    pub(super) const fn held_until(&self) -> Duration {
        self.held_until
    }

    /// Calls in flight that this worker may have, …
    pub(super) const fn part(&self) -> u32 {
        self.part
    }

    /// … and that the others have.
    pub(super) const fn others(&self) -> u32 {
        self.others
    }

    pub(super) const fn workers(&self) -> u32 {
        self.workers
    }
}

/// What all have seen, at `rate` calls a second, up to `now`. What was refused before the cut at `cut_at` is about a pace that
/// was given up.
pub(super) fn sum(tallies: Vec<(f64, Tally)>, now: f64, rate: f64, cut_at: f64) -> Tally {
    let mut sum = Tally::default();
    for (known_cut, mut tally) in tallies {
        if known_cut < cut_at {
            tally.refused_new = 0;
        }
        sum.add(&tally);
    }
    if sum.refused > 0 {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a positive rate, over a second at most"
        )]
        let after = (rate * (now - sum.refused_at).clamp(0.0, 1.0)) as u32;
        sum.refused_after = after;
    }
    sum
}

impl Step {
    /// This value follows that version.
    pub(super) fn new(version: i64, value: PaceValue, now: f64) -> Self {
        Self {
            version,
            rate: value.allowed(now).unwrap_or(Rate::HIGHEST),
            most: u32::try_from(value.most_in_flight()).unwrap_or(u32::MAX),
            until: value.pauses.until,
            is_alone: value.pauses.is_alone,
            due: value.due,
            cut_at: value.cut_at,
            value,
        }
    }
}

/// Calls that were granted and have not started. They are lost if they are not used.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// When each is due, the earliest first.
    due: VecDeque<Duration>,
    /// The least time from one start to the next.
    apart: Duration,
    /// When the next call may start at the earliest.
    not_before: Duration,
}

/// Late calls start at most this many times as fast as granted: they catch up without a burst.
const CATCH_UP: u32 = 4;
/// A granted call that is this late is lost: calls that wait for other reasons must not add up.
const LOST_AFTER: Duration = Duration::from_millis(200);

impl Slots {
    /// Adds calls of which the first is due then, and each further one after this interval.
    pub(super) fn add(&mut self, first: Duration, calls: u32, interval: Duration) {
        self.due
            .extend((0..calls).map(|number| first + interval * number));
        // If the common clock was taken for later before, these may be due before those that are there.
        self.due.make_contiguous().sort_unstable();
        self.apart = interval / CATCH_UP;
    }

    /// When the next one is due, if there is one that is not lost.
    pub(super) fn next(&mut self, now: Duration) -> Option<Duration> {
        while self.due.front().is_some_and(|due| *due + LOST_AFTER < now) {
            self.due.pop_front();
        }
        self.due.front().map(|due| *due.max(&self.not_before))
    }

    /// Uses the next one, if it is due.
    pub(super) fn take(&mut self, now: Duration) -> bool {
        if self.next(now).is_none_or(|due| due > now + TICK) {
            return false;
        }
        self.due.pop_front();
        self.not_before = self.not_before.max(now) + self.apart;
        true
    }

    /// How many are late.
    pub(super) fn late(&self, now: Duration) -> usize {
        self.due.partition_point(|due| *due < now)
    }

    /// The pace that they were granted at was given up.
    pub(super) fn clear(&mut self) {
        self.due.clear();
    }
}

/// The common clock of all workers, estimated from the fastest replies: how long each is on its way varies.
#[derive(Debug, Default)]
pub(super) struct CommonClock {
    /// By how many seconds it is ahead of the worker's own, which starts with its run.
    ahead: Option<f64>,
}

/// Clocks drift apart by less than this many seconds from one reply to the next.
const DRIFT: f64 = 0.000_1;
/// If a reply seems to have been on its way for this number of seconds longer than others, a clock was set, or the way is another one.
const JUMP: f64 = 0.13;

impl CommonClock {
    /// A reply was sent at `sent` by the common clock, and arrived at `now`.
    pub(super) fn replied(&mut self, now: Duration, sent: f64) {
        let ahead = sent - now.as_secs_f64();
        self.ahead = Some(match self.ahead {
            Some(before) if ahead + JUMP >= before => ahead.max(before - DRIFT),
            _ => ahead,
        });
    }

    /// The common time, in seconds.
    pub(super) fn there(&self, here: Duration) -> f64 {
        here.as_secs_f64() + self.ahead.unwrap_or(0.0)
    }

    /// A common time by the worker's clock.
    pub(super) fn here(&self, there: f64) -> Duration {
        let here = there - self.ahead.unwrap_or(0.0);
        Duration::try_from_secs_f64(here.max(0.0)).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// When calls start, if each starts as soon as it may.
    fn starts(slots: &mut Slots, from: u32, to: u32) -> Vec<u32> {
        (from..to)
            .filter(|at| slots.take(MILLISECOND * *at))
            .collect()
    }

    #[test]
    fn late_calls_catch_up_one_by_one() {
        let mut slots = Slots::default();
        slots.add(MILLISECOND * 100, 3, MILLISECOND * 10);
        // An answer that was on its way for longer: what it grants was due before the others.
        slots.add(MILLISECOND * 70, 3, MILLISECOND * 10);
        assert_eq!(slots.late(MILLISECOND * 95), 3);
        assert_eq!(
            starts(&mut slots, 95, 200),
            [95, 97, 99, 102, 109, 119],
            "a quarter of an interval apart while they are late"
        );
    }

    #[test]
    fn calls_that_are_too_late_are_lost() {
        let mut slots = Slots::default();
        slots.add(MILLISECOND * 100, 3, MILLISECOND * 10);
        assert_eq!(starts(&mut slots, 305, 400), [305, 307]);
    }

    #[test]
    fn replies_that_take_longer_change_little_until_a_clock_was_set() {
        let mut clock = CommonClock::default();
        let mut here = |now: u64, sent: f64, time: f64| {
            clock.replied(Duration::from_millis(now), sent);
            clock.here(time).as_micros()
        };
        assert_eq!(here(110, 5.1, 5.2), 210_000);
        assert_eq!(here(240, 5.2, 5.2), 210_100, "30 ms later");
        assert_eq!(here(305, 5.3, 5.2), 205_000, "sooner");
        assert_eq!(here(405, 3.4, 3.5), 505_000, "set");
    }
}
