//! What people and programs see: progress, the summary, and nothing with `--quiet`.

use insta::assert_snapshot;
use serde_json::Value;

use crate::cli::for_programs::objects;
use crate::support::process::Place;
use crate::support::server::{Server, answer, good, good_body, ok, silence, status};
use crate::support::shown::{is_stamp, shown};
use crate::support::users;

/// A service with every kind of trouble that a run survives: it refuses one row, answers one at the third call, throttles
/// one, and cuts one off once.
fn troubled() -> Server {
    Server::start(|request| match (request.name().as_str(), request.attempt) {
        ("User 3", _) => status(422),
        ("User 4", 1 | 2) => status(500),
        ("User 5", 1) => answer(429, &[("retry-after", "1")], ""),
        ("User 6", 1) => silence().then_reset(),
        _ => good(request),
    })
}

#[test]
fn the_summary_counts_what_the_server_saw() {
    let (place, server) = (Place::with("users.csv", users::csv(20)), troubled());
    let done = place.score(&server, "-c 1 --summary summary.json");
    done.exits(1);
    let summary = place.json("summary.json");
    let calls = server.calls();
    assert_eq!(calls, 20 + 2 + 1 + 1, "{done}");
    assert_eq!(summary["version"], 1);
    assert_eq!(summary["exit_code"], 1);
    assert_eq!(summary["stopped"], Value::Null);
    assert_eq!(summary["sandbox"], false);
    assert_eq!(
        summary["endpoint"],
        format!("{}/v1/validate/user", server.url())
    );
    let rows = serde_json::json!({"read": 20, "resolved": 20, "written": 20, "left": 0});
    assert_eq!(summary["rows"], rows);
    assert_eq!(
        summary["failed"],
        serde_json::json!({"rows": 1, "reasons": {"refused": 1}})
    );
    let decisions: u64 = ["approve", "review", "block"]
        .map(|word| summary["decisions"][word].as_u64().unwrap())
        .iter()
        .sum();
    assert_eq!(decisions, 19);
    let expected = serde_json::json!({
        "sent": calls,
        "sent_before": 0,
        "in_flight": 0,
        "answered": 19,
        "retries": 3,
        "throttled": 1,
        "unknown_outcome": 1,
        "unclear": 2,
        "billed_without_verdict": 0,
        "lost": 0,
        "resent": 1,
        "taken_over": 0,
        "lost_in_kills": 0,
        "maybe_billed_twice": 1,
        "repeated_transaction_ids": 0,
    });
    assert_eq!(summary["calls"], expected);
    assert!(summary["paused_seconds"].as_f64().unwrap() >= 0.9);
    let size = place.read("scored.csv").len();
    assert_eq!(
        summary["output"],
        serde_json::json!({"path": "scored.csv", "bytes": size})
    );
    assert!(
        summary["rejects"]["path"]
            .as_str()
            .unwrap()
            .ends_with("scored.rejects.csv")
    );

    // People read the same numbers.
    assert_snapshot!(shown(&done, &server), @r"
    rescore: sending users.csv to http://SERVER/v1/validate/user; up to 1 call at a time, no rate limit
             name ← `name`, email ← `email`, phone not sent, ip ← `ip`, user_agent ← `user_agent`
    rescore: a new ledger, `rescore.ledger`: nothing is paid for yet
    MOMENT rescore: paused: the service asked for 1 s, 1 s left
    rescore: 20 rows in TIME, SPEED rows/s
             approve 4, review 7, block 8
             failed 1: refused 1; see scored.rejects.csv
             24 calls, 3 of them retries
             1 row may have been billed twice: sent again because no answer came
             the service throttled 1 call (4.2 % of all); paused for TIME in total
             wrote scored.csv
             the paid answers are kept in rescore.ledger; `--retry-failed` sends only the rows without a verdict
    ");
}

#[test]
fn a_stopped_run_has_a_summary_too() {
    let server = Server::start(|request| {
        if request.nth > 3 {
            status(401)
        } else {
            good(request)
        }
    });
    let place = Place::with("users.csv", users::csv(9));
    let done = place.score(&server, "-c 1 --summary summary.json");
    done.exits(4);
    assert_snapshot!(shown(&done, &server), @r"
    rescore: sending users.csv to http://SERVER/v1/validate/user; up to 1 call at a time, no rate limit
             name ← `name`, email ← `email`, phone not sent, ip ← `ip`, user_agent ← `user_agent`
    rescore: a new ledger, `rescore.ledger`: nothing is paid for yet
    MOMENT rescore: the service refuses the run: stopping
    rescore: stopped early (the service refuses the run): 3 rows in TIME, SPEED rows/s
             approve 2, block 1
             4 calls
             scored.csv.partial has the 3 finished rows; unfinished rows are not in it
             the paid answers are kept in rescore.ledger; the same command continues from there
    error: the service does not accept the API key
      the service said: 401 Unauthorized: `the server's own words`

    hint: check the key in `RESCORE_API_KEY` or `--api-key-file`, and whether it belongs to this plan
    ");
    let summary = place.json("summary.json");
    assert_eq!(
        (&summary["exit_code"], &summary["stopped"]),
        (&4.into(), &"refused".into())
    );
    let rows = serde_json::json!({"read": 9, "resolved": 3, "written": 3, "left": 6});
    assert_eq!(summary["rows"], rows);
    assert!(
        summary["output"]["path"]
            .as_str()
            .unwrap()
            .ends_with("scored.csv.partial")
    );
}

#[test]
fn progress_as_json_is_one_object_a_line() {
    let (server, release) = Server::holding_if(|request| request.nth > 4);
    let place = Place::with("users.csv", users::csv(8));
    let args = "users.csv -o scored.csv -c 1 --progress json";
    let running = place.run(&server, args).start();
    running.wait_for_words("\"resolved\":4,");
    drop(release);
    let done = running.done();
    done.exits(0);
    let objects = objects(&done);
    let half = { objects.iter() }.find(|object| object["rows"]["resolved"] == 4);
    let half = half.unwrap();
    assert_eq!(
        (&half["type"], &half["now"]["percent"]),
        (&"progress".into(), &50.0.into()),
        "{done}"
    );
    assert_eq!(
        (
            &half["calls"]["sent"],
            &half["calls"]["in_flight"],
            &half["sandbox"]
        ),
        (&5.into(), &1.into(), &false.into())
    );
    // What a line and the summary both have is of the same kind.
    let Some(last) = objects.last().filter(|last| last["type"] == "summary") else {
        panic!("the last line is the summary: {done}")
    };
    for (key, value) in half.as_object().unwrap() {
        if key != "now" {
            let same = members(value) == members(&last[key]);
            assert!(same || value.is_null() || last[key].is_null(), "{key}");
        }
    }
}

/// The keys of an object, or the kind of another value.
fn members(value: &Value) -> Vec<String> {
    match value {
        Value::Object(members) => members.keys().cloned().collect(),
        Value::Null => vec!["null".to_owned()],
        Value::Bool(_) => vec!["bool".to_owned()],
        Value::Number(_) => vec!["number".to_owned()],
        Value::String(_) => vec!["string".to_owned()],
        Value::Array(_) => vec!["array".to_owned()],
    }
}

#[test]
fn without_a_terminal_a_line_is_printed_at_intervals() {
    let (server, release) = Server::holding_if(|request| request.nth > 2);
    let place = Place::with("users.csv", users::csv(4));
    let args = "users.csv -o scored.csv -c 1";
    let running = place.run(&server, args).start();
    running.wait_for_words("rescore: 50.0 %, 2 rows");
    drop(release);
    let done = running.done();
    done.exits(0)
        .says("; approve ")
        .says("in flight 1")
        .silent_about("\u{1b}")
        .silent_about("\r");
    // Only what is said while the run lasts has a time: what comes before and after it is said once.
    for line in done.stderr.lines() {
        let (first, rest) = line.split_once(' ').unwrap_or_default();
        let is_progress = line.contains("; approve ");
        assert_eq!(is_stamp(first), is_progress, "{line}");
        assert!(!is_progress || rest.starts_with("rescore: "), "{line}");
    }
}

#[test]
fn the_time_of_a_line_is_local() {
    let server = Server::start(|request| match request.nth {
        2 => answer(429, &[("retry-after", "1")], "slow down"),
        _ => good(request),
    });
    let place = Place::with("users.csv", users::csv(3));
    let run = place.run(&server, "users.csv -o scored.csv -c 1");
    let done = run.env("TZ", "Asia/Kathmandu").done();
    done.exits(0)
        .says("+05:45 rescore: paused: the service asked for 1 s, 1 s left\n");
}

#[test]
fn many_short_pauses_are_reported_once_between_two_lines() {
    let server = Server::start(|request| match request.nth {
        2 | 4 | 6 => answer(429, &[("retry-after", "1")], "slow down"),
        _ => good(request),
    });
    let place = Place::with("users.csv", users::csv(5));
    let done = place.score(&server, "-c 1");
    done.exits(0).says("the service throttled 3 calls");
    let told = done.stderr.matches(" rescore: paused: the service asked");
    done.check(told.count() == 1, "a single line about pauses");
}

#[test]
fn quiet_is_quiet_except_for_errors() {
    let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
    let done = place.score(&server, "-q");
    done.exits(0);
    done.check(done.stderr.is_empty(), "nothing on standard error");
    let server = Server::start(|_| status(401));
    let done = place.score(&server, "-q --overwrite --no-ledger");
    done.exits(4)
        .says("error: the service does not accept the API key");
    done.check(done.stderr.starts_with("error: "), "nothing but the error");
}

#[test]
fn progress_off_leaves_the_first_lines_and_the_summary() {
    let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
    let done = place.score(&server, "--progress off");
    done.exits(0)
        .says("3 rows in")
        .says("wrote scored.csv")
        .silent_about("in flight");
}

#[test]
fn one_answer_for_different_users_is_reported_once_and_counted() {
    const WARNING: &str = "warning: two different users got the same transaction id, in row 2 and row 5: a cache or proxy may be answering for the service";
    // A cache that takes each user from the fifth on for the second.
    let server = Server::start(|request| match request.name().as_str() {
        "User 5" | "User 6" | "User 7" | "User 8" => ok(&good_body("User 2")),
        _ => good(request),
    });
    for args in [
        &["--progress", "plain"][..],
        &["--progress", "json"],
        &["--progress", "off"],
        &["--quiet"],
    ] {
        let place = Place::with("users.csv", users::csv(9));
        let program = place.run(&server, "users.csv -o scored.csv -c 1");
        let program = program.args(args);
        let done = program.args("--summary summary.json").done();
        // The rows have what the service answered: it cannot be known whose verdict it was.
        done.exits(0);
        let lines = done.stderr.lines();
        let said: Vec<_> = lines.filter(|l| l.contains("two different")).collect();
        let [said] = said[..] else {
            panic!("one warning: {done}")
        };
        if args.contains(&"json") {
            let object: Value = serde_json::from_str(said).unwrap();
            let message = object["message"].as_str().unwrap();
            assert_eq!(format!("warning: {message}"), WARNING, "{done}");
        } else {
            assert_eq!(said, WARNING, "{done}");
        }
        assert_eq!(
            place.json("summary.json")["calls"]["repeated_transaction_ids"],
            4
        );
        match args {
            ["--quiet"] => {
                let others = done.stderr.lines().filter(|l| !l.starts_with("warning: "));
                done.check(others.count() == 0, "nothing but warnings");
            }
            ["--progress", "json"] => {}
            _ => {
                done.says("4 answers had the transaction id of a different user");
            }
        }
    }
}

#[test]
fn equal_users_may_have_one_transaction_id() {
    let names = ["Ann", "Bob", "Ann", "Ann"];
    let csv: String = ["id,name,email,ip,user_agent\n".to_owned()]
        .into_iter()
        .chain((1..).zip(names).map(|(id, name)| {
            format!(
                "{id},{name},{}@example.com,192.0.2.1,curl/8\n",
                name.to_lowercase()
            )
        }))
        .collect();
    // A service may recognise a user; it gives equal users the same id.
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    let done = place.score(&server, "-c 1 --summary summary.json");
    done.exits(0)
        .silent_about("warning")
        .silent_about("transaction id");
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    assert_eq!(
        place.json("summary.json")["calls"]["repeated_transaction_ids"],
        0
    );
}

#[test]
fn what_rate_limit_headers_ask_for_is_shown_while_it_holds_and_so_is_that_they_were_disbelieved() {
    let place = Place::with("users.csv", users::csv(12));
    let server = Server::start(|request| {
        let headers = [("ratelimit-remaining", "0"), ("ratelimit-reset", "5")];
        answer(200, &headers, &good_body(&request.name()))
    });
    // One call a second, until more were accepted than were left.
    let score = |most| place.score(&server, ["--max-calls", most, "--summary", "summary.json"]);
    score("3")
        .exits(5)
        .says("\n         the service's headers ask for about 1.00/s\n");
    assert_eq!(
        place.json("summary.json")["pace"]["headers"],
        serde_json::json!({"asks": 1.0})
    );
    score("12").exits(0).says(
        "the service's RateLimit headers were ignored: it accepted more calls than they allow\n",
    );
    assert_eq!(place.json("summary.json")["pace"]["headers"], "disbelieved");
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(12)));
}
