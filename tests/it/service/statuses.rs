//! Every status from 100 to 599 over a real connection, and what it means for a row or a run.

use std::collections::BTreeMap;

use crate::support::process::Place;
use crate::support::server::{Action, Request, Server, answer, good, good_body, status};
use crate::support::users;

/// What a status means for a row or for the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// A verdict.
    Scored,
    /// The row fails for this reason; the run continues.
    Fails(&'static str),
    /// All calls pause and the row is asked again.
    Waits,
    /// The run stops.
    Stops,
}

fn fate(status: u16) -> Fate {
    match status {
        100..=199 => Fate::Fails("no_answer"),
        204..=206 => Fate::Fails("bad_answer"),
        200..=299 => Fate::Scored,
        300..=399 | 401 | 402 | 404 | 405 | 407 | 410 | 511 => Fate::Stops,
        425 | 429 => Fate::Waits,
        403 => Fate::Fails("forbidden"),
        408 | 500..=599 => Fate::Fails("server_error"),
        400..=499 => Fate::Fails("refused"),
        _ => unreachable!("there are no others"),
    }
}

/// The status that a user named `S404` is answered with.
fn status_of(request: &Request) -> Option<u16> {
    request.name().strip_prefix('S')?.parse().ok()
}

fn play(request: &Request) -> Action {
    match status_of(request) {
        // Nothing follows an interim answer.
        Some(code @ 100..=199) => status(code).then_close(),
        Some(code @ 200..=299) => answer(code, &[], &good_body(&request.name())),
        // A pause of zero seconds: only the retry matters here.
        Some(code @ (425 | 429)) if request.attempt == 1 => {
            answer(code, &[("retry-after", "0")], "")
        }
        Some(425 | 429) | None => good(request),
        Some(code) => status(code),
    }
}

#[test]
fn every_status_that_ends_a_row_ends_only_that_row() {
    let codes: Vec<u16> = (100..=599)
        .filter(|code| fate(*code) != Fate::Stops)
        .collect();
    // Good answers between any two: if half of the answers are bad, the service counts as down.
    let names: Vec<String> = codes
        .iter()
        .flat_map(|code| {
            [
                format!("good {code}"),
                format!("fine {code}"),
                format!("S{code}"),
            ]
        })
        .collect();
    let csv = users::named(&names);
    let (place, server) = (Place::with("users.csv", &csv), Server::start(play));
    let done = place.score(&server, "-c 1 --retries 0");
    done.exits(1);

    let code_of = |name: &str| {
        name.strip_prefix('S')
            .and_then(|code| code.parse::<u16>().ok())
    };
    let fails = |name: &str| code_of(name).is_some_and(|code| matches!(fate(code), Fate::Fails(_)));
    let (output, expected) = (place.text("scored.csv"), users::scored_without(&csv, fails));
    for (line, expected) in output.lines().zip(expected.lines()) {
        assert_eq!(line, expected, "\n{done}");
    }
    assert_eq!(output, expected);

    let rejects = place.text("scored.rejects.csv");
    let mut reasons: BTreeMap<u16, &str> = BTreeMap::new();
    for line in rejects.lines().skip(1) {
        let name = line.split(',').find_map(code_of).unwrap();
        reasons.insert(name, line.split(',').nth(1).unwrap());
    }
    let expected: BTreeMap<u16, &str> = codes
        .iter()
        .filter_map(|code| match fate(*code) {
            Fate::Fails(reason) => Some((*code, reason)),
            _ => None,
        })
        .collect();
    assert_eq!(reasons, expected);

    for code in codes {
        let calls = server
            .requests()
            .iter()
            .filter(|request| status_of(request) == Some(code))
            .count();
        assert_eq!(
            calls,
            if fate(code) == Fate::Waits { 2 } else { 1 },
            "calls for {code}"
        );
    }
}

#[test]
fn every_status_that_stops_the_run_costs_one_call() {
    for code in (100..=599).filter(|code| fate(*code) == Fate::Stops) {
        let place = Place::with("users.csv", users::csv(20));
        let server =
            Server::start(move |_| answer(code, &[("location", "http://127.0.0.1:1/")], ""));
        let done = place.score(&server, "");
        done.exits(4).says(&code.to_string()).says("error: ");
        done.check(server.calls() == 1, "one call");
        assert_eq!(
            place.names(),
            ["rescore.ledger", "users.csv"],
            "nothing was resolved, and only the ledger stays: {done}"
        );
    }
}

