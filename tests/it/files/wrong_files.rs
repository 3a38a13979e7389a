//! Files that are not what they seem: found before the first call, and named with what to do about it.

use std::fs::File;
use std::io::Write;

use crate::support::process::{Done, Place, Program};
use crate::support::server::Server;
use crate::support::users::{self, COLUMNS, Verdict};

/// Runs a file that must be refused: no file may be left, and no call may be made.
pub(super) fn refused<const N: usize>(name: &str, content: &[u8], args: [&str; N]) -> Done {
    let (place, server) = (Place::with(name, content), Server::good());
    let run = |program: Program<'_>| {
        let done = program.args(args).done();
        done.exits(2);
        done.check(server.calls() == 0, "no call");
        done
    };
    let done = run(place.run(&server, [name, "-o", "scored.out"]));
    done.check(place.names() == [name], "the input alone");
    // The same down a pipe.
    let file = File::open(place.path(name)).unwrap();
    run(place.run(&server, "-o scored.out").stdin_from(file));
    done
}

/// The start of a zip archive with one uncompressed file, as far as the program reads it.
fn zip(name: &str, content: &str) -> Vec<u8> {
    let mut zip = b"PK\x03\x04\x0a\0\0\0\0\0".to_vec();
    zip.resize(26, 0);
    zip.extend([u8::try_from(name.len()).unwrap(), 0, 0, 0]);
    zip.extend_from_slice(name.as_bytes());
    zip.extend_from_slice(content.as_bytes());
    zip
}

#[test]
fn a_file_of_another_kind_is_named_with_the_way_out() {
    let csv = users::csv(200);
    for (name, content, what, fix) in [
        (
            "users.zip",
            zip("users.csv", &csv),
            "cannot read `users.zip`: it is a zip archive",
            "`unzip`",
        ),
        (
            "users.xlsx",
            zip("[Content_Types].xml", "<xml>"),
            "an Excel workbook",
            "CSV UTF-8",
        ),
        // Whatever its name.
        (
            "users.csv",
            zip("xl/workbook.xml", "<xml>\n"),
            "an Excel workbook",
            "CSV UTF-8",
        ),
        (
            "users.parquet",
            b"PAR1\x15\x04\x15\n\0\0".to_vec(),
            "a Parquet file",
            "duckdb",
        ),
        (
            "users.csv",
            [csv.as_bytes(), b"9,Na\0me\n"].concat(),
            "it is not text: line 202 contains a NUL byte",
            "`tr -d '\\000'`",
        ),
    ] {
        refused(name, &content, []).says(what).says(fix);
    }
}

#[test]
fn json_that_is_not_one_object_a_line_is_named_with_the_command_that_makes_it_so() {
    let object = users::object("A");
    let pretty = object.replace(',', ",\n  ").replace('{', "{\n  ");
    for name in ["users.json", "users.jsonl", "users"] {
        for array in [
            format!("[{object},\n{object}]\n"),
            format!("[\n{object}\n]\n"),
            format!("[\n{pretty},\n{pretty}\n]\n"),
        ] {
            let done = refused(name, array.as_bytes(), []);
            done.says("it is a JSON array").says("`jq -c '.[]'`");
        }
        let done = refused(name, format!("{pretty}\n{pretty}\n").as_bytes(), []);
        done.says("its objects extend over several lines")
            .says("`jq -c .`");
    }
    // The message has no personal data.
    let done = refused(
        "users.csv",
        format!("{object}\n").as_bytes(),
        ["--format", "csv"],
    );
    done.says("as CSV: it contains JSON objects")
        .says("`--format jsonl`")
        .silent_about("example.com");
}

#[test]
fn csv_that_is_read_as_jsonl_is_refused_and_not_rejected_row_by_row() {
    let csv = users::csv(3);
    let done = refused("users.csv", csv.as_bytes(), ["--format", "jsonl"]);
    done.says("cannot read `users.csv` as JSONL")
        .says("`--format csv`");
}

#[test]
fn excels_first_line_names_the_delimiter_and_stays() {
    let server = Server::good();
    for (line, delimiter, rejects) in [
        ("sep=;\r\n", ';', "scored.rejects.csv"),
        ("\"sep=~\"\n", '~', "scored.rejects.csv"),
        ("sep=\t\r", '\t', "scored.rejects.tsv"),
    ] {
        let file = |rows: &str| rows.replace(',', &delimiter.to_string());
        for mark in ["", "\u{feff}"] {
            let csv = file("name,email,ip,user_agent\nA,a@x.org,::1,u\nB,,::1,u\n");
            let place = Place::with("users.csv", format!("{mark}{line}{csv}"));
            place.score(&server, "").exits(1);
            let cells = Verdict::of("A").cells(',');
            let scored =
                format!("name,email,ip,user_agent{COLUMNS}\nA,a@x.org,::1,u{cells}\nB,,::1,u,,,\n");
            let expected = format!("{mark}{line}{}", file(&scored));
            assert_eq!(place.text("scored.csv"), expected);
            // The rejects are for Excel, too, and count lines as the input does.
            let rejects = place.text(rejects);
            let head = format!("{mark}{line}{}", file("reject_row,reject_reason,"));
            assert!(rejects.starts_with(&head), "{rejects}");
            assert!(rejects.contains("line 4: "), "{rejects}");
        }
    }
}

