//! Columns of the input that have our names: those of an earlier run are replaced, and all others stay as they are.

use std::io::Write;

use serde_json::Value;

use crate::support::process::{Done, Place};
use crate::support::server::{Server, ok};
use crate::support::users::{self, COLUMNS, Verdict, object};

const HEADER: &str = "name,email,ip,user_agent";

/// `users.jsonl` to `scored.jsonl`.
fn score_lines<const N: usize>(place: &Place, server: &Server, args: [&str; N]) -> Done {
    let program = place.run(server, "users.jsonl -o scored.jsonl");
    program.args(args).done()
}

/// An object for a user with further members before its brace.
fn with(name: &str, members: &str) -> String {
    object(name).replacen('}', &format!(",{members}}}"), 1)
}

#[test]
fn a_column_that_rescore_did_not_write_is_refused_before_the_first_call() {
    let server = Server::good();
    let country = "country=/summary/risk_level";
    for (columns, cells, args, words) in [
        (",country", ",FR", &["--column", country][..], "`country`"),
        (",decision", ",manually approved by Eve", &[], "`decision`"),
        (
            ",decision",
            ",approve",
            &[],
            "`transaction_id`, `risk_score`, `decision`",
        ),
        (",risk_score,decision", ",1.0,approve", &[], "`risk_score`"),
        (
            COLUMNS,
            ",t-1,1.0,manually approved by Eve",
            &[],
            "the one in row 1",
        ),
        (COLUMNS, ",t-1,low,approve", &[], "`risk_score`"),
        (COLUMNS, ",=1+1,1.0,approve", &[], "`transaction_id`"),
    ] {
        let place = Place::with(
            "users.csv",
            format!("{HEADER}{columns}\nA,a@x.org,::1,u{cells}\n"),
        );
        let done = place.score(&server, args);
        done.exits(2)
            .says("does not come from rescore")
            .says(words)
            .says("`--prefix rescore_`")
            .silent_about("Eve");
        if !args.is_empty() {
            done.says("give `--column` another name");
        }
        assert_eq!(place.names(), ["users.csv"]);
    }
    assert_eq!(server.calls(), 0);
}

#[test]
fn a_name_that_a_field_is_taken_from_is_refused() {
    let server = Server::good();
    let csv = format!("{HEADER}\nA,a@x.org,::1,u\n");
    let (column, line) = ("email=/summary/risk_level", format!("{}\n", object("A")));
    let place = Place::with("users.csv", &csv);
    let args = ["--column", column];
    let done = place.score(&server, args);
    done.exits(2).says("the field `email`").says("--prefix");
    assert_eq!(place.names(), ["users.csv"]);

    let place = Place::with("users.jsonl", &line);
    let done = score_lines(&place, &server, args);
    done.exits(2).says("the field `email`").says("--prefix");
    assert_eq!(place.names(), ["users.jsonl"]);
    // The member that a pointer goes through is a source as well.
    let place = Place::with("users.jsonl", &line);
    let args = ["--map", "ip=/device/ip", "--column", "device=/summary/x"];
    let done = score_lines(&place, &server, args);
    done.exits(2).says("the field `ip`");
    assert_eq!(server.calls(), 0);
    // A prefix makes all names different.
    let place = Place::with("users.csv", &csv);
    let args = ["--column", column, "--prefix", "risk of "];
    place.score(&server, args).exits(0);
    let verdict = Verdict::of("A").cells(',');
    assert_eq!(
        place.text("scored.csv"),
        format!(
            "{HEADER},risk of transaction_id,risk of risk_score,risk of decision,risk of email\nA,a@x.org,::1,u{verdict},0\n"
        )
    );
}

