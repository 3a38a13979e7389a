//! A ledger with answers in it, and the files' bytes.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use rusqlite::{Connection, params};
use tempfile::TempDir;

use crate::ledger::clock::millis;
use crate::ledger::db::schema::LedgerInfo;
use crate::ledger::{LedgerLocation, LedgerSettings, OpenLedger, RequestHasher, RequestKey, Reuse};

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
        })
        .unwrap()
    }

    pub(super) fn raw(&self) -> Connection {
        let connection = Connection::open(self.path()).unwrap();
        let checksums = LedgerInfo::read(&connection).unwrap().checksums();
        checksums.install(&connection).unwrap();
        connection
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

pub(super) fn put(
    connection: &mut Connection,
    context: i64,
    entries: impl IntoIterator<Item = Entry>,
) {
    const INSERT: &str =
        "INSERT INTO answers VALUES (?1, ?2, ?3, ?4, '1.5', NULL, NULL, ?5, NULL, NULL,
        answer_checksum(?1, ?2, ?4, '1.5', NULL, NULL, ?5, NULL))";
    let transaction = connection.transaction().unwrap();
    for (key, id, at) in entries {
        transaction
            .prepare_cached(INSERT)
            .unwrap()
            .execute(params![key.hash, key.stored_row(), context, id, at])
            .unwrap();
    }
    transaction.commit().unwrap();
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
    put(&mut place.raw(), 1, entries);
    (place, keys)
}
