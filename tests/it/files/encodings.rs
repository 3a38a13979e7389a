//! `--encoding`: the service sees text, and the output keeps its bytes.

use std::fs;

use super::columns::HEADER;
use crate::support::process::{Done, Place};
use crate::support::server::{Request, Server, answer, good_body, ok};
use crate::support::users::{COLUMNS, Verdict};

/// Scores these bytes in this encoding.
fn score(bytes: &[u8], encoding: &str, server: &Server, args: &[&str]) -> (Place, Done) {
    let place = Place::with("users.csv", bytes);
    let program = place.scoring(server);
    let done = program.args(["--encoding", encoding]).args(args).done();
    (place, done)
}

/// Checks that the first line is the header with our columns, and each other line is as it was with its verdict's cells.
fn keeps_its_bytes(before: &[u8], after: &[u8], names: &[&str]) {
    let lines = |bytes: &[u8]| -> Vec<Vec<u8>> {
        bytes
            .split(|byte| *byte == b'\n')
            .map(<[u8]>::to_vec)
            .collect()
    };
    let ends = [COLUMNS.to_owned()].into_iter();
    let ends = ends.chain(names.iter().map(|name| Verdict::of(name).cells(',')));
    let expected: Vec<_> = { lines(before).into_iter().zip(ends) }
        .map(|(line, end)| [line, end.into_bytes()].concat())
        .chain([Vec::new()])
        .collect();
    assert_eq!(lines(after), expected);
}

#[test]
fn values_are_decoded_for_the_service_and_the_bytes_stay_as_they_are() {
    for (encoding, name, written) in [
        (
            "windows-1252",
            "J\u{fc}rgen \u{201c}\u{20ac}\u{201d}",
            &b"J\xfcrgen \x93\x80\x94"[..],
        ),
        ("latin1", "Jos\u{e9}", b"Jos\xe9"),
        (
            "koi8-r",
            "\u{41f}\u{440}\u{438}\u{432}\u{435}\u{442}",
            b"\xf0\xd2\xc9\xd7\xc5\xd4",
        ),
        (
            "windows-1251",
            "\u{41f}\u{435}\u{442}\u{440}",
            b"\xcf\xe5\xf2\xf0",
        ),
        // The second bytes are a backslash and a pipe.
        ("shift_jis", "\u{8868} \u{30dd}", b"\x95\x5c \x83\x7c"),
        (
            "gb18030",
            "\u{4e2d}\u{20ac} \u{1f600}",
            b"\xd6\xd0\xa2\xe3 \x94\x39\xfc\x36",
        ),
        ("big5", "\u{8a31}", b"\xb3\x5c"),
        ("euc-kr", "\u{ae40}", b"\xb1\xe8"),
    ] {
        let server = Server::good();
        let rows: [&[u8]; 6] = [
            HEADER.as_bytes(),
            b"\n",
            written,
            b",a@x.org,::1,u\n\"",
            written,
            b", \"\"II\"\"\",b@x.org,::1,u\n",
        ];
        let csv = rows.concat();
        let (place, done) = score(&csv, encoding, &server, &["-c", "1"]);
        done.exits(0);
        let second = format!("{name}, \"II\"");
        let seen: Vec<_> = server.requests().iter().map(Request::name).collect();
        assert_eq!(seen, [name, &second], "{encoding}");
        keeps_its_bytes(
            &csv,
            &fs::read(place.path("scored.csv")).unwrap(),
            &[name, &second],
        );
    }
}

#[test]
fn headers_and_templates_are_decoded() {
    let server = Server::good();
    let csv =
        b"pr\xe9nom;nom;courriel;adresse ip;agent d'\xe9t\xe9\nZo\xe9;L\xe9vy;z@x.org;::1;u\n";
    let map = [
        "--map",
        "user_agent=Agent d'\u{e9}t\u{e9}",
        "--map",
        "name={pr\u{e9}nom} \u{2013} {nom}",
    ];
    let (_, done) = score(csv, "windows-1252", &server, &map);
    done.exits(0).says("user_agent ← `agent d'\u{e9}t\u{e9}`");
    assert_eq!(server.only_request().name(), "Zo\u{e9} \u{2013} L\u{e9}vy");

    // A column that is missing is named with those that are there.
    let (_, done) = score(csv, "windows-1252", &server, &["--map", "name=prenom"]);
    done.exits(2).says("columns: pr\u{e9}nom, nom, courriel");
}

