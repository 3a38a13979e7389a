//! Where the output and the rejects go: whole or not at all, and never over something that somebody may still need.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::symlink;

use super::{HEADER, score};
use crate::support::process::Place;
use crate::support::server::{Server, good, status};
use crate::support::users;

#[test]
fn an_existing_output_is_replaced_only_when_asked_and_stays_if_the_run_fails() {
    let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
    place.write("scored.csv", "precious");
    let refused = place.score(&server, "");
    refused.exits(2).says("`scored.csv`").says("--overwrite");
    assert_eq!(server.calls(), 0);
    let failed = place.score(&Server::start(|_| status(401)), "--overwrite");
    failed.exits(4);
    assert_eq!(place.text("scored.csv"), "precious");
    place.score(&server, "--overwrite").exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(3)));
    assert_eq!(place.names(), ["rescore.ledger", "scored.csv", "users.csv"]);
}

#[test]
fn no_file_that_is_written_replaces_a_ledger() {
    let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
    place.score(&server, "--ledger paid").exits(0);
    let ledger = place.read("paid");
    for files in [
        "-o paid",
        "-o x.csv --rejects paid",
        "-o x.csv --report paid",
    ] {
        let run = place.run(&server, "scored.csv --no-ledger --overwrite");
        let done = run.args(files).exits(2);
        done.says("`paid` is a database, such as a ledger, and is not replaced");
    }
    for command in ["decide", "report"] {
        let done = place
            .rescore([command, "scored.csv", "-o", "paid", "--overwrite"])
            .exits(2);
        done.says("`paid` is a database");
    }
    assert_eq!(place.read("paid"), ledger);
    assert_eq!(server.calls(), 3);
}

#[test]
fn no_two_files_of_a_run_are_the_same_file_whatever_their_names() {
    let (scored, server) = (users::scored(&users::csv(3)), Server::good());
    for command in [
        // The input, not even through links.
        "run users.csv -o ./users.csv",
        "run users.csv -o sub/../users.csv --overwrite",
        "run soft.csv -o users.csv --overwrite",
        "run users.csv -o hard.csv --overwrite",
        "run users.csv -o scored.csv --rejects users.csv --overwrite",
        "run users.csv -o scored.csv --summary users.csv",
        "run scored.csv.partial -o scored.csv --overwrite",
        // What the shell opened as the input.
        "run -o users.csv --overwrite",
        "run -o x.csv --changes ./users.csv --overwrite",
        "decide -o users.csv --overwrite",
        "decide -o x.csv --changes users.csv --overwrite",
        "report -o users.csv --overwrite",
        // Each other, and what they are called before they are complete.
        "run users.csv -o scored.csv --rejects scored.csv --overwrite",
        "run users.csv -o scored.csv --rejects scored.csv.partial --overwrite",
        "run users.csv -o x.csv --rejects x.json --summary x.json",
        "run users.csv -o x.csv --rejects a.csv --summary a.csv.partial",
        "run users.csv -o scored.csv --summary scored.csv.lock",
        // The key, the certificates, and the ledger with its files.
        "run users.csv -o x.csv --summary key.txt",
        "run users.csv -o x.csv --summary hard.txt",
        "run users.csv -o x.csv --summary soft.txt",
        "run users.csv -o x.csv --ledger key.txt",
        "run users.csv -o x.csv --rejects ca.pem --overwrite",
        "run users.csv -o x.csv --ledger y --summary y-wal",
        "run users.csv -o x.csv --summary rescore.ledger-shm",
    ] {
        let place = Place::with("users.csv", &scored);
        place.write("key.txt", "key-of-the-file");
        place.write("ca.pem", "a certificate");
        place.write("scored.csv.partial", "precious");
        symlink("key.txt", place.path("soft.txt")).unwrap();
        symlink("users.csv", place.path("soft.csv")).unwrap();
        fs::hard_link(place.path("key.txt"), place.path("hard.txt")).unwrap();
        fs::hard_link(place.path("users.csv"), place.path("hard.csv")).unwrap();
        fs::create_dir(place.path("sub")).unwrap();
        let before = place.names();
        let input = fs::File::open(place.path("users.csv")).unwrap();
        let mut program = place.rescore(command).stdin_from(input);
        if command.starts_with("run") {
            let service = [
                "--service-id=test",
                "--api-key-file=key.txt",
                "--ca-file=ca.pem",
            ];
            program = program.args(service).args(["--base-url", &server.url()]);
        }
        let done = program.done();
        let would = done.stderr.contains("would overwrite")
            || done.stderr.contains("would be the same file");
        done.exits(2).check(would, "that it would be the same file");
        assert_eq!(place.names(), before, "{command}");
        for (name, content) in [
            ("users.csv", &*scored),
            ("key.txt", "key-of-the-file"),
            ("ca.pem", "a certificate"),
            ("scored.csv.partial", "precious"),
        ] {
            assert_eq!(place.text(name), content, "{command}");
        }
    }
    assert_eq!(server.calls(), 0);
}

#[test]
fn a_summary_replaces_only_an_earlier_summary() {
    let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
    place.write("config.toml", "rate = \"50/s\"\n");
    let run = |summary: &str| place.score(&server, ["--overwrite", "--summary", summary]);
    run("config.toml")
        .exits(2)
        .says("its content is not a summary of rescore");
    assert_eq!(server.calls(), 0);
    let decide = |summary: &str| {
        let decide = place.rescore("decide scored.csv --overwrite -o decided.csv");
        decide.args(["--summary", summary]).done()
    };
    for _ in 0..2 {
        run("summary.json").exits(0);
        decide("summary.json").exits(0);
    }
    decide("config.toml").exits(2);
    assert_eq!(place.text("config.toml"), "rate = \"50/s\"\n");
}

