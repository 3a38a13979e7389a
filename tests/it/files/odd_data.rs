//! Data as table programs, databases and proxies leave it: what is sent is right or the row fails, and the file keeps its bytes.

use serde_json::json;

use super::{HEADER, score};
use crate::support::process::Place;
use crate::support::server::{Server, good};
use crate::support::users::{self, COLUMNS, Verdict};

/// The fields of the requests that a server got, by their names.
fn sent(server: &Server, field: &str) -> Vec<String> {
    let values = server.requests().into_iter().map(|request| {
        let body = request.json();
        body[field].as_str().unwrap_or("-").to_owned()
    });
    values.collect()
}

#[test]
fn odd_values_are_sent_as_they_are_meant_or_fail_and_check_counts_them() {
    let csv = "name,email,phone,ip,user_agent\n\
        A,,+491701234567.0,\"203.0.113.5, 10.0.0.1\",u\n\
        ,,,,\n\
        B,,+44 (020) 7946 0958,203.0.113.6:443,u\n\
        \"\",\"\",\"\",\"\",\"\"\n\
        C,c\u{200b}@x.org,,[2001:db8::1]:443,u\n\
        D, \"d@x.org\",,::1,u\n\
        E,,+491701234567.00,::1,u\n\
        NULL,f@x.org,,::1,\\N\n\
        \u{1a}";
    let server = Server::good();
    let (place, done) = score(csv, &server, "-c 1");
    done.exits(1);
    assert_eq!(
        sent(&server, "phone"),
        ["+491701234567", "+442079460958", "-", "-"]
    );
    assert_eq!(
        sent(&server, "ip"),
        ["203.0.113.5", "203.0.113.6", "2001:db8::1", "::1"]
    );
    assert_eq!(sent(&server, "email"), ["-", "-", "c@x.org", "f@x.org"]);
    let rejects = place.text("scored.rejects.csv");
    let reasons: Vec<_> = { rejects.lines().skip(1) }
        .filter_map(|line| line.split(',').nth(1))
        .collect();
    assert_eq!(reasons, ["stray_quotes", "invalid_phone"]);
    // Without our cells it is the input, with its blank rows and its last byte.
    let mut back = place.text("scored.csv").replacen(COLUMNS, "", 1);
    for name in ["A", "B", "C", "NULL"] {
        back = back.replacen(&Verdict::of(name).cells(','), "", 1);
    }
    assert_eq!(back.replace("::1,u,,,\n", "::1,u\n"), csv);
    let checked = place.rescore("check users.csv --json --no-ledger").done();
    let rows = checked.json()["rows"].clone();
    let expected = serde_json::json!({
        "read": 6, "sendable": 4, "unsendable": 2, "passed": 0, "dropped": 0, "addresses_shortened": 3, "null_words": 2
    });
    assert_eq!(rows, expected);
}

#[test]
fn one_person_written_in_several_ways_is_paid_for_once_and_can_be_forgotten() {
    const COLUMNS: &str = "name,email,phone,ip,user_agent";
    let server = Server::good();
    let one = format!(
        "{COLUMNS}\n\"Zoe\u{308}\nvan  Lee\",<zoe@X.org>,+372 5551234,\"10.0.0.1, 203.0.113.5\",UA/1\t(X11)\n"
    );
    let (place, done) = score(one, &server, "--ledger l");
    done.exits(0);
    let sent = ["name", "email", "phone", "ip", "user_agent"].map(|field| {
        let [value] = <[String; 1]>::try_from(self::sent(&server, field)).unwrap();
        value
    });
    let expected = [
        "Zo\u{eb} van Lee",
        "zoe@x.org",
        "+3725551234",
        "203.0.113.5",
        "UA/1 (X11)",
    ];
    assert_eq!(sent, expected);
    let others = format!(
        "{COLUMNS}\n\
        Zo\u{eb} van Lee,zoe@x.org,+3725551234,203.0.113.5,UA/1 (X11)\n\
        Zoe\u{308}\tvan\u{a0}Lee ,SMTP:zoe@X.ORG,00372 555-1234,::ffff:203.0.113.5,\"UA/1\r\n(X11)\"\n\
        ,\"mailto:zoe@x.org;\",+372 5551234,\"192.168.0.1,203.0.113.5\",UA/1  (X11)\n"
    );
    place.write("others.csv", &others);
    let object = r#"{"name":"Zoe\u0308 van\nLee","email":"zoe@x.org,","phone":"+3725551234","ip":"203.0.113.5","user_agent":"UA/1\t(X11)"}"#;
    place.write("object.jsonl", format!("{object}\n"));
    let default = ["--ledger=l", "--default=name=Zoe\u{308}  van\nLee"];
    for (from, to, rows) in [("others.csv", "b.csv", 3), ("object.jsonl", "b.jsonl", 1)] {
        let check = place.rescore(["check", from, "--json"]).args(default);
        let check = check.args(["--base-url", &server.url(), "--service-id", "test"]);
        let checked = check.done().json();
        assert_eq!(
            (&checked["known"], &checked["calls"]),
            (&json!(rows), &json!(0)),
            "{checked}"
        );
        place.run(&server, ["-o", to, from]).args(default).exits(0);
    }
    assert_eq!(server.calls(), 1);
    let forget = place
        .rescore("ledger forget others.csv")
        .args(default)
        .exits(0);
    forget.prints("0 left");
}

