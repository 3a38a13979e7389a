//! Whatever is in the files, and whatever the settings and earlier runs are, a run makes as many calls as it says before the
//! first one, and as a check says.
//!
//! The test prints its seed; `RESCORE_TEST_SEED` repeats it.

use std::fmt::Write as _;
use std::fs;

use fastrand::Rng;
use serde_json::json;

use crate::support::chance;
use crate::support::ledger_file::age;
use crate::support::process::Place;
use crate::support::server::{Server, good, ok, status, user};
use crate::support::users;

/// Enough that each setting meets most others, in a few seconds.
const CASES: usize = 10;
const TWO_DAYS: i64 = 2 * 86_400_000;

#[derive(Debug)]
enum Form {
    Plain,
    /// Other bytes, and the same request.
    Padded,
    Unsendable,
}

#[derive(Debug)]
struct Row {
    user: usize,
    form: Form,
    group: &'static str,
}

#[derive(Debug)]
struct Case {
    /// The rows of each input.
    inputs: Vec<Vec<Row>>,
    ending: &'static str,
    /// An earlier run has asked about this many users, of whom the first ones are those of a run two days ago.
    known: usize,
    aged: usize,
    options: String,
}

impl Case {
    fn any(chance: &mut Rng) -> Self {
        let number = if chance.bool() { 1 } else { chance.usize(2..4) };
        let inputs = { 0..number }.map(|_| rows(chance)).collect();
        let known = chance.usize(..20);
        Self {
            inputs,
            ending: pick(chance, &["csv", "csv.gz", "jsonl"]),
            known,
            aged: if chance.bool() {
                chance.usize(..=known)
            } else {
                0
            },
            options: options(chance, number == 1),
        }
    }

    /// Writes the inputs; the arguments that name them and their outputs.
    fn write(&self, place: &Place) -> String {
        fs::create_dir(place.path("in")).unwrap();
        for (number, rows) in self.inputs.iter().enumerate() {
            let text = if self.ending == "jsonl" {
                rows.iter().map(Row::object).collect()
            } else {
                let rows: String = rows.iter().map(Row::line).collect();
                format!("name,email,ip,user_agent,group\n{rows}")
            };
            let bytes = match self.ending {
                "csv.gz" => users::gzip(&text),
                _ => text.into_bytes(),
            };
            place.write(&format!("in/{number}.{}", self.ending), bytes);
        }
        match &*self.inputs {
            [_] => format!("in/0.{ending} -o out.{ending}", ending = self.ending),
            _ => "in/* --output-dir out".to_owned(),
        }
    }
}

