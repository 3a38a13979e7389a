//! `Retry-After`: every call waits, by the server's own clock, and a pause that is too long stops the run.

use std::thread;
use std::time::{Duration, SystemTime};

use crate::support::process::{Done, Place};
use crate::support::server::{Request, Server, answer, good};
use crate::support::users;

/// Scores three users, of whom the second is refused once, with this `Retry-After` and perhaps a `Date`.
fn refused_with(retry_after: &str, date: Option<&str>) -> (Place, Done, Vec<Request>) {
    let (retry_after, date) = (retry_after.to_owned(), date.map(str::to_owned));
    let server = Server::start(move |request| match request.nth {
        2 => {
            let mut headers = vec![("retry-after", retry_after.as_str())];
            headers.extend(date.iter().map(|date| ("date", date.as_str())));
            answer(429, &headers, "slow down")
        }
        _ => good(request),
    });
    let place = Place::with("users.csv", users::csv(3));
    let done = place.score(&server, "-c 1 --retries 0");
    (place, done, server.requests())
}

fn from_now(days: i64, seconds: u64) -> String {
    let whole = Duration::from_secs(24 * 60 * 60) * u32::try_from(days.abs()).unwrap();
    let now = SystemTime::now();
    let then = if days < 0 { now - whole } else { now + whole };
    httpdate::fmt_http_date(then + Duration::from_secs(seconds))
}

#[test]
fn the_row_is_sent_again_after_the_pause_that_was_asked_for_by_the_servers_own_clock() {
    const ONE: &str = " (429) asked for 1 s, 1 s left";
    const NONE: &str = "% of all)\n";
    let (tomorrow, yesterday) = (from_now(1, 0), from_now(-1, 0));
    let cases = [
        // A day ahead of us, a day behind, and in an old format (RFC 9110, section 5.6.7).
        (from_now(1, 1), Some(&*tomorrow), ONE),
        (from_now(-1, 1), Some(&*yesterday), ONE),
        (
            "Sunday, 06-Nov-94 08:49:38 GMT".to_owned(),
            Some("Sun Nov  6 08:49:37 1994"),
            ONE,
        ),
        ("1".to_owned(), None, ONE),
        ("0".to_owned(), None, NONE),
        // The time has passed already; by our clock where the answer has no date.
        (from_now(1, 0), Some(&*from_now(1, 1)), NONE),
        (from_now(-1, 0), None, NONE),
    ];
    // They mostly sleep.
    thread::scope(|scope| {
        for (until, date, words) in &cases {
            scope.spawn(move || {
                let (place, done, requests) = refused_with(until, *date);
                done.exits(0).says(words);
                assert_eq!(requests.len(), 4);
                assert_eq!(place.text("scored.csv"), users::scored(&users::csv(3)));
                let again = requests.iter().find(|request| request.attempt == 2);
                let pause = again.unwrap().at - requests[1].at;
                let least = Duration::from_millis(if *words == ONE { 900 } else { 0 });
                done.check(pause >= least, &format!("{pause:?} is at least {least:?}"));
            });
        }
    });
}

#[test]
fn a_pause_of_more_than_a_quarter_of_an_hour_stops_the_run() {
    // The last one is two hours by a clock that is a day ahead.
    let tomorrow = from_now(1, 0);
    for (until, date, minutes) in [
        ("901".to_owned(), None, "15 min 1 s"),
        (from_now(1, 7_200), Some(&*tomorrow), "in 2 h"),
    ] {
        let (place, done, requests) = refused_with(&until, date);
        done.exits(3).says(minutes);
        assert_eq!(requests.len(), 2);
        let partial = place.text("scored.csv.partial");
        assert_eq!(partial, users::scored(&users::csv(1)));
    }
}

#[test]
fn a_wait_is_waited_for_whatever_the_status_and_uses_up_no_attempt() {
    const LIMIT: &str = r#"{"error":{"code":"rate_limit_exceeded"}}"#;
    // The status, whether it names a wait, its body, and whether it is a throttle.
    let cases = [
        (400, true, "no", true),
        (413, true, "no", true),
        (420, true, "no", true),
        (420, false, "no", true),
        (430, true, "no", true),
        (500, true, "no", true),
        (502, true, "no", true),
        (504, true, "no", true),
        (529, true, "no", true),
        (200, false, LIMIT, true),
        (400, false, LIMIT, true),
        (413, false, "no", false),
        (430, false, "no", false),
    ];
    thread::scope(|scope| {
        for (code, names_wait, body, is_throttle) in cases {
            scope.spawn(move || {
                let server = Server::start(move |request| match request.nth {
                    2 if names_wait => answer(code, &[("retry-after", "1")], body),
                    2 => answer(code, &[], body),
                    _ => good(request),
                });
                let place = Place::with("users.csv", users::csv(3));
                let done = place.score(&server, "-c 1 --retries 0");
                if !is_throttle {
                    done.exits(1).silent_about("throttled");
                    assert_eq!(server.calls(), 3, "{code}");
                    return;
                }
                done.exits(0);
                let requests = server.requests();
                assert_eq!(requests.len(), 4, "{code}");
                let again = requests.iter().find(|request| request.attempt == 2);
                let pause = again.unwrap().at - requests[1].at;
                let least = Duration::from_millis(if names_wait { 900 } else { 0 });
                done.check(pause >= least, &format!("{pause:?} is at least {least:?}"));
            });
        }
    });
}

#[test]
fn a_pause_holds_everybody_and_fails_nobody() {
    let csv = users::csv(30);
    let server = Server::start(|request| match request.nth {
        5 => answer(429, &[("retry-after", "2")], "slow down"),
        _ => good(request),
    });
    let place = Place::with("users.csv", &csv);
    let done = place.score(&server, "-c 4 --retries 0");
    done.exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    assert_eq!(server.calls(), 31);
    // Calls in flight with it were sent already, and are answered immediately.
    let requests = server.requests();
    let early = Duration::from_millis(1_500);
    let within = { requests[5..].iter() }.filter(|it| it.at - requests[4].at < early);
    done.check(within.count() <= 3, "nobody calls during the pause");
}
