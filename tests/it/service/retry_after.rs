//! `Retry-After` in every form, and by the server's own clock.

use std::thread;
use std::time::{Duration, SystemTime};

use crate::support::process::{Done, Place};
use crate::support::server::{Request, Server, answer, good};
use crate::support::users;

/// Scores three users, of whom the second is refused once with these headers. Returns the run and the requests.
fn refused_with(headers: &[(&'static str, String)]) -> (Place, Done, Vec<Request>) {
    let headers = headers.to_vec();
    let server = Server::start(move |request| match request.nth {
        2 => {
            let headers: Vec<_> = headers
                .iter()
                .map(|(name, value)| (*name, value.as_str()))
                .collect();
            answer(429, &headers, "slow down")
        }
        _ => good(request),
    });
    let place = Place::with("users.csv", users::csv(3));
    let done = place.score(&server, "-c 1 --retries 0");
    (place, done, server.requests())
}

fn retry_after(value: &str) -> (&'static str, String) {
    ("retry-after", value.to_owned())
}

fn date(value: &str) -> (&'static str, String) {
    ("date", value.to_owned())
}

/// Asserts that the run finished, sent the row again after at least this long, and says these words.
#[track_caller]
fn goes_on_and_says(
    (place, done, requests): &(Place, Done, Vec<Request>),
    least: Duration,
    words: &str,
) {
    done.exits(0)
        .says("the service throttled 1 call")
        .says(words);
    assert_eq!(
        (requests.len(), place.text("scored.csv")),
        (4, users::scored(&users::csv(3)))
    );
    let again = requests
        .iter()
        .find(|request| request.attempt == 2)
        .unwrap();
    let pause = again.at - requests[1].at;
    done.check(pause >= least, &format!("{pause:?} is at least {least:?}"));
}

/// Runs all of these in parallel: they mostly sleep.
fn each<T: Send + Sync>(cases: &[T], check: impl Fn(&T) + Sync) {
    thread::scope(|scope| {
        for case in cases {
            scope.spawn(|| check(case));
        }
    });
}

fn from_now(days: i64, seconds: u64) -> String {
    let day = Duration::from_secs(24 * 60 * 60);
    let whole = day * u32::try_from(days.abs()).unwrap();
    let then = if days < 0 {
        SystemTime::now() - whole
    } else {
        SystemTime::now() + whole
    };
    httpdate::fmt_http_date(then + Duration::from_secs(seconds))
}

#[test]
fn a_date_counts_by_the_servers_own_clock() {
    const ONE: &str = "paused: the service asked for 1 s";
    const NONE: &str = " % of all)\n";
    let here = from_now(0, 0);
    let cases = [
        // A day ahead of us, a day behind, and years away.
        (from_now(1, 0), from_now(1, 1), ONE),
        (from_now(-1, 0), from_now(-1, 1), ONE),
        (
            "Mon, 01 Jan 2080 00:00:00 GMT".to_owned(),
            "Mon, 01 Jan 2080 00:00:01 GMT".to_owned(),
            ONE,
        ),
        // In the two old formats too (RFC 9110, section 5.6.7).
        (
            "Sun Nov  6 08:49:37 1994".to_owned(),
            "Sunday, 06-Nov-94 08:49:38 GMT".to_owned(),
            ONE,
        ),
        // By the server's clock the time has passed already, whatever ours says.
        (from_now(1, 2), from_now(1, 1), NONE),
        // Without a date of the answer ours must do.
        (String::new(), from_now(-1, 0), NONE),
        ("yesterday".to_owned(), here, NONE),
    ];
    each(&cases, |(now, until, words)| {
        let mut headers = vec![retry_after(until)];
        if !now.is_empty() {
            headers.push(date(now));
        }
        let run = refused_with(&headers);
        let least = Duration::from_millis(if *words == ONE { 900 } else { 0 });
        goes_on_and_says(&run, least, words);
    });
}

#[test]
fn zero_means_immediately() {
    let run = refused_with(&[retry_after("0")]);
    goes_on_and_says(&run, Duration::ZERO, " % of all)\n");
    run.1.silent_about("paused: ");
}

#[test]
fn a_wait_that_is_not_a_time_is_ignored_and_the_row_backs_off() {
    let cases = [
        "-5",
        "soon",
        "",
        "1.5",
        "+3",
        "1e3",
        "30 s",
        "0x10",
        "\u{b2}",
        "Mon, 99 Jan 2080 00:00:00 GMT",
        "Mon, 01 Jan 2080 00:00:00 CET",
    ];
    each(&cases, |value| {
        let run = refused_with(&[retry_after(value)]);
        goes_on_and_says(&run, Duration::from_millis(100), " % of all)\n");
    });
}

#[test]
fn a_pause_of_more_than_a_quarter_of_an_hour_stops_with_the_time_to_come_back() {
    let far = "it asks to come back in 11574074 days\n".to_owned();
    let soon = |minutes: u64| format!("it asks to come back in {minutes} min, at ");
    let cases = [
        (vec![retry_after("1000000000000")], far),
        (
            vec![retry_after("99999999999999999999999")],
            "it asks to come back in 213503982334601 days\n".to_owned(),
        ),
        (vec![retry_after("7200")], soon(120)),
        (vec![retry_after("901")], soon(16)),
        (
            vec![retry_after("86400")],
            "it asks to come back in 24 h, at ".to_owned(),
        ),
        // Two hours by a clock that is a day ahead.
        (
            vec![date(&from_now(1, 0)), retry_after(&from_now(1, 7_200))],
            soon(120),
        ),
        (
            vec![
                date("Mon, 01 Jan 2080 00:00:00 GMT"),
                retry_after("Thu, 01 Jan 2099 00:00:00 GMT"),
            ],
            "it asks to come back in 6940 days\n".to_owned(),
        ),
        // Without a date of the answer ours must do.
        (
            vec![retry_after("Mon, 01 Jan 2080 00:00:00 GMT")],
            "it asks to come back in ".to_owned(),
        ),
    ];
    each(&cases, |(headers, words)| {
        let (place, done, requests) = refused_with(headers);
        done.exits(3)
            .says(&format!(
                "error: the service asks for a pause that is too long to wait for\n  {words}"
            ))
            .says("the paid answers are kept in rescore.ledger; the same command continues from there");
        assert_eq!(requests.len(), 2);
        assert_eq!(
            place.text("scored.csv.partial"),
            users::scored(&users::csv(1))
        );
    });
}

#[test]
fn retry_after_pauses_everybody_and_fails_nobody() {
    let csv = users::csv(30);
    let server = Server::start(|request| match request.nth {
        5 => answer(429, &[("retry-after", "2")], "slow down"),
        _ => good(request),
    });
    let place = Place::with("users.csv", &csv);
    let done = place.score(&server, "-c 4 --retries 0");
    done.exits(0);
    assert_eq!(
        (place.text("scored.csv"), server.calls()),
        (users::scored(&csv), 31)
    );
    let requests = server.requests();
    let refused = requests[4].at;
    // Calls in flight with it were sent already, and are answered immediately.
    let since = |request: &Request| request.at - refused;
    let within = requests[5..]
        .iter()
        .filter(|r| since(r) < Duration::from_millis(1_500));
    done.check(within.count() <= 3, "nobody calls during the pause");
}

#[test]
fn a_503_with_retry_after_uses_up_no_attempt() {
    let csv = users::csv(1);
    let server = Server::start(|request| match request.attempt {
        1..=2 => answer(503, &[("retry-after", "0")], ""),
        _ => good(request),
    });
    let place = Place::with("users.csv", &csv);
    place.score(&server, "--retries 0").exits(0);
    assert_eq!(
        (place.text("scored.csv"), server.calls()),
        (users::scored(&csv), 3)
    );
}

#[test]
fn a_403_with_a_rate_limits_headers_is_a_throttle() {
    let headers = [("x-ratelimit-remaining", "0"), ("retry-after", "0")];
    let server = Server::start(move |request| match request.attempt {
        1 => answer(403, &headers, ""),
        _ => good(request),
    });
    let place = Place::with("users.csv", users::csv(1));
    place.score(&server, "--retries 0").exits(0);
    assert_eq!(server.calls(), 2);
}
