//! How the command ends: nothing stays of an output that is not complete.

use std::io::Write as _;
use std::process::Command;

use crate::support::process::{Place, device};

fn scored(rows: usize) -> String {
    format!(
        "transaction_id,risk_score,decision\n{}",
        "t,1,approve\n".repeat(rows)
    )
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let place = Place::with("scored.csv", scored(200_000));
    let done = place
        .rescore("decide scored.csv")
        .under(&["sh", "-c", "\"$@\" | head -n 1; exit 0", "sh"])
        .done();
    done.silent_about("error");
    assert_eq!(done.stdout, b"transaction_id,risk_score,decision\n");
}

#[test]
fn a_signal_leaves_nothing_and_keeps_what_was_there() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let place = Place::with("out.csv", "old");
        let (from, mut to) = std::io::pipe().unwrap();
        let decide = place.rescore("decide - -o out.csv --changes changes.csv --overwrite");
        let running = decide.stdin_from(from).start();
        to.write_all(scored(100_000).as_bytes()).unwrap();
        running.wait_for_file("out.csv.partial", |content| !content.is_empty());
        running.signal(signal);
        running.exits(code);
        assert_eq!(place.names(), ["out.csv"]);
        assert_eq!(place.text("out.csv"), "old");
    }
}

#[test]
fn a_signal_while_files_are_opened_leaves_nothing() {
    let place = Place::with("scored.csv", scored(1));
    let made = Command::new("mkfifo").arg(place.path("pipe")).status();
    assert!(made.unwrap().success());
    // It waits for a reader of the changes when its output is open.
    let decide = place.rescore("decide scored.csv -o out.csv --changes pipe");
    let running = decide.start();
    running.wait_for_file("out.csv.partial", |_| true);
    running.signal("TERM");
    running.exits(143);
    assert_eq!(place.names(), ["pipe", "scored.csv"]);
}

#[test]
fn a_disk_that_is_full_or_a_damaged_input_leaves_nothing() {
    let place = Place::with("scored.csv", scored(50_000));
    let limited = &["sh", "-c", "ulimit -f 100; exec \"$@\"", "sh"];
    let decide = place.rescore("decide scored.csv -o out.csv").under(limited);
    decide.exits(3);
    for more in ["", "--what-if"] {
        let decide = place.rescore("decide scored.csv").args(more);
        let done = decide.stdout(device("/dev/full")).exits(3);
        done.says("cannot write standard output: no space left on device");
    }
    // An unclosed quote, far from the start.
    let broken = format!("{}\"{}", scored(50_000), "x".repeat(100_000));
    let decide = place.rescore("decide - -o out.csv --changes c.csv");
    decide.stdin(broken).exits(2);
    assert_eq!(place.names(), ["scored.csv"]);
}

#[test]
fn memory_does_not_grow_with_the_file() {
    let place = Place::new();
    let (from, mut to) = std::io::pipe().unwrap();
    let decide = place.rescore("decide - -o out.csv");
    let running = decide.stdin_from(from).start();
    let block = format!("t,1,approve,{}\n", "x".repeat(10_000)).repeat(500);
    to.write_all(b"transaction_id,risk_score,decision,note\n")
        .unwrap();
    let mut peak_after = |blocks: usize| {
        for _ in 0..blocks {
            to.write_all(block.as_bytes()).unwrap();
        }
        running.peak_memory()
    };
    // In all 50 MB: far more than the difference that is allowed.
    let (few, many) = (peak_after(2), peak_after(8));
    drop(to);
    running.exits(0);
    if let (Some(few), Some(many)) = (few, many) {
        assert!(many < few + 8 * 1024, "{few} KiB, then {many} KiB");
    }
}
