//! The same command continues: a row is recognised by its request, wherever it is in the file and however the file was
//! edited, and every other row is sent.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;

use crate::support::process::Place;
use crate::support::server::{Request, Server, answer, good, status};
use crate::support::users;

/// A run of `users.csv` that stopped after so many calls.
pub(super) fn stopped(place: &Place, server: &Server, calls: usize) {
    let before = server.calls();
    let done = place.score(server, ["--max-calls", &calls.to_string()]);
    done.exits(5);
    assert_eq!(server.calls(), before + calls);
}

pub(super) fn rows(csv: &str) -> Vec<&str> {
    csv.lines().skip(1).collect()
}

pub(super) fn file<'a>(rows: impl IntoIterator<Item = &'a str>) -> String {
    let header = "id,name,email,ip,user_agent\n".to_owned();
    rows.into_iter().fold(header, |file, row| file + row + "\n")
}

#[test]
fn an_input_that_was_sorted_extended_or_edited_costs_only_what_is_new() {
    let csv = users::csv(20);
    let sorted = file(rows(&csv).into_iter().rev());
    let extended = file(rows(&users::csv(25)));
    let shortened = file(rows(&csv).into_iter().skip(3).take(5));
    let edited = csv
        .replace("User 3,", "User Three,")
        .replace("\n5,", "\nfive,");
    // The id is not sent: a row is recognised without it.
    for (changed, new) in [(sorted, 0), (extended, 5), (shortened, 0), (edited, 1)] {
        for option in ["--retry-failed", "--overwrite"] {
            let (place, server) = (Place::with("users.csv", &csv), Server::good());
            place.write("users.csv", csv.clone() + "9,,x@example.com,192.0.2.1,u\n");
            place.score(&server, "").exits(1);
            assert_eq!(server.calls(), 20);
            place.write("users.csv", &changed);
            place.score(&server, option).exits(0);
            assert_eq!(server.calls(), 20 + new);
            assert_eq!(place.text("scored.csv"), users::scored(&changed));
            assert_eq!(place.names(), ["rescore.ledger", "scored.csv", "users.csv"]);
        }
    }
}

#[test]
fn other_thresholds_cost_no_call() {
    let csv = users::csv(12);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    stopped(&place, &server, 7);
    let run = |args: &str| {
        place.score(&server, args).exits(0);
        assert_eq!(server.calls(), 12);
        place.text("scored.csv")
    };
    let scored = users::scored(&csv);
    let approved = scored.replace(",review\n", ",approve\n");
    let approved = approved.replace(",block\n", ",approve\n");
    assert_eq!(run("--approve-max 10 --review-max 10"), approved);
    let reviewed = scored.replace(",block\n", ",review\n");
    assert_eq!(run("--review-max 10 --overwrite"), reviewed);
}

#[test]
fn failed_rows_alone_are_asked_again_and_put_in_their_place() {
    let csv = users::csv(10);
    let odd = |name: &str| ["User 3", "User 7"].contains(&name);
    let place = Place::with("users.csv", &csv);
    let server = Server::start(move |request| {
        if odd(&request.name()) && request.attempt == 1 {
            return status(422);
        }
        good(request)
    });
    place.score(&server, "").exits(1).says("--retry-failed");
    assert_eq!(place.text("scored.csv"), users::scored_without(&csv, odd));
    assert_eq!(
        place.names(),
        [
            "rescore.ledger",
            "scored.csv",
            "scored.rejects.csv",
            "users.csv"
        ]
    );
    place.score(&server, "--retry-failed").exits(0);
    let again: Vec<_> = server.requests()[10..].iter().map(Request::name).collect();
    assert_eq!(again.len(), 2);
    assert!(again.iter().all(|name| odd(name)), "{again:?}");
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    assert_eq!(place.names(), ["rescore.ledger", "scored.csv", "users.csv"]);
}

