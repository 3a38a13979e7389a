//! The column with the reason of each row without a verdict (`--reason-column`).

use std::fs;

use crate::support::process::{Done, Place};
use crate::support::server::{Action, Request, Server, good, status};
use crate::support::users::{self, COLUMNS, EMPTY, NULLS, Verdict, object};

const HEADER: &str = "name,email,ip,user_agent";

/// Rejects the user with this name.
fn refusing(name: &'static str) -> Server {
    Server::start(move |request: &Request| refuse(request, name))
}

fn refuse(request: &Request, name: &str) -> Action {
    if request.name() == name {
        status(422)
    } else {
        good(request)
    }
}

/// Scores this file with a column `why` for reasons. Returns the output.
fn scored(name: &str, input: impl AsRef<[u8]>, args: &[&str]) -> Vec<u8> {
    let (place, server) = (Place::with(name, input), refusing("Bad"));
    let program = place.run(&server, [name, "-o", "out", "--reason-column", "why"]);
    program.args(args).done().exits(1);
    place.read("out")
}

/// The cells of a scored row: no reason.
fn cells(name: &str, delimiter: char) -> String {
    format!("{}{delimiter}", Verdict::of(name).cells(delimiter))
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
    let args = ["--column", "level=/summary/risk_level"];
    let written = scored("users.csv", csv, &args);
    assert_eq!(String::from_utf8(written).unwrap(), expected);
}

#[test]
fn every_kind_of_file_has_it() {
    // Without a header, it comes last.
    let (a, empty) = (cells("A", ';'), EMPTY.replace(',', ";"));
    let args = [
        "--no-header",
        "--map=name=1",
        "--map=email=2",
        "--map=ip=3",
        "--map=user_agent=4",
    ];
    let written = scored("users.csv", "A;a@x.org;::1;u\nBad;b@x.org;::1;u\n", &args);
    let expected = format!("A;a@x.org;::1;u{a}\nBad;b@x.org;::1;u{empty};refused\n");
    assert_eq!(String::from_utf8(written).unwrap(), expected);

    let lines = format!("{}\n{}\n{{}}\n[1]\n", object("A"), object("Bad"));
    let written = String::from_utf8(scored("users.jsonl", lines, &[])).unwrap();
    let (a, bad) = (object("A"), object("Bad"));
    let (a, bad) = (a.trim_end_matches('}'), bad.trim_end_matches('}'));
    let expected = format!(
        "{a}{},\"why\":null}}\n{bad}{NULLS},\"why\":\"refused\"}}\n\
         {{{},\"why\":\"missing_name\"}}\n[1]\n",
        Verdict::of("A").members(),
        &NULLS[1..]
    );
    assert_eq!(written, expected);

    // In the file's encoding, and with the prefix of all new columns.
    let args = [
        "--encoding=windows-1252",
        "--prefix=für ",
        "--reason-column=Gründe",
    ];
    let place = Place::with("users.csv", format!("{HEADER}\nBad,b@x.org,::1,u\n"));
    place.score(&refusing("Bad"), args).exits(1);
    let header = place.read("scored.csv");
    let header = header.split(|byte| *byte == b'\n').next().unwrap();
    let expected = b"f\xfcr transaction_id,f\xfcr risk_score,f\xfcr decision,f\xfcr Gr\xfcnde";
    assert!(header.ends_with(expected), "{}", header.escape_ascii());
}

/// Scores `users.csv` to `scored.csv` with a column `why`.
fn run(place: &Place, server: &Server, args: &[&str]) -> Done {
    place
        .run(server, "users.csv -o scored.csv --reason-column why")
        .args(args)
        .done()
}

#[test]
fn a_run_that_was_stopped_and_a_retry_put_it_in_the_same_place() {
    let csv = users::named(["A", "Bad", "B", "C"]);
    let with_reasons = |bad: &str| {
        let scored = users::scored_without(&csv, |name| name == "Bad" && !bad.is_empty());
        let lines = scored.lines().enumerate().map(|(row, line)| match row {
            0 => format!("{line},why\n"),
            2 => format!("{line},{bad}\n"),
            _ => format!("{line},\n"),
        });
        lines.collect::<String>()
    };
    let server = Server::start(|request| match request.attempt {
        1 => refuse(request, "Bad"),
        _ => good(request),
    });
    let place = Place::with("users.csv", &csv);
    run(&place, &server, &["--max-calls", "3", "-c", "1"]).exits(5);
    run(&place, &server, &[]).exits(1);
    assert_eq!(place.text("scored.csv"), with_reasons("refused"));
    assert_eq!(server.calls(), 4);
    run(&place, &server, &["--retry-failed"]).exits(0);
    assert_eq!(place.text("scored.csv"), with_reasons(""));
    assert_eq!(server.calls(), 5);
}

#[test]
fn part_files_have_it_too() {
    let place = Place::new();
    fs::create_dir(place.path("parts")).unwrap();
    place.write("parts/a.csv", users::named(["A", "Bad"]));
    place.write("parts/b.jsonl", object("Bad") + "\n");
    let server = refusing("Bad");
    let args = "parts/* --output-dir scored --reason-column why";
    place.run(&server, args).done().exits(1);
    let written = place.text("scored/a.csv");
    assert!(written.ends_with(",,,,refused\n"), "{written}");
    let written = place.text("scored/b.jsonl");
    assert!(
        written.ends_with("\"decision\":null,\"why\":\"refused\"}\n"),
        "{written}"
    );
}

