//! Several runs over the same users on one ledger, each with a folder of its own, of which one after the other is killed and
//! started again: what they pay in all.
//!
//! The long ones are run by hand: `cargo test --test it many_kills -- --ignored --nocapture`.

use std::fs;
use std::thread;
use std::time::Duration;

use crate::support::process::{KEY, Place, Program, Running};
use crate::support::stand_in::StandIn;
use crate::support::users;

/// What happens to the runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) runs: usize,
    pub(crate) users: usize,
    /// How many times one of them is killed.
    pub(crate) kills: usize,
    /// Up to how long it takes until the next kill.
    pub(crate) apart: Duration,
    /// How long an answer takes, and up to how much longer.
    pub(crate) latency: &'static str,
}

/// Calls in flight of each run.
const IN_FLIGHT: usize = 8;

impl Plan {
    /// Has the runs at it until all have ended with every verdict, and holds the bill to its bounds. `ledger` names the ledger
    /// in a command.
    pub(crate) fn pays_once(self, ledger: impl Fn(Program) -> Program) {
        let place = &Place::with("users.csv", users::csv(self.users));
        let service = StandIn::start(place, ["--latency", self.latency, "--jitter", self.latency]);
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
            thread::sleep(self.apart.mul_f64(random.f64()));
            for slot in &mut running {
                if slot.as_mut().is_some_and(Running::has_ended) {
                    let ended = slot.take().map(Running::done);
                    ended.unwrap().exits(0);
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
        assert!(
            kills == self.kills,
            "only {kills} kills: more users are needed"
        );
        let outputs: Vec<_> = (0..self.runs)
            .map(|run| place.text(&output_of(run)))
            .collect();
        for output in &outputs {
            assert!(*output == outputs[0], "the runs have different verdicts");
            assert_eq!(output.lines().count(), 1 + self.users);
            assert!(!output.contains(",,"), "no row is without a verdict");
        }
        let bill = service.bill();
        let billed = usize::try_from(bill["billed"].as_u64().unwrap()).unwrap();
        // A kill also loses answers that are on their way to the ledger.
        let most = self.users + self.kills * 2 * IN_FLIGHT;
        let said = format!("{self:?}: {billed} billed, at most {most}");
        println!("{said}");
        assert!((self.users..=most).contains(&billed), "{said}");
    }
}

fn in_a_file(plan: Plan) {
    plan.pays_once(|program| program.args("--ledger rescore.ledger"));
}

#[test]
fn runs_that_start_together_over_the_same_users_pay_once() {
    in_a_file(Plan {
        runs: 4,
        users: 1_000,
        kills: 0,
        apart: Duration::from_millis(100),
        latency: "10ms",
    });
}

#[test]
fn each_kill_of_one_of_several_runs_costs_no_more_than_what_it_had_not_stored() {
    in_a_file(Plan {
        runs: 3,
        users: 1_000,
        kills: 8,
        apart: Duration::from_millis(200),
        latency: "40ms",
    });
}

/// Two hundred kills of eight runs, and none.
const LONG: [Plan; 2] = {
    let none = Plan {
        runs: 8,
        users: 10_000,
        kills: 0,
        apart: Duration::from_millis(200),
        latency: "150ms",
    };
    [none, Plan { kills: 200, ..none }]
};

#[test]
#[ignore = "takes minutes"]
fn two_hundred_kills_of_eight_runs_cost_no_more_than_what_was_not_stored() {
    for plan in LONG {
        in_a_file(plan);
    }
}
