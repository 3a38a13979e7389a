//! A run that is killed: the next start says how many calls may be billed twice, which is never too few, and continues.

use std::time::Duration;

use crate::support::process::{Done, Place};
use crate::support::server::{Server, good};
use crate::support::users;

/// Answers each request after a while.
fn slow() -> Server {
    Server::start(|request| good(request).after(Duration::from_millis(100)))
}

/// How many calls may be billed twice, as a start says before its first call.
fn said(done: &Done) -> usize {
    let Some((_, rest)) = done.stderr.split_once("without the answers to up to ") else {
        return 0;
    };
    rest.split(' ')
        .next()
        .unwrap()
        .replace(',', "")
        .parse()
        .unwrap()
}

/// How many requests have come again.
fn twice(server: &Server) -> usize {
    let requests = server.requests();
    requests
        .iter()
        .filter(|request| request.attempt > 1)
        .count()
}

#[test]
fn up_to_twice_the_calls_in_flight_of_a_killed_run_are_counted_by_the_next_one() {
    for calls in [4, 64] {
        let (place, server) = (Place::with("users.csv", users::csv(400)), slow());
        let args = format!("users.csv -o scored.csv -c {calls}");
        let running = place.run(&server, &*args).start();
        server.wait_for_calls(1 + calls);
        running.kill_when(|| true);
        let done = place.score(&server, "--summary s.json");
        done.exits(0);
        assert!((1..=said(&done)).contains(&twice(&server)), "{done}");
        assert!(said(&done) <= 2 * calls, "{done}");
        let counted = place.json("s.json")["calls"]["maybe_billed_twice"].clone();
        assert_eq!(counted, said(&done));
        assert_eq!(place.text("scored.csv"), users::scored(&users::csv(400)));
    }
}

#[test]
fn what_a_kill_may_have_cost_is_said_once_and_counts_once_in_the_budget() {
    let (place, server) = (Place::with("users.csv", users::csv(400)), slow());
    let running = place.scoring(&server).args("-c 4").start();
    running.kill_when(|| server.calls() >= 50);
    let calls = server.calls();
    let starts = [(); 3].map(|()| said(place.score(&server, "--max-calls 1").exits(5)));
    assert!(starts[0] > 0 && starts[1..] == [0, 0], "{starts:?}");
    assert_eq!(server.calls(), calls);
    let most = (calls + 2 * 4 + 5).to_string();
    place.score(&server, ["--max-calls", &most]).exits(5);
    assert!(
        server.calls() >= calls + 5,
        "{calls} and {}",
        server.calls()
    );
}

#[test]
fn however_the_calls_in_flight_jump_the_bound_that_is_said_holds() {
    const ROWS: usize = 3_000;
    let mut random = fastrand::Rng::with_seed(7);
    let csv = users::csv(ROWS);
    for _ in 0..3 {
        let (place, server) = (Place::with("users.csv", &csv), Server::good());
        let mut bound = 0;
        for calls in [1, 512, 4, 64, 512, 1, 16] {
            let args = format!("-c {calls}");
            let until = server.calls() + random.usize(1..500);
            let running = place.scoring(&server).args(&*args).start();
            let done = running.kill_when(|| server.calls() >= until);
            bound += said(&done);
            assert!(twice(&server) <= bound, "{done}");
        }
        let done = place.score(&server, "");
        done.exits_with_one_of(&[0, 2]);
        bound += said(&done);
        assert!(twice(&server) <= bound, "{} and {bound}", twice(&server));
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
    }
}

#[test]
fn the_same_command_continues_a_run_that_asks_all_again_and_pays_for_no_answer_of_it_twice() {
    const ROWS: usize = 300;
    let csv = users::csv(ROWS);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    place.score(&server, "").exits(0);
    let again = || place.scoring(&server).args("--overwrite --fresh -c 4");
    for _ in 0..3 {
        let until = server.calls() + ROWS / 4;
        let done = again().start().kill_when(|| server.calls() >= until);
        assert_eq!(done.code(), None, "{done}");
    }
    again().done().exits(0);
    let (calls, most) = (server.calls(), 2 * ROWS + 3 * 2 * 4);
    assert!((2 * ROWS..=most).contains(&calls), "{calls} of {most}");
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    // Now it has ended, and the same words ask for all again.
    again().done().exits(0);
    assert_eq!(server.calls(), calls + ROWS);
}
