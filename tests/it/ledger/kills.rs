//! Runs that are killed: each call that is made again is counted once, by whichever run makes it, and several runs on one ledger
//! of which one after the other is killed pay no more than that.

use std::fs;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use rusqlite::Connection;

use crate::support::process::{Done, KEY, Place, Program, Running};
use crate::support::server::{Server, good};
use crate::support::stand_in::StandIn;
use crate::support::users;

/// Answers each request after a while.
fn slow() -> Server {
    Server::start(|request| good(request).after(Duration::from_millis(100)))
}

/// How many requests killed starts have left, as a start says before its first call.
fn left(done: &Done) -> usize {
    let Some((_, rest)) = done.stderr.split_once("killed runs left ") else {
        return 0;
    };
    let number = rest.split(' ').next().unwrap().replace(',', "");
    number.parse().unwrap()
}

/// How many rows a run has counted as perhaps billed twice.
fn counted(place: &Place) -> usize {
    let counted = place.json("s.json")["calls"]["maybe_billed_twice"].as_u64();
    counted.unwrap().try_into().unwrap()
}

/// How many answers are stored.
fn answers(place: &Place) -> i64 {
    let ledger = Connection::open(place.path("rescore.ledger")).unwrap();
    let count = "SELECT count(*) FROM answers";
    ledger.query_row(count, [], |row| row.get(0)).unwrap()
}

/// How many requests have come again.
fn twice(server: &Server) -> usize {
    let requests = server.requests();
    let again = requests.iter().filter(|request| request.attempt > 1);
    again.count()
}

/// The first answer comes immediately, and no other one.
fn silent() -> (Server, Sender<()>) {
    Server::holding(1)
}

#[test]
fn each_call_that_a_kill_has_lost_is_counted_once_when_it_is_made_again_and_no_other_is() {
    for calls in [4, 60] {
        let (server, release) = silent();
        let (place, csv) = (Place::with("users.csv", users::csv(400)), users::csv(400));
        let args = format!("-c {calls}");
        let running = place.scoring(&server).args(&*args).start();
        server.wait_for_calls(1 + calls);
        running.kill_when(|| answers(&place) == 1);
        drop(release);
        // A start that asks for nothing, and one that asks about a few of them, forget nothing.
        place.write("users.csv", users::csv(1));
        let done = place.score(&server, "--summary s.json");
        assert_eq!((done.exits(0), counted(&place)).1, 0);
        // A request that was claimed and not sent yet cannot be told from one that was sent.
        let left = left(&done);
        assert!((calls..=2 * calls).contains(&left), "{done}");
        place.write("users.csv", users::csv(3));
        place
            .score(&server, "--overwrite --summary s.json")
            .exits(0);
        assert_eq!(counted(&place), 2);
        // Another run makes the others again.
        place.write("users.csv", &csv);
        let done = place
            .run(&server, "users.csv -o other.csv --summary s.json")
            .exits(0);
        assert_eq!(place.text("other.csv"), users::scored(&csv));
        assert_eq!(twice(&server), calls);
        assert_eq!(counted(&place), left - 2, "{done}");
        let done = place.score(&server, "--overwrite --fresh --summary s.json");
        assert_eq!((self::left(&done), counted(&place)), (0, 0));
    }
}

#[test]
fn a_row_whose_call_is_lost_by_each_kill_is_counted_by_each_call_that_follows() {
    let (server, release) = Server::holding(0);
    let place = Place::with("users.csv", users::csv(1));
    for kill in 1..=3 {
        let running = place.scoring(&server).start();
        server.wait_for_calls(kill);
        let done = running.kill_when(|| true);
        assert_eq!(left(&done), usize::from(kill > 1));
    }
    drop(release);
    let done = place.score(&server, "--summary s.json");
    assert_eq!((left(&done), counted(&place)), (1, 1));
    assert_eq!(twice(&server), 3);
}

#[test]
fn what_a_kill_may_have_cost_counts_once_in_the_budget() {
    let (place, server) = (Place::with("users.csv", users::csv(400)), slow());
    let running = place.scoring(&server).args("-c 4").start();
    running.kill_when(|| server.calls() >= 50);
    let calls = server.calls();
    let starts = [(); 3].map(|()| left(place.score(&server, "--max-calls 1").exits(5)));
    assert!(starts[0] > 0 && starts == [starts[0]; 3], "{starts:?}");
    assert_eq!(server.calls(), calls);
    let most = (calls + 2 * 4 + 5).to_string();
    place.score(&server, ["--max-calls", &most]).exits(5);
    let now = server.calls();
    assert!(
        (calls + 5..=calls + 2 * 4 + 5).contains(&now),
        "{calls} and {now}"
    );
}

