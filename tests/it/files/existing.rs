//! Columns of the input that have our names: those of an earlier run are replaced, and all others stay as they are.

use std::io::Write;

use serde_json::Value;

use super::{HEADER, score};
use crate::support::process::{Arguments, Done, Place};
use crate::support::server::{Server, good_body, ok};
use crate::support::users::{self, COLUMNS, Verdict, object};

/// `users.jsonl` to `scored.jsonl`.
fn score_lines<K>(lines: &str, server: &Server, args: impl Arguments<K>) -> (Place, Done) {
    let place = Place::with("users.jsonl", lines);
    let run = place.run(server, "users.jsonl -o scored.jsonl").args(args);
    let done = run.done();
    (place, done)
}

/// An object for a user with further members before its brace.
fn with(name: &str, members: &str) -> String {
    object(name).replacen('}', &format!(",{members}}}"), 1)
}

#[test]
fn with_a_prefix_the_column_of_the_user_stays() {
    let server = Server::good();
    let (eve, cells) = ("manually approved by Eve", Verdict::of("A").cells(','));
    let csv = format!("{HEADER},decision\nA,a@x.org,::1,u,{eve}\n");
    let args = "--prefix rescore_ --column email=/summary/risk_level";
    let (place, done) = score(csv, &server, args);
    done.exits(0);
    let header =
        "decision,rescore_transaction_id,rescore_risk_score,rescore_decision,rescore_email";
    let expected = format!("{HEADER},{header}\nA,a@x.org,::1,u,{eve}{cells},0\n");
    assert_eq!(place.text("scored.csv"), expected);
    // The next night, with the same command.
    let run = place.run(&server, "scored.csv -o again.csv");
    run.args(args).exits(0);
    assert_eq!(place.text("again.csv"), place.text("scored.csv"));
}