#[test]
fn a_file_in_another_encoding_is_refused_before_the_first_call_with_the_command_that_converts_it() {
    let start = users::csv(100).into_bytes();
    for (row, encoding) in [
        (
            &b"101,J\xfcrgen Mu\xdfmann,j@x.org,::1,u\n"[..],
            "windows-1252",
        ),
        (
            b"101,\xcf\xf0\xe8\xe2\xe5\xf2 \xc8\xe2\xe0\xed\xee\xe2,i@x.org,::1,u\n",
            "windows-1251",
        ),
        (
            b"101,Pawe\xb3 \xa3ukasiewicz \x9cl\xb9ski,p@x.org,::1,u\n",
            "windows-1250",
        ),
    ] {
        let done = refused("users.csv", &[&start, row].concat(), []);
        done.says(&format!("line 102 is not UTF-8 and looks like {encoding}"))
            .says(&format!("`--encoding {encoding}` reads it"));
    }
}

#[test]
fn wrong_bytes_after_the_first_mib_or_in_a_file_that_is_utf_8_fail_only_their_row() {
    let server = Server::good();
    let header = "id,name,email,ip,user_agent\n";
    let wrong = b"9,J\xfcrgen,j@x.org,::1,u\n";
    let far = "\n".repeat(1 << 20);
    let right = "1,J\u{fc}rgen,j@x.org,::1,u\n2,Jos\u{e9},j@x.org,::1,u\n";
    // Also where the wrong one comes first.
    for (before, after, row) in [(&*far, "", 1), (right, "", 3), ("", right, 1)] {
        let csv = [
            header.as_bytes(),
            before.as_bytes(),
            wrong,
            after.as_bytes(),
        ]
        .concat();
        let place = Place::with("users.csv", csv);
        place.score(&server, "").exits(1);
        let rejects = String::from_utf8_lossy(&place.read("scored.rejects.csv")).into_owned();
        assert!(rejects.contains(&format!("\n{row},not_utf8,")), "{rejects}");
    }
    assert_eq!(server.calls(), 4);
}

#[test]
fn columns_in_messages_are_few_and_short() {
    let long = "x".repeat(60);
    let names: Vec<_> = (1..=30).map(|i| format!("{long}\u{1b}{i}")).collect();
    let done = refused(
        "users.csv",
        format!("c\u{1b}[2J,email,phone,{}\n", names.join(",")).as_bytes(),
        [],
    );
    let shown = format!(
        "columns: c\\u{{1b}}[2J, email, phone, {}…, ",
        "x".repeat(40)
    );
    done.says(&shown)
        .says(" … and 13 more")
        .silent_about(&"x".repeat(41));

    // A hint does not repeat a longer name either, and the name of a column that is used is cut as well.
    let long = format!("ip{}", "x".repeat(60));
    let csv = format!("name,email,ip {long},ua\nA,a@x.org,::1,u\n");
    refused("users.csv", csv.as_bytes(), []).silent_about(&"x".repeat(41));
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    let done = place.score(&server, ["--map", &format!("ip=ip {long}")]);
    done.exits(0)
        .says("ip ← `ip ipxxx")
        .silent_about(&"x".repeat(41));
}

#[test]
fn a_constant_that_no_row_can_be_sent_with_is_refused() {
    let csv = users::csv(3);
    for (set, what) in [
        ("ip=unknown", "neither IPv4 nor IPv6"),
        ("email=jane", "not an email address"),
        ("phone=0151", "not + and 7 to 15 digits"),
        ("user_agent=\u{7}", "is blank"),
    ] {
        let done = refused("users.csv", csv.as_bytes(), ["--set", set]);
        let (field, value) = set.split_once('=').unwrap();
        done.says(&format!("`--set {field}=…`: its value"))
            .says(what);
        done.says(&format!("`--map {field}=COLUMN`"));
        done.silent_about(&format!("={value}"));
    }
}

