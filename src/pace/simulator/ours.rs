//! Our controller as a pacer.

use std::time::Duration;

use super::pacers::{Answer, Pacer, Ticket};
use crate::pace::calls::{Bounds, Change, Try, Turn};
use crate::pace::controller::Controller;
use crate::pace::{Ended, Rate};
use crate::telemetry::event::Limit;

impl Pacer for Controller {
    fn ask(&mut self, now: Duration) -> Answer {
        match Self::ask(self, now) {
            Turn::Go(call) => Answer::Go(Ticket {
                began: now,
                call: Some(call),
            }),
            Turn::At(at) => Answer::At(at),
            Turn::AfterAnother => Answer::AfterAnother,
        }
    }

    fn ended(
        &mut self,
        now: Duration,
        ticket: Ticket,
        how: Ended,
        tried: Try,
        fraction: f64,
    ) -> Option<Duration> {
        match Self::ended(self, now, ticket.call.unwrap(), how, tried, fraction) {
            Some(Change::RowWaits(wait)) => Some(wait),
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

/// Ours, which begins near what an earlier one found.
pub(super) fn ours_near(in_flight: usize, known: Limit) -> Box<dyn Pacer> {
    Box::new(Controller::new(Bounds {
        rate: Rate::Auto,
        in_flight: in_flight.try_into().unwrap(),
        known,
        outage: Duration::from_secs(900),
    }))
}
