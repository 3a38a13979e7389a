//! A ledger with answers in it, and the files' bytes.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use rusqlite::Connection;
use tempfile::TempDir;

use crate::ledger::clock::millis;
use crate::ledger::db::answer_writer::{AnswerWriter, ArrivedAnswer};
use crate::ledger::db::connect::writing;
use crate::ledger::db::schema::LedgerInfo;
use crate::ledger::packed::PackedKey;
use crate::ledger::{LedgerLocation, LedgerSettings, OpenLedger, RequestHasher, RequestKey, Reuse};
use crate::verdict::{Answer, Score, TransactionId};

/// A directory with one ledger.
pub(super) struct Directory(pub(super) TempDir);

impl Directory {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(super) fn path(&self) -> PathBuf {
        self.0.path().join("answers.ledger")
    }

    /// Creates the ledger, or opens it once more.
    pub(super) fn ledger(&self, endpoint: &str) -> OpenLedger {
        OpenLedger::open(LedgerSettings {
            location: LedgerLocation::Shared(self.path()),
            reuse: Reuse::All,
            output: None,
            endpoint: endpoint.to_owned(),
            service_id: "test".to_owned(),
            captured: Vec::new(),
            in_flight: 16.try_into().unwrap(),
            longest_call: std::time::Duration::from_secs(30),
        })
        .unwrap()
    }

    pub(super) fn raw(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }

    /// Whether an answer to a request is anywhere in the file or beside it.
    pub(super) fn has_key(&self, key: &RequestKey) -> bool {
        self.has(&PackedKey::from(key).hash)
    }

    /// Whether the bytes are anywhere in the file or beside it.
    pub(super) fn has(&self, bytes: &[u8]) -> bool {
        fs::read_dir(self.0.path()).unwrap().any(|entry| {
            let content = fs::read(entry.unwrap().path()).unwrap();
            content.windows(bytes.len()).any(|part| part == bytes)
        })
    }

    pub(super) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

pub(super) const HERE: &str = "https://here";
pub(super) const THERE: &str = "https://there";

pub(super) fn body(user: usize) -> Vec<u8> {
    format!(r#"{{"name":"User {user}"}}"#).into_bytes()
}

pub(super) fn id(user: usize) -> String {
    format!("transaction-{user:08}")
}

/// A key with the transaction ID of its answer, and when that arrived.
pub(super) type Entry = (RequestKey, String, i64);

/// Stores answers as a run does.
pub(super) fn put(connection: &Connection, context: i64, entries: impl IntoIterator<Item = Entry>) {
    let answers: Vec<_> = entries
        .into_iter()
        .map(|(key, id, at)| (key, answer(&id), at))
        .collect();
    let writer = AnswerWriter {
        checksums: LedgerInfo::read(connection).unwrap().checksums(),
        latest: Arc::default(),
        context,
        started: 0,
    };
    let transaction = writing(connection).unwrap();
    let group = answers.iter().map(|(key, answer, at)| ArrivedAnswer {
        key,
        answer,
        at: *at,
        capture: None,
    });
    let _ = writer.put(&transaction, group).unwrap();
    transaction.commit().unwrap();
}

fn answer(id: &str) -> Answer {
    Answer {
        transaction_id: TransactionId::new(id).unwrap(),
        score: Score::from_json_number("1.5").unwrap(),
        captured: Box::default(),
    }
}

/// The key of the same request for this row alone.
pub(super) fn row(key: RequestKey, row: u64) -> RequestKey {
    RequestKey { row, ..key }
}

pub(super) fn now() -> i64 {
    millis(SystemTime::now())
}

/// A ledger with an answer for each of so many users; the keys are in no order, so that pages split all the time.
pub(super) fn filled(users: usize) -> (Directory, RequestHasher) {
    let place = Directory::new();
    let keys = place.ledger(HERE).hasher();
    let entries = (0..users).map(|user| (keys.key(&body(user)), id(user), now()));
    put(&place.raw(), 1, entries);
    (place, keys)
}
