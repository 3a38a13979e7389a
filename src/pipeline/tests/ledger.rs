//! The dispatcher and a ledger: what is looked up when, and what is told of answers that get nowhere.

use tempfile::TempDir;

use super::*;
use crate::ledger::{Keys, Ledger, Place, Reuse, Settings};

/// A ledger that runs share.
struct Shared(TempDir);

impl Shared {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn open(&self) -> Ledger {
        Ledger::open(Settings {
            place: Place::Shared(self.0.path().join("answers.ledger")),
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
fn asking(rows: u64, keys: &Keys) -> Vec<Read> {
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
    let mut ledger = shared.open();
    let (log, service) = (Log::default(), Scripted::new(GOOD));
    let scorer = Scorer {
        keeper: Some(ledger.hanging_keeper().unwrap()),
        ..scorer(8, Rate::Unlimited, &log, service)
    };
    let mut around = Surroundings::of(asking(5, &ledger.keys()));
    around.read_delay = Duration::from_millis(10);
    let ran = run_with(&scorer, around, sleep(Duration::from_secs(1))).await;
    assert!(ran.elapsed >= DRAIN, "{:?}", ran.elapsed);
    let stats = scorer.events.with_stats(Clone::clone);
    assert_eq!((stats.answered, stats.lost, stats.left), (5, 5, 5));
    assert!(ran.written.is_empty());
    assert_law(&scorer);
}
