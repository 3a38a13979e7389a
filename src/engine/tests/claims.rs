//! The dispatcher beside another run on the same ledger: what that run asks about, this one does not.

use super::harness::*;
use super::ledger::{Shared, asking, keyed};
use crate::engine::dispatcher::Dispatcher;
use crate::ledger::{
    ClaimResult, LedgerWriter, OpenLedger, Outcome, RequestHasher, RunningLedger, Urgency,
};

/// Does something with a ledger while nothing happens here: on this thread the paused clock would advance.
fn elsewhere<T: Send>(act: impl AsyncFnOnce() -> T + Send) -> T {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(act())
    };
    std::thread::scope(|scope| scope.spawn(run).join().unwrap())
}

/// Another run that has claimed some rows.
struct OtherRun {
    running: RunningLedger,
    writer: LedgerWriter,
    keys: RequestHasher,
}

impl OtherRun {
    fn claiming(ledger: OpenLedger, rows: &[u64]) -> Self {
        let keys = ledger.hasher();
        let (running, writer) = ledger.start().unwrap();
        let request = |row: &u64| keys.key(&Scripted::body(*row));
        let requests: Vec<_> = rows.iter().map(request).collect();
        let (claimed, writer) =
            elsewhere(async move || (writer.claim(requests, Urgency::Now).await, writer));
        let ours = ClaimResult::Ours { taken_over: false };
        assert!(claimed.unwrap().results.iter().all(|it| *it == ours));
        Self {
            running,
            writer,
            keys,
        }
    }

    /// Gets its answer for a row.
    fn answers(self, row: u64) -> Self {
        let Self {
            running,
            writer,
            keys,
        } = self;
        let key = keys.key(&Scripted::body(row));
        let body = r#"{"transaction_id":"another-run","summary":{"risk_score":1}}"#;
        let answer = Outcome::Answer(Bytes::from_static(body.as_bytes()));
        let (kept, writer) = elsewhere(async move || (writer.keep(key, answer).await, writer));
        assert!(kept.is_ok());
        Self {
            running,
            writer,
            keys,
        }
    }

    /// Gives a row up.
    fn gives_up(&self, row: u64) {
        let key = self.keys.key(&Scripted::body(row));
        self.writer.release(key);
    }
}

#[tokio::test(start_paused = true)]
async fn a_row_that_another_run_asks_about_gets_its_answer_and_holds_up_no_other() {
    let shared = Shared::new();
    let other = OtherRun::claiming(shared.open(), &[2]);
    let ours = shared.open();
    let keys = ours.hasher();
    let (_running, writer) = ours.start().unwrap();
    let log = Log::default();
    let engine = { fixture(8, &log, Scripted::new(GOOD)) }
        .ledger(writer)
        .build();
    let meanwhile = async {
        until(&engine, |counts| counts.calls.answered == 4).await;
        assert_eq!(engine.events().with_counts(|counts| counts.taken), 1);
        let _other = other.answers(2);
        std::future::pending::<()>().await;
    };
    // Row 6 asks the same as row 2.
    let mut rows = asked(5, &[]);
    rows.push(request(2));
    let around = Surroundings::of(keyed(rows, &keys, 128));
    let ran = Box::pin(run_with(&engine, around, meanwhile)).await;
    assert_eq!(ran.rows(), [1, 2, 3, 4, 5, 6]);
    let mut called = engine.service().rows();
    called.sort_unstable();
    assert_eq!(called, [1, 3, 4, 5]);
    let counts = engine.events().with_counts(Clone::clone);
    assert_eq!((counts.known, counts.taken), (2, 0));
    assert_invariants(&engine);
}

#[tokio::test(start_paused = true)]
async fn rows_that_need_no_call_pass_those_that_wait_to_be_claimed() {
    let shared = Shared::new();
    let ours = shared.open();
    let keys = ours.hasher();
    let (_running, writer) = ours.start().unwrap();
    let log = Log::default();
    let engine = { fixture(8, &log, Scripted::new(GOOD)) }
        .ledger(writer)
        .build();
    let meanwhile = async {
        until(&engine, |counts| counts.rows.read == 1).await;
        // Before its answer is stored, few rows are claimed.
        until_in_no_time(&engine, |counts| counts.rows.resolved == 1).await;
        // While another program writes, claims wait.
        let other = rusqlite::Connection::open(shared.path()).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let all_read = until(&engine, |counts| counts.rows.read == 20);
        let all_read = tokio::time::timeout(Duration::from_secs(60), all_read).await;
        drop(other);
        let read = engine.events().with_counts(|counts| counts.rows.read);
        assert!(all_read.is_ok(), "held up after {read} rows");
        std::future::pending::<()>().await;
    };
    // After the first two rows all ask the same.
    let asked = { 1..=20 }.map(|row| request(row.min(3))).collect();
    let mut around = Surroundings::of(keyed(asked, &keys, 1));
    around.read_delay = Duration::from_secs(1);
    let ran = Box::pin(run_with(&engine, around, meanwhile)).await;
    assert_eq!(ran.rows(), (1..=20).collect::<Vec<_>>());
    assert_eq!(engine.service().rows(), [1, 2, 3]);
    assert_invariants(&engine);
}