#[test]
fn a_row_equal_to_one_that_is_out_waits_for_its_answer() {
    let (server, release) = Server::holding_if(|request| request.name() == "A");
    let row = |id: usize, name: &str| format!("{id},{name},{name}@example.com,192.0.2.1,u");
    let names = ["B", "A", "A", "C", "A", "D"];
    let rows: Vec<_> = (1..).zip(names).map(|(id, name)| row(id, name)).collect();
    let csv = file(rows.iter().map(String::as_str));
    let place = Place::with("users.csv", &csv);
    let running = place.scoring(&server).start();
    server.wait_for_calls(4);
    drop(release);
    running
        .done()
        .exits(0)
        .says("2 rows reused the answer of an identical row");
    assert_eq!(server.calls(), 4);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn a_row_equal_to_one_that_this_run_has_paid_for_is_no_earlier_runs() {
    let (place, server) = (Place::with("users.csv", users::csv(1)), Server::good());
    let shared = "--ledger answers.ledger";
    place.score(&server, shared).exits(0);
    let (reader, mut writer) = std::io::pipe().unwrap();
    let running = { place.run(&server, "- -o more.csv") }
        .args(shared)
        .stdin_from(reader)
        .start();
    let row = "7,New,new@example.com,192.0.2.7,u";
    writer.write_all(file([row]).as_bytes()).unwrap();
    running.wait_for_file("more.csv.partial", |rows| {
        rows.windows(3).any(|it| it == b"New")
    });
    writer.write_all(format!("{row}\n").as_bytes()).unwrap();
    drop(writer);
    running
        .done()
        .exits(0)
        .says("1 row reused the answer of an identical row")
        .silent_about("from the ledger");
    assert_eq!(server.calls(), 2);
}

#[test]
fn an_output_on_a_link_has_its_ledger_beside_the_real_file() {
    let csv = users::csv(6);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    fs::create_dir(place.path("real")).unwrap();
    symlink("real/target.csv", place.path("link.csv")).unwrap();
    let run = || place.run(&server, "users.csv -o link.csv");
    run().args("--max-calls 4").done().exits(5);
    assert!(place.path("real/rescore.ledger").exists());
    assert!(!place.path("rescore.ledger").exists());
    // Under its real name it is the same output.
    let real = place.run(&server, "users.csv -o real/target.csv").done();
    real.exits(0);
    assert_eq!(server.calls(), 6);
    assert_eq!(place.text("link.csv"), users::scored(&csv));
    assert_eq!(fs::read_dir(place.path("real")).unwrap().count(), 2);
}

#[test]
fn a_row_refused_for_good_by_a_pause_is_left_and_asked_by_the_next_run() {
    let csv = users::csv(8);
    let place = Place::with("users.csv", &csv);
    let server = Server::start(|request| match request.nth {
        5 => answer(429, &[("retry-after", "3600")], ""),
        _ => good(request),
    });
    place.score(&server, "-c 1").exits(3);
    place.score(&server, "").exits(0);
    assert_eq!(server.calls(), 5 + 4);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn a_mistyped_command_in_between_costs_no_paid_answer() {
    let csv = users::csv(40);
    let (place, server, refuses) = (
        Place::with("users.csv", &csv),
        Server::good(),
        Server::start(|_| status(401)),
    );
    stopped(&place, &server, 30);
    // First an address that refuses everything, then another file with the same output.
    place.score(&refuses, "--overwrite").exits(4);
    place.write("other.csv", users::named(["Somebody Else"]));
    let other = place.run(&server, "other.csv -o scored.csv --overwrite");
    other.done().exits(0);
    assert_eq!(server.calls(), 31);
    // Now the output belongs to another input.
    for option in ["", "--retry-failed"] {
        place.score(&server, option).exits(2);
    }
    place.score(&server, "--overwrite").exits(0);
    assert_eq!(server.calls(), 41);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn rows_that_were_paid_for_are_not_replaced_by_a_run_whose_ledger_does_not_have_them() {
    let csv = users::csv(9);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    stopped(&place, &server, 4);
    let partial = place.read("scored.csv.partial");
    for option in ["--ledger new.ledger", "--no-ledger"] {
        place.score(&server, option).exits(2).says("is in the way");
    }
    assert!(place.read("scored.csv.partial") == partial);
    place.score(&server, "").exits(0);
    assert_eq!(server.calls(), 9);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}
