//! What people see of a run: its progress, a bar that fits its terminal, and a summary without lines for what did not
//! occur.

use std::fs::{self, File};
use std::io::Read;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::{Value, json};

use crate::support::process::Place;
use crate::support::server::{Server, answer, good, good_body, ok, silence, status};
use crate::support::shown::is_stamp;
use crate::support::users;

#[test]
fn the_summary_counts_what_the_server_saw() {
    // Every kind of trouble that a run survives: one row refused, one answered at the third call, one throttled, and one
    // cut off once.
    let server = Server::start(|request| match (request.name().as_str(), request.attempt) {
        ("User 3", _) => status(422),
        ("User 4", 1 | 2) => status(500),
        ("User 5", 1) => answer(429, &[("retry-after", "1")], ""),
        ("User 6", 1) => silence().then_reset(),
        _ => good(request),
    });
    let place = Place::with("users.csv", users::csv(20));
    let run = place.scoring(&server).env("TZ", "Asia/Kathmandu");
    let done = run.args("-c 1 --summary summary.json").exits(1);
    let summary = place.json("summary.json");
    let calls = server.calls();
    assert_eq!(calls, 20 + 2 + 1 + 1, "{done}");
    assert_eq!(
        [&summary["exit_code"], &summary["stopped"]],
        [&json!(1), &Value::Null]
    );
    let endpoint = format!("{}/v1/validate/user", server.url());
    assert_eq!(summary["endpoint"], endpoint);
    let rows = json!({"read": 20, "resolved": 20, "written": 20, "left": 0});
    assert_eq!(summary["rows"], rows);
    let failed = json!({"rows": 1, "reasons": {"refused": 1}});
    assert_eq!(summary["failed"], failed);
    for (name, expected) in [
        ("sent", calls),
        ("in_flight", 0),
        ("answered", 19),
        ("retries", 3),
        ("throttled", 1),
        ("unknown_outcome", 1),
        ("unclear", 2),
        ("resent", 1),
        ("maybe_billed_twice", 1),
        ("billed_without_verdict", 0),
        ("repeated_transaction_ids", 0),
    ] {
        assert_eq!(summary["calls"][name], expected, "{name}");
    }
    assert!(summary["paused_seconds"].as_f64().unwrap() >= 0.9);

    // People read their own time.
    done.says("+05:45 rescore: paused: ");
}

#[test]
fn a_stopped_run_has_a_summary_too() {
    let server = Server::start(|request| match request.nth {
        1..=3 => good(request),
        _ => status(401),
    });
    let place = Place::with("users.csv", users::csv(9));
    let done = place.score(&server, "-c 1 --summary summary.json");
    done.exits(4);
    let summary = place.json("summary.json");
    assert_eq!(
        [&summary["exit_code"], &summary["stopped"]],
        [&json!(4), &json!("refused")]
    );
    let rows = json!({"read": 9, "resolved": 3, "written": 3, "left": 6});
    assert_eq!(summary["rows"], rows);
    assert_eq!(summary["output"]["path"], "scored.csv.partial");
}

#[test]
fn quiet_is_quiet_except_for_errors_and_rows_that_failed() {
    let place = Place::with("users.csv", users::csv(9));
    let done = place.score(&Server::good(), "-q");
    done.exits(0);
    done.check(done.stderr.is_empty(), "nothing on standard error");
    let again = "-q --overwrite --no-ledger";
    let done = place.score(&Server::start(|_| status(401)), again);
    done.exits(4);
    done.check(done.stderr.starts_with("error: "), "nothing but the error");
    let server = Server::start(|request| match request.name().as_str() {
        "User 3" | "User 5" => status(422),
        _ => good(request),
    });
    let done = place.score(&server, again);
    done.exits(1);
    let words = "warning: 2 of 9 rows failed: refused 2; see scored.rejects.csv (finished with exit code 1)\n";
    assert_eq!(done.stderr, words);
    let off = place.score(&Server::good(), "--progress off --overwrite --no-ledger");
    off.exits(0).says("9 rows in").silent_about("in flight");
    off.silent_about("failed").silent_about("throttled");
}

