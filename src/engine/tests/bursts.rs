//! The HTTP library's task for a connection sends what a call gives it, and must get its turn between ours.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::sync::Notify;

use super::harness::*;

/// Stands in for the connections: a call that starts wakes them, and they note how many rows have been read by then.
#[derive(Clone, Default)]
struct Connections(Arc<Inner>);

#[derive(Default)]
struct Inner {
    read: AtomicU64,
    wake: Notify,
    read_by_turn: Mutex<Vec<u64>>,
}

impl Observer for Connections {
    fn observe(&mut self, _: Duration, event: &Event, counts: &Counts) {
        self.0.read.store(counts.rows.read, Relaxed);
        if matches!(event, Event::AttemptBegan { .. }) {
            self.0.wake.notify_one();
        }
    }
}

impl Connections {
    async fn send(self) {
        loop {
            self.0.wake.notified().await;
            let read = self.0.read.load(Relaxed);
            self.0.read_by_turn.lock().unwrap().push(read);
        }
    }
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
