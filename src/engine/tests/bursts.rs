//! How calls are spread: the HTTP library's task for a connection sends what a call gives it, and runs between our turns.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use tokio::sync::Notify;

use super::harness::*;

/// Stands in for the connections: a call that starts wakes them, and they note how many have started since their last turn,
/// and how many rows have been read by then.
#[derive(Clone, Default)]
struct Connections(Arc<Inner>);

#[derive(Default)]
struct Inner {
    started: AtomicUsize,
    read: AtomicU64,
    wake: Notify,
    bursts: Mutex<Vec<usize>>,
    read_by_turn: Mutex<Vec<u64>>,
}

impl Observer for Connections {
    fn observe(&mut self, _: Duration, event: &Event, counts: &Counts) {
        self.0.read.store(counts.rows.read, Relaxed);
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
            let read = self.0.read.load(Relaxed);
            self.0.read_by_turn.lock().unwrap().push(read);
        }
    }
}

/// Makes calls for 300 rows, so many at a time, that take so many milliseconds. How many were sent in each turn.
async fn bursts(latency: u64, in_flight: usize) -> Vec<usize> {
    const ROWS: u64 = 300;
    let service = Scripted::new(ScriptedResult::Verdict.after(latency));
    let connections = Connections::default();
    let engine = Fixture::new(service)
        .concurrency(in_flight)
        .observer(connections.clone())
        .build();
    let sending = tokio::spawn(connections.clone().send());
    // Some rows arrive in the middle of a burst.
    let around = Surroundings::of(batches(asked(ROWS, &[]), &[100]));
    let ran = run_to_end(&engine, around).await;
    sending.abort();
    assert_eq!(ran.written.len(), usize::try_from(ROWS).unwrap());
    // The canary, and then as many as there may be, or the rest.
    let rounds = 1 + (ROWS - 1).div_ceil(in_flight as u64);
    assert_eq!(ran.elapsed, Duration::from_millis(latency * rounds));
    let bursts = connections.0.bursts.lock().unwrap();
    bursts.clone()
}

#[tokio::test(start_paused = true)]
async fn calls_that_may_start_together_are_sent_a_few_at_a_time() {
    let bursts = bursts(20, 64).await;
    assert!(bursts.iter().all(|calls| *calls <= 8), "{bursts:?}");
}

#[tokio::test(start_paused = true)]
async fn quick_calls_are_sent_as_they_come() {
    let bursts = bursts(1, 64).await;
    assert!(bursts.contains(&64), "{bursts:?}");
}

/// Each that starts beside more others than before opens a connection.
#[tokio::test(start_paused = true)]
async fn quick_calls_without_connections_are_sent_a_few_at_a_time() {
    let bursts = bursts(1, 512).await;
    assert!(bursts.iter().all(|calls| *calls <= 8), "{bursts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_is_sent_although_rows_that_need_none_come_without_end() {
    const ROWS: u64 = 60;
    let connections = Connections::default();
    let engine = Fixture::new(Scripted::new(GOOD))
        .observer(connections.clone())
        .build();
    let sending = tokio::spawn(connections.clone().send());
    let need_none: Vec<_> = (2..=ROWS).collect();
    let mut around = Surroundings::of(batches(asked(ROWS, &need_none), &[1]));
    around.read_ahead = around.read.len();
    let ran = run_to_end(&engine, around).await;
    sending.abort();
    assert_eq!(ran.written.len(), usize::try_from(ROWS).unwrap());
    let read_by_turn = connections.0.read_by_turn.lock().unwrap();
    assert!(
        matches!(**read_by_turn, [read] if read < ROWS / 2),
        "{read_by_turn:?}"
    );
}
