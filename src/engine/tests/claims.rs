//! A run with a ledger: what another run on it asks about, this one does not, and answers that cannot be stored are lost.

use std::path::PathBuf;

use tempfile::TempDir;

use super::harness::*;
use crate::engine::{directory, ledger};
use crate::ledger::tests::faults::StoreFaults;
use crate::ledger::{
    ClaimResult, LedgerWriter, OpenLedger, PaidResult, RequestHasher, RunningLedger, Unanswered,
    Urgency,
};
use crate::service::{ApiKeys, read_kept};

/// Where a ledger is that several runs share.
pub(super) struct Shared(TempDir);

impl Shared {
    pub(super) fn new() -> Self {
        Self(directory())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("answers.ledger")
    }

    /// A run to standard output.
    pub(super) fn open(&self) -> OpenLedger {
        ledger(&self.path(), None, 1, Vec::new())
    }
}

/// The run that is tried, whose ledger's thread lives as long as it.
struct ThisRun {
    engine: Engine<Scripted>,
    keys: RequestHasher,
    _running: RunningLedger,
}

impl ThisRun {
    fn on(ledger: OpenLedger, service: Scripted) -> Self {
        let keys = ledger.facts.hasher.clone();
        let (running, writer) = ledger.start().unwrap();
        let engine = Fixture::new(service).build_with(|it| {
            it.concurrency = 8;
            it.ledger = writer;
        });
        Self {
            engine,
            keys,
            _running: running,
        }
    }

    /// Rows that ask this, with keys, this number in each message after the first row, which is the probe.
    fn asking(&self, mut rows: Vec<RowState>, together: usize) -> Surroundings {
        for asked in &mut rows {
            if let RowState::Waiting { body, key, .. } = asked {
                *key = self.keys.key(body);
            }
        }
        Surroundings::of(batches(rows, &[1, together]))
    }
}

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
    _running: RunningLedger,
    writer: LedgerWriter,
    keys: RequestHasher,
}

impl OtherRun {
    fn claiming(ledger: OpenLedger, rows: &[u64]) -> Self {
        let keys = ledger.facts.hasher.clone();
        let (running, writer) = ledger.start().unwrap();
        let request = |row: &u64| keys.key(&Scripted::body(*row));
        let requests: Vec<_> = rows.iter().map(request).collect();
        let (claimed, writer) = elsewhere(async move || {
            (
                writer.claim(requests, usize::MAX, Urgency::Now).await,
                writer,
            )
        });
        let ours = ClaimResult::Granted { taken_over: false };
        assert!(claimed.unwrap().results.iter().all(|it| *it == ours));
        Self {
            _running: running,
            writer,
            keys,
        }
    }

    /// Gets its answer for a row.
    fn answers(self, row: u64) -> Self {
        let (key, writer) = (self.keys.key(&Scripted::body(row)), self.writer);
        let body = r#"{"transaction_id":"another-run","summary":{"risk_score":1}}"#;
        let answer = read_kept(body.as_bytes(), &[], &ApiKeys::default()).unwrap();
        let verdict = Verdict::Scored(answer, None);
        let scored = PaidResult::Answer(Bytes::from_static(body.as_bytes()));
        let (kept, writer) =
            elsewhere(async move || (writer.keep(key, scored, &verdict).await, writer));
        assert!(kept.is_ok());
        Self { writer, ..self }
    }

    /// Gives a row up.
    fn gives_up(&self, row: u64) {
        let key = self.keys.key(&Scripted::body(row));
        self.writer.end_call(key, Unanswered::NotMade);
    }
}

