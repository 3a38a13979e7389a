//! Two runs on one ledger: the second asks for a field that nobody had asked for when the first one started.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::process::{Place, Program};
use crate::support::server::{Request, Server, ok};

/// Users.
pub(crate) const USERS: usize = 40;
/// Those that are answered before the second run starts.
const BEFORE: usize = 8;

/// Answers each call with a number of its own, also in a further field, and the last users not before it is told to.
pub(crate) fn service() -> (Server, Arc<AtomicUsize>) {
    let answered = Arc::new(AtomicUsize::new(BEFORE));
    let up_to = Arc::clone(&answered);
    let server = Server::start(move |request: &Request| {
        let name = request.name();
        let user: usize = name.strip_prefix("User ").unwrap().parse().unwrap();
        while user > up_to.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(2));
        }
        let nth = request.nth;
        ok(&format!(
            r#"{{"transaction_id":"t-{nth}","summary":{{"risk_score":1}},"level":{nth},"name":"{name}"}}"#
        ))
    });
    (server, answered)
}

/// Runs `first`, with so many calls in flight, to `1.csv`, and meanwhile `second`, which asks for the field, to `2.csv`. Only
/// answers that the first run had when it learned of the field are paid for again.
#[track_caller]
pub(crate) fn check(
    (server, answered): (&Server, &AtomicUsize),
    place: &Place,
    calls: usize,
    [first, second]: [Program<'_>; 2],
) {
    let first = first.start();
    let wait_for_rows = |rows: usize| {
        first.wait_for_file("1.csv.partial", |partial| {
            String::from_utf8_lossy(partial).lines().count() > rows
        });
    };
    wait_for_rows(BEFORE);
    server.wait_for_calls(BEFORE + calls);
    let second = second.args("--column level=/level").start();
    server.wait_for_calls(BEFORE + calls + 1);
    // With the answer that is stored next, at the latest, the first run learns of the field.
    answered.store(BEFORE + 1, Ordering::Release);
    wait_for_rows(BEFORE + 1);
    answered.store(USERS, Ordering::Release);
    for run in [first, second] {
        run.done().exits(0);
    }
    let scored = place.text("2.csv");
    assert_eq!(scored.lines().count(), 1 + USERS);
    for row in scored.lines().skip(1) {
        // The field belongs to the same transaction.
        let verdict: Vec<_> = row.split(',').skip(5).collect();
        assert_eq!(verdict[0].strip_prefix("t-"), Some(verdict[3]), "{scored}");
    }
    let paid = server.calls();
    let expected = USERS + BEFORE..=USERS + BEFORE + 1;
    assert!(expected.contains(&paid), "{paid} calls");
}
