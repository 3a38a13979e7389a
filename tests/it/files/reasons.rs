//! The column with the reason of each row without a verdict (`--reason-column`).

use super::HEADER;
use crate::support::process::{Arguments, Done, Place};
use crate::support::server::{Server, good, status};
use crate::support::users::{self, COLUMNS, EMPTY, NULLS, Verdict, object};

/// Rejects the user with this name, at its first attempt.
fn refusing(name: &'static str) -> Server {
    Server::start(move |request| match request.attempt {
        1 if request.name() == name => status(422),
        _ => good(request),
    })
}

/// Scores this file to `out` with a column `why` for reasons.
fn run<K>(place: &Place, server: &Server, input: &str, args: impl Arguments<K>) -> Done {
    let program = place.run(server, [input, "-o", "out", "--reason-column", "why"]);
    program.args(args).done()
}

fn scored<K>(input: &str, content: &str, args: impl Arguments<K>) -> String {
    let place = Place::with(input, content);
    run(&place, &refusing("Bad"), input, args).exits(1);
    place.text("out")
}

#[test]
fn each_row_without_a_verdict_has_its_reason_and_every_other_row_an_empty_cell() {
    let csv = format!(
        "{HEADER}\r\nA,a@x.org,::1,u\r\nB,b@x.org,,u\r\nBad,b@x.org,::1,u\r\nC,c@x.org\r\n\r\nD,d,::1,u"
    );
    let expected = format!(
        "{HEADER}{COLUMNS},level,why\r\n\
         A,a@x.org,::1,u{},0,\r\n\
         B,b@x.org,,u{EMPTY},,missing_ip\r\n\
         Bad,b@x.org,::1,u{EMPTY},,refused\r\n\
         C,c@x.org{EMPTY},,ragged\r\n\r\n\
         D,d,::1,u{EMPTY},,invalid_email",
        Verdict::of("A").cells(',')
    );
    let column = "--column level=/summary/risk_level";
    assert_eq!(scored("users.csv", &csv, column), expected);

    // Without a header, it comes last.
    let columns = "--no-header --map name=1 --map email=2 --map ip=3 --map user_agent=4";
    let csv = "A;a@x.org;::1;u\nBad;b@x.org;::1;u\n";
    let (a, empty) = (Verdict::of("A").cells(';'), EMPTY.replace(',', ";"));
    let expected = format!("A;a@x.org;::1;u{a};\nBad;b@x.org;::1;u{empty};refused\n");
    assert_eq!(scored("users.csv", csv, columns), expected);

    let (a, bad) = (object("A"), object("Bad"));
    let lines = format!("{a}\n{bad}\n{{}}\n[1]\n");
    let expected = format!(
        "{}{},\"why\":null}}\n{}{NULLS},\"why\":\"refused\"}}\n\
         {{{},\"why\":\"missing_name\"}}\n[1]\n",
        a.trim_end_matches('}'),
        Verdict::of("A").members(),
        bad.trim_end_matches('}'),
        &NULLS[1..]
    );
    assert_eq!(scored("users.jsonl", &lines, ""), expected);
}

/// The file scored, with a reason in the row of `bad`.
fn with_reasons(csv: &str, bad: &str) -> String {
    let scored = users::scored_without(csv, |name| name == bad);
    let lines = scored.lines().enumerate().map(|(row, line)| match row {
        0 => format!("{line},why\n"),
        _ if line.ends_with(EMPTY) => format!("{line},refused\n"),
        _ => format!("{line},\n"),
    });
    lines.collect()
}

#[test]
fn a_run_that_was_stopped_a_retry_and_the_next_night_put_it_in_the_same_place() {
    let csv = users::named(["A", "Bad", "B", "C"]);
    let (place, server) = (Place::with("users.csv", &csv), refusing("Bad"));
    run(&place, &server, "users.csv", "--max-calls 3 -c 1").exits(5);
    run(&place, &server, "users.csv", "").exits(1);
    let first = place.text("out");
    assert_eq!(first, with_reasons(&csv, "Bad"));
    assert_eq!(server.calls(), 4);
    run(&place, &server, "users.csv", "--retry-failed").exits(0);
    assert_eq!(place.text("out"), with_reasons(&csv, ""));
    assert_eq!(server.calls(), 5);

    // Tonight it is another user.
    place.write("tonight.csv", first);
    let done = run(&place, &refusing("A"), "tonight.csv", "--overwrite --fresh");
    done.exits(1)
        .says("replacing the columns `transaction_id`, `risk_score`, `decision`, `why`");
    assert_eq!(place.text("out"), with_reasons(&csv, "A"));

    let bad = object("Bad");
    let line = |members: &str, why: &str| {
        format!("{}{members},\"why\":{why}}}\n", bad.trim_end_matches('}'))
    };
    let good = line(&Verdict::of("Bad").members(), "null");
    let refused = line(NULLS, "\"refused\"");
    assert_eq!(scored("users.jsonl", &good, "--fresh"), refused);
    let place = Place::with("users.jsonl", refused);
    run(&place, &Server::good(), "users.jsonl", "").exits(0);
    assert_eq!(place.text("out"), good);
}

#[test]
fn a_value_that_rescore_did_not_write_stays_and_its_row_fails() {
    // Behind the rows that are looked at first.
    let row = format!("A,a@x.org,::1,{},t-1,1.0,approve,\n", "u".repeat(50_000));
    let many = row.repeat(100);
    let csv = format!("{HEADER}{COLUMNS},why\n{many}B,b@x.org,::1,u,t-1,1.0,approve,because\n");
    let written = scored("users.csv", &csv, "--fresh --rejects rejects.csv");
    assert!(written.ends_with("\nB,b@x.org,::1,u,t-1,1.0,approve,because\n"));
}

#[test]
fn decide_and_report_read_such_files() {
    let place = Place::with("users.csv", users::named(["A", "Bad", "B"]));
    let server = refusing("Bad");
    run(&place, &server, "users.csv", "").exits(1);
    let before = place.text("out");
    let decide = place.rescore("decide out -o decided.csv --approve-max 10 --review-max 10");
    decide.exits(0);
    let expected = before
        .replace("review", "approve")
        .replace("block", "approve");
    assert_eq!(place.text("decided.csv"), expected);
    place.write("earlier.csv", &before);
    run(&place, &server, "users.csv", "--retry-failed").exits(0);
    let report = place.rescore("report out -o page.html --against earlier.csv --key email");
    report.exits(0).silent_about("warning");
    let page = place.text("page.html");
    assert!(page.contains("0 of 2 decisions changed"), "{page}");
}
