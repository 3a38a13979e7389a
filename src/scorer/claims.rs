//! Claims of requests: made before the calls, looked at before each attempt.

use std::pin::Pin;
use std::time::Duration;

use super::outcome::{RowOutcome, Stop};
use super::parts::Scorer;
use super::row_call::{Claim, RowCall, RowHistory};
use crate::ledger::{ClaimResult, Claimed, Holding, RequestKey, Urgency, WorkerNumber};
use crate::pace::Closed;
use crate::verdict::Verdict;

/// How long to wait before another look at a lease that has ended, or at a request that another run calls for.
const LOOKED_AT_AGAIN: Duration = Duration::from_millis(500);

/// The claims of a row whose worker is lost are made again in a future of their own, which hardly any row needs.
type ClaimedAgain<'a> = Pin<Box<dyn Future<Output = Result<(), RowOutcome>> + 'a>>;

impl<S> Scorer<S> {
    /// Whether answers are kept, and requests claimed.
    pub(crate) const fn has_ledger(&self) -> bool {
        self.recorder.ledger.is_some()
    }

    /// How many requests may be claimed ahead of their calls.
    pub(crate) fn calls_ahead(&self) -> usize {
        self.caller.gate.calls_ahead()
    }

    /// Claims requests.
    ///
    /// # Errors
    /// The ledger cannot be written, so the run must stop.
    pub(crate) async fn claim(
        &self,
        requests: Vec<RequestKey>,
        urgency: Urgency,
    ) -> Result<Claimed, Stop> {
        match &self.recorder.ledger {
            Some(ledger) => { ledger.claim(requests, urgency).await }.map_err(Stop::of_ledger),
            None => Err(Stop::internal("there is no ledger to claim a request in")),
        }
    }

    /// A row has ended. Ends its claim if it has no answer: another run may ask. If one of its calls may have been billed, the
    /// next one counts that.
    pub(super) fn end_claim(&self, call: &RowCall, history: &RowHistory, outcome: &RowOutcome) {
        match &outcome.verdict {
            Some(Verdict::Scored(..)) => {}
            None if history.is_doubtful() => self.recorder.abandon(call),
            _ => self.recorder.release(call),
        }
    }

    /// What the claims of a worker are worth now.
    pub(crate) fn holding(&self, worker: WorkerNumber) -> Holding {
        let ledger = self.recorder.ledger.as_ref();
        ledger.map_or(Holding::Held, |ledger| ledger.holding(worker))
    }

    /// Waits while the claims of this worker await the renewal of its lease. Without end where none is named, or there
    /// is no ledger.
    pub(crate) async fn lease_renewal(&self, worker: Option<WorkerNumber>) {
        match (&self.recorder.ledger, worker) {
            (Some(ledger), Some(worker)) => ledger.lease_settled(worker).await,
            _ => std::future::pending().await,
        }
    }

    /// Makes the clock of the lease jump, and has the ledger's thread look at it.
    #[cfg(test)]
    pub(crate) fn advance_lease(&self, by: Duration, unclaimed: RequestKey) {
        if let Some(ledger) = &self.recorder.ledger {
            ledger.advance_lease(by);
            ledger.release(unclaimed);
        }
    }

    /// Whether the row may be called for now, as far as its claim is concerned.
    pub(super) fn holds_claim(&self, call: &RowCall) -> bool {
        let claim = call.claim.as_ref();
        claim.is_none_or(|claim| self.holding(claim.worker) == Holding::Held)
    }

    /// Waits until the row may be called for again, after its lease has ended; otherwise returns how the row has ended.
    pub(super) fn claim_again<'a>(
        &'a self,
        call: &'a mut RowCall,
        history: &'a mut RowHistory,
    ) -> ClaimedAgain<'a> {
        Box::pin(async move {
            while let Some(claim) = &mut call.claim {
                match self.holding(claim.worker) {
                    Holding::Held => break,
                    Holding::AwaitsRenewal => {}
                    Holding::Lost => {
                        let Some(key) = call.key else {
                            break;
                        };
                        let claimed = self.claim(vec![key], Urgency::Now).await;
                        let claimed =
                            claimed.map_err(|stop| RowOutcome::stopped(call.row, stop))?;
                        let Claimed {
                            worker, results, ..
                        } = claimed;
                        match results.into_iter().next() {
                            Some(ClaimResult::Ours { taken_over }) => {
                                if taken_over && !claim.taken_over {
                                    history.was_taken_over();
                                }
                                // It stays so, also where the claim is made again.
                                let taken_over = taken_over || claim.taken_over;
                                *claim = Claim { worker, taken_over };
                                continue;
                            }
                            Some(ClaimResult::Known(found)) => {
                                if let Some(known) = found.known {
                                    return Err(RowOutcome::verdict(call.row, self.known(known)));
                                }
                            }
                            Some(ClaimResult::Taken) | None => {}
                        }
                    }
                }
                let waited = self.caller.gate.back_off(LOOKED_AT_AGAIN).await;
                waited.map_err(|Closed| RowOutcome::left(call.row))?;
            }
            Ok(())
        })
    }
}
