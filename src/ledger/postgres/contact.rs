//! Whether the server does what a run needs, as all threads of the process know it, and since when it does not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Whether the server does what a run needs.
pub(crate) struct ServerContact {
    state: Mutex<ContactState>,
    /// The run is over, and nobody waits for the server any more.
    over: AtomicBool,
    /// How long a run waits for the server.
    longest: Duration,
}

#[derive(Default)]
struct ContactState {
    /// Since when nothing was claimed or stored that should have been; `None` while all is well. A server that answers, and
    /// does neither, is of no use.
    since: Option<Instant>,
    /// Whether it does not answer, so that nothing is asked of it.
    away: bool,
    /// Whether claims were refused that will be asked for again.
    claims_wait: bool,
    /// Its latest error, or why it does not answer.
    reason: String,
    /// What waits for it on this machine.
    waiting: Option<WaitingAnswers>,
}

/// Paid answers that wait on this machine for the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitingAnswers {
    /// How many, and where, in words.
    pub(crate) words: String,
    /// What to do, in words: with the command that brings them to the server.
    pub(crate) hint: String,
}

/// Why a run waits for the server, or has waited for too long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerOutage {
    /// The server's latest error, or why it does not answer.
    pub(super) reason: String,
    /// Whether the run waits no longer.
    pub(super) given_up: bool,
}

impl ServerContact {
    /// All is well. A run waits for the server this long.
    pub(super) fn new(longest: Duration) -> Self {
        Self {
            state: Mutex::default(),
            over: AtomicBool::new(false),
            longest,
        }
    }

    fn lock(&self) -> MutexGuard<'_, ContactState> {
        // A panic elsewhere cannot leave it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It did not do what it was asked for, whatever the reason: somebody may put that right while the run waits.
    pub(super) fn lose(&self, reason: &str) {
        let mut state = self.lock();
        state.since.get_or_insert_with(Instant::now);
        state.away = true;
        reason.clone_into(&mut state.reason);
    }

    /// It has refused claims.
    pub(super) fn lose_claims(&self, reason: &str) {
        self.lose(reason);
        self.lock().claims_wait = true;
    }

    /// It answers again, and has all answers. Whether it takes claims that it refused is seen when they are asked for.
    pub(super) fn regain(&self) {
        let mut state = self.lock();
        state.away = false;
        if !state.claims_wait {
            state.since = None;
        }
    }

    /// It has claimed or stored something.
    pub(super) fn works(&self) {
        let mut state = self.lock();
        state.since = None;
        state.claims_wait = false;
    }

    /// Whether it does not answer.
    pub(super) fn is_away(&self) -> bool {
        self.lock().away
    }

    /// Why it cannot be relied on now; `None` while all is well.
    pub(super) fn outage(&self) -> Option<ServerOutage> {
        let state = self.lock();
        let since = state.since?;
        Some(ServerOutage {
            reason: state.reason.clone(),
            given_up: state.away && since.elapsed() > self.longest,
        })
    }

    /// Whether a run that has waited since then waits no longer.
    pub(super) fn is_too_long(&self, since: Instant) -> bool {
        self.over.load(Ordering::Acquire)
            || since.elapsed() > self.longest
            || self.outage().is_some_and(|outage| outage.given_up)
    }

    /// The run is over.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// These answers wait for the server.
    pub(super) fn set_waiting(&self, waiting: Option<WaitingAnswers>) {
        self.lock().waiting = waiting;
    }

    /// What waits for the server.
    pub(crate) fn waiting(&self) -> Option<WaitingAnswers> {
        self.lock().waiting.clone()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_server_that_answers_and_takes_no_claims_is_given_up_like_one_that_is_away() {
        let contact = ServerContact::new(LONGEST);
        assert_eq!(contact.outage(), None);
        for _ in 0..4 {
            contact.lose_claims("it does not answer");
            let outage = contact.outage().unwrap();
            assert!(!outage.given_up);
            tokio::time::advance(Duration::from_secs(16)).await;
            contact.regain();
            assert!(!contact.is_away() && !contact.outage().unwrap().given_up);
        }
        contact.lose_claims("it does not answer");
        assert!(contact.outage().unwrap().given_up);
        contact.regain();
        contact.works();
        contact.lose_claims("it does not answer");
        assert!(!contact.outage().unwrap().given_up);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_answers_while_nothing_waits_for_it_is_there_again() {
        let contact = ServerContact::new(LONGEST);
        contact.lose("it does not answer");
        contact.regain();
        assert_eq!(contact.outage(), None);
        // The run has waited for the service.
        tokio::time::advance(LONGEST * 2).await;
        contact.lose("it does not answer");
        assert!(!contact.outage().unwrap().given_up);
        tokio::time::advance(LONGEST * 2).await;
        assert!(contact.outage().unwrap().given_up);
    }
}
