//! Our controller as a pacer.

use std::time::Duration;

use super::pacers::{Answer, Pacer, Ticket};
use crate::pace::controller::Controller;
use crate::pace::rate::Rate;
use crate::pace::types::{Admission, CallOutcome, PaceEvent, PaceLimits, Try};
use crate::telemetry::pace::Limit;

impl Pacer for Controller {
    fn ask(&mut self, now: Duration) -> Answer {
        match Self::admit(self, now) {
            Admission::Admitted(call) => Answer::Go(Ticket {
                began: now,
                call: Some(call),
            }),
            Admission::NotBefore(at) => Answer::At(at),
            Admission::AfterAnother => Answer::AfterAnother,
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
        match Self::call_ended(self, now, ticket.call.unwrap(), how, tried, fraction) {
            Some(PaceEvent::RowWaits(wait)) => Some(wait),
            _ => None,
        }
    }

    fn limit(&self) -> Limit {
        Self::limit(self)
    }
}

/// Ours, with this ceiling of calls in flight.
pub(super) fn ours(in_flight: usize) -> Box<dyn Pacer> {
    ours_near(in_flight, Limit::NONE)
}

/// Ours, starting near the limit that an earlier run found.
pub(super) fn ours_near(in_flight: usize, known: Limit) -> Box<dyn Pacer> {
    Box::new(Controller::new(PaceLimits {
        rate: Rate::Auto,
        in_flight: in_flight.try_into().unwrap(),
        known,
        wait: Duration::from_secs(900),
        outage: Duration::from_secs(900),
    }))
}