#[test]
fn a_file_whose_first_hundred_rows_all_fail_for_one_reason_is_refused() {
    let bad = |rows: usize| users::csv(rows).replace("192.0.2.", "host-");
    let done = refused("users.csv", bad(100).as_bytes(), []);
    done.says("the first 100 rows of `users.csv` all fail for the same reason, `invalid_ip`")
        .says("ip ← `ip`")
        .says("`--map FIELD=COLUMN`")
        .says("`--keep-going`")
        .silent_about("host-1");

    let server = Server::good();
    let place = Place::with("users.csv", bad(99));
    place.score(&server, "").exits(1).says("failed 99");
    // A single row that can be sent shows that the columns are right.
    let (_, good) = users::csv(1)
        .split_once('\n')
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    let place = Place::with(
        "users.csv",
        format!("{}{good}{}", bad(50), bad(100).split_once('\n').unwrap().1),
    );
    place.score(&server, "").exits(1).says("failed 150");
    let place = Place::with("users.csv", bad(120));
    place
        .score(&server, "--keep-going")
        .exits(1)
        .says("failed 120");
    assert_eq!(server.calls(), 1);
}

#[test]
fn a_pipe_that_brings_a_file_is_judged_before_the_first_call() {
    let (place, server) = (Place::new(), Server::good());
    let far = [
        users::csv(10_000).as_bytes(),
        b"9,J\xfcrgen,j@x.org,::1,u\n",
    ]
    .concat();
    assert!(far.len() > 1 << 19);
    let done = place.run(&server, "-o scored.csv").stdin(far).done();
    done.exits(2).says("line 10002 is not UTF-8");
    assert_eq!((server.calls(), place.names()), (0, vec![]));
}

#[test]
fn rows_of_a_pipe_are_judged_as_they_come() {
    let (place, server) = (Place::new(), Server::good());
    let (reader, mut producer) = std::io::pipe().unwrap();
    let run = place.run(&server, "-o scored.csv --format csv");
    let running = run.stdin_from(reader).start();
    let bad = users::csv(100).replace("192.0.2.", "host-");
    let (first, rest) = bad.split_at(bad.len() / 2);
    producer.write_all(first.as_bytes()).unwrap();
    running.wait_for_file("scored.csv.partial", |partial| partial.ends_with(b",,,\n"));
    producer.write_all(rest.as_bytes()).unwrap();
    // The run does not wait for the end of the pipe.
    running
        .done()
        .exits(2)
        .says("the first 100 rows of standard input");
    drop(producer);
    assert_eq!(server.calls(), 0);
}

#[test]
fn a_file_without_rows_gets_a_warning() {
    let server = Server::good();
    for (name, content) in [
        ("users.csv", "name,email,ip,user_agent\n"),
        ("users.jsonl", "\n"),
    ] {
        let place = Place::with(name, content);
        for more in ["", "-q"] {
            let run = place.run(&server, [name, "-o", "scored", "--overwrite"]);
            let done = run.args(more).done();
            done.exits(0).says(&format!("warning: {name} has no rows"));
        }
    }
    let place = Place::with("users.csv", users::csv(1));
    place.score(&server, "").exits(0).silent_about("warning");
}

#[test]
fn the_delimiter_of_a_pipe_does_not_depend_on_how_fast_it_is() {
    let server = Server::good();
    // The header and the first row suggest the comma, the other rows the semicolon.
    let csv = format!("a;b;c;d,e\n1,1\n{}", "A;a@x.org;::1;u\n".repeat(25));
    let map = "--map name=a --map email=b --map ip=c --set user_agent=u";
    let run = |place: &Place, from: std::io::PipeReader| {
        let program = place.run(&server, "-o scored.csv").stdin_from(from);
        program.args(map.split(' ')).start().done()
    };
    let mut outputs = Vec::new();
    for steps in [vec![csv.len()], vec![6, 20, csv.len()]] {
        let place = Place::new();
        let (reader, mut producer) = std::io::pipe().unwrap();
        let csv = csv.clone();
        let writing = std::thread::spawn(move || {
            let mut from = 0;
            for to in steps {
                producer.write_all(&csv.as_bytes()[from..to]).unwrap();
                from = to;
                // Long enough for the program to look at what is there. If it is too short, the test passes anyway.
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        });
        run(&place, reader).exits(1);
        writing.join().unwrap();
        outputs.push(place.text("scored.csv"));
    }
    assert_eq!(outputs[0], outputs[1]);
    assert!(
        outputs[0].starts_with("a;b;c;d,e;transaction_id;"),
        "{}",
        outputs[0]
    );
}

#[test]
fn rows_of_a_live_pipe_are_sent_when_the_header_shows_the_delimiter() {
    let (place, server) = (Place::new(), Server::good());
    let (reader, mut producer) = std::io::pipe().unwrap();
    let running = place
        .run(&server, "-o scored.csv")
        .stdin_from(reader)
        .start();
    let csv = users::csv(1).replace(',', ";");
    producer.write_all(csv.as_bytes()).unwrap();
    server.wait_for_calls(1);
    drop(producer);
    running.done().exits(0);
    assert_eq!(
        place.text("scored.csv"),
        users::scored(&users::csv(1)).replace(',', ";")
    );
}
