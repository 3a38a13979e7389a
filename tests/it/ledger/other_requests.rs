//! A run that continues or retries with options that change what is sent: no paid answer is found, and rows would be paid
//! for again without a warning.

use crate::support::ledger_file;
use crate::support::process::Place;
use crate::support::server::{Request, Server, good, status};
use crate::support::users;

/// A place where 200 users were scored but one, who has no user agent.
fn finished(server: &Server) -> Place {
    let csv = users::csv(200) + "201,User 201,u@example.com,192.0.2.11,\n";
    let place = Place::with("users.csv", csv);
    place.score(server, "").exits(1);
    assert_eq!(server.calls(), 200);
    place
}

#[test]
fn a_retry_that_would_send_all_rows_again_is_refused_before_its_first_call() {
    let server = Server::good();
    let place = finished(&server);
    let before = (place.read("scored.csv"), place.read("scored.csv.ledger"));
    for (option, rows) in [
        ("--set user_agent=unknown", 201),
        ("--vpn-check", 200),
        ("--no-dedupe", 200),
    ] {
        place
            .score(&server, format!("--retry-failed {option}").as_str())
            .exits(2)
            .says(&format!(
                "error: none of the {rows} rows that can be sent has an answer under these settings\n"
            ))
            .says(&format!("but {rows} rows would be sent and paid for; nothing was sent"))
            .says("hint: use the options of the run that is retried")
            .says("`--overwrite` instead of `--retry-failed` sends every row again");
        assert_eq!(server.calls(), 200, "{option}");
    }
    assert!((place.read("scored.csv"), place.read("scored.csv.ledger")) == before);
    // The row is fixed as the refusal says.
    let fixed = place
        .text("users.csv")
        .replace("192.0.2.11,\n", "192.0.2.11,curl\n");
    place.write("users.csv", fixed);
    place.score(&server, "--retry-failed").exits(0);
    assert_eq!(server.calls(), 201);
}

#[test]
fn a_few_rows_that_ask_the_same_by_chance_do_not_let_all_others_pass() {
    let server = Server::good();
    let csv = users::csv(200).replacen("Mozilla/5.0 (X11)", "unknown", 3)
        + "201,User 201,u@example.com,::1,\n";
    let place = Place::with("users.csv", csv);
    place.score(&server, "").exits(1);
    place
        .score(&server, "--retry-failed --set user_agent=unknown")
        .exits(2)
        .says(
            "error: only 3 of the 201 rows that can be sent have an answer under these settings\n",
        )
        .says("198 rows would be sent");
    assert_eq!(server.calls(), 200);
}

#[test]
fn new_rows_in_front_another_order_and_many_failed_rows_are_retried_as_ever() {
    let server = Server::good();
    let place = finished(&server);
    let text = place.text("users.csv");
    let (header, rows) = text.split_once('\n').unwrap();
    let new: String = (301..=450)
        .map(|n| format!("{n},User {n},u{n}@example.com,192.0.2.11,curl\n"))
        .collect();
    let back: Vec<_> = rows.lines().rev().collect();
    place.write("users.csv", format!("{header}\n{new}{}\n", back.join("\n")));
    place.score(&server, "--retry-failed").exits(1);
    assert_eq!(server.calls(), 200 + 150);

    // All of the first 150 fail.
    let number = |request: &Request| request.name().replace("User ", "").parse::<u32>();
    let server = Server::start(move |request| {
        if request.attempt == 1 && number(request).is_ok_and(|number| number <= 150) {
            return status(422);
        }
        good(request)
    });
    let place = Place::with("users.csv", users::csv(200));
    place.score(&server, "--give-up-after never").exits(1);
    place.score(&server, "--retry-failed").exits(0);
    assert_eq!(server.calls(), 200 + 150);
}

#[test]
fn a_retry_with_a_shared_ledger_does_not_pay_for_most_rows_again() {
    let number = |request: &Request| request.name().replace("User ", "").parse::<usize>();
    // Some failed, or most.
    for failed in [2, 15] {
        let server = Server::start(move |request| {
            if request.attempt == 1 && number(request).is_ok_and(|number| number <= failed) {
                return status(422);
            }
            good(request)
        });
        let place = Place::with("users.csv", users::csv(40));
        let run = |more: &str| {
            let options = format!("--ledger paid.ledger --give-up-after never {more}");
            place.score(&server, options.as_str())
        };
        run("").exits(1);
        run("--retry-failed --set ip=::1")
            .exits(2)
            .says("none of the 40 rows that can be sent has an answer under these settings\n")
            .says("but 40 rows would be sent and paid for; nothing was sent");
        assert_eq!(server.calls(), 40);
        // A part of the file is gone, and some rows are new.
        let text = place.text("users.csv");
        let kept: Vec<_> = text.lines().take(1 + 20).collect();
        let new = "41,User 41,u@example.com,::1,curl";
        place.write("users.csv", format!("{}\n{new}\n", kept.join("\n")));
        run("--retry-failed").exits(0);
        assert_eq!(server.calls(), 40 + failed + 1);
    }
}

#[test]
fn a_run_that_continues_and_finds_no_answer_warns() {
    let warning = "warning: the earlier run has 20 answers, but none of the 60 rows that can be sent has an answer \
                   under these settings";
    for option in ["--vpn-check", "--set ip=::1", "--no-dedupe", "--max-age 1m"] {
        let (place, server) = (Place::with("users.csv", users::csv(60)), Server::good());
        place.score(&server, "--limit 20").exits(0);
        let hour = 3_600_000;
        assert_eq!(ledger_file::age(&place.path("scored.csv.ledger"), hour), 20);
        place
            .score(&server, format!("{option} --max-calls 5").as_str())
            .exits(3)
            .says(warning);
        assert_eq!(server.calls(), 25, "{option}");
        place.score(&server, "").exits(0).silent_about("warning");
    }
}
