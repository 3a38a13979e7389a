//! A damaged ledger: the output is right, or the run stops before any call and says what to do.

use std::fs;
use std::io::{self, Seek, SeekFrom, Write};

use rusqlite::Connection;

use crate::support::process::Place;
use crate::support::server::Server;
use crate::support::users;

const ROWS: usize = 40;

/// The files of a run that stopped after most of its rows.
fn stopped(csv: &str, server: &Server) -> Place {
    let place = Place::with("users.csv", csv);
    place.score(server, "--max-calls 35 -c 4").exits(5);
    place
}

#[test]
fn if_any_bit_of_a_ledger_is_flipped_or_it_is_cut_the_bytes_are_right_or_no_call_is_made() {
    let (csv, server) = (users::csv(ROWS), Server::good());
    let template = stopped(&csv, &server);
    let ledger = template.read("rescore.ledger");
    let flips = (0..ledger.len()).step_by(ledger.len() / 20).map(|at| {
        let mut bytes = ledger.clone();
        bytes[at] ^= 1 << (at % 8);
        bytes
    });
    // The file header is short, and each of its bytes matters.
    let head = (16..100).step_by(9).map(|at| {
        let mut bytes = ledger.clone();
        bytes[at] ^= 0x41;
        bytes
    });
    let cuts = (1..6).map(|part| ledger[..ledger.len() * part / 6].to_vec());
    let (mut right, mut refused) = (0, 0);
    for bytes in flips.chain(head).chain(cuts) {
        template.write("rescore.ledger", &bytes);
        let before = server.calls();
        let args = "users.csv -o again.csv --overwrite --summary s.json";
        let done = template.run(&server, args).done();
        let calls = server.calls() - before;
        if done.code() == Some(2) {
            refused += 1;
            let errors = done.stderr.matches("error: ").count();
            assert_eq!((errors, calls), (1, 0), "{done}");
            done.says("hint: ");
            assert!(
                template.read("rescore.ledger") == bytes,
                "it is left as it is"
            );
        } else {
            right += 1;
            done.exits(0);
            assert_eq!(template.text("again.csv"), users::scored(&csv), "{done}");
            // A fingerprint that has changed is nobody's, and not known to be damaged.
            let damaged = template.json("s.json")["ledger_answers_damaged"].clone();
            let asked = calls - (ROWS - 35);
            let counted = damaged.as_u64().unwrap() <= asked as u64;
            done.check(counted, "no more than is asked again");
        }
    }
    let said = format!("{right} right, {refused} refused");
    assert!(right > 5 && refused > 5, "{said}");
}

#[test]
fn an_answer_that_was_changed_is_asked_again_and_the_ledger_is_named_as_damaged() {
    let csv = users::csv(ROWS);
    for change in [
        "at = at + 1",
        "sealed = zeroblob(length(sealed))",
        "sealed = x''",
    ] {
        let (place, server) = (Place::with("users.csv", &csv), Server::good());
        place.score(&server, "--max-calls 30").exits(5);
        let ledger = Connection::open(place.path("rescore.ledger")).unwrap();
        let change = format!("UPDATE answers SET {change} WHERE seq IN (3, 20)");
        assert_eq!(ledger.execute(&change, []), Ok(2));
        drop(ledger);
        let done = place.score(&server, "--summary s.json");
        done.exits(0).says("warning: the ledger is damaged");
        assert_eq!(done.stderr.matches("warning").count(), 1, "{done}");
        assert_eq!(server.calls(), ROWS + 2);
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
        assert_eq!(place.json("s.json")["ledger_answers_damaged"], 2);
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
    run("users.csv").exits(0);
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
        .exits(3)
        .says("the file is damaged")
        .says("answers.ledger is damaged: no run can continue with it")
        .says("hint: move it elsewhere, with the files of its name and `-wal` and `-shm`")
        .silent_about("continues from there");
    assert!(server.calls() <= MANY + 1 + 64, "{}", server.calls());
}

#[test]
fn an_older_copy_of_a_ledger_costs_only_what_it_lacks_and_holds_nobody_up() {
    let csv = users::csv(ROWS);
    let (server, release) = Server::holding(20);
    let place = Place::with("users.csv", &csv);
    // Longer than a test may last: the same command must not wait for what the copy says is called for.
    let run = || place.scoring(&server).args("-c 4 --overwrite --timeout 2m");
    let running = run().start();
    server.wait_for_calls(24);
    running.wait_for_file("scored.csv.partial", |partial| {
        partial.split(|byte| *byte == b'\n').count() == 22
    });
    let names = ["rescore.ledger", "rescore.ledger-wal"];
    let copy = names.map(|name| place.read(name));
    drop(release);
    running.exits(0);
    assert_eq!(server.calls(), ROWS);
    for (name, bytes) in names.iter().zip(copy) {
        place.write(name, bytes);
    }
    run().exits(0);
    assert_eq!(server.calls(), ROWS + 20);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}
