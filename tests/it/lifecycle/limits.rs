//! Limits of failed and of invalid rows, failures that are accepted, and runs without a ledger or without an output file.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use serde_json::Value;

use crate::support::process::{Done, Place};
use crate::support::server::{Server, good, good_body, ok, status};
use crate::support::users;

#[test]
fn too_many_failures_stop_the_run_with_their_reasons_and_it_continues_once_they_are_fixed() {
    let csv = users::csv(120);
    let wrong = |name: &str| csv.replace(&format!("{name},"), ",");
    let early = wrong("User 5").replace("User 6,", ",");
    let early = early.replace("192.0.2.9,", "no,");
    // A percentage counts from the hundredth row on.
    let late = wrong("User 5").replace("192.0.2.110,", "no,");
    for (csv_now, limit, reasons) in [
        (early, "3", "missing_name 2, invalid_ip 1"),
        (late, "1.5%", "missing_name 1, invalid_ip 1"),
    ] {
        let (place, server) = (Place::with("users.csv", &csv_now), Server::good());
        let score = || place.score(&server, ["-c", "2", "--max-failures", limit]);
        let done = score();
        done.exits(5)
            .says(&format!("`--max-failures {limit}` is reached"))
            .says(&format!("most frequent: {reasons}"));
        done.check(server.calls() < 120, "it stops before the end");
        place.write("users.csv", &csv);
        score().exits(0);
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
        assert_eq!(server.calls(), 120, "what was paid for is known");
    }
}

