//! Services that are not used while the controller is tuned. `SIM_HIDDEN=1` adds them to the table.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::case::{Case, case};
use super::cases::{USUAL, bucket};
use super::models::{FixedWindow, Hint, Model, TokenBucket, Work, refused};
use super::rows::Row;
use crate::pace::types::CallOutcome;

pub(super) fn hidden() -> Vec<Case> {
    let unseen = |case| Case {
        share: 0.5,
        refused: u32::MAX,
        ..case
    };
    vec![
        unseen(Case {
            // From here on, shares are of whole windows.
            search: WINDOW as usize,
            ..case("hidden 1", || Box::new(Nested::default()))
        }),
        unseen(case("hidden 2", || Box::new(Sampled::default()))),
        unseen(case("hidden 3", || Box::new(Autoscaled::default()))),
    ]
}

/// A quota for five minutes beside a limit each second, each with a hint of its own.
struct Nested {
    second: TokenBucket,
    quota: FixedWindow,
}

const QUOTA: u32 = 9_000;
/// Seconds of the quota's window.
const WINDOW: f64 = 300.0;

impl Default for Nested {
    fn default() -> Self {
        Self {
            second: bucket(&[(0.0, 80.0)], 20.0, Hint::Always(1)),
            quota: FixedWindow::new(QUOTA, WINDOW, Hint::RetryAfter, USUAL),
        }
    }
}

impl Model for Nested {
    fn call(&mut self, now: f64, row: Row, random: &mut fastrand::Rng) -> (CallOutcome, f64) {
        let answer = self.second.call(now, row, random);
        if answer.0 == CallOutcome::Answered {
            return self.quota.call(now, row, random);
        }
        answer
    }

    /// The whole quota of each window, however it is spread.
    fn allows(&self, now: f64) -> f64 {
        self.quota.allows(now)
    }
}

/// Looks at its count now and then, as firewalls in front of services do, and refuses all calls until the next look if too
/// many came before. Refused calls count.
#[derive(Default)]
struct Sampled {
    arrived: VecDeque<f64>,
    looks: u64,
    blocks: bool,
}

/// Seconds between two looks.
const LOOK: f64 = 2.0;
/// Seconds over which it counts.
const COUNTED: f64 = 10.0;
const MOST_COUNTED: usize = 500;

impl Model for Sampled {
    fn call(&mut self, now: f64, _: Row, random: &mut fastrand::Rng) -> (CallOutcome, f64) {
        let looks = (now / LOOK) as u64;
        if looks > self.looks {
            self.looks = looks;
            let from = looks as f64 * LOOK - COUNTED;
            while self.arrived.front().is_some_and(|at| *at <= from) {
                self.arrived.pop_front();
            }
            self.blocks = self.arrived.len() > MOST_COUNTED;
        }
        self.arrived.push_back(now);
        if self.blocks {
            return (refused(Hint::None, 0.0), 0.01);
        }
        (CallOutcome::Answered, USUAL.time(random))
    }

    /// A caller who keeps to it is never refused. One who sends thousands of calls between two looks and then stays away would
    /// get more, which no caller should try.
    fn allows(&self, _: f64) -> f64 {
        MOST_COUNTED as f64 / COUNTED
    }
}

/// Starts one more server each minute while those that it has are busy. Calls wait shortly, and are refused if they would
/// have to wait longer.
struct Autoscaled {
    servers: u32,
    /// When each worker is free, in nanoseconds.
    workers: BinaryHeap<Reverse<u64>>,
    looks: u64,
    /// Seconds of work since the last look.
    worked: f64,
}

const LEAST_SERVERS: u32 = 2;
const MOST_SERVERS: u32 = 6;
const WORKERS: u32 = 8;
const WORK: Work = Work {
    typical: 0.15,
    spread: 0.3,
};
/// Seconds between two looks at its load.
const MINUTE: f64 = 60.0;
/// Above this load it starts another server …
const BUSY: f64 = 0.6;
/// … and below this one it stops one.
const IDLE: f64 = 0.2;
/// The longest wait, in seconds.
const PATIENCE: f64 = 0.3;
/// The load at which hardly any call waits too long; found by trying regular intervals.
const LOADED: f64 = 0.98;

impl Default for Autoscaled {
    fn default() -> Self {
        Self {
            servers: LEAST_SERVERS,
            workers: vec![Reverse(0); (LEAST_SERVERS * WORKERS) as usize].into(),
            looks: 0,
            worked: 0.0,
        }
    }
}

impl Autoscaled {
    fn looks(&mut self) {
        self.looks += 1;
        let load = self.worked / (f64::from(self.servers * WORKERS) * MINUTE);
        self.worked = 0.0;
        if load > BUSY && self.servers < MOST_SERVERS {
            self.servers += 1;
            let starts = (self.looks as f64 * MINUTE * 1e9) as u64;
            self.workers.extend((0..WORKERS).map(|_| Reverse(starts)));
        }
        if load < IDLE && self.servers > LEAST_SERVERS {
            self.servers -= 1;
            for _ in 0..WORKERS {
                self.workers.pop();
            }
        }
    }
}

impl Model for Autoscaled {
    fn call(&mut self, now: f64, _: Row, random: &mut fastrand::Rng) -> (CallOutcome, f64) {
        while self.looks < (now / MINUTE) as u64 {
            self.looks();
        }
        let mut first = self.workers.peek_mut().unwrap();
        let free = (first.0 as f64 / 1e9).max(now);
        if free - now > PATIENCE {
            return (refused(Hint::Always(2), 0.0), 0.005);
        }
        let time = WORK.time(random);
        *first = Reverse(((free + time) * 1e9) as u64);
        self.worked += time;
        (CallOutcome::Answered, free + time - now)
    }

    /// What it takes if it was kept busy from the start, so that it has started all the servers that it could.
    fn allows(&self, now: f64) -> f64 {
        let servers = (LEAST_SERVERS + (now / MINUTE) as u32).min(MOST_SERVERS);
        f64::from(servers * WORKERS) / WORK.mean() * LOADED
    }
}

#[test]
fn hidden_services_allow_what_they_say_and_no_more() {
    /// The accepted calls, as a share of those allowed, and the refused, as one of all calls.
    fn shares(case: &Case, times: f64) -> (f64, f64) {
        let mut model = (case.model)();
        let mut random = fastrand::Rng::with_seed(1);
        let (mut now, mut calls, mut accepted, mut allowed) = (0.0, 0.0, 0.0, 0.0);
        while now < 1_800.0 {
            let allows = model.allows(now);
            let (how, _) = model.call(now, 0, &mut random);
            calls += 1.0;
            accepted += f64::from(u8::from(how == CallOutcome::Answered));
            // A caller who sends `times` as many is allowed this part of a call in between.
            allowed += 1.0 / times;
            now += 1.0 / (allows * times);
        }
        (accepted / allowed, 1.0 - accepted / calls)
    }
    for case in hidden() {
        let (got, refused) = shares(&case, 0.95);
        println!("{}: {got:.4}, {refused:.4} refused", case.name);
        assert!(got > 0.94 && refused < 0.005, "{}", case.name);
        let (got, refused) = shares(&case, 1.15);
        println!("{}: {got:.4}, {refused:.4} refused", case.name);
        assert!(got < 1.03, "{}", case.name);
    }
}
