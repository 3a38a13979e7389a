//! The dispatcher with a ledger: what is looked up when, and what is reported of answers that are lost.

use tempfile::TempDir;

use super::harness::*;
use crate::ledger::{LedgerLocation, LedgerSettings, OpenLedger, RequestHasher, RequestKey, Reuse};
use crate::verdict::{Answer, Score, TransactionId};

/// A ledger that several runs share.
pub(super) struct Shared(TempDir);

impl Shared {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(super) fn open(&self) -> OpenLedger {
        OpenLedger::open(LedgerSettings {
            location: LedgerLocation::Shared(self.0.path().join("answers.ledger")),
            reuse: Reuse::All,
            output: None,
            endpoint: "https://scripted.test".to_owned(),
            service_id: "test".to_owned(),
            captured: Vec::new(),
            in_flight: 1.try_into().unwrap(),
            longest_call: Scripted::LONGEST_CALL,
        })
        .unwrap()
    }
}

/// The messages of a reader whose rows have keys.
fn asking(rows: u64, keys: &RequestHasher) -> Vec<Read> {
    let mut rows = asked(rows, &[]);
    for asked in &mut rows {
        let request = asked.as_mut().unwrap();
        request.key = Some(keys.key(&request.body));
    }
    // The first row is the canary.
    batches(rows, &[1, 128])
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_given_up_with_the_run_are_counted_as_lost() {
    let shared = Shared::new();
    let ledger = shared.open();
    let keys = ledger.hasher();
    let (_running, writer) = ledger.start_hanging().unwrap();
    let (log, service) = (Log::default(), Scripted::new(GOOD));
    let scorer = fixture(8, &log, service).ledger(writer).build();
    let mut around = Surroundings::of(asking(5, &keys));
    around.read_delay = Duration::from_millis(10);
    let ran = run_with(&scorer, around, sleep(Duration::from_secs(1))).await;
    assert!(ran.elapsed >= Scripted::LONGEST_CALL, "{:?}", ran.elapsed);
    let stats = scorer.events().with_stats(Clone::clone);
    assert_eq!((stats.answered, stats.lost, stats.left), (5, 5, 5));
    assert!(ran.written.is_empty());
    assert_invariants(&scorer);
}

/// Another run gets an answer and makes it durable, while nothing happens here.
fn paid_by_another_run(ledger: OpenLedger, key: RequestKey) {
    let (_running, writer) = ledger.start().unwrap();
    let answer = Answer {
        transaction_id: TransactionId::new("another-run").unwrap(),
        score: Score::from_json_number("1").unwrap(),
        captured: Box::default(),
    };
    // On another thread: on this one the paused clock would advance.
    let kept = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(writer.keep(key, answer)).is_ok()
    });
    assert!(kept.join().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_row_that_waited_behind_another_is_looked_up_again_before_its_call() {
    let shared = Shared::new();
    let (ours, others) = (shared.open(), shared.open());
    let keys = ours.hasher();
    let (_running, writer) = ours.start().unwrap();
    // The first row holds up the second one. Its failure lets the second one through.
    let service = Scripted::new(GOOD).row(1, [ScriptedResult::Status(422).after(1_000)]);
    let log = Log::default();
    let scorer = fixture(8, &log, service).ledger(writer).build();
    let key = keys.key(&Scripted::body(2));
    let meanwhile = async {
        sleep(Duration::from_millis(500)).await;
        paid_by_another_run(others, key);
        std::future::pending::<()>().await;
    };
    let around = Surroundings::of(asking(3, &keys));
    let ran = run_with(&scorer, around, meanwhile).await;
    assert_eq!(ran.rows(), [1, 2, 3]);
    assert_eq!(scorer.service().rows(), [1, 3]);
    assert_eq!(scorer.events().with_stats(|stats| stats.known), 1);
    assert_invariants(&scorer);
}