#[tokio::test(start_paused = true)]
async fn claims_wait_for_more_rows_only_where_more_may_be_claimed() {
    let shared = Shared::new();
    let ours = shared.open();
    let keys = ours.hasher();
    let (_running, writer) = ours.start().unwrap();
    let engine = { fixture(8, &Log::default(), Scripted::new(GOOD)) }
        .ledger(writer)
        .build();
    let claimed = |rows: u64| {
        let mut dispatcher = Dispatcher::new(&engine, WINDOW);
        let [_, read, _] = <[Read; 3]>::try_from(asking(1 + rows, &keys)).unwrap();
        dispatcher.read(Some(read));
        let (requests, urgency) = dispatcher.claim_now().unwrap();
        (requests.len(), urgency)
    };
    assert_eq!(claimed(3), (1, Urgency::Now), "the canary");
    run_to_end(&engine, Surroundings::of(asking(1, &keys))).await;
    // There is room for twice as many as may be in flight.
    assert_eq!(claimed(15), (15, Urgency::Soon));
    assert_eq!(claimed(16), (16, Urgency::Now));
}

#[tokio::test(start_paused = true)]
async fn a_row_that_another_run_gives_up_is_asked_here() {
    let shared = Shared::new();
    let other = OtherRun::claiming(shared.open(), &[1, 2, 3]);
    let ours = shared.open();
    let keys = ours.hasher();
    let (_running, writer) = ours.start().unwrap();
    let log = Log::default();
    let engine = { fixture(8, &log, Scripted::new(GOOD)) }
        .ledger(writer)
        .build();
    let meanwhile = async {
        until(&engine, |counts| counts.taken == 3).await;
        other.gives_up(3);
        until(&engine, |counts| counts.calls.answered == 1).await;
        let _other = other.answers(1);
        until(&engine, |counts| counts.known == 1).await;
    };
    let around = Surroundings::of(asking(3, &keys));
    let ran = Box::pin(run_with(&engine, around, meanwhile)).await;
    // The other run still asks about row 2 when this one is interrupted: it is left for the next run.
    assert_eq!(ran.rows(), [1, 3]);
    assert_eq!(engine.service().rows(), [3]);
    assert_eq!(ran.stop.unwrap().reason, CancelReason::Interrupted);
    let counts = engine.events().with_counts(Clone::clone);
    assert_eq!((counts.known, counts.rows.unfinished), (1, 1));
    assert_invariants(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_row_that_others_took_over_in_its_back_off_is_claimed_again_and_counted() {
    /// The run's worker is taken for gone, and so is another one that had taken its claims over.
    const TAKEN_OVER: &str = "UPDATE claims SET run = 7, start = 7; UPDATE runs SET until = 0";
    let shared = Shared::new();
    let ours = shared.open();
    let keys = ours.hasher();
    let (_running, writer) = ours.start().unwrap();
    let log = Log::default();
    let service = Scripted::new(GOOD).row(2, [SICK]);
    let engine = fixture(8, &log, service).ledger(writer).build();
    let meanwhile = async {
        // The claim of the first row has ended, and the back-off of the second has just begun.
        let backs_off = |counts: &Counts| {
            (
                counts.rows.resolved,
                counts.calls.sent,
                counts.calls.in_flight,
            ) == (1, 2, 0)
        };
        until_in_no_time(&engine, backs_off).await;
        let ledger = rusqlite::Connection::open(shared.path()).unwrap();
        ledger.execute_batch(TAKEN_OVER).unwrap();
        let unclaimed = keys.key(&Scripted::body(9));
        engine.advance_lease(Duration::from_secs(3_600), unclaimed);
        std::future::pending::<()>().await;
    };
    let around = Surroundings::of(asking(2, &keys));
    let ran = Box::pin(run_with(&engine, around, meanwhile)).await;
    assert_eq!(ran.rows(), [1, 2]);
    assert_eq!(engine.service().rows(), [1, 2, 2]);
    let counts = engine.events().with_counts(Clone::clone);
    assert_eq!((counts.calls.answered, counts.calls.taken_over), (2, 1));
    assert_invariants(&engine);
}
