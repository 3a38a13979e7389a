//! Decisions that changed since an earlier run: the matrix of the summary and the rows of `--changes`.

use std::fs;

use serde_json::{Value, json};

use crate::support::process::{Place, Program};
use crate::support::server::{Server, good, status};
use crate::support::users::{self, COLUMNS, Verdict};

const FRONT: &str = "change_row,old_decision,old_score,new_decision,new_score,";

const DECISIONS: [&str; 3] = ["approve", "review", "block"];

/// Last night's output for `User 1` to `User n`, in which every third user had another decision than tonight, and the rows
/// that `--changes` must write.
struct Night {
    input: String,
    changes: String,
    drift: Value,
}

impl Night {
    fn of(n: usize) -> Self {
        let tonight = users::csv(n);
        let header = tonight.lines().next().unwrap();
        let mut input = format!("{header}{COLUMNS}\n");
        let mut changes = format!("{FRONT}{input}");
        let mut drift = json!({"compared": n, "changed": n / 3});
        for before in DECISIONS {
            drift[before] = json!({"approve": 0, "review": 0, "block": 0});
        }
        for (row, line) in (1..).zip(tonight.lines().skip(1)) {
            let now = Verdict::of(&format!("User {row}"));
            let (before, score) = if row % 3 == 0 {
                let place = DECISIONS.iter().position(|word| *word == now.decision);
                (DECISIONS[(place.unwrap() + 1) % 3], "4.20")
            } else {
                (now.decision, now.score.as_str())
            };
            let old = format!("{line},t-old,{score},{before}\n");
            if before != now.decision {
                changes += &format!(
                    "{row},{before},{score},{},{},{old}",
                    now.decision, now.score
                );
            }
            input += &old;
            let cell = &mut drift[before][now.decision];
            *cell = (cell.as_u64().unwrap() + 1).into();
        }
        Self {
            input,
            changes,
            drift,
        }
    }
}

/// `users.csv` to `scored.csv` with a summary and changes.
fn compared<'a>(place: &'a Place, server: &'a Server) -> Program<'a> {
    place.run(
        server,
        "users.csv -o scored.csv --changes changes.csv --summary summary.json",
    )
}

#[test]
fn a_decision_that_changed_since_last_night_is_counted_and_its_row_written_as_it_came() {
    let (server, night) = (Server::good(), Night::of(30));
    let place = Place::with("users.csv", &night.input);
    let done = compared(&place, &server).done();
    done.exits(0)
        .says("10 of 30 decisions changed; see changes.csv");
    assert_eq!(
        place.text("scored.csv"),
        users::scored(&users::csv(30)).as_str()
    );
    assert_eq!(place.text("changes.csv"), night.changes);
    assert_eq!(place.json("summary.json")["drift"], night.drift);
    assert_eq!(place.json("summary.json")["changes"]["path"], "changes.csv");
    assert_eq!(
        place.names(),
        [
            "changes.csv",
            "rescore.ledger",
            "scored.csv",
            "summary.json",
            "users.csv"
        ]
    );
    // Without the five columns in front, these are lines of the input.
    for line in place.text("changes.csv").lines() {
        let own = line.splitn(6, ',').nth(5).unwrap();
        assert!(night.input.lines().any(|line| line == own), "{own}");
    }
    // Each kind of change is named with its number.
    for (before, now) in DECISIONS
        .iter()
        .flat_map(|it| DECISIONS.map(|now| (*it, now)))
    {
        let rows = night.drift[before][now].as_u64().unwrap();
        let change = format!("{before} → {now} ");
        if before != now && rows > 0 {
            done.says(&format!("{change}{rows}"));
        } else {
            done.silent_about(&change);
        }
    }
}

#[test]
fn objects_are_compared_and_have_five_more_members() {
    let server = Server::good();
    let line = |name: &str, old: &str| users::object(name).replacen('}', &format!(",{old}}}"), 1);
    let same = Verdict::of("Ann").members();
    let same = same.strip_prefix(',').unwrap();
    let other = DECISIONS
        .iter()
        .find(|word| **word != Verdict::of("Bob").decision)
        .unwrap();
    let first = other.chars().next().unwrap();
    let escaped = format!("\\u{:04x}{}", u32::from(first), &other[1..]);
    let lines = [
        line("Ann", same),
        line(
            "Bob",
            &format!(r#""transaction_id":null,"risk_score":null,"decision": "{escaped}" "#),
        ),
        line(
            "Cid",
            r#""transaction_id":null,"decision":null,"risk_score":null"#,
        ),
        users::object("Eve"),
    ];
    let place = Place::with("users.jsonl", lines.join("\n"));
    let done = place
        .run(
            &server,
            "users.jsonl -o scored.jsonl --changes changes.jsonl \
             --summary summary.json",
        )
        .done();
    done.exits(0)
        .says("1 of 2 decisions changed; see changes.jsonl");
    let Verdict {
        score, decision, ..
    } = Verdict::of("Bob");
    let members = format!(
        r#","change_row":2,"old_decision":"{other}","old_score":null,"new_decision":"{decision}","new_score":{score}}}"#
    );
    let expected = format!("{}{members}\n", lines[1].strip_suffix('}').unwrap());
    assert_eq!(place.text("changes.jsonl"), expected);
    assert_eq!(place.json("summary.json")["drift"]["compared"], 2);
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
    let done = compared(&place, &server).done();
    // The first by its decision, the second, which has a score alone, by tonight's thresholds.
    done.exits(0).says("1 of 3 decisions changed");
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
        let done = compared(&place, &server).args("--keep-going").done();
        done.exits(code).silent_about("see changes.csv");
        assert_eq!(place.text("changes.csv"), format!("{FRONT}{header}\n"));
        let drift = place.json("summary.json")["drift"].clone();
        assert_eq!(
            drift["compared"].as_u64().unwrap_or_default(),
            compared_rows
        );
    }
}

#[test]
fn a_run_that_stops_leaves_its_changes_beside_its_output() {
    let night = Night::of(12);
    // The first eight users are answered, then the credit runs out; in the second run all are answered.
    let server = Server::start(|request| match request.nth {
        9 => status(402),
        _ => good(request),
    });
    let place = Place::with("users.csv", &night.input);
    let run = || compared(&place, &server).arg("-c1").done();
    run()
        .exits(4)
        .says("2 of 8 decisions changed; see changes.csv.partial");
    let first = night.changes.lines().take(3);
    let first: String = first.map(|line| format!("{line}\n")).collect();
    assert_eq!(place.text("changes.csv.partial"), first);
    // The same command continues, and the changes are complete.
    run().exits(0);
    assert_eq!(place.text("changes.csv"), night.changes);
    assert!(!place.path("changes.csv.partial").exists());
    assert_eq!(server.calls(), 13);
    // They are not replaced by another run unless that is said.
    fs::remove_file(place.path("scored.csv")).unwrap();
    run().exits(2).says("`changes.csv` already exists");
}

#[test]
fn rows_may_go_down_a_pipe_and_changes_to_a_file() {
    let (server, night) = (Server::good(), Night::of(6));
    let place = Place::new();
    let run = place.run(&server, "--changes changes.csv.gz");
    let done = run.stdin(night.input).done();
    done.exits(0)
        .says("2 of 6 decisions changed; see changes.csv.gz");
    assert_eq!(done.stdout, users::scored(&users::csv(6)).into_bytes());
    let packed = place.read("changes.csv.gz");
    let unpacked = std::io::read_to_string(flate2::read::GzDecoder::new(packed.as_slice()));
    assert_eq!(unpacked.unwrap(), night.changes);
}