#[test]
fn an_email_that_was_sent_as_it_is_can_be_forgotten() {
    let csv = format!("{HEADER}\nA,Jane <a@x.org>,::1,u\nB,nobody,::1,u\nC,<c@X.org>,::1,u\n");
    let server = Server::good();
    let (place, done) = score(&csv, &server, "-c 1 --ledger l");
    done.exits(1);
    assert_eq!(sent(&server, "email"), ["c@x.org"]);
    place
        .score(&server, "-c 1 --ledger l --overwrite --invalid send")
        .exits(0);
    assert_eq!(
        sent(&server, "email"),
        ["c@x.org", "Jane <a@x.org>", "nobody"]
    );
    let forget = place
        .rescore("ledger forget users.csv --ledger l --invalid send")
        .exits(0);
    forget.prints("0 left");
}

#[test]
fn quotes_that_open_nothing_are_found_and_can_be_read_as_they_are() {
    // What a database writes: the cell of the first user swallows the second one.
    let tsv = "name\temail\tip\tuser_agent\n\
        \"A\ta@x.org\t::1\tu\n\
        B\"\tb@x.org\t::1\tu\n\
        C\tc@x.org\t::1\t\"u\" x\n";
    let server = Server::good();
    let place = Place::with("users.tsv", tsv);
    place.run(&server, "users.tsv -o scored.tsv").exits(1);
    assert_eq!(server.calls(), 0, "the last row has text after a quote");
    let rejects = place.text("scored.rejects.tsv");
    assert!(
        rejects.contains("1\tstray_quotes\t\"lines 2 to 3: "),
        "{rejects}"
    );
    place
        .run(
            &server,
            "users.tsv -o as-is.tsv --quotes off --reason-column why -c 1",
        )
        .exits(0);
    assert_eq!(sent(&server, "name"), ["\"A", "B\"", "C"]);
    assert_eq!(sent(&server, "user_agent"), ["u", "u", "\"u\" x"]);
    let names = ["\"A", "B\"", "C"];
    let mut back =
        place
            .text("as-is.tsv")
            .replacen("\ttransaction_id\trisk_score\tdecision\twhy", "", 1);
    for name in names {
        back = back.replacen(&format!("{}\t", Verdict::of(name).cells('\t')), "", 1);
    }
    assert_eq!(back, tsv);
}

#[test]
fn a_text_of_several_lines_is_not_taken_for_rows() {
    let csv = format!("{HEADER},note\nA,a@x.org,::1,u,\"one, two\nthree, four, five\n\nsix\"\n");
    let server = Server::good();
    score(&csv, &server, "").1.exits(0);
    assert_eq!(server.calls(), 1);
}

#[test]
fn quotes_and_bearer_around_settings_are_not_sent_and_the_whole_address_is_understood() {
    let server = Server::start(good);
    let place = Place::with("users.csv", format!("{HEADER}\nA,a@x.org,::1,u\n"));
    let address = format!("\"{}/v1/validate/user\"", server.url());
    place
        .rescore("run users.csv -o scored.csv --no-ledger")
        .env("RESCORE_BASE_URL", address)
        .env("RESCORE_SERVICE_ID", "'my-app'")
        .env("RESCORE_API_KEY", "\"Bearer key-1234567890abcdef\"")
        .exits(0);
    let request = &server.requests()[0];
    assert_eq!(
        request.header("authorization"),
        Some("Bearer key-1234567890abcdef")
    );
    assert_eq!(request.header("x-service-id"), Some("my-app"));
}

#[test]
fn a_mark_at_the_end_of_objects_and_backslashes_before_quotes_are_understood() {
    let place = Place::with("users.jsonl", users::object("A") + "\n\u{1a}");
    place.rescore("check users.jsonl --no-ledger").exits(0);
    let csv = format!("{HEADER}\n\"A \\\"x\\\" B\",a@x.org,::1,u\n");
    let (place, done) = score(csv, &Server::good(), "");
    done.exits(1);
    let rejects = place.text("scored.rejects.csv");
    assert!(rejects.contains("with a backslash before it"), "{rejects}");
}
