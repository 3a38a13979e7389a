//! One moment from which on all runs of a job use answers (`--asked-since`).

use std::time::{Duration, SystemTime};

use humantime::format_rfc3339_millis;
use serde_json::json;

use crate::support::ledger_file;
use crate::support::process::{Done, Place};
use crate::support::server::{Server, good};
use crate::support::users;

const ROWS: usize = 12;
const HOUR: Duration = Duration::from_secs(60 * 60);

/// A moment so long before now, as an option's value.
fn ago(time: Duration) -> String {
    format_rfc3339_millis(SystemTime::now() - time).to_string()
}

/// Runs the users to this output, with a ledger that runs share.
fn run(place: &Place, server: &Server, output: &str, more: &[&str]) -> Done {
    let program = place.run(server, ["users.csv", "-o", output]);
    program.args("--ledger answers").args(more).done()
}

#[test]
fn the_runs_of_a_job_share_their_answers_and_use_none_from_before_it() {
    let (server, place) = (
        Server::start(good),
        Place::with("users.csv", users::csv(ROWS)),
    );
    run(&place, &server, "yesterday.csv", &[]).exits(0);
    ledger_file::age(&place.path("answers"), 86_400_000);
    let job = ["--asked-since", &ago(Duration::ZERO)];

    let first = [&job[..], &["--max-calls", "5"]].concat();
    run(&place, &server, "first.csv", &first).exits(3);
    assert_eq!(server.calls(), ROWS + 5);
    // Another task, and the first one on another machine, where its output is new.
    run(&place, &server, "second.csv", &job).exits(0);
    assert_eq!(server.calls(), 2 * ROWS);
    for output in ["first.csv", "again.csv"] {
        run(&place, &server, output, &job).exits(0);
        assert_eq!(place.text(output), users::scored(&users::csv(ROWS)));
    }
    assert_eq!(server.calls(), 2 * ROWS);
}

#[test]
fn rows_to_a_stream_share_them_too() {
    let (server, place) = (Server::start(good), Place::new());
    let job = ["--ledger", "answers", "--asked-since", &ago(Duration::ZERO)];
    for _ in 0..2 {
        let program = place.run(&server, "-").args(job);
        let done = program.stdin(users::csv(ROWS)).done();
        done.exits(0);
        assert_eq!(done.stdout, users::scored(&users::csv(ROWS)).into_bytes());
        assert_eq!(server.calls(), ROWS);
    }
}

#[test]
fn with_an_age_the_later_moment_counts() {
    let (server, place) = (
        Server::start(good),
        Place::with("users.csv", users::csv(ROWS)),
    );
    run(&place, &server, "a.csv", &[]).exits(0);
    ledger_file::age(&place.path("answers"), 7_200_000);
    let (recent, old) = (ago(HOUR), ago(3 * HOUR));
    for (since, age, known) in [
        (&old, None, ROWS),
        (&old, Some("3h"), ROWS),
        (&old, Some("1h"), 0),
        (&recent, Some("3h"), 0),
        (&recent, None, 0),
    ] {
        let age = age.map(|age| ["--max-age", age]);
        let more = [
            &["--asked-since", since][..],
            age.as_ref().map_or(&[], |age| age),
        ]
        .concat();
        let check = "check users.csv --json --ledger answers";
        let done = place.rescore(check).args(&more).done();
        let said = done.json();
        assert_eq!(said["known"], json!(known), "{more:?}");
        if known == ROWS {
            run(
                &place,
                &server,
                "b.csv",
                &[&more[..], &["--overwrite"]].concat(),
            )
            .exits(0);
            assert_eq!(server.calls(), ROWS);
        }
    }
    let both = ["--asked-since", &recent, "--max-age", "3h"];
    run(&place, &server, "c.csv", &both).exits(0);
    assert_eq!(server.calls(), 2 * ROWS);
}

#[test]
fn a_stopped_run_continues_without_what_is_older() {
    let (server, place) = (
        Server::start(good),
        Place::with("users.csv", users::csv(ROWS)),
    );
    let run = |more: &[&str]| place.score(&server, more);
    run(&["--max-calls", "5"]).exits(3);
    ledger_file::age(&place.path("scored.csv.ledger"), 7_200_000);
    run(&["--asked-since", &ago(HOUR)]).exits(0);
    assert_eq!(server.calls(), ROWS + 5);
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(ROWS)));
}

#[test]
fn a_moment_that_cannot_be_meant_is_refused_before_any_call() {
    let (server, place) = (
        Server::start(good),
        Place::with("users.csv", users::csv(ROWS)),
    );
    let to_file = ["users.csv", "-o", "scored.csv"];
    let past = ["--asked-since", "2024-01-01"];
    for (args, more, word) in [
        (
            &to_file[..],
            &["--asked-since", "9000-01-01T00:00:00Z"][..],
            "in the future",
        ),
        (
            &to_file,
            &["--asked-since", "2024-01-01T18:00:00"],
            "a time with its offset",
        ),
        (&to_file, &[past[0], past[1], "--fresh"], "'--fresh'"),
        (
            &to_file,
            &[past[0], past[1], "--no-ledger"],
            "'--no-ledger'",
        ),
        (
            &["users.csv"],
            &past,
            "`--max-age` or `--asked-since` needs a ledger, and rows to a stream have none",
        ),
    ] {
        place
            .run(&server, "")
            .args(args)
            .args(more)
            .done()
            .exits(2)
            .says(word);
    }
    assert_eq!(
        (server.calls(), place.names()),
        (0, vec!["users.csv".to_owned()])
    );
}
