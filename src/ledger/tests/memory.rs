//! Answers that nothing keeps beyond the run: in memory, and in a temporary database once they are too many.

#![allow(clippy::unwrap_used)]

use std::io;

use super::support::{TestRun, answer, current, open, pointers, settings, wait};
use crate::ledger::answer_memory::MOST;
use crate::ledger::faults::StoreFaults;
use crate::ledger::lookup_result::AnsweredIn;
use crate::ledger::{LedgerLocation, LedgerSettings};
use crate::verdict::Answer;

fn scratch() -> LedgerSettings {
    settings(LedgerLocation::Scratch)
}

fn body(number: usize) -> Vec<u8> {
    format!("{{{number}}}").into_bytes()
}

#[test]
fn answers_are_found_in_memory_while_they_are_moved_and_in_the_database() {
    let captured = || Box::new([Some("\"low\"".into()), None]);
    let of = |number| Answer {
        captured: captured(),
        ..answer(&format!("t-{number}"))
    };
    let run = TestRun::new(LedgerSettings {
        captured: pointers(&["/level", "/age"]),
        ..scratch()
    });
    let check = |number| {
        let body = body(number);
        let found = run.writer.look_again(&run.hasher.key(&body), &body);
        let expected = (current(of(number)), AnsweredIn::ThisRun);
        assert_eq!(found.unwrap(), Some(expected), "{number}");
    };
    let all = 5 * MOST;
    for number in 0..all {
        run.keep(&body(number), &of(number));
        check(number);
        check(number / 2);
    }
    (0..all).for_each(check);
    let found = { run.writer }.look_again(&run.hasher.key(b"{}"), b"{}");
    assert_eq!(found.unwrap(), None);
}

#[test]
fn a_run_whose_answers_cannot_be_moved_fails() {
    let ledger = open(scratch());
    let hasher = ledger.hasher();
    let faults = StoreFaults {
        nth: 1,
        for_ever: true,
        durable: false,
        kind: io::ErrorKind::StorageFull,
    };
    let (_running, writer) = ledger.start_failing(faults).unwrap();
    let keep = |number| wait(writer.keep(hasher.key(&body(number)), answer("t-1")));
    assert!((0..MOST).all(|number| keep(number).is_ok()));
    let error = (MOST..4 * MOST).find_map(|number| keep(number).err());
    let error = error.unwrap();
    assert_eq!(error.exit().code(), 3);
    assert!(error.is_disk_full());
}
