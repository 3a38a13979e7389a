//! What the controller knows, and the pace that follows from it.

use std::time::Duration;

use crate::pace::breaker::CircuitBreaker;
use crate::pace::latency::Latency;
use crate::pace::levels::InFlightLevels;
use crate::pace::limit_search::{LimitSearch, Quantity};
use crate::pace::limiter::Limiter;
use crate::pace::pause::Pauses;
use crate::pace::quota_hint::QuotaHint;
use crate::pace::random_refusals::RandomRefusals;
use crate::pace::rate::Rate;
use crate::pace::throughput::Throughput;
use crate::pace::types::{Allowance, PaceLimits};
use crate::pace::window::QuotaWindow;
use crate::telemetry::pace::{FoundLimit, Limit, Pace, PaceCause};

/// Decides when calls start.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(in crate::pace) struct Controller {
    pub(super) rate: LimitSearch,
    pub(super) in_flight: LimitSearch,
    pub(super) limiter: Limiter,
    /// The user asked for no rate limit.
    pub(super) unlimited: bool,
    /// Calls that are out now.
    pub(super) out: usize,
    /// Calls that have started.
    pub(super) calls: u64,
    pub(super) pauses: Pauses,
    pub(super) breaker: CircuitBreaker,
    pub(super) throughput: Throughput,
    pub(super) random: RandomRefusals,
    pub(super) levels: InFlightLevels,
    pub(super) latency: Latency,
    pub(super) window: QuotaWindow,
    pub(super) quota_hint: QuotaHint,
    pub(super) interval: Interval,
    /// Calls a second that started in the interval before.
    pub(super) last_pace: f64,
    /// When the pace was last cut: refusals of calls that started before are about a pace that was given up already.
    pub(super) last_cut: Duration,
    /// When the call started whose refusal led to that.
    pub(super) cut_for: Duration,
    pub(super) since_cut: SinceCut,
    /// Both searches as they were before the last cut, while it may turn out to be about a single row.
    pub(super) before_cut: Option<(LimitSearch, LimitSearch)>,
    /// A refusal came too early to mean much; the next one counts.
    pub(super) early_refusal: bool,
    /// After a pause a single call goes first.
    pub(super) half_open: bool,
    /// When the single call started that is out, after a pause or in an outage.
    pub(super) single: Option<Duration>,
    /// What has changed the pace since this was last asked.
    pub(super) cause: Option<PaceCause>,
}

/// What has ended since the pace was last cut.
#[derive(Debug, Default)]
pub(super) struct SinceCut {
    pub(super) answers: u32,
    pub(super) timeouts: u32,
}

/// The time between two looks at how it goes.
#[derive(Debug, Default)]
pub(super) struct Interval {
    pub(super) began: Duration,
    pub(super) ends: Duration,
    pub(super) calls: u32,
    pub(super) answers: u32,
    pub(super) failures: u32,
    pub(super) refused: bool,
    /// A call had to wait for the rate.
    pub(super) rate_used: bool,
    /// A call had to wait for another one to end.
    pub(super) in_flight_used: bool,
}

/// The first rate of a run without `--rate`: ten calls a second hurt no service.
pub(super) const FIRST_RATE: f64 = 10.0;
/// The first calls in flight of such a run: enough to reach that rate with answers of 0.4 s.
const FIRST_IN_FLIGHT: f64 = 4.0;
/// The share of the pace at which random refusals are compared: of two fifths that a limit refuses, none would be left.
pub(super) const COMPARED: f64 = 0.5;
/// A call a minute: a limit below that is kept by pauses.
pub(super) const LEAST_RATE: f64 = 1.0 / 60.0;