fn pick(chance: &mut Rng, among: &[&'static str]) -> &'static str {
    among[chance.usize(..among.len())]
}

/// About every other row repeats an earlier user.
fn rows(chance: &mut Rng) -> Vec<Row> {
    let row = |chance: &mut Rng| Row {
        user: chance.usize(..40),
        form: match chance.u8(..10) {
            0 => Form::Unsendable,
            1..4 => Form::Padded,
            _ => Form::Plain,
        },
        group: pick(chance, &["a", "a", "b"]),
    };
    { 0..chance.usize(..60) }.map(|_| row(chance)).collect()
}

/// Options that change the count.
fn options(chance: &mut Rng, is_single: bool) -> String {
    let number = |chance: &mut Rng| chance.usize(1..30);
    // Rows that are refused must not stop a run.
    let mut options = "--keep-going".to_owned();
    let mut ledger = pick(chance, &["", "--fresh", "--max-age 1d", "--no-ledger"]);
    if is_single && chance.bool() {
        write!(options, " --limit {}", number(chance)).unwrap();
    }
    if is_single && chance.bool() {
        write!(options, " --sample {}%", number(chance) * 3).unwrap();
    }
    // A retry is for whole inputs.
    if options == "--keep-going" && chance.bool() {
        ledger = "--retry-failed";
    }
    if chance.bool() {
        options += " --only group=a";
    }
    match chance.u8(..6) {
        0 => write!(options, " --max-calls {}", number(chance)).unwrap(),
        // Without a ledger nobody knows what other runs of the day have spent.
        1 if ledger != "--no-ledger" => {
            write!(options, " --max-calls {}/day", number(chance)).unwrap();
        }
        2 => write!(options, " --price 0.01 --max-cost 0.{:02}", number(chance)).unwrap(),
        _ => {}
    }
    format!("{options} {ledger}")
}

impl Row {
    fn name(&self) -> String {
        match self.form {
            Form::Padded => format!("  User  {} ", self.user),
            _ => format!("User {}", self.user),
        }
    }

    fn email(&self) -> String {
        let domain = match self.form {
            Form::Padded => "EXAMPLE.com",
            _ => "example.com",
        };
        format!("u{}@{domain}", self.user)
    }

    const fn ip(&self) -> &'static str {
        match self.form {
            Form::Unsendable => "nowhere",
            _ => "192.0.2.1",
        }
    }

    fn line(&self) -> String {
        let (name, email, ip) = (self.name(), self.email(), self.ip());
        format!("{name},{email},{ip},curl/8,{}\n", self.group)
    }

    fn object(&self) -> String {
        let object = json!({
            "group": self.group, "user_agent": "curl/8", "ip": self.ip(), "email": self.email(), "name": self.name(),
        });
        format!("{object}\n")
    }
}

/// Refuses some users, and has no score for some others.
fn server() -> Server {
    Server::start(|request| match user(request) {
        user if user % 7 == 3 => status(422),
        user if user % 7 == 5 => ok("{}"),
        _ => good(request),
    })
}

/// Has earlier runs ask about the first users.
fn ask_before(case: &Case, place: &Place, server: &Server) {
    for known in [case.aged, case.known] {
        if known == 0 {
            continue;
        }
        let plain = |user| Row {
            user,
            form: Form::Plain,
            group: "",
        };
        let rows: String = { 0..known }.map(|user| plain(user).line()).collect();
        place.write(
            "before.csv",
            format!("name,email,ip,user_agent,group\n{rows}"),
        );
        let run = "before.csv -o known.csv --keep-going --overwrite";
        place.run(server, run).done().exits_with_one_of(&[0, 1]);
        if known == case.aged {
            age(&place.path("rescore.ledger"), server, TWO_DAYS);
        }
    }
}

/// Checks, runs, and compares what both say with the calls that the server counts.
fn compare(case: &Case, place: &Place, server: &Server, arguments: &str) {
    let check = format!("check --json --service-id test {arguments} --base-url");
    let check = place.rescore(&*check).arg(server.url()).done();
    check.exits_with_one_of(&[0, 1]);
    let said = check.json();
    let before = server.calls();
    let done = place
        .run(server, &*format!("{arguments} --summary s.json"))
        .done();
    done.exits_with_one_of(&[0, 1, 5]);
    let code = done.code();
    let calls = (server.calls() - before) as u64;
    let summary = place.json("s.json");
    let expected = summary["expected"]["calls"].clone();
    let words = format!("the run says {expected} calls, makes {calls}, for {case:?}, as {said}");
    done.check(expected == said["calls"], &words);
    if code == Some(0) || code == Some(1) {
        done.check(summary["known"] == said["known"], "known");
        done.check(summary["rows"]["read"] == said["rows"]["read"], "rows");
    }
    let left = said["calls_left"].as_u64().unwrap_or(u64::MAX);
    done.check(expected.as_u64().unwrap().min(left) == calls, &words);
}

#[test]
fn a_run_makes_as_many_calls_as_it_says_before_the_first_one() {
    let mut chance = chance();
    for _ in 0..CASES {
        let (case, place, server) = (Case::any(&mut chance), Place::new(), server());
        let inputs = case.write(&place);
        ask_before(&case, &place, &server);
        compare(
            &case,
            &place,
            &server,
            &format!("{inputs} {}", case.options),
        );
        // Again over all rows, or over what the first start has left.
        let continues = case.inputs.len() > 1 && !case.options.contains("--no-ledger");
        let again = if continues && chance.bool() {
            ""
        } else {
            "--overwrite"
        };
        let arguments = format!("{inputs} {} {again}", case.options);
        compare(&case, &place, &server, &arguments);
    }
}
