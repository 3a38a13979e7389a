//! One row's way to its verdict: attempts, each with a permit, until one settles it.

use super::outcome::{RowOutcome, Stop};
use super::parts::Scorer;
use super::row_call::{RowCall, RowHistory};
use super::settle::NextStep;
use crate::pace::{Closed, Permit};
use crate::service::Service;

impl<S: Service> Scorer<S> {
    /// Gets the row's verdict; `permit` is for the first attempt. An answer is durable before it is a verdict.
    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` stores its arguments twice, and this is allocated and moved for each row"
    )]
    pub(crate) fn score<'a>(
        &'a self,
        mut call: RowCall,
        permit: Permit<'a>,
    ) -> impl Future<Output = RowOutcome> + 'a {
        async move {
            let mut history = self.history(&call);
            let outcome = self.verdict(&mut call, &mut history, permit).await;
            self.end_claim(&call, &history, &outcome);
            outcome
        }
    }

    /// Makes attempts until one settles the row.
    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` stores its arguments twice, and this is part of what is allocated for each row"
    )]
    fn verdict<'a>(
        &'a self,
        call: &mut RowCall,
        history: &mut RowHistory,
        mut permit: Permit<'a>,
    ) -> impl Future<Output = RowOutcome> {
        async move {
            loop {
                // A permit may have been given just before the run started to stop.
                if self.caller.gate.is_closed() {
                    return RowOutcome::left(call.row);
                }
                if !self.holds_claim(call) {
                    drop(permit);
                    if let Err(ended) = self.claim_again(call, history).await {
                        return ended;
                    }
                    permit = match self.permit_after(history).await {
                        Ok(permit) => permit,
                        Err(Closed) => return RowOutcome::left(call.row),
                    };
                    continue;
                }
                if let Err(stop) = self.reserve_call() {
                    return RowOutcome::stopped(call.row, stop);
                }
                let ended = self.attempt(call, history, permit).await;
                // Held until the result is durable, and dropped before any other wait: it keeps others from calling.
                let (next, undurable) = self.settle(call, ended, history);
                match next {
                    NextStep::Keep(answer, body, stop) => {
                        let kept = self.recorder.keep(call.row, call.key, (answer, body)).await;
                        drop(undurable);
                        return self.recorder.outcome(call.row, kept, stop);
                    }
                    NextStep::Fail(fault, stop) => {
                        let kept = self.recorder.keep_failure(call.key, fault).await;
                        drop(undurable);
                        return self.recorder.outcome(call.row, kept, stop);
                    }
                    NextStep::End(outcome) => return outcome,
                    NextStep::Retry => drop(undurable),
                    NextStep::BackOff(length) => {
                        drop(undurable);
                        if self.caller.gate.back_off(length).await == Err(Closed) {
                            return RowOutcome::left(call.row);
                        }
                    }
                }
                permit = match self.permit_after(history).await {
                    Ok(permit) => permit,
                    Err(Closed) => return RowOutcome::left(call.row),
                };
            }
        }
    }

    /// The history of a row before its first call.
    fn history(&self, call: &RowCall) -> RowHistory {
        let request = self.recorder.request_hash(&call.body);
        let taken_over = call.claim.is_some_and(|claim| claim.taken_over);
        RowHistory::new(request, taken_over)
    }

    /// Takes a call out of the run's budget.
    fn reserve_call(&self) -> Result<(), Stop> {
        let reserved = self.policies.borrow_mut().calls.reserve();
        reserved.map_err(|(reason, error)| Stop::new(reason, error))
    }

    /// Waits for the permit of a further attempt.
    async fn permit_after(&self, history: &RowHistory) -> Result<Permit<'_>, Closed> {
        if history.attempts.is_first() && history.refusals.times() == 0 {
            self.caller.gate.permit().await
        } else {
            self.caller.gate.permit_again(&history.refusals).await
        }
    }
}
