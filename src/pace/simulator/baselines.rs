//! The two pacers that our controller must be better than. They share no code with it.

use std::time::Duration;

use super::pacers::{Answer, Pacer, Ticket};
use crate::pace::types::{CallOutcome, Try};

/// A pause of all calls: as long as the service names, or doubling until a call is accepted.
#[derive(Default)]
struct Hold {
    until: Duration,
    guesses: u32,
}

impl Hold {
    fn begin(&mut self, now: Duration, began: Duration, named: Option<Duration>) {
        let length = match named {
            Some(named) if !named.is_zero() => named,
            // It was sent before the last pause and says nothing new.
            _ if began < self.until => return,
            _ => {
                let seconds = 1_u64 << self.guesses.min(6);
                self.guesses += 1;
                Duration::from_secs(seconds.min(60))
            }
        };
        self.until = self.until.max(now + length);
    }

    fn answered(&mut self, began: Duration) {
        if began >= self.until {
            self.guesses = 0;
        }
    }
}

/// A guessed rate, and a pause of all calls after each refusal or failure.
pub(super) struct FixedRate {
    spacing: Duration,
    next: Duration,
    hold: Hold,
    in_flight: usize,
    out: usize,
}

/// Calls that the timer delays may be made up for within this time.
const LATE: Duration = Duration::from_millis(10);

impl FixedRate {
    pub(super) fn boxed(rate: f64, in_flight: usize) -> Box<dyn Pacer> {
        Box::new(Self {
            spacing: Duration::from_secs_f64(1.0 / rate),
            next: Duration::ZERO,
            hold: Hold::default(),
            in_flight,
            out: 0,
        })
    }
}

impl Pacer for FixedRate {
    fn ask(&mut self, now: Duration) -> Answer {
        if now < self.hold.until {
            return Answer::At(self.hold.until);
        }
        if self.out >= self.in_flight {
            return Answer::AfterAnother;
        }
        if now < self.next {
            return Answer::At(self.next);
        }
        self.next = self.next.max(now.saturating_sub(LATE)) + self.spacing;
        self.out += 1;
        go(now)
    }

    fn ended(
        &mut self,
        now: Duration,
        ticket: Ticket,
        how: CallOutcome,
        _tried: Try,
        _fraction: f64,
    ) -> Option<Duration> {
        self.out -= 1;
        match how {
            CallOutcome::Answered | CallOutcome::Abandoned => self.hold.answered(ticket.began),
            CallOutcome::Throttled(wait) => self.hold.begin(now, ticket.began, wait),
            CallOutcome::BusyOrAway
            | CallOutcome::Failed
            | CallOutcome::Unavailable
            | CallOutcome::TimedOut => {
                self.hold.begin(now, ticket.began, None);
            }
        }
        None
    }
}

/// Like TCP: one more call in flight each round trip, half of them after trouble, and no rate.
pub(super) struct Aimd {
    window: f64,
    most: f64,
    last_cut: Duration,
    hold: Hold,
    out: usize,
}

impl Aimd {
    pub(super) fn boxed(in_flight: usize) -> Box<dyn Pacer> {
        Box::new(Self {
            window: 4.0,
            most: in_flight as f64,
            last_cut: Duration::ZERO,
            hold: Hold::default(),
            out: 0,
        })
    }
}

impl Pacer for Aimd {
    fn ask(&mut self, now: Duration) -> Answer {
        if now < self.hold.until {
            return Answer::At(self.hold.until);
        }
        if self.out >= self.window as usize {
            return Answer::AfterAnother;
        }
        self.out += 1;
        go(now)
    }

    fn ended(
        &mut self,
        now: Duration,
        ticket: Ticket,
        how: CallOutcome,
        _tried: Try,
        _fraction: f64,
    ) -> Option<Duration> {
        self.out -= 1;
        if how == CallOutcome::Answered {
            self.window = (self.window + 1.0 / self.window).min(self.most);
            return None;
        }
        if ticket.began >= self.last_cut {
            self.last_cut = now;
            self.window = (self.window * 0.5).max(1.0);
        }
        if let CallOutcome::Throttled(Some(wait)) = how {
            self.hold.until = self.hold.until.max(now + wait);
        }
        None
    }
}

fn go(began: Duration) -> Answer {
    Answer::Go(Ticket { began, call: None })
}
