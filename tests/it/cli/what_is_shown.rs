//! What people see of a run: a bar that fits its terminal, and a summary without lines for what did not occur.

use std::fs::{self, File};
use std::io::Read;
use std::thread::{self, JoinHandle};

use insta::assert_snapshot;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use serde_json::Value;

use crate::support::process::Place;
use crate::support::server::{Server, answer, good, ok, status};
use crate::support::shown::{shown, without_times};
use crate::support::users::{self, Verdict};

/// A terminal with this many columns: the program's side, and what the program wrote once it has ended.
pub(super) fn terminal(columns: u16) -> (File, JoinHandle<String>) {
    let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&main).unwrap();
    unlockpt(&main).unwrap();
    let name = ptsname(&main, Vec::new()).unwrap().into_string().unwrap();
    let size = Winsize {
        ws_row: 20,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&main, size).unwrap();
    let program_side = File::options().read(true).write(true).open(name).unwrap();
    let written = thread::spawn(move || {
        let (mut main, mut block, mut all) = (File::from(main), [0; 4096], Vec::new());
        // Reading fails once no process has it open any more.
        while let Ok(read @ 1..) = main.read(&mut block) {
            all.extend_from_slice(&block[..read]);
        }
        String::from_utf8_lossy(&all).into_owned()
    });
    (program_side, written)
}

#[test]
fn a_bar_fits_its_terminal_and_is_cleared_before_anything_else_is_printed() {
    for columns in [80, 60, 40] {
        let server = Server::start(|request| match request.nth {
            20 => answer(429, &[("retry-after", "1")], ""),
            _ => good(request),
        });
        let place = Place::with("users.csv", users::csv(40));
        let (side, written) = terminal(columns);
        let args = "users.csv -o scored.csv -c 1";
        let done = place.run(&server, args).stderr(side).done();
        done.exits(0);
        let written = written.join().unwrap();
        let told = format!("{columns} columns: {written:?}");

        // A bar starts and ends at the start of a line, so that the next one is drawn over all of it, wherever a resized
        // terminal puts its lines.
        let frames: Vec<_> = written.split("\u{1b}[J\r\u{1b}[1A").collect();
        let (last, frames) = frames.split_last().unwrap();
        let pauses = frames.iter().filter(|frame| frame.contains("paused: "));
        assert!(pauses.count() >= 5, "{told}");
        for frame in &frames[1..] {
            let lines = frame.strip_prefix("\r\u{1b}[K").expect(&told);
            let lines: Vec<_> = lines.split("\r\n\u{1b}[K").collect();
            assert_eq!(lines.len(), 2, "{told}");
            assert!(
                lines[0].contains(" % · ") && lines[0].contains(" rows"),
                "{told}"
            );
            for line in lines {
                assert!(line.chars().count() < columns.into(), "{told}");
            }
        }
        assert!(last.starts_with("\r\u{1b}[Jrescore: 40 rows in "), "{told}");
    }
}

#[test]
fn a_dumb_terminal_gets_lines_and_nothing_that_would_move_its_cursor() {
    let server = Server::start(|request| match request.nth {
        1 => answer(429, &[("retry-after", "1")], ""),
        _ => good(request),
    });
    let place = Place::with("users.csv", users::csv(9));
    let (side, written) = terminal(80);
    let run = place.scoring(&server);
    let done = run.env("TERM", "dumb").stderr(side).done();
    done.exits(0);
    let written = written.join().unwrap();
    assert!(
        written.contains("paused: the service asked for 1"),
        "{written:?}"
    );
    assert!(written.contains("rescore: 9 rows in "), "{written:?}");
    assert!(!written.contains('\u{1b}'), "{written:?}");
}

#[test]
fn a_quiet_run_still_says_in_one_line_that_rows_failed() {
    let server = Server::start(|request| match request.name().as_str() {
        "User 3" | "User 5" => status(422),
        _ => good(request),
    });
    for progress in ["plain", "json", "off"] {
        let place = Place::with("users.csv", users::csv(9));
        let done = place.score(&server, ["-q", "--progress", progress]);
        done.exits(1);
        let words =
            "2 of 9 rows failed: refused 2; see scored.rejects.csv (finished with exit code 1)";
        if progress == "json" {
            let warning: serde_json::Value = serde_json::from_str(&done.stderr).unwrap();
            assert_eq!(
                (&warning["type"], &warning["message"]),
                (&"warning".into(), &words.into())
            );
        } else {
            assert_eq!(done.stderr, format!("warning: {words}\n"));
        }
    }
}

