//! One row's way to its verdict: permit, call, classification, back-off, and again.
//!
//! This is the only place where calls are made. `pace` says when a call may start, `service` says what its result means,
//! `after_call` says what follows it. An answer is durable before it is a verdict.

use std::pin::Pin;

use tokio::time::Instant;

use super::after_call::{AfterCall, RowCall, RowHistory};
use super::state::{Engine, POLL_INTERVAL, RowEnd};
use super::stop::Stop;
use crate::base::error::Error;
use crate::ledger::{ClaimResult, PaidResult, Unanswered, Urgency};
use crate::pace::{Closed, Permit};
use crate::row::RowNumber;
use crate::service::{Exchange, Service};
use crate::telemetry::counts::Events;
use crate::telemetry::event::{Event, RetryCause};
use crate::verdict::{Reason, Verdict};

/// A row that needs no more calls.
#[derive(Debug)]
pub(super) struct ScoredRow {
    pub(super) row: RowNumber,
    /// `None` if it is left for a later run.
    pub(super) verdict: Option<Verdict>,
    /// Why the run must stop, if it must.
    pub(super) stop: Option<Stop>,
}

impl<S: Service> Engine<S> {
    /// Gets the row's verdict; `permit` is for the first call.
    pub(super) fn score<'a>(
        &'a self,
        mut call: RowCall,
        permit: Permit<'a>,
    ) -> impl Future<Output = ScoredRow> + 'a {
        async move {
            let mut history = RowHistory {
                again: call.taken_over.then_some(RetryCause::TakenOver),
                ..RowHistory::default()
            };
            let (verdict, stop) = self.call_until_done(&mut call, &mut history, permit).await;
            // Another run may call for a request without an answer. If a call of this row may have been billed, the other call
            // counts that.
            if !history.is_called {
                self.ledger.end_call(call.key, Unanswered::NotMade);
            }
            let (is_scored, is_open) = match &verdict {
                Some(Verdict::Scored(..)) => (true, false),
                Some(Verdict::Failed(failure)) => (false, failure.reason == Reason::Limit),
                None => (false, true),
            };
            if history.is_doubtful && is_open {
                self.ledger.end_call(call.key, Unanswered::MaybeBilled);
            } else if history.is_called && !is_scored {
                self.ledger.end_call(call.key, Unanswered::NotBilled);
            }
            let row = call.row;
            ScoredRow { row, verdict, stop }
        }
    }

    /// Makes calls until one of them ends the row.
    fn call_until_done<'a>(
        &'a self,
        call: &mut RowCall,
        history: &mut RowHistory,
        mut permit: Permit<'a>,
    ) -> impl Future<Output = RowEnd> {
        async move {
            loop {
                // A permit may have been given just before the calls ended.
                if self.gate.is_closed() {
                    return self.without_permit();
                }
                if self.ledger.holds(call.lease) {
                    if let Err(limit) = self.ledger.budget().reserve() {
                        return self.without_call(limit);
                    }
                    history.is_called = true;
                    let (exchange, key) = self.call_once(call, history, permit.began()).await;
                    // Held until the result is durable, and dropped before any other wait: it keeps others from calling.
                    let (next, undurable) = self.after_call(call, history, permit, exchange, key);
                    match next {
                        AfterCall::End {
                            verdict,
                            stored,
                            stop,
                        } => {
                            let kept = match (stored, &verdict) {
                                (Some(stored), Some(verdict)) => {
                                    self.keep(call, stored, verdict).await
                                }
                                _ => Ok(()),
                            };
                            drop(undurable);
                            return self.end_row(verdict, stop, kept);
                        }
                        AfterCall::Again(after) => {
                            drop(undurable);
                            self.ledger.end_call(call.key, Unanswered::Again);
                            history.is_called = false;
                            if let Err(limit) = self.ledger.budget().check() {
                                return self.without_call(limit);
                            }
                            if !after.is_zero() && self.gate.back_off(after).await == Err(Closed) {
                                return self.without_permit();
                            }
                        }
                    }
                } else {
                    drop(permit);
                    if let Err(end) = self.claim_again(call, history).await {
                        return end;
                    }
                }
                let is_first = !history.retries.has_failed && history.refusals.times == 0;
                let next = if is_first {
                    self.gate.permit().await
                } else {
                    self.gate.permit_again(&history.refusals).await
                };
                permit = match next {
                    Ok(permit) => permit,
                    Err(Closed) => return self.without_permit(),
                };
            }
        }
    }

    /// Makes one call. Returns its result, and the number of the API key that it carried.
    fn call_once(
        &self,
        call: &RowCall,
        history: &mut RowHistory,
        began: Instant,
    ) -> impl Future<Output = (Exchange, u64)> {
        async move {
            let key = self.state.borrow().key;
            history.calls = history.calls.saturating_add(1);
            let (row, again) = (call.row, history.again);
            self.events.emit_at(began, Event::CallBegan { row, again });
            let mut in_flight = CallInFlight {
                engine: self,
                call,
                number: history.calls,
                is_out: true,
            };
            let exchange = self.service.ask(call.body.clone()).await;
            in_flight.is_out = false;
            (exchange, key)
        }
    }
}

