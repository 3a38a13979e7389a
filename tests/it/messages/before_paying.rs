//! What is said before anything is paid for: by a check, and by a run that counts first and then refuses to start.

use std::fmt::Write as _;

use super::{Page, words};
use crate::docs::documents::clone;
use crate::support::process::KEY;
use crate::support::server::Server;
use crate::support::users;

/// Checks in a folder where five users are paid for.
const CHECKS: [&str; 12] = [
    "samples/users.csv",
    "samples/messy.csv --price '0.004 EUR' --ledger new.ledger",
    "odd.csv",
    "odd.csv --null #REF! --limit 7",
    "odd.csv --only name=nobody",
    "users.csv renamed.csv scored.csv a-b.csv",
    "users.csv --min-rows 6",
    "users.csv --min-rows 4 --limit 1",
    "users.csv --fresh --max-calls 2 --price 0.1 --max-cost 1/month",
    "users.csv --service-id other",
    "users.csv --vpn-check --show 1",
    "empty.csv",
];

/// Runs in the same folder that are refused: what the input is by then, and the options.
const RUNS: [(usize, &str); 12] = [
    (5, ""),
    (0, "--overwrite"),
    (0, "--overwrite --min-rows 1"),
    (2, "--overwrite --min-rows 90%"),
    (9, "--overwrite --max-new 20%"),
    (9, "--overwrite --min-rows 11"),
    (9, "--overwrite --max-invalid 0"),
    (9, "--overwrite --max-invalid 9%"),
    (9, "--overwrite --ledger other.ledger"),
    (9, "--ledger other.ledger"),
    (9, "- --min-rows 3"),
    (9, "- --max-invalid 3"),
];

/// Two thousand users, of whom many have something odd.
fn odd_users() -> String {
    let mut rows = "name,email,ip,user_agent\n".to_owned();
    for row in 1..=2_000 {
        let name = match row {
            7 => "#REF!".to_owned(),
            8 => "S\u{fffd}bastien L".to_owned(),
            9 => "J\u{c3}\u{bc}rgen M".to_owned(),
            row => format!("User {row}"),
        };
        let ip = match row % 4 {
            0 => format!("198.51.100.{}", row % 250),
            _ => "10.0.0.7".to_owned(),
        };
        let agent = if row > 1900 { "-" } else { "Mozilla/5.0 (X11)" };
        writeln!(rows, "{name},u{row}@example.com,{ip},{agent}").unwrap();
    }
    rows
}

/// This many users, and one who cannot be sent.
fn input(users: usize) -> String {
    let invalid = if users > 5 {
        "10,,nobody@example.com,::1,u\n"
    } else {
        ""
    };
    users::csv(users) + invalid
}

#[test]
fn a_run_names_its_cost_before_it_starts_and_why_it_does_not_start() {
    let (mut page, server) = (Page::default(), Server::good());
    let place = clone();
    for (name, content) in [
        ("users.csv", users::csv(5)),
        ("renamed.csv", users::csv(6).replace("email", "E-mail")),
        ("a-b.csv", "a,b\n1,2\n".to_owned()),
        ("empty.csv", users::csv(0)),
        ("odd.csv", odd_users()),
    ] {
        place.write(name, content);
    }
    let command = |line: &str| {
        let program = place.rescore(words(line));
        let program = program.env("RESCORE_BASE_URL", server.url());
        let program = program.env("RESCORE_SERVICE_ID", "test");
        program.env("RESCORE_API_KEY", KEY)
    };
    let scored = command("run users.csv -o scored.csv --price 0.004").exits(0);
    page.add("run users.csv -o scored.csv --price 0.004", &scored);
    let names = place.names();
    page.heading("# Checks");
    for check in CHECKS {
        let done = command(&format!("check {check}")).done();
        // Of a person nothing is shown.
        done.silent_about("bastien")
            .silent_about("u7@")
            .silent_about("198.51");
        page.add(check, &done);
    }
    page.heading("# Runs that are refused");
    for (users, options) in RUNS {
        place.write("users.csv", input(users));
        let from = if options.starts_with("- ") {
            "run -o new.csv"
        } else {
            "run users.csv -o scored.csv"
        };
        let run = format!("{from} {options} -q");
        let done = command(&run).stdin(input(users)).exits(2);
        page.add(&format!("{users} users, {options}"), &done);
        assert_eq!(place.text("scored.csv"), users::scored(&users::csv(5)));
    }
    assert_eq!((server.calls(), place.names()), (5, names));
    page.is("before_paying");
}