#[test]
fn a_summary_leaves_out_what_did_not_occur() {
    let place = Place::with("users.csv", users::csv(9));
    let refusing = Server::start(|_| status(422));
    let done = place.score(&refusing, "");
    done.exits(3)
        .silent_about("approve")
        .silent_about("in flight");
    let stopped = done.stderr.find("rescore: stopped early").unwrap();
    let summary = without_times(&done.stderr[stopped..]);
    let summary = summary.replace(refusing.url().trim_start_matches("http://"), "SERVER");
    assert_snapshot!(summary, @r"
    rescore: stopped early (the service gives no verdicts): 3 rows in TIME, SPEED rows/s
             failed 3: refused 3; see scored.rejects.csv.partial
             3 calls
             scored.csv.partial has the 3 finished rows; unfinished rows are not in it
             the same command continues from there
    error: `SERVER` gave no verdict for 3 consecutive rows
      the last answer: 422 Unprocessable Entity: `the server's own words`

    hint: check the base address, the plan and which columns are sent; `--keep-going` continues anyway
    ");
    let approving = Server::start(|request| {
        let id = Verdict::of(&request.name()).id;
        ok(&format!(
            r#"{{"summary":{{"risk_score":0.5}},"transaction_id":"{id}"}}"#
        ))
    });
    let done = place.score(&approving, "-c 4 --overwrite --fresh --ledger kept.ledger");
    done.exits(0);
    assert_snapshot!(shown(&done, &approving), @r"
    rescore: sending users.csv to http://SERVER/v1/validate/user; up to 4 calls at a time, no rate limit
             name ← `name`, email ← `email`, phone not sent, ip ← `ip`, user_agent ← `user_agent`
    rescore: a new ledger, `kept.ledger`: nothing is paid for yet
    rescore: 9 rows in TIME, SPEED rows/s
             approve 9
             9 calls
             wrote scored.csv
             the paid answers are kept in kept.ledger
    ");
    // Everything is known.
    let done = place
        .run(
            &approving,
            "users.csv -o again.csv -c 4 --ledger kept.ledger",
        )
        .done();
    done.exits(0);
    assert_snapshot!(shown(&done, &approving), @r"
    rescore: sending users.csv to http://SERVER/v1/validate/user; up to 4 calls at a time, no rate limit
             name ← `name`, email ← `email`, phone not sent, ip ← `ip`, user_agent ← `user_agent`
    rescore: the ledger `kept.ledger` has 9 answers for this run
    rescore: 9 rows in TIME, SPEED rows/s
             approve 9
             9 rows already paid for, taken from the ledger
             wrote again.csv
             the paid answers are kept in kept.ledger
    ");
}

#[test]
fn answers_of_the_stand_in_are_never_called_paid() {
    let place = Place::with("users.csv", users::csv(30));
    let run = |flags: &[&str]| {
        let arguments = "run users.csv -o scored.csv --sandbox";
        let program = place.rescore(arguments).args(flags);
        let done = program.done();
        for paid in ["paid answer", "already paid", "are paid"] {
            done.silent_about(paid);
        }
        done
    };
    run(&["--max-calls", "10"])
        .exits(5)
        .says("the answers are kept in rescore-sandbox.ledger; once the limit is raised, the same command continues");
    run(&["--max-calls", "15"])
        .exits(5)
        .says("`rescore-sandbox.ledger` has 10 answers for this run");
    run(&["--fresh", "--max-calls", "5"])
        .exits(5)
        .says("5 calls");
    let done = run(&["--price", "0.004"]);
    done.exits(0).says("rows taken from the ledger");
    run(&[]).exits(2).says("and its rows are scored");
    let stream = "run users.csv --sandbox --max-calls 5";
    let done = place.rescore(stream).done();
    done.exits(0)
        .says("the answers are kept in rescore-sandbox.ledger");
}

#[test]
fn files_removed_during_a_run_are_not_named_in_its_summary() {
    let (server, release) = Server::holding(4);
    let place = Place::with("users.csv", users::csv(9));
    fs::create_dir(place.path("out")).unwrap();
    let arguments = "users.csv -o out/scored.csv -c 2";
    let program = place.run(&server, arguments);
    let running = program.args("--summary summary.json").start();
    server.wait_for_calls(6);
    fs::remove_dir_all(place.path("out")).unwrap();
    drop(release);
    let done = running.done();
    done.exits(3)
        .says("the output was removed or moved during the run\n")
        .says("another run makes the same calls again")
        .silent_about("may be lost")
        .silent_about("out/scored.csv.partial");
    let summary = place.json("summary.json");
    for file in ["output", "rejects", "changes", "ledger"] {
        assert_eq!(summary[file], Value::Null, "{file}");
    }
}

#[test]
fn a_directory_that_was_moved_during_a_run_can_be_moved_back_and_the_run_continues() {
    let (server, release) = Server::holding(4);
    let place = Place::with("users.csv", users::csv(9));
    let (out, moved) = (place.path("out"), place.path("moved"));
    fs::create_dir(&out).unwrap();
    let run = || place.run(&server, "users.csv -o out/scored.csv -c 2");
    let running = run().start();
    server.wait_for_calls(6);
    fs::rename(&out, &moved).unwrap();
    drop(release);
    running
        .done()
        .exits(3)
        .says("the output was removed or moved during the run\n")
        .says("the ledger with up to ")
        .says(" paid answers of this run was removed or moved: if it is moved back, the same command continues")
        .silent_about("no ledger keeps");
    fs::rename(&moved, &out).unwrap();
    run().done().exits(0);
    assert_eq!(place.text("out/scored.csv"), users::scored(&users::csv(9)));
    // Only those are asked for again whose answers had no place.
    assert!(server.calls() < 6 + 9, "{}", server.calls());
}
