//! Decisions that changed since an earlier run: the matrix of the summary and the rows of `--changes`.

use serde_json::{Value, json};

use crate::support::process::{Place, Program};
use crate::support::server::{Server, good, status};
use crate::support::users::{self, COLUMNS, Verdict};

pub(super) const FRONT: &str = "change_row,old_decision,old_score,new_decision,new_score,";

pub(super) const DECISIONS: [&str; 3] = ["approve", "review", "block"];

/// Last night's output for `User 1` to `User n`, in which every third user had another decision than tonight, and the rows
/// that `--changes` must write.
pub(super) struct Night {
    pub(super) input: String,
    pub(super) changes: String,
    pub(super) drift: Value,
}

impl Night {
    pub(super) fn of(n: usize) -> Self {
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
pub(super) fn compared<'a>(place: &'a Place, server: &'a Server) -> Program<'a> {
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
fn cells_are_compared_whatever_quotes_and_delimiters_they_stand_in() {
    let server = Server::good();
    let decisions = ["A", "B", "C", "D"].map(|name| Verdict::of(name).decision);
    for delimiter in [';', ':', '\t'] {
        let csv = format!(
            "\u{feff}name|note|decision|email|ip|user_agent|risk_score|transaction_id\r\n\
            A|x|\"{}\"|a@x.org|192.0.2.1|u|\"4.20\"|\r\n\
            B|x||b@x.org|192.0.2.1|u|{}|\r\n\
            \r\n\
            \"C\"|\"x\r\n|\"|\"{}\"|c@x.org|192.0.2.1|\"u\"||t\r\n\
            D|x||d@x.org|192.0.2.1|u||\r\n",
            decisions[0],
            Verdict::of("B").score,
            DECISIONS
                .iter()
                .find(|word| **word != decisions[2])
                .unwrap(),
        )
        .replace('|', &delimiter.to_string());
        let place = Place::with("users.csv", &csv);
        let text = delimiter.to_string();
        let done = compared(&place, &server)
            .arg("--delimiter")
            .arg(if delimiter == '\t' { "tab" } else { &text })
            .done();
        done.exits(0).says("1 of 3 decisions changed");
        let changes = place.text("changes.csv");
        let start = format!("\u{feff}{FRONT}name,").replace(',', &text);
        assert!(changes.starts_with(&start), "{changes}");
        let (_, row) = changes.split_once("\r\n").unwrap();
        let own = csv.split_once("\r\n\r\n").unwrap().1;
        let own = own.split_once("\r\nD").unwrap().0;
        assert!(row.ends_with(&format!("{text}{own}\r\n")), "{changes}");
        assert!(row.starts_with(&format!("3{text}")), "{changes}");
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
fn a_score_alone_is_judged_by_tonights_thresholds() {
    let server = Server::good();
    let (user, Verdict { score, .. }) = ("A,a@x.org,::1,u", Verdict::of("A"));
    let header = format!("name,email,ip,user_agent{COLUMNS}");
    let csv = format!("{header}\n{user},,{score},\n");
    let place = Place::with("users.csv", &csv);
    compared(&place, &server)
        .done()
        .exits(0)
        .says("0 of 1 decision changed");
    // An old decision stays as it was, so that a change of thresholds is seen.
    place.write("users.csv", format!("{header}\n{user},,,block\n"));
    compared(&place, &server)
        .args("--overwrite --approve-max=10 --review-max=10")
        .done()
        .exits(0)
        .says("1 of 1 decision changed");
    let row = format!("\n1,block,,approve,{score},{user},,,block\n");
    assert!(place.text("changes.csv").ends_with(&row));
}

#[test]
fn when_nothing_changed_the_file_is_there_and_says_so() {
    let server = Server::good();
    let last = users::scored(&users::csv(5));
    let place = Place::with("users.csv", &last);
    compared(&place, &server)
        .done()
        .exits(0)
        .says("0 of 5 decisions changed")
        .silent_about("see changes.csv");
    let header = last.lines().next().unwrap();
    assert_eq!(place.text("changes.csv"), format!("{FRONT}{header}\n"));
    assert_eq!(place.json("summary.json")["changes"]["path"], "changes.csv");

    // Nothing to compare at all, and `--changes` was not given.
    let place = Place::with("users.csv", users::csv(5));
    let done = place.score(&server, "--summary summary.json");
    done.exits(0).silent_about("decisions changed");
    assert_eq!(place.json("summary.json")["drift"], Value::Null);
    assert_eq!(place.json("summary.json")["changes"], Value::Null);
}

#[test]
fn a_row_that_fails_tonight_is_not_compared() {
    let night = Night::of(9);
    let server = Server::start(|request| match request.name().as_str() {
        "User 3" | "User 4" => status(422),
        _ => good(request),
    });
    let place = Place::with("users.csv", &night.input);
    let done = compared(&place, &server).done();
    done.exits(1).says("2 of 7 decisions changed");
    let expected: String = night
        .changes
        .lines()
        .filter(|line| !line.contains(",User 3,"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(place.text("changes.csv"), expected);
    // Rejects and changes are two files.
    assert_eq!(place.text("scored.rejects.csv").lines().count(), 3);
}
