//! `--idempotency-header`: which UUID each call carries, and what a service that honours it is not billed for twice.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::support::command_line::CommandLine;
use crate::support::ledger_file;
use crate::support::process::Place;
use crate::support::server::{Request, Server, good, ok, raw, status};
use crate::support::stand_in::{HEADERS, StandIn};
use crate::support::users::{self};

const HEADER: [&str; 2] = ["--idempotency-header", "Idempotency-Key"];

/// The UUID of a call, in the usual form, of version 8.
fn uuid(request: &Request) -> String {
    let uuid = request.header("idempotency-key").unwrap();
    let parts: Vec<_> = uuid.split('-').collect();
    let lengths: Vec<_> = parts.iter().map(|part| part.len()).collect();
    assert_eq!(lengths, [8, 4, 4, 4, 12], "{uuid}");
    let is_lower_hex = |c: char| matches!(c, '0'..='9' | 'a'..='f' | '-');
    assert!(uuid.chars().all(is_lower_hex), "{uuid}");
    assert!(parts[2].starts_with('8'), "version 8: {uuid}");
    assert!(parts[3].starts_with(['8', '9', 'a', 'b']), "{uuid}");
    uuid.to_owned()
}

/// The UUIDs of these calls by user.
fn uuids(requests: &[Request]) -> BTreeMap<String, BTreeSet<String>> {
    let mut by_name = BTreeMap::<_, BTreeSet<_>>::new();
    for request in requests {
        let uuids = by_name.entry(request.name()).or_default();
        uuids.insert(uuid(request));
    }
    by_name
}

/// The one UUID of each user.
#[track_caller]
fn one_each(requests: &[Request]) -> BTreeMap<String, String> {
    let one = |(name, uuids): (String, BTreeSet<String>)| {
        assert_eq!(uuids.len(), 1, "{name}: {uuids:?}");
        (name, uuids.into_iter().next().unwrap())
    };
    uuids(requests).into_iter().map(one).collect()
}

/// Whether two runs sent no UUID in common.
fn have_none_in_common(one: &[Request], other: &[Request]) -> bool {
    let all = |requests: &[Request]| requests.iter().map(uuid).collect::<BTreeSet<_>>();
    all(one).is_disjoint(&all(other))
}

#[test]
fn every_attempt_of_a_request_has_one_uuid_and_a_lost_answer_is_not_billed_twice() {
    let csv = users::csv(8);
    let place = Place::with("users.csv", &csv);
    // Without the header, the second lost answer would end the row.
    let server = Server::start(|request| match (&*request.name(), request.attempt) {
        ("User 2", 1..=3) => raw("").then_reset(),
        ("User 3", 1) => status(500),
        ("User 4", 1) => status(429),
        _ => good(request),
    });
    let args = "--price 1 --summary summary.json --progress plain --metrics m.prom \
        --log n.log --log-level debug";
    let run = place.scoring(&server);
    let done = run.args(args).args(HEADER).done();
    done.exits(0)
        .says("spent 8.00: 8 answers at 1.00\n")
        .says("4 calls may have been billed and were repeated with the same UUID: no second bill if the service honours it")
        .silent_about("billed twice")
        .silent_about("without an answer");
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    let sent = one_each(&server.requests());
    assert_eq!(sent.len(), 8);
    let different: BTreeSet<_> = sent.values().collect();
    assert_eq!(different.len(), 8);

    let summary = place.json("summary.json");
    let calls = |name: &str| summary["calls"][name].as_u64().unwrap();
    assert_eq!(calls("sent"), 8 + 3 + 1 + 1);
    assert_eq!((calls("retries"), calls("throttled")), (4, 1));
    assert_eq!((calls("unknown_outcome"), calls("settled_by_uuid")), (3, 4));
    assert_eq!(calls("maybe_billed_twice"), 0);
    assert_eq!(summary["cost"]["spent"], summary["cost"]["spent_at_most"]);
    let metrics = place.text("m.prom");
    let settled = { metrics.lines() }
        .find(|line| line.starts_with("rescore_settled_by_uuid_total{"))
        .unwrap();
    assert!(settled.ends_with(" 4"), "{settled}");
    let log = place.text("n.log");
    for settled in [
        r#""event":"calls_settled","unanswered":3,"server_errors":0}"#,
        r#""event":"calls_settled","unanswered":0,"server_errors":1}"#,
        r#""settled_by_uuid":4,"#,
    ] {
        assert_eq!(log.matches(settled).count(), 1, "{settled}\n{log}");
    }
}

