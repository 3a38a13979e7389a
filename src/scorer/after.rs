//! What follows a call that brought nothing: for its row, and for the run.

use std::time::Duration;

use super::outage::{Means, Whose};
use super::{Scorer, stops};
use crate::base::error::Error;
use crate::ledger::RequestKey;
use crate::pace::{Attempts, Change, Failed, Newcomers, Reaction, Speaker, Trouble};
use crate::row::RowNumber;
use crate::service::{Class, Fault, Health};
use crate::telemetry::event::{CancelReason, Event};

/// What follows a failed call.
pub(super) enum Then {
    /// The row is tried again after this back-off.
    Again(Duration),
    /// The row has failed.
    Fail,
    /// The run stops.
    Stop(CancelReason, Error),
}

impl<S> Scorer<S> {
    /// What follows a call that brought nothing.
    pub(super) fn after(
        &self,
        row: RowNumber,
        fault: &Fault,
        probe: bool,
        change: Option<Change>,
        attempts: &mut Attempts,
    ) -> Then {
        if let Some(Change::Down { lasted, .. }) = change {
            let whose = self.whose(fault, attempts);
            match self.outage.went_on(lasted, self.patience.outage, whose) {
                Means::Wait => {}
                Means::Down => {
                    return Then::Stop(
                        CancelReason::Unavailable,
                        stops::down_for(&self.host, lasted, row, fault),
                    );
                }
                Means::Rows => {
                    if let Some(lasted) = self.gate.dismiss_outage() {
                        self.events.emit(Event::OutageDismissed { lasted });
                    }
                }
            }
        }
        // That the service is down is not this row's doing, and it was the one to find out.
        if probe && fault.class != Class::OutcomeUnknown {
            match fault.health {
                Health::Gone => return Then::Again(Duration::ZERO),
                // It may be the row all the same: it is not news again.
                Health::Failed => {
                    attempts.forgive();
                    return Then::Again(Duration::ZERO);
                }
                Health::AtWork | Health::Slow => {}
            }
        }
        let speaker = if fault.from_stranger {
            Speaker::Stranger
        } else {
            Speaker::Service
        };
        let mut fuse = self.fuse.borrow_mut();
        let (failed, trouble) = match fault.class {
            Class::OutcomeUnknown => (Failed::PerhapsBilled, Some(Trouble::GaveUp)),
            Class::HostNotFound if fuse.react(Trouble::HostNotFound) != Reaction::GoOn => {
                let (reason, error) =
                    stops::for_trouble(&self.host, Trouble::HostNotFound, 1, &fault.failure);
                return Then::Stop(reason, error);
            }
            Class::HostNotFound | Class::NotProcessed => {
                (Failed::NotProcessed, Some(Trouble::GaveUp))
            }
            Class::Unclear => (Failed::Refused, Some(Trouble::GaveUp)),
            Class::Useless => (Failed::ForGood, Some(Trouble::Useless(speaker))),
            Class::Forbidden => (Failed::ForGood, Some(Trouble::Forbidden)),
            Class::RowsFault => (Failed::ForGood, Some(Trouble::Refused(speaker))),
        };
        if let Some(back_off) = self.retries.next(failed, attempts, self.gate.fraction()) {
            return Then::Again(back_off);
        }
        let reaction = trouble.map_or(Reaction::GoOn, |trouble| fuse.react(trouble));
        match (trouble, reaction) {
            (Some(trouble), Reaction::Stop(rows)) => {
                let (reason, error) = stops::for_trouble(&self.host, trouble, rows, &fault.failure);
                return Then::Stop(reason, error);
            }
            (_, Reaction::Warn(rows)) => self.events.emit(Event::ManyRefused { rows }),
            _ => {}
        }
        Then::Fail
    }

    /// Has the next run know that the service fails over this row, unless it may have failed over any.
    pub(super) fn remember(&self, key: Option<RequestKey>, fault: &Fault, attempts: &Attempts) {
        if fault.health != Health::Failed {
            return;
        }
        self.outage.gave_up(key.as_ref());
        let is_well = (self.gate.is_proven() || self.outage.is_rows()) && !self.gate.is_down();
        // A single failure may be the hour's.
        if let (Some(keeper), Some(key)) = (&self.keeper, key)
            && !attempts.is_first()
            && (is_well || self.outage.is_poison(Some(&key)))
        {
            keeper.failed(key);
        }
    }

    /// Whose call it is that has failed, as far as an outage is concerned.
    fn whose(&self, fault: &Fault, attempts: &Attempts) -> Whose {
        if fault.health != Health::Failed {
            Whose::Anybody
        } else if attempts.is_first() {
            Whose::Newcomer
        } else if self.gate.newcomers() == Newcomers::None {
            Whose::LastOnes
        } else {
            Whose::Repeater
        }
    }
}
