//! Which answers are found, how old they may be, and what they must contain.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, SystemTime};

use super::support::{
    BODY, Directory, TestRun, age, answer, current, failed, find, keep, open, pointers, refused,
    replaceable, reusing, wait, young_only,
};
use crate::ledger::clock::millis;
use crate::ledger::lookup_result::AnsweredIn;
use crate::ledger::store::{Payload, Record, Store as _, Work};
use crate::ledger::{
    ClaimRequest, ClaimResult, Freshness, KnownOutcome, LedgerSettings, LookupResult, Removal,
    Reuse, Urgency,
};
use crate::row::RowNumber;
use crate::telemetry::event::Unusable;
use crate::verdict::Answer;

#[test]
fn the_failures_of_a_run_are_its_own_and_sealed() {
    let place = Directory::new();
    let to = |output: &str| LedgerSettings {
        output: Some(place.path(output)),
        ..place.shared()
    };
    let run = TestRun::new(to("a.csv"));
    let key = run.key();
    run.keep_failure(BODY, &refused());
    let found = failed(refused());
    assert_eq!(
        run.writer.look_again(&key, BODY).unwrap(),
        Some((found.clone(), AnsweredIn::ThisRun))
    );
    assert!(run.writer.has_failed(&key));
    run.close(Removal::Never);
    assert_eq!(find(to("a.csv"), BODY), found);
    assert_eq!(find(to("b.csv"), BODY), LookupResult::default());
    assert!(!place.has(b"Jane"));
    // The ledger alone, without the person's data, gives noise.
    let ledger = open(to("a.csv"));
    let mut lookup = ledger.lookup().unwrap().unwrap();
    assert_ne!(lookup.find(&key, b"{}").unwrap(), found);
    // An answer of another run is used all the same.
    let next = TestRun::of(ledger);
    assert!(!next.writer.has_failed(&key), "it did so before this start");
    next.keep(BODY, &answer("t-1"));
    assert_eq!(lookup.find(&key, BODY).unwrap(), current(answer("t-1")));
}

#[test]
fn equal_rows_that_are_each_asked_have_answers_and_failures_of_their_own() {
    let place = Directory::new();
    let run = TestRun::new(place.shared());
    let row = RowNumber::FIRST;
    let keys = [
        run.key(),
        run.key().for_row(row),
        run.key().for_row(row.next()),
    ];
    for (key, id) in keys.iter().zip(["t-0", "t-1"]) {
        super::support::wait(run.writer.keep(*key, answer(id))).unwrap();
    }
    super::support::wait(run.writer.keep_failure(keys[2], BODY, &refused())).unwrap();
    run.close(Removal::Never);
    let mut lookup = open(place.shared()).lookup().unwrap().unwrap();
    let found = keys.map(|key| lookup.find(&key, BODY).unwrap());
    assert_eq!(
        found,
        [
            current(answer("t-0")),
            current(answer("t-1")),
            failed(refused())
        ]
    );
    let moved = keys[2].for_row(row.next().next());
    assert_eq!(lookup.find(&moved, BODY).unwrap(), LookupResult::default());
}

#[test]
fn an_answer_from_the_future_is_not_young() {
    let place = Directory::new();
    let run = |reuse| find(reusing(reuse, place.shared()), BODY);
    keep(place.shared(), BODY, &answer("t-1"));
    let path = place.path("answers.ledger");
    let young = young_only(Duration::from_secs(60));
    // Within the allowance for clocks that are set back.
    age(&path, -30 * 60);
    assert_eq!(run(young), current(answer("t-1")));
    age(&path, -31 * 60);
    let expected = LookupResult {
        unusable: Some(Unusable::FromTheFuture),
        ..LookupResult::default()
    };
    assert_eq!(run(young), expected);
    // Where ages do not matter, the time does not either.
    assert_eq!(run(Reuse::All), current(answer("t-1")));
}

#[test]
fn an_answer_that_a_run_got_itself_is_not_from_the_future() {
    let place = Directory::new();
    let young = || reusing(young_only(Duration::from_secs(60)), place.shared());
    let run = TestRun::new(young());
    run.keep(BODY, &answer("t-1"));
    // As if the clock had been set back since.
    age(&place.path("answers.ledger"), -2 * 60 * 60);
    let found = run.writer.look_again(&run.key(), BODY).unwrap();
    assert_eq!(
        found,
        Some((current(answer("t-1")), AnsweredIn::ThisRun)),
        "identical rows"
    );
    let found = find(young(), BODY).unusable;
    assert_eq!(found, Some(Unusable::FromTheFuture), "another run");
}

