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
fn a_stream_cannot_be_counted_before_the_first_call_and_is_refused() {
    let server = Server::good();
    let place = Place::with("scored.csv", OLD);
    for limit in [["--min-rows", "1"], ["--max-invalid", "1"]] {
        for input in ["-", "/dev/stdin"] {
            let program = place.run(&server, [input, "-o", "scored.csv", "--overwrite"]);
            let done = program.args(limit).stdin(users::csv(9)).done();
            done.exits(2).says(&format!("`{}` needs a file", limit[0]));
            assert_eq!(place.names(), ["scored.csv"]);
        }
    }
    assert_eq!(
        (place.text("scored.csv").as_str(), server.calls()),
        (OLD, 0)
    );
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
