//! The input file as a whole: missing or empty, its encoding, its compression, its format.

use std::fs;
use std::io::Write;

use crate::support::process::Place;
use crate::support::server::Server;
use crate::support::users;

#[test]
fn a_missing_file_is_named_and_nothing_is_sent() {
    let (place, server) = (Place::new(), Server::good());
    place
        .score(&server, "")
        .exits(2)
        .says("`users.csv`")
        .says("no such file");
    assert_eq!((server.calls(), place.names()), (0, vec![]));
}

#[test]
fn a_directory_is_not_an_input() {
    let (place, server) = (Place::new(), Server::good());
    fs::create_dir(place.path("users.csv")).unwrap();
    place
        .score(&server, "")
        .exits(2)
        .says("`users.csv`")
        .says("directory");
    assert_eq!(
        (server.calls(), place.names()),
        (0, vec!["users.csv".to_owned()])
    );
}

#[test]
fn an_empty_csv_is_a_finished_run_of_no_rows() {
    let server = Server::good();
    for empty in ["", "\u{feff}", "\n\r\n"] {
        for options in [&[][..], &["--no-header"]] {
            let place = Place::with("users.csv", empty);
            let program = place.scoring(&server);
            let program = program.args(options);
            program
                .done()
                .exits(0)
                .says("warning: users.csv has no rows");
            assert_eq!(place.text("scored.csv"), empty);
            assert_eq!(place.names(), ["rescore.ledger", "scored.csv", "users.csv"]);
        }
    }
    assert_eq!(server.calls(), 0);
}

#[test]
fn an_empty_jsonl_is_a_finished_run_of_no_rows() {
    let server = Server::good();
    for empty in ["", "\n\n"] {
        let place = Place::with("users.jsonl", empty);
        place
            .run(&server, "users.jsonl -o scored.jsonl")
            .done()
            .exits(0);
        assert_eq!(place.text("scored.jsonl"), empty);
    }
    assert_eq!(server.calls(), 0);
}

#[test]
fn a_header_alone_gives_a_header_alone() {
    let server = Server::good();
    for end in ["", "\n", "\r\n"] {
        let place = Place::with("users.csv", format!("name,email,ip,user_agent{end}"));
        place.score(&server, "").exits(0);
        let expected = format!("name,email,ip,user_agent{}{end}", users::COLUMNS);
        assert_eq!(place.text("scored.csv"), expected);
        assert_eq!(place.names(), ["rescore.ledger", "scored.csv", "users.csv"]);
    }
    assert_eq!(server.calls(), 0);
}

#[test]
fn a_byte_order_mark_stays_and_is_not_part_of_the_first_name() {
    let server = Server::good();
    let csv = "name,email,ip,user_agent\nJane,j@example.com,192.0.2.1,curl\n";
    let place = Place::with("users.csv", format!("\u{feff}{csv}"));
    place.score(&server, "").exits(0);
    let cells = users::Verdict::of("Jane").cells(',');
    let columns = users::COLUMNS;
    let expected = format!(
        "\u{feff}name,email,ip,user_agent{columns}\nJane,j@example.com,192.0.2.1,curl{cells}\n"
    );
    assert_eq!(place.text("scored.csv"), expected);
}

#[test]
fn utf_16_is_recognised() {
    let server = Server::good();
    let csv = users::csv(1);
    let little: Vec<u8> = csv.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = csv.encode_utf16().flat_map(u16::to_be_bytes).collect();
    // Without a byte order mark, iconv takes UTF-16 for one of the two.
    for (file, encoding) in [
        ([&b"\xff\xfe"[..], &little].concat(), "UTF-16"),
        ([&b"\xfe\xff"[..], &big].concat(), "UTF-16"),
        (little, "UTF-16LE"),
        (big, "UTF-16BE"),
    ] {
        let place = Place::with("users.csv", file);
        place
            .score(&server, "")
            .exits(2)
            .says("it is UTF-16 text")
            .says(&format!("`iconv -f {encoding} -t UTF-8`"));
        assert_eq!(place.names(), ["users.csv"]);
    }
    assert_eq!(server.calls(), 0);
}

