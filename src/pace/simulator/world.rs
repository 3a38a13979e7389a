//! Programs that call a service in virtual time, and what is seen of them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::host::Host;
use super::models::Model;
use super::pacers::{Answer, Pacer, Ticket};
use super::rows::{Row, Rows};
use crate::pace::types::CallOutcome;

/// What was seen in a run.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Calls that the service accepted in each second.
    pub(super) accepted: Vec<u32>,
    /// What the model allowed in each second.
    pub(super) allowed: Vec<f64>,
    /// The total time of the calls that were accepted in each second.
    latency: Vec<f64>,
    pub(super) calls: u64,
    pub(super) refused: u32,
    /// Those of the first minute.
    pub(super) refused_early: u32,
    /// Calls in flight when the first refusal came back, with it.
    pub(super) at_first_refusal: usize,
    pub(super) most_in_flight: usize,
    /// Rows that were refused too often.
    pub(super) without_verdict: u32,
    /// When the planned number of rows had their answers.
    pub(super) rows_after: Option<Duration>,
}

impl Seen {
    /// The share of the allowed calls from one second to another.
    pub(super) fn share(&self, from: usize, to: usize) -> f64 {
        let accepted: u32 = self.accepted[from..to].iter().sum();
        f64::from(accepted) / self.allowed[from..to].iter().sum::<f64>()
    }

    /// Seconds from `from` until ten seconds in a row had nine tenths of the allowed calls.
    pub(super) fn recovery(&self, from: usize) -> Option<usize> {
        (from..self.accepted.len().saturating_sub(10))
            .find(|at| self.share(*at, at + 10) >= 0.9)
            .map(|at| at - from)
    }

    /// Seconds until ten seconds in a row had nine tenths of the pace of the run's last third.
    pub(super) fn settled(&self) -> Option<usize> {
        let of = |from: usize, to: usize| {
            f64::from(self.accepted[from..to].iter().sum::<u32>()) / (to - from) as f64
        };
        let end = self.accepted.len();
        let last = of(end - end / 3, end);
        (0..end.saturating_sub(10)).find(|at| of(*at, at + 10) >= 0.9 * last)
    }

    /// The share of the worst minute after the first one.
    pub(super) fn worst_minute(&self) -> f64 {
        (60..=self.accepted.len().saturating_sub(60))
            .map(|from| self.share(from, from + 60))
            .filter(|share| share.is_finite())
            .fold(f64::INFINITY, f64::min)
    }

    /// The share of calls that were refused.
    pub(super) fn refused_share(&self) -> f64 {
        f64::from(self.refused) / self.calls as f64
    }

    /// The mean time of accepted calls from this second on.
    pub(super) fn mean_latency(&self, from: usize) -> f64 {
        let accepted: u32 = self.accepted[from..].iter().sum();
        self.latency[from..].iter().sum::<f64>() / f64::from(accepted)
    }
}

/// What to simulate.
pub(super) struct Plan {
    pub(super) seconds: usize,
    pub(super) seed: u64,
    /// Whether the programs stall now and then.
    pub(super) noisy: bool,
    /// How many answers are timed.
    pub(super) rows: u64,
}

/// Something that happens later.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Duration,
    number: u64,
    slot: usize,
    /// The call arrives; otherwise it ends.
    arrives: bool,
}

/// A call that is out.
struct Out {
    who: usize,
    row: Row,
    ticket: Ticket,
    how: CallOutcome,
}

struct Program<'a> {
    pacer: &'a mut dyn Pacer,
    rows: Rows,
    /// When it asks again; `None` means when a call ends.
    wake: Option<Duration>,
}

/// The calls that are out, and what happens to them next.
#[derive(Default)]
struct Calls {
    due: BinaryHeap<Reverse<Due>>,
    slots: Vec<Option<Out>>,
    free: Vec<usize>,
    number: u64,
}

impl Calls {
    fn begin(&mut self, out: Out) -> usize {
        if let Some(slot) = self.free.pop() {
            self.slots[slot] = Some(out);
            return slot;
        }
        self.slots.push(Some(out));
        self.slots.len() - 1
    }

    fn end(&mut self, slot: usize) -> Out {
        self.free.push(slot);
        self.slots[slot].take().unwrap()
    }

    fn out(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn is_due(&mut self, at: Duration, slot: usize, arrives: bool) {
        let number = self.number;
        self.number += 1;
        self.due.push(Reverse(Due {
            at,
            number,
            slot,
            arrives,
        }));
    }

    fn next(&mut self, now: Duration) -> Option<Due> {
        if self.due.peek()?.0.at > now {
            return None;
        }
        self.due.pop().map(|due| due.0)
    }
}

struct World<'a> {
    model: &'a mut dyn Model,
    programs: Vec<Program<'a>>,
    calls: Calls,
    host: Host,
    random: fastrand::Rng,
    seen: Seen,
    answers: u64,
    plan: Plan,
}