#[test]
fn the_partial_file_lies_beside_the_real_target_of_a_link() {
    let csv = users::csv(4);
    let place = Place::with("users.csv", &csv);
    fs::create_dir(place.path("real")).unwrap();
    symlink("real/target.csv", place.path("link.csv")).unwrap();
    let server = Server::start(|request| match request.nth {
        1 | 2 => good(request),
        _ => status(402),
    });
    let run = place.run(&server, "users.csv -o link.csv -c 1");
    run.exits(4);
    assert_eq!(
        place.names(),
        ["link.csv", "real", "rescore.ledger", "users.csv"]
    );
    let partial = place.text("real/target.csv.partial");
    assert_eq!(partial, users::scored(&users::csv(2)));

    let server = Server::good();
    let run = place.run(&server, "users.csv -o link.csv --overwrite");
    run.exits(0);
    assert!(place.path("link.csv").is_symlink());
    assert_eq!(place.text("real/target.csv"), users::scored(&csv));
    assert!(!place.path("real/target.csv.partial").exists());
}

#[test]
fn an_output_named_gz_or_zst_is_compressed() {
    let (csv, server) = (users::csv(500), Server::good());
    let place = Place::with("users.csv", &csv);
    for name in ["scored.csv.zst", "OUT.CSV.GZ"] {
        place.run(&server, ["users.csv", "-o", name]).exits(0);
    }
    let (mut unpacked, gzip) = (String::new(), place.read("OUT.CSV.GZ"));
    let mut gzip = flate2::read::GzDecoder::new(gzip.as_slice());
    gzip.read_to_string(&mut unpacked).unwrap();
    assert!(unpacked == users::scored(&csv));
    let unpacked = zstd::decode_all(place.read("scored.csv.zst").as_slice()).unwrap();
    assert!(unpacked == users::scored(&csv).as_bytes());
}

#[test]
fn a_live_run_is_named_and_its_file_is_not_taken_for_a_leftover() {
    let (server, release) = Server::holding_if(|request| request.nth > 1);
    let place = Place::with("users.csv", users::csv(3));
    let first = place.scoring(&server).start();
    server.wait_for_calls(2);
    let second = place.score(&server, "");
    second.exits(75).says("another run (process");
    second
        .says("is writing `scored.csv`")
        .silent_about("move it away");
    place.write("earlier.csv", users::scored(&users::csv(3)));
    for output in [
        "scored.csv",
        "scored.csv --overwrite",
        "scored.csv.partial --overwrite",
    ] {
        let decide = place.rescore("decide earlier.csv -o").args(output);
        decide
            .exits(75)
            .says("another run is writing `scored.csv.partial`");
    }
    // If it is moved away all the same, it is not taken for the whole output.
    fs::rename(place.path("scored.csv.partial"), place.path("moved.csv")).unwrap();
    place.write("scored.csv.partial", "somebody else's");
    drop(release);
    first.exits(3).says("another file has taken its place");
    assert_eq!(place.text("moved.csv"), users::scored(&users::csv(3)));
    assert!(!place.path("scored.csv").exists());
}

#[test]
fn a_run_that_waits_for_its_input_holds_its_output() {
    let (place, server) = (Place::with("users.csv", users::csv(5)), Server::good());
    let (input, mut rows) = io::pipe().unwrap();
    let run = place.run(&server, "- -o scored.csv --format csv");
    let running = run.stdin_from(input).start();
    // More than a pipe holds, and not yet a whole line: the run reads it and needs more.
    write!(rows, "{HEADER},{}", "x".repeat(100_000)).unwrap();
    place.score(&server, "").exits(75).says("another run");
    writeln!(rows, "\nJane,j@example.com,::1,u,").unwrap();
    drop(rows);
    running.exits(0);
    assert_eq!(server.calls(), 1);
    assert_eq!(place.names(), ["rescore.ledger", "scored.csv", "users.csv"]);
}

#[test]
fn rejects_go_where_they_are_asked_to_and_can_be_fixed_and_run_again() {
    let server = Server::good();
    let csv = "name,email,ip,user_agent\r\nA,a@x.org,::1,u\r\n\"B, C\",b@x.org,1.1.1,u\r\n";
    let (place, done) = score(csv, &server, "--rejects bad.csv");
    done.exits(1).says("bad.csv");
    let rejects = place.text("bad.csv");
    assert!(
        rejects.starts_with(
            "reject_row,reject_reason,reject_message,name,email,ip,user_agent\r\n2,invalid_ip,"
        ),
        "{rejects}"
    );
    place.write("fixed.csv", rejects.replace("1.1.1,u", "1.1.1.1,u"));
    place.run(&server, "fixed.csv -o again.csv").exits(0);
    assert_eq!(server.requests()[1].name(), "B, C");
    // Then no old rejects are left that could be taken for new ones.
    place.write("users.csv", csv.replace("1.1.1,u", "1.1.1.1,u"));
    place
        .score(&server, "--rejects bad.csv --overwrite")
        .exits(0);
    assert!(!place.path("bad.csv").exists());
    // As root, removing a device would break the whole machine.
    symlink("/dev/null", place.path("null")).unwrap();
    place.score(&server, "--rejects null --overwrite").exits(0);
    assert!(place.path("null").exists());
}

#[test]
fn rejects_that_cannot_be_written_cost_no_paid_row() {
    let csv = format!("{}9,,u@x.org,::1,u\n", users::csv(30));
    let (place, done) = score(&csv, &Server::good(), "--rejects /dev/full");
    done.exits(3)
        .says("/dev/full")
        .says("no space left")
        .says("scored.csv.partial has the");
    let expected = users::scored_without(&csv, str::is_empty);
    assert_eq!(place.text("scored.csv.partial"), expected);
}
