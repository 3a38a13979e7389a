//! The log: what is in it, which files it may be, and what becomes of it when nobody takes it or when it is rotated.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::{Value, json};

use super::what_is_shown::terminal;
use crate::support::command_line::CommandLine;
use crate::support::process::{Place, Program, Running};
use crate::support::server::{Server, answer, good, silence, status};
use crate::support::users;

/// A run with a log of every call.
fn run<'a>(place: &'a Place, server: &'a Server) -> Program<'a> {
    run_at("debug", place, server)
}

fn run_at<'a>(level: &str, place: &'a Place, server: &'a Server) -> Program<'a> {
    let args = "users.csv -o scored.csv --overwrite";
    let program = place.run(server, args);
    program.args(["--log", "n.log", "--log-level", level])
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
    let attempts = named(lines, "attempt").into_iter();
    let answered = attempts.filter(|line| line["outcome"] == "answered");
    answered.map(|line| line["row"].as_u64().unwrap()).collect()
}

#[test]
fn a_log_tells_a_run_from_its_settings_to_its_end() {
    let server = Server::start(|request| match (request.name().as_str(), request.attempt) {
        ("User 3", _) => status(422),
        ("User 4", 1) => status(500),
        ("User 5", 1) => answer(429, &[("retry-after", "1")], ""),
        ("User 6", 1) => silence().then_reset(),
        _ => good(request),
    });
    let place = Place::with("users.csv", users::csv(9));
    let args = "-c 1 --job nightly --price 0.004";
    let limits = "--keep-going --min-rows=9 --max-invalid=2% --accept-failures=0.5%";
    let run = run(&place, &server).args(args).args(limits);
    run.done().exits(1);
    let log = lines(&place.text("n.log"));

    let start = &log[0];
    assert_eq!(start["event"], "run_started");
    assert_eq!(start["job"], "nightly");
    assert_eq!(start["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(
        start["endpoint"],
        format!("{}/v1/validate/user", server.url())
    );
    assert_eq!(
        (&start["output"], &start["ledger"]),
        (&"scored.csv".into(), &"rescore.ledger".into())
    );
    assert_eq!(
        (&start["concurrency"], &start["price"]),
        (&1.into(), &"0.004".into())
    );
    assert_eq!(
        (&start["approve_max"], &start["review_max"]),
        (&"2".into(), &"5".into())
    );
    let limits =
        json!({"keep_going": true, "min_rows": 9, "max_invalid": "2%", "accept_failures": "0.5%"});
    assert_eq!(log[1]["event"], "run_limits");
    for (key, value) in limits.as_object().unwrap() {
        assert_eq!(&log[1][key], value, "{key}");
    }
    assert!(log[1]["max_calls"].is_null(), "{}", log[1]);
    assert_eq!(log[2]["event"], "input_opened");
    assert_eq!(named(&log, "input_ended")[0]["rows"], 9);

    let attempts = named(&log, "attempt");
    assert_eq!(attempts.len(), server.calls());
    let of_row = |row: u64| {
        let attempts = attempts.iter().filter(|line| line["row"] == row);
        let words = attempts.map(|line| {
            let word = |key: &str| line[key].to_string().replace('"', "");
            ["attempt", "outcome", "class", "reason", "status", "next"]
                .map(word)
                .join(" ")
        });
        words.collect::<Vec<_>>()
    };
    assert_eq!(of_row(2), ["1 answered null null 200 null"]);
    assert_eq!(of_row(3), ["1 failed E refused 422 give_up"]);
    assert_eq!(
        of_row(4),
        [
            "1 failed C server_error 500 again",
            "2 answered null null 200 null"
        ]
    );
    assert_eq!(
        of_row(5),
        [
            "1 throttled A null 429 again",
            "2 answered null null 200 null"
        ]
    );
    assert_eq!(
        of_row(6),
        [
            "1 failed B no_answer null again",
            "2 answered null null 200 null"
        ]
    );
    assert!(
        attempts
            .iter()
            .all(|line| line["latency_ms"].as_f64().unwrap() > 0.0)
    );

    assert_eq!(named(&log, "paused")[0]["asked_seconds"], 1.0);
    let end = log.last().unwrap();
    assert_eq!(end["event"], "run_ended");
    assert_eq!((&end["exit_code"], &end["failed"]), (&1.into(), &1.into()));
    assert_eq!((&end["calls"], &end["answered"]), (&12.into(), &8.into()));

    let times: Vec<_> = log
        .iter()
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
fn the_next_run_adds_to_the_log_and_calls_are_logged_only_at_debug() {
    let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
    run(&place, &server).done().exits(0);
    let first = place.text("n.log");
    let again = run_at("info", &place, &server);
    let again = again.args("--fresh");
    again.done().exits(0);
    let both = place.text("n.log");
    let second = lines(both.strip_prefix(&first).unwrap());
    assert_eq!(second[0]["event"], "run_started");
    assert_eq!((named(&second, "attempt").len(), server.calls()), (0, 6));
    run_at("error", &place, &server).done().exits(0);
    assert_eq!(place.text("n.log"), both);
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
    assert_eq!(paces[0]["cause"], "start");
    assert_eq!(paces[0]["calls_per_second_at_most"], 10.0);
    let causes: BTreeSet<_> = paces
        .iter()
        .map(|line| line["cause"].as_str().unwrap())
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
    let of = |event: &str| {
        named(&log, event)[0]["message"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(of("warning").contains("chmod 600"), "{}", of("warning"));
    assert!(
        of("error").starts_with("the account is out of credit"),
        "{}",
        of("error")
    );
    assert_eq!(named(&log, "stopping")[0]["reason"], "refused");
    assert_eq!(log.last().unwrap()["exit_code"], 4);
}

#[test]
fn a_run_that_cannot_start_says_so_in_the_log_of_an_earlier_night_and_makes_none() {
    let (place, server) = (Place::with("users.csv", users::csv(2)), Server::good());
    let missing = || {
        let args = "nobody.csv -o scored.csv --overwrite --log n.log";
        place.run(&server, args).done().exits(2).says("nobody.csv");
    };
    missing();
    assert_eq!(place.names(), ["users.csv"]);
    run(&place, &server).done().exits(0);
    let before = place.text("n.log");
    missing();
    let after = place.text("n.log");
    let added = lines(after.strip_prefix(&before).unwrap());
    assert_eq!(added.len(), 2);
    assert_eq!(
        added[0]["message"],
        "cannot read `nobody.csv`: no such file or directory"
    );
    assert_eq!(
        (&added[1]["exit_code"], &added[1]["stopped"]),
        (&2.into(), &"not_started".into())
    );
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

#[test]
fn on_standard_error_the_log_takes_the_place_of_progress() {
    let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
    let run = |options: &[&str]| {
        let program = place.run(&server, "users.csv --log - --log-level debug");
        program.args(options).done()
    };
    let quiet = run(&["-q"]);
    quiet.exits(0);
    assert_eq!(quiet.printed(), users::scored(&users::csv(3)));
    let log = lines(&quiet.stderr);
    assert_eq!(log[0]["event"], "run_started");
    assert_eq!(answered(&log).len(), 3);
    assert_eq!(log.last().unwrap()["event"], "run_ended");
    // Each line is an object, whichever of the two it comes from.
    let both = run(&["--progress", "json"]);
    for line in lines(&both.stderr) {
        assert!(
            line["event"].is_string() != line["type"].is_string(),
            "{line}"
        );
    }
}

#[test]
fn a_reader_of_standard_error_that_stops_reading_holds_up_nothing() {
    let (reader, writer) = io::pipe().unwrap();
    let server = Server::good();
    let place = Place::with("users.csv", users::csv(20_000));
    let args = "users.csv -o scored.csv -q --log - --log-level debug";
    place.run(&server, args).stderr(writer).done().exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(20_000)));
    drop(reader);
}

/// 16,384 blocks: less is too little for a ledger.
const LIMIT: usize = 8 * 1024 * 1024;

#[test]
fn a_log_on_a_full_disk_is_warned_of_once_and_the_run_goes_on() {
    let (place, server) = (Place::with("users.csv", users::csv(200)), Server::good());
    // Some bytes below the limit, so that a line is cut off.
    let line = "{\"timestamp\":\"2026-11-21T18:20:00.123Z\",\"level\":\"INFO\",\"event\":\"key_renewed\"}\n";
    let earlier = line.repeat(LIMIT / line.len() - 20);
    place.write("n.log", &earlier);
    place.write("limited.sh", "ulimit -f 16384\nexec \"$@\"\n");
    let done = run(&place, &server).under(&["sh", "limited.sh"]).done();
    done.exits(0)
        .says("warning: cannot write the log: file too large\n")
        .says("warning: the log lacks ");
    done.check(
        done.stderr.matches("cannot write the log").count() == 1,
        "once",
    );
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(200)));
    let text = place.text("n.log");
    assert!(text.ends_with('\n'), "no part of a line");
    assert_eq!(lines(&text[earlier.len()..])[0]["event"], "run_started");
    // With space again, the next run goes on there.
    run(&place, &server).done().exits(0);
    let after = place.text("n.log");
    assert_eq!(lines(&after[text.len()..])[0]["event"], "run_started");
}

/// Renames the log and sends SIGHUP; waits until there is a new one.
fn rotate(place: &Place, running: &Running<'_>) {
    fs::rename(place.path("n.log"), place.path("n.log.1")).unwrap();
    running.signal("HUP");
    running.wait_for_file("n.log", |text| text.ends_with(b"\n"));
}

#[test]
fn a_rotated_log_is_opened_again_at_sighup_and_no_line_is_lost() {
    for under in [&[][..], &["nohup"]] {
        let (server, release) = Server::holding(20);
        let place = Place::with("users.csv", users::csv(40));
        let running = run(&place, &server).args("-c 4").under(under).start();
        server.wait_for_calls(24);
        running.wait_for_file("n.log", |text| {
            answered(&lines(&String::from_utf8_lossy(text))).len() == 20
        });
        rotate(&place, &running);
        // Further signals change nothing.
        running.signal("HUP");
        drop(release);
        running.done().exits(0);
        assert_eq!(place.text("scored.csv"), users::scored(&users::csv(40)));
        let [old, new] = ["n.log.1", "n.log"].map(|name| lines(&place.text(name)));
        assert_eq!((answered(&old).len(), answered(&new).len()), (20, 20));
        assert_eq!(new[0]["event"], "log_reopened");
        assert_eq!(new.last().unwrap()["event"], "run_ended");
        let mut rows = [answered(&old), answered(&new)].concat();
        rows.sort_unstable();
        assert_eq!(rows, (1..=40).collect::<Vec<_>>());
    }
}

#[test]
fn a_terminal_or_a_log_on_standard_error_leaves_sighup_its_meaning() {
    for (log, has_terminal) in [("n.log", true), ("-", false)] {
        let (server, release) = Server::holding(3);
        let place = Place::with("users.csv", users::csv(9));
        let (side, written) = terminal(80);
        let args = ["users.csv", "-o", "scored.csv", "-c", "4", "--log", log];
        let mut program = place.run(&server, args);
        if has_terminal {
            program = program.stderr(side);
        }
        let running = program.start();
        server.wait_for_calls(7);
        running.signal("HUP");
        // The new calls would come if the run went on.
        running.wait_for_file("scored.csv.partial", |_| true);
        drop(release);
        running.done().exits(129);
        drop(written);
    }
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
    assert_eq!(named(&log, "draining")[0]["in_flight"], 4);
    let last = log.last().unwrap();
    assert_eq!(
        (&last["event"], &last["reason"]),
        (&"stopped_immediately".into(), &"terminated".into())
    );
    drop(release);
}