#[test]
fn what_a_bad_night_failed_on_does_not_stop_the_next_one_and_is_retried_in_the_end() {
    let csv = users::csv(400);
    let place = Place::with("users.csv", &csv);
    let is_well = Arc::new(AtomicBool::new(false));
    let well = Arc::clone(&is_well);
    let server = Server::start(move |request| match request.nth % 5 {
        0 if !well.load(Relaxed) => status(422),
        _ => good(request),
    });
    let night = |more: &str| {
        let args = format!("-c 2 --max-failures 5% {more}");
        place.score(&server, &*args)
    };
    night("").exits(5);
    // Each start may fail up to the limit again.
    let calls = server.calls();
    night("")
        .exits(5)
        .says("that failed before this start do not count");
    assert!(server.calls() > calls);
    let failed = server.calls() / 5;
    is_well.store(true, Relaxed);
    night("").exits(1).says(&format!("failed {failed}: "));
    assert_eq!(server.calls(), 400, "nobody is asked about twice");
    night("--retry-failed").exits(0);
    assert_eq!(server.calls(), 400 + failed);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn without_a_ledger_equal_rows_are_asked_once_and_nothing_is_left_behind() {
    let row = |id: usize| format!("{id},User {0},u{0}@example.com,192.0.2.1,u\n", id % 7);
    let csv = "id,name,email,ip,user_agent\n".to_owned() + &(0..50).map(row).collect::<String>();
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    let run = |server| place.run(server, "users.csv --no-ledger");
    let done = run(&server).exits(0);
    done.says("43 rows reused the answer of an identical request");
    assert_eq!(done.printed(), users::scored(&csv));
    assert_eq!(
        (server.calls(), place.names()),
        (7, vec!["users.csv".into()])
    );

    // Beside a ledger that has answers, it says for how many rows.
    place.score(&server, "").exits(0);
    run(&server).exits(0);
    for name in ["rescore.ledger", "scored.csv"] {
        fs::remove_file(place.path(name)).unwrap();
    }

    // A run that stops leaves no file either.
    let (server, release) = Server::holding(3);
    let running = run(&server).start();
    server.wait_for_calls(4);
    running.signal("TERM");
    running.wait_for_words("terminated");
    drop(release);
    running.exits(143);
    assert_eq!(place.names(), ["users.csv"]);

    // In a file, its rows are in the way of every later run.
    place
        .score(&Server::good(), "--no-ledger --max-calls 4")
        .exits(5);
    for more in ["--no-ledger", ""] {
        place.score(&server, more).exits(2);
    }
}

#[test]
fn without_a_ledger_what_was_paid_for_is_known_far_later_with_its_columns_and_failures() {
    const USERS: usize = 300;
    let name = |row: usize| format!("User {}", row % USERS);
    let row = |row: usize| {
        let (name, user) = (name(row), row % USERS);
        format!("{row},{name},u{user}@example.com,192.0.2.1,u\n")
    };
    let is_refused = |name: &str| name.ends_with('7');
    let server = Server::start(move |request| match request.name() {
        name if is_refused(&name) => status(400),
        name => {
            let label = format!("{{\"label\":\"of {name}\",");
            ok(&good_body(&name).replacen('{', &label, 1))
        }
    });
    let csv = "id,name,email,ip,user_agent\n".to_owned() + &(0..900).map(row).collect::<String>();
    let place = Place::with("users.csv", &csv);
    let done = place
        .run(&server, "users.csv --no-ledger --column label=/label -c 4")
        .exits(1);
    assert_eq!(server.calls(), USERS);
    let lines = users::scored_without(&csv, is_refused);
    let lines = { lines.lines().enumerate() }.map(|(line, row)| match line.checked_sub(1) {
        None => format!("{row},label\n"),
        Some(number) if is_refused(&name(number)) => format!("{row},\n"),
        Some(number) => format!("{row},of {}\n", name(number)),
    });
    assert_eq!(done.printed(), lines.collect::<String>());
}

#[test]
fn a_run_to_standard_output_continues_too() {
    let csv = users::csv(30);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    let run = |most: &str| place.run(&server, "users.csv -c 1").args(most).done();
    let done = run("--max-calls 12");
    // Each start has the budget for itself.
    done.exits(5);
    assert_eq!(done.printed(), users::scored(&users::csv(12)));
    run("--max-calls 12").exits(5);
    assert_eq!(server.calls(), 24);
    let done = run("");
    done.exits(0);
    assert_eq!(done.printed(), users::scored(&csv));
    assert_eq!(server.calls(), 30);
    assert_eq!(place.names(), ["rescore.ledger", "users.csv"]);
}

const OLD: &str = "yesterday's output";

/// A run that would replace yesterday's output.
fn replacing(place: &Place, server: &Server, input: &str, limits: &str) -> Done {
    let program = place.run(server, [input, "-o", "scored", "--overwrite"]);
    program.args(limits).done()
}

/// Fails if anything was sent or touched.
#[track_caller]
fn untouched(place: &Place, server: &Server, input: &str) {
    assert_eq!(server.calls(), 0);
    assert_eq!(place.names(), ["scored", input]);
    assert_eq!(place.text("scored"), OLD);
}

#[test]
fn a_file_with_too_few_rows_costs_no_call_and_replaces_nothing() {
    let gzipped = {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, users::csv(9).as_bytes()).unwrap();
        gzip.finish().unwrap()
    };
    let objects = (1..=9).map(|n| users::object(&format!("User {n}")) + "\n");
    for (input, content) in [
        ("users.csv", users::csv(9).into_bytes()),
        ("users.csv.gz", gzipped),
        ("users.jsonl", objects.collect::<String>().into()),
    ] {
        let server = Server::good();
        let place = Place::with(input, &content);
        place.write("scored", OLD);
        let run = |limits: &str| replacing(&place, &server, input, limits);
        run("--min-rows 10").exits(2);
        untouched(&place, &server, input);
        // All rows count, whatever part of them the run takes.
        run("--min-rows 10 --limit 2").exits(2);
        run("--min-rows 9 --limit 2").exits(0);
        assert_eq!(server.calls(), 2);
        run("--min-rows 9").exits(0);
        assert_eq!(server.calls(), 9);
    }
    // An empty file is warned of, and refused if there must be rows.
    for (input, content) in [("users.csv", users::csv(0)), ("users.jsonl", "\n\n".into())] {
        let server = Server::good();
        let place = Place::with(input, content);
        place.write("scored", OLD);
        let run = |limits: &str| replacing(&place, &server, input, limits);
        run("--min-rows 1").exits(2);
        untouched(&place, &server, input);
        run("-q").exits(0);
    }
}

