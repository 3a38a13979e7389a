//! Decisions that changed since an earlier run, whose verdicts are in the input or in the ledger: the matrix of the summary and
//! the rows of `--changes`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::support::ledger_file;
use crate::support::process::{Done, Place, Program};
use crate::support::server::{Server, ok, silence, status};
use crate::support::users::{self, Verdict};

const FRONT: &str = "change_row,old_decision,old_score,new_decision,new_score,";

const DECISIONS: [&str; 3] = ["approve", "review", "block"];
const SCORES: [&str; 3] = ["0.5", "3.5", "9.5"];
/// The users of the rows.
const USERS: [usize; 9] = [1, 2, 3, 2, 4, 5, 6, 2, 6];
/// The number of different users.
const UNIQUE: usize = 6;

/// `users.csv` to `scored.csv` with a summary and changes.
fn compared<'a>(place: &'a Place, server: &'a Server) -> Program<'a> {
    let program = place.scoring(server).args("--changes changes.csv");
    program.args("--summary summary.json")
}

/// The verdict on a user in a night: all but the first user get another one each night.
fn judged(user: usize, night: usize) -> usize {
    if user == 1 { 0 } else { (user + night) % 3 }
}

/// Last night's files and tonight's service.
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
        let row = |(id, user): (usize, usize)| {
            format!("{id},User {user},user{user}@example.com,192.0.2.{user},curl/8\n")
        };
        let rows: String = (1..).zip(USERS).map(row).collect();
        let input = format!("id,name,email,ip,user_agent\n{rows}");
        let place = Place::with("users.csv", input);
        let nights = Self {
            place,
            server,
            night,
            held,
        };
        nights.run(&[]).exits(0).silent_about("before ↓");
        nights.day_passes();
        nights
    }

    fn day_passes(&self) {
        self.night.fetch_add(1, Ordering::SeqCst);
        let aged = ledger_file::age(&self.place.path("rescore.ledger"), &self.server, 86_400_000);
        assert_eq!(aged % UNIQUE, 0);
    }

    fn program(&self, more: &[&str]) -> Program<'_> {
        let program = compared(&self.place, &self.server);
        program.args("--overwrite -c1").args(more)
    }

    fn run(&self, more: &[&str]) -> Done {
        self.program(more).done()
    }

    /// The changes and the matrix are those from one night to another, for every row, which is written as it came.
    #[track_caller]
    fn changed(&self, from: usize, to: usize) {
        let input = self.place.text("users.csv");
        let (header, rows) = input.split_once('\n').unwrap();
        let mut changes = format!("{FRONT}{header}\n");
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
        assert_eq!(self.place.json("summary.json")["drift"], drift);
    }
}

#[test]
fn a_decision_that_changed_since_last_night_is_counted_and_its_row_written_as_it_came() {
    let nights = Nights::second();
    // Last night's output is tonight's input.
    let scored = nights.place.text("scored.csv");
    nights.place.write("users.csv", &scored);
    let done = nights.run(&["--no-ledger"]);
    nights.changed(1, 2);
    let summary = nights.place.json("summary.json");
    assert_eq!(summary["changes"]["path"], "changes.csv");
    done.exits(0)
        .says("approve → review 4, review → block 3, block → approve 1")
        .silent_about("approve → block");
    assert_eq!(
        nights.place.text("scored.csv").lines().count(),
        1 + USERS.len()
    );
}

#[test]
fn cells_are_compared_whatever_quotes_and_line_ends_they_stand_in() {
    let server = Server::good();
    let decisions = ["A", "B", "C", "D"].map(|name| Verdict::of(name).decision);
    let other = DECISIONS.iter().find(|word| **word != decisions[2]);
    let csv = format!(
        "\u{feff}name;note;decision;email;ip;user_agent;risk_score;transaction_id\r\n\
        A;x;\"{}\";a@x.org;192.0.2.1;u;\"4.20\";\r\n\
        B;x;;b@x.org;192.0.2.1;u;{};\r\n\
        \r\n\
        \"C\";\"x\r\n;\";\"{}\";c@x.org;192.0.2.1;\"u\";;t\r\n\
        D;x;;d@x.org;192.0.2.1;u;;\r\n",
        decisions[0],
        Verdict::of("B").score,
        other.unwrap(),
    );
    let place = Place::with("users.csv", &csv);
    // No ledger has paid for the verdicts of the input.
    let done = compared(&place, &server).args("--fresh").done();
    // The first by its decision, the second, which has a score alone, by tonight's thresholds.
    done.exits(0);
    let changes = place.text("changes.csv");
    let start = format!("\u{feff}{FRONT}name,").replace(',', ";");
    assert!(changes.starts_with(&start), "{changes}");
    let (_, row) = changes.split_once("\r\n").unwrap();
    let own = csv.split_once("\r\n\r\n").unwrap().1;
    let own = own.split_once("\r\nD").unwrap().0;
    assert!(
        row.starts_with("3;") && row.ends_with(&format!(";{own}\r\n")),
        "{changes}"
    );
}

#[test]
fn when_nothing_changed_or_nothing_can_be_compared_the_file_is_there_and_says_so() {
    let last = users::scored(&users::csv(5));
    let header = last.lines().next().unwrap();
    for (server, code, compared_rows) in [
        (Server::good(), 0, 5),
        // A row that fails tonight is not compared.
        (Server::start(|_| status(422)), 1, 0),
    ] {
        let place = Place::with("users.csv", &last);
        let done = compared(&place, &server)
            .args("--keep-going --fresh")
            .exits(code);
        done.silent_about("see changes.csv");
        assert_eq!(place.text("changes.csv"), format!("{FRONT}{header}\n"));
        let drift = place.json("summary.json")["drift"].clone();
        assert_eq!(
            drift["compared"].as_u64().unwrap_or_default(),
            compared_rows
        );
    }
}

#[test]
fn objects_are_compared_and_have_five_more_members() {
    let line = |name: &str, old: &str| users::object(name).replacen('}', &format!(",{old}}}"), 1);
    let Verdict {
        score, decision, ..
    } = Verdict::of("Bob");
    let other = DECISIONS.iter().find(|word| **word != decision).unwrap();
    let escaped = format!("\\u{:04x}{}", other.as_bytes()[0], &other[1..]);
    let old = format!(r#""transaction_id":null,"risk_score":null,"decision": "{escaped}" "#);
    let lines = [
        line("Ann", &Verdict::of("Ann").members()[1..]),
        line("Bob", &old),
        users::object("Eve"),
    ];
    let (server, place) = (Server::good(), Place::with("users.jsonl", lines.join("\n")));
    let args = "users.jsonl -o scored.jsonl --fresh --changes changes.jsonl";
    place.run(&server, args).exits(0);
    let members = format!(
        r#","change_row":2,"old_decision":"{other}","old_score":null,"new_decision":"{decision}","new_score":{score}}}"#
    );
    let expected = format!("{}{members}\n", lines[1].strip_suffix('}').unwrap());
    assert_eq!(place.text("changes.jsonl"), expected);
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
        let summary = nights.place.json("summary.json");
        assert!(summary["drift"].is_null(), "{summary}");
        assert_eq!(nights.server.calls(), calls);
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