impl Controller {
    pub(in crate::pace) fn new(limits: PaceLimits) -> Self {
        let (first, most) = match limits.rate {
            Rate::Auto => (FIRST_RATE, Rate::HIGHEST),
            Rate::PerSecond(rate) => (rate, rate),
            Rate::Unlimited => (Rate::HIGHEST, Rate::HIGHEST),
        };
        #[allow(clippy::cast_precision_loss, reason = "thousands at most")]
        let most_in_flight = limits.in_flight.get() as f64;
        let first_in_flight = match limits.rate {
            Rate::Auto => FIRST_IN_FLIGHT,
            // A user who names a rate knows the service.
            Rate::PerSecond(_) | Rate::Unlimited => most_in_flight,
        };
        let mut rate = LimitSearch::new(Quantity::Rate, first, LEAST_RATE.min(most), most);
        let mut in_flight =
            LimitSearch::new(Quantity::InFlight, first_in_flight, 1.0, most_in_flight);
        let unlimited = limits.rate == Rate::Unlimited;
        // No limit also means none from an earlier run.
        let known = if unlimited { Limit::NONE } else { limits.known };
        // A doubtful one below the first rate may be what trouble left behind, and a first look costs a few refusals.
        let is_of_use = |known: &FoundLimit| !known.is_doubtful() || known.value >= FIRST_RATE;
        if let Some(known) = known.rate.filter(is_of_use) {
            rate.start_near(known);
        }
        if let Some(known) = known.in_flight {
            in_flight.start_near(FoundLimit {
                value: known.value + 1.0,
                ..known
            });
        }
        let mut controller = Self {
            rate,
            in_flight,
            limiter: Limiter::new(Rate::Unlimited),
            unlimited,
            out: 0,
            calls: 0,
            pauses: Pauses::new(limits.wait),
            breaker: CircuitBreaker::new(limits.outage),
            throughput: Throughput::default(),
            random: RandomRefusals::default(),
            levels: InFlightLevels::default(),
            latency: Latency::default(),
            window: QuotaWindow::default(),
            quota_hint: QuotaHint::default(),
            interval: Interval::default(),
            last_pace: 0.0,
            last_cut: Duration::ZERO,
            cut_for: Duration::ZERO,
            since_cut: SinceCut::default(),
            before_cut: None,
            early_refusal: false,
            half_open: false,
            single: None,
            cause: None,
        };
        controller.set_limiter(Duration::ZERO);
        controller
    }

    /// The headers of an answer to a call that started at `began` said what is left.
    pub(in crate::pace) fn allowed(
        &mut self,
        now: Duration,
        began: Duration,
        allowance: Allowance,
    ) {
        self.quota_hint.note(now, began, allowance);
        self.set_limiter(now);
    }

    /// Calls a second that are allowed now; `None` if nothing limits them.
    pub(in crate::pace) fn rate(&self, now: Duration) -> Option<f64> {
        let own = (!self.unlimited).then(|| self.searched_rate());
        match (own, self.quota_hint.rate(now)) {
            (Some(own), Some(hinted)) => Some(own.min(hinted)),
            (own, hinted) => own.or(hinted),
        }
    }

    /// The rate that the search allows now.
    pub(super) fn searched_rate(&self) -> f64 {
        let rate = self.rate.value();
        if self.random.is_comparing() {
            rate * COMPARED
        } else {
            rate
        }
    }

    /// Calls in flight that are allowed now.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 1 to the user's ceiling"
    )]
    pub(in crate::pace) fn most_in_flight(&self) -> usize {
        self.in_flight.value() as usize
    }

    /// The pace, for people to read.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 1 to the user's ceiling"
    )]
    pub(in crate::pace) fn pace(&self, now: Duration) -> Pace {
        let limit = self.limit().seen_as_limit();
        Pace {
            rate: self.rate(now),
            in_flight: self.most_in_flight(),
            search: self.rate.stage(),
            limit: limit.rate.map(|found| found.value),
            limit_in_flight: limit.in_flight.map(|found| found.value as usize),
            headers: self.quota_hint.hint(now),
            refused_at_any: self.random.share(),
            at_ceiling: self.rate.is_at_most(),
        }
    }

    /// What has changed the pace since this was last asked, if it has changed.
    pub(in crate::pace) fn take_cause(&mut self) -> PaceCause {
        // Nothing else changes it by itself: what headers ask for holds for a time.
        self.cause.take().unwrap_or(PaceCause::Headers)
    }

    /// The limits of the service that were found.
    pub(in crate::pace) fn limit(&self) -> Limit {
        Limit {
            rate: self.rate.limit(),
            // The least that was refused is one more than the limit.
            in_flight: self.in_flight.limit().map(|found| FoundLimit {
                value: found.value - 1.0,
                ..found
            }),
        }
    }

    /// Whether the service is taken to be down.
    pub(in crate::pace) const fn is_down(&self) -> bool {
        self.breaker.is_open()
    }

    /// Has the limiter keep to the rate that is allowed now.
    pub(super) fn set_limiter(&mut self, now: Duration) {
        self.limiter
            .set(self.rate(now).map_or(Rate::Unlimited, Rate::PerSecond));
    }
}
