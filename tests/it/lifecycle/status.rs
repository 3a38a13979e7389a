//! `rescore status` tells from another process how runs are, from their start to their end, however that comes.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;

use crate::docs::schema::assert_valid;
use crate::support::process::{Done, Place, Program, Running};
use crate::support::server::{Server, answer, good, status};
use crate::support::users;

/// The place where a user's runs report, in the place of a test.
const STATE: &str = "state";

fn watched<'a>(place: &Place, program: Program<'a>) -> Program<'a> {
    program.env("XDG_STATE_HOME", place.path(STATE))
}

fn ask(place: &Place, args: &str) -> Done {
    watched(place, place.rescore("status")).args(args).done()
}

/// What `rescore status --json` prints of each run, with these arguments.
fn known(place: &Place, args: &str) -> Vec<Value> {
    let done = ask(place, &format!("--json {args}"));
    let objects = done.exits(0).printed();
    let objects = objects
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    objects.inspect(assert_valid).collect()
}

/// The run of `scored.csv`.
fn scored(place: &Place) -> Option<Value> {
    if ask(place, "scored.csv").code() == Some(2) {
        return None;
    }
    let mut runs = known(place, "scored.csv");
    assert_eq!(runs.len(), 1, "{runs:#?}");
    runs.pop()
}

/// Waits until this holds of the run of `scored.csv`, while this process lives.
fn wait_for(place: &Place, running: &Running, what: &str, ready: impl Fn(&Value) -> bool) -> Value {
    running.wait_until(what, || scored(place).is_some_and(|run| ready(&run)));
    scored(place).unwrap()
}

fn says(run: &Value, words: &str) -> bool {
    run["message"].as_str().unwrap().contains(words)
}

/// The files in which runs report.
fn files(place: &Place) -> Vec<PathBuf> {
    let entries = fs::read_dir(place.path("state/rescore/runs")).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Makes the last report one of long ago.
fn age(file: &Path) {
    let file = fs::File::options().write(true).open(file).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
}

#[test]
fn a_run_is_known_while_it_prepares_runs_and_waits_and_after_its_end() {
    let (server, release) = Server::holding(3);
    let place = Place::with("users.csv", users::csv(5));
    assert!(known(&place, "").is_empty());
    ask(&place, "").exits(0).prints("no run");
    ask(&place, "scored.csv").exits(2).says("`scored.csv`");
    let (reader, mut producer) = io::pipe().unwrap();
    // Behind a link, which leads nowhere yet.
    symlink("scored.csv", place.path("link.csv")).unwrap();
    let run = "-o link.csv --price 0.004EUR --summary s.json -q";
    let run = place.run(&server, run);
    let running = watched(&place, run).stdin_from(reader).start();
    let of_input = |run: &Value| says(run, "waiting for the first rows of its input");
    let run = wait_for(&place, &running, "the header is waited for", of_input);
    assert_eq!(run["state"], "preparing");
    assert_eq!(run["pid"], running.id());
    let output = place.path("").canonicalize().unwrap().join("scored.csv");
    assert_eq!(run["output"], output.to_str().unwrap());
    let rows = users::csv(5);
    let (first, last) = rows.split_at(rows.match_indices('\n').nth(3).unwrap().0 + 1);
    producer.write_all(first.as_bytes()).unwrap();
    let of_input = |run: &Value| says(run, "waiting for its input");
    let run = wait_for(&place, &running, "rows are waited for", of_input);
    assert_eq!(run["state"], "running");
    assert_eq!(run["progress"]["rows"]["resolved"], 3);
    assert_eq!(run["progress"]["cost"]["spent"], 0.012);
    producer.write_all(last.as_bytes()).unwrap();
    drop(producer);
    let in_flight = |run: &Value| run["progress"]["calls"]["in_flight"] == 2;
    wait_for(&place, &running, "two calls are in flight", in_flight);
    drop(release);
    running.exits(0);
    let run = scored(&place).unwrap();
    assert_eq!(run["state"], "ended");
    assert_eq!(run["exit_code"], 0);
    assert_eq!(run["summary"], place.json("s.json"));
    ask(&place, "scored.csv")
        .exits(0)
        .prints("exit code 0")
        .prints("5 rows in ");
    ask(&place, "link.csv").exits(0);
    // It is the only run of the last day as well.
    assert_eq!(known(&place, ""), [run]);
    let mode = |path: &PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&place.path("state/rescore/runs")), 0o700);
    assert_eq!(files(&place).iter().map(mode).collect::<Vec<_>>(), [0o600]);
}