#[test]
fn what_is_added_is_in_the_encoding_of_the_file() {
    let server = Server::start(|request| match &*request.name() {
        "bad" => answer(422, &[], r#"{"error":"K\u00fcrzel \u2192 ung\u00fcltig"}"#),
        name => ok(&good_body(name)
            .replace(&Verdict::of(name).id, "\u{fc}-1")
            .replace("\"risk_level\":0", "\"label\":\"gr\u{fc}n \u{2192} =1\"")),
    });
    let csv = b"name,email,ip,user_agent\nJ\xfcrgen,a@x.org,::1,u\nbad,b@x.org,::1,u\n";
    let columns = ["--column", "Gr\u{f6}\u{df}e=/summary/label"];
    let (place, done) = score(csv, "windows-1252", &server, &columns);
    done.exits(1);
    let scored = fs::read(place.path("scored.csv")).unwrap();
    let score = Verdict::of("J\u{fc}rgen");
    let expected = [
        &b"name,email,ip,user_agent,transaction_id,risk_score,decision,Gr\xf6\xdfe\nJ\xfcrgen,a@x.org,::1,u,\xfc-1,"[..],
        score.score.as_bytes(),
        b",",
        score.decision.as_bytes(),
        // What the encoding does not have is kept as its number.
        b",\"gr\xfcn &#8594; =1\"\nbad,b@x.org,::1,u,,,,\n",
    ];
    assert_eq!(scored, expected.concat());
    let rejects = fs::read(place.path("scored.rejects.csv")).unwrap();
    let words = b"K\xfcrzel &#8594; ung\xfcltig";
    assert!(rejects.windows(words.len()).any(|part| part == words));

    // The output is an input again: its columns are recognised and replaced.
    let rerun = place.run(&server, "scored.csv -o again.csv");
    let rerun = rerun.args(columns).args("--encoding windows-1252");
    rerun.done().exits(1).says("`Gr\u{f6}\u{df}e`");
    assert_eq!(fs::read(place.path("again.csv")).unwrap(), scored);

    let (_, done) = score_of_no_name(&server, csv);
    done.exits(2)
        .says("a new column cannot be named `\u{2192}` in `users.csv`: windows-1252 does not have all of its characters");
}

fn score_of_no_name(server: &Server, csv: &[u8]) -> (Place, Done) {
    score(csv, "windows-1252", server, &["--column", "\u{2192}=/x"])
}

#[test]
fn bytes_that_are_no_text_fail_only_their_row() {
    let server = Server::good();
    // Half a character before the delimiter, and in a column that is not sent.
    let csv = b"name,email,ip,user_agent,note\n\x95\x5c\x95,a@x.org,::1,u,\nB,b@x.org,::1,u,\x95\nC\x83\x5c,c@x.org,::1,u,\n";
    let (place, done) = score(csv, "sjis", &server, &["-c", "1"]);
    done.exits(1);
    assert_eq!(server.calls(), 2);
    let rejects = fs::read(place.path("scored.rejects.csv")).unwrap();
    let reject = b"1,undecodable,line 2: name is not Shift_JIS,\x95\x5c\x95,a@x.org,";
    assert!(rejects.windows(reject.len()).any(|part| part == reject));
    let scored = fs::read(place.path("scored.csv")).unwrap();
    assert!(scored.windows(9).any(|part| part == b"::1,u,\x95,t"));
}

#[test]
fn an_encoding_that_does_not_fit_is_refused_before_the_first_call() {
    let csv = b"name,email,ip,user_agent\nJ\xfcrgen,a@x.org,::1,u\n";
    let piped = b"name|email|ip|user_agent\n\x83\x7c|a@x.org|::1|u\n";
    let marked = b"\xef\xbb\xbfname,email,ip,user_agent\nA,a@x.org,::1,u\n";
    let jsonl = b"{\"name\":\"A\",\"email\":\"a@x.org\",\"ip\":\"::1\",\"user_agent\":\"u\"}\n";
    let server = Server::good();
    for (bytes, encoding, args, words) in [
        (
            &csv[..],
            "utf-16",
            &[][..],
            "UTF-16LE is not a superset of ASCII; convert the file with `iconv -f UTF-16LE -t UTF-8`",
        ),
        (csv, "iso-2022-jp", &[], "`iconv -f ISO-2022-JP -t UTF-8`"),
        (
            csv,
            "win1252",
            &[],
            "expected the name of an encoding, such as `utf-8`, `windows-1252`",
        ),
        (
            piped,
            "shift_jis",
            &[],
            "in Shift_JIS, the delimiter `|` can be half a character\n\nhint: convert it with `iconv -f Shift_JIS -t UTF-8`",
        ),
        (
            piped,
            "gbk",
            &["--delimiter", "|"],
            "in GBK, the delimiter `|` can be half a character",
        ),
        (
            marked,
            "latin1",
            &[],
            "`users.csv` starts with the byte order mark of UTF-8, but `--encoding` says windows-1252\n\nhint: leave out `--encoding`",
        ),
        (
            jsonl,
            "latin1",
            &["--format", "jsonl"],
            "`--encoding` is for CSV and TSV, but `users.csv` is JSONL, which is always UTF-8",
        ),
    ] {
        let (_, done) = score(bytes, encoding, &server, args);
        done.exits(2).says(words);
    }
    assert_eq!(server.calls(), 0);
    // UTF-8 may be named, and a pipe between single bytes is fine.
    let (_, done) = score(marked, "UTF-8", &server, &[]);
    done.exits(0);
    let piped = b"name|email|ip|user_agent\nJ\xfcrgen|a@x.org|::1|u\n";
    let (_, done) = score(piped, "windows-1252", &server, &[]);
    done.exits(0);
}

#[test]
fn the_encoding_that_is_suggested_reads_the_file() {
    let server = Server::good();
    let rows: String = (0..200)
        .map(|row| format!("\u{41f}\u{440}\u{438}\u{432}\u{435}\u{442} \u{418}\u{432}\u{430}\u{43d}\u{43e}\u{432} {row},u{row}@x.org,::1,u\n"))
        .collect();
    let cyrillic = |c: char| match u32::from(c) {
        low @ 0..=127 => u8::try_from(low).unwrap(),
        letter => u8::try_from(letter - 0x410 + 0xc0).unwrap(),
    };
    let csv: Vec<u8> = format!("{HEADER}\n{rows}").chars().map(cyrillic).collect();
    let place = Place::with("users.csv", &csv);
    let refused = place.scoring(&server).done();
    refused.exits(2).says(
        "hint: `--encoding windows-1251` reads it and writes the output in the same encoding",
    );
    place.score(&server, "--encoding windows-1251").exits(0);
    assert_eq!(server.calls(), 200);
    assert!(server.requests().iter().all(|request| {
        request
            .name()
            .starts_with("\u{41f}\u{440}\u{438}\u{432}\u{435}\u{442} ")
    }));
}

#[test]
fn users_of_a_file_in_another_encoding_are_forgotten() {
    let server = Server::good();
    let csv = b"name,email,ip,user_agent\nJ\xfcrgen,a@x.org,::1,u\n";
    let (place, done) = score(csv, "latin1", &server, &["--ledger", "l"]);
    done.exits(0);
    let forget = "ledger forget users.csv --ledger l";
    place
        .rescore(forget)
        .done()
        .exits(2)
        .says("`--encoding windows-1252`");
    let forgotten = place.rescore(forget).args("--encoding latin1");
    forgotten.done().exits(0);
}