#[test]
fn with_a_prefix_the_column_of_the_user_stays() {
    let server = Server::good();
    let (eve, cells) = ("manually approved by Eve", Verdict::of("A").cells(','));
    let csv = format!("{HEADER},decision\nA,a@x.org,::1,u,{eve}\n");
    let place = Place::with("users.csv", csv);
    let args = ["--prefix", "rescore_"];
    place.score(&server, args).exits(0);
    let header = ",decision,rescore_transaction_id,rescore_risk_score,rescore_decision";
    let expected = format!("{HEADER}{header}\nA,a@x.org,::1,u,{eve}{cells}\n");
    assert_eq!(place.text("scored.csv"), expected);
    // The next night, with the same command.
    let done = place
        .run(&server, "scored.csv -o again.csv")
        .args(args)
        .done();
    done.exits(0).says("replacing the columns `rescore_transaction_id`, `rescore_risk_score`, `rescore_decision` of the input");
    assert_eq!(place.text("again.csv"), place.text("scored.csv"));
}

#[test]
fn last_nights_output_is_scored_again_without_further_options_and_a_line_says_so() {
    let server = Server::start(|request| {
        ok(&crate::support::server::good_body(&request.name())
            .replace("\"risk_level\":0", "\"risk_level\":\"=low\""))
    });
    let column = "--column level=/summary/risk_level";
    // A row that fails, a ragged one, and one that the service says nothing of.
    let csv = format!("{}9,,u@x.org,::1,u\nragged\n", users::csv(9));
    let place = Place::with("1.csv", csv);
    let said =
        "replacing the columns `transaction_id`, `risk_score`, `decision`, `level` of the input";
    for (from, to) in [("1.csv", "2.csv"), ("2.csv", "3.csv"), ("3.csv", "4.csv")] {
        let done = place.run(&server, [from, "-o", to]).args(column).done();
        done.exits(1);
        done.check(done.stderr.contains(said) == (from != "1.csv"), said);
    }
    assert_eq!(place.text("4.csv"), place.text("2.csv"));
    let lines = format!("{}\n{{}}\nno json\n{}\n", object("A"), object("B"));
    place.write("1.jsonl", lines);
    for (from, to) in [("1.jsonl", "2.jsonl"), ("2.jsonl", "3.jsonl")] {
        let done = place.run(&server, [from, "-o", to]).args(column).done();
        done.exits(1);
        done.check(done.stderr.contains(said) == (from != "1.jsonl"), said);
    }
    assert_eq!(place.text("3.jsonl"), place.text("2.jsonl"));
}

#[test]
fn a_ragged_row_gets_empty_cells_after_its_own_and_stays_as_it_is_where_columns_are_replaced() {
    let (place, server) = (Place::new(), Server::good());
    place.write(
        "users.csv",
        format!("{HEADER}\nA,a@x.org,::1,u\nB,b@x.org\n"),
    );
    place.score(&server, "").exits(1);
    let cells = Verdict::of("A").cells(',');
    let expected = format!("{HEADER}{COLUMNS}\nA,a@x.org,::1,u{cells}\nB,b@x.org,,,\n");
    assert_eq!(place.text("scored.csv"), expected);
    let again = place.run(&server, "scored.csv -o again.csv").done();
    again.exits(1).says("replacing the columns");
    assert_eq!(place.text("again.csv"), expected);
}

#[test]
fn a_header_alone_with_all_three_names_is_ours() {
    let (place, server) = (Place::new(), Server::good());
    place.write("users.csv", format!("{HEADER}{COLUMNS}\n"));
    place.score(&server, "").exits(0).says("replacing");
    assert_eq!(place.text("scored.csv"), place.text("users.csv"));
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
    let place = Place::with("users.csv", format!("{start}{blank}{eve}{end}"));
    place.score(&server, "").exits(1);
    let scored = |name: &str| row(name, &Verdict::of(name).cells(','));
    let expected = format!(
        "{HEADER}{COLUMNS}\n{}{blank}{eve}{}",
        scored("A"),
        scored("B")
    );
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
    running.done().exits(1);
    assert_eq!(place.text("scored.csv"), expected.replace(&blank, ""));
}

