//! One run's side of a pace that it shares with its peers: what it reports and asks, which calls it is granted, and when these
//! may start.
//!
//! The value is in a store that all of them reach, with rules of its own (`ledger/pace.sql`). There is no leader: a step
//! that is due is given to the peer that asks next, which writes it with its next question. Nothing here knows that store.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::tally::Tally;
use super::types::{Rate, TICK, whole};
use super::value::PaceValue;

/// A peer's report and question in one. Times are seconds of the common clock.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PaceAsk {
    /// Who asks: a random number.
    #[serde(rename = "worker")]
    pub(super) peer: String,
    /// The version of the value that it has.
    #[serde(rename = "known")]
    pub(super) version: Option<i64>,
    /// How many calls it could start soon, and how many it has in flight.
    pub(super) wants: u32,
    pub(super) out: u32,
    /// Its counts since its last question, if there are any, and when the pace had last been decreased, as far as it knew.
    pub(super) tally: Option<(f64, Tally)>,
    /// A step should follow immediately, …
    pub(super) is_urgent: bool,
    /// … and until then no call should start.
    pub(super) holds: bool,
    /// The step that it was given, done.
    pub(super) step: Option<Step>,
}

/// The value after a step, with the parts that the store must know without reading it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Step {
    /// The version before.
    pub(super) version: i64,
    pub(super) value: PaceValue,
    /// Calls a second, and calls in flight.
    pub(super) rate: f64,
    pub(super) most: u32,
    /// Until when no call starts, and whether a probe goes first after that.
    pub(super) until: f64,
    #[serde(rename = "is_alone")]
    pub(super) probe_first: bool,
    /// When the next step is due, and when the pace was last decreased.
    pub(super) due: f64,
    #[serde(rename = "cut_at")]
    pub(super) decreased_at: f64,
}

/// The reply to a peer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PaceReply {
    /// The common time.
    pub(super) now: f64,
    /// 0 if there is no value yet, or if it was given up because no peer has asked for long.
    pub(super) version: i64,
    /// The value, if the peer has another version.
    pub(super) value: Option<PaceValue>,
    /// Calls that may start: the first of them at `first`, and then at this rate. They are due a little later, see [`UNUSED_FOR`].
    pub(super) calls: u32,
    pub(super) first: f64,
    pub(super) rate: f64,
    /// How many calls this peer may have in flight, how many the others have, and how many share the pace.
    pub(super) part: u32,
    #[serde(rename = "others")]
    pub(super) out_of_peers: u32,
    #[serde(rename = "workers")]
    pub(super) sharing: u32,
    /// No call starts until then: one was refused, and the pace has not been stepped.
    pub(super) held_until: f64,
    /// A step that this peer must do, with the counts of all since the last one; without a value, it makes the first.
    pub(super) step: Option<Vec<(f64, Tally)>>,
}

/// Peers ask so often: granted calls last for about as long.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// Calls that no peer asked for stay granted for this number of seconds, and each call starts later by that than it might: so
/// all peers together start calls evenly, although each asks for several at a time.
const UNUSED_FOR: f64 = 0.13;
/// Without a reply, no call starts for so long after a refusal.
const HOLD_TIME: Duration = Duration::from_millis(300);

/// A run's view of a shared pace, besides its value.
#[derive(Default)]
pub(super) struct SharedPace {
    name: String,
    pub(super) clock: CommonClock,
    slots: Slots,
    version: Option<i64>,
    /// The last reply, without its value and step: how many runs share the pace, …
    pub(super) sharing: u32,
    /// … how many calls this one may have in flight, …
    pub(super) part: u32,
    /// … how many its peers have, …
    pub(super) out_of_peers: u32,
    rate: f64,
    /// … and until when no call starts, by this run's own clock.
    pub(super) held_until: Duration,
    may_probe: bool,
    /// When it asks again; a reply must have come before.
    asks_at: Duration,
    is_waiting: bool,
    is_urgent: bool,
    holds: bool,
    /// A call would have started if it was granted.
    is_wanted: bool,
    /// How many calls it has asked for.
    pub(super) wants: u32,
    step: Option<Step>,
}