#[tokio::test(start_paused = true)]
async fn a_row_that_another_run_asks_about_gets_its_answer_and_holds_up_no_other() {
    let shared = Shared::new();
    let other = OtherRun::claiming(shared.open(), &[2]);
    let this = ThisRun::on(shared.open(), Scripted::new(GOOD));
    let meanwhile = async {
        until(&this.engine, |counts| counts.calls.answered == 4).await;
        assert_eq!(this.engine.counts().state.taken, 1);
        let _other = other.answers(2);
        std::future::pending::<()>().await;
    };
    // Row 6 asks the same as row 2.
    let mut rows = asked(5, &[]);
    rows.push(request(2));
    let around = this.asking(rows, 128);
    let ran = Box::pin(run_with(&this.engine, around, meanwhile)).await;
    assert_eq!(ran.rows(), [1, 2, 3, 4, 5, 6]);
    let mut called = this.engine.service().rows();
    called.sort_unstable();
    assert_eq!(called, [1, 3, 4, 5]);
    assert_eq!((ran.counts.known, ran.counts.state.taken), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn rows_that_need_no_call_pass_those_that_wait_to_be_claimed() {
    let shared = Shared::new();
    let this = ThisRun::on(shared.open(), Scripted::new(GOOD));
    let engine = &this.engine;
    let meanwhile = async {
        until(engine, |counts| counts.rows.read == 1).await;
        // Before its answer is stored, few rows are claimed.
        until_in_no_time(engine, |counts| counts.rows.resolved == 1).await;
        // While another program writes, claims wait.
        let other = rusqlite::Connection::open(shared.path()).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let all_read = until(engine, |counts| counts.rows.read == 20);
        let all_read = tokio::time::timeout(Duration::from_secs(60), all_read).await;
        drop(other);
        let read = engine.counts().rows.read;
        assert!(all_read.is_ok(), "held up after {read} rows");
        std::future::pending::<()>().await;
    };
    // After the first two rows all ask the same.
    let mut around = this.asking((1..=20).map(|row| request(row.min(3))).collect(), 1);
    around.read_delay = Duration::from_secs(1);
    let ran = Box::pin(run_with(engine, around, meanwhile)).await;
    assert_eq!(ran.rows(), (1..=20).collect::<Vec<_>>());
    assert_eq!(engine.service().rows(), [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_row_that_another_run_gives_up_is_asked_here() {
    let shared = Shared::new();
    let other = OtherRun::claiming(shared.open(), &[1, 2, 3]);
    let this = ThisRun::on(shared.open(), Scripted::new(GOOD));
    let meanwhile = async {
        until(&this.engine, |counts| counts.state.taken == 3).await;
        other.gives_up(3);
        until(&this.engine, |counts| counts.calls.answered == 1).await;
        let _other = other.answers(1);
        until(&this.engine, |counts| counts.known == 1).await;
    };
    let around = this.asking(asked(3, &[]), 128);
    let ran = Box::pin(run_with(&this.engine, around, meanwhile)).await;
    // The other run still asks about row 2 when this one is interrupted: it is left for the next run.
    assert_eq!(ran.rows(), [1, 3]);
    assert_eq!(this.engine.service().rows(), [3]);
    assert_eq!(ran.reason(), Some(CancelReason::Interrupted));
    assert_eq!((ran.counts.known, ran.counts.rows.unfinished), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_row_that_others_took_over_in_its_back_off_is_claimed_again_and_counted() {
    /// The run's worker is taken for gone, and so is another one that had taken its claims over.
    const TAKEN_OVER: &str = "UPDATE claims SET run = 7, start = 7; UPDATE runs SET until = 0";
    let shared = Shared::new();
    let this = ThisRun::on(shared.open(), Scripted::new(GOOD).row(2, [SICK]));
    let meanwhile = async {
        // The claim of the first row has ended, and the back-off of the second has just begun.
        let backs_off = |counts: &Counts| {
            (
                counts.rows.resolved,
                counts.calls.sent,
                counts.calls.in_flight,
            ) == (1, 2, 0)
        };
        until_in_no_time(&this.engine, backs_off).await;
        let ledger = rusqlite::Connection::open(shared.path()).unwrap();
        ledger.execute_batch(TAKEN_OVER).unwrap();
        let unclaimed = this.keys.key(&Scripted::body(9));
        this.engine
            .advance_lease(Duration::from_secs(3_600), unclaimed);
        std::future::pending::<()>().await;
    };
    let around = this.asking(asked(2, &[]), 128);
    let ran = Box::pin(run_with(&this.engine, around, meanwhile)).await;
    assert_eq!(
        (ran.rows(), this.engine.service().rows()),
        (vec![1, 2], vec![1, 2, 2])
    );
    let calls = ran.counts.calls;
    assert_eq!((calls.answered, calls.taken_over), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_given_up_with_the_run_are_counted_as_lost() {
    let shared = Shared::new();
    let hanging = shared.open().failing(None, StoreFaults::NEVER);
    let this = ThisRun::on(hanging, Scripted::new(GOOD));
    let mut around = this.asking(asked(5, &[]), 128);
    around.read_delay = Duration::from_millis(10);
    // How many rows are claimed together, and so called for, depends on the thread of the ledger.
    let answered = until(&this.engine, |counts| counts.calls.answered > 0);
    let ran = Box::pin(run_with(&this.engine, around, answered)).await;
    assert!(ran.elapsed >= Scripted::LONGEST_CALL, "{:?}", ran.elapsed);
    assert_eq!(ran.counts.calls.answered, ran.counts.calls.lost);
    assert!(ran.written.is_empty());
}
