//! How calls are spread: the HTTP library's task for a connection sends what a call gives it, and runs between our turns.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::sync::Notify;

use super::harness::*;

/// Stands in for the connections: a call that starts wakes them, and they note how many have started since their last turn.
#[derive(Clone, Default)]
struct Connections(Arc<Inner>);

#[derive(Default)]
struct Inner {
    started: AtomicUsize,
    wake: Notify,
    bursts: Mutex<Vec<usize>>,
}

impl Observer for Connections {
    fn observe(&mut self, _: Duration, event: &Event, _: &Stats) {
        if matches!(event, Event::AttemptBegan { .. }) {
            self.0.started.fetch_add(1, Relaxed);
            self.0.wake.notify_one();
        }
    }
}

impl Connections {
    async fn send(self) {
        loop {
            self.0.wake.notified().await;
            let started = self.0.started.swap(0, Relaxed);
            self.0.bursts.lock().unwrap().push(started);
        }
    }
}

/// Makes calls for 300 rows, 64 at a time, that take so many milliseconds. How many were sent in each turn.
async fn bursts(latency: u64) -> Vec<usize> {
    const ROWS: u64 = 300;
    let service = Scripted::new(ScriptedResult::Verdict.after(latency));
    let connections = Connections::default();
    let scorer = Fixture::new(service)
        .concurrency(64)
        .observer(connections.clone())
        .build();
    let sending = tokio::spawn(connections.clone().send());
    // Some rows arrive in the middle of a burst.
    let around = Surroundings::of(batches(asked(ROWS, &[]), &[100]));
    let ran = run_to_end(&scorer, around).await;
    sending.abort();
    assert_eq!(ran.written.len(), usize::try_from(ROWS).unwrap());
    // The canary, and then five times 64 or the rest.
    assert_eq!(ran.elapsed, Duration::from_millis(latency * (1 + 5)));
    let bursts = connections.0.bursts.lock().unwrap();
    bursts.clone()
}

#[tokio::test(start_paused = true)]
async fn calls_that_may_start_together_are_sent_a_few_at_a_time() {
    let bursts = bursts(20).await;
    assert!(bursts.iter().all(|calls| *calls <= 8), "{bursts:?}");
}

#[tokio::test(start_paused = true)]
async fn quick_calls_are_sent_as_they_come() {
    let bursts = bursts(1).await;
    assert!(bursts.contains(&64), "{bursts:?}");
}
