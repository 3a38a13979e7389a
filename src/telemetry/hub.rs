//! Where the stages put their events: it counts them and shows them to the observers, in one order for all.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::event::Event;
use super::stats::Stats;

/// Somebody who watches a run. Called under a lock from every thread of the run: it must be quick and never block.
pub(crate) trait Observer: Send {
    /// An event happened at `at` after the run's begin; `stats` have it counted already.
    fn observe(&mut self, at: Duration, event: &Event, stats: &Stats);
}

/// Where stages put their events: counts them and shows them to the observers, in one order for everybody.
#[derive(Clone)]
pub(crate) struct Events(Arc<Hub>);

struct Hub {
    began: Instant,
    state: Mutex<State>,
}

struct State {
    stats: Stats,
    observers: Vec<Box<dyn Observer>>,
}

impl Events {
    /// A stream that begins now.
    #[must_use]
    pub(crate) fn new(observers: Vec<Box<dyn Observer>>) -> Self {
        let state = Mutex::new(State {
            stats: Stats::default(),
            observers,
        });
        Self(Arc::new(Hub {
            began: Instant::now(),
            state,
        }))
    }

    /// Tells that `event` happened now.
    pub(crate) fn emit(&self, event: Event) {
        self.emit_at(Instant::now(), event);
    }

    /// Tells that `event` happened at `when`: for whoever has just read the clock anyhow. Events are told in their order,
    /// but times may go back by as long as it takes to settle what is done.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "an event is told once and is gone"
    )]
    pub(crate) fn emit_at(&self, when: Instant, event: Event) {
        let at = when.saturating_duration_since(self.0.began);
        // A panic in another thread must not turn into one here; counters are whole after each event.
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { stats, observers } = &mut *state;
        stats.apply(at, &event);
        for observer in observers {
            observer.observe(at, &event, stats);
        }
    }

    /// Time since the run began.
    #[must_use]
    pub(crate) fn elapsed(&self) -> Duration {
        self.0.began.elapsed()
    }

    /// Looks at the counters.
    pub(crate) fn with_stats<T>(&self, look: impl FnOnce(&Stats) -> T) -> T {
        look(
            &self
                .0
                .state
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .stats,
        )
    }
}
