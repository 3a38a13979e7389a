//! What a refusal says of the pace, and how much less is sent from then on.

use std::time::Duration;

use super::{Controller, FIRST_RATE, SinceCut};
use crate::pace::levels;
use crate::pace::limit_search::Finding;
use crate::pace::random_refusals::RandomRefusals;
use crate::pace::types::{Call, PaceEvent, Try};

/// With fewer answers nothing was measured yet.
const FEW_ANSWERS: u32 = 3;

/// A cut for a single row is taken back once in so many calls.
const RARE: u64 = 300;

impl Controller {
    pub(super) fn throttled(
        &mut self,
        now: Duration,
        call: Call,
        wait: Option<Duration>,
        tried: Try,
        fraction: f64,
    ) -> Option<PaceEvent> {
        self.throughput.refused(call);
        let row_waits = Some(PaceEvent::RowWaits(wait.unwrap_or_default()));
        // Others were accepted since this row was refused before: it is about the row.
        if tried == Try::AgainAlone {
            // It was the only one that was refused: what was put down to the pace is taken back. Where there are many such
            // rows, they are a share of all.
            if let Some((rate, in_flight)) = self.before_cut.take()
                && self.calls >= self.next_taken_back
            {
                self.next_taken_back = self.calls + RARE;
                self.rate = rate;
                self.in_flight = in_flight;
                self.set_limiter(now);
            }
            return row_waits;
        }
        self.before_cut = None;
        self.quota_hint.refused();
        let single = self.scouting && self.pauses.is_after(call.began);
        let counts = call.began >= self.last_cut && !single;
        let about_pace = self.random.share().is_none();
        let row_alone = RandomRefusals::is_row_alone(wait);
        if (!about_pace && row_alone) || (self.unlimited && wait.is_none_or(|wait| wait.is_zero()))
        {
            return row_waits;
        }
        // Of calls that were out together each is told the same.
        let back = wait
            .filter(|_| counts || single)
            .and_then(|wait| self.window.named(wait));
        if counts {
            let answers = self.since_cut.answers;
            self.last_cut = now;
            self.refused_since = call.began;
            self.interval.refused = true;
            self.since_cut = SinceCut::default();
            // Of a run that has hardly begun, a refusal is about somebody else's calls, or the calls of the run before.
            let early = answers < FEW_ANSWERS && !std::mem::replace(&mut self.warned, true);
            if about_pace && !early && self.too_much(now, call, wait, back) && row_alone {
                return row_waits;
            }
            self.set_limiter(now);
        } else if single {
            // At the pace of single calls it should have been borne.
            let pace = 1.0 / self.pauses.in_a_row().as_secs_f64().max(0.01);
            if row_alone && self.random.unexplained(now, pace, None, wait) {
                self.take_back();
                self.set_limiter(now);
                return row_waits;
            }
            if wait.is_none() {
                // A single call was not too fast: the window is not over yet.
                self.window.is_at_least(self.pauses.in_a_row());
                if let Some(measured) = self.throughput.still_refused(call) {
                    self.rate.at_most(measured.rate);
                    self.set_limiter(now);
                }
            }
        }
        let pause = self.pauses.begin(now, call.began, wait, fraction)?;
        self.throughput.paused(pause.length);
        self.scouting = true;
        Some(PaceEvent::Paused(pause))
    }

    /// Less from now on. The service accepts nothing until `back` from now, if it is believed to know. Whether it turns out
    /// that it refuses at any pace.
    fn too_much(
        &mut self,
        now: Duration,
        call: Call,
        wait: Option<Duration>,
        back: Option<Duration>,
    ) -> bool {
        let back = back
            .filter(|_| self.window.is_known())
            .map(|back| (now + back, self.calls + 1));
        let measured = self.throughput.at_refusal(call, back);
        let level = f64::from(call.level);
        if self.in_flight.is_past_limit(level) {
            let _ = self.in_flight.refused(now, level, None, false);
            return false;
        }
        let pace = self.pace_used(now);
        self.before_cut = Some((self.rate.clone(), self.in_flight.clone()));
        let is_borne = self.rate.is_sustained(pace);
        if let Some(level) = self.levels.refused(now, call.level, is_borne)
            && !self.unlimited
        {
            self.in_flight.limit_found(now, level.into(), levels::SEEN);
            self.random.explained();
            self.rate.forget();
            return false;
        }
        if self
            .rate
            .refused(now, pace, measured, self.window.is_proven())
            == Finding::Unexplained
            && self
                .random
                .unexplained(now, pace, measured.map(|measured| measured.rate), wait)
        {
            self.take_back();
            return true;
        }
        false
    }

    /// The refusals are the service's own: no limit is known by them.
    fn take_back(&mut self) {
        self.rate.forget();
        self.rate.at_least(FIRST_RATE);
        self.before_cut = None;
    }

    /// Calls a second that were refused: those that are allowed, where they are used, or those that began.
    fn pace_used(&self, now: Duration) -> f64 {
        let lasted = now
            .saturating_sub(self.interval.began)
            .max(super::SHORTEST_INTERVAL);
        let begun = self
            .pace_before
            .max(f64::from(self.interval.calls) / lasted.as_secs_f64());
        self.rate.value().min((begun * 2.0).max(super::LEAST_RATE))
    }
}
