//! Files as programs spoil them: marks before quotes, odd encodings and delimiters. What is sent is what was meant.

use super::{HEADER, score};
use crate::support::process::Place;
use crate::support::server::{Request, Server};
use crate::support::users;

const MARK: &str = "\u{feff}";

/// The names that were sent for rows of JSONL or CSV.
fn names(server: &Server) -> Vec<String> {
    server.requests().iter().map(Request::name).collect()
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
fn what_an_encoding_and_utf_8_may_both_be_is_read_in_the_encoding() {
    // What is no UTF-8, two characters of Chinese that are by chance, a pipe between single bytes; and UTF-8 may be named.
    for (encoding, name, delimiter) in [
        ("latin1", &b"J\xfcrgen"[..], ","),
        ("gbk", b"\xc1\xaa\xcd\xa8", ","),
        ("windows-1252", b"J\xfcrgen", "|"),
        ("UTF-8", b"A", ","),
    ] {
        let text = |text: &str| text.replace(',', delimiter).into_bytes();
        let (header, rest) = (text(HEADER), text(",a@x.org,::1,u\n"));
        let csv = [&header, &b"\n"[..], name, &rest].concat();
        let (_, done) = score(csv, &Server::good(), ["--encoding", encoding]);
        done.exits(0);
    }
}

#[test]
fn a_file_of_few_rows_is_written_with_their_faults() {
    for good in [
        "name, email, ip, user_agent\nA, a@x.org, ::1, u\n",
        "name,email,,ip,user_agent\nA,a@x.org,,::1,u\n",
        "name,email,ip,user_agent,\nA,a@x.org,::1,u,\n",
        "\"name\"|\"email\"|\"ip\"|\"user_agent\"\n\"A\"|\"a@x.org\"|\"::1\"|\"u\"\n",
    ] {
        score(good, &Server::good(), "").1.exits(0);
    }
    for row in ["A,a@x.org,::1,u,", "17,Lee, Ann,a@x.org,::1,u"] {
        let all = format!("{HEADER}\n{row}\n{row}\n");
        let (_, done) = score(&all, &Server::good(), "");
        done.exits(1).says("no row can be sent");
        let one_good = all + "A,a@x.org,::1,u\n";
        let (_, done) = score(one_good, &Server::good(), "");
        done.exits(1).silent_about("no row can be sent");
    }
}

#[test]
fn arrays_in_rows_and_frames_that_are_skipped_are_read() {
    let rows = users::object("A").replace('}', ",\"orders\":[{\"id\":1}]}\n");
    let packed = zstd::encode_all(users::csv(3).as_bytes(), 0).unwrap();
    let skipped = [&b"\x50\x2a\x4d\x18\x04\0\0\0\x01\0\0\0"[..], &packed].concat();
    for (name, content, calls) in [
        ("users.jsonl", rows.into_bytes(), 1),
        ("users.csv.zst", skipped, 3),
    ] {
        let (place, server) = (Place::with(name, content), Server::good());
        place.run(&server, [name, "-o", "scored"]).exits(0);
        assert_eq!(server.calls(), calls);
    }
}
