//! A ledger with answers of another address or service id: they are named, kept, and never used.

use super::resume::stopped;
use crate::support::process::{KEY, Place};
use crate::support::server::{Server, status};
use crate::support::users;

#[test]
fn a_run_of_another_account_leaves_what_is_paid_for_and_not_what_the_stand_in_answered() {
    let csv = users::csv(9);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    stopped(&place, &server, 4);
    let other = place.run_at(format!("{}/v2", server.url())).done();
    other
        .exits(0)
        .says("scored.csv.ledger has 9 paid answers, also for other rows or another account");
    place
        .score(&server, "--retry-failed")
        .exits(0)
        .says("4 rows already paid for, taken from the ledger");
    assert_eq!(server.calls(), 4 + 9 + 5);

    let place = Place::with("users.csv", &csv);
    let sandbox = place.rescore("run users.csv -o scored.csv --sandbox --limit 4");
    sandbox.done().exits(0);
    place.score(&server, "").exits(0);
    assert_eq!(place.names(), ["scored.csv", "users.csv"]);
}

#[test]
fn another_address_or_service_id_gives_a_warning_before_rows_are_paid_for_again() {
    const NONE: &str =
        ".ledger` has no answers of this address and service id, only of others at http://";
    let server = Server::good();
    let (url, other_url) = (server.url(), format!("{}/v2", server.url()));
    for (ledger, output) in [("", "scored.csv"), ("--ledger shared.ledger", "again.csv")] {
        for (other_url, other_id) in [(&other_url, "test"), (&url, "another")] {
            let place = Place::with("users.csv", users::csv(9));
            let run = |output, url: &str, id, more| {
                let options = ["-o", output, "--base-url", url, "--service-id", id];
                let run = place.rescore("run users.csv").args(options).args(ledger);
                run.args(more).env("RESCORE_API_KEY", KEY).done()
            };
            let first = run("scored.csv", &url, "test", "--max-calls 4");
            first.exits(3).silent_about(NONE);
            let second = run(output, other_url, other_id, "--max-calls 2");
            second.exits(3).says("warning: `").says(NONE);
            let third = run(output, other_url, other_id, "");
            third.exits(0).silent_about(NONE);
        }
    }
}

#[test]
fn an_address_without_an_answer_is_not_named_among_those_that_have_some() {
    let place = Place::with("users.csv", users::csv(3));
    let (refusing, first, second) = (
        Server::start(|_| status(401)),
        Server::good(),
        Server::good(),
    );
    let score = |server: &Server, output| {
        let options = ["-o", output, "--ledger", "shared.ledger"];
        let done = place.run(server, "users.csv").args(options).done();
        done.silent_about(&refusing.url());
        done
    };
    let run = place.run(&refusing, "users.csv -o a.csv --ledger shared.ledger");
    run.done().exits(4);
    score(&first, "b.csv").exits(0);
    let checked = place
        .rescore("check users.csv --ledger shared.ledger")
        .done();
    // Only one account has answers, so that none need be named.
    checked.exits(0).silent_about(&refusing.url());
    let options = [
        "--base-url",
        "https://other.example.com",
        "--service-id",
        "test",
    ];
    let checked = place
        .rescore("check users.csv --ledger shared.ledger")
        .args(options);
    let checked = checked.done();
    checked
        .exits(0)
        .says(&first.url())
        .silent_about(&refusing.url());
    let done = score(&second, "c.csv");
    done.exits(0).says("only of others at").says(&first.url());
}