#[test]
fn however_the_calls_in_flight_jump_no_call_that_is_made_again_is_kept_quiet() {
    const ROWS: usize = 2_000;
    let mut random = fastrand::Rng::with_seed(7);
    let csv = users::csv(ROWS);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    let mut all = 0;
    for calls in [1, 512, 4, 64, 512, 1, 16] {
        let args = format!("-c {calls}");
        let until = server.calls() + random.usize(1..250);
        let running = place.scoring(&server).args(&*args).start();
        let done = running.kill_when(|| server.calls() >= until);
        all += left(&done);
        assert!(twice(&server) <= all, "{done}");
    }
    let done = place.score(&server, "--summary s.json");
    done.exits_with_one_of(&[0, 2]);
    all += left(&done);
    assert!(twice(&server) <= all, "{} and {all}", twice(&server));
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
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
    again().exits(0);
    let (calls, most) = (server.calls(), 2 * ROWS + 3 * 2 * 4);
    assert!((2 * ROWS..=most).contains(&calls), "{calls} of {most}");
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    // Now it has ended, and the same words ask for all again.
    again().exits(0);
    assert_eq!(server.calls(), calls + ROWS);
}

/// Several runs over the same users, each with its own folder. Runs are killed and started again `kills` times in all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) runs: usize,
    pub(crate) users: usize,
    pub(crate) kills: usize,
}

/// Calls in flight of each run.
const IN_FLIGHT: usize = 8;

impl Plan {
    /// Has the runs at it until all have ended with every verdict, and holds the bill to its bounds. `ledger` names the ledger
    /// in a command.
    pub(crate) fn pays_once(self, ledger: impl Fn(Program) -> Program) {
        let place = &Place::with("users.csv", users::csv(self.users));
        let service = StandIn::start(place, "--latency 40ms --jitter 40ms");
        let output_of = |run| format!("{run}/scored.csv");
        let start = |run| {
            let output = output_of(run);
            let program = place.rescore("run users.csv --overwrite --service-id test");
            let program = program.args(["--base-url", &service.url(), "-o", &output]);
            let program = program.args(["--rate", "unlimited", "-c", &IN_FLIGHT.to_string()]);
            ledger(program.env("RESCORE_API_KEY", KEY)).start()
        };
        for run in 0..self.runs {
            fs::create_dir(place.path(&run.to_string())).unwrap();
        }
        let mut random = fastrand::Rng::with_seed(19);
        let mut running: Vec<Option<Running>> =
            (0..self.runs).map(|run| Some(start(run))).collect();
        let mut kills = 0;
        while running.iter().any(Option::is_some) {
            thread::sleep(Duration::from_millis(random.u64(..200)));
            for slot in &mut running {
                if slot.as_mut().is_some_and(Running::has_ended) {
                    slot.take().map(Running::done).unwrap().exits(0);
                }
            }
            let run = random.usize(..self.runs);
            if kills < self.kills
                && let Some(killed) = running[run].take()
            {
                let done = killed.kill_when(|| true);
                // It may have ended just before.
                if done.code().is_none() {
                    kills += 1;
                    running[run] = Some(start(run));
                }
            }
        }
        assert_eq!(kills, self.kills, "more users are needed");
        let outputs = (0..self.runs).map(|run| place.text(&output_of(run)));
        let outputs: Vec<_> = outputs.collect();
        for output in &outputs {
            assert!(*output == outputs[0], "the runs have different verdicts");
            assert_eq!(output.lines().count(), 1 + self.users);
            assert!(!output.contains(",,"), "no row is without a verdict");
        }
        let billed = service.bill()["billed"].as_u64().unwrap();
        let billed = usize::try_from(billed).unwrap();
        // A kill also loses answers that are on their way to the ledger.
        let most = self.users + self.kills * 2 * IN_FLIGHT;
        let said = format!("{self:?}: {billed} billed, at most {most}");
        assert!((self.users..=most).contains(&billed), "{said}");
    }
}

#[test]
fn each_kill_of_one_of_several_runs_costs_no_more_than_what_it_had_not_stored() {
    for kills in [0, 6] {
        let plan = Plan {
            runs: 3,
            users: 700,
            kills,
        };
        plan.pays_once(|program| program.args("--ledger rescore.ledger"));
    }
}
