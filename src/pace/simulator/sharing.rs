//! Workers that share one pace, in virtual time: a row that each reaches with a delay.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::pacers::{Answer, Pacer, Ticket};
use crate::pace::rate::Rate;
use crate::pace::shared::{Leading, Member, MemoryRow, WorkerReport};
use crate::pace::types::{Admission, CallOutcome, PaceEvent, PaceLimits, Try};
use crate::telemetry::pace::Limit;
use crate::telemetry::shared_pace::{PaceAsk, PaceReply};

/// The row, and what is on its way to it and back.
struct Network {
    row: MemoryRow,
    /// Questions and when they arrive.
    asks: Vec<(Duration, usize, PaceAsk)>,
    /// The answer for each worker and when it arrives there.
    replies: Vec<Option<(Duration, PaceReply)>>,
    /// The time of a round trip.
    delay: Duration,
    random: fastrand::Rng,
    /// Calls of each worker that were accepted.
    accepted: Vec<u64>,
}

impl Network {
    /// Half a round trip, which varies.
    fn way(&mut self) -> Duration {
        self.delay.mul_f64(0.5 * (0.8 + 0.4 * self.random.f64()))
    }

    /// Lets the row answer what has arrived by now.
    fn answer(&mut self, now: Duration) {
        loop {
            let first = { self.asks.iter().enumerate() }
                .filter(|(_, (at, ..))| *at <= now)
                .min_by_key(|(_, (at, ..))| *at)
                .map(|(place, _)| place);
            let Some(place) = first else { return };
            let (at, who, ask) = self.asks.swap_remove(place);
            // The row's clock is another one.
            let reply = self.row.ask(at + Duration::from_secs(1_000_000), &ask);
            let back = at + self.way();
            self.replies[who] = Some((back, reply));
        }
    }
}

/// A worker, and when it lives.
pub(super) struct Worker {
    member: Member,
    leading: Leading,
    /// What it reported last.
    own: WorkerReport,
    network: Rc<RefCell<Network>>,
    who: usize,
    from: Duration,
    until: Duration,
    /// When the row has its question, or it has the row's answer.
    next: Option<Duration>,
}

/// Later than all simulations.
const NEVER: Duration = Duration::from_secs(1_000_000);

impl Worker {
    /// Exchanges what there is with the row. Returns when there is more.
    fn exchange(&mut self, now: Duration) -> Duration {
        let network = &mut *self.network.borrow_mut();
        network.answer(now);
        if let Some((at, reply)) = network.replies[self.who].take() {
            if at <= now {
                let lead = self.leading.read(&reply, std::mem::take(&mut self.own));
                self.member.answered_by_row(now, &reply, lead);
                self.next = None;
            } else {
                self.next = Some(at);
                network.replies[self.who] = Some((at, reply));
            }
        }
        if let Some(at) = self.member.asks_at() {
            if at > now {
                return at;
            }
            let arrives = now + network.way();
            let (ask, own) = self.member.ask(now, self.leading.decision());
            self.own = own;
            network.asks.push((arrives, self.who, ask));
            self.next = Some(arrives);
        }
        self.next.unwrap()
    }
}

impl Pacer for Worker {
    fn ask(&mut self, now: Duration) -> Answer {
        if now < self.from {
            return Answer::At(self.from);
        }
        if now >= self.until {
            return Answer::At(NEVER);
        }
        let next = self.exchange(now);
        match self.member.admit(now) {
            Admission::Admitted(call) => Answer::Go(Ticket {
                began: now,
                call: Some(call),
            }),
            Admission::NotBefore(at) => Answer::At(at.min(next)),
            Admission::AfterAnother => Answer::At(next),
        }
    }

    fn ended(
        &mut self,
        now: Duration,
        ticket: Ticket,
        how: CallOutcome,
        tried: Try,
        fraction: f64,
    ) -> Option<Duration> {
        if how == CallOutcome::Answered {
            self.network.borrow_mut().accepted[self.who] += 1;
        }
        let call = ticket.call.unwrap();
        match self.member.call_ended(now, call, how, tried, fraction) {
            Some(PaceEvent::RowWaits(wait)) => Some(wait),
            _ => None,
        }
    }

    fn limit(&self) -> Limit {
        self.member.limit()
    }
}

/// When a worker starts and dies, in seconds.
pub(super) type Life = (u64, u64);

/// Calls that each of the workers got.
pub(super) struct Accepted(Rc<RefCell<Network>>);

impl Accepted {
    /// How many.
    pub(super) fn each(&self) -> Vec<u64> {
        self.0.borrow().accepted.clone()
    }
}

/// Workers with these lives that share a row, which is one round trip of `delay` away.
pub(super) fn sharing(
    lives: &[Life],
    in_flight: usize,
    delay: Duration,
    seed: u64,
) -> (Vec<Box<dyn Pacer>>, Accepted) {
    let network = Rc::new(RefCell::new(Network {
        row: MemoryRow::default(),
        asks: Vec::new(),
        replies: vec![None; lives.len()],
        delay,
        random: fastrand::Rng::with_seed(seed),
        accepted: vec![0; lives.len()],
    }));
    let limits = PaceLimits {
        rate: Rate::Auto,
        in_flight: in_flight.try_into().unwrap(),
        known: Limit::NONE,
        wait: Duration::from_secs(900),
        outage: Duration::from_secs(900),
    };
    let workers = (0..).zip(lives).map(|(who, (from, until))| {
        let mut random = fastrand::Rng::with_seed(seed * 1_000 + who as u64);
        Box::new(Worker {
            leading: Leading::new(limits, random.fork()),
            member: Member::new(limits, random),
            own: WorkerReport::default(),
            network: Rc::clone(&network),
            who,
            from: Duration::from_secs(*from),
            until: Duration::from_secs(*until),
            next: None,
        }) as Box<dyn Pacer>
    });
    (workers.collect(), Accepted(network))
}
