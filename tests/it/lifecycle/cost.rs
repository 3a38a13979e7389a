//! What a run costs: never more than its budget.

use std::time::Duration;

use crate::support::process::Place;
use crate::support::server::{Server, good, status};
use crate::support::users;

#[test]
fn max_cost_is_exact_with_many_in_flight_and_with_retries_and_then_the_same_command_continues() {
    let csv = users::csv(100);
    let place = Place::with("users.csv", &csv);
    // Every third call fails and is sent again soon.
    let server = Server::start(|request| {
        let answer = if request.nth % 3 == 0 && request.attempt == 1 {
            status(500)
        } else {
            good(request)
        };
        answer.after(Duration::from_millis(request.nth as u64 % 4))
    });
    // 0.3 for 0.1 each is three calls, which doubles do not know; the rest of a cent buys nothing.
    for (cost, calls) in [("0.3", 3), ("0.299", 2), ("5.09", 50)] {
        let before = server.calls();
        let limits = ["--max-cost", cost, "--price", "0.1", "-c", "64"];
        let done = place.score(&server, limits);
        done.exits(3)
            .says("stopped early (`--max-cost`)")
            .says(&format!("`--max-cost` pays for: {calls}\n"))
            .says("the same command continues from there");
        done.check(
            server.calls() - before == calls,
            "as many calls as are paid for",
        );
    }
    place
        .score(&server, ["--max-cost", "20", "--price", "0.1"])
        .exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn of_two_budgets_the_smaller_one_stops_the_run_and_is_named() {
    let place = Place::with("users.csv", users::csv(9));
    let server = Server::good();
    for (calls, cost, words, reason) in [
        ("2", "0.012", "`--max-calls 2` allows", "max_calls"),
        ("4", "0.012", "`--max-cost` pays for: 3", "max_cost"),
    ] {
        let budgets = ["--max-calls", calls, "--max-cost", cost, "--price", "0.004"];
        let done = place.run(
            &server,
            ["users.csv", "-o", "scored.csv", "--summary", "s.json"],
        );
        done.args(budgets).done().exits(3).says(words);
        let summary: serde_json::Value = serde_json::from_str(&place.text("s.json")).unwrap();
        assert_eq!(summary["stopped"], reason);
    }
    assert_eq!(server.calls(), 5);
}

#[test]
fn a_budget_without_a_price_or_for_less_than_a_call_is_refused_before_the_first_call() {
    let place = Place::with("users.csv", users::csv(9));
    let server = Server::good();
    for (args, words) in [
        (
            &["--max-cost", "5"][..],
            "hint: add it, as in `--price 0.004`",
        ),
        (&["--currency", "EUR"], "--price <AMOUNT>"),
        (&["--price", "0"], "a price is more than 0"),
        (
            &["--price", "0,004"],
            "expected an amount such as `500` or `0.004`",
        ),
        (&["--price", "-1"], "expected an amount such as"),
        (&["--price", "1e-3"], "expected an amount such as"),
        (
            &["--price", "0.004", "--currency", "E\u{1b}[1m"],
            "expected a word such as `EUR`",
        ),
        (
            &[
                "--price",
                "0.004",
                "--currency",
                "EUR",
                "--max-cost",
                "0.003",
            ],
            "`--max-cost` is 0.003 EUR, which is less than the price of a call: 0.004 EUR",
        ),
    ] {
        let run = place.run(&server, ["users.csv", "-o", "scored.csv"]);
        run.args(args).done().exits(2).says(words);
    }
    assert_eq!(server.calls(), 0);
}
