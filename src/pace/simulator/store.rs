//! The store of a shared pace: the rules of the function on the server.

use std::collections::BTreeMap;

use crate::pace::shared::{PaceAsk, PaceReply};
use crate::pace::tally::Tally;
use crate::pace::value::PaceValue;

/// The row of an account, as the function `ask_pace` in `ledger/pace.sql` keeps it.
#[derive(Debug, Default)]
pub(super) struct PaceRow {
    began: f64,
    heard: Option<f64>,
    version: i64,
    value: Option<PaceValue>,
    rate: f64,
    most: u32,
    until: f64,
    probe_first: bool,
    due: f64,
    decreased_at: f64,
    tallies: Vec<(f64, Tally)>,
    is_urgent: bool,
    given_until: f64,
    held_until: f64,
    next_at: f64,
    probed_at: f64,
    peers: BTreeMap<String, (f64, u32)>,
}

impl PaceRow {
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
            let is_decrease = step.decreased_at > self.decreased_at;
            if is_decrease {
                self.next_at = self.next_at.max(now);
            }
            if self.probe_first && !step.probe_first {
                self.next_at = self.next_at.max(self.probed_at + 1.0 / step.rate);
            }
            if is_decrease || !self.is_urgent {
                self.held_until = 0.0;
            }
            self.version = match self.version {
                0 => (at * 1000.0) as i64 + 1,
                version => version + 1,
            };
            self.value = Some(step.value);
            (self.rate, self.most, self.until) = (step.rate, step.most, step.until);
            (self.probe_first, self.due, self.decreased_at) =
                (step.probe_first, step.due, step.decreased_at);
            self.given_until = 0.0;
        }
        if let Some((last_decrease, tally)) = ask.tally {
            if ask.holds && last_decrease >= self.decreased_at && self.held_until <= now {
                self.held_until = now + 0.3;
            }
            self.tallies.push((last_decrease, tally));
        }
        self.is_urgent |= ask.is_urgent;
        let before = self.peers.get(&ask.peer).map_or(0.0, |peer| peer.0);
        self.peers.retain(|_, (heard, _)| *heard + 2.0 > now);
        let is_busy = ask.wants > 0 || ask.out > 0 || self.probe_first;
        let heard = if is_busy { now } else { before };
        self.peers.insert(ask.peer.clone(), (heard, ask.out));
        let peers = self.peers.len() as u32;
        let rank = self.peers.range(..ask.peer).count() as u32;
        let turn = (now / 5.0) as u32;
        let (mut calls, mut first) = (0, now);
        if self.version > 0 && ask.wants > 0 && now >= self.until && now >= self.held_until {
            if self.probe_first {
                if self.probed_at < self.until || self.probed_at + 5.0 < now {
                    self.probed_at = now;
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
                .filter(|_| ask.version != Some(self.version)),
            calls,
            first,
            rate: self.rate,
            part: self.most / peers + u32::from((rank + turn) % peers < self.most % peers),
            out_of_peers: self.peers.values().map(|(_, out)| out).sum::<u32>() - ask.out,
            sharing: peers,
            held_until: self.held_until,
            step,
        }
    }
}
