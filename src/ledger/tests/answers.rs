//! Whatever processes do beside each other, an answer that is there is found: in memory, in the index, or on its way from
//! one to the other.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use rusqlite::Connection;

use crate::ledger::admin::Forget;
use crate::ledger::db::answer_writer::{AnswerWriter, ArrivedAnswer, merge};
use crate::ledger::db::answers::{self, AnswerReader};
use crate::ledger::db::connect::{Connect, Mode, writing};
use crate::ledger::db::found_answer::AnswerState;
use crate::ledger::db::latest_answers::LatestAnswers;
use crate::ledger::db::schema::LedgerInfo;
use crate::ledger::file::LedgerKind;
use crate::ledger::request_key::RequestKey;
use crate::verdict::{Answer, Score, TransactionId};

/// What a process does next.
#[derive(Debug, Clone)]
enum Step {
    /// Stores answers to these requests as one group, and replaces those that are there.
    Store(Vec<u8>),
    /// Looks a request up.
    Find(u8),
    /// Looks at one state from now on, until the next time.
    Hold,
    /// Moves what memory has to the index.
    Merge,
    /// Is killed and started again.
    Restart,
    /// Somebody is forgotten.
    Forget(u8),
}

fn steps() -> impl Strategy<Value = Vec<(bool, Step)>> {
    let step = prop_oneof![
        4 => prop::collection::vec(0..60_u8, 1..30).prop_map(Step::Store),
        8 => (0..60_u8).prop_map(Step::Find),
        2 => Just(Step::Hold),
        2 => Just(Step::Merge),
        1 => Just(Step::Restart),
        1 => (0..60_u8).prop_map(Step::Forget),
    ];
    prop::collection::vec((any::<bool>(), step), 1..80)
}

/// Two requests each have the same fingerprint, and every third one is that of a row of its own.
fn key(request: u8) -> RequestKey {
    let mut hash = [request / 2; 16];
    hash[10] = request;
    let row = if request.is_multiple_of(3) { 7 } else { 0 };
    RequestKey { hash, row }
}

/// A process that uses the ledger.
struct Process {
    writer: AnswerWriter,
    writes: Connection,
    reads: Connection,
    reader: AnswerReader,
    /// Requests that were answered since it was started, by whichever process.
    come: HashSet<u8>,
    /// What was there when it began to hold a state.
    held: Option<HashSet<u8>>,
}

impl Process {
    fn start(path: &Path) -> Self {
        let started = Self::new(path);
        let mut reader =
            AnswerReader::new(started.writer.checksums, Arc::clone(&started.writer.latest));
        reader.begin(&started.writes).unwrap();
        reader.end(&started.writes).unwrap();
        started
    }

    fn new(path: &Path) -> Self {
        let writes = Connect::to(Mode::Create(LedgerKind::Shared)).open(path);
        let writes = writes.unwrap();
        let checksums = LedgerInfo::read(&writes).unwrap().checksums();
        let latest = Arc::<LatestAnswers>::default();
        Self {
            writer: AnswerWriter {
                checksums,
                latest: Arc::clone(&latest),
                context: 1,
                started: 0,
            },
            writes,
            reads: Connect::to(Mode::Read).open(path).unwrap(),
            reader: AnswerReader::new(checksums, latest),
            come: HashSet::new(),
            held: None,
        }
    }

    fn store(&self, requests: &[u8], number: u32) {
        let answers: Vec<_> = { requests.iter() }
            .map(|request| (key(*request), answer(number)))
            .collect();
        let transaction = writing(&self.writes).unwrap();
        let group = answers.iter().map(|(key, answer)| ArrivedAnswer {
            key,
            answer,
            at: 1_000,
            capture: None,
        });
        let written = self.writer.put(&transaction, group).unwrap();
        transaction.commit().unwrap();
        self.writer.committed(&self.writes, &written).unwrap();
    }

    /// Whether an answer may have come since the start.
    fn may_have_come(&mut self, request: u8) -> bool {
        if self.held.is_none() {
            self.reader.begin(&self.reads).unwrap();
            self.reader.end(&self.reads).unwrap();
        }
        self.reader.may_have_come(&key(request))
    }

