//! Rows down a pipe, to a device, and to standard output.

use std::io::{self, BufRead, BufReader};

use crate::support::process::{Place, device};
use crate::support::server::Server;
use crate::support::users;

#[test]
fn standard_output_has_the_data_alone() {
    let (csv, server) = (users::csv(3), Server::good());
    for arguments in [
        "users.csv",
        "users.csv -o -",
        "users.csv -o /dev/stdout",
        "- -o - --format csv",
    ] {
        let place = Place::with("users.csv", &csv);
        let done = place.run(&server, arguments).stdin(csv.as_str()).exits(0);
        done.says("3 rows");
        assert_eq!(done.printed(), users::scored(&csv));
        assert_eq!(place.names(), ["rescore.ledger", "users.csv"]);
    }
}

#[test]
fn rows_flow_down_a_pipe_during_the_run() {
    let (server, release) = Server::holding_if(|request| request.nth > 3);
    let (csv, place) = (users::csv(4), Place::with("users.csv", users::csv(4)));
    let (reader, writer) = io::pipe().unwrap();
    let running = place.run(&server, "users.csv -c 1").stdout(writer).start();
    let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
    let expected = users::scored(&csv);
    let mut expected = expected.lines();
    for _ in 0..4 {
        assert_eq!(lines.next().as_deref(), expected.next());
    }
    drop(release);
    assert_eq!(lines.next().as_deref(), expected.next());
    assert_eq!(lines.next(), None);
    running.exits(0);
}

#[test]
fn a_closed_pipe_ends_the_run_quietly_and_soon() {
    let (server, release) = Server::holding_if(|request| request.nth > 3);
    let place = Place::with("users.csv", users::csv(5_000));
    let (reader, writer) = io::pipe().unwrap();
    let running = place.run(&server, "users.csv").stdout(writer).start();
    // As `head -n 1` does.
    let mut line = String::new();
    BufReader::new(reader).read_line(&mut line).unwrap();
    drop(release);
    let done = running.exits(3);
    done.silent_about("error").silent_about("roken pipe");
    done.check(server.calls() < 5_000, "no call for rows that nobody reads");
}

#[test]
fn a_reader_that_ends_with_the_last_row_has_read_a_complete_run() {
    let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
    let (reader, writer) = io::pipe().unwrap();
    let running = place.run(&server, "users.csv").stdout(writer).start();
    let lines = BufReader::new(reader).lines();
    assert_eq!(lines.take(4).count(), 4);
    running.exits(0);
}

#[test]
fn a_full_device_is_an_error_and_not_a_panic() {
    let (place, server) = (Place::with("users.csv", users::csv(2_000)), Server::good());
    let full = || device("/dev/full");
    let run = place.run(&server, "users.csv --ledger answers");
    let done = run.stdout(full()).exits(3);
    done.says("cannot write standard output")
        .says("no space left");
    let run = place.run(&server, "users.csv --ledger answers -o /dev/full");
    run.exits(3).says("/dev/full").says("no space left");
    assert!(server.calls() < 2_000, "{} calls", server.calls());
    let stats = place.rescore("ledger stats answers").stdout(full());
    stats
        .exits(3)
        .says("cannot write standard output: no space left on device");
}
