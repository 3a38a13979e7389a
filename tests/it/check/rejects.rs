//! The rows that cannot be sent, in a file of their own; and that an interrupted check leaves nothing.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use super::agreement::{check, command};
use crate::support::process::{Place, device};
use crate::support::server::Server;
use crate::support::users;

const USERS: &str = "name,email,ip,user_agent\n\
    Ann,ann@example.com,192.0.2.1,curl/8\n\
    ,\"bo, b\"@example.com,192.0.2.1,curl/8\n\
    Cy,cy@example.com,somewhere,curl/8\n\
    Di,di@example.com\n";

#[test]
fn they_are_those_of_the_run_that_follows() {
    let server = Server::good();
    let jsonl = format!("{}\nnonsense\n{{\"name\":\"Bo\"}}\n", users::object("Ann"));
    for (name, rejects, content) in [
        ("users.csv", "first.csv", USERS),
        ("users.jsonl", "first.jsonl", &jsonl),
    ] {
        let place = Place::with(name, content);
        std::fs::set_permissions(place.path(name), std::fs::Permissions::from_mode(0o640)).unwrap();
        let said = check(&place, &server.url(), &[name, "--rejects", rejects]);
        assert_eq!(said["exit_code"], 1);
        assert_eq!(said["rejects"], rejects);
        assert_eq!(place.names(), [rejects, name]);
        let mode = place.path(rejects).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777 & !0o640, 0);
        let run = ["run", name, "-o", "out", "--rejects", "second"];
        command(&place, &server.url(), &run).done().exits(1);
        assert_eq!(place.text(rejects), place.text("second"));
    }
}

#[test]
fn a_file_that_exists_is_replaced_only_with_overwrite_and_without_rejects_there_is_none() {
    let place = Place::with("users.csv", USERS);
    place.write("rejects.csv", "precious");
    let words = "check users.csv --rejects rejects.csv";
    let refused = place.rescore(words).done();
    refused.exits(2).says("already exists").says("--overwrite");
    assert!(refused.stdout.is_empty());
    assert_eq!(place.text("rejects.csv"), "precious");
    place.rescore(words).arg("--overwrite").done().exits(1);
    assert!(place.text("rejects.csv").starts_with("reject_row,"));

    place.write("users.csv", users::csv(3));
    place.rescore(words).arg("--overwrite").done().exits(0);
    assert_eq!(place.names(), ["users.csv"]);
}

#[test]
fn where_the_run_has_an_output_it_writes_them_and_the_check_does_not() {
    let server = Server::good();
    let place = Place::with("users.csv", USERS);
    let in_place = |command_name, options: &str| {
        let words = [command_name, "users.csv", "--rejects", "rejects.csv"];
        let words: Vec<_> = words.into_iter().chain(options.split(' ')).collect();
        let done = command(&place, &server.url(), &words).done();
        done.exits(1);
    };
    for options in ["-o out.csv", "-o out.csv --overwrite", "-o - --overwrite"] {
        let before = place.names();
        if options.ends_with("--overwrite") {
            place.write("rejects.csv", "precious");
        }
        in_place("check", options);
        assert_eq!(place.names(), before);
        if options.ends_with("--overwrite") {
            assert_eq!(place.text("rejects.csv"), "precious");
        }
        in_place("run", options);
        assert!(place.text("rejects.csv").starts_with("reject_row,"));
    }
}

#[test]
fn no_name_leads_to_another_file() {
    let place = Place::with("users.csv", USERS);
    for (rejects, words) in [
        ("users.csv", "would overwrite the input"),
        ("rejects.jsonl", "its extension does not match"),
        ("nowhere/rejects.csv", "cannot write"),
    ] {
        let done = place
            .rescore(["check", "users.csv", "--overwrite", "--rejects", rejects])
            .done();
        done.exits(2).says(words);
    }
    assert_eq!(place.names(), ["users.csv"]);
    assert_eq!(place.text("users.csv"), USERS);
}

#[test]
fn an_interrupted_check_leaves_no_file_and_says_so() {
    let place = Place::new();
    for signal in ["INT", "TERM"] {
        let (reading, mut writing) = std::io::pipe().unwrap();
        let program = place.rescore("check --rejects rejects.csv");
        let running = program.stdin_from(Stdio::from(reading)).start();
        // More than a batch, so that rejects are written; the rest never comes.
        let rows: String = (0..2_000).map(|row| format!("{row},,,\n")).collect();
        let rows = format!("Ann,ann@example.com,::1,curl/8\n{rows}");
        writing
            .write_all(format!("name,email,ip,user_agent\n{rows}").as_bytes())
            .unwrap();
        running.wait_for_file("rejects.csv.partial", |rows| rows.len() > 1_000);
        running.signal(signal);
        let done = running.done();
        done.exits(if signal == "INT" { 130 } else { 143 });
        done.check(done.stdout.is_empty(), "no result");
        assert_eq!(place.names(), [""; 0]);
        drop(writing);
    }
}

#[test]
fn an_input_that_breaks_off_leaves_no_rejects() {
    let place = Place::new();
    let rows: String = (0..2_000).map(|row| format!("{row},,,\n")).collect();
    let broken = format!("name,email,ip,user_agent\n{rows}\"never closed");
    place.write("users.csv", broken);
    let words = "check users.csv --rejects rejects.csv";
    let done = place.rescore(words).done();
    done.check(
        done.code() != Some(0) && done.code() != Some(1),
        "a failure",
    );
    assert!(done.stdout.is_empty());
    assert_eq!(place.names(), ["users.csv"]);
}

#[test]
fn a_result_or_a_file_that_cannot_be_written_is_an_error() {
    let place = Place::with("users.csv", USERS);
    let done = place
        .rescore("check users.csv")
        .stdout(device("/dev/full"))
        .done();
    done.exits(3).says("cannot write standard output");
    let (reading, writing) = std::io::pipe().unwrap();
    drop(reading);
    // The reader has gone: nobody misses the result.
    place
        .rescore("check users.csv")
        .stdout(writing)
        .done()
        .exits(1);
    let done = place.rescore("check users.csv --rejects /dev/full").done();
    done.exits(3).says("/dev/full");
}
