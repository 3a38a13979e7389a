//! The log: what is in it, which files it may be, and what becomes of it on a full disk.

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
    let run = place
        .run_at(server.url())
        .args("--log n.log -c 1 --price 0.004");
    run.exits(1);
    let log = lines(&place.text("n.log"));
    assert!(log.iter().all(|line| line["timestamp"].is_string()));

    assert_eq!(log[0]["event"], "run_started");
    let start = &log[0]["data"];
    assert_eq!(
        [&start["output"], &start["ledger"]],
        ["scored.csv", "rescore.ledger"]
    );
    assert_eq!(start["inputs"][0]["path"], "users.csv");

    let of_row = |row: u64| -> Vec<_> {
        let ours = log.iter().filter(|line| line["data"]["row"] == row);
        let words = ours.map(|line| {
            let (event, data) = (&line["event"], &line["data"]);
            json!([
                event,
                data["attempt"],
                data["class"],
                data["reason"],
                data["status"]
            ])
        });
        words.collect()
    };
    let answered = |attempt| json!(["attempt_answered", attempt, null, null, 200]);
    let failed = |class, reason, status: Value| json!(["attempt_failed", 1, class, reason, status]);
    let throttled = json!(["throttled", 1, null, null, 429]);
    assert_eq!(of_row(2), [answered(1)]);
    assert_eq!(of_row(3), [failed("E", "refused", 422.into())]);
    assert_eq!(
        of_row(4),
        [failed("C", "server_error", 500.into()), answered(2)]
    );
    assert_eq!(of_row(5), [throttled, answered(2)]);
    assert_eq!(
        of_row(6),
        [failed("B", "no_answer", Value::Null), answered(2)]
    );

    assert_eq!(named(&log, "calls_paused")[0]["data"]["asked_seconds"], 1.0);
    let paces = named(&log, "pace_changed");
    assert_eq!(paces[0]["data"]["cause"], "start");
    assert!(
        paces
            .iter()
            .any(|line| line["data"]["cause"] == "throttled")
    );
    let end = log.last().unwrap();
    assert_eq!(end["event"], "run_ended");
    let end = &end["data"];
    assert_eq!(
        [&end["exit_code"], &end["calls"]["sent"]],
        [&json!(1), &json!(12)]
    );
    assert_eq!(end["cost"]["spent"], 0.032);
    let metadata = fs::metadata(place.path("n.log")).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
}

#[test]
fn warnings_and_the_error_that_ends_a_run_are_in_the_log_and_the_next_run_adds_to_it() {
    let server = Server::start(|request| match request.nth {
        3 => status(402),
        _ => good(request),
    });
    let place = Place::with("users.csv", users::csv(9));
    place.write("key.txt", "k");
    fs::set_permissions(place.path("key.txt"), fs::Permissions::from_mode(0o644)).unwrap();
    let program = run(&place, &server).args("-c 1 --api-key-file key.txt");
    let done = program.without_env("RESCORE_API_KEY").exits(4);
    done.says("warning: ").says("chmod 600");
    let first = place.text("n.log");
    let log = lines(&first);
    for (event, words) in [
        ("warning", "chmod 600"),
        ("error", "the account is out of credit"),
    ] {
        let said = named(&log, event)[0]["data"].as_str().unwrap();
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(named(&log, "cancel_began")[0]["data"], "refused");
    assert_eq!(log.last().unwrap()["data"]["exit_code"], 4);

    run(&place, &server).exits(0);
    let both = place.text("n.log");
    let second = lines(both.strip_prefix(&first).unwrap());
    assert_eq!(second[0]["event"], "run_started");
    assert_eq!(named(&second, "attempt_answered").len(), 7);
}

#[test]
fn a_log_is_never_added_to_another_file() {
    let line = CommandLine::new();
    line.place.write("precious.csv", "id,name\n");
    symlink("precious.csv", line.place.path("link")).unwrap();
    for arguments in ["--log precious.csv", "--log link"] {
        line.typed(arguments).exits(2);
        assert_eq!(line.place.text("precious.csv"), "id,name\n");
    }
    assert_eq!(line.server.calls(), 0);
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
    let done = run(&place, &server).under(&["sh", "limited.sh"]).exits(0);
    done.says("warning: the log lacks ");
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(200)));
    let text = place.text("n.log");
    assert!(text.starts_with(&earlier), "what was there stays");
    // With space again, the next run goes on there, on a line of its own.
    run(&place, &server).exits(0);
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
    running.signal_until_it_ends("TERM").exits(143);
    let log = lines(&place.text("n.log"));
    let drain = named(&log, "drain_began");
    assert_eq!(drain[0]["data"]["reason"], "interrupted");
    let last = log.last().unwrap();
    assert_eq!(
        [&last["event"], &last["data"]],
        ["stopped_immediately", "terminated"]
    );
    drop(release);
}
