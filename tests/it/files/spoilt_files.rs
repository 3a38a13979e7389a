//! Files as programs spoil them: marks before quotes, wrong encodings, odd delimiters, nearly JSONL. What is read sends the right
//! bytes; what is refused is named for what it is, and no advice is better than a wrong one.

use std::io::Write;

use super::{HEADER, score};
use crate::support::process::Place;
use crate::support::server::{Request, Server};
use crate::support::users;

const MARK: &str = "\u{feff}";

/// The names that were sent for rows of JSONL or CSV.
fn names(server: &Server) -> Vec<String> {
    server.requests().iter().map(Request::name).collect()
}

/// What is said of a file that is refused before a call.
fn refusal(name: &str, content: impl AsRef<[u8]>) -> String {
    let (place, server) = (Place::with(name, content), Server::good());
    let done = place.run(&server, [name, "-o", "scored.out"]).done();
    done.exits(2);
    done.check(server.calls() == 0, "no call");
    done.stderr.clone()
}

#[test]
fn a_mark_before_a_record_is_skipped_and_stays() {
    let server = Server::good();
    // As `cat a.csv b.csv` leaves it, and with the header of the second file gone.
    let csv = format!(
        "{MARK}{MARK}{HEADER}\nA,a@x.org,::1,u\n{MARK}\"Lee, Ann\",b@x.org,::1,u\n{MARK}\n{MARK}C,c@x.org,::1,u\n{MARK}"
    );
    let (place, done) = score(&csv, &server, "-c 1");
    done.exits(0);
    assert_eq!(names(&server), ["A", "Lee, Ann", "C"]);
    let lines = csv.lines().zip(
        place
            .text("scored.csv")
            .lines()
            .map(str::to_owned)
            .collect::<Vec<_>>(),
    );
    for (before, after) in lines {
        assert!(after.starts_with(before), "{after}");
    }

    // The first column is the one that is asked for; the value was copied out of a file, too.
    let server = Server::good();
    let csv = format!(
        "country,{HEADER}\nFR,A,a@x.org,::1,u\n{MARK}DE,B,b@x.org,::1,u\n{MARK}\"DE\",C,c@x.org,::1,u\n"
    );
    score(
        &csv,
        &server,
        ["-c", "1", "--only", &format!("country={MARK}DE")],
    )
    .1
    .exits(0);
    assert_eq!(names(&server), ["B", "C"]);

    let server = Server::good();
    let objects = ["A", "B"].map(users::object);
    let place = Place::with(
        "users.jsonl",
        format!("{}\n{MARK}{}\n", objects[0], objects[1]),
    );
    place
        .run(&server, "users.jsonl -o scored.jsonl -c 1")
        .done()
        .exits(0);
    assert_eq!(names(&server), ["A", "B"]);
    assert!(place.text("scored.jsonl").contains(&format!("\n{MARK}{{")));
}

#[test]
fn quotes_behind_something_that_is_not_seen_are_no_part_of_a_value() {
    let server = Server::good();
    let csv = format!(
        "{HEADER}\n\u{200b}\"A\",a@x.org,::1,u\n\u{1b}\"B,b@x.org,::1,u\nC,\u{200b}\"c@x.org\"\u{200b},::1,u\nD \"Bee\" Lee,d@x.org,::1,u\n\u{200b}E,e@x.org,::1,u\n"
    );
    let (place, done) = score(csv, &server, "-c 1");
    done.exits(1);
    assert_eq!(names(&server), ["D \"Bee\" Lee", "E"]);
    assert_eq!(
        place
            .text("scored.rejects.csv")
            .matches("stray_quotes")
            .count(),
        3
    );
}

