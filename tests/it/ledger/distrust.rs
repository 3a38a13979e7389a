//! Answers and failures over which a run stops are not kept: once the service is repaired, the same command asks for them
//! again, and only for them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use super::postgres::Database;
use crate::support::process::{Place, Program};
use crate::support::server::{Action, Request, Server, good, good_body, ok, status, user};
use crate::support::users;

/// A service that is broken until it is repaired.
struct Broken {
    server: Server,
    is_broken: Arc<AtomicBool>,
}

impl Broken {
    fn after(users: usize, action: fn() -> Action) -> Self {
        Self::as_in(move |request| {
            if user(request) > users {
                return action();
            }
            good(request)
        })
    }

    fn as_in(script: impl Fn(&Request) -> Action + Send + Sync + 'static) -> Self {
        let is_broken = Arc::new(AtomicBool::new(true));
        let shared = Arc::clone(&is_broken);
        let server = Server::start(move |request| {
            if shared.load(Ordering::Relaxed) {
                return script(request);
            }
            good(request)
        });
        Self { server, is_broken }
    }

    fn repair(&self) {
        self.is_broken.store(false, Ordering::Relaxed);
    }
}

/// The same answer for everybody.
fn one_for_all() -> Action {
    ok(&good_body("Somebody Else"))
}

fn useless() -> Action {
    ok("{}")
}

fn rejected() -> Action {
    status(422)
}

const AGAIN: &str = "these answers are not kept: the same command asks for them again";

#[test]
fn what_stops_a_run_is_asked_again_once_the_service_is_repaired() {
    // What the service does after so many good rows, how many of these answers stop the run, and the calls in flight.
    for (action, after, stops, in_flight) in [
        (one_for_all as fn() -> Action, 0, 20, 1),
        (one_for_all, 30, 20, 8),
        (useless, 0, 3, 8),
        (useless, 30, 20, 8),
        (rejected, 30, 100, 1),
        (rejected, 200, 100, 64),
    ] {
        stops_and_continues((action, after, stops, in_flight), |program| program);
    }
}

#[test]
fn a_ledger_on_a_server_does_not_keep_it_either() {
    let Some(database) = Database::with_ledger() else {
        return;
    };
    for case in [
        (one_for_all as fn() -> Action, 30, 20, 8),
        (useless, 30, 20, 8),
    ] {
        stops_and_continues(case, |program| {
            program.env("RESCORE_LEDGER", database.url())
        });
    }
}

/// Runs a case until it stops, and again when the service is repaired.
#[track_caller]
fn stops_and_continues(
    (action, after, stops, in_flight): (fn() -> Action, usize, usize, usize),
    with: impl Fn(Program<'_>) -> Program<'_>,
) {
    let rows = after + 2 * stops + 4 * in_flight;
    // The last user comes twice, and its answer is shared.
    let csv = users::csv(rows);
    let (_, last) = csv.trim_end().rsplit_once('\n').unwrap();
    let csv = format!("{csv}{last}\n");
    let (place, service) = (Place::with("users.csv", &csv), Broken::after(after, action));
    let server = &service.server;
    let command = || with(place.scoring(server).args(["-c", &in_flight.to_string()]));
    let done = command().exits(3);
    done.says(AGAIN);
    let calls = server.calls();
    // With several in flight, the last good answers may come after some of the others.
    let most = if in_flight == 1 {
        after + stops
    } else {
        rows - 1
    };
    assert!((after + stops..=most).contains(&calls), "{calls}: {done}");
    service.repair();
    command().exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&csv), "{done}");
    assert_eq!(server.calls(), calls + rows - after, "{done}");
    // From now on everything is kept.
    command().arg("--overwrite").exits(0);
    assert_eq!(server.calls(), calls + rows - after);
}

