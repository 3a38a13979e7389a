//! Waits for what happens next to claims; the dispatcher acts on it.

use std::pin::Pin;

use futures::stream::{FuturesUnordered, StreamExt};
use tokio::time::Sleep;

use super::interests::ClaimNeeds;
use crate::ledger::Claimed;
use crate::scorer::{Scorer, Stop};

/// Something that happened to claims.
pub(super) enum ClaimWake {
    /// Requests that were being claimed have come back.
    Claimed(Result<Claimed, Stop>),
    /// It is time to ask again about requests that another run calls for.
    AskAgain,
    /// The lease was renewed, or is lost.
    LeaseChanged,
}

/// Where what happens to claims comes from.
pub(super) struct ClaimSources<'p, F> {
    /// The batch that is being claimed, if there is one.
    pub(super) batch: FuturesUnordered<F>,
    // Made once and reset.
    pub(super) timer: Pin<&'p mut Sleep>,
}

impl<F: Future<Output = Result<Claimed, Stop>>> ClaimSources<'_, F> {
    /// Waits for the first of what is needed.
    pub(super) async fn next<S>(&mut self, scorer: &Scorer<S>, needs: ClaimNeeds) -> ClaimWake {
        let Self { batch, timer } = self;
        if let Some(at) = needs.ask_again
            && timer.deadline() != at
        {
            timer.as_mut().reset(at);
        }
        let lease = scorer.lease_renewal(needs.renewal);
        tokio::select! {
            Some(claimed) = batch.next(), if needs.batch => ClaimWake::Claimed(claimed),
            () = timer, if needs.ask_again.is_some() => ClaimWake::AskAgain,
            () = lease => ClaimWake::LeaseChanged,
        }
    }
}
