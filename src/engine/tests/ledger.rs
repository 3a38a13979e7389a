//! The dispatcher with a ledger: what is looked up when, and what is reported of answers that are lost.

use std::path::PathBuf;

use tempfile::TempDir;

use super::harness::*;
use crate::ledger::{
    LedgerAccount, LedgerLocation, LedgerSettings, OpenLedger, RequestHasher, Reuse, ServerWait,
};
use crate::service::{ApiKeys, read_kept};

/// Where a ledger is that several runs share.
pub(super) struct Shared(TempDir);

impl Shared {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(super) fn path(&self) -> PathBuf {
        self.0.path().join("answers.ledger")
    }

    /// A run to standard output.
    pub(super) fn open(&self) -> OpenLedger {
        let settings = LedgerSettings {
            location: LedgerLocation::File(self.path()),
            reuse: Reuse::All,
            output: None,
            input: None,
            account: Some(LedgerAccount {
                endpoint: "https://scripted.test".to_owned(),
                service_id: "test".to_owned(),
            }),
            read: Arc::new(|body| read_kept(body, &[], &ApiKeys::default())),
            in_flight: 1.try_into().unwrap(),
            longest_call: Scripted::LONGEST_CALL,
            wait: ServerWait::default(),
        };
        OpenLedger::open(&settings).unwrap().0
    }
}

/// The messages of a reader whose rows have keys.
pub(super) fn asking(rows: u64, keys: &RequestHasher) -> Vec<Read> {
    keyed(asked(rows, &[]), keys, 128)
}

/// The messages of a reader whose rows ask this, with keys, this number in each message after the first row.
pub(super) fn keyed(mut rows: Vec<RowState>, keys: &RequestHasher, together: usize) -> Vec<Read> {
    for asked in &mut rows {
        if let RowState::Waiting { body, key, .. } = asked {
            *key = keys.key(body);
        }
    }
    // The first row is the canary.
    batches(rows, &[1, together])
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_given_up_with_the_run_are_counted_as_lost() {
    let shared = Shared::new();
    let ledger = shared.open();
    let keys = ledger.hasher();
    let (_running, writer) = ledger.start_hanging().unwrap();
    let (log, service) = (Log::default(), Scripted::new(GOOD));
    let engine = fixture(8, &log, service).ledger(writer).build();
    let mut around = Surroundings::of(asking(5, &keys));
    around.read_delay = Duration::from_millis(10);
    // How many rows are claimed together, and so called for, depends on the thread of the ledger.
    let answered = until(&engine, |counts| counts.calls.answered > 0);
    let ran = Box::pin(run_with(&engine, around, answered)).await;
    assert!(ran.elapsed >= Scripted::LONGEST_CALL, "{:?}", ran.elapsed);
    let counts = engine.events().with_counts(Clone::clone);
    assert_eq!(counts.calls.answered, counts.calls.lost);
    assert!(ran.written.is_empty());
    assert_invariants(&engine);
}
