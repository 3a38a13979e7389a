//! The input as a whole: missing or empty, compressed, cut off, changed while it is read, or a pipe.

use std::fs;
use std::io::{self, Write};

use super::{HEADER, score};
use crate::support::process::Place;
use crate::support::server::Server;
use crate::support::users::{self, COLUMNS, Verdict, gzip};

#[test]
fn a_file_without_rows_is_a_finished_run_with_a_warning() {
    let server = Server::good();
    for (name, content, options) in [
        ("users.csv", "", ""),
        ("users.csv", "\u{feff}", "--no-header"),
        ("users.csv", "\n\r\n", "--quiet"),
        ("users.csv", "name,email,ip,user_agent", ""),
        ("users.csv", "name,email,ip,user_agent\r\n", ""),
        ("users.jsonl", "", ""),
        ("users.jsonl", "\n\n", ""),
    ] {
        let place = Place::with(name, content);
        let run = place.run(&server, [name, "-o", "scored"]).args(options);
        let warning = format!("warning: {name} has no rows");
        run.exits(0).says(&warning);
        let expected = content.replace(HEADER, &format!("{HEADER}{COLUMNS}"));
        assert_eq!(place.text("scored"), expected);
        assert_eq!(place.names(), ["rescore.ledger", "scored", name]);
    }
    assert_eq!(server.calls(), 0);
}

#[test]
fn gzip_and_zstd_are_read_whatever_the_name() {
    let (csv, server) = (users::csv(30), Server::good());
    let (first, second) = csv.split_at(100);
    for (name, packed) in [
        ("users.csv", gzip(&csv)),
        ("users", zstd::encode_all(csv.as_bytes(), 0).unwrap()),
        // As `cat` puts two files together.
        (
            "users.csv.gz",
            [gzip(first), gzip(""), gzip(second)].concat(),
        ),
    ] {
        let place = Place::with(name, &packed);
        let run = place.run(&server, [name, "-o", "scored.csv"]);
        run.exits(0);
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
    }
}

#[test]
fn a_compressed_file_that_is_cut_off_or_damaged_is_refused_before_the_first_call() {
    const TRUNCATED: &str = "it ends too early\n\nhint: it is incomplete: make or copy it again";
    const DAMAGED: &str = "it is damaged";
    let (csv, server) = (users::csv(3_000), Server::good());
    let mut zstd = zstd::Encoder::new(Vec::new(), 0).unwrap();
    // As the command does.
    zstd.include_checksum(true).unwrap();
    zstd.write_all(csv.as_bytes()).unwrap();
    for packed in [gzip(&csv), zstd.finish().unwrap()] {
        let half = packed.len() / 2;
        let mut damaged = packed.clone();
        for byte in &mut damaged[half..half + 100] {
            *byte ^= 0x55;
        }
        let mut checksum = packed.clone();
        checksum[packed.len() - 6] ^= 1;
        for (bytes, words) in [
            (&packed[..half], TRUNCATED),
            (&packed[..packed.len() - 1], TRUNCATED),
            (&damaged, DAMAGED),
            (&checksum, DAMAGED),
            (&[&*gzip(&csv), b"some text\n"].concat(), DAMAGED),
        ] {
            let (place, done) = score(bytes, &server, "");
            done.exits(2).says(words);
            assert_eq!(place.names(), ["users.csv"]);
        }
    }
    assert_eq!(server.calls(), 0);
    // A frame with a window of 2 GiB, as `zstd --long=31` writes it, with all of the text in one block.
    let few = users::csv(3);
    let block = u32::try_from(few.len()).unwrap() << 3 | 1;
    let head = &[0x28, 0xb5, 0x2f, 0xfd, 0, 0xa8][..];
    let long = [head, &block.to_le_bytes()[..3], few.as_bytes()].concat();
    let calls = Server::good();
    score(long, &calls, "").1.exits(0);
    assert_eq!(calls.calls(), 3);
    // A stream cannot be checked before it ends: the rows that came are kept, and the run does not count as finished.
    let place = Place::new();
    let packed = gzip(&csv);
    let run = place.run(&server, "-o scored.csv --format csv");
    let done = run.stdin(&packed[..packed.len() / 2]).exits(2);
    done.says("cannot decompress standard input: it ends too early");
    assert!(!place.path("scored.csv").exists());
}

/// `/proc` has files that say that they are empty and are not.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_has_no_size_is_read_to_its_end() {
    let (place, server) = (Place::new(), Server::good());
    let run = place.run(
        &server,
        "/proc/self/limits --format csv --delimiter , -o scored.csv",
    );
    let run = run.args("--set name=A --set email=a@x.org --set ip=::1 --set user_agent=u");
    run.exits(0);
    assert!(place.text("scored.csv").lines().count() > 10);
}