#[test]
fn gzip_and_zstd_are_read_whatever_the_name() {
    let (csv, server) = (users::csv(30), Server::good());
    let zstd = zstd::encode_all(csv.as_bytes(), 0).unwrap();
    for packed in [gzip(&csv), zstd] {
        for name in ["users.csv", "users.csv.gz", "users"] {
            let place = Place::with(name, &packed);
            place
                .run(&server, [name, "-o", "scored.csv"])
                .done()
                .exits(0);
            assert_eq!(place.text("scored.csv"), users::scored(&csv));
        }
    }
}

/// `/proc` has files that say that they are empty and are not.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_has_no_size_is_read_to_its_end() {
    let server = Server::good();
    let place = Place::new();
    let arguments = "/proc/self/limits --format csv --delimiter , -o scored.csv \
        --set name=A --set email=a@x.org --set ip=::1 --set user_agent=u";
    let program = place.run(&server, "");
    let program = program.args(arguments.split_whitespace());
    program.done().exits(0);
    let rows = place.text("scored.csv").lines().count();
    assert!(rows > 10, "{rows}");
}

fn gzip(text: &str) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(text.as_bytes()).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn a_compressed_file_that_is_cut_off_or_damaged_is_refused_before_the_first_call() {
    const TRUNCATED: &str = "it ends too early\n\nhint: it is incomplete: make or copy it again";
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
            (&damaged, "it is damaged"),
            (&checksum, "it is damaged"),
        ] {
            let place = Place::with("users.csv", bytes);
            let done = place.score(&server, "");
            done.exits(2)
                .says("cannot decompress `users.csv`")
                .says(words);
            assert_eq!(place.names(), ["users.csv"]);
        }
    }
    assert_eq!(server.calls(), 0);
    // A stream cannot be checked before it ends: the rows that came are kept, and the run does not count as finished.
    let place = Place::new();
    let packed = gzip(&csv);
    let run = place.run(&server, "-o scored.csv --format csv");
    let done = run.stdin(&packed[..packed.len() / 2]).done();
    done.exits(2)
        .says("cannot decompress standard input: it ends too early");
    assert!(!place.names().contains(&"scored.csv".to_owned()));
}

#[test]
fn a_second_gzip_member_is_read_and_other_bytes_are_damage() {
    let (csv, server) = (users::csv(30), Server::good());
    let (first, second) = csv.split_at(100);
    let packed = [gzip(first), gzip(""), gzip(second)].concat();
    let place = Place::with("users.csv", &packed);
    place.score(&server, "").exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    place.write("users.csv", [&packed, &b"some text\n"[..]].concat());
    let done = place.score(&server, "--overwrite");
    done.exits(2)
        .says("cannot decompress `users.csv`: it is damaged");
}

#[test]
fn the_first_bytes_tell_the_format_where_the_name_does_not() {
    let (csv, server) = (users::csv(3), Server::good());
    let done = Place::new().run(&server, "").stdin(csv.as_str()).done();
    done.exits(0);
    assert_eq!(done.printed(), users::scored(&csv));

    let object = users::object("Jane");
    let done = Place::new().run(&server, "").stdin(object.as_str()).done();
    done.exits(0);
    let members = users::Verdict::of("Jane").members();
    let expected = format!("{}{members}}}", object.strip_suffix('}').unwrap());
    assert_eq!(done.printed(), expected);
}

