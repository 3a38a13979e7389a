//! Thresholds: which score gets which decision.

use crate::support::command_line::CommandLine;
use crate::support::process::Place;
use crate::support::server::{Action, Request, Server, ok};
use crate::support::users;

/// The last cell of every row.
fn decisions(scored: &str) -> Vec<&str> {
    scored
        .lines()
        .skip(1)
        .map(|line| line.rsplit(',').next().unwrap())
        .collect()
}

/// A verdict whose score is the user's name.
fn score_as_named(request: &Request) -> Action {
    let score = request.name();
    ok(&format!(
        r#"{{"summary":{{"risk_score":{score}}},"transaction_id":"t"}}"#
    ))
}

#[test]
fn thresholds_are_the_highest_scores_of_their_decision() {
    /// Arguments, then scores with their decisions.
    type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)]);
    let server = Server::start(score_as_named);
    let cases: [Case<'_>; 5] = [
        (
            &[],
            &[
                ("-1", "approve"),
                ("2", "approve"),
                ("2.000", "approve"),
                ("2.0001", "review"),
                ("5", "review"),
                ("5.01", "block"),
                ("1e1", "block"),
            ],
        ),
        (
            &["--approve-max", "3.5"],
            &[("3.5", "approve"), ("3.51", "review"), ("5.0", "review")],
        ),
        (
            &["--approve-max", "0.3", "--review-max", "8.25"],
            &[
                ("0.3", "approve"),
                ("0.31", "review"),
                ("8.25", "review"),
                ("8.26", "block"),
            ],
        ),
        (
            &["--approve-max", "4", "--review-max", "4"],
            &[("4.0", "approve"), ("4.01", "block")],
        ),
        (
            &["--approve-max", "-1", "--review-max", "0"],
            &[("-1.0", "approve"), ("0.0", "review"), ("0.1", "block")],
        ),
    ];
    for (arguments, expected) in cases {
        let csv = users::named(expected.iter().map(|(score, _)| score));
        let place = Place::with("users.csv", csv);
        let done = place.score(&server, arguments);
        done.exits(0);
        let wanted: Vec<_> = expected.iter().map(|(_, decision)| *decision).collect();
        let scored = place.text("scored.csv");
        assert_eq!(decisions(&scored), wanted, "{arguments:?}\n{scored}");
    }
}

#[test]
fn a_score_is_compared_by_its_value_in_every_notation() {
    let server = Server::start(score_as_named);
    let expected = [
        ("1.99999999999999", "approve"),
        ("2.00000000000001", "review"),
        ("20e-1", "approve"),
        ("0.20000000000000000000E1", "approve"),
        ("5.0000000000000000000", "review"),
        ("5.00000000000001", "block"),
    ];
    let csv = users::named(expected.iter().map(|(score, _)| score));
    let place = Place::with("users.csv", csv);
    place.score(&server, "").exits(0);
    let wanted = expected.map(|(_, decision)| decision);
    assert_eq!(decisions(&place.text("scored.csv")), wanted);
}

#[test]
fn thresholds_out_of_order_or_no_numbers_are_refused() {
    let line = CommandLine::new();
    line.refuses_typed(
        "--approve-max 6",
        &["`--approve-max 6` is above `--review-max 5`"],
    );
    line.refuses_typed(
        "--review-max 1.5",
        &["`--approve-max 2` is above `--review-max 1.5`"],
    );
    for flag in ["--approve-max", "--review-max"] {
        for text in ["NaN", "inf", "low", ""] {
            line.refuses_typed([flag, text], &[flag]);
        }
    }
}