impl SharedPace {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            sharing: 1,
            is_wanted: true,
            ..Self::default()
        }
    }

    /// When to ask next; `None` while a reply is waited for.
    pub(super) fn asks_at(&self) -> Option<Duration> {
        (!self.is_waiting).then_some(self.asks_at)
    }

    /// The question to ask now. `random` is from 0 up to 1, so that peers that started together do not ask together for ever.
    pub(super) fn ask(
        &mut self,
        now: Duration,
        out: u32,
        tally: (f64, Tally),
        random: f64,
    ) -> PaceAsk {
        self.is_waiting = true;
        self.asks_at = now + ASK_EVERY.mul_f64(0.9 + 0.2 * random);
        let share = self.rate * ASK_EVERY.as_secs_f64() / f64::from(self.sharing);
        let share = whole((share * 2.0).ceil().max(1.0));
        // If something else delays calls, such as the calls in flight, grants are left to peers.
        let wants = tally.1.started.saturating_mul(2).clamp(1, share);
        let late = u32::try_from(self.slots.late(now)).unwrap_or(u32::MAX);
        self.wants = if std::mem::take(&mut self.is_wanted) {
            wants.saturating_sub(late)
        } else {
            0
        };
        PaceAsk {
            peer: self.name.clone(),
            version: self.version,
            wants: self.wants,
            out,
            tally: Some(tally).filter(|(_, tally)| *tally != Tally::default()),
            is_urgent: std::mem::take(&mut self.is_urgent),
            holds: std::mem::take(&mut self.holds),
            step: self.step.take(),
        }
    }

    /// Whether the value that this run has is given up.
    pub(super) fn is_new(&self, version: i64) -> bool {
        version == 0 && self.version != Some(0)
    }

    /// The question has been answered. `probe_first`: one call goes first, by itself.
    pub(super) fn replied(&mut self, reply: &PaceReply, probe_first: bool) {
        self.is_waiting = false;
        self.version = Some(reply.version);
        (self.sharing, self.part) = (reply.sharing.max(1), reply.part);
        (self.out_of_peers, self.rate) = (reply.out_of_peers, reply.rate);
        if reply.now < reply.held_until {
            self.hold(self.clock.here(reply.held_until));
        } else if !self.holds {
            self.held_until = Duration::ZERO;
        }
        if probe_first {
            self.slots.due.clear();
            self.may_probe |= reply.calls > 0;
            return;
        }
        self.may_probe = false;
        if reply.calls > 0 {
            let first = self.clock.here(reply.first + UNUSED_FOR);
            let interval = Duration::from_secs_f64(1.0 / reply.rate);
            self.slots.add(first, reply.calls, interval);
        }
    }

    /// This run has done the step that it was given.
    pub(super) fn stepped(&mut self, now: Duration, step: Step) {
        self.step = Some(step);
        self.asks_at = now;
    }

    /// Asks immediately. If the reason `holds` calls back, none starts before the reply.
    pub(super) fn ask_soon(&mut self, now: Duration, holds: bool) {
        self.is_urgent = true;
        self.asks_at = now;
        if holds {
            self.holds = true;
            self.hold(now + HOLD_TIME);
        }
    }

    fn hold(&mut self, until: Duration) {
        self.held_until = until;
        self.slots.due.clear();
    }

    /// The pace was decreased: earlier grants are lost.
    pub(super) fn forget_grants(&mut self) {
        self.slots.due.clear();
        self.may_probe = false;
    }

    /// Takes a call that may start now, or says when the next one may, if the next grant has a time.
    pub(super) fn take(
        &mut self,
        now: Duration,
        probe_first: bool,
    ) -> Result<(), Option<Duration>> {
        self.is_wanted = true;
        if probe_first {
            return std::mem::take(&mut self.may_probe)
                .then_some(())
                .ok_or(None);
        }
        if self.slots.take(now) {
            return Ok(());
        }
        Err(self.slots.next(now))
    }
}

/// The counts of all runs, at `rate` calls a second, up to `now`. Refusals before the decrease at `decreased_at` are about a
/// pace that was given up.
pub(super) fn sum(tallies: Vec<(f64, Tally)>, now: f64, rate: f64, decreased_at: f64) -> Tally {
    let mut sum = Tally::default();
    for (last_decrease, mut tally) in tallies {
        if last_decrease < decreased_at {
            tally.refused_new = 0;
        }
        sum.add(&tally);
    }
    if sum.refused > 0 {
        sum.refused_after = whole(rate * (now - sum.refused_at).clamp(0.0, 1.0));
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
            probe_first: value.pauses.probe_first,
            due: value.due,
            decreased_at: value.decreased_at,
            value,
        }
    }
}

/// Calls that were granted and have not started. They are lost if they are not used.
#[derive(Debug, Default)]
struct Slots {
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
    /// Adds calls: the first is due then, and each further one after this interval.
    fn add(&mut self, first: Duration, calls: u32, interval: Duration) {
        self.due
            .extend((0..calls).map(|number| first + interval * number));
        // If the common clock was taken for later before, the new ones may be due before the old ones.
        self.due.make_contiguous().sort_unstable();
        self.apart = interval / CATCH_UP;
    }

    /// When the next one is due, if there is one that is not lost.
    fn next(&mut self, now: Duration) -> Option<Duration> {
        while self.due.front().is_some_and(|due| *due + LOST_AFTER < now) {
            self.due.pop_front();
        }
        self.due.front().map(|due| *due.max(&self.not_before))
    }

    /// Uses the next one, if it is due.
    fn take(&mut self, now: Duration) -> bool {
        if self.next(now).is_none_or(|due| due > now + TICK) {
            return false;
        }
        self.due.pop_front();
        self.not_before = self.not_before.max(now) + self.apart;
        true
    }

    /// How many are late.
    fn late(&self, now: Duration) -> usize {
        self.due.partition_point(|due| *due < now)
    }
}

/// The common clock of all runs, estimated from the fastest replies, as the time that a reply takes varies.
#[derive(Debug, Default)]
pub(super) struct CommonClock {
    /// By how many seconds it is ahead of this run's own clock, which starts with the run.
    ahead: Option<f64>,
}

/// Clocks drift apart by less than this many seconds from one reply to the next.
const DRIFT: f64 = 0.000_1;
/// If a reply seems to have taken this number of seconds longer than others, a clock was set, or the network path changed.
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

    /// A common time by this run's clock.
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
        // A reply that took longer: its grants were due before the others.
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
