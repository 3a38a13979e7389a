//! What storing answers costs, in statements, syncs and bytes; and that it is counted once.

use std::fs;
use std::io;
use std::sync::{Arc, Mutex};

use futures::stream::{self, StreamExt as _};

use super::faults::{Asked, StoreFaults};
use super::support::*;
use crate::engine::directory;
use crate::ledger::LedgerWriter;
use crate::verdict::Verdict;

/// Calls in flight, as by default.
const IN_FLIGHT: usize = 64;
/// The requests of a group that is stored as soon as three quarters of these calls have ended.
const GROUP: u64 = 48;

/// Bytes that this thread has written so far, where the system counts them. Those of a checkpoint
/// come on top.
fn written() -> Option<u64> {
    let counts = fs::read_to_string("/proc/thread-self/io").ok()?;
    let bytes = counts.lines().find_map(|line| line.strip_prefix("wchar: "));
    bytes?.parse().ok()
}

/// A run whose database is counted, and fails so.
fn counted(path: &Path, keeping: StoreFaults) -> (OpenLedger, Arc<Mutex<Asked>>) {
    let mut settings = settings(path, "o", Reuse::All);
    settings.in_flight = IN_FLIGHT.try_into().unwrap();
    let ledger = OpenLedger::open(&settings).unwrap();
    ledger.counted(Some(keeping), StoreFaults::NEVER)
}

#[test]
fn an_answer_costs_few_bytes_and_a_group_few_statements_that_are_parsed_once() {
    const ROWS: u64 = 960;
    for (length, most) in [(60, 400), (400, 800)] {
        let directory = directory();
        let (mut ledger, asked) = counted(&directory.path().join("l"), StoreFaults::NEVER);
        let mut run = ledger.facts.run.clone();
        assert!(run.start(&mut *ledger.database).unwrap());
        ledger.database.run_starts();
        let hasher = ledger.facts.hasher.clone();
        let keys = |group: u64| (0..GROUP).map(move |it| group * GROUP + it);
        let key = |request: u64| hasher.key(&request.to_le_bytes());
        let record = |request| Record {
            key: key(request),
            result: PaidResult::Answer(vec![b'x'; length].into()),
            at: now_millis(),
        };
        let before = written();
        *asked.lock().unwrap() = Asked::default();
        for group in 0..ROWS / GROUP {
            let answered = group.checked_sub(1).into_iter().flat_map(keys);
            let group = Group {
                records: answered.map(record).collect(),
                claims: keys(group).map(key).collect(),
                max_claims: usize::MAX,
                ..Group::default()
            };
            run.store(&mut *ledger.database, &group).unwrap();
        }
        let asked = asked.lock().unwrap();
        assert!(asked.syncs as u64 <= ROWS / GROUP, "{asked:?}");
        assert!(asked.statements as u64 <= 4 * ROWS / GROUP, "{asked:?}");
        assert!(asked.texts.len() <= 6, "{asked:?}");
        if let Some((before, after)) = before.zip(written()) {
            let each = (after - before) / ROWS;
            assert!(each > length as u64, "it is counted");
            assert!(each <= most, "{each} bytes an answer of {length}");
        }
    }
}

#[test]
fn answers_that_come_together_are_stored_together() {
    const ROWS: u64 = 4_000;
    let directory = directory();
    let (ledger, asked) = counted(&directory.path().join("l"), StoreFaults::NEVER);
    let hasher = ledger.facts.hasher.clone();
    let (running, writer) = ledger.start().unwrap();
    *asked.lock().unwrap() = Asked::default();
    let verdict = Verdict::Failed(Failure::new(Reason::NoAnswer, "timed out"));
    let row = async |writer: &LedgerWriter, row: u64| {
        let key = hasher.key(&row.to_le_bytes());
        writer.keep(key, answer(row), &verdict).await.unwrap();
    };
    let rows = stream::iter(0..ROWS).map(|it| row(&writer, it));
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let stored = rows.buffer_unordered(2 * IN_FLIGHT);
    runtime.unwrap().block_on(stored.for_each(async |()| {}));
    drop(writer);
    running.finish(Duration::from_secs(30));
    let syncs = asked.lock().unwrap().syncs as u64;
    // A sync for each eight answers at least, where the machine is so busy that groups are stored
    // before they are complete.
    assert!((1..=ROWS / 8).contains(&syncs), "{syncs}");
}

#[test]
fn a_group_that_was_committed_before_the_connection_broke_is_counted_once() {
    let lost = StoreFaults {
        nth: 1,
        for_ever: true,
        durable: true,
        kind: io::ErrorKind::ConnectionReset,
    };
    let [whole, repeated] = [StoreFaults::NEVER, lost].map(|faults| {
        let directory = directory();
        let (mut ledger, asked) = counted(&directory.path().join("l"), faults);
        let (database, mut run) = (&mut *ledger.database, ledger.facts.run.clone());
        assert!(run.start(database).unwrap());
        database.run_starts();
        let key = |request: u8| ledger.facts.hasher.key(&[request]);
        let claims = |requests: &[u8]| requests.iter().map(|it| key(*it)).collect();
        let claimed = Group {
            claims: claims(&[1, 2, 3]),
            max_claims: usize::MAX,
            ..Group::default()
        };
        run.store(database, &claimed).unwrap();
        let record = Record {
            key: key(1),
            result: answer(1),
            at: now_millis(),
        };
        let answered = Group {
            records: vec![record],
            unanswered: vec![(key(2), Unanswered::Again), (key(3), Unanswered::NotMade)],
            claims: claims(&[4, 5]),
            max_claims: usize::MAX,
            ..Group::default()
        };
        let results = run.store(database, &answered).unwrap();
        run.leave(database, 5, None);
        let mut numbers = |query| {
            let rows = database.query(query, &[]).unwrap();
            rows[0].get::<i64>(0).unwrap()
        };
        let numbers = [
            numbers("SELECT calls FROM runs"),
            numbers("SELECT calls FROM spending"),
            numbers("SELECT answers FROM spending"),
            numbers("SELECT count(*) FROM answers"),
            numbers("SELECT count(*) FROM claims"),
        ];
        assert!(asked.lock().unwrap().syncs > 0);
        (results, numbers)
    });
    assert_eq!(repeated, whole);
    assert_eq!(whole.1, [5, 5, 1, 1, 0]);
}
