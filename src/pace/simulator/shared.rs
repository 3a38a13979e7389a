//! The place of a shared pace: the rules of the function on the server, and a table of workers that share.

use std::collections::BTreeMap;
use std::time::Duration;

use super::contract::controller;
use super::limits::TokenBucket;
use super::models::{Hint, USUAL};
use super::world::simulate_sharing;
use crate::pace::shared::{PaceAsk, PaceReply};
use crate::pace::tally::Tally;
use crate::pace::types::Rate;
use crate::pace::value::PaceValue;
use crate::telemetry::pace::Limit;

/// The row of an account, as the function `ask_pace` in `ledger/pace.sql` keeps it.
#[derive(Debug, Default)]
pub(super) struct Row {
    began: f64,
    heard: Option<f64>,
    version: i64,
    value: Option<PaceValue>,
    rate: f64,
    most: u32,
    until: f64,
    is_alone: bool,
    due: f64,
    cut_at: f64,
    tallies: Vec<(f64, Tally)>,
    is_urgent: bool,
    given_until: f64,
    held_until: f64,
    next_at: f64,
    single_at: f64,
    workers: BTreeMap<String, (f64, u32)>,
}

/// What four workers ask in half a minute, when, and what the row replies, as JSON.
pub(crate) fn exchanges() -> Vec<(f64, String, String)> {
    let mut programs: Vec<_> = (0..4)
        .map(|_| controller(64, Rate::Auto, Limit::NONE))
        .collect();
    let bucket = &mut TokenBucket::new(40.0, 5.0, Hint::RetryAfter, USUAL);
    let way = Duration::from_millis(5);
    simulate_sharing(way, &mut programs, bucket, 30, 1).exchanged
}

impl Row {
    #[allow(
        clippy::too_many_lines,
        reason = "it is the whole function, in its order"
    )]
    pub(super) fn ask(&mut self, at: f64, ask: PaceAsk) -> PaceReply {
        if self.heard.is_none_or(|heard| heard + 10.0 < at) {
            *self = Self {
                began: at,
                ..Self::default()
            };
        }
        self.heard = Some(at);
        let now = at - self.began;
        if let Some(step) = ask.step.filter(|step| step.version == self.version) {
            let is_cut = step.cut_at > self.cut_at;
            if is_cut {
                self.next_at = self.next_at.max(now);
            }
            if self.is_alone && !step.is_alone {
                self.next_at = self.next_at.max(self.single_at + 1.0 / step.rate);
            }
            if is_cut || !self.is_urgent {
                self.held_until = 0.0;
            }
            self.version = match self.version {
                0 => (at * 1000.0) as i64 + 1,
                version => version + 1,
            };
            self.value = Some(step.value);
            (self.rate, self.most, self.until) = (step.rate, step.most, step.until);
            (self.is_alone, self.due, self.cut_at) = (step.is_alone, step.due, step.cut_at);
            self.given_until = 0.0;
        }
        if let Some((known_cut, tally)) = ask.tally {
            if ask.holds && known_cut >= self.cut_at && self.held_until <= now {
                self.held_until = now + 0.3;
            }
            self.tallies.push((known_cut, tally));
        }
        self.is_urgent |= ask.is_urgent;
        let before = self.workers.get(&ask.worker).map_or(0.0, |worker| worker.0);
        self.workers.retain(|_, (heard, _)| *heard + 2.0 > now);
        let is_busy = ask.wants > 0 || ask.out > 0 || self.is_alone;
        let heard = if is_busy { now } else { before };
        self.workers.insert(ask.worker.clone(), (heard, ask.out));
        let workers = self.workers.len() as u32;
        let rank = self.workers.range(..ask.worker).count() as u32;
        let turn = (now / 5.0) as u32;
        let (mut calls, mut first) = (0, now);
        if self.version > 0 && ask.wants > 0 && now >= self.until && now >= self.held_until {
            if self.is_alone {
                if self.single_at < self.until || self.single_at + 5.0 < now {
                    self.single_at = now;
                    calls = 1;
                }
            } else {
                first = self.next_at.max(now - 0.13).max(self.until);
                if first <= now {
                    calls = ask.wants.min(((now - first) * self.rate) as u32 + 1);
                    self.next_at = first + f64::from(calls) / self.rate;
                }
            }
        }
        let is_due = self.version == 0 || self.is_urgent || now >= self.due;
        let step = (is_due && now >= self.given_until).then(|| {
            self.given_until = now + 0.3;
            self.is_urgent = false;
            std::mem::take(&mut self.tallies)
        });
        PaceReply {
            now,
            version: self.version,
            value: self
                .value
                .clone()
                .filter(|_| ask.known != Some(self.version)),
            calls,
            first,
            rate: self.rate,
            part: self.most / workers + u32::from((rank + turn) % workers < self.most % workers),
            others: self.workers.values().map(|(_, out)| out).sum::<u32>() - ask.out,
            workers,
            held_until: self.held_until,
            step,
        }
    }
}