#[test]
fn without_a_terminal_a_line_is_printed_at_intervals_and_pauses_are_reported_once_between_two() {
    let (server, release) = Server::start_holding_if(
        |request| request.nth > 5,
        |request| match request.nth {
            2 | 4 => answer(429, &[("retry-after", "1")], "slow down"),
            _ => good(request),
        },
    );
    let place = Place::with("users.csv", users::csv(6));
    let running = place.scoring(&server).args("-c 1").start();
    running.wait_for_words("rescore: 50.0%, 3 of 6 rows");
    drop(release);
    let done = running.exits(0);
    done.says("the service throttled 2 calls");
    done.silent_about("\u{1b}").silent_about("\r");
    let told = done.stderr.matches(" rescore: paused: ");
    done.check(told.count() == 1, "a single line about pauses");
    // Only progress lines start with their time.
    for line in done.stderr.lines() {
        let (first, rest) = line.split_once(' ').unwrap_or_default();
        let is_progress = line.contains("; approve ") || line.contains(" paused: ");
        assert_eq!(is_stamp(first), is_progress, "{line}");
        assert!(!is_progress || rest.starts_with("rescore: "), "{line}");
    }
}

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

/// What a run of 40 users, with a pause of a second among them, writes on a terminal.
fn on_a_terminal(columns: u16, kind: &str) -> String {
    let server = Server::start(|request| match request.nth {
        20 => answer(429, &[("retry-after", "1")], ""),
        _ => good(request),
    });
    let place = Place::with("users.csv", users::csv(40));
    let (side, written) = terminal(columns);
    let run = place.scoring(&server).args("-c 1").env("TERM", kind);
    run.stderr(side).exits(0);
    written.join().unwrap()
}

#[test]
fn a_bar_fits_its_terminal_and_is_cleared_before_anything_else_is_printed() {
    let runs = [(80, "xterm"), (40, "xterm"), (80, "dumb")];
    let runs = runs.map(|(columns, kind)| thread::spawn(move || on_a_terminal(columns, kind)));
    let [wide, narrow, dumb] = runs.map(|run| run.join().unwrap());
    for (columns, written) in [(80, wide), (40, narrow)] {
        let told = format!("{columns} columns: {written:?}");
        // A bar starts and ends at the start of a line, so that the next one is drawn over all of it, wherever a resized
        // terminal puts its lines.
        let frames: Vec<_> = written.split("\u{1b}[J\r\u{1b}[1A").collect();
        let (last, frames) = frames.split_last().unwrap();
        assert!(
            frames.iter().any(|frame| frame.contains("paused: ")),
            "{told}"
        );
        for frame in &frames[1..] {
            let lines = frame.strip_prefix("\r\u{1b}[K").expect(&told);
            let lines: Vec<_> = lines.split("\r\n\u{1b}[K").collect();
            assert_eq!(lines.len(), 2, "{told}");
            assert!(
                lines[0].contains("% · ") && lines[0].contains(" rows"),
                "{told}"
            );
            for line in lines {
                assert!(line.chars().count() < columns, "{told}");
            }
        }
        assert!(last.starts_with("\r\u{1b}[Jrescore: 40 rows in "), "{told}");
    }
    // A dumb terminal gets lines, and nothing that would move its cursor.
    assert!(dumb.contains(" (429) asked for 1"), "{dumb:?}");
    assert!(!dumb.contains('\u{1b}'), "{dumb:?}");
}

#[test]
fn a_terminal_that_can_shows_the_progress_in_its_tab_until_the_end() {
    for (variable, value, version, shows) in [
        ("TERM_PROGRAM", "ghostty", "1.0", true),
        ("TERM_PROGRAM", "iTerm.app", "3.6.6", true),
        ("TERM_PROGRAM", "iTerm.app", "3.5.14", false),
        ("WT_SESSION", "an-id", "", true),
        ("TERM_PROGRAM", "Apple_Terminal", "455", false),
    ] {
        let server = Server::start(|request| good(request).after(Duration::from_millis(20)));
        let place = Place::with("users.csv", users::csv(40));
        let (side, written) = terminal(80);
        let run = place.scoring(&server).args("-c 1").env("TERM", "xterm");
        let run = run
            .env(variable, value)
            .env("TERM_PROGRAM_VERSION", version);
        run.stderr(side).exits(0);
        let written = written.join().unwrap();
        assert_eq!(
            written.contains("\u{1b}]9;4;1;"),
            shows,
            "{value} {version}: {written:?}"
        );
        let (_, last) = written.rsplit_once("\u{1b}]9;4;").unwrap_or(("", "0;"));
        assert!(last.starts_with("0;"), "{value}: {written:?}");
    }
}

