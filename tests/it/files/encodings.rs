//! `--encoding`: the service sees text, and the output keeps its bytes.

use super::{HEADER, score};
use crate::support::process::{Done, Place};
use crate::support::server::{Request, Server, answer, good_body, ok};
use crate::support::users::{COLUMNS, Verdict};

/// Scores these bytes in this encoding.
fn score_in(encoding: &str, bytes: &[u8], server: &Server, args: &[&str]) -> (Place, Done) {
    score(bytes, server, [&["--encoding", encoding], args].concat())
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

const WESTERN: &[u8] = b"name,email,ip,user_agent\nJ\xfcrgen,a@x.org,::1,u\n";

#[test]
fn values_are_decoded_for_the_service_and_the_bytes_stay_as_they_are() {
    for (encoding, name, written) in [
        (
            "windows-1252",
            "Jürgen \u{201c}€\u{201d}",
            &b"J\xfcrgen \x93\x80\x94"[..],
        ),
        ("latin1", "José", b"Jos\xe9"),
        ("koi8-r", "Привет", b"\xf0\xd2\xc9\xd7\xc5\xd4"),
        // The second bytes are a backslash and a pipe.
        ("shift_jis", "表 ポ", b"\x95\x5c \x83\x7c"),
        (
            "gb18030",
            "中€ \u{1f600}",
            b"\xd6\xd0\xa2\xe3 \x94\x39\xfc\x36",
        ),
        ("euc-kr", "김", b"\xb1\xe8"),
    ] {
        let server = Server::good();
        let row = [written, b",a@x.org,::1,u"].concat();
        let quoted = [b"\"", written, b", \"\"II\"\"\",b@x.org,::1,u"].concat();
        let csv = [HEADER.as_bytes(), &row, &quoted, b""].join(&b'\n');
        let (place, done) = score_in(encoding, &csv, &server, &["-c", "1"]);
        done.exits(0);
        let names = [name.to_owned(), format!("{name}, \"II\"")];
        let seen: Vec<_> = server.requests().iter().map(Request::name).collect();
        assert_eq!(seen, names, "{encoding}");
        let [first, second] = names.map(|name| Verdict::of(&name).cells(',').into_bytes());
        let header = format!("{HEADER}{COLUMNS}").into_bytes();
        let expected = [
            header,
            [row, first].concat(),
            [quoted, second].concat(),
            Vec::new(),
        ];
        assert_eq!(place.read("scored.csv"), expected.join(&b'\n'));
    }
}

#[test]
fn headers_and_templates_are_decoded() {
    let server = Server::good();
    let csv =
        b"pr\xe9nom;nom;courriel;adresse ip;agent d'\xe9t\xe9\nZo\xe9;L\xe9vy;z@x.org;::1;u\n";
    let map = [
        "--map",
        "user_agent=Agent d'été",
        "--map",
        "name={prénom} – {nom}",
    ];
    let (_, done) = score_in("windows-1252", csv, &server, &map);
    done.exits(0);
    assert_eq!(server.only_request().name(), "Zoé – Lévy");
    // A column that is missing is named with those that are there.
    let (_, done) = score_in("windows-1252", csv, &server, &["--map", "name=prenom"]);
    done.exits(2).says("columns: prénom, nom, courriel");
}

#[test]
fn what_is_added_is_in_the_encoding_of_the_file() {
    let server = Server::start(|request| match &*request.name() {
        "bad" => answer(422, &[], r#"{"error":"Kürzel → ungültig"}"#),
        name => ok(&good_body(name)
            .replace(&Verdict::of(name).id, "ü-1")
            .replace("\"risk_level\":0", "\"label\":\"grün → =1\"")),
    });
    let csv = [WESTERN, b"bad,b@x.org,::1,u\n"].concat();
    let columns = [
        "--column",
        "Größe=/summary/label",
        "--reason-column",
        "Gründe",
    ];
    let (place, done) = score_in("windows-1252", &csv, &server, &columns);
    done.exits(1);
    let verdict = Verdict::of("Jürgen");
    let ours = format!("{},{}", verdict.score, verdict.decision);
    let expected = [
        &b"name,email,ip,user_agent,transaction_id,risk_score,decision,Gr\xf6\xdfe,Gr\xfcnde\nJ\xfcrgen,a@x.org,::1,u,\xfc-1,"[..],
        ours.as_bytes(),
        // What the encoding does not have is kept as its number.
        b",\"gr\xfcn &#8594; =1\",\nbad,b@x.org,::1,u,,,,,refused\n",
    ];
    let scored = place.read("scored.csv");
    assert_eq!(scored, expected.concat());
    let words = b"K\xfcrzel &#8594; ung\xfcltig";
    assert!(contains(&place.read("scored.rejects.csv"), words));

    // The output is an input again: its columns are recognised and replaced.
    let rerun = place.run(&server, "scored.csv -o again.csv");
    let rerun = rerun.args(columns).args("--encoding windows-1252");
    rerun.exits(1).says("`Größe`");
    assert_eq!(place.read("again.csv"), scored);

    let (_, done) = score_in("windows-1252", &csv, &server, &["--column", "→=/x"]);
    done.exits(2)
        .says("a new column cannot be named `→` in `users.csv`");
}

#[test]
fn bytes_that_are_no_text_fail_only_their_row() {
    let server = Server::good();
    // Half a character before the delimiter, and in a column that is not sent.
    let csv = b"name,email,ip,user_agent,note\n\x95\x5c\x95,a@x.org,::1,u,\nB,b@x.org,::1,u,\x95\nC\x83\x5c,c@x.org,::1,u,\n";
    let (place, done) = score_in("sjis", csv, &server, &["-c", "1"]);
    done.exits(1);
    assert_eq!(server.calls(), 2);
    let reject = b"1,undecodable,line 2: name is not Shift_JIS,\x95\x5c\x95,a@x.org,";
    assert!(contains(&place.read("scored.rejects.csv"), reject));
    assert!(contains(&place.read("scored.csv"), b"::1,u,\x95,t"));
}

#[test]
fn the_encoding_that_is_suggested_reads_the_file() {
    let server = Server::good();
    let start = b"\xcf\xf0\xe8\xe2\xe5\xf2 \xc8\xe2\xe0\xed\xee\xe2 ";
    let row = |row: usize| [start, format!("{row},u{row}@x.org,::1,u\n").as_bytes()].concat();
    let rows: Vec<u8> = (0..200).flat_map(row).collect();
    let csv = [HEADER.as_bytes(), b"\n", &rows].concat();
    let (place, refused) = score(&csv, &server, "");
    refused.exits(2);
    place.score(&server, "--encoding windows-1251").exits(0);
    let names: Vec<_> = server.requests().iter().map(Request::name).collect();
    assert_eq!(names.len(), 200);
    assert!(names.iter().all(|name| name.starts_with("Привет Иванов ")));
}

#[test]
fn users_of_a_file_in_another_encoding_are_forgotten() {
    let server = Server::good();
    let (place, done) = score_in("latin1", WESTERN, &server, &["--ledger", "l"]);
    done.exits(0);
    let forget = "ledger forget users.csv --ledger l";
    let refused = place.rescore(forget).exits(2);
    refused.says("`--encoding`");
    let forgotten = place.rescore(forget).args("--encoding latin1");
    forgotten.exits(0);
}