impl<S> Engine<S> {
    /// Makes the result of a request durable, with the verdict that it gives.
    async fn keep(
        &self,
        call: &RowCall,
        stored: PaidResult,
        verdict: &Verdict,
    ) -> Result<(), Error> {
        let mut unstored = Unstored {
            events: &self.events,
            row: call.row,
            may_be_lost: matches!(stored, PaidResult::Answer(_)),
        };
        self.ledger.keep(call.key, stored, verdict).await?;
        unstored.may_be_lost = false;
        Ok(())
    }

    /// How a row ends: it has its verdict if that is durable. The run must also stop if there is no space for further results.
    fn end_row(
        &self,
        verdict: Option<Verdict>,
        stop: Option<Stop>,
        kept: Result<(), Error>,
    ) -> RowEnd {
        let stop = stop.or_else(|| self.ledger.given_up().map(Stop::of_ledger));
        match kept {
            Ok(()) => (verdict, stop),
            Err(error) => (None, stop.or_else(|| Some(Stop::of_ledger(error)))),
        }
    }

    /// Waits until the row may be called for again, after its lease has ended. If it need not be, returns how it has ended.
    /// Hardly any row comes here, so it is a future of its own.
    fn claim_again<'a>(
        &'a self,
        call: &'a mut RowCall,
        history: &'a mut RowHistory,
    ) -> Pin<Box<dyn Future<Output = Result<(), RowEnd>> + 'a>> {
        Box::pin(async move {
            loop {
                let claimed = self.claim(vec![call.key], 1, Urgency::Now).await;
                let claimed = claimed.map_err(|stop| (None, Some(stop)))?;
                match claimed.results.into_iter().next() {
                    Some(ClaimResult::Granted { taken_over }) => {
                        if taken_over && !call.taken_over {
                            // Between two calls of this row another run may have called for it.
                            history.again = Some(RetryCause::TakenOver);
                        }
                        // Once taken over, always taken over: a later claim must not clear it.
                        call.taken_over |= taken_over;
                        call.lease = claimed.lease;
                        return Ok(());
                    }
                    Some(ClaimResult::Stored(found)) => {
                        if let Some(known) = found.result {
                            return Err((Some(self.stored(known)), None));
                        }
                    }
                    Some(ClaimResult::Taken | ClaimResult::Free) | None => {}
                }
                let waited = self.gate.back_off(POLL_INTERVAL).await;
                waited.map_err(|Closed| self.without_permit())?;
            }
        })
    }
}

/// A call that is out. A future that is dropped runs no code of its own: this reports that its call was abandoned, and may have
/// been billed.
struct CallInFlight<'a, S> {
    engine: &'a Engine<S>,
    call: &'a RowCall,
    /// The number of this call among those of the row, from 1.
    number: u32,
    is_out: bool,
}

impl<S> Drop for CallInFlight<'_, S> {
    fn drop(&mut self) {
        if !self.is_out {
            return;
        }
        let (row, attempt) = (self.call.row, self.number);
        let abandoned = Event::CallAbandoned { row, attempt };
        self.engine.events.emit(abandoned);
        let ledger = &self.engine.ledger;
        ledger.end_call(self.call.key, Unanswered::MaybeBilled);
    }
}

/// A result on its way to the disk. If it is dropped before it is there, it reports that a paid answer may be lost.
struct Unstored<'a> {
    events: &'a Events,
    row: RowNumber,
    may_be_lost: bool,
}

impl Drop for Unstored<'_> {
    fn drop(&mut self) {
        if self.may_be_lost {
            self.events.emit(Event::AnswerLost(self.row));
        }
    }
}