#[test]
fn a_member_that_rescore_did_not_write_is_refused_before_the_first_call() {
    let server = Server::good();
    for (members, words) in [
        (r#""decision":"manually approved by Eve""#, "`decision`"),
        (
            r#""decision":"approve""#,
            "  members are replaced only if `transaction_id`, `risk_score`, `decision` are all there",
        ),
        (
            r#""d\u0065cision":"approve","risk_score":1.0"#,
            "are all there",
        ),
        (
            r#""transaction_id":"t","risk_score":1.0,"decision":"Eve""#,
            "the one in row 2",
        ),
        (
            r#""transaction_id":"t","risk_score":"1.0","decision":null"#,
            "`risk_score`",
        ),
        (
            r#""transaction_id":7,"risk_score":1.0,"decision":null"#,
            "`transaction_id`",
        ),
        (
            r#""transaction_id":{},"risk_score":null,"decision":null"#,
            "`transaction_id`",
        ),
    ] {
        let lines = format!("{}\n{}\n", object("A"), with("B", members));
        let place = Place::with("users.jsonl", lines);
        let done = score_lines(&place, &server, []);
        done.exits(2)
            .says("does not come from rescore")
            .says(words)
            .says("--prefix")
            .silent_about("Eve");
        assert_eq!(place.names(), ["users.jsonl"]);
    }
    let place = Place::with("users.jsonl", with("A", r#""level":1"#));
    let done = score_lines(&place, &server, ["--column", "level=/summary/risk_level"]);
    done.exits(2).says("give `--column` another name");
    assert_eq!(server.calls(), 0);
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
        let mut some: Vec<_> = (0..members.len())
            .filter(|member| chosen & (1 << member) != 0)
            .map(|member| members[member])
            .collect();
        if chosen % 3 == 0 {
            some.reverse();
        }
        let name = format!("User {chosen}");
        let user = object(&name);
        let user = user.trim_matches(['{', '}']);
        let mut all = some.clone();
        all.insert(some.len() / 2, user);
        objects.push(format!("{{{}}}", all.join(",")));
        // Not to be sent.
        objects.push(format!("{{ {} }} ", some.join(" , ")));
        objects.push(format!("{{{}", all.join(",")));
    }
    objects
}

#[test]
fn with_any_members_in_an_object_the_line_that_comes_out_is_json() {
    let server = Server::good();
    let objects = objects_of_all_kinds();
    // As many rows as the file is judged by, none of them with a name of ours.
    let first = format!("{}\n", object("A")).repeat(100);
    let input = format!("{first}{}\n", objects.join("\n"));
    let is_json = |line: &str| serde_json::from_str::<Value>(line).is_ok();
    let place = Place::with("users.jsonl", &input);
    score_lines(&place, &server, ["--rejects", "rejects.jsonl"]).exits(1);
    let rejects = place.text("rejects.jsonl");
    let untouched: Vec<usize> = rejects
        .lines()
        .map(|reject| serde_json::from_str::<Value>(reject).unwrap())
        .filter(|reject| reject["reject_reason"] == "existing_columns")
        .map(|reject| usize::try_from(reject["reject_row"].as_u64().unwrap()).unwrap())
        .collect();
    assert!(untouched.len() > 20, "{}", untouched.len());
    let output = place.text("scored.jsonl");
    assert_eq!(output.lines().count(), input.lines().count());
    for (row, (before, after)) in (1..).zip(input.lines().zip(output.lines())) {
        assert_eq!(is_json(before), is_json(after), "{before}\n{after}");
        if untouched.contains(&row) {
            assert_eq!(before, after);
        }
    }
}

#[test]
fn a_later_object_that_must_not_be_touched_keeps_its_old_verdict() {
    let server = Server::good();
    let first = format!("{}\n", object("A")).repeat(100);
    let line = with("B", r#""decision":"approve""#);
    let place = Place::with("users.jsonl", format!("{first}{line}\n"));
    score_lines(&place, &server, []).exits(1);
    assert_eq!(
        place.text("scored.jsonl").lines().last(),
        Some(line.as_str())
    );
    let rejects = place.text("scored.rejects.jsonl");
    assert!(
        rejects.contains(r#""reject_reason":"existing_columns""#),
        "{rejects}"
    );
}