#[test]
fn more_invalid_rows_than_allowed_cost_no_call_and_replace_nothing() {
    // 10 of 400 rows have no IP address, and all of them are among the first.
    let csv = users::csv(400);
    let without = |line: &str| {
        let mut cells: Vec<_> = line.split(',').collect();
        cells[3] = "";
        cells.join(",")
    };
    let lines = csv.lines().enumerate().map(|(row, line)| match row {
        1..=10 => without(line) + "\n",
        _ => line.to_owned() + "\n",
    });
    let csv: String = lines.collect();
    for (most, code) in [("2.5%", 1), ("2.4%", 2), ("10", 1), ("9", 2), ("0", 2)] {
        let (server, place) = (Server::good(), Place::with("users.csv", &csv));
        place.write("scored", OLD);
        let limit = format!("--max-invalid {most}");
        let done = replacing(&place, &server, "users.csv", &limit);
        done.exits(code);
        if code == 2 {
            done.says(&format!("more than `{limit}` allows\n"))
                .says("missing_ip ");
            untouched(&place, &server, "users.csv");
        } else {
            assert_eq!(server.calls(), 390);
        }
    }
}

const ROWS: usize = 20;

/// Rejects two of the twenty users, the first times that they are sent.
fn rejecting_two(times: usize) -> Server {
    Server::start(move |request| match request.name().as_str() {
        "User 3" | "User 5" if request.attempt <= times => status(422),
        _ => good(request),
    })
}

/// A run that accepts so many failures.
fn accepting(place: &Place, server: &Server, accepted: &str, more: &str) -> Done {
    let accept = ["--accept-failures", accepted, "--summary", "summary.json"];
    let program = place.scoring(server);
    program.args(accept).args(more).done()
}

#[test]
fn as_many_failures_as_are_accepted_end_with_0_and_one_more_with_1() {
    let server = rejecting_two(9);
    for (accepted, code) in [("2", 0), ("1", 1), ("10%", 0), ("9.99%", 1)] {
        let place = Place::with("users.csv", users::csv(ROWS));
        let done = accepting(&place, &server, accepted, "");
        done.exits(code);
        let summary = place.json("summary.json");
        assert_eq!(summary["exit_code"], code);
        assert_eq!(summary["failed"]["rows"], 2);
        assert_eq!(summary["failures_accepted"], code == 0);
        assert_eq!(summary["stopped"], Value::Null);
    }
    // A quiet run has nothing to say then, so that a nightly job mails nobody.
    for (accepted, said) in [("10%", ""), ("1", "warning: 2 of 20 rows failed")] {
        let place = Place::with("users.csv", users::csv(ROWS));
        let done = accepting(&place, &server, accepted, "-q");
        done.check(
            done.stderr.is_empty() == said.is_empty(),
            "silent if accepted",
        );
        done.says(said);
    }
    // A stopped run is not accepted.
    let place = Place::with("users.csv", users::csv(ROWS));
    accepting(&place, &server, "100%", "--max-calls 9 -c 1").exits(5);
    assert_eq!(place.json("summary.json")["failures_accepted"], false);
}

#[test]
fn rows_without_a_decision_are_not_accepted_and_a_file_of_failures_alone_only_if_all_are() {
    let levels = Server::start(|request| match request.name().as_str() {
        "User 3" => status(422),
        name => {
            let level = if name == "User 5" { 9 } else { 0 };
            ok(&format!(
                r#"{{"summary":{{"risk_score":1,"level":{level}}},"transaction_id":"{name}"}}"#
            ))
        }
    });
    let place = Place::with("users.csv", users::csv(ROWS));
    let decide = "--decide-by level=/summary/level --approve-levels 0 -q";
    let done = accepting(&place, &levels, "5", decide);
    done.exits(1).says("1 of 20 rows have no decision");
    assert_eq!(place.json("summary.json")["failures_accepted"], false);

    let csv = users::csv(150).replace("@example.com", "");
    let (place, server) = (Place::with("users.csv", csv), Server::good());
    let done = accepting(&place, &server, "99%", "");
    done.exits(2);
    accepting(&place, &server, "100%", "").exits(0);
    assert_eq!(server.calls(), 0);
}
