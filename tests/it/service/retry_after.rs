//! `Retry-After` in every shape, and by the server's own clock.

use std::thread;
use std::time::{Duration, SystemTime};

use crate::support::process::{Done, Place};
use crate::support::server::{Server, answer, good};
use crate::support::users;

/// Three users of whom the second is refused once with these headers. What became of the run, and how many calls came.
fn refused_with(headers: &[(&'static str, String)]) -> (Place, Done, usize) {
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
    let done = place.score(&server, ["-c", "1", "--retries", "0"]);
    (place, done, server.calls())
}

fn retry_after(value: &str) -> (&'static str, String) {
    ("retry-after", value.to_owned())
}

fn date(value: &str) -> (&'static str, String) {
    ("date", value.to_owned())
}

/// The run went on to its end after a pause, and says this about it.
#[track_caller]
fn goes_on_and_says((place, done, calls): &(Place, Done, usize), words: &str) {
    done.exits(0)
        .says("the service throttled 1 call")
        .says(words);
    assert_eq!(
        (*calls, place.text("scored.csv")),
        (4, users::scored(&users::csv(3)))
    );
}

/// Runs all of these at once: they mostly sleep.
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
        // The time has come already by the server's clock, whatever ours says.
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
        goes_on_and_says(&run, words);
    });
}

#[test]
fn nought_is_at_once() {
    let run = refused_with(&[retry_after("0")]);
    goes_on_and_says(&run, " % of all)\n");
    run.1.silent_about("paused: ");
}

#[test]
fn what_is_no_time_is_ignored_and_the_row_backs_off() {
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
        goes_on_and_says(&run, " % of all)\n");
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
    ];
    each(&cases, |(headers, words)| {
        let (place, done, calls) = refused_with(headers);
        done.exits(3)
            .says(&format!(
                "error: the service asks for a pause that is too long to wait for\n  {words}"
            ))
            .says("scored.csv.ledger has 1 paid answer; the same command goes on from there");
        assert_eq!(calls, 2);
        assert_eq!(
            place.text("scored.csv.partial"),
            users::scored(&users::csv(1))
        );
    });
}