#[test]
fn rows_of_rows_and_cost_of_cost_are_known_through_a_pause_and_an_outage() {
    for (trouble, key) in [(429, "pause_left_seconds"), (503, "outage_seconds")] {
        let server = Server::start(move |request| match (request.nth, trouble) {
            (1..=3, _) => good(request),
            (_, 429) => answer(429, &[("retry-after", "60")], ""),
            _ => status(trouble),
        });
        let place = Place::with("users.csv", users::csv(50));
        let run = place.scoring(&server).args("-c 1 --price 0.004EUR -q");
        let running = watched(&place, run).start();
        let waits = |run: &Value| !run["progress"]["now"][key].is_null();
        let run = wait_for(&place, &running, key, waits);
        assert!(says(&run, "3 of 50 rows"), "{run}");
        assert!(says(&run, "spent 0.012 EUR of about 0.20 EUR"), "{run}");
        assert!(says(&run, " left"), "{run}");
        running.signal("INT");
        running.exits(130);
        let run = scored(&place).unwrap();
        assert_eq!(run["summary"]["stopped"], "interrupted");
    }
}

#[test]
fn a_run_that_is_stopped_killed_or_ended_immediately_is_told_from_one_that_runs() {
    let (server, release) = Server::holding(3);
    let place = Place::with("users.csv", users::csv(9));
    let run = || watched(&place, place.scoring(&server));
    let running = run().start();
    let runs = |run: &Value| run["progress"]["rows"]["resolved"] == 3;
    wait_for(&place, &running, "three rows", runs);
    running.signal("STOP");
    running.wait_for_status("State:", |state| state.starts_with('T'));
    // As if its last report was long ago.
    let file = &files(&place)[0];
    age(file);
    assert_eq!(scored(&place).unwrap()["state"], "silent");
    ask(&place, "").exits(0).prints("stopped or hanging");
    running.signal("CONT");
    wait_for(&place, &running, "its reports", |run| {
        run["state"] == "running"
    });
    running.kill_when(|| true);
    let killed = scored(&place).unwrap();
    assert_eq!(killed["state"], "killed");
    let hint = killed["hint"].as_str().unwrap();
    assert!(hint.contains("the same command continues"), "{hint}");
    ask(&place, "scored.csv")
        .exits(0)
        .prints(hint)
        .prints("3 of 9 rows");
    // Nothing is kept without a ledger, and so it must not be told.
    let running = run().args("--no-ledger --overwrite").start();
    wait_for(&place, &running, "calls", |run| run["state"] == "running");
    running.kill_when(|| true);
    ask(&place, "scored.csv")
        .exits(0)
        .prints("makes the same calls again");

    let running = run().args("--overwrite").start();
    wait_for(&place, &running, "three rows again", runs);
    running.signal("INT");
    running.wait_for_words("interrupted");
    running.signal_until_it_ends("INT").exits(130);
    let run = scored(&place).unwrap();
    assert_eq!(run["state"], "ended");
    assert!(run["summary"].is_null());
    assert_eq!(run["exit_code"], 130);
    drop(release);
}

