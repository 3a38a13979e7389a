//! The dispatcher and a ledger: what is looked up when, and what is told of answers that get nowhere.

use tempfile::TempDir;

use super::*;
use crate::ledger::{LedgerLocation, LedgerSettings, OpenLedger, RequestHasher, RequestKey, Reuse};
use crate::verdict::{Answer, Score, TransactionId};

/// A ledger that runs share.
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
        })
        .unwrap()
    }
}

/// Rows that ask by their keys.
fn asking(rows: u64, keys: &RequestHasher) -> Vec<Read> {
    let mut rows = prepared(rows, &[]);
    for ask in &mut rows {
        let request = ask.request.as_mut().unwrap();
        request.key = Some(keys.key(&request.body));
    }
    // The first one proves the service.
    batches(rows, &[1, 128])
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_given_up_with_the_run_are_counted_as_lost() {
    let shared = Shared::new();
    let ledger = shared.open();
    let keys = ledger.hasher();
    let (_running, writer) = ledger.start_hanging().unwrap();
    let (log, service) = (Log::default(), Scripted::new(GOOD));
    let scorer = Scorer {
        keeper: Some(writer),
        ..scorer(8, Rate::Unlimited, &log, service)
    };
    let mut around = Surroundings::of(asking(5, &keys));
    around.read_delay = Duration::from_millis(10);
    let ran = run_with(&scorer, around, sleep(Duration::from_secs(1))).await;
    assert!(ran.elapsed >= Scripted::LONGEST_CALL, "{:?}", ran.elapsed);
    let stats = scorer.events.with_stats(Clone::clone);
    assert_eq!((stats.answered, stats.lost, stats.left), (5, 5, 5));
    assert!(ran.written.is_empty());
    assert_law(&scorer);
}

/// Another run gets an answer and has it durable, while nothing happens here.
fn paid_by_another_run(ledger: OpenLedger, key: RequestKey) {
    let (_running, keeper) = ledger.start().unwrap();
    let answer = Answer {
        transaction_id: TransactionId::new("another-run").unwrap(),
        score: Score::from_json_number("1").unwrap(),
        captured: Box::default(),
    };
    // On a thread of its own, as this one's clock would run on.
    let kept = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(keeper.keep(key, answer)).is_ok()
    });
    assert!(kept.join().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_row_that_waited_behind_another_is_looked_up_again_before_its_call() {
    let shared = Shared::new();
    let (ours, others) = (shared.open(), shared.open());
    let keys = ours.hasher();
    let (_running, writer) = ours.start().unwrap();
    // The first row holds up the second one, and in one moment fails and lets it through.
    let service = Scripted::new(GOOD).row(1, [Brings::Status(422).after(1_000)]);
    let log = Log::default();
    let scorer = Scorer {
        keeper: Some(writer),
        ..scorer(8, Rate::Unlimited, &log, service)
    };
    let key = keys.key(&Scripted::body(2));
    let meanwhile = async {
        sleep(Duration::from_millis(500)).await;
        paid_by_another_run(others, key);
        std::future::pending::<()>().await;
    };
    let around = Surroundings::of(asking(3, &keys));
    let ran = run_with(&scorer, around, meanwhile).await;
    assert_eq!(ran.rows(), [1, 2, 3]);
    assert_eq!(scorer.service.rows(), [1, 3]);
    assert_eq!(scorer.events.with_stats(|stats| stats.known), 1);
    assert_law(&scorer);
}
