//! Changes since the ledger's older answers, for a run that is stopped and continued.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::support::ledger_file;
use crate::support::process::{Done, Place, Program};
use crate::support::server::{Server, ok, silence};

const SCORES: [&str; 3] = ["0.5", "3.5", "9.5"];
const DECISIONS: [&str; 3] = ["approve", "review", "block"];
/// The users of the rows.
const USERS: [usize; 9] = [1, 2, 3, 2, 4, 5, 6, 2, 6];
/// The number of different users.
const UNIQUE: usize = 6;

/// The verdict on a user in a night: all but the first user get another one each night.
fn judged(user: usize, night: usize) -> usize {
    if user == 1 { 0 } else { (user + night) % 3 }
}

/// Last night's ledger and tonight's service.
struct Nights {
    place: Place,
    server: Server,
    night: Arc<AtomicUsize>,
    /// Requests after this many get no answer.
    held: Arc<AtomicUsize>,
}

impl Nights {
    /// The first night is over, and its answers are a day old.
    fn second() -> Self {
        let (night, held) = (
            Arc::new(AtomicUsize::new(1)),
            Arc::new(AtomicUsize::new(usize::MAX)),
        );
        let (now, last) = (Arc::clone(&night), Arc::clone(&held));
        let server = Server::start(move |request| {
            if request.nth > last.load(Ordering::SeqCst) {
                return silence().then_stall();
            }
            let user = request.name().strip_prefix("User ").unwrap().parse();
            let (night, nth) = (now.load(Ordering::SeqCst), request.nth);
            let score = SCORES[judged(user.unwrap(), night)];
            ok(&format!(
                r#"{{"transaction_id":"t-{nth}","summary":{{"risk_score":{score}}}}}"#
            ))
        });
        let nights = Self {
            place: Place::with("users.csv", input()),
            server,
            night,
            held,
        };
        nights.run(&[]).exits(0).silent_about("decisions changed");
        nights.day_passes();
        nights
    }

    fn day_passes(&self) {
        self.night.fetch_add(1, Ordering::SeqCst);
        let aged = ledger_file::age(&self.place.path("rescore.ledger"), &self.server, 86_400_000);
        assert_eq!(aged % UNIQUE, 0);
    }

    fn program(&self, more: &[&str]) -> Program<'_> {
        let program = self.place.run(
            &self.server,
            "users.csv -o scored.csv --overwrite --changes changes.csv \
             --summary summary.json -c1",
        );
        program.args(more)
    }

    fn run(&self, more: &[&str]) -> Done {
        self.program(more).done()
    }

    fn drift(&self) -> Value {
        let summary = self.place.json("summary.json");
        summary["drift"].clone()
    }

    /// The changes and the matrix are those from one night to another, for every row.
    #[track_caller]
    fn changed(&self, from: usize, to: usize) {
        let input = input();
        let (header, rows) = input.split_once('\n').unwrap();
        let front = "change_row,old_decision,old_score,new_decision,new_score";
        let mut changes = format!("{front},{header}\n");
        let mut drift = json!({"compared": USERS.len(), "changed": 0});
        for before in DECISIONS {
            drift[before] = json!({"approve": 0, "review": 0, "block": 0});
        }
        for ((row, user), line) in (1..).zip(USERS).zip(rows.lines()) {
            let (old, new) = (judged(user, from), judged(user, to));
            let cell = &mut drift[DECISIONS[old]][DECISIONS[new]];
            *cell = (cell.as_u64().unwrap() + 1).into();
            if old != new {
                drift["changed"] = (drift["changed"].as_u64().unwrap() + 1).into();
                let [old, new] = [old, new].map(|n| format!("{},{}", DECISIONS[n], SCORES[n]));
                changes += &format!("{row},{old},{new},{line}\n");
            }
        }
        assert_eq!(self.place.text("changes.csv"), changes);
        assert_eq!(self.drift(), drift);
    }
}

fn input() -> String {
    let row = |(id, user): (usize, usize)| {
        format!("{id},User {user},user{user}@example.com,192.0.2.{user},curl/8\n")
    };
    let rows: String = (1..).zip(USERS).map(row).collect();
    format!("id,name,email,ip,user_agent\n{rows}")
}

#[test]
fn a_run_that_was_stopped_tells_all_changes_and_the_next_night_only_its_own() {
    // Each time the same command continues.
    for (args, stops) in [
        (&["--max-age", "1h"][..], &[][..]),
        (&["--max-age", "1h"], &["2", "3"]),
        (&["--fresh"], &["5"]),
    ] {
        let nights = Nights::second();
        for stop in stops {
            nights
                .run(&[args, &["--max-calls", stop]].concat())
                .exits(5);
        }
        nights.run(args).exits(0);
        nights.changed(1, 2);
        let calls = nights.server.calls();
        assert_eq!(calls, 2 * UNIQUE, "{stops:?}");
        // The changes were reported: a run that uses these answers now has nothing to compare.
        nights.run(&["--max-age", "1h"]).exits(0);
        assert_eq!(
            (nights.drift(), nights.server.calls()),
            (Value::Null, calls)
        );
        nights.day_passes();
        nights.run(&["--max-age", "1h"]).exits(0);
        nights.changed(2, 3);
    }
}

#[test]
fn a_run_that_was_killed_tells_all_changes_and_the_next_night_only_its_own() {
    for answered in [1, UNIQUE - 1] {
        let nights = Nights::second();
        let calls = nights.server.calls() + answered;
        nights.held.store(calls, Ordering::SeqCst);
        let running = nights.program(&["--max-age", "1h"]).start();
        running.kill_when(|| nights.server.calls() > calls);
        nights.held.store(usize::MAX, Ordering::SeqCst);
        nights.run(&["--max-age", "1h"]).exits(0);
        nights.changed(1, 2);
    }
}

#[test]
fn a_run_to_another_output_is_another_run() {
    let nights = Nights::second();
    let tonight = ["--max-age", "1h"];
    let stopped = ["--max-age", "1h", "--max-calls", "3"];
    nights.run(&stopped).exits(5);
    // Answers that the other run replaced before this one started are not older answers; the rest are.
    let other = ["-o", "other.csv", "--max-age", "1h"];
    let program = nights.place.run(&nights.server, "users.csv");
    let program = program.args("--summary other.json");
    program.args(other).done().exits(0);
    let other = nights.place.json("other.json");
    let rows = USERS.iter().filter(|user| **user > 3).count();
    assert_eq!(other["drift"]["compared"], rows);
    // For the first run it does not matter which answers came after it started.
    nights.run(&tonight).exits(0);
    nights.changed(1, 2);
    assert_eq!(nights.server.calls(), 2 * UNIQUE);
}
