//! The cost: what was spent now and what the verdicts of the file cost, exact through kills and changes of the price.

use crate::support::process::Place;
use crate::support::server::{Server, good, ok, raw};
use crate::support::users;

#[test]
fn what_was_spent_now_and_what_the_verdicts_cost_are_two_numbers() {
    // Ten users and two of them again, one who never gets an answer, one whose answer has no verdict.
    let csv = users::csv(10)
        + "1,User 1,user1@example.com,192.0.2.1,Mozilla/5.0 (X11)\n"
        + "2,User 2,user2@example.com,192.0.2.2,Mozilla/5.0 (X11)\n"
        + "8,lost,a@example.com,192.0.2.1,u\n9,useless,a@example.com,192.0.2.1,u\n";
    let place = Place::with("users.csv", &csv);
    let server = Server::start(|request| match request.name().as_str() {
        "lost" => raw("").then_reset(),
        "useless" => ok("{}"),
        _ => good(request),
    });
    let args = "--progress plain --price 0.004EUR --summary s.json";
    let score = || place.scoring(&server).args(args);
    let done = score().exits(1);
    done.says(" 0.044 EUR for 11 answers now; the 12 verdicts in this file cost 0.04 EUR\n");
    assert_eq!(server.calls(), 13);
    let expected = r#"{"price":0.004,"currency":"EUR","spent":0.044,"verdicts":0.04,"unpriced":0}"#;
    assert_eq!(place.json("s.json")["cost"].to_string(), expected);
    // What is known now costs nothing: only the two rows without a verdict are sent again.
    let retried = score().args("--retry-failed --overwrite").exits(1);
    retried.says(" 0.004 EUR for 1 answer now; the 12 verdicts in this file cost 0.04 EUR\n");
    // A sandbox only would have spent something.
    let sandbox = place.rescore("run users.csv --sandbox --no-ledger --price 1");
    let sandbox = sandbox.done();
    sandbox.says("12.00 would have been spent for 12 answers now\n");
}

#[test]
fn the_verdicts_cost_what_their_answers_did_whichever_start_or_run_asked_and_whatever_it_paid() {
    // Every user twice.
    let csv = users::csv(90);
    let rows = csv.split_once('\n').unwrap().1;
    let place = Place::with("users.csv", csv.clone() + rows);
    let server = Server::good();
    let start = |args: &str| {
        place
            .scoring(&server)
            .args("--summary s.json -c 4")
            .args(args)
    };
    let cost = || place.json("s.json")["cost"].clone();
    for kill in 1..=2 {
        let until = 30 * kill;
        let running = start("--price 0.5").start();
        running.kill_when(|| server.calls() >= until);
    }
    start("--price 0.5").exits(0);
    // Of a user whose answer a kill lost, there are two.
    let lost = server.calls() - 90;
    assert!(lost <= 2 * 2 * 4, "{lost}");
    assert_eq!(
        (cost()["verdicts"].as_f64(), cost()["unpriced"].as_u64()),
        (Some(45.0), Some(0))
    );
    // Ten more users, half of them at another price, and half at none.
    let more = |users| users::csv(users).split_once('\n').unwrap().1.to_owned();
    for (users, price, verdicts, unpriced) in [
        (95, "--price 2", 55.0, 0),
        (100, "", 55.0, 0),
        (100, "--price 0.01", 55.0, 5),
    ] {
        place.write("users.csv", csv.clone() + rows + &more(users));
        let done = start(price).args("--overwrite").exits(0);
        if price.is_empty() {
            assert!(cost().is_null());
            continue;
        }
        assert_eq!(
            (cost()["verdicts"].as_f64(), cost()["unpriced"].as_u64()),
            (Some(verdicts), Some(unpriced)),
            "{done}"
        );
    }
    assert_eq!(server.calls(), 100 + lost);
}
