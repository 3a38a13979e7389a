//! `--changes-key`: decisions are compared with those of the output that is replaced, by a column of the user's own.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::process::{Done, Place};
use crate::support::server::{Request, Server, good_body, ok, silence, status};

const HEADER: &str = "id,name,email,phone,ip,user_agent";
const RUN: &str = "--overwrite --changes changes.csv --changes-key id --summary s.json";

/// The verdict depends on email and phone, and `failing.example` has none.
fn judge(request: &Request) -> crate::support::server::Action {
    let user = request.json();
    let email = user["email"].as_str().unwrap_or_default();
    if email.ends_with("@failing.example") {
        return status(422);
    }
    ok(&good_body(&format!("{email}{}", user["phone"])))
}

/// A user whose email has this domain, with the nth phone number.
fn user(id: usize, domain: &str, phone: usize) -> String {
    let phone = 15_100_000_000 + phone;
    format!("{id},User {id},user{id}@{domain},+49{phone},192.0.2.1,curl/8")
}

fn file<T: AsRef<str>>(rows: impl IntoIterator<Item = T>) -> String {
    { rows.into_iter() }.fold(format!("{HEADER}\n"), |file, row| {
        file + row.as_ref() + "\n"
    })
}

/// The cells of the rows of a scored file.
fn rows(scored: &str) -> Vec<Vec<&str>> {
    let rows = scored.lines().skip(1);
    rows.map(|row| row.split(',').collect()).collect()
}

/// What the changes must be by two outputs, and how many rows are compared. Of the earlier one, no key comes twice.
fn expected(before: &str, now: &str) -> (String, usize) {
    let rows_before = rows(before);
    let before: HashMap<_, _> = rows_before.iter().map(|row| (row[0], row)).collect();
    let mut changes =
        format!("change_row,old_decision,old_score,new_decision,new_score,{HEADER}\n");
    let mut compared = 0;
    for (number, now) in (1..).zip(rows(now)) {
        let Some(before) = before.get(now[0]) else {
            continue;
        };
        if now[8].is_empty() || before[8].is_empty() {
            continue;
        }
        compared += 1;
        if now[8] != before[8] {
            let [old, new] = [before, &now].map(|row| format!("{},{}", row[8], row[7]));
            changes += &format!("{number},{old},{new},{}\n", now[..6].join(","));
        }
    }
    (changes, compared)
}

/// Runs, and checks that the changes are those from the earlier output to the new one.
#[track_caller]
fn compares(place: &Place, before: &str, done: &Done, code: i32) -> usize {
    done.exits(code);
    let (changes, compared) = expected(before, &place.text("scored.csv"));
    assert_eq!(place.text("changes.csv"), changes);
    let differing = changes.lines().count() - 1;
    let drift = &place.json("s.json")["drift"];
    assert_eq!(
        (&drift["compared"], &drift["changed"]),
        (&compared.into(), &differing.into())
    );
    differing
}

#[test]
fn exactly_the_rows_whose_decision_differs_from_the_output_before_are_listed() {
    let server = Server::start(judge);
    let all = (1..=1_000).map(|id| user(id, "example.com", id));
    let place = Place::with("users.csv", file(all));
    let first = place.score(&server, RUN);
    first
        .exits(0)
        .says("no output to compare with by `id`")
        .silent_about("changed");
    let before = place.text("scored.csv");
    // A hundred have another email address or phone number, one fails; others are gone or new, and the order is another one.
    let now = (1..=1_050).rev().filter(|id| id % 100 != 9);
    let now = now.map(|id| match id {
        500 => user(id, "failing.example", id),
        _ if id % 20 == 0 => user(id, "example.org", id),
        _ if id % 20 == 5 => user(id, "example.com", id + 5_000),
        _ => user(id, "example.com", id),
    });
    place.write("users.csv", file(now));
    let done = place.score(&server, RUN);
    let changed = compares(&place, &before, &done, 1);
    assert!((30..100).contains(&changed), "{changed}");
    done.says(&format!(
        "{changed} of 989 decisions changed; see changes.csv"
    ));
    // The same again: nothing differs from the output that is replaced, nor do users who had no verdict.
    let before = place.text("scored.csv");
    assert_eq!(compares(&place, &before, &place.score(&server, RUN), 1), 0);
    // A user's row is compared by its key alone: other thresholds show as well, also without a ledger.
    let other = format!("{RUN} --no-ledger --review-max 9 --only user_agent!=bot");
    let done = place.score(&server, other.as_str());
    assert!(compares(&place, &before, &done, 1) > 100);
}