#[test]
fn without_the_option_no_call_has_such_a_header() {
    let place = Place::with("users.csv", users::csv(1));
    let server = Server::good();
    place.score(&server, "").exits(0);
    let request = server.only_request();
    let names = request.headers.iter().map(|(name, _)| name.to_lowercase());
    let expected = [
        "accept",
        "authorization",
        "content-length",
        "content-type",
        "host",
        "user-agent",
    ];
    let names: BTreeSet<_> = names.filter(|name| name != "x-service-id").collect();
    assert_eq!(names, expected.map(str::to_owned).into());
}

#[test]
fn after_a_kill_each_request_has_its_uuid_again_and_a_new_run_has_others() {
    let csv = users::csv(12);
    let place = Place::with("users.csv", &csv);
    let shared = "--ledger answers.ledger --overwrite";
    // Half of the users are answered, the others are out when the run is killed.
    let (first, release) = Server::holding(6);
    let run = |server| {
        let run = place.scoring(server);
        run.args(shared).args(HEADER)
    };
    let killed = run(&first).start().kill_when(|| first.calls() == 12);
    assert_eq!(killed.code(), None);
    drop(release);
    let before = one_each(&first.requests());
    assert_eq!(before.len(), 12);

    run(&first).done().exits(0);
    let all = first.requests();
    assert!(
        all.len() >= 18,
        "those without a durable answer are sent again"
    );
    assert_eq!(one_each(&all), before);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));

    // Asked again on purpose: by `--fresh`, and as the answers are too old.
    let fresh = run(&first).args("--fresh").done();
    fresh.exits(0);
    let so_far = first.requests();
    assert_eq!(so_far.len(), all.len() + 12);
    assert!(have_none_in_common(&all, &so_far[all.len()..]));
    ledger_file::age(&place.path("answers.ledger"), 60_000);
    run(&first).args("--max-age 30s").done().exits(0);
    let last = first.requests();
    assert_eq!(last.len(), so_far.len() + 12);
    assert!(have_none_in_common(&so_far, &last[so_far.len()..]));
}

#[test]
fn a_stopped_run_that_asks_again_for_what_it_has_sends_another_uuid() {
    for again in [&["--fresh"][..], &["--max-age", "30s"]] {
        let place = Place::with("users.csv", users::csv(9));
        let server = Server::start(|request| match (&*request.name(), request.attempt) {
            ("User 5", 1) | ("User 2", 2) => raw("").then_reset(),
            _ => good(request),
        });
        let run = |more: &[&str]| {
            let run = place.run(
                &server,
                "users.csv -o scored.csv -c 1 --ledger answers.ledger --overwrite",
            );
            run.args(HEADER).args(more).done()
        };
        run(&["--max-calls", "1"]).exits(3);
        // It goes on for long enough that answers of its own are too old.
        let ledger = place.path("answers.ledger");
        ledger_file::begun_long_ago(&ledger);
        run(&["--max-calls", "4"]).exits(3);
        assert_eq!(ledger_file::age(&ledger, 60_000), 4);
        let first = server.requests().split_off(1);
        let args = [again, &["--max-calls", "7"]].concat();
        run(&args).exits(3);
        let second = server.requests().split_off(5);
        let (before, after) = (one_each(&first), one_each(&second));
        for answered in ["User 2", "User 3", "User 4"] {
            assert_ne!(before[answered], after[answered], "{again:?}");
        }
        assert_eq!(before["User 5"], after["User 5"], "it has no answer yet");
        run(&[]).exits(0);
        let third = server.requests().split_off(12);
        assert_eq!(one_each(&third).len(), 3, "the other six are answered");
    }
}

