//! Rows that are sent again although they were answered: a different request, an answer too old, a run that starts over.

use super::resume::stopped;
use crate::support::ledger_file;
use crate::support::process::{Place, Program};
use crate::support::server::{Server, ok};
use crate::support::users;

#[test]
fn a_different_request_account_or_address_is_asked_again() {
    let csv = users::csv(6);
    for args in [
        &["--advanced"][..],
        &["--vpn-check"],
        &["--service-id", "another"],
        &["--set", "phone=+4915112345678"],
    ] {
        let (place, server) = (Place::with("users.csv", &csv), Server::good());
        stopped(&place, &server, 4);
        let other = args.iter().fold(
            place.rescore(["run", "--base-url", &server.url(), "--rate", "unlimited"]),
            Program::arg,
        );
        let is_other_account = args[0] == "--service-id";
        let other = if is_other_account {
            other
        } else {
            other.args("--service-id test")
        };
        let other = other.env("RESCORE_API_KEY", "test-key");
        let other = other.args("users.csv -o scored.csv").done();
        other.exits(0).silent_about("taken from the ledger");
        assert_eq!(server.calls(), 4 + 6, "{args:?}");
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
        let stays = place.path("scored.csv.ledger").exists();
        assert_eq!(stays, is_other_account, "{args:?}");
    }
    let (place, server, elsewhere) = (
        Place::with("users.csv", &csv),
        Server::good(),
        Server::good(),
    );
    stopped(&place, &server, 4);
    place.score(&elsewhere, "").exits(0);
    assert_eq!((server.calls(), elsewhere.calls()), (4, 6));
}

#[test]
fn another_account_or_address_keeps_the_answers_of_the_first() {
    let csv = users::csv(6);
    let (place, server, elsewhere) = (
        Place::with("users.csv", &csv),
        Server::good(),
        Server::good(),
    );
    stopped(&place, &server, 4);
    stopped(&place, &elsewhere, 2);
    place
        .score(&server, "")
        .exits(0)
        .says("4 answers are paid for");
    assert_eq!((server.calls(), elsewhere.calls()), (6, 2));
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn starting_over_says_what_it_throws_away() {
    let csv = users::csv(9);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    stopped(&place, &server, 4);
    place
        .score(&server, "--fresh")
        .exits(0)
        .says("warning: starting over: the 4 paid answers of the run of ")
        .says("are discarded")
        .silent_about("continuing");
    assert_eq!(server.calls(), 4 + 9);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    assert_eq!(place.names(), ["scored.csv", "users.csv"]);
}

#[test]
fn on_a_shared_ledger_fresh_asks_all_and_the_new_answers_take_the_old_ones_place() {
    let csv = users::csv(5);
    let place = Place::with("users.csv", &csv);
    let server = Server::start(|request| {
        let body = format!(
            r#"{{"transaction_id":"t-{}","summary":{{"risk_score":1}}}}"#,
            request.nth
        );
        ok(&body)
    });
    let run = |more: &[&str]| {
        let args = "users.csv -o scored.csv -c 1 --overwrite";
        let program = place.run(&server, args).args("--ledger answers.ledger");
        let program = program.args(more);
        program.done().exits(0);
        (server.calls(), place.text("scored.csv").contains(",t-6,"))
    };
    assert_eq!(run(&[]), (5, false));
    assert_eq!(run(&["--fresh"]), (10, true));
    assert_eq!(run(&[]), (10, true));
}

#[test]
fn answers_that_are_too_old_are_asked_for_again() {
    let csv = users::csv(5);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    let run = |age| {
        let args = [
            "--ledger",
            "answers.ledger",
            "--overwrite",
            "--max-age",
            age,
        ];
        place.score(&server, args).exits(0);
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
        server.calls()
    };
    assert_eq!((run("1d"), run("1d")), (5, 5));
    assert_eq!(
        ledger_file::age(&place.path("answers.ledger"), 2 * 86_400_000),
        5
    );
    assert_eq!((run("3d"), run("1d"), run("1d")), (5, 10, 10));
}

#[test]
fn further_fields_are_kept_too_and_asked_for_where_they_were_not() {
    let csv = users::csv(6);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    let column = ["--column", "label=/summary/verify_label"];
    place
        .score(&server, ["--max-calls", "3", column[0], column[1]])
        .exits(3);
    place.score(&server, column).exits(0);
    assert_eq!(server.calls(), 6);
    let whole = place.text("scored.csv");
    assert_eq!(whole.matches(",Legit\n").count(), 6, "{whole}");

    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    stopped(&place, &server, 3);
    place.score(&server, column).exits(0);
    assert_eq!((server.calls(), place.text("scored.csv")), (3 + 6, whole));
}

#[test]
fn answers_that_lack_a_field_are_announced_before_they_are_paid_for_again() {
    let level = ["--decide-by", "level=/level", "--block-levels", "1"];
    let server =
        Server::start(|_| ok(r#"{"summary":{"risk_score":1},"transaction_id":"t","level":1}"#));
    for shared in [&[][..], &["--ledger", "shared.ledger"]] {
        let place = Place::with("users.csv", users::csv(20));
        let run = || {
            let run = place.run(&server, "users.csv -o scored.csv -q -c 1");
            run.args(shared)
        };
        let done = run().args("--max-calls 7").done();
        done.exits(3).silent_about("lack");
        let before = server.calls();
        let done = run().args(level).args("--max-calls 4").done();
        done.exits(3).says(
            "warning: 7 answers in the ledger lack `/level`, which this run needs: rows with such an answer are sent again, and paid for",
        );
        assert_eq!(server.calls() - before, 4);
        let other = ["--column", "other=/other"];
        let done = run().args(level).args(other).args("--max-calls 1").done();
        done.exits(3)
            .says("warning: 7 answers in the ledger lack `/other`, `/level`, which this run needs");
        let done = run().args(level).done();
        done.exits(0)
            .says("warning: 3 answers in the ledger lack `/level`");
        assert_eq!(server.calls() - before, 21, "one more for `/other`");
        // A run that uses no earlier answer loses none.
        if !shared.is_empty() {
            let new = run().args("--column new=/new --fresh --overwrite");
            new.done().exits(0).silent_about("lack");
        }
    }
}
