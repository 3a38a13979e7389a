//! A damaged ledger: the output is right, or the run stops before any call and says what to do.

use std::fs;
use std::io::{self, Seek, SeekFrom, Write};

use crate::support::ledger_file;
use crate::support::process::{Done, Place};
use crate::support::server::{Server, good};
use crate::support::users;

const ROWS: usize = 40;

/// The files of a run that stopped after most of its rows.
fn stopped(csv: &str) -> Place {
    let (place, server) = (Place::with("users.csv", csv), Server::good());
    place.score(&server, "--max-calls 35 -c 4").exits(3);
    place
}

/// Whether the run wrote the right bytes; otherwise it must have stopped before any call and said what to do.
fn is_right(done: &Done, place: &Place, server: &Server, csv: &str) -> bool {
    if done.code() == Some(0) {
        assert_eq!(place.text("scored.csv"), users::scored(csv), "{done}");
        return true;
    }
    done.exits(2);
    let errors = done.stderr.matches("error: ").count();
    assert_eq!((errors, server.calls()), (1, 0), "{done}");
    done.says("hint: ");
    for raw in ["malformed", "SQL", "constraint", "no such", "disk image"] {
        done.silent_about(raw);
    }
    false
}

#[test]
fn if_any_bit_of_a_ledger_is_flipped_or_it_is_cut_the_bytes_are_right_or_no_call_is_made() {
    let csv = users::csv(ROWS);
    let template = stopped(&csv);
    let (ledger, partial) = (
        template.read("scored.csv.ledger"),
        template.read("scored.csv.partial"),
    );
    let flips = (0..ledger.len()).step_by(401).map(|at| {
        let mut bytes = ledger.clone();
        bytes[at] ^= 1 << (at % 8);
        bytes
    });
    // The file header is short, and each of its bytes matters.
    let head = (16..100).step_by(3).map(|at| {
        let mut bytes = ledger.clone();
        bytes[at] ^= 0x41;
        bytes
    });
    let cuts = (1..40).map(|part| ledger[..ledger.len() * part / 40].to_vec());
    let (mut right, mut refused) = (0, 0);
    for bytes in flips.chain(head).chain(cuts) {
        let (place, server) = (Place::with("users.csv", &csv), Server::good());
        place.write("scored.csv.ledger", &bytes);
        place.write("scored.csv.partial", &partial);
        let done = place.score(&server, "");
        if is_right(&done, &place, &server, &csv) {
            right += 1;
        } else {
            refused += 1;
            // What the message suggests works.
            place
                .score(&server, "--overwrite --fresh")
                .exits_with_one_of(&[0, 2]);
        }
    }
    println!("{right} right, {refused} refused");
    assert!(right > 20 && refused > 20);
}

#[test]
fn a_score_that_was_flipped_is_asked_again_and_the_ledger_is_named_as_damaged() {
    let csv = users::csv(ROWS);
    for (ledger, args) in [
        ("scored.csv.ledger", &[][..]),
        ("answers.ledger", &["--ledger", "answers.ledger"]),
    ] {
        let (place, server) = (Place::with("users.csv", &csv), Server::good());
        let run = |more: &[&str]| {
            let program = place.scoring(&server);
            let args = args.iter().chain(more);
            program.args(args).done()
        };
        run(&["--max-calls", "30"]).exits(3);
        let damaged = ledger_file::open(&place.path(ledger));
        let flip = "UPDATE answer_blocks SET at = at + 1 WHERE id = 1";
        assert_eq!(damaged.execute(flip, []), Ok(1));
        let count = "SELECT answers FROM answer_blocks WHERE id = 1";
        let flipped: i64 = damaged.query_row(count, [], |row| row.get(0)).unwrap();
        let flipped = usize::try_from(flipped).unwrap();
        drop(damaged);
        let done = run(&["--summary", "summary.json"]);
        done.exits(0)
            .says("warning: the ledger is damaged: an answer does not match its checksum")
            .says(&format!("the ledger is damaged: {flipped} answer"))
            .says("failed the checksum, ");
        assert_eq!(done.stderr.matches("warning").count(), 1, "{done}");
        assert_eq!(server.calls(), ROWS + flipped);
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
        let summary = place.text("summary.json");
        assert!(
            summary.contains(&format!("\"ledger_answers_damaged\": {flipped}")),
            "{summary}"
        );
    }
}

#[test]
fn damage_during_a_run_is_named_and_no_message_suggests_continuing() {
    const MANY: usize = 3_000;
    let csv = users::csv(MANY);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    let shared = "-o scored.csv --ledger answers.ledger";
    let run = |input: &str| {
        let program = place.run(&server, [input, "--overwrite"]);
        program.args(shared)
    };
    run("users.csv").done().exits(0);
    let (input, mut rows) = io::pipe().unwrap();
    let running = run("-").args("--format csv").stdin_from(input).start();
    let (header, known) = csv.split_once('\n').unwrap();
    writeln!(
        rows,
        "{header}\n0,Somebody,new@example.com,192.0.2.1,curl/8"
    )
    .unwrap();
    // The answer is durable before its row is written. The program reads these pages only after that.
    running.wait_for_file("scored.csv.partial", |partial| {
        partial.windows(9).any(|bytes| bytes == b"Somebody,")
    });
    let ledger = fs::File::options()
        .write(true)
        .open(place.path("answers.ledger"));
    let (mut ledger, length) = (ledger.unwrap(), place.read("answers.ledger").len());
    ledger.seek(SeekFrom::Start(100)).unwrap();
    ledger.write_all(&vec![0x55; length - 100]).unwrap();
    // The run stops before it has read them all.
    let _ = rows.write_all(known.as_bytes());
    drop(rows);
    running
        .done()
        .exits(3)
        .says("the file is damaged")
        .says("answers.ledger is damaged: no run can continue with it")
        .says("hint: move it and the files whose names start with its name elsewhere")
        .silent_about("continues from there");
    assert!(server.calls() <= MANY + 1 + 64, "{}", server.calls());
}

#[test]
fn answers_dated_in_the_future_are_not_young_and_one_warning_says_so() {
    const HOUR: i64 = 3_600_000;
    let csv = users::csv(5);
    let (place, server) = (Place::with("users.csv", &csv), Server::start(good));
    let run = |more: [&str; 2]| {
        let shared = ["--ledger", "answers.ledger", "--overwrite"];
        let args: [&str; 5] = [shared[0], shared[1], shared[2], more[0], more[1]];
        place.score(&server, args)
    };
    run(["--max-age", "1d"]).exits(0);
    assert_eq!(
        ledger_file::age(&place.path("answers.ledger"), -30 * HOUR),
        5
    );
    let done = run(["--max-age", "1d"]);
    done.exits(0)
        .says("5 answers in the ledger had a date in the future, rows sent again");
    let warning = "warning: answers in the ledger are dated in the future";
    assert_eq!(done.stderr.matches(warning).count(), 1, "{done}");
    assert_eq!(server.calls(), 10);
    // The new answers have today's date.
    run(["--max-age", "1d"]).exits(0).silent_about("future");
    assert_eq!(server.calls(), 10);
}
