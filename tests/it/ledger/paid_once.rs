//! What is paid for is not paid for again, whatever is asked of it next; and only who has a request can read its answer.

use serde_json::Value;

use super::resume::{file, rows};
use crate::support::process::{KEY, Place};
use crate::support::server::{Request, Server, good, good_body, ok, status};
use crate::support::users;

#[test]
fn whatever_is_asked_next_of_rows_that_are_paid_for_costs_no_call() {
    let csv = users::csv(40);
    let part = file(rows(&csv).into_iter().skip(10).take(20));
    let place = Place::with("users.csv", &csv);
    place.write("part.csv", &part);
    let server = Server::good();
    place.score(&server, "").exits(0);
    std::fs::copy(place.path("rescore.ledger"), place.path("copy.ledger")).unwrap();
    let shared = "--overwrite --output-dir dir --ledger copy.ledger";
    for (line, code) in [
        ("users.csv -o scored.csv", 2),
        // A file for one country, a sample, and back.
        ("part.csv -o part-scored.csv", 0),
        ("users.csv -o scored.csv --overwrite --limit 5", 0),
        ("users.csv -o scored.csv --overwrite --sample 20%", 0),
        ("users.csv -o scored.csv --overwrite", 0),
        ("users.csv -o scored.csv --overwrite --retry-failed", 0),
        ("users.csv -o scored.csv --overwrite --max-age 1d", 0),
        // Another field, guessed three times.
        ("users.csv -o 1.csv --column level=/risk_level", 0),
        ("users.csv -o 2.csv --column level=/summary/level", 0),
        ("users.csv -o 3.csv --column level=/summary/risk_level/0", 0),
        ("users.csv -o 4.csv --column level=/summary/risk_level", 0),
        ("users.csv -o 5.csv --column answer=", 0),
        (
            "users.csv -o 6.csv --decide-by level=/summary/risk_level --block-levels 0",
            0,
        ),
        // To a stream, and with the ledger as it was copied.
        ("users.csv", 0),
        (&format!("users.csv part.csv {shared}"), 0),
        ("users.csv -o scored.csv.gz --ledger copy.ledger", 0),
    ] {
        let done = place.run(&server, line).done();
        done.exits(code);
        assert_eq!(server.calls(), 40, "{line}\n{done}");
        if line == "users.csv" {
            assert_eq!(done.stdout, users::scored(&csv).into_bytes());
        }
    }
    for name in ["scored.csv", "dir/users.csv"] {
        assert_eq!(place.text(name), users::scored(&csv));
    }
    for name in ["part-scored.csv", "dir/part.csv"] {
        assert_eq!(place.text(name), users::scored(&part));
    }
    for row in rows(&place.text("4.csv")) {
        assert!(row.ends_with(",0"), "{row}");
    }
    for row in rows(&place.text("6.csv")) {
        assert!(row.contains(",block"), "{row}");
    }
}

#[test]
fn a_part_of_the_rows_is_paid_for_when_the_rest_follows() {
    let csv = users::csv(40);
    for options in ["--limit 10", "--sample 30%", "--limit 10 --sample 50%"] {
        let (place, server) = (Place::with("users.csv", &csv), Server::good());
        place.score(&server, options).exits(0);
        assert!(server.calls() < 40, "{options}");
        place.score(&server, "").exits(0);
        assert_eq!(server.calls(), 40, "{options}");
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
    }
}

#[test]
fn the_whole_answer_is_kept_and_appended_on_one_line() {
    let place = Place::with("users.csv", users::csv(3));
    let server = Server::start(|request: &Request| {
        ok(&good_body(&request.name())
            .replace(',', ",\r\n\t")
            .replace(":[]", ": [\n1.50, \"\\n\" ]"))
    });
    place.score(&server, "").exits(0);
    let more = ["--column", "answer=", "--overwrite"];
    place.score(&server, more).exits(0);
    assert_eq!(server.calls(), 3);
    let scored = place.text("scored.csv");
    assert_eq!(scored.lines().count(), 4, "{scored}");
    let mut reader = csv::Reader::from_reader(scored.as_bytes());
    for (user, row) in (1..).zip(reader.records()) {
        let row = row.unwrap();
        let whole: Value = serde_json::from_str(&row[row.len() - 1]).unwrap();
        let body = good_body(&format!("User {user}")).replace(":[]", ":[1.50,\"\\n\"]");
        assert_eq!(whole, serde_json::from_str::<Value>(&body).unwrap());
    }
}

#[test]
fn a_mistyped_ledger_is_said_before_the_first_call() {
    let (server, release) = Server::holding_if(|request| request.nth > 9);
    let place = Place::with("users.csv", users::csv(9));
    place.score(&server, "").exits(0);
    for (option, said) in [
        ("--ledger rescroe.ledger", "a new ledger, `rescroe.ledger`"),
        (
            "--vpn-check",
            "the ledger `rescore.ledger` has 9 answers for this run",
        ),
    ] {
        let args = format!("--overwrite {option}");
        let running = place.scoring(&server).args(&*args).start();
        running.wait_for_words(said);
        running.kill_when(|| true);
    }
    drop(release);
}

#[test]
fn nothing_about_people_nor_a_word_of_the_service_can_be_read_in_a_ledger() {
    let server = Server::start(|request: &Request| match &*request.name() {
        "User 7" => status(422),
        "User 30" if request.attempt == 1 => {
            good(request).after(std::time::Duration::from_secs(30))
        }
        _ => good(request),
    });
    let place = Place::with("users.csv", users::csv(30));
    let run = |output: &str| {
        let program = place.rescore("run users.csv --service-id hush-hush -o");
        let program = program.args([output, "--base-url", &server.url()]);
        program.env("RESCORE_API_KEY", KEY)
    };
    let clear = [
        "User ",
        "user1@",
        "example.com",
        "192.0.2",
        "Mozilla",
        "Legit",
        "risk_",
        "transaction",
        "t-",
        "server's own",
        "refused",
        "hush",
        "test-key",
        "users.csv",
        "scored",
    ];
    let look = |files: &[&str]| {
        for file in files {
            let bytes = place.read(file);
            for words in clear {
                let words = words.as_bytes();
                // Two random bytes are there by chance.
                let found = bytes.windows(words.len()).any(|part| part == words);
                assert!(
                    !found || words.len() < 4,
                    "{file}: {}",
                    words.escape_ascii()
                );
            }
        }
    };
    let running = run("scored.csv").start();
    server.wait_for_calls(30);
    running.wait_for_file("scored.csv.partial", |rows| {
        rows.split(|it| *it == b'\n').count() > 29
    });
    running.kill_when(|| true);
    look(&["rescore.ledger", "rescore.ledger-wal"]);
    run("scored.csv").done().exits(1);
    look(&["rescore.ledger"]);
}