#[test]
fn runs_to_one_output_to_others_and_to_standard_output_are_all_known() {
    let (server, release) = Server::holding(3);
    let place = Place::with("users.csv", users::csv(9));
    let start = |args: &str| watched(&place, place.run(&server, args)).start();
    let first = start("users.csv -o scored.csv");
    let other = start("users.csv -o other.csv --no-ledger");
    let to_stdout = start("users.csv --no-ledger");
    wait_for(&place, &first, "three rows", |run| {
        run["progress"]["rows"]["resolved"] == 3
    });
    let second = start("users.csv -o scored.csv --wait-lock 10m");
    let outputs = || {
        let runs = known(&place, "").into_iter();
        let mut names: Vec<_> = runs
            .map(|run| {
                let output = run["output"].as_str().unwrap_or("stdout");
                let name = output.rsplit('/').next().unwrap();
                format!("{name} {}", run["state"].as_str().unwrap())
            })
            .collect();
        names.sort();
        names
    };
    let expected = [
        "other.csv running",
        "scored.csv preparing",
        "scored.csv running",
        "stdout running",
    ];
    second.wait_until("all four", || outputs() == expected);
    let of_one = known(&place, "scored.csv");
    let first_named = format!("process {} on", first.id());
    let waits = |run: &Value| says(run, &first_named);
    assert!(of_one.iter().any(waits), "{of_one:#?}");
    // A signal before the first call.
    second.signal("TERM");
    second.exits(143);
    drop(release);
    for running in [first, other, to_stdout] {
        running.exits(0);
    }
    let ended = known(&place, "");
    let mut codes: Vec<_> = ended.iter().map(|run| run["exit_code"].as_u64()).collect();
    codes.sort_unstable();
    assert_eq!(codes, [0, 0, 0, 143].map(Some));
    // The file of a run is that of the next one to the same output.
    fs::remove_dir_all(place.path(STATE)).unwrap();
    watched(&place, place.scoring(&server))
        .args("--overwrite --max-calls 1 --fresh")
        .exits(5);
    let run = scored(&place).unwrap();
    assert_eq!(run["summary"]["stopped"], "max_calls");
    assert_eq!(run["exit_code"], 5);
    watched(&place, place.scoring(&server)).exits(2);
    let run = scored(&place).unwrap();
    assert_eq!(run["summary"]["stopped"], "not_started");
    assert_eq!(run["exit_code"], 2);
    assert_eq!(files(&place).len(), 1);
}

#[test]
fn a_run_needs_no_place_for_its_status_and_writes_to_no_file_of_others() {
    let (server, csv) = (Server::good(), users::csv(3));
    let place = Place::with("users.csv", &csv);
    // Without a home, and with a file in the place of the directory.
    place.score(&server, "").exits(0);
    place.rescore("status").exits(0).prints("no run");
    place.write("state", "a file");
    watched(&place, place.scoring(&server))
        .args("--overwrite")
        .exits(0);
    fs::remove_file(place.path("state")).unwrap();
    let run = || {
        watched(&place, place.scoring(&server))
            .args("--overwrite")
            .exits(0)
    };
    run();
    let first = files(&place).pop().unwrap();
    let name = first.to_str().unwrap().strip_suffix("-0").unwrap();
    fs::remove_file(&first).unwrap();
    place.write("victim", "precious");
    symlink(place.path("victim"), &first).unwrap();
    fs::write(format!("{name}-1"), "a shopping list").unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(format!("{name}-2"))
        .status();
    assert!(made.unwrap().success());
    run();
    assert_eq!(scored(&place).unwrap()["exit_code"], 0);
    assert_eq!(place.text("victim"), "precious");
    assert_eq!(
        fs::read_to_string(format!("{name}-1")).unwrap(),
        "a shopping list"
    );
    // Nor to a directory that everybody can write to.
    let runs = place.path("state/rescore/runs");
    fs::set_permissions(&runs, fs::Permissions::from_mode(0o777)).unwrap();
    let before = files(&place);
    ask(&place, "").exits(0).prints("no run");
    watched(&place, place.run(&server, "users.csv -o other.csv")).exits(0);
    assert_eq!(files(&place), before);
}

#[test]
fn the_status_of_a_run_that_ended_long_ago_is_removed_by_the_next_one() {
    let server = Server::good();
    let place = Place::with("users.csv", users::csv(3));
    watched(&place, place.scoring(&server)).exits(0);
    let file = files(&place).pop().unwrap();
    age(&file);
    // The last run is shown, however long ago it was.
    ask(&place, "")
        .exits(0)
        .prints("ended 20")
        .prints("exit code 0");
    watched(&place, place.run(&server, "users.csv -o other.csv")).exits(0);
    assert!(!file.exists());
    assert_eq!(files(&place).len(), 1);
}
