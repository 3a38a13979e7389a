//! Whether the server answers, as all threads of the process know it, and since when it does not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Whether the server answers.
pub(crate) struct ServerContact {
    state: Mutex<State>,
    /// The run is over, and nobody waits for the server any more.
    over: AtomicBool,
    /// How long a run waits for the server.
    longest: Duration,
}

#[derive(Default)]
struct State {
    /// Since when it does not answer; `None` while it does.
    away: Option<Instant>,
    /// Its last words, or why there are none.
    reason: String,
    /// It answers that it will not: waiting is of no use.
    refused: bool,
    /// What waits for it after the run, in words.
    left: Option<String>,
}

impl ServerContact {
    /// It answers. A run waits for it this long.
    pub(super) fn new(longest: Duration) -> Self {
        Self {
            state: Mutex::default(),
            over: AtomicBool::new(false),
            longest,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere cannot leave it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It does not answer.
    pub(super) fn lose(&self, reason: &str) {
        let mut state = self.lock();
        state.away.get_or_insert_with(Instant::now);
        reason.clone_into(&mut state.reason);
    }

    /// It answers, and refuses what a run needs.
    pub(super) fn refuse(&self, reason: &str) {
        self.lose(reason);
        self.lock().refused = true;
    }

    /// It answers again.
    pub(super) fn regain(&self) {
        self.lock().away = None;
    }

    /// Whether it does not answer.
    pub(super) fn is_away(&self) -> bool {
        self.lock().away.is_some()
    }

    /// Why it was given up: it refuses, or has not answered for longer than a run waits.
    pub(super) fn given_up(&self) -> Option<String> {
        let state = self.lock();
        let long = state.away.is_some_and(|away| away.elapsed() > self.longest);
        (long || state.refused).then(|| state.reason.clone())
    }

    /// The run is over.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// The run has ended, and these answers wait for the server.
    pub(super) fn leave(&self, waiting: Option<String>) {
        self.lock().left = waiting;
    }

    /// What waits for the server after the run, in words.
    pub(crate) fn left(&self) -> Option<String> {
        self.lock().left.clone()
    }

    /// Whether the run is over.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}