#[test]
fn a_status_that_is_retried_is_retried_as_often_as_asked() {
    let names = ["first", "S408", "S500", "S502", "S503", "S504"];
    let csv = users::named(names);
    let (place, server) = (Place::with("users.csv", &csv), Server::start(play));
    place.score(&server, "--retries 1").exits(1);
    assert_eq!(
        place.text("scored.csv"),
        users::scored_without(&csv, |name| name.starts_with('S'))
    );
    for name in names {
        let calls = server
            .requests()
            .iter()
            .filter(|request| request.name() == name)
            .count();
        assert_eq!(calls, if name == "first" { 1 } else { 2 }, "{name}");
    }
}

#[test]
fn interim_answers_before_the_real_one_are_passed_over() {
    let csv = users::csv(2);
    let server = Server::start(|request| {
        crate::support::server::raw(
            "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n",
        )
        .and(good(request))
    });
    let place = Place::with("users.csv", &csv);
    place.score(&server, "").exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn a_success_without_a_body_and_one_without_an_answer_are_named_by_their_status() {
    let said = [
        ("S204", "bad_answer,status 204, without a verdict"),
        ("S205", "bad_answer,status 205, without a verdict"),
        ("S206", "bad_answer,status 206, only a part of an answer"),
        ("S101", "no_answer,status 101, which is not an answer"),
        (
            "S100",
            "no_answer,the connection broke: connection closed before message completed",
        ),
    ];
    // A good one before each.
    let names = said
        .iter()
        .flat_map(|(name, _)| [format!("good {name}"), (*name).to_owned()]);
    let csv = users::named(names);
    let (place, server) = (Place::with("users.csv", &csv), Server::start(play));
    let done = place.score(&server, "-c 1 --resend-unknown 0");
    done.exits(1)
        .says("3 calls got an answer without a verdict and will probably be billed\n")
        .says("2 calls may have been billed without an answer\n");
    assert_eq!(server.calls(), 2 * said.len());
    let rejects = place.text("scored.rejects.csv");
    for ((name, said), line) in said.iter().zip(rejects.lines().skip(1)) {
        let line = line.replace('"', "");
        assert!(
            line.contains(&format!(",{said},")) && line.contains(name),
            "{line}"
        );
    }
}

#[test]
fn each_refusal_of_the_run_says_why_in_the_services_words_and_the_way_out() {
    const ADDRESS: &str = "check the base address";
    const LOGIN: &str = "give it in `HTTP_PROXY`, such as `http://user:password@proxy:3128`";
    const CREDIT: &str = "top it up with the service, then run again";
    for (code, phrase, why, hint) in [
        (
            308,
            "Permanent Redirect",
            "the service redirects to another address; neither key nor data were sent there",
            "check the base address, including `https://` and a missing or extra `/`",
        ),
        (
            401,
            "Unauthorized",
            "the service does not accept the API key",
            "check the key in `RESCORE_API_KEY` or `--api-key-file`, and whether it belongs to this plan",
        ),
        (
            402,
            "Payment Required",
            "the account is out of credit",
            CREDIT,
        ),
        (
            403,
            "Forbidden",
            "`HOST` refuses access",
            "check the API key, the service id and the plan",
        ),
        (
            404,
            "Not Found",
            "the service does not accept requests at this address",
            ADDRESS,
        ),
        (
            405,
            "Method Not Allowed",
            "the service does not accept requests at this address",
            ADDRESS,
        ),
        (
            407,
            "Proxy Authentication Required",
            "the proxy or the network requires a login",
            LOGIN,
        ),
        (
            410,
            "Gone",
            "the service does not accept requests at this address",
            ADDRESS,
        ),
        (
            429,
            "Too Many Requests",
            "the account is out of credit",
            CREDIT,
        ),
        (
            511,
            "Network Authentication Required",
            "the proxy or the network requires a login",
            LOGIN,
        ),
    ] {
        let place = Place::with("users.csv", users::csv(20));
        let body = r#"{"error":{"message":"no more, insufficient_quota"}}"#;
        let server = Server::start(move |_| answer(code, &[], body));
        let done = place.score(&server, "-q");
        done.exits(4);
        let why = why.replace("HOST", server.url().trim_start_matches("http://"));
        let said = format!(
            "error: {why}\n  the service said: {code} {phrase}: `no more, insufficient_quota`\n\nhint: {hint}\n"
        );
        done.check(done.stderr == said, &said);
        assert_eq!(server.calls(), 1);
        assert_eq!(place.names(), ["rescore.ledger", "users.csv"]);
    }
}
