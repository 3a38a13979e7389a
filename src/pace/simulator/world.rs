//! Programs that call a service in virtual time, and what is seen of them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::models::Model;
use super::rows::{Row, Rows};
use super::store::PaceRow;
use crate::pace::controller::Controller;
use crate::pace::shared::{PaceAsk, PaceReply};
use crate::pace::types::{Admission, Allowance, Call, CallSignal, PaceEvent};

/// What was seen in a run.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Calls that the service accepted in each second.
    pub(super) accepted: Vec<u32>,
    /// What the service allowed in each second.
    pub(super) allowed: Vec<f64>,
    pub(super) refused: u32,
    /// The first reports and questions to a shared pace, with their times and the replies, as JSON.
    pub(super) exchanged: Vec<(f64, String, String)>,
}

impl Seen {
    /// The share of the allowed calls from one second to another.
    pub(super) fn share(&self, from: usize, to: usize) -> f64 {
        let accepted: u32 = self.accepted[from..to].iter().sum();
        f64::from(accepted) / self.allowed[from..to].iter().sum::<f64>()
    }

    /// Seconds until ten seconds in a row had nine tenths of the pace of the run's last third.
    pub(super) fn seconds_to_pace(&self) -> f64 {
        let of = |from: usize, to: usize| {
            f64::from(self.accepted[from..to].iter().sum::<u32>()) / (to - from) as f64
        };
        let end = self.accepted.len();
        let last = of(end - end / 3, end);
        let found = (0..end.saturating_sub(10)).find(|at| of(*at, at + 10) >= 0.9 * last);
        found.map_or(f64::INFINITY, |at| at as f64)
    }

    /// The share of the worst minute from this second on.
    pub(super) fn worst_minute(&self, from: usize) -> f64 {
        (from..=self.accepted.len().saturating_sub(60))
            .map(|from| self.share(from, from + 60))
            .filter(|share| share.is_finite())
            .fold(f64::INFINITY, f64::min)
    }
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
    call: Call,
    signal: CallSignal,
    /// What the answer's headers say.
    allowance: Option<Allowance>,
}

struct Program<'a> {
    controller: &'a mut Controller,
    rows: Rows,
    /// When it asks again; `None` means when a call ends.
    wake: Option<Duration>,
    /// The message on its way to the store of a shared pace or back, and when it arrives.
    letter: Option<(Duration, Letter)>,
}

enum Letter {
    Ask(PaceAsk),
    Reply(PaceReply),
}

/// How many questions and replies are remembered.
const EXCHANGES: usize = 600;

/// The store of a shared pace, and how long the way there takes.
struct Store {
    row: PaceRow,
    way: Duration,
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
    store: Option<Store>,
    programs: Vec<Program<'a>>,
    calls: Calls,
    random: fastrand::Rng,
    seen: Seen,
}

/// Lets these programs call this service for this number of seconds. There are always more rows.
pub(super) fn simulate(
    controllers: &mut [Controller],
    model: &mut dyn Model,
    seconds: usize,
    seed: u64,
) -> Seen {
    simulate_at(None, controllers, model, seconds, seed)
}

/// The same, where the programs share one pace over this round trip.
pub(super) fn simulate_sharing(
    round_trip: Duration,
    controllers: &mut [Controller],
    model: &mut dyn Model,
    seconds: usize,
    seed: u64,
) -> Seen {
    for (number, controller) in controllers.iter_mut().enumerate() {
        controller.share(format!("{number:04}"));
    }
    let store = Store {
        row: PaceRow::default(),
        way: round_trip / 2,
    };
    simulate_at(Some(store), controllers, model, seconds, seed)
}

