//! The log: what is in it, which files it may be, and what becomes of it on a full disk.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::{Value, json};

use crate::support::command_line::CommandLine;
use crate::support::process::{Place, Program};
use crate::support::server::{Server, answer, good, silence, status};
use crate::support::users;

/// A run with a log.
fn run<'a>(place: &'a Place, server: &'a Server) -> Program<'a> {
    let args = "users.csv -o scored.csv --overwrite --log n.log";
    place.run(server, args)
}

/// The lines of a log, each a whole object.
fn lines(text: &str) -> Vec<Value> {
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}

fn named<'a>(lines: &'a [Value], event: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

/// The rows whose calls were answered.
fn answered(lines: &[Value]) -> Vec<u64> {
    let answered = named(lines, "attempt_answered").into_iter();
    answered
        .map(|line| line["data"]["row"].as_u64().unwrap())
        .collect()
}

#[test]
fn a_log_tells_a_run_from_its_start_to_its_end() {
    let server = Server::start(|request| match (request.name().as_str(), request.attempt) {
        ("User 3", _) => status(422),
        ("User 4", 1) => status(500),
        ("User 5", 1) => answer(429, &[("retry-after", "1")], ""),
        ("User 6", 1) => silence().then_reset(),
        _ => good(request),
    });
    let place = Place::with("users.csv", users::csv(9));
    let limits = "-c 1 --price 0.004 --keep-going --min-rows=9 --accept-failures=0.5%";
    run(&place, &server).args(limits).done().exits(1);
    let log = lines(&place.text("n.log"));

    assert_eq!(log[0]["event"], "run_started");
    let start = &log[0]["data"];
    let endpoint = format!("{}/v1/validate/user", server.url());
    let expected = json!({
        "run": {"job": "scored.csv", "rescore_version": env!("CARGO_PKG_VERSION"), "endpoint": endpoint,
            "thresholds": {"approve_max": "2", "review_max": "5"}},
        "inputs": {"0": {"path": "users.csv", "format": "csv"}},
    });
    for (part, keys) in expected.as_object().unwrap() {
        for (key, value) in keys.as_object().unwrap() {
            let here = start[part].get(key);
            let here = here.or_else(|| start[part].get(key.parse::<usize>().ok()?));
            match (here.unwrap(), value) {
                (Value::Object(here), Value::Object(some)) => {
                    assert!(
                        some.iter().all(|(key, value)| &here[key] == value),
                        "{here:?}"
                    );
                }
                (here, value) => assert_eq!(here, value, "{key}"),
            }
        }
    }
    assert_eq!(
        (&start["concurrency"], &start["ledger"], &start["output"]),
        (&1.into(), &"rescore.ledger".into(), &"scored.csv".into())
    );
    let mapping = start["inputs"][0]["mapping"].as_str().unwrap();
    assert!(mapping.starts_with("name ← `name`"), "{mapping}");

    let of_row = |row: u64| {
        let ours = log.iter().filter(|line| line["data"]["row"] == row);
        let words = ours.map(|line| {
            let data = &line["data"];
            assert!(data["latency_seconds"].is_number());
            let word = |value: &Value| value.to_string().replace('"', "");
            let next = match &data["next"] {
                Value::Object(next) => next.keys().next().unwrap().clone(),
                next => word(next),
            };
            let words = ["attempt", "class", "reason", "status"].map(|key| word(&data[key]));
            format!("{} {} {next}", word(&line["event"]), words.join(" "))
        });
        words.collect::<Vec<_>>()
    };
    let second = "attempt_answered 2 null null 200 null";
    assert_eq!(of_row(2), ["attempt_answered 1 null null 200 null"]);
    assert_eq!(of_row(3), ["attempt_failed 1 E refused 422 give_up"]);
    let failed = "attempt_failed 1 C server_error 500 again_in_seconds";
    assert_eq!(of_row(4), [failed, second]);
    let throttled = "throttled 1 null null 429 again_in_seconds";
    assert_eq!(of_row(5), [throttled, second]);
    let lost = "attempt_failed 1 B no_answer null again_in_seconds";
    assert_eq!(of_row(6), [lost, second]);

    assert_eq!(named(&log, "calls_paused")[0]["data"]["asked_seconds"], 1.0);
    let end = log.last().unwrap();
    assert_eq!(end["event"], "run_ended");
    let (end, calls) = (&end["data"], &end["data"]["calls"]);
    assert_eq!(
        (&end["exit_code"], &end["failed"]["rows"]),
        (&1.into(), &1.into())
    );
    assert_eq!(
        (&calls["sent"], &calls["answered"]),
        (&12.into(), &8.into())
    );
    assert_eq!(end["cost"]["spent"], 0.032);

    let times: Vec<_> = { log.iter() }
        .map(|line| line["timestamp"].as_str().unwrap())
        .collect();
    assert!(
        times.is_sorted()
            && times
                .iter()
                .all(|time| time.ends_with('Z') && time.len() == 24)
    );
    let mode = fs::metadata(place.path("n.log"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn the_next_run_adds_to_the_log() {
    let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
    run(&place, &server).done().exits(0);
    let first = place.text("n.log");
    run(&place, &server).arg("--fresh").done().exits(0);
    let both = place.text("n.log");
    let second = lines(both.strip_prefix(&first).unwrap());
    assert_eq!(second[0]["event"], "run_started");
    assert_eq!(answered(&second).len(), 3);
}

#[test]
fn each_change_of_the_pace_has_its_cause() {
    let server = Server::start(|request| match request.nth {
        30 => answer(429, &[("retry-after", "1")], ""),
        _ => good(request),
    });
    let place = Place::with("users.csv", users::csv(60));
    let program = place.run_at(server.url());
    program.args("--log n.log").done().exits(0);
    let log = lines(&place.text("n.log"));
    let paces = named(&log, "pace_changed");
    assert_eq!(paces[0]["data"]["cause"], "start");
    assert_eq!(paces[0]["data"]["rate"], 10.0);
    let causes: BTreeSet<_> = paces
        .iter()
        .map(|line| line["data"]["cause"].as_str().unwrap())
        .collect();
    assert!(
        causes.contains("throttled") && causes.contains("search"),
        "{causes:?}"
    );
}

#[test]
fn warnings_and_the_error_that_ends_a_run_are_in_the_log() {
    let server = Server::start(|request| match request.nth {
        3 => status(402),
        _ => good(request),
    });
    let place = Place::with("users.csv", users::csv(9));
    fs::write(place.path("key.txt"), "k").unwrap();
    fs::set_permissions(place.path("key.txt"), fs::Permissions::from_mode(0o644)).unwrap();
    let program = run(&place, &server).args("-c 1 --api-key-file key.txt");
    let done = program.without_env("RESCORE_API_KEY").done();
    done.exits(4).says("warning: ").says("chmod 600");
    let log = lines(&place.text("n.log"));
    let of = |event: &str| named(&log, event)[0]["data"].as_str().unwrap().to_owned();
    assert!(of("warning").contains("chmod 600"), "{}", of("warning"));
    assert!(
        of("error").starts_with("the account is out of credit"),
        "{}",
        of("error")
    );
    assert_eq!(named(&log, "cancel_began")[0]["data"], "refused");
    assert_eq!(log.last().unwrap()["data"]["exit_code"], 4);
}

#[test]
fn a_log_is_never_added_to_another_file() {
    let line = CommandLine::new();
    let users = line.place.text("users.csv");
    line.refuses_typed(
        "--log users.csv",
        &["the log `users.csv` would overwrite the input"],
    );
    assert_eq!(line.place.text("users.csv"), users);
    for same in [
        &["--log", "scored.csv"][..],
        &["--log", "scored.rejects.csv"],
        &["--log", "scored.csv.partial"],
        &["--log", "rescore.ledger"],
        &["--log", "x", "--summary", "x"],
        &["--log", "x", "--metrics", "x"],
        &["--log", "x", "--report", "x"],
    ] {
        line.refuses_typed(same, &["would be the same file"]);
    }
    line.refuses_typed(
        "--log no/such.log",
        &["cannot write the log to `no/such.log`"],
    );
    line.refuses_typed(
        "--log /dev/full",
        &["cannot write the log to `/dev/full`: it is not a regular file"],
    );

    let (place, server) = (Place::with("users.csv", users::csv(2)), Server::good());
    place.write("precious.csv", "id,name\n");
    let refused = |file: &str, why: &str| {
        let args = ["users.csv", "-o", "scored.csv", "--log", file];
        place
            .run(&server, args)
            .done()
            .exits(2)
            .says(why)
            .says("hint: give `--log` another name");
        assert_eq!(place.text("precious.csv"), "id,name\n");
    };
    refused("precious.csv", "its content does not come from rescore");
    symlink("precious.csv", place.path("link")).unwrap();
    refused("link", "it is a symbolic link");
    assert_eq!(server.calls(), 0);
}

/// 16,384 blocks: less is too little for a ledger.
const LIMIT: usize = 8 * 1024 * 1024;

#[test]
fn a_log_on_a_full_disk_is_warned_of_once_and_the_run_goes_on() {
    let (place, server) = (Place::with("users.csv", users::csv(200)), Server::good());
    // Some bytes below the limit, so that a line is cut off.
    let line = "{\"timestamp\":\"2026-11-21T18:20:00.123Z\",\"event\":\"key_renewed\"}\n";
    let earlier = line.repeat(LIMIT / line.len() - 20);
    place.write("n.log", &earlier);
    place.write("limited.sh", "ulimit -f 16384\nexec \"$@\"\n");
    let done = run(&place, &server).under(&["sh", "limited.sh"]).done();
    done.exits(0)
        .says("warning: the log lacks ")
        .says(" lines: file too large\n");
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(200)));
    let text = place.text("n.log");
    assert!(text.starts_with(&earlier), "what was there stays");
    // With space again, the next run goes on there, on a line of its own.
    run(&place, &server).done().exits(0);
    let after = place.text("n.log");
    let added = after[text.len()..].trim_start();
    assert_eq!(lines(added)[0]["event"], "run_started");
}

#[test]
fn a_second_signal_leaves_its_word_in_the_log() {
    let (server, release) = Server::holding(3);
    let place = Place::with("users.csv", users::csv(50));
    let running = run(&place, &server).args("-c 4").start();
    server.wait_for_calls(7);
    running.signal("INT");
    running.wait_for_words("interrupted");
    running.signal("TERM");
    running.done().exits(143);
    let log = lines(&place.text("n.log"));
    assert_eq!(
        named(&log, "drain_began")[0]["data"]["reason"],
        "interrupted"
    );
    let last = log.last().unwrap();
    assert_eq!(
        (&last["event"], &last["data"]),
        (&"stopped_immediately".into(), &"terminated".into())
    );
    drop(release);
}
