//! Claiming requests ahead of their calls: which, when, and what follows.
//!
//! As many are claimed as will be called for within about a second: what is claimed, other runs cannot ask. Nothing here
//! waits.

use super::interests::ClaimNeeds;
use super::rows::Rows;
use crate::ledger::{ClaimResult, Claimed, RequestKey, Urgency};
use crate::scorer::{Claim, Stop};
use crate::telemetry::event::Event;

impl<S> Rows<'_, S> {
    /// Notes whether rows that are claimed may still be called for.
    pub(super) fn look_at_lease(&mut self) {
        if let Some(claims) = &mut self.claims
            && let Some(worker) = claims.next_worker()
        {
            claims.set_holding(self.scorer.holding(worker));
        }
    }

    /// The requests to claim now, if there are any, and none is being claimed. Rows that need no call are admitted with
    /// them.
    ///
    /// # Errors
    /// The run must stop: too many rows have failed, or the ledger cannot be read.
    pub(super) fn next_claims(&mut self) -> Result<Option<(Vec<RequestKey>, Urgency)>, Stop> {
        let ahead = self.scorer.calls_ahead();
        let has_room = self.gather_calls(ahead)?;
        let Some(claims) = &mut self.claims else {
            return Ok(None);
        };
        if !claims.may_claim(ahead, self.time) {
            return Ok(None);
        }
        let urgency = claims.urgency(has_room);
        let requests: Vec<_> = { claims.start(self.time).iter() }
            .filter_map(|call| call.key)
            .collect();
        Ok((!requests.is_empty()).then_some((requests, urgency)))
    }

    /// Admits rows for the next claims, also while others are being claimed: rows behind them may need no call. Whether
    /// there is room for more.
    fn gather_calls(&mut self, ahead: usize) -> Result<bool, Stop> {
        while { self.claims.as_ref() }.is_some_and(|claims| claims.room(ahead) > 0) {
            self.admit_without_call()?;
            let (Some(call), Some(claims)) = (self.admit_call(), &mut self.claims) else {
                return Ok(true);
            };
            claims.gather(call);
        }
        Ok(false)
    }

    /// What was claimed has come back.
    ///
    /// # Errors
    /// The run must stop: too many rows have failed.
    pub(super) fn claimed(&mut self, claimed: Claimed) -> Result<(), Stop> {
        let Claimed { worker, results } = claimed;
        self.look_at_lease();
        let Some(claims) = &mut self.claims else {
            return Ok(());
        };
        let mut known = Vec::new();
        for (mut call, result) in claims.take_out().into_iter().zip(results) {
            match result {
                ClaimResult::Ours { taken_over } => {
                    // It may have been claimed before, and not called for.
                    let taken_over = taken_over || call.claim.is_some_and(|it| it.taken_over);
                    call.claim = Some(Claim { worker, taken_over });
                    claims.add_ready(call);
                }
                ClaimResult::Taken => claims.add_taken(call, self.time),
                ClaimResult::Known(found) => known.push((call.row, found)),
            }
        }
        if let Some(taken) = claims.new_taken() {
            self.emit(Event::RowsTaken { rows: taken as u64 });
        }
        for (row, found) in known {
            self.report(row, &found);
            self.window.set_old(row, found.old);
            if let Some(known) = found.known {
                let same = self.take_same(row);
                self.settle_known(row, same, (known, found.from.origin()))?;
            }
        }
        Ok(())
    }

    /// What is waited for before rows can be called for.
    pub(super) fn claim_needs(&self) -> Option<ClaimNeeds> {
        let claims = self.claims.as_ref()?;
        Some(ClaimNeeds {
            batch: claims.is_out(),
            ask_again: claims.ask_again_at().filter(|_| !claims.is_out()),
            renewal: claims.awaits_renewal(),
        })
    }
}