#[test]
fn a_run_that_is_stopped_and_killed_compares_with_the_output_that_was_there_before() {
    let (held, calls) = (
        Arc::new(AtomicUsize::new(usize::MAX)),
        Arc::new(AtomicUsize::new(0)),
    );
    let (last, made) = (Arc::clone(&held), Arc::clone(&calls));
    let server = Server::start(move |request| {
        made.store(request.nth, Ordering::SeqCst);
        if request.nth > last.load(Ordering::SeqCst) {
            return silence().then_stall();
        }
        judge(request)
    });
    let place = Place::with(
        "users.csv",
        file((1..=40).map(|id| user(id, "example.com", id))),
    );
    place.score(&server, RUN).exits(0);
    let before = place.text("scored.csv");
    place.write(
        "users.csv",
        file((1..=40).map(|id| user(id, "example.org", id))),
    );
    let run = |more: &str| place.scoring(&server).args(RUN).args("-c1").args(more);
    run("--max-calls 10").exits(5);
    held.store(65, Ordering::SeqCst);
    run("")
        .start()
        .kill_when(|| calls.load(Ordering::SeqCst) > 65);
    held.store(usize::MAX, Ordering::SeqCst);
    assert_eq!(place.text("scored.csv"), before);
    assert!(compares(&place, &before, &run("").done(), 0) > 5);
}

#[test]
fn a_run_that_is_killed_after_its_files_have_their_names_is_not_compared_with_itself() {
    let server = Server::start(judge);
    let night = |domain: &str| file((1..=40).map(|id| user(id, domain, id)));
    let place = Place::with("users.csv", night("example.com"));
    place.score(&server, RUN).exits(0);
    let before = place.text("scored.csv");
    place.write("users.csv", night("example.org"));
    let done = place.score(&server, RUN);
    assert!(compares(&place, &before, &done, 0) > 5);
    let (scored, changes) = (place.text("scored.csv"), place.text("changes.csv"));
    // What a kill keeps from being recorded.
    let kill = || {
        let ledger = rusqlite::Connection::open(place.path("rescore.ledger")).unwrap();
        ledger.execute("UPDATE runs SET failed = NULL", []).unwrap();
    };
    kill();
    let done = place.score(&server, RUN);
    done.exits(0).says("`changes.csv` stays as it is");
    assert_eq!(place.text("scored.csv"), scored);
    assert_eq!(place.text("changes.csv"), changes);
    assert_eq!(server.calls(), 80);
    // The next night is compared with this one, also if nobody has run the command again before.
    kill();
    place.write("users.csv", night("example.net"));
    let done = place.score(&server, RUN);
    assert!(compares(&place, &scored, &done, 0) > 5);
}

#[test]
fn rows_that_share_a_key_are_compared_only_if_they_had_the_same_verdict() {
    let server = Server::start(judge);
    let [one, two] = [1, 2].map(|phone| user(7, "example.com", phone));
    let place = Place::with(
        "users.csv",
        file([
            &one,
            &two,
            &one.replacen('7', "8", 1),
            &one.replacen('7', "8", 1),
        ]),
    );
    place.score(&server, RUN).exits(0);
    let before = place.text("scored.csv");
    assert!(rows(&before)[0][8] != rows(&before)[1][8], "{before}");
    place.write(
        "users.csv",
        file(["7", " 8 ", "\"8\"", ""].map(|id| two.replacen('7', id, 1))),
    );
    let done = place.score(&server, RUN);
    done.exits(0)
        .says("`scored.csv` has 1 value of `id` in several rows with different verdicts");
    let changes = place.text("changes.csv");
    let numbers: Vec<_> = changes
        .lines()
        .skip(1)
        .map(|row| row.split(',').next().unwrap())
        .collect();
    assert_eq!(numbers, ["2", "3"], "{before}{changes}");
    assert_eq!(place.json("s.json")["drift"]["compared"], 2);
}

#[test]
fn members_may_be_keys_also_nested_ones_and_a_compressed_output_is_read() {
    let server = Server::start(judge);
    let row = |id: usize, quote: &str, domain: &str| {
        format!(
            "{{\"u\":{{\"id\":{quote}{id}{quote}}},\"name\":\"A\",\"email\":\"a{id}@{domain}\",\"ip\":\"::1\",\"user_agent\":\"u\"}}\n"
        )
    };
    let file = |quote, domain| (1..=9).map(|id| row(id, quote, domain)).collect::<String>();
    let place = Place::with("users.jsonl", file("", "example.com"));
    let args = "users.jsonl -o out.jsonl.gz --overwrite --changes c.jsonl --changes-key /u/id";
    let run = || place.run(&server, args).done();
    run().exits(0);
    // A number is the same key as a text of its digits.
    place.write("users.jsonl", file("\"", "example.org"));
    let done = run();
    let changed = place.text("c.jsonl").lines().count();
    let words = format!("{changed} of 9 decisions changed");
    done.exits(0).says(&words);
    assert!(changed > 0, "{words}");
    // Of an object with two ids it is not clear which user it is.
    let two = file("", "example.com").replacen("{\"id\":1", "{\"id\":7,\"id\":1", 1);
    place.write("users.jsonl", two);
    run().exits(1).says(" of 8 decisions changed");
    assert!(place.text("out.rejects.jsonl").contains("duplicate_key"));
}