fn simulate_at(
    store: Option<Store>,
    controllers: &mut [Controller],
    model: &mut dyn Model,
    seconds: usize,
    seed: u64,
) -> Seen {
    let end = Duration::from_secs(seconds as u64);
    let allows = |second| model.allows(f64::from(second) + 0.5);
    let mut world = World {
        seen: Seen {
            accepted: vec![0; seconds],
            allowed: (0..seconds as u32).map(allows).collect(),
            ..Seen::default()
        },
        model,
        store,
        programs: controllers.iter_mut().map(Program::new).collect(),
        calls: Calls::default(),
        random: fastrand::Rng::with_seed(seed),
    };
    let mut now = Duration::ZERO;
    while now < end {
        for who in 0..world.programs.len() {
            world.shares(who, now);
            world.asks(who, now);
        }
        let next_due = world.calls.due.peek().map(|due| due.0.at);
        let next_wake = world.programs.iter().filter_map(Program::next).min();
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
    world.seen
}

impl<'a> Program<'a> {
    fn new(controller: &'a mut Controller) -> Self {
        Self {
            controller,
            rows: Rows::new(),
            wake: Some(Duration::ZERO),
            letter: None,
        }
    }

    /// When something happens to it that is not about a call.
    fn next(&self) -> Option<Duration> {
        let letter = self.letter.as_ref().map(|(at, _)| *at);
        [self.wake, letter, self.controller.asks_at()]
            .into_iter()
            .flatten()
            .min()
    }
}

impl World<'_> {
    /// Exchanges what is due with the store of a shared pace.
    fn shares(&mut self, who: usize, now: Duration) {
        let (Some(store), program) = (&mut self.store, &mut self.programs[who]) else {
            return;
        };
        if program.controller.asks_at().is_some_and(|at| at <= now) {
            let random = self.random.f64();
            let ask = program.controller.ask(now, random).unwrap();
            program.letter = Some((now + store.way, Letter::Ask(ask)));
        }
        match program.letter.take_if(|(at, _)| *at <= now) {
            Some((_, Letter::Ask(ask))) => {
                // The server has a clock of its own.
                let at = now.as_secs_f64() + 1_000.0;
                let asked = (self.seen.exchanged.len() < EXCHANGES)
                    .then(|| serde_json::to_string(&ask).unwrap());
                let reply = store.row.ask(at, ask);
                let replied = || serde_json::to_string(&reply).unwrap();
                let exchanged = asked.map(|asked| (at, asked, replied()));
                self.seen.exchanged.extend(exchanged);
                program.letter = Some((now + store.way, Letter::Reply(reply)));
            }
            Some((_, Letter::Reply(reply))) => {
                let random = self.random.f64();
                program.controller.replied(now, reply, random);
                program.wake = Some(now);
            }
            None => {}
        }
    }

    fn asks(&mut self, who: usize, now: Duration) {
        if self.programs[who].wake.is_none_or(|at| at > now) {
            return;
        }
        loop {
            let program = &mut self.programs[who];
            match program.controller.admit(now) {
                Admission::Admitted(call) => {
                    let row = program.rows.take(now);
                    let signal = CallSignal::Abandoned;
                    let slot = self.calls.begin(Out {
                        who,
                        row,
                        call,
                        signal,
                        allowance: None,
                    });
                    let way = self.model.way(&mut self.random);
                    if way > 0.0 {
                        let at = now + Duration::from_secs_f64(way);
                        self.calls.is_due(at, slot, true);
                    } else {
                        self.arrives(slot, now);
                    }
                }
                // A timer ticks at 1 ms.
                Admission::NotBefore(at) => {
                    program.wake = Some(at.max(now + Duration::from_millis(1)));
                    return;
                }
                Admission::OnChange => {
                    program.wake = None;
                    return;
                }
            }
        }
    }

    fn arrives(&mut self, slot: usize, now: Duration) {
        let out = self.calls.slots[slot].as_mut().unwrap();
        let seconds = now.as_secs_f64();
        let (signal, time) = self.model.call(seconds, out.row, &mut self.random);
        out.signal = signal;
        out.allowance = self.model.says(seconds);
        let second = now.as_secs() as usize;
        if is_refused(signal) {
            self.seen.refused += 1;
        } else if signal == CallSignal::Answered && second < self.seen.accepted.len() {
            self.seen.accepted[second] += 1;
        }
        let at = now + Duration::from_secs_f64(time);
        self.calls.is_due(at, slot, false);
    }

    fn ends(&mut self, slot: usize, now: Duration) {
        let Out {
            who,
            row,
            call,
            signal,
            allowance,
        } = self.calls.end(slot);
        let Program {
            controller,
            rows,
            wake,
            ..
        } = &mut self.programs[who];
        if let Some(allowance) = allowance {
            controller.allowed(now, allowance);
        }
        let fraction = self.random.f64();
        if is_refused(signal) {
            let is_about_row = rows.was_refused(row);
            let event = controller.call_ended(now, call, signal, is_about_row, fraction);
            let own = match event {
                Some(PaceEvent::RowWaits(wait)) => Some(wait),
                _ => None,
            };
            rows.again(row, now, own, self.random.f64());
        } else {
            let _ = controller.call_ended(now, call, signal, false, fraction);
            if signal == CallSignal::Answered {
                rows.was_accepted(row);
            } else {
                rows.is_done(row);
            }
        }
        // The signal may change when the next call may start.
        *wake = Some(now);
    }
}

const fn is_refused(signal: CallSignal) -> bool {
    matches!(signal, CallSignal::Throttled(_) | CallSignal::BusyOrAway)
}