#[test]
fn answers_age_by_the_wall_clock() {
    let place = Directory::new();
    keep(place.shared(), BODY, &answer("t-1"));
    age(&place.path("answers.ledger"), 2 * 86_400);
    let day = Duration::from_secs(86_400);
    let now = SystemTime::now();
    // Both rules hold: the later moment counts.
    let recent = |max_age, since| Reuse::Recent(Freshness::of(max_age, Some(now - since)).unwrap());
    for (reuse, found) in [
        (Reuse::All, current(answer("t-1"))),
        (young_only(3 * day), current(answer("t-1"))),
        (young_only(day), replaceable()),
        (recent(None, 3 * day), current(answer("t-1"))),
        (recent(None, day), replaceable()),
        (recent(Some(3 * day), day), replaceable()),
        (recent(Some(day), 3 * day), replaceable()),
        (recent(Some(3 * day), 3 * day), current(answer("t-1"))),
        (Reuse::Nothing, replaceable()),
    ] {
        let settings = reusing(reuse, place.shared());
        assert_eq!(find(settings, BODY), found, "{reuse:?}");
    }
}

#[test]
fn an_answer_without_a_field_of_the_run_is_asked_for_again() {
    let place = Directory::new();
    let capturing = |fields: &[&str]| LedgerSettings {
        captured: pointers(fields),
        ..place.own()
    };
    let with = |captured: &[Option<&str>]| Answer {
        captured: captured.iter().map(|value| value.map(Into::into)).collect(),
        ..answer("t-1")
    };
    let kept = with(&[Some("null"), None, Some("\"x\"")]);
    keep(capturing(&["/a", "/b", "/c"]), BODY, &kept);
    for (fields, values) in [
        (&["/c", "/a"][..], &[Some("\"x\""), Some("null")][..]),
        (&["/b"], &[None]),
        (&[], &[]),
    ] {
        assert_eq!(find(capturing(fields), BODY), current(with(values)));
    }
    // It is an answer of this very run, which is not at its end yet: not how the user was judged before.
    assert_eq!(
        find(capturing(&["/a", "/d"]), BODY),
        LookupResult::default()
    );
}

#[test]
fn an_answer_is_stored_with_the_fields_that_were_asked_for_when_it_came() {
    let place = Directory::new();
    let capturing = |field| LedgerSettings {
        captured: pointers(&[field]),
        ..place.shared()
    };
    let ledger = open(capturing("/a"));
    let (hasher, fields) = (ledger.hasher(), ledger.fields());
    let mut database = ledger.into_database();
    let with = |values: &[&str]| Answer {
        captured: values.iter().map(|value| Some((*value).into())).collect(),
        ..answer("t-1")
    };
    let mut store = |answers: &[(&[u8], Answer)]| {
        let record = |(body, answer): &(&[u8], Answer)| Record {
            key: hasher.key(body),
            payload: Payload::Answer(answer.clone()),
            at: millis(SystemTime::now()),
        };
        let records: Vec<_> = answers.iter().map(record).collect();
        let work = Work {
            records: &records,
            ..Work::default()
        };
        database.write(work).unwrap();
        fields.borrow().clone()
    };
    assert_eq!(store(&[(b"1", with(&["1"]))]), pointers(&["/a"]));
    let second = TestRun::new(capturing("/b"));
    assert_eq!(store(&[(b"2", with(&["2"]))]), pointers(&["/a", "/b"]));
    // Some of a group may have come before that.
    store(&[
        (b"3", with(&["3"])),
        (b"4", with(&["4", "b"])),
        (b"5", with(&["5"])),
    ]);
    drop(second);
    for (body, value, has_both) in [
        (b"1", "1", false),
        (b"2", "2", false),
        (b"3", "3", false),
        (b"4", "4", true),
        (b"5", "5", false),
    ] {
        assert_eq!(find(capturing("/a"), body), current(with(&[value])));
        let of_b = has_both.then(|| KnownOutcome::Answer(with(&["b"])));
        assert_eq!(find(capturing("/b"), body).known, of_b, "{value}");
    }
}

#[test]
fn runs_that_share_a_ledger_see_each_others_answers() {
    let place = Directory::new();
    let (ours, others) = (TestRun::new(place.shared()), TestRun::new(place.shared()));
    let key = ours.key();
    assert_eq!(others.key(), key);
    assert_eq!(others.writer.look_again(&key, BODY).unwrap(), None);
    ours.keep(BODY, &answer("t-1"));
    let known = (current(answer("t-1")), AnsweredIn::OtherRun);
    // What others have stored is noted with each claim.
    let body = BODY.into();
    let claimed = wait(
        others
            .writer
            .claim(vec![ClaimRequest { key, body }], Urgency::Now),
    )
    .unwrap();
    let expected = ClaimResult::Known(known.0.clone(), known.1);
    assert_eq!(claimed.results, [expected]);
    assert_eq!(others.writer.look_again(&key, BODY).unwrap(), Some(known));
    assert_eq!(
        ours.writer.look_again(&key, BODY).unwrap(),
        Some((current(answer("t-1")), AnsweredIn::ThisRun))
    );
}
