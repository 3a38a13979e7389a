//! A directory for ledgers, and short ways to store and to find answers.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::base::error::Result;
use crate::ledger::db::answer_removal::change_all;
use crate::ledger::packed::PackedAnswer;
use crate::ledger::{
    ClosedLedger, Freshness, KnownOutcome, LedgerFacts, LedgerLocation, LedgerSettings,
    LedgerWriter, LookupResult, OpenLedger, Removal, RequestHasher, RequestKey, Reuse,
    RunningLedger,
};
use crate::raw_json::Pointer;
use crate::verdict::{Answer, Failure, Reason, Score, TransactionId};

const PATIENCE: Duration = Duration::from_secs(30);
pub(super) const BODY: &[u8] = br#"{"name":"Jane Doe","email":"jane@example.com"}"#;

/// A directory with ledgers.
pub(super) struct Directory(TempDir);

impl Directory {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(super) fn output(&self) -> PathBuf {
        self.path("scored.csv")
    }

    pub(super) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Whether the bytes are in any file.
    pub(super) fn has(&self, bytes: &[u8]) -> bool {
        self.names().iter().any(|name| {
            let content = fs::read(self.path(name)).unwrap();
            content.windows(bytes.len()).any(|part| part == bytes)
        })
    }

    /// The own ledger of a run.
    pub(super) fn own(&self) -> LedgerSettings {
        settings(LedgerLocation::Beside(self.output()))
    }

    /// A ledger that runs share.
    pub(super) fn shared(&self) -> LedgerSettings {
        settings(LedgerLocation::Shared(self.path("answers.ledger")))
    }
}

pub(super) fn settings(location: LedgerLocation) -> LedgerSettings {
    LedgerSettings {
        location,
        reuse: Reuse::All,
        output: None,
        endpoint: "https://api.example.com/v1/validate/user".to_owned(),
        service_id: "test".to_owned(),
        captured: Vec::new(),
        in_flight: 16.try_into().unwrap(),
        longest_call: Duration::from_secs(30),
    }
}

/// Answers that are not older than this.
pub(super) fn young_only(max_age: Duration) -> Reuse {
    Reuse::Recent(Freshness::of(Some(max_age), None).unwrap())
}

/// The same with this reuse.
pub(super) fn reusing(reuse: Reuse, settings: LedgerSettings) -> LedgerSettings {
    LedgerSettings { reuse, ..settings }
}

pub(super) fn pointers(fields: &[&str]) -> Vec<Pointer> {
    let pointers = fields.iter().map(|field| Pointer::parse(field).unwrap());
    pointers.collect()
}

pub(super) fn answer(id: &str) -> Answer {
    Answer {
        transaction_id: TransactionId::new(id).unwrap(),
        score: Score::from_json_number("1.50").unwrap(),
        captured: Box::default(),
    }
}

pub(super) fn refused() -> Failure {
    Failure::new(Reason::Refused, "422: `Jane is too young`")
}

pub(super) fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread();
    { runtime }.build().unwrap().block_on(future)
}

pub(super) fn open(settings: LedgerSettings) -> OpenLedger {
    OpenLedger::open(settings).unwrap()
}

pub(super) fn open_with_facts(settings: LedgerSettings) -> (OpenLedger, LedgerFacts) {
    OpenLedger::open_with(settings, None).unwrap()
}

/// What a run with these settings learns of the ledger.
pub(super) fn facts(settings: LedgerSettings) -> LedgerFacts {
    open_with_facts(settings).1
}

/// A run that has started.
pub(super) struct TestRun {
    pub(super) ledger: RunningLedger,
    pub(super) writer: LedgerWriter,
    pub(super) hasher: RequestHasher,
}

impl TestRun {
    pub(super) fn new(settings: LedgerSettings) -> Self {
        Self::of(open(settings))
    }

    pub(super) fn of(ledger: OpenLedger) -> Self {
        Self::started(ledger, OpenLedger::start)
    }

    /// On a disk that is full when the first answers come, but for the space that is kept.
    pub(super) fn on_full_disk(settings: LedgerSettings) -> Self {
        Self::started(open(settings), OpenLedger::start_on_full_disk)
    }

    fn started(
        ledger: OpenLedger,
        start: impl FnOnce(OpenLedger) -> Result<(RunningLedger, LedgerWriter)>,
    ) -> Self {
        let hasher = ledger.hasher();
        let (ledger, writer) = start(ledger).unwrap();
        Self {
            ledger,
            writer,
            hasher,
        }
    }

    pub(super) fn key(&self) -> RequestKey {
        self.hasher.key(BODY)
    }

    pub(super) fn keep(&self, body: &[u8], answer: &Answer) {
        let kept = wait(self.writer.keep(self.hasher.key(body), answer.clone())).unwrap();
        assert_eq!(kept, *answer);
    }

    pub(super) fn keep_failure(&self, body: &[u8], failure: &Failure) {
        wait(
            self.writer
                .keep_failure(self.hasher.key(body), body, failure),
        )
        .unwrap();
    }

    pub(super) fn close(self, removal: Removal) -> ClosedLedger {
        drop(self.writer);
        let settled = self.ledger.settle(removal, PATIENCE);
        let left = settled.left();
        settled.finish().unwrap();
        left
    }
}

/// Opens a ledger, stores one answer and closes it.
pub(super) fn keep(settings: LedgerSettings, body: &[u8], answer: &Answer) -> ClosedLedger {
    let run = TestRun::new(settings);
    run.keep(body, answer);
    run.close(Removal::WhenEmpty)
}

pub(super) fn find(settings: LedgerSettings, body: &[u8]) -> LookupResult {
    let ledger = open(settings);
    let key = ledger.hasher().key(body);
    let lookup = ledger.lookup().unwrap();
    lookup.map_or_else(LookupResult::default, |mut lookup| {
        lookup.find(&key, body).unwrap()
    })
}

/// An answer that can be used.
pub(super) fn current(answer: Answer) -> LookupResult {
    LookupResult {
        known: Some(KnownOutcome::Answer(answer)),
        ..LookupResult::default()
    }
}

/// An existing answer that cannot be used.
pub(super) fn replaceable() -> LookupResult {
    LookupResult {
        old: Some(answer("t-1").score),
        ..LookupResult::default()
    }
}

/// A failure that was stored.
pub(super) fn failed(failure: Failure) -> LookupResult {
    LookupResult {
        known: Some(KnownOutcome::Failure(failure)),
        ..LookupResult::default()
    }
}

/// Makes the answers of a ledger older by so many seconds.
pub(super) fn age(path: &Path, seconds: i64) {
    let connection = rusqlite::Connection::open(path).unwrap();
    let removed = change_all(&connection, |answer| {
        let at = answer.at - 1_000 * seconds;
        Some(PackedAnswer { at, ..answer })
    });
    assert_eq!(removed, Ok(0));
}