    fn find(&mut self, request: u8) -> Option<u32> {
        let recent = self.reader.recent(&key(request));
        let found = match recent {
            Some(recent) => AnswerState::Sound(recent),
            None => self.reader.find(&self.reads, &key(request)).unwrap(),
        };
        match found {
            AnswerState::Sound(found) => found.answer.transaction_id.as_str().parse().ok(),
            AnswerState::Absent => None,
            AnswerState::Damaged(block) => panic!("{block:?} is damaged"),
        }
    }
}

fn answer(number: u32) -> Answer {
    Answer {
        transaction_id: TransactionId::new(&number.to_string()).unwrap(),
        score: Score::from_json_number("0.5").unwrap(),
        captured: Box::default(),
    }
}

fn forget(path: &Path, request: u8) {
    let mut forget = Forget::open(path).unwrap();
    forget.mark_hash(key(request).hash);
    forget.remove_marked().unwrap();
}

#[test]
fn what_was_read_along_is_read_no_second_time() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("answers.ledger");
    std::fs::write(&path, "").unwrap();
    let mut process = Process::start(&path);
    let requests: Vec<_> = (0..240).collect();
    process.store(&requests, 1);
    let mut along = 0;
    for request in requests {
        match process.reader.recent(&key(request)) {
            Some(_) => along += 1,
            None => assert_eq!(process.find(request), Some(1)),
        }
    }
    assert!(along > 150, "{along}");
    // An equal row, and one whose answer is too old: reading all around them again would cost a hundred times as much.
    for _ in 0..3 {
        assert_eq!(process.find(230), Some(1));
        assert!(process.reader.recent(&key(230)).is_none());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_there_is_found_whatever_others_do(steps in steps()) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("answers.ledger");
        std::fs::write(&path, "").unwrap();
        let mut processes = [Process::start(&path), Process::start(&path)];
        // The latest answer to each request, and all that there ever were.
        let mut stored: HashMap<u8, u32> = HashMap::new();
        let mut ever: HashSet<(u8, u32)> = HashSet::new();
        for (number, (second, step)) in (1..).zip(steps) {
            if let Step::Store(requests) = &step {
                for process in &mut processes {
                    process.come.extend(requests);
                }
            }
            let [a, b] = &mut processes;
            let this = if second { b } else { a };
            match step {
                Step::Store(mut requests) => {
                    requests.sort_unstable();
                    requests.dedup();
                    this.store(&requests, number);
                    ever.extend(requests.iter().map(|request| (*request, number)));
                    stored.extend(requests.into_iter().map(|request| (request, number)));
                }
                Step::Find(request) => {
                    let has_come = this.held.is_none() && this.come.contains(&request);
                    prop_assert!(this.may_have_come(request) || !has_come);
                    let found = this.find(request);
                    // One that was read along with another one may have been replaced since.
                    prop_assert!(found.is_none_or(|found| ever.contains(&(request, found))));
                    let must = { this.held.as_ref() }.map_or_else(
                        || stored.contains_key(&request),
                        |held| held.contains(&request),
                    );
                    prop_assert!(found.is_some() || !must);
                    prop_assert!(found.is_none() || stored.contains_key(&request));
                }
                Step::Hold => {
                    if this.held.take().is_some() {
                        this.reader.end(&this.reads).unwrap();
                    } else {
                        this.reader.begin(&this.reads).unwrap();
                        this.held = Some(stored.keys().copied().collect());
                    }
                }
                Step::Merge => merge(&this.writes, &this.writer.latest).unwrap(),
                Step::Restart => *this = Process::start(&path),
                Step::Forget(request) => {
                    forget(&path, request);
                    for forgotten in 0..60 {
                        if key(forgotten).hash == key(request).hash {
                            stored.remove(&forgotten);
                            for process in &mut processes {
                                process.come.remove(&forgotten);
                            }
                        }
                    }
                    // What was held may be there or not.
                    for process in &mut processes {
                        if process.held.take().is_some() {
                            process.reader.end(&process.reads).unwrap();
                        }
                        // Nor does it matter what was read along just before.
                        process.reader = AnswerReader::new(process.writer.checksums, Arc::clone(&process.writer.latest));
                    }
                }
            }
        }
        let [one, _] = &processes;
        prop_assert_eq!(answers::count_all(&one.writes).unwrap(), stored.len() as u64);
    }
}