#[test]
fn a_row_whose_outcome_stays_unknown_is_sent_again_with_its_uuid() {
    let place = Place::with("users.csv", users::csv(3));
    let server = Server::start(|request| match (&*request.name(), request.attempt) {
        ("User 2", 1..=2) => raw("").then_reset(),
        _ => good(request),
    });
    let run = |args: &[&str]| {
        let run = place.run(&server, "users.csv -o scored.csv --retries 0");
        run.args(HEADER).args(args).done()
    };
    run(&["--summary", "summary.json"])
        .exits(1)
        .says("1 call may have been billed without an answer");
    assert_eq!(
        place.json("summary.json")["failed"]["reasons"],
        json!({"no_answer": 1})
    );
    run(&["--retry-failed"]).exits(1);
    run(&["--retry-failed"]).exits(0);
    assert_eq!(server.calls(), 5);
    one_each(&server.requests());
}

#[test]
fn a_stopped_run_sends_a_row_whose_outcome_is_unknown_again() {
    let place = Place::with("users.csv", users::csv(6));
    let server = Server::start(|request| match (&*request.name(), request.attempt) {
        ("User 2", 1) => raw("").then_reset(),
        _ => good(request),
    });
    let args = "users.csv -o scored.csv --retries 0 -c 1";
    let run = |more: &[&str]| place.run(&server, args).args(HEADER).args(more).done();
    run(&["--max-calls", "3"]).exits(3);
    run(&[]).exits(0);
    assert_eq!(server.calls(), 7);
    one_each(&server.requests());
}

#[test]
fn equal_rows_share_a_uuid_only_if_they_share_a_call() {
    let twice = users::named(["Ann", "Ann"]).replace("\n2,Ann,user2", "\n1,Ann,user1");
    let twice = twice.replace("192.0.2.2", "192.0.2.1");
    for (args, calls) in [
        (&[][..], 1),
        (&["--no-ledger"], 1),
        (&["--no-dedupe"], 2),
        (&["--no-dedupe", "--no-ledger"], 2),
    ] {
        let (place, server) = (Place::with("users.csv", &twice), Server::good());
        let run = place.scoring(&server);
        run.args(HEADER).args(args).done().exits(0);
        let sent: BTreeSet<_> = server.requests().iter().map(uuid).collect();
        assert_eq!((server.calls(), sent.len()), (calls, calls), "{args:?}");
    }
}

#[test]
fn without_a_ledger_attempts_share_a_uuid_and_runs_do_not() {
    let place = Place::with("users.csv", users::csv(4));
    let server = Server::start(|request| match request.attempt {
        1 => status(500),
        _ => good(request),
    });
    for more in [&["--no-ledger"][..], &["--no-ledger", "--no-dedupe"]] {
        let before = server.calls();
        let run = || {
            let run = place.run(&server, "users.csv -o scored.csv --overwrite");
            run.args(HEADER).args(more).done()
        };
        run().exits(0);
        let first = server.requests().split_off(before);
        one_each(&first);
        run().exits(0);
        let second = server.requests().split_off(before + first.len());
        assert!(have_none_in_common(&first, &second));
    }
}

#[test]
fn a_409_means_that_the_service_is_at_work_on_an_earlier_call() {
    let place = Place::with("users.csv", users::csv(2));
    let server = Server::start(|request| match (&*request.name(), request.attempt) {
        ("User 2", 1) => raw("").then_reset(),
        ("User 2", 2) => status(409),
        _ => good(request),
    });
    place.score(&server, HEADER).exits(0);
    one_each(&server.requests());
    assert_eq!(server.calls(), 4);
    // A service that always answers so has something against the row.
    let server = Server::start(|request| match &*request.name() {
        "User 2" => status(409),
        _ => good(request),
    });
    let args = "--idempotency-header X-Once --retries 1 --overwrite";
    place.score(&server, args).exits(1);
    assert!(place.text("scored.rejects.csv").contains("\n2,refused,"));
    assert_eq!(server.calls(), 3);
}

