//! What a refusal says about the pace, and how much less is sent from then on.

use std::time::Duration;

use super::interval::SHORTEST_INTERVAL;
use super::state::{Controller, FIRST_RATE, SinceCut};
use crate::pace::limit_search::RefusalKind;
use crate::pace::pause;
use crate::pace::random_refusals::{RandomRefusals, Shown};
use crate::pace::throughput::Measurement;
use crate::pace::types::{Call, PaceEvent, Try};
use crate::pace::window::SHORTEST_WINDOW;
use crate::telemetry::pace::PaceCause;

/// The first refusal that comes after fewer answers than this, counted from the last cut, is put down to other calls, such as
/// those of the run before.
const FEW_ANSWERS: u32 = 3;

impl Controller {
    /// The service refused a call and perhaps named a wait.
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
        if tried == Try::FoundAlone {
            self.found_alone(now, wait);
        }
        if tried.is_alone() {
            return row_waits;
        }
        self.cause = Some(PaceCause::Throttled);
        self.before_cut = None;
        self.quota_hint.refused();
        let single = self.half_open && self.pauses.is_after(call.began);
        let counts = call.began >= self.last_cut && !single;
        let about_pace = self.random.share().is_none();
        if (!about_pace && RandomRefusals::is_row_alone(wait))
            || (self.unlimited && pause::named(wait).is_none())
        {
            return row_waits;
        }
        // Calls that were out together are all told the same.
        if let Some(wait) = wait.filter(|_| counts || single) {
            self.window.named(wait);
        }
        if counts {
            let answers = self.since_cut.answers;
            self.pace_is_cut(now, call.began);
            self.interval.refused = true;
            let early = answers < FEW_ANSWERS && !std::mem::replace(&mut self.early_refusal, true);
            // Without a search no limit is looked for: the service's own waits hold calls back.
            let searches = about_pace && !early && !self.unlimited;
            if searches && self.cut(now, call, wait) {
                return row_waits;
            }
            self.set_limiter(now);
        } else if single && !self.unlimited && self.single_refused(now, call, wait) {
            return row_waits;
        }
        let pause = self.pauses.begin(now, call.began, wait, fraction)?;
        self.half_open = true;
        Some(PaceEvent::Paused(pause))
    }

    /// A row was refused again while others were accepted, so its refusals are about the row: the cut that the first of them
    /// led to is undone.
    fn found_alone(&mut self, now: Duration, wait: Option<Duration>) {
        self.take_back_cut(now, PaceCause::RowAlone);
        if self.random.row_alone(now, wait) {
            self.forget_limit();
            self.set_limiter(now);
        }
    }

    /// Less is sent from now on, for a call that started at `began`.
    pub(super) fn pace_is_cut(&mut self, now: Duration, began: Duration) {
        self.last_cut = now;
        self.cut_for = began;
        self.since_cut = SinceCut::default();
    }

    /// Both searches are as they were before the last cut, as that was not about the pace.
    pub(super) fn take_back_cut(&mut self, now: Duration, cause: PaceCause) {
        if let Some((rate, in_flight)) = self.before_cut.take() {
            self.rate = rate;
            self.in_flight = in_flight;
            self.cause = Some(cause);
            self.set_limiter(now);
        }
    }

    /// The single call after a pause was refused as well. Whether it turns out that the service refuses at any pace.
    fn single_refused(&mut self, now: Duration, call: Call, wait: Option<Duration>) -> bool {
        // At the pace of single calls it should have been accepted.
        let spacing = self.pauses.in_a_row().max(SHORTEST_INTERVAL);
        let pace = 1.0 / spacing.as_secs_f64();
        let is_random =
            RandomRefusals::is_row_alone(wait) && self.unexplained(now, pace, None, wait);
        if !is_random && wait.is_none() && self.is_window_open() {
            // A single call is not too fast: the window is not over yet.
            self.window
                .refused_for(self.last_cut, self.pauses.in_a_row());
            if let Some(measured) = self.throughput.still_refused(call) {
                self.rate.at_most(measured.rate);
                self.set_limiter(now);
            }
        }
        is_random
    }

    /// Whether a single refused call can be put down to a window: that one was refused may be chance.
    fn is_window_open(&self) -> bool {
        self.pauses.in_a_row() >= SHORTEST_WINDOW || self.throughput.is_measured_well()
    }

    /// Sends less from now on. Whether it turns out that the service refuses at any pace.
    fn cut(&mut self, now: Duration, call: Call, wait: Option<Duration>) -> bool {
        // A service that counts in windows accepts nothing before the end of this one.
        let back = wait
            .filter(|_| self.window.is_known())
            .map(|wait| (now + wait, self.calls + 1));
        let measured = self.throughput.at_refusal(call, back);
        let pace = self.pace_used(now);
        let is_sustained = self.rate.is_sustained(pace);
        self.before_cut = Some((self.rate.clone(), self.in_flight.clone()));
        if self.is_in_flight(now, call.level, is_sustained) {
            return false;
        }
        self.too_much(now, pace, measured, wait)
    }

    /// The service refused at `pace`, and accepted `measured` before. Whether it turns out that it refuses at any pace.
    pub(super) fn too_much(
        &mut self,
        now: Duration,
        pace: f64,
        measured: Option<Measurement>,
        wait: Option<Duration>,
    ) -> bool {
        let kind = self.rate.refused(now, pace, measured);
        let accepted = measured.map(|measured| measured.rate);
        kind == RefusalKind::Unexplained && self.unexplained(now, pace, accepted, wait)
    }

    /// Nothing explains a refusal at `pace` yet. Whether it turns out that the service refuses at any pace.
    fn unexplained(
        &mut self,
        now: Duration,
        pace: f64,
        accepted: Option<f64>,
        wait: Option<Duration>,
    ) -> bool {
        match self.random.unexplained(now, pace, accepted, wait) {
            Shown::Nothing => return false,
            Shown::Limit(limit) => {
                self.rate.limit_between(limit, pace.max(limit));
                self.cause = Some(PaceCause::RandomRefusals);
                self.set_limiter(now);
                return false;
            }
            Shown::Random => {
                self.forget_limit();
                self.set_limiter(now);
            }
        }
        true
    }

    /// A call was refused that was the `level`th in flight. Whether there were just too many in flight; `is_sustained` says
    /// whether the pace is sustained otherwise.
    fn is_in_flight(&mut self, now: Duration, level: u32, is_sustained: bool) -> bool {
        if self.in_flight.is_past_limit(level.into()) {
            let _ = self.in_flight.refused(now, level.into(), None);
            self.before_cut = None;
            return true;
        }
        let found = self.levels.refused(level, is_sustained);
        let Some(level) = found.filter(|_| !self.unlimited) else {
            return false;
        };
        self.in_flight.limit_found(now, level.into());
        self.random.explained();
        self.rate.forget();
        true
    }

    /// The refusals are random: they show no limit, neither of the rate nor of the calls in flight.
    fn forget_limit(&mut self) {
        self.rate.forget();
        self.rate.raise_to(FIRST_RATE);
        self.in_flight.forget();
        self.cause = Some(PaceCause::RandomRefusals);
        self.before_cut = None;
    }
}
