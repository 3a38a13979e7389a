//! `--at-limit finish`: a budget that is used up leaves a complete file, and what is missing in it is asked for later.

use serde_json::Value;

use crate::support::ledger_file;
use crate::support::process::Place;
use crate::support::server::{Server, good, raw, status, user};
use crate::support::users;

use super::budgets::avoid_midnight;

const DAY: i64 = 86_400_000;

#[test]
fn new_users_are_asked_about_first_and_the_output_is_complete_each_night() {
    avoid_midnight();
    let place = Place::with("users.csv", users::csv(300));
    // What is asked again may need another call.
    let server = Server::start(|request| match (user(request), request.attempt) {
        (10 | 20, 2) => status(500),
        _ => good(request),
    });
    let csv = users::csv(350);
    let nights =
        "--overwrite -c 8 --max-age 1d --max-calls 100/day --at-limit finish --summary s.json";
    place.score(&server, "").exits(0);
    place.write("users.csv", &csv);
    let mut asked = Vec::new();
    loop {
        ledger_file::age(&place.path("rescore.ledger"), &server, 2 * DAY);
        let before = server.calls();
        let done = place.score(&server, nights);
        let calls = server.calls() - before;
        assert!(calls <= 100, "{calls}: {done}");
        done.check(
            place.text("scored.csv") == users::scored(&csv),
            "all have verdicts",
        );
        asked.push(calls);
        let summary = place.json("s.json");
        let is_limited = summary["limited"] == "max_calls";
        done.exits(if is_limited { 5 } else { 0 });
        let aged = summary["ledger_answers_aged"].as_u64();
        done.check(
            (aged > Some(0)) == is_limited,
            "old answers are used and counted",
        );
        assert_eq!(summary["stopped"], Value::Null);
        if !is_limited {
            break;
        }
    }
    // Each once, and two of them twice; in the last night less was left.
    assert_eq!(asked.iter().sum::<usize>(), 352, "{asked:?}");
    assert!(asked.len() < 6 && asked[0] > 80, "{asked:?}");
}

#[test]
fn rows_without_any_answer_fail_with_the_reason_limit_and_the_same_command_asks_for_them() {
    let csv = users::csv(60);
    let rows = csv.split_once('\n').unwrap().1;
    // Every user twice.
    let place = Place::with("users.csv", csv.clone() + rows);
    // Some calls that are out at the end fail, and no call is left to try again.
    let server = Server::start(|request| match request.nth {
        // Not twice for one row, which would be left for good.
        10 | 18 | 20 if request.attempt == 1 => raw("").then_reset(),
        _ => good(request),
    });
    let run = |most: u32| {
        let args = format!("-c 4 --at-limit finish --accept-failures 100% --max-calls {most}");
        let done = place.score(&server, &*(args + " --summary s.json"));
        (done, server.calls())
    };
    let (done, calls) = run(20);
    done.exits(5);
    assert_eq!(calls, 20);
    let summary = place.json("s.json");
    let failed = summary["failed"]["reasons"]["limit"].as_u64().unwrap();
    assert_eq!(summary["rows"]["written"], 120);
    assert!((80..=88).contains(&failed), "{failed}");
    let rejects = place.text("scored.rejects.csv");
    assert_eq!(
        rejects.matches(",limit,").count(),
        usize::try_from(failed).unwrap()
    );
    let all = place.text("scored.csv");
    assert_eq!(all.lines().count(), 121);
    // Without a call left, what is there stays.
    let (done, calls) = run(20);
    done.exits(5);
    assert_eq!((calls, place.text("scored.csv")), (20, all));
    let (done, calls) = run(90);
    done.exits(0);
    assert!((60..=63).contains(&calls), "{calls}");
    assert_eq!(
        place.text("scored.csv"),
        users::scored(&(csv.clone() + rows))
    );
}

#[test]
fn a_stream_is_finished_and_what_another_run_is_asking_about_is_waited_for() {
    let csv = users::csv(40);
    let place = Place::with("users.csv", &csv);
    let (server, release) = Server::holding_if(|request| user(request) == 1);
    let other = place.scoring(&server).args("--limit 1").start();
    server.wait_for_calls(1);
    let run = place.run(&server, "- --max-calls 10 --at-limit finish -c 4");
    let run = run.stdin(&*csv).start();
    server.wait_for_calls(11);
    drop(release);
    let done = run.exits(5);
    let uncalled = |name: &str| {
        name.strip_prefix("User ")
            .is_some_and(|it| it.parse::<u32>().unwrap() > 11)
    };
    assert_eq!(done.printed(), users::scored_without(&csv, uncalled));
    other.exits(0);
    assert_eq!(server.calls(), 11);
}