#[test]
fn last_nights_reasons_are_replaced_like_the_verdict() {
    let first = users::named(["A", "Bad"]);
    let place = Place::with("users.csv", &first);
    run(&place, &refusing("Bad"), &[]).exits(1);
    // Tonight it is another user.
    place.write("users.csv", place.read("scored.csv"));
    let done = run(&place, &refusing("A"), &["--overwrite", "--fresh"]);
    done.exits(1)
        .says("replacing the columns `transaction_id`, `risk_score`, `decision`, `why`");
    let scored = users::scored_without(&first, |name| name == "A");
    let lines: Vec<_> = scored.lines().collect();
    let expected = format!("{},why\n{},refused\n{},\n", lines[0], lines[1], lines[2]);
    assert_eq!(place.text("scored.csv"), expected);

    // The same in JSON.
    let line = format!(
        "{}{},\"why\":null}}\n",
        object("A").trim_end_matches('}'),
        NULLS
    );
    let again = String::from_utf8(scored_lines(&line, "A")).unwrap();
    assert_eq!(again, line.replace("\"why\":null", "\"why\":\"refused\""));
    let again = String::from_utf8(scored_lines(&again, "")).unwrap();
    let a = object("A");
    let verdict = Verdict::of("A").members();
    assert_eq!(
        again,
        format!("{}{verdict},\"why\":null}}\n", a.trim_end_matches('}'))
    );
}

/// Scores lines of JSON while this user is refused.
fn scored_lines(lines: &str, bad: &'static str) -> Vec<u8> {
    let (place, server) = (Place::with("users.jsonl", lines), refusing(bad));
    let args = "users.jsonl -o out --reason-column why";
    let done = place.run(&server, args).done();
    done.exits(i32::from(!bad.is_empty()));
    place.read("out")
}

#[test]
fn a_column_that_rescore_did_not_write_is_never_replaced() {
    let server = Server::good();
    let ours = Verdict::of("A").cells(',');
    for (columns, cells, args, words) in [
        (",why", ",because", &[][..], "columns are replaced only if"),
        // Its own columns are there, but this one is somebody's.
        (
            &*format!("{COLUMNS},why"),
            &*format!("{ours},because"),
            &[],
            "the one in row 1",
        ),
        (
            "",
            "",
            &["--column", "why=/x"],
            "two new columns would have the name `why`",
        ),
        (
            "",
            "",
            &["--reason-column", "Decision"],
            "two new columns would have the name `Decision`",
        ),
        ("", "", &["--reason-column", "email"], "the field `email`"),
        (
            "",
            "",
            &["--reason-column", " "],
            "the column name is missing",
        ),
    ] {
        let place = Place::with(
            "users.csv",
            format!("{HEADER}{columns}\nA,a@x.org,::1,u{cells}\n"),
        );
        let program = place.scoring(&server);
        let why: &[&str] = if args.contains(&"--reason-column") {
            &[]
        } else {
            &["--reason-column", "why"]
        };
        let done = program.args(why).args(args).done();
        done.exits(2).says(words).silent_about("because");
        if !columns.is_empty() {
            done.says("give `--reason-column` another name");
        }
        assert_eq!(place.names(), ["users.csv"]);
        // A check says the same.
        let check = place.rescore("check users.csv").args(why).args(args);
        check.done().exits(2).says(words);
    }
    assert_eq!(server.calls(), 0);
    // A row behind those that are looked at first fails, and keeps what is somebody's.
    let row = format!("A,a@x.org,::1,{},t-1,1.0,approve,\n", "u".repeat(50_000));
    let many = row.repeat(100);
    let csv = format!("{HEADER}{COLUMNS},why\n{many}B,b@x.org,::1,u,t-1,1.0,approve,because\n");
    let written =
        String::from_utf8(scored("users.csv", csv, &["--rejects", "rejects.csv"])).unwrap();
    assert!(written.ends_with("\nB,b@x.org,::1,u,t-1,1.0,approve,because\n"));
}

#[test]
fn decide_and_report_read_such_files() {
    let place = Place::with("users.csv", users::named(["A", "Bad", "B"]));
    let server = Server::start(|request| match request.attempt {
        1 => refuse(request, "Bad"),
        _ => good(request),
    });
    run(&place, &server, &[]).exits(1);
    let before = place.text("scored.csv");
    let decide = "decide scored.csv -o decided.csv --approve-max 10";
    place
        .rescore(decide)
        .args("--review-max 10")
        .done()
        .exits(0);
    let expected = before
        .replace("review", "approve")
        .replace("block", "approve");
    assert_eq!(place.text("decided.csv"), expected);
    place.write("earlier.csv", &before);
    run(&place, &server, &["--retry-failed"]).exits(0);
    let report = "report scored.csv -o page.html --against earlier.csv --key email";
    place
        .rescore(report)
        .done()
        .exits(0)
        .silent_about("warning");
    let page = place.text("page.html");
    assert!(page.contains("0 of 2 decisions changed"), "{page}");

    // Without a header, the verdict's columns would have to be the last ones.
    let bare: String = before
        .lines()
        .skip(1)
        .map(|line| format!("{line}\n"))
        .collect();
    place.write("bare.csv", bare);
    let decide = "decide bare.csv -o x.csv --no-header";
    place
        .rescore(decide)
        .done()
        .exits(2)
        .says("is not a scored file");
}
