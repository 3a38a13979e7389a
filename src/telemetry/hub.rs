//! Takes the events of all stages: counts them, then shows them to the observers, in the same order for all.
//!
//! Nothing here knows what an event means.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::counts::Counts;
use super::event::Event;

/// Watches a run. It is called under a lock from every thread of the run, so it must be quick and must not block.
pub(crate) trait Observer: Send {
    /// An event happened, `at` after the start of the run. `counts` include it already.
    fn observe(&mut self, at: Duration, event: &Event, counts: &Counts);
}

/// The stages' handle to the hub. Clones share it.
#[derive(Clone)]
pub(crate) struct Events(Arc<Hub>);

struct Hub {
    started: Instant,
    recorder: Mutex<Recorder>,
}

/// What every event goes through.
struct Recorder {
    counts: Counts,
    observers: Vec<Box<dyn Observer>>,
}

impl Events {
    /// The events of a run that starts now.
    pub(crate) fn new(observers: Vec<Box<dyn Observer>>) -> Self {
        let recorder = Mutex::new(Recorder {
            counts: Counts::default(),
            observers,
        });
        Self(Arc::new(Hub {
            started: Instant::now(),
            recorder,
        }))
    }

    /// Records that `event` happened now.
    pub(crate) fn emit(&self, event: Event) {
        self.emit_at(Instant::now(), event);
    }

    /// Records that `event` happened at `when`, for callers that have just read the clock. Events stay in the order of
    /// the calls, but their times may step back a little.
    #[allow(clippy::needless_pass_by_value, reason = "an event is recorded once")]
    pub(crate) fn emit_at(&self, when: Instant, event: Event) {
        let at = when.saturating_duration_since(self.0.started);
        let mut recorder = self.lock();
        let Recorder { counts, observers } = &mut *recorder;
        counts.apply(at, &event);
        for observer in observers {
            observer.observe(at, &event, counts);
        }
    }

    /// Time since the run began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.0.started.elapsed()
    }

    /// Reads the counts.
    pub(crate) fn with_counts<T>(&self, read: impl FnOnce(&Counts) -> T) -> T {
        read(&self.lock().counts)
    }

    fn lock(&self) -> MutexGuard<'_, Recorder> {
        // A panic in another thread must not turn into one here: the counters are consistent after each event.
        let recorder = self.0.recorder.lock();
        recorder.unwrap_or_else(PoisonError::into_inner)
    }
}
