//! Broken exports: too few rows (`--min-rows`), or too many that cannot be sent (`--max-invalid`).

use std::io::Write as _;

use crate::support::process::{Done, Place};
use crate::support::server::Server;
use crate::support::users;

const OLD: &str = "yesterday's output";

/// A directory with an input and yesterday's output.
fn place(input: &str, content: impl AsRef<[u8]>) -> Place {
    let place = Place::with(input, content);
    place.write("scored", OLD);
    place
}

fn run(place: &Place, server: &Server, input: &str, limits: &[&str]) -> Done {
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

fn gzipped(text: &str) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    gzip.finish().unwrap()
}

fn jsonl(rows: usize) -> String {
    let object = |n| users::object(&format!("User {n}")) + "\n";
    (1..=rows).map(object).collect()
}

/// Users of whom each `nth` has no IP address.
fn with_invalid(rows: usize, nth: usize) -> String {
    let mut row = 0;
    let lines = users::csv(rows);
    let lines = lines.lines().map(|line| {
        let invalid = row > 0 && row % nth == 0;
        let line = if invalid {
            line.replace(&format!("192.0.2.{}", row % 256), "")
        } else {
            line.to_owned()
        };
        row += 1;
        line + "\n"
    });
    lines.collect()
}

#[test]
fn a_file_with_too_few_rows_costs_no_call_and_replaces_nothing() {
    for (input, content) in [
        ("users.csv", users::csv(9).into_bytes()),
        ("users.csv.gz", gzipped(&users::csv(9))),
        ("users.jsonl", jsonl(9).into_bytes()),
    ] {
        let server = Server::good();
        let broken = place(input, &content);
        let done = run(&broken, &server, input, &["--min-rows", "10"]);
        done.exits(2).says(&format!(
            "error: `{input}` has 9 rows, fewer than `--min-rows 10`\n  nothing was sent\n"
        ));
        untouched(&broken, &server, input);
        // All rows count, whatever part of them the run takes.
        let done = run(
            &broken,
            &server,
            input,
            &["--min-rows", "10", "--limit", "2"],
        );
        done.exits(2);
        let part = ["--min-rows", "9", "--limit", "2"];
        run(&broken, &server, input, &part).exits(0);
        assert_eq!(server.calls(), 2);
        run(&broken, &server, input, &["--min-rows", "9"]).exits(0);
        assert_eq!(server.calls(), 9);
    }
}

#[test]
fn an_empty_input_is_warned_of_and_refused_if_there_must_be_rows() {
    let header = users::csv(0);
    for (input, content) in [
        ("users.csv", header.as_str()),
        ("users.csv", ""),
        ("users.jsonl", ""),
        ("users.jsonl", "\n\n"),
    ] {
        let server = Server::good();
        let empty = place(input, content);
        let done = run(&empty, &server, input, &["--min-rows", "1"]);
        done.exits(2)
            .says(&format!("`{input}` has 0 rows, fewer than `--min-rows 1`"));
        untouched(&empty, &server, input);
        let done = run(&empty, &server, input, &["-q"]);
        done.exits(0).says(&format!("warning: {input} has no rows"));
    }
}

#[test]
fn a_stream_that_ends_too_early_costs_no_call_and_replaces_nothing() {
    let server = Server::good();
    let place = Place::with("scored.csv", OLD);
    let run = |rows: String, more: &[&str]| {
        let args = "- -o scored.csv --overwrite --min-rows 10";
        let program = place.run(&server, args).args(more);
        program.stdin(rows).done()
    };
    for (rows, has) in [
        (String::new(), "0 rows"),
        (users::csv(0), "0 rows"),
        (users::csv(9), "9 rows"),
    ] {
        run(rows, &[]).exits(2).says(&format!(
            "error: standard input has {has}, fewer than `--min-rows 10`\n  nothing was sent\n"
        ));
        assert_eq!(place.names(), ["scored.csv"]);
    }
    assert_eq!(
        (place.text("scored.csv").as_str(), server.calls()),
        (OLD, 0)
    );
    // Rows that were held back are sent, each once.
    run(users::csv(10), &[]).exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(10)));
    assert_eq!(server.calls(), 10);
    // Of a part, the number of all rows is not known.
    run(users::csv(9), &["--limit", "3"]).exits(0);
}

