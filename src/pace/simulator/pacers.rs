//! Who decides when calls begin: our controller, and the two ways that it must be better than.

use std::time::Duration;

use crate::event::Limit;
use crate::pace::calls::{Bounds, Call, Turn};
use crate::pace::controller::Controller;
use crate::pace::limiter::Limiter;
use crate::pace::pause::Pauses;
use crate::pace::{Ended, Rate};

/// Somebody who decides when calls begin.
pub(super) trait Pacer {
    fn ask(&mut self, now: Duration) -> Turn;
    fn ended(&mut self, now: Duration, call: Call, how: Ended, fraction: f64);

    /// What it has found.
    fn limit(&self) -> Limit {
        Limit::NONE
    }
}

impl Pacer for Controller {
    fn ask(&mut self, now: Duration) -> Turn {
        Self::ask(self, now)
    }

    fn ended(&mut self, now: Duration, call: Call, how: Ended, fraction: f64) {
        Self::ended(self, now, call, how, fraction);
    }

    fn limit(&self) -> Limit {
        Self::limit(self)
    }
}

/// Ours, with this ceiling of calls in flight.
pub(super) fn ours(in_flight: usize) -> Box<dyn Pacer> {
    ours_near(in_flight, Limit::NONE)
}

/// Ours, which begins near what an earlier one found.
pub(super) fn ours_near(in_flight: usize, known: Limit) -> Box<dyn Pacer> {
    Box::new(Controller::new(Bounds {
        rate: Rate::Auto,
        in_flight: in_flight.try_into().unwrap(),
        known,
        outage: Duration::from_secs(900),
    }))
}

/// A rate that somebody guessed, and a pause for all after each refusal or failure, doubling while nothing else comes.
pub(super) struct FixedRate {
    limiter: Limiter,
    pauses: Pauses,
    in_flight: usize,
    out: usize,
}

impl FixedRate {
    pub(super) fn boxed(rate: f64, in_flight: usize) -> Box<dyn Pacer> {
        Box::new(Self {
            limiter: Limiter::new(Rate::PerSecond(rate)),
            pauses: Pauses::default(),
            in_flight,
            out: 0,
        })
    }
}

impl Pacer for FixedRate {
    fn ask(&mut self, now: Duration) -> Turn {
        if let Some(until) = self.pauses.until(now) {
            return Turn::At(until);
        }
        if self.out >= self.in_flight {
            return Turn::AfterAnother;
        }
        if let Err(wait) = self.limiter.check(now) {
            return Turn::At(now + wait);
        }
        self.out += 1;
        Turn::Go(Call::new(now, self.out))
    }

    fn ended(&mut self, now: Duration, call: Call, how: Ended, fraction: f64) {
        self.out -= 1;
        match how {
            Ended::Answered | Ended::Abandoned => self.pauses.answered(call.began),
            Ended::Throttled(wait) => {
                let _ = self.pauses.begin(now, call.began, wait, fraction);
            }
            Ended::Failed | Ended::Unwell | Ended::TimedOut => {
                let _ = self.pauses.begin(now, call.began, None, fraction);
            }
        }
    }
}

/// As TCP does it: one call in flight more each round trip, half of them after trouble; no rate.
pub(super) struct Aimd {
    window: f64,
    most: f64,
    last_cut: Duration,
    pauses: Pauses,
    out: usize,
}

impl Aimd {
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn boxed(in_flight: usize) -> Box<dyn Pacer> {
        Box::new(Self {
            window: 4.0,
            most: in_flight as f64,
            last_cut: Duration::ZERO,
            pauses: Pauses::default(),
            out: 0,
        })
    }
}

impl Pacer for Aimd {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn ask(&mut self, now: Duration) -> Turn {
        if let Some(until) = self.pauses.until(now) {
            return Turn::At(until);
        }
        if self.out >= self.window as usize {
            return Turn::AfterAnother;
        }
        self.out += 1;
        Turn::Go(Call::new(now, self.out))
    }

    fn ended(&mut self, now: Duration, call: Call, how: Ended, fraction: f64) {
        self.out -= 1;
        if how == Ended::Answered {
            self.pauses.answered(call.began);
            self.window = (self.window + 1.0 / self.window).min(self.most);
            return;
        }
        if call.began >= self.last_cut {
            self.last_cut = now;
            self.window = (self.window * 0.5).max(1.0);
        }
        if let Ended::Throttled(Some(wait)) = how {
            let _ = self.pauses.begin(now, call.began, Some(wait), fraction);
        }
    }
}