#[test]
fn a_name_with_another_meaning_is_refused() {
    let line = CommandLine::new();
    let refuses = |name: &str, words: &str| {
        line.refuses_typed(["--idempotency-header", name], &[words, "hint: "]);
    };
    for taken in [
        "Authorization",
        "content-type",
        "Host",
        "X-Service-ID",
        "Content-Length",
        "TE",
    ] {
        refuses(
            taken,
            &format!("`{taken}` is a header that every call already has"),
        );
    }
    refuses(
        "Idempotency Key",
        "`Idempotency Key` is not the name of a header",
    );
    refuses("", "is not the name of a header");
    line.refuses_typed(
        "--idempotency-header Once --resend-unknown 3",
        &["cannot be used with"],
    );
}

#[test]
fn a_rehearsal_with_lost_answers_bills_each_user_once() {
    let csv = users::csv(200);
    let place = Place::with("users.csv", &csv);
    let faults = ["--fault", "lost=0.1", "--fault", "500=0.05", "--seed", "3"];
    let stand_in = StandIn::start(&place, [&faults[..], &HEADER].concat());
    let program = place.run_at(stand_in.url()).args("--rate unlimited");
    let program = program.args("--price 1 --summary summary.json");
    program.args(HEADER).done().exits(0);
    let (bill, summary) = (stand_in.bill(), place.json("summary.json"));
    let lost = bill["faults"]["lost"].as_u64().unwrap();
    assert!(lost > 0, "{bill:#}");
    assert_eq!(bill["billed"], json!(200), "{bill:#}");
    // A repeated answer can be lost as well.
    assert_eq!(bill["repeated"].as_u64(), Some(lost), "{bill:#}");
    assert_eq!(
        summary["calls"]["unknown_outcome"],
        json!(lost),
        "{summary:#}"
    );
    assert_eq!(
        summary["cost"]["spent_at_most"],
        json!(200.0),
        "{summary:#}"
    );
    stand_in.stop().says(&format!(
        "billed 200, throttled 0, refused 0, answered again {lost}"
    ));
}

#[test]
fn the_stand_in_gives_a_repeated_request_its_answer_and_refuses_what_breaks_the_promise() {
    let place = Place::new();
    let stand_in = StandIn::start(&place, HEADER);
    let ask = |uuid: &str, name: &str| {
        let headers = format!("{HEADERS}Idempotency-Key: {uuid}\r\n");
        stand_in.send("POST /v1/validate/user", &headers, &users::object(name))
    };
    let first = ask("1", "Ann");
    assert_eq!(first.status, 200);
    assert_eq!(ask("1", "Ann").body, first.body);
    assert_ne!(
        ask("2", "Ann").body["transaction_id"],
        first.body["transaction_id"]
    );
    let other = ask("1", "Bob");
    assert_eq!(
        (other.status, &other.body["error"]["code"]),
        (422, &json!("other_request"))
    );
    let missing = stand_in.send("POST /v1/validate/user", HEADERS, &users::object("Ann"));
    let code = json!("no_idempotency_header");
    assert_eq!(
        (missing.status, &missing.body["error"]["code"]),
        (400, &code)
    );
    let bill = stand_in.bill();
    assert_eq!((&bill["billed"], &bill["repeated"]), (&json!(2), &json!(1)));
}

#[test]
fn only_where_the_next_run_has_the_same_uuids_no_second_bill_is_announced() {
    let words = "sends only the rows without a verdict, some of which may be billed a second time";
    for (more, may_be_billed) in [
        ("--idempotency-header K", false),
        ("--idempotency-header K --ledger answers.ledger", true),
        ("", true),
    ] {
        let place = Place::with("users.csv", users::csv(3));
        let server = Server::start(|request| match &*request.name() {
            "User 2" => ok("{}"),
            _ => good(request),
        });
        let done = place.score(&server, more);
        done.exits(1);
        if may_be_billed {
            done.says(words);
        } else {
            done.says("sends only the rows without a verdict\n");
        }
    }
}