#[test]
fn format_and_delimiter_are_found_and_those_that_are_named_win() {
    let (csv, server) = (users::csv(3), Server::good());
    for (delimiter, name, arguments) in [
        (",", "users", ""),
        (";", "users.csv", ""),
        ("\t", "users.csv", ""),
        ("|", "users.csv", ""),
        ("~", "users.txt", "--delimiter ~"),
        ("\t", "users.txt", "--delimiter tab"),
        (",", "users.jsonl", "--format csv"),
    ] {
        let place = Place::with(name, csv.replace(',', delimiter));
        let run = place.run(&server, [name, "-o", "scored"]);
        run.args(arguments).exits(0);
        assert_eq!(
            place.text("scored"),
            users::scored(&csv).replace(',', delimiter)
        );
    }
    let object = users::object("Jane");
    let done = Place::new()
        .run(&server, "")
        .stdin(object.as_str())
        .exits(0);
    let members = Verdict::of("Jane").members();
    assert_eq!(done.printed(), object.replace('}', &format!("{members}}}")));
}

#[test]
fn records_and_blank_lines_are_held_up_to_a_limit() {
    let server = Server::good();
    let blank = "\n".repeat(100_000);
    for (name, content) in [
        ("users.csv", users::csv(1)),
        ("users.jsonl", users::object("A")),
    ] {
        let place = Place::with(name, format!("{blank}{content}{blank}"));
        place.run(&server, [name, "-o", "scored"]).exits(0);
    }
    let long = |length| {
        let name = "x".repeat(length);
        format!("{}9,{name},u@example.com,192.0.2.1,curl\n", users::csv(1))
    };
    let (place, done) = score(long(400_000), &server, "");
    done.exits(0);
    assert!(place.text("scored.csv") == users::scored(&long(400_000)));
    let (_, done) = score(long((16 << 20) + 1), &server, "");
    done.exits(2).says("line 3 is larger than 16 MiB");
    let (_, done) = score("\n".repeat(17 << 20) + &users::csv(1), &server, "");
    done.exits(2).says("more than 16 MiB of blank lines");
}

#[test]
fn a_file_that_shrinks_while_it_is_read_stops_the_run() {
    // Rows too large for the window: the reader cannot get far ahead of the one waiting call.
    let note = "x".repeat(2 << 20);
    let row = |i| format!("User {i},u@example.com,192.0.2.1,curl,{note}\n");
    let csv = format!("{HEADER},note\n{}", (0..40).map(row).collect::<String>());
    let place = Place::with("users.csv", &csv);
    let (server, release) = Server::holding_if(|_| true);
    let running = place.scoring(&server).start();
    server.wait_for_calls(1);
    let mut file = fs::File::options();
    let file = file.write(true).open(place.path("users.csv"));
    file.unwrap().set_len(75 << 20).unwrap();
    drop(release);
    running.exits(3).says("`users.csv`").says("shorter");
    assert!(
        place.text("scored.csv.partial").ends_with('\n'),
        "whole rows only"
    );
    assert!(!place.path("scored.csv").exists());
}

#[test]
fn a_file_that_has_grown_is_read_as_it_was() {
    let (csv, (server, release)) = (users::csv(3), Server::holding(1));
    let place = Place::with("users.csv", &csv);
    let running = place.scoring(&server).start();
    server.wait_for_calls(2);
    place.write("users.csv", users::csv(4));
    drop(release);
    running.exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn a_producer_that_dies_within_a_row_loses_no_whole_row() {
    let (place, server) = (Place::new(), Server::good());
    let (csv, cut) = (users::csv(3), "4,User");
    let run = place.run(&server, "-o scored.csv");
    run.stdin(format!("{csv}{cut}")).exits(1);
    let expected = format!("{}{cut},,,", users::scored(&csv));
    assert_eq!(place.text("scored.csv"), expected);
}

#[test]
fn rows_of_a_live_pipe_are_sent_when_the_header_shows_the_delimiter() {
    let (place, server) = (Place::new(), Server::good());
    let (reader, mut producer) = io::pipe().unwrap();
    let run = place.run(&server, "-o scored.csv").stdin_from(reader);
    let running = run.start();
    let csv = users::csv(1).replace(',', ";");
    producer.write_all(csv.as_bytes()).unwrap();
    server.wait_for_calls(1);
    drop(producer);
    running.exits(0);
    let expected = users::scored(&users::csv(1)).replace(',', ";");
    assert_eq!(place.text("scored.csv"), expected);
}
