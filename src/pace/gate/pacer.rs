//! What decides for the gate when a call may start: the run's own controller, or a pace that it shares with other runs.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use crate::pace::controller::Controller;
use crate::pace::shared::Sharing;
use crate::pace::types::{Admission, Allowance, Call, CallOutcome, PaceEvent, Try};
use crate::telemetry::pace::{Limit, Pace, PaceCause};

/// What decides when a call may start.
#[allow(clippy::large_enum_variant, reason = "there is one of it in a run")]
pub(super) enum Pacer {
    /// This run alone.
    Own(RefCell<Controller>),
    /// All runs that share the pace.
    Shared(Arc<Sharing>),
}

impl Pacer {
    /// Whether a call may start now. `Admitted` counts it as started.
    pub(super) fn admit(&self, now: Duration) -> Admission {
        match self {
            Self::Own(controller) => controller.borrow_mut().admit(now),
            Self::Shared(sharing) => sharing.with(|member| member.admit(now)),
        }
    }

    /// A call ended, which was this try of its row. `fraction` is random, from 0 up to 1.
    pub(super) fn call_ended(
        &self,
        now: Duration,
        call: Call,
        outcome: CallOutcome,
        tried: Try,
        fraction: f64,
    ) -> Option<PaceEvent> {
        match self {
            Self::Own(controller) => {
                let mut controller = controller.borrow_mut();
                controller.call_ended(now, call, outcome, tried, fraction)
            }
            Self::Shared(sharing) => {
                sharing.with(|member| member.call_ended(now, call, outcome, tried, fraction))
            }
        }
    }

    /// An answer's headers said what is left.
    pub(super) fn allowed(&self, now: Duration, began: Duration, allowance: Allowance) {
        match self {
            Self::Own(controller) => controller.borrow_mut().allowed(now, began, allowance),
            Self::Shared(sharing) => sharing.with(|member| member.allowed(allowance)),
        }
    }

    /// Whether the service is taken to be down.
    pub(super) fn is_down(&self) -> bool {
        match self {
            Self::Own(controller) => controller.borrow().is_down(),
            Self::Shared(sharing) => sharing.with(|member| member.is_down()),
        }
    }

    /// As many calls as start within about a second, and no more than twice as many as may be in flight together; at least
    /// one. So requests can be claimed while as many others are called for.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is positive, and what is above the ceiling is cut"
    )]
    pub(super) fn calls_ahead(&self, now: Duration) -> usize {
        let (rate, in_flight) = match self {
            Self::Own(controller) => {
                let controller = controller.borrow();
                (controller.rate(now), controller.most_in_flight())
            }
            Self::Shared(sharing) => {
                sharing.with(|member| (member.rate(), member.most_in_flight()))
            }
        };
        let most = 2 * in_flight.max(1);
        rate.map_or(most, |rate| (rate.ceil() as usize).clamp(1, most))
    }

    /// The service is not down, although it seemed so: for how long it was taken to be.
    pub(super) fn dismiss_outage(&self, now: Duration) -> Option<Duration> {
        match self {
            Self::Own(controller) => controller.borrow_mut().dismiss_outage(now),
            Self::Shared(sharing) => sharing.with(|member| member.dismiss_outage(now)),
        }
    }

    /// The pace, for people to read, and what has changed it since this was last asked.
    pub(super) fn pace(&self, now: Duration) -> (Pace, PaceCause) {
        match self {
            Self::Own(controller) => {
                let mut controller = controller.borrow_mut();
                (controller.pace(now), controller.take_cause())
            }
            Self::Shared(sharing) => sharing.with(|member| (member.pace(), member.cause())),
        }
    }

    /// The limits of the service that were found.
    pub(super) fn limit(&self) -> Limit {
        match self {
            Self::Own(controller) => controller.borrow().limit(),
            Self::Shared(sharing) => sharing.with(|member| member.limit()),
        }
    }
}
