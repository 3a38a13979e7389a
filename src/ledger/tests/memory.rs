//! Answers that nothing keeps beyond the run: the first ones in memory, the others in a temporary database.

#![allow(clippy::unwrap_used)]

use super::support::{TestRun, answer, current, pointers, settings};
use crate::ledger::answer_memory::MOST;
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
fn answers_are_found_in_memory_and_in_the_database() {
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
