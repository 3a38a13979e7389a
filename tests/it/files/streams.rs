//! Rows down a pipe, to a device, and to standard output.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

use crate::support::process::{KEY, Place, device};
use crate::support::server::Server;
use crate::support::users;

#[test]
fn standard_output_has_the_data_alone() {
    let (csv, server) = (users::csv(3), Server::good());
    for output in [&[][..], &["-o", "-"]] {
        let place = Place::with("users.csv", &csv);
        let program = output
            .iter()
            .fold(place.run(&server, "users.csv"), |program, arg| {
                program.arg(arg)
            });
        let done = program.done();
        done.exits(0).says("3 rows");
        assert_eq!(done.printed(), users::scored(&csv));
        assert_eq!(place.names(), ["rescore.ledger", "users.csv"]);
    }
    let place = Place::new();
    let done = place
        .run(&server, "- -o - --format csv")
        .stdin(csv.as_str())
        .done();
    done.exits(0);
    assert_eq!(done.printed(), users::scored(&csv));
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
    running.done().exits(0);
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
    let done = running.done();
    done.exits(3)
        .silent_about("error")
        .silent_about("roken pipe");
    done.check(server.calls() < 5_000, "no call for rows that nobody reads");
}

#[test]
fn a_reader_that_ends_with_the_last_row_has_read_a_complete_run() {
    let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
    let (reader, writer) = io::pipe().unwrap();
    let running = place.run(&server, "users.csv").stdout(writer).start();
    let lines = BufReader::new(reader).lines();
    assert_eq!(lines.take(4).count(), 4);
    running.done().exits(0);
}

#[test]
fn a_full_device_is_an_error_and_not_a_panic() {
    let (place, server) = (Place::with("users.csv", users::csv(2_000)), Server::good());
    let done = place
        .run(&server, "users.csv")
        .stdout(device("/dev/full"))
        .done();
    done.exits(3)
        .says("cannot write standard output")
        .says("no space left");
    place
        .run(&server, "users.csv -o /dev/full")
        .done()
        .exits(3)
        .says("/dev/full")
        .says("no space left");
    assert!(server.calls() < 4_000, "{} calls", server.calls());
}

#[test]
fn standard_output_can_be_named_as_a_device() {
    let (csv, server) = (users::csv(3), Server::good());
    let place = Place::with("users.csv", &csv);
    let done = place.run(&server, "users.csv -o /dev/stdout").done();
    done.exits(0);
    assert_eq!(done.printed(), users::scored(&csv));
}

#[test]
fn only_input_and_output_can_be_streams() {
    let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
    for file in ["--summary", "--ledger", "--changes", "--rejects"] {
        place
            .score(&server, [file, "-"])
            .exits(2)
            .says("this must be a file and not a stream")
            .says(file);
        assert_eq!(
            (place.names(), server.calls()),
            (vec!["users.csv".to_owned()], 0)
        );
    }
    place.score(&server, "--summary ./-").exits(0);
    assert_eq!(
        place.names(),
        ["-", "rescore.ledger", "scored.csv", "users.csv"]
    );
}

#[test]
fn a_file_that_the_shell_opened_as_input_is_not_written() {
    let (place, server) = (Place::new(), Server::good());
    let scored = users::scored(&users::csv(3));
    for command in [
        "run -o users.csv --overwrite",
        "run -o x.csv --rejects users.csv --overwrite",
        "run -o x.csv --changes ./users.csv --overwrite",
        "run -o x.csv --summary users.csv",
        "decide -o users.csv --overwrite",
        "decide -o x.csv --changes users.csv --overwrite",
        "report -o users.csv --overwrite",
    ] {
        place.write("users.csv", &scored);
        let program = place.rescore(command);
        let program = program.stdin_from(File::open(place.path("users.csv")).unwrap());
        let program = program.env("RESCORE_BASE_URL", server.url());
        let program = program
            .env("RESCORE_SERVICE_ID", "test")
            .env("RESCORE_API_KEY", KEY);
        program
            .done()
            .exits(2)
            .says("users.csv` would overwrite the input");
        assert_eq!(place.text("users.csv"), scored, "{command}");
        assert_eq!(place.names(), ["users.csv"], "{command}");
    }
    assert_eq!(server.calls(), 0);
}
