//! Groups of answers, and what a failed sync does.

#![allow(clippy::unwrap_used)]

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use futures::future::join_all;

use super::support::{Directory, answer, open, wait};
use crate::ledger::store::{AnswerCounts, ClaimResult, LeaseRenewal, Store, Work};
use crate::ledger::writer::WriterSettings;
use crate::ledger::{KnownLimit, LedgerWriter, RequestHasher, RunEnd};

/// Notes how many answers each group has; fails at one of them, and waits for permission before each.
struct ObservedStore {
    groups: Arc<Mutex<Vec<usize>>>,
    fails: usize,
    go: Receiver<()>,
}

impl Store for ObservedStore {
    fn write(&mut self, work: Work<'_>) -> io::Result<Vec<ClaimResult>> {
        self.go.recv().unwrap();
        let mut groups = self.groups.lock().unwrap();
        groups.push(work.records.len());
        if groups.len() == self.fails {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(Vec::new())
    }

    fn renew(&mut self) -> io::Result<LeaseRenewal> {
        Ok(LeaseRenewal::Kept)
    }

    fn set_limit(&mut self, _: KnownLimit) {}

    fn leave(&mut self, _: RunEnd) {}

    fn end(&mut self, _: RunEnd) {}

    fn count(&self) -> Option<AnswerCounts> {
        None
    }
}

/// A writer over an observed store, and what a test needs of it.
struct Observation {
    writer: LedgerWriter,
    hasher: RequestHasher,
    groups: Arc<Mutex<Vec<usize>>>,
    go: Sender<()>,
}

impl Observation {
    fn start(place: &Directory, fails: usize) -> Self {
        let ledger = open(place.shared());
        let (go, permission) = channel();
        let groups = Arc::new(Mutex::new(Vec::new()));
        let store = ObservedStore {
            groups: Arc::clone(&groups),
            fails,
            go: permission,
        };
        let settings = WriterSettings {
            path: place.path("answers.ledger"),
            hasher: ledger.hasher(),
            earliest: ledger.run().earliest(),
            lookup: Some(ledger.open_lookup().unwrap()),
            in_memory: false,
            lease: None,
            enough: 8,
        };
        let (writer, _) = LedgerWriter::start(store, settings).unwrap();
        Self {
            writer,
            hasher: ledger.hasher(),
            groups,
            go,
        }
    }
}

#[test]
fn answers_gather_while_a_group_is_synced() {
    let place = Directory::new();
    let run = Observation::start(&place, 0);
    let keep = |n: u8| run.writer.keep(run.hasher.key(&[n]), answer("t-1"));
    let all = join_all((0..10).map(keep));
    let release = async {
        tokio::task::yield_now().await;
        for _ in 0..10 {
            run.go.send(()).unwrap();
        }
    };
    let (kept, ()) = wait(futures::future::join(all, release));
    assert!(kept.iter().all(Result::is_ok));
    let groups = run.groups.lock().unwrap();
    assert_eq!(groups.iter().sum::<usize>(), 10);
    assert!(groups.len() <= 2, "{groups:?}");
}

#[test]
fn a_failed_sync_is_never_retried() {
    let place = Directory::new();
    let run = Observation::start(&place, 2);
    for (n, kept) in [(0, true), (1, false), (2, false), (3, false)] {
        run.go.send(()).unwrap();
        let result = wait(run.writer.keep(run.hasher.key(&[n]), answer("t-1")));
        assert_eq!(result.is_ok(), kept);
        if let Err(error) = result {
            assert_eq!(error.exit().code(), 3);
            assert!(error.is_disk_full());
        }
    }
    assert_eq!(*run.groups.lock().unwrap(), [1, 1]);
}