#[test]
fn a_named_format_wins_over_the_files_name() {
    let (csv, server) = (users::csv(2), Server::good());
    let place = Place::with("users.jsonl", &csv);
    place
        .run(&server, "users.jsonl --format csv -o scored.csv")
        .done()
        .exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn semicolons_tabs_and_bars_are_detected() {
    let (csv, server) = (users::csv(3), Server::good());
    for delimiter in [";", "\t", "|"] {
        let place = Place::with("users.csv", csv.replace(',', delimiter));
        place.score(&server, "").exits(0);
        assert_eq!(
            place.text("scored.csv"),
            users::scored(&csv).replace(',', delimiter)
        );
        // A first name that is longer than the bytes that show compression.
        let place = Place::with(
            "users.csv",
            csv.replace("id,", "number,").replace(',', delimiter),
        );
        place.score(&server, "").exits(0);
    }
}

#[test]
fn blank_lines_are_held_up_to_the_limit_of_a_record() {
    let (csv, server) = (users::csv(1), Server::good());
    let blank = "\n".repeat(2_000_000);
    for (name, content) in [
        ("users.csv", format!("{blank}{csv}{blank}")),
        ("users.jsonl", format!("{blank}{}\n", users::object("A"))),
    ] {
        let place = Place::with(name, &content);
        place
            .run(&server, [name, "-o", "scored.out"])
            .done()
            .exits(0);
        place.write(name, format!("{}{content}", "\n".repeat(17 << 20)));
        let program = place.run(&server, [name, "-o", "scored.out", "--overwrite"]);
        program
            .done()
            .exits(2)
            .says("more than 16 MiB of blank lines");
    }
}

#[test]
fn a_given_delimiter_is_used() {
    let (csv, server) = (users::csv(3), Server::good());
    for (delimiter, argument) in [("~", "~"), ("\t", "tab"), ("\t", "\\t")] {
        let place = Place::with("users.txt", csv.replace(',', delimiter));
        let args = ["users.txt", "-o", "scored.csv", "--delimiter", argument];
        place.run(&server, args).done().exits(0);
        assert_eq!(
            place.text("scored.csv"),
            users::scored(&csv).replace(',', delimiter)
        );
    }
    let place = Place::with("users.csv", &csv);
    place
        .score(&server, "--delimiter ab")
        .exits(2)
        .says("--delimiter");
}

#[test]
fn a_single_column_gives_a_hint_about_the_delimiter() {
    let place = Place::with("users.csv", users::csv(1).replace(',', "~"));
    let server = Server::good();
    place.score(&server, "").exits(2).says(
        "only one column was found; if there are more, `--delimiter` says what is between them",
    );
    // It was given, and is wrong.
    place
        .score(&server, "--delimiter ;")
        .exits(2)
        .says("only one column was found; without `--delimiter`, it is found automatically");
    assert_eq!(server.calls(), 0);
}

#[test]
fn a_producer_that_dies_within_a_row_loses_no_whole_row() {
    let server = Server::good();
    let (csv, cut) = (users::csv(3), "4,User");
    let place = Place::new();
    let done = place
        .run(&server, "-o scored.csv")
        .stdin(format!("{csv}{cut}"))
        .done();
    done.exits(1);
    assert_eq!(
        place.text("scored.csv"),
        format!("{}{cut},,,", users::scored(&csv))
    );
}

#[test]
fn a_record_beyond_the_limit_stops_the_run() {
    let server = Server::good();
    let long = |length| {
        let name = "x".repeat(length);
        format!("{}9,{name},u@example.com,192.0.2.1,curl\n", users::csv(1))
    };
    let place = Place::with("users.csv", long((16 << 20) + 1));
    let done = place.score(&server, "");
    done.exits(2).says("line 3 is larger than 16 MiB");
    place.write("users.csv", long(400_000));
    place.score(&server, "--overwrite").exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&long(400_000)));
}

#[test]
fn a_file_that_shrinks_while_it_is_read_stops_the_run() {
    // Rows too large for the window: the reader cannot get far ahead of the one waiting call.
    let note = "x".repeat(4 << 20);
    let header = "name,email,ip,user_agent,note\n";
    let row = |i| format!("User {i},u@example.com,192.0.2.1,curl,{note}\n");
    let csv: String = std::iter::once(header.to_owned())
        .chain((0..40).map(row))
        .collect();
    let place = Place::with("users.csv", &csv);
    let (server, release) = Server::holding_if(|_| true);
    let running = place.scoring(&server).start();
    server.wait_for_calls(1);
    let file = fs::File::options()
        .write(true)
        .open(place.path("users.csv"))
        .unwrap();
    file.set_len(150 << 20).unwrap();
    drop(release);
    running.done().exits(3).says("`users.csv`").says("shorter");
    let partial = place.text("scored.csv.partial");
    assert!(partial.ends_with('\n'), "whole rows only");
    assert!(!place.names().contains(&"scored.csv".to_owned()));
}

#[test]
fn a_file_that_has_grown_is_read_as_it_was() {
    let (csv, (server, release)) = (users::csv(3), Server::holding(1));
    let place = Place::with("users.csv", &csv);
    let running = place
        .run(&server, "users.csv -o scored.csv --quiet")
        .start();
    server.wait_for_calls(2);
    place.write("users.csv", users::csv(4));
    drop(release);
    running.done().exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}
