//! What a run costs: it says what was spent and saved, and never costs more than its budget.

use std::time::Duration;

use crate::support::process::Place;
use crate::support::server::{Server, good, ok, raw, status};
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
    // The budget is for all starts together.
    for (cost, pays_for, calls) in [("0.3", 3, 3), ("0.299", 2, 3), ("5.09", 50, 50)] {
        let limits = ["--max-cost", cost, "--price", "0.1", "-c", "64"];
        let done = place.score(&server, limits);
        done.exits(5)
            .says("stopped early (`--max-cost` is reached)")
            .says(&format!("`--max-cost` pays for: {pays_for}\n"))
            .says("the same command continues from there");
        done.check(server.calls() == calls, "as many calls as are paid for");
    }
    place.score(&server, "--max-cost 20 --price 0.1").exits(0);
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
        let done = place.run(&server, "users.csv -o scored.csv --summary s.json");
        done.args(budgets).done().exits(5).says(words);
        let summary = place.json("s.json");
        assert_eq!(summary["stopped"], reason);
    }
    assert_eq!(server.calls(), 3);
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
        (&["--price", "0"], "a price is more than 0"),
        (
            &["--price", "0,004"],
            "expected a price such as `0.004` or `0.004 EUR`",
        ),
        (&["--price", "-1"], "expected a price such as"),
        (&["--price", "1e-3"], "expected a price such as"),
        (&["--price", "0.004 E\u{1b}[1m"], "expected a price such as"),
        (
            &["--price", "0.004 EUR", "--max-cost", "0.003"],
            "`--max-cost` is 0.003 EUR, which is less than the price of a call: 0.004 EUR",
        ),
    ] {
        place.score(&server, args).exits(2).says(words);
    }
    assert_eq!(server.calls(), 0);
}

#[test]
fn what_was_spent_saved_and_perhaps_billed_is_told_apart() {
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
    let args = "--price 0.004EUR --summary s.json";
    let score = || {
        let run = place.run(&server, "users.csv -o scored.csv --progress plain");
        run.args(args)
    };
    score().done().exits(1).says(
        "spent 0.044 EUR: 11 answers at 0.004 EUR; at most 0.052 EUR, with 2 calls that may have been billed\n",
    ).says("saved 0.008 EUR: 2 rows repeated another one\n");
    assert_eq!(server.calls(), 13);
    let cost = || {
        let summary = place.json("s.json");
        summary["cost"].to_string()
    };
    let expected = r#"{"price":0.004,"currency":"EUR","spent":0.044,"spent_at_most":0.052,"all_starts_at_most":0.052,"paid_earlier":0.0,"saved":0.008}"#;
    assert_eq!(cost(), expected);
    // What is known now costs nothing: only the two rows without a verdict are sent again.
    let retried = score().args("--retry-failed --overwrite").done();
    retried
        .exits(1)
        .says("spent 0.004 EUR: 1 answer at 0.004 EUR; at most 0.012 EUR, with 2 calls")
        .says("paid for earlier 0.048 EUR: 12 rows");
}

#[test]
fn every_kind_of_progress_shows_what_was_spent_and_a_sandbox_only_would_have() {
    let place = Place::with("users.csv", users::csv(20));
    let run = |args: &[&str]| {
        place
            .rescore("run users.csv --sandbox --no-ledger --rate 4/s --price 1")
            .args(args)
            .done()
    };
    let plain = run(&["--progress", "plain"]);
    plain
        .exits(0)
        .says("; would have spent ")
        .says("would have spent 20.00: 20 answers at 1.00\n");
    let json = run(&["--progress", "json"]);
    json.exits(0);
    let lines = json
        .stderr
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let amounts: Vec<f64> = lines
        .filter(|line: &serde_json::Value| line["type"] == "progress")
        .map(|line| {
            let cost = &line["cost"];
            assert!(cost["spent_at_most"].as_f64() >= cost["spent"].as_f64());
            cost["spent"].as_f64().unwrap()
        })
        .collect();
    assert!(
        amounts.iter().any(|spent| (1.0..20.0).contains(spent)),
        "{amounts:?}"
    );
}