#[test]
fn the_encoding_of_a_file_is_never_guessed() {
    let row = b"Jos\xe9 Garc\xeda,a@x.org,::1,u\n";
    let csv = [HEADER.as_bytes(), b"\n", &row[..]].concat();
    let said = refusal("users.csv", csv);
    for words in [
        "line 2 is not UTF-8",
        "name its encoding, such as `--encoding windows-1252`",
        "look at the names with `rescore check --show 9`",
    ] {
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn a_file_that_is_utf_8_is_not_read_as_something_else() {
    let csv = |name: &[u8], rows| {
        let row = [name, b",a@x.org,::1,u\n"].concat();
        [HEADER.as_bytes(), b"\n", &row.repeat(rows)].concat()
    };
    let utf8 = "J\u{fc}rgen".as_bytes();
    for (encoding, name, rows, words) in [
        ("latin1", utf8, 1, "`ü` in line 2 would be read as `Ã¼`"),
        ("gbk", utf8, 3, "is UTF-8, but `--encoding` says GBK"),
    ] {
        let (_, done) = score(csv(name, rows), &Server::good(), ["--encoding", encoding]);
        done.exits(2).says(words).silent_about("rgen");
    }
    // What is no UTF-8, and two characters of Chinese that are by chance.
    for (encoding, name) in [("latin1", &b"J\xfcrgen"[..]), ("gbk", b"\xc1\xaa\xcd\xa8")] {
        score(csv(name, 1), &Server::good(), ["--encoding", encoding])
            .1
            .exits(0);
    }
}

#[test]
fn odd_delimiters_are_named_with_the_numbers_of_cells() {
    let doubled = |between: &str| format!("{HEADER}\nA,a@x.org,::1,u\n").replace(',', between);
    let rows = |header: &str, row: &str| format!("{header}\n{}", format!("{row}\n").repeat(100));
    for (csv, words) in [
        (doubled("::"), "only one column was found"),
        (
            format!("\"{HEADER}\"\n\"A,a@x.org,::1,u\"\n"),
            "only one column was found",
        ),
        (
            rows(HEADER, "A,a@x.org,::1,u,"),
            "5 cells where the header has 4\n",
        ),
        (
            rows(&format!("{HEADER},"), "A,a@x.org,::1,u"),
            "4 cells where the header has 5\n",
        ),
        (
            rows(&format!("id,{HEADER}"), "17,Lee, Ann,a@x.org,::1,u"),
            "6 cells where the header has 5\n",
        ),
        (
            rows(HEADER, "A,a@x.org,::1"),
            "3 cells where the header has 4\n",
        ),
        (
            rows(HEADER, "\"A \\\"B\\\" C\",a@x.org,::1,u"),
            "a backslash before it",
        ),
    ] {
        let said = refusal("users.csv", csv);
        assert!(said.contains(words), "{said}");
    }
    for good in [
        "name, email, ip, user_agent\nA, a@x.org, ::1, u\n",
        "name,email,,ip,user_agent\nA,a@x.org,,::1,u\n",
        "name,email,ip,user_agent,\nA,a@x.org,::1,u,\n",
        "\"name\"|\"email\"|\"ip\"|\"user_agent\"\n\"A\"|\"a@x.org\"|\"::1\"|\"u\"\n",
    ] {
        score(good, &Server::good(), "").1.exits(0);
    }
    score(doubled("||"), &Server::good(), "--delimiter |")
        .1
        .exits(0);
    // A file of few rows is written, with their faults.
    for (row, cells) in [("A,a@x.org,::1,u,", 5), ("17,Lee, Ann,a@x.org,::1,u", 6)] {
        let fault = format!("no row can be sent: line 2: {cells} cells where the header has 4");
        let all = format!("{HEADER}\n{row}\n{row}\n");
        score(&all, &Server::good(), "").1.exits(1).says(&fault);
        let one_good = all + "A,a@x.org,::1,u\n";
        let (_, done) = score(one_good, &Server::good(), "");
        done.exits(1).silent_about("no row can be sent");
    }
}

#[test]
fn what_is_nearly_jsonl_is_named_with_the_command_that_makes_it_right() {
    let object = users::object("A");
    let open = object.trim_end_matches('}');
    for (content, what, fix) in [
        (
            format!("{object},\n{object},\n"),
            "a comma after each object",
            "sed",
        ),
        (
            format!("\u{1e}{object}\n\u{1e}{object}\n"),
            "json-seq",
            "\\x1e",
        ),
        (format!("{open},\"x\":NaN}}\n"), "`NaN`", "null"),
        (
            format!("{open},\"x\":-Infinity}}\n"),
            "`NaN` or `Infinity`",
            "null",
        ),
        (
            object.replace('"', "'") + "\n",
            "single ones, as Python",
            "json.dumps",
        ),
        (
            format!("{{\"ok\":true,\"users\":[{object}]}}\n"),
            "an array, \"users\"",
            "`jq -c '.[\"users\"][]'`",
        ),
        (
            object.replace("\"ip\":\"192.0.2.1\"", "\"lastLogin\":{\"ip\":\"::1\"}") + "\n",
            "no member for `ip`",
            "ip=/lastLogin/ip",
        ),
        (format!("{open},}}\n"), "not valid JSON", "`jq -c .`"),
    ] {
        let said = refusal("users.jsonl", content);
        assert!(said.contains(what) && said.contains(fix), "{said}");
        assert!(!said.contains("--format csv"), "{said}");
    }
    // Rows that have arrays, too.
    let rows = format!("{open},\"orders\":[{{\"id\":1}}]}}\n");
    let (place, server) = (Place::with("users.jsonl", rows), Server::good());
    place
        .run(&server, "users.jsonl -o scored.jsonl")
        .done()
        .exits(0);
}

#[test]
fn archives_are_named_and_frames_that_are_skipped_are_read() {
    let csv = users::csv(3);
    let packed = zstd::encode_all(csv.as_bytes(), 0).unwrap();
    let skipped = [&b"\x50\x2a\x4d\x18\x04\0\0\0\x01\0\0\0"[..], &packed].concat();
    let (place, server) = (Place::with("users.csv.zst", &skipped), Server::good());
    place
        .run(&server, "users.csv.zst -o scored.csv")
        .done()
        .exits(0);
    assert_eq!(server.calls(), 3);

    let mut tar = b"users.csv".to_vec();
    tar.resize(257, 0);
    tar.extend_from_slice(b"ustar\x0000");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&tar).unwrap();
    let mut utf32: Vec<u8> = csv
        .chars()
        .flat_map(|c| u32::from(c).to_le_bytes())
        .collect();
    for (content, what, fix) in [
        (gzip.finish().unwrap(), "a tar archive", "`tar -xf`"),
        (utf32.clone(), "UTF-32 text", "UTF-32LE"),
        (
            [&b"\xff\xfe\0\0"[..], &utf32].concat(),
            "UTF-32 text",
            "-f UTF-32 ",
        ),
        (
            {
                utf32.reverse();
                utf32
            },
            "UTF-32 text",
            "UTF-32BE",
        ),
    ] {
        let said = refusal("users.csv", content);
        assert!(said.contains(what) && said.contains(fix), "{said}");
    }
}