/// Lets these pacers call this service for the planned time. There are always more rows.
pub(super) fn simulate(pacers: &mut [Box<dyn Pacer>], model: &mut dyn Model, plan: Plan) -> Seen {
    let end = Duration::from_secs(plan.seconds as u64);
    let mut stalls = fastrand::Rng::with_seed(plan.seed + 1_000);
    let mut world = World {
        host: if plan.noisy {
            Host::noisy(end, &mut stalls)
        } else {
            Host::quiet()
        },
        seen: Seen {
            accepted: vec![0; plan.seconds],
            latency: vec![0.0; plan.seconds],
            allowed: (0..plan.seconds)
                .map(|second| model.allows(second as f64 + 0.5))
                .collect(),
            ..Seen::default()
        },
        model,
        programs: pacers
            .iter_mut()
            .map(|pacer| Program {
                pacer: &mut **pacer,
                rows: Rows::new(),
                wake: Some(Duration::ZERO),
            })
            .collect(),
        calls: Calls::default(),
        random: fastrand::Rng::with_seed(plan.seed),
        answers: 0,
        plan,
    };
    let mut now = Duration::ZERO;
    while now < end {
        for who in 0..world.programs.len() {
            world.asks(who, now);
        }
        let next_due = world.calls.due.peek().map(|due| due.0.at);
        let next_wake = world.programs.iter().filter_map(|one| one.wake).min();
        now = match (next_due, next_wake) {
            (Some(one), Some(other)) => one.min(other),
            (one, other) => one.or(other).expect("a program must not wait for ever"),
        }
        .max(now);
        while let Some(due) = world.calls.next(now) {
            if due.arrives {
                world.arrives(due.slot, now);
            } else {
                world.ends(due.slot, now);
            }
        }
    }
    world.seen.without_verdict = world
        .programs
        .iter()
        .map(|program| program.rows.without_verdict)
        .sum();
    world.seen
}

impl World<'_> {
    fn asks(&mut self, who: usize, now: Duration) {
        let program = &mut self.programs[who];
        if program.wake.is_none_or(|at| at > now) {
            return;
        }
        loop {
            let program = &mut self.programs[who];
            match program.pacer.ask(now) {
                Answer::Go(ticket) => {
                    let row = program.rows.take(now);
                    let how = CallOutcome::Abandoned;
                    let slot = self.calls.begin(Out {
                        who,
                        row,
                        ticket,
                        how,
                    });
                    self.seen.calls += 1;
                    self.seen.most_in_flight = self.seen.most_in_flight.max(self.calls.out());
                    let way = self.model.way(&mut self.random);
                    if way > 0.0 {
                        let at = now + Duration::from_secs_f64(way);
                        self.calls.is_due(at, slot, true);
                    } else {
                        self.arrives(slot, now);
                    }
                }
                // A timer ticks at 1 ms.
                Answer::At(at) => {
                    let at = at.max(now + Duration::from_millis(1));
                    program.wake = Some(self.host.awake(at));
                    return;
                }
                Answer::AfterAnother => {
                    program.wake = None;
                    return;
                }
            }
        }
    }

    fn arrives(&mut self, slot: usize, now: Duration) {
        let out = self.calls.slots[slot].as_mut().unwrap();
        let (how, time) = self
            .model
            .call(now.as_secs_f64(), out.row, &mut self.random);
        out.how = how;
        let second = now.as_secs() as usize;
        if matches!(how, CallOutcome::Throttled(_) | CallOutcome::BusyOrAway) {
            self.seen.refused += 1;
            self.seen.refused_early += u32::from(second < 60);
        } else if how == CallOutcome::Answered && second < self.plan.seconds {
            self.seen.accepted[second] += 1;
            let way = now.saturating_sub(out.ticket.began);
            self.seen.latency[second] += way.as_secs_f64() + time;
        }
        let at = self.host.awake(now + Duration::from_secs_f64(time));
        self.calls.is_due(at, slot, false);
    }

    fn ends(&mut self, slot: usize, now: Duration) {
        let in_flight = self.calls.out();
        let Out {
            who,
            row,
            ticket,
            how,
        } = self.calls.end(slot);
        let program = &mut self.programs[who];
        let fraction = self.random.f64();
        let is_refused = matches!(how, CallOutcome::Throttled(_) | CallOutcome::BusyOrAway);
        if is_refused {
            if self.seen.at_first_refusal == 0 {
                self.seen.at_first_refusal = in_flight;
            }
            let tried = program.rows.was_refused(row);
            let own = program.pacer.ended(now, ticket, how, tried, fraction);
            let fraction = self.random.f64();
            program.rows.again(row, now, own, fraction);
        } else {
            let tried = program.rows.tried(row);
            program.pacer.ended(now, ticket, how, tried, fraction);
            if how == CallOutcome::Answered {
                program.rows.was_accepted(row);
                self.answers += 1;
                if self.answers == self.plan.rows {
                    self.seen.rows_after = Some(now);
                }
            } else {
                program.rows.is_done(row);
            }
        }
        // The outcome may change when the next call may start.
        program.wake = Some(now);
    }
}