#[test]
fn one_answer_for_different_users_is_reported_once_and_counted() {
    // A cache that takes each user from the fifth on for the second.
    let server = Server::start(|request| match request.name().as_str() {
        "User 5" | "User 6" | "User 7" | "User 8" => ok(&good_body("User 2")),
        _ => good(request),
    });
    let place = Place::with("users.csv", users::csv(9));
    let done = place.score(&server, "-c 1 --summary summary.json");
    // The rows have what the service answered: it cannot be known whose verdict it was.
    done.exits(0).says(
        "warning: two different users got the same transaction id, in row 2 and row 5: a cache or proxy may be answering for the service\n",
    );
    done.check(done.stderr.matches("warning").count() == 1, "once");
    done.says("4 answers had the transaction id of a different user");
    let calls = &place.json("summary.json")["calls"];
    assert_eq!(calls["repeated_transaction_ids"], 4);

    // Equal users may have one id: a service may recognise a user.
    let csv = users::csv(3)
        .replace("2,User 2,user2", "2,User 1,user1")
        .replace("192.0.2.2", "192.0.2.1");
    let place = Place::with("users.csv", &csv);
    let done = place.score(&Server::good(), "-c 1");
    done.exits(0)
        .silent_about("warning")
        .silent_about("transaction id");
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn rate_limit_headers_that_were_disbelieved_are_reported() {
    let place = Place::with("users.csv", users::csv(30));
    let server = Server::start(|request| {
        let headers = [("ratelimit-remaining", "0"), ("ratelimit-reset", "3")];
        answer(200, &headers, &good_body(&request.name()))
    });
    // A few calls in each window, until more were accepted in one than were left.
    let done = place.score(&server, "--summary summary.json");
    done.exits(0)
        .says("the service's RateLimit headers were ignored");
    let headers = &place.json("summary.json")["pace"]["headers"];
    assert_eq!(*headers, "disbelieved");
}

#[test]
fn answers_of_the_stand_in_are_never_called_paid() {
    let place = Place::with("users.csv", users::csv(30));
    let run = |flags: &str| {
        let run = place.rescore("run users.csv -o scored.csv --sandbox");
        let done = run.args(flags).done();
        for paid in ["paid answer", "already paid", "are paid"] {
            done.silent_about(paid);
        }
        done
    };
    let kept = "the answers are kept in sandbox.ledger";
    run("--max-calls 10").exits(5).says(kept);
    let known = "20 calls to make (the budget leaves 5), 10 known already in";
    run("--max-calls 15").exits(5).says(known);
    run("--price 0.004")
        .exits(0)
        .says("rows taken from the ledger");
    run("").exits(2).says("and its rows are scored");
}

#[test]
fn a_directory_that_was_moved_or_removed_during_a_run_is_not_named_as_if_it_were_there() {
    for is_removed in [true, false] {
        let (server, release) = Server::holding(4);
        let place = Place::with("users.csv", users::csv(9));
        let (out, moved) = (place.path("out"), place.path("moved"));
        fs::create_dir(&out).unwrap();
        let run = || {
            let run = place.run(&server, "users.csv -o out/scored.csv -c 2");
            run.args("--ledger out/rescore.ledger --summary summary.json")
        };
        let running = run().start();
        server.wait_for_calls(6);
        if is_removed {
            fs::remove_dir_all(&out).unwrap();
        } else {
            fs::rename(&out, &moved).unwrap();
        }
        drop(release);
        let done = running.exits(3);
        done.says("the output was removed or moved during the run\n");
        done.silent_about("out/scored.csv.partial");
        let summary = place.json("summary.json");
        for file in ["output", "rejects", "changes", "ledger"] {
            assert_eq!(summary[file], Value::Null, "{file}");
        }
        if is_removed {
            continue;
        }
        done.says("if it is moved back, the same command continues");
        fs::rename(&moved, &out).unwrap();
        run().exits(0);
        assert_eq!(place.text("out/scored.csv"), users::scored(&users::csv(9)));
        // Only those are asked for again whose answers had no place.
        assert!(server.calls() < 6 + 9, "{}", server.calls());
    }
}