/// Five users whose rows are so large that no more are held back, and some small ones.
fn large_and_small(small: usize) -> String {
    let csv = users::csv(5 + small);
    let note = "n".repeat(13 * 1024 * 1024);
    let lines = csv.lines().enumerate().map(|(row, line)| match row {
        0 => format!("{line},note\n"),
        1..=5 => format!("{line},{note}\n"),
        _ => format!("{line},\n"),
    });
    lines.collect()
}

#[test]
fn a_long_stream_with_too_few_rows_does_not_get_the_outputs_name_and_the_whole_one_continues() {
    let server = Server::good();
    let place = Place::with("scored.csv", OLD);
    let run = |rows: String| {
        let args = "- -o scored.csv --overwrite --min-rows 10";
        let program = place.run(&server, args).args("--summary summary.json");
        program.stdin(rows).done()
    };
    run(large_and_small(4))
        .exits(2)
        .says("stopped early (`--min-rows`): ")
        .says("error: standard input has 9 rows, fewer than `--min-rows 10`")
        .says("once the input is complete or `--min-rows` is lowered, the same command continues")
        .silent_about("nothing was sent");
    let summary = place.json("summary.json");
    assert_eq!(summary["stopped"], "min_rows");
    assert_eq!(summary["exit_code"], 2);
    assert_eq!(place.text("scored.csv"), OLD);
    let whole = large_and_small(5);
    run(whole.clone()).exits(0);
    assert!(place.text("scored.csv") == users::scored(&whole));
    assert_eq!(server.calls(), 10);
}

#[test]
fn more_invalid_rows_than_allowed_cost_no_call_and_replace_nothing() {
    // 10 of 200 rows.
    let csv = with_invalid(200, 20);
    for (most, code) in [("5%", 1), ("4.9%", 2), ("10", 1), ("9", 2), ("0", 2)] {
        let server = Server::good();
        let place = place("users.csv", &csv);
        let done = run(&place, &server, "users.csv", &["--max-invalid", most]);
        done.exits(code);
        if code == 2 {
            done.says(&format!(
                "of `users.csv` cannot be sent, more than `--max-invalid {most}` allows\n  most frequent: missing_ip "
            ))
            .says("\n  nothing was sent\n");
            untouched(&place, &server, "users.csv");
        } else {
            assert_eq!(server.calls(), 190);
        }
    }
    // A share of a file is that of all its rows, wherever they are.
    let (front, rest) = (with_invalid(20, 1), users::csv(400));
    let all: Vec<_> = front
        .lines()
        .take(11)
        .chain(rest.lines().skip(11))
        .collect();
    let server = Server::good();
    let place = place("users.csv", all.join("\n") + "\n");
    run(&place, &server, "users.csv", &["--max-invalid", "2.5%"]).exits(1);
    assert_eq!(server.calls(), 390);
}

#[test]
fn a_stream_with_too_many_invalid_rows_stops_as_soon_as_that_is_known() {
    let run = |rows: String, most: &str| {
        let (place, server) = (Place::new(), Server::good());
        let args = ["-", "-o", "scored.csv", "--max-invalid", most];
        let done = place.run(&server, args).stdin(rows).done();
        (done, server.calls())
    };
    // So few rows come together, and are refused together.
    let (done, calls) = run(with_invalid(200, 20), "9");
    done.exits(2)
        .says("10 of the first 200 rows of standard input cannot be sent, more than `--max-invalid 9` allows");
    assert_eq!(calls, 0);
    let (done, calls) = run(with_invalid(200, 20), "4.9%");
    done.exits(2).says("more than `--max-invalid 4.9%` allows");
    assert_eq!(calls, 0);
    let (done, _) = run(with_invalid(50, 10), "5%");
    done.exits(2)
        .says("5 of the 50 rows of standard input cannot be sent");
    let (done, calls) = run(with_invalid(50, 10), "10%");
    done.exits(1);
    assert_eq!(calls, 45);
}