#[test]
fn last_nights_columns_get_tonights_values_in_their_place() {
    let server = Server::good();
    // Wherever the columns are; a row that fails never keeps last night's verdict.
    let csv = format!(
        "risk_score,{HEADER},decision,note,transaction_id\r\n\
        9.9,A,a@x.org,::1,u,\"block\",\"n\",t-old\r\n\
        3.0,C,c@x.org,nowhere,u,review,,t-old\r\n\
        3.0,\"D\"x,d@x.org,::1,u,review,,t-old\r\n"
    );
    let (place, done) = score(&csv, &server, "--fresh");
    done.exits(1);
    let Verdict {
        id,
        score: risk,
        decision,
    } = Verdict::of("A");
    let expected = format!(
        "risk_score,{HEADER},decision,note,transaction_id\r\n\
        {risk},A,a@x.org,::1,u,{decision},\"n\",{id}\r\n\
        ,C,c@x.org,nowhere,u,,,\r\n\
        ,\"D\"x,d@x.org,::1,u,,,\r\n"
    );
    assert_eq!(place.text("scored.csv"), expected);
    // The rejects have the row as it came, so that it can be fixed and run again.
    let reject = ",3.0,C,c@x.org,nowhere,u,review,,t-old\r\n";
    assert!(place.text("scored.rejects.csv").contains(reject));

    let old = r#""transaction_id":"t-old","risk_score":1.0,"decision":"approve""#;
    let new = r#""transaction_id":null,"risk_score":null,"decision":null"#;
    for (before, after) in [
        (
            r#"{"name":"A","name":"B","email":"a@x.org","ip":"::1","user_agent":"u","#,
            "}",
        ),
        (
            r#"{"name":"A","email":"a@x.org","ip":"nowhere","user_agent":"u","#,
            "}",
        ),
        (&*with("A", "").replace('}', ""), r#","decision":"block"}"#),
    ] {
        let (place, done) = score_lines(&format!("{before}{old}{after}\n"), &server, "");
        done.exits(1);
        let after = after.replace("\"block\"", "null");
        assert_eq!(
            place.text("scored.jsonl"),
            format!("{before}{new}{after}\n")
        );
    }
}

#[test]
fn last_nights_output_is_scored_again_without_further_options_and_a_line_says_so() {
    let server = Server::start(|request| {
        ok(&good_body(&request.name()).replace("\"risk_level\":0", "\"risk_level\":\"=low\""))
    });
    // Rows that fail, and ragged ones, are among them.
    let csv = format!("{}9,,u@x.org,::1,u\nragged\n", users::csv(9));
    let lines = format!("{}\n{{}}\nno json\n{}\n", object("A"), object("B"));
    let said =
        "replacing the columns `transaction_id`, `risk_score`, `decision`, `level` of the input";
    for (content, ending) in [(csv, "csv"), (lines, "jsonl")] {
        let place = Place::with(&format!("1.{ending}"), content);
        for night in 1..=3 {
            let files = format!("{night}.{ending} -o {}.{ending}", night + 1);
            let run = place.run(&server, &*files);
            let done = run.args("--column level=/summary/risk_level").exits(1);
            done.check(done.stderr.contains(said) == (night > 1), said);
        }
        assert_eq!(
            place.text(&format!("4.{ending}")),
            place.text(&format!("2.{ending}"))
        );
    }
    let header = format!("{HEADER}{COLUMNS}\n");
    let (place, done) = score(&header, &server, "");
    done.exits(0).says("replacing");
    assert_eq!(place.text("scored.csv"), header);
}

#[test]
fn a_later_row_with_a_value_that_rescore_never_writes_fails_and_stays_as_it_is() {
    let server = Server::good();
    let row = |name: &str, cells: &str| format!("{name},a@x.org,::1,u{cells}\n");
    let eve = row("C", ",t-1,1.0,manually approved by Eve");
    let start = format!("{HEADER}{COLUMNS}\n{}", row("A", ",t-old,9.9,block"));
    // More than the program checks before the first call.
    let blank = "\n".repeat(1_100_000);
    let end = row("B", ",,,");
    let (place, done) = score(format!("{start}{blank}{eve}{end}"), &server, "--fresh");
    done.exits(1);
    let [a, b] = ["A", "B"].map(|name| row(name, &Verdict::of(name).cells(',')));
    let expected = format!("{HEADER}{COLUMNS}\n{a}{blank}{eve}{b}");
    assert!(place.text("scored.csv") == expected);
    let rejects = place.text("scored.rejects.csv");
    let reject = rejects.lines().nth(1).unwrap();
    assert!(reject.starts_with("2,existing_columns,"), "{reject}");
    assert!(reject.ends_with(eve.trim_end()), "{reject}");
    assert_eq!(server.calls(), 2);

    // From a pipe, only the header may have come at first.
    let (reader, mut producer) = std::io::pipe().unwrap();
    let place = Place::new();
    let run = place.run(&server, "-o scored.csv --format csv");
    let running = run.stdin_from(reader).start();
    write!(producer, "{start}").unwrap();
    running.wait_for_file("scored.csv.partial", |partial| !partial.is_empty());
    write!(producer, "{eve}{end}").unwrap();
    drop(producer);
    running.exits(1);
    assert_eq!(place.text("scored.csv"), expected.replace(&blank, ""));
}

/// Objects with every combination of members with our names, in several orders, valid and invalid.
fn objects_of_all_kinds() -> Vec<String> {
    let members = [
        r#""transaction_id":"t-old""#,
        r#" "risk_score" : 1.0 "#,
        r#""d\u0065cision":"approve""#,
        r#""decision":"manually approved by Eve""#,
    ];
    let mut objects = Vec::new();
    for chosen in 0..1_u32 << members.len() {
        let is_chosen = |member: &usize| chosen & (1 << member) != 0;
        let some = (0..members.len()).filter(is_chosen);
        let mut some: Vec<_> = some.map(|member| members[member]).collect();
        if chosen % 3 == 0 {
            some.reverse();
        }
        let user = object(&format!("User {chosen}"));
        let mut all = some.clone();
        all.insert(some.len() / 2, user.trim_matches(['{', '}']));
        objects.push(format!("{{{}}}", all.join(",")));
        // Not to be sent.
        objects.push(format!("{{ {} }} ", some.join(" , ")));
        objects.push(format!("{{{}", all.join(",")));
    }
    objects
}

#[test]
fn with_any_members_in_an_object_the_line_that_comes_out_is_json_and_no_value_is_lost() {
    let server = Server::good();
    // As many rows as the file is judged by, none of them with a name of ours.
    let first = format!("{}\n", object("A")).repeat(100);
    let input = format!("{first}{}\n", objects_of_all_kinds().join("\n"));
    let is_json = |line: &str| serde_json::from_str::<Value>(line).is_ok();
    let (place, done) = score_lines(&input, &server, "");
    done.exits(1);
    let rejects = place.text("scored.rejects.jsonl");
    let untouched: Vec<_> = { rejects.lines() }
        .map(|reject| serde_json::from_str::<Value>(reject).unwrap())
        .filter(|reject| reject["reject_reason"] == "existing_columns")
        .map(|reject| reject["reject_row"].clone())
        .collect();
    assert!(untouched.len() > 20, "{}", untouched.len());
    let output = place.text("scored.jsonl");
    assert_eq!(output.lines().count(), input.lines().count());
    for (row, (before, after)) in (1..).zip(input.lines().zip(output.lines())) {
        assert_eq!(is_json(before), is_json(after), "{before}\n{after}");
        if untouched.contains(&Value::from(row)) || before.contains("Eve") {
            assert_eq!(before, after);
        }
    }
}