#[test]
fn what_comes_to_calls_in_flight_at_the_stop_is_distrusted_as_well() {
    let other_id: fn() -> Action = || ok(&good_body("User 2"));
    // What all users get from the fourth on, and the third one, whose call ends after the second user's good one, when the run
    // is stopping; how many answers have come by then, and how many users are not asked again.
    for (action, third, answered, kept) in [
        (rejected as fn() -> Action, rejected as fn() -> Action, 1, 2),
        // Both have an id that nobody else has had.
        (one_for_all, other_id, 21, 1),
    ] {
        let csv = users::csv(200);
        let (releases, held): (Vec<Sender<()>>, Vec<_>) =
            [channel(), channel()].into_iter().unzip();
        let held: Vec<_> = held.into_iter().map(Mutex::new).collect();
        let service = Broken::as_in(move |request| match user(request) {
            1 => good(request),
            user @ (2 | 3) => {
                // Ends with an error once the sender is gone.
                let _ = held[user - 2].lock().unwrap().recv();
                if user == 2 { good(request) } else { third() }
            }
            _ => action(),
        });
        let (place, server) = (Place::with("users.csv", &csv), &service.server);
        let run = place
            .scoring(server)
            .args("-c 3 --log run.log --progress plain");
        let running = run.start();
        running.wait_for_words("waiting up to ");
        let [good_one, other] = <[_; 2]>::try_from(releases).unwrap();
        drop(good_one);
        running.wait_for_file("run.log", |log| {
            let log = String::from_utf8_lossy(log);
            log.matches("\"attempt_answered\"").count() > answered
        });
        drop(other);
        running.exits(3).says(AGAIN);
        let calls = server.calls();
        service.repair();
        place.score(server, "").exits(0);
        assert_eq!(server.calls(), calls + 200 - kept);
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
    }
}

#[test]
fn a_service_that_rejects_all_new_rows_is_sent_a_hundred_beside_an_old_ledger() {
    let csv = users::csv(300);
    let place = Place::with("users.csv", users::csv(50));
    let service = Broken::after(50, rejected);
    let server = &service.server;
    place.score(server, "").exits(0);
    place.write("users.csv", &csv);
    let run = || place.score(server, "--overwrite -c 16");
    run().exits(3).says(AGAIN);
    let calls = server.calls();
    assert!((150..=166).contains(&calls), "{calls}");
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(50)));
    service.repair();
    run().exits(0);
    assert_eq!(server.calls(), calls + 250);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn rows_that_are_really_bad_stop_no_run_if_they_are_few_or_it_keeps_going_and_are_kept() {
    // After a first good row, how many bad ones come before another one.
    for (bad, args) in [
        (99, "-c 1"),
        (150, "-c 1 --keep-going"),
        (150, "-c 16 --keep-going"),
    ] {
        let csv = users::csv(bad + 2);
        let is_bad = move |name: &str| {
            let user: usize = name["User ".len()..].parse().unwrap();
            (2..bad + 2).contains(&user)
        };
        let server = Server::start(move |request| {
            if is_bad(&request.name()) {
                return rejected();
            }
            good(request)
        });
        let place = Place::with("users.csv", &csv);
        for option in ["", " --overwrite"] {
            place.score(&server, &*format!("{args}{option}")).exits(1);
            assert_eq!(server.calls(), bad + 2);
            assert_eq!(
                place.text("scored.csv"),
                users::scored_without(&csv, is_bad)
            );
        }
    }
}

#[test]
fn a_complete_file_that_has_distrusted_answers_is_named_and_written_again_with_overwrite() {
    let (one, two) = (users::csv(12), users::csv(40));
    let place = Place::new();
    std::fs::create_dir(place.path("parts")).unwrap();
    place.write("parts/1.csv", &one);
    place.write("parts/2.csv", &two);
    let service = Broken::after(2, one_for_all);
    let server = &service.server;
    let run = |more: &str| {
        let args = [
            "parts/1.csv",
            "parts/2.csv",
            "--output-dir",
            "scored",
            "-c",
            "1",
        ];
        place.run(server, args).args(more).done()
    };
    let done = run("");
    done.exits(3)
        .says("asks again, with `--overwrite` also for complete files");
    assert_eq!(server.calls(), 22);
    service.repair();
    run("--overwrite").exits(0);
    assert_eq!(server.calls(), 22 + 38);
    assert_eq!(place.text("scored/1.csv"), users::scored(&one));
    assert_eq!(place.text("scored/2.csv"), users::scored(&two));
}

#[test]
fn rows_to_a_stream_are_those_before_the_stop_and_then_all() {
    let csv = users::csv(60);
    let (place, service) = (
        Place::with("users.csv", &csv),
        Broken::after(5, one_for_all),
    );
    let run = || place.run(&service.server, "users.csv -o - -c 1").done();
    let done = run();
    done.exits(3).says(AGAIN);
    let good: String = users::scored(&csv).split_inclusive('\n').take(6).collect();
    assert!(done.printed().starts_with(&good), "{done}");
    assert_eq!(done.printed().lines().count(), 1 + 5 + 19);
    service.repair();
    let done = run();
    done.exits(0);
    assert_eq!(done.printed(), users::scored(&csv));
    assert_eq!(service.server.calls(), 5 + 20 + 55);
}
