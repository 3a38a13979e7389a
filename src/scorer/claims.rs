//! Claims of requests in a ledger that several runs share: made before the calls, looked at before each attempt.

use std::pin::Pin;
use std::time::Duration;

use super::outcome::{RowOutcome, Stop};
use super::parts::Scorer;
use super::row_call::{Claim, RowCall, RowHistory};
#[cfg(test)]
use crate::ledger::RequestKey;
use crate::ledger::{
    ClaimRequest, ClaimResult, Claimed, Holding, LedgerWriter, Urgency, WorkerNumber,
};
use crate::pace::Closed;
use crate::verdict::Verdict;

/// How long to wait before another look at a lease that has ended, or at a request that another run calls for.
const LOOKED_AT_AGAIN: Duration = Duration::from_millis(500);

/// The claims of a row whose worker is lost are made again in a future of their own, which hardly any row needs.
type ClaimedAgain<'a> = Pin<Box<dyn Future<Output = Result<(), RowOutcome>> + 'a>>;

impl<S> Scorer<S> {
    /// Whether other runs write to the same ledger.
    pub(crate) fn shares_ledger(&self) -> bool {
        self.recorder
            .ledger
            .as_ref()
            .is_some_and(LedgerWriter::is_shared)
    }

    /// How many requests may be claimed ahead of their calls.
    pub(crate) fn calls_ahead(&self) -> usize {
        self.caller.gate.calls_ahead()
    }

    /// Claims requests, where runs share the ledger.
    ///
    /// # Errors
    /// The ledger cannot be written, so the run must stop.
    pub(crate) async fn claim(
        &self,
        requests: Vec<ClaimRequest>,
        urgency: Urgency,
    ) -> Result<Claimed, Stop> {
        match &self.recorder.ledger {
            Some(ledger) => { ledger.claim(requests, urgency).await }.map_err(Stop::of_ledger),
            None => Err(Stop::internal("there is no ledger to claim a request in")),
        }
    }

    /// A row has ended. Ends its claim if it has no answer: another run may ask.
    pub(super) fn end_claim(&self, call: &RowCall, outcome: &RowOutcome) {
        if !matches!(outcome.verdict, Some(Verdict::Scored(..))) {
            self.recorder.release(call);
        }
    }

    /// What the claims of a worker are worth now.
    pub(crate) fn holding(&self, worker: WorkerNumber) -> Holding {
        let ledger = self.recorder.ledger.as_ref();
        ledger.map_or(Holding::Held, |ledger| ledger.holding(worker))
    }

    /// Waits while the claims of this worker await the renewal of its lease. Without end where none is named, or no other run
    /// writes to the ledger.
    pub(crate) async fn lease_renewal(&self, worker: Option<WorkerNumber>) {
        match (&self.recorder.ledger, worker) {
            (Some(ledger), Some(worker)) => ledger.lease_renewal(worker).await,
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
                        let (Some(key), body) = (call.key, call.body.clone()) else {
                            break;
                        };
                        let request = vec![ClaimRequest { key, body }];
                        let claimed = self.claim(request, Urgency::Now).await;
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
                            Some(ClaimResult::Known(found, _)) => {
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
