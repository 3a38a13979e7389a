//! The same command continues: a row is recognised by its request, wherever it is in the file and however the file was
//! edited, and every other row is sent.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;

use crate::support::ledger_file;
use crate::support::process::{Done, Place};
use crate::support::server::{Request, Server, answer, good, ok, status};
use crate::support::users;

/// A run of `users.csv` that stopped after so many calls.
pub(super) fn stopped<'a>(place: &'a Place, server: &'a Server, calls: usize) -> Done {
    let before = server.calls();
    let done = place.score(server, ["--max-calls", &calls.to_string()]);
    done.exits(3).says("the same command continues from there");
    assert_eq!(server.calls(), before + calls);
    done
}

pub(super) fn rows(csv: &str) -> Vec<&str> {
    csv.lines().skip(1).collect()
}

pub(super) fn file<'a>(rows: impl IntoIterator<Item = &'a str>) -> String {
    let header = "id,name,email,ip,user_agent\n".to_owned();
    rows.into_iter().fold(header, |file, row| file + row + "\n")
}

#[test]
fn an_input_that_was_sorted_extended_or_edited_costs_only_what_is_new() {
    let csv = users::csv(20);
    let sorted = file(rows(&csv).into_iter().rev());
    let extended = file(rows(&users::csv(25)));
    let shortened = file(rows(&csv).into_iter().skip(3).take(5));
    let edited = csv
        .replace("User 3,", "User Three,")
        .replace("\n5,", "\nfive,");
    // The id is not sent: a row is recognised without it.
    for (changed, new) in [(sorted, 0), (extended, 5), (shortened, 0), (edited, 1)] {
        let (place, server) = (Place::with("users.csv", &csv), Server::good());
        place.write("users.csv", csv.clone() + "9,,x@example.com,192.0.2.1,u\n");
        place.score(&server, "").exits(1);
        assert_eq!(server.calls(), 20);
        place.write("users.csv", &changed);
        place
            .score(&server, "--retry-failed")
            .exits(0)
            .says("20 answers are paid for");
        assert_eq!(server.calls(), 20 + new);
        assert_eq!(place.text("scored.csv"), users::scored(&changed));
        // Most of its answers were not used and may be needed later.
        let stays = rows(&changed).len() < 10;
        let names = place.names();
        assert_eq!(names.contains(&"scored.csv.ledger".to_owned()), stays);
        assert_eq!(names.len(), 2 + usize::from(stays));
    }
}

#[test]
fn other_thresholds_cost_no_call() {
    let csv = users::csv(12);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    stopped(&place, &server, 7);
    place
        .score(&server, "--approve-max 10 --review-max 10")
        .exits(0);
    assert_eq!(server.calls(), 12);
    let expected = users::scored(&csv)
        .replace(",review\n", ",approve\n")
        .replace(",block\n", ",approve\n");
    assert_eq!(place.text("scored.csv"), expected);

    let run = |max| {
        let args = [
            "--ledger",
            "answers.ledger",
            "--overwrite",
            "--review-max",
            max,
        ];
        place.score(&server, args).exits(0);
        place.text("scored.csv")
    };
    run("5");
    assert_eq!(server.calls(), 24);
    assert_eq!(
        run("10"),
        users::scored(&csv).replace(",block\n", ",review\n")
    );
    assert_eq!(server.calls(), 24);
}

#[test]
fn failed_rows_alone_are_asked_again_and_put_in_their_place() {
    let csv = users::csv(10);
    let odd = |name: &str| ["User 3", "User 7"].contains(&name);
    let place = Place::with("users.csv", &csv);
    let server = Server::start(move |request| {
        if odd(&request.name()) && request.attempt == 1 {
            return status(422);
        }
        good(request)
    });
    place
        .score(&server, "")
        .exits(1)
        .says("scored.csv.ledger has 8 paid answers; `--retry-failed` sends only the rows without a verdict");
    assert_eq!(place.text("scored.csv"), users::scored_without(&csv, odd));
    assert_eq!(
        place.names(),
        [
            "scored.csv",
            "scored.csv.ledger",
            "scored.rejects.csv",
            "users.csv"
        ]
    );
    place
        .score(&server, "--retry-failed")
        .exits(0)
        .says("8 rows already paid for, taken from the ledger");
    let again: Vec<_> = server.requests()[10..].iter().map(Request::name).collect();
    assert_eq!(again.len(), 2);
    assert!(again.iter().all(|name| odd(name)), "{again:?}");
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    assert_eq!(place.names(), ["scored.csv", "users.csv"]);
}

#[test]
fn continuing_a_run_of_another_day_gives_a_warning() {
    const WARNING: &str = "more than a day old";
    let csv = users::csv(9);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    stopped(&place, &server, 2);
    stopped(&place, &server, 2).silent_about(WARNING);
    ledger_file::begun_long_ago(&place.path("scored.csv.ledger"));
    // A nightly job runs with --quiet and must get the warning all the same.
    place
        .score(&server, "--quiet")
        .exits(0)
        .says("warning: the run of ")
        .says(" is more than a day old: its 4 answers are used, unless `--fresh` or `--max-age` is given\n");
    assert_eq!(server.calls(), 9);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    // A shared ledger belongs to no single day.
    let shared = |more: &str| {
        let args = "users.csv -o scored.csv --overwrite";
        let program = place.run(&server, args).args("--ledger answers.ledger");
        let done = program.args(more).done();
        done.silent_about("warning").code()
    };
    assert_eq!(shared("--max-calls 2"), Some(3));
    ledger_file::begun_long_ago(&place.path("answers.ledger"));
    assert_eq!(shared(""), Some(0));
}

#[test]
fn equal_rows_that_are_asked_each_keep_their_own_answers_over_a_stop() {
    let csv = users::named(["A"; 4]).replace(['2', '3', '4'], "1") + "9,B,b@example.com,::1,u\n";
    let csv = csv.replace("user1@example.com,191.0.1.1", "user1@example.com,192.0.2.1");
    // Each call gets an answer of its own.
    let numbered = || {
        Server::start(|request| {
            let (name, attempt) = (request.name(), request.attempt);
            ok(&format!(
                r#"{{"transaction_id":"{name}-{attempt}","summary":{{"risk_score":{attempt}}}}}"#
            ))
        })
    };
    let (place, server) = (Place::with("users.csv", &csv), numbered());
    place.score(&server, "--no-dedupe -c 1").exits(0);
    let whole = place.text("scored.csv");
    assert!(
        whole.contains(",A-1,1,") && whole.contains(",A-4,4,"),
        "{whole}"
    );

    for stop in 1..5 {
        let (place, server) = (Place::with("users.csv", &csv), numbered());
        let stop = stop.to_string();
        let args = ["--no-dedupe", "-c", "1", "--max-calls", &stop];
        place.score(&server, args).exits(3);
        place.score(&server, "--no-dedupe -c 1").exits(0);
        assert_eq!(
            (place.text("scored.csv"), server.calls()),
            (whole.clone(), 5)
        );
    }
    let (place, server) = (Place::with("users.csv", &csv), numbered());
    place
        .score(&server, "")
        .exits(0)
        .says("3 rows reused the answer of an identical row");
    assert_eq!(server.calls(), 2);
}

#[test]
fn a_killed_run_that_sends_each_of_several_equal_rows_pays_for_none_twice() {
    let row = users::csv(1).lines().last().unwrap().to_owned() + "\n";
    let csv = users::csv(1) + &row.repeat(4);
    let place = Place::with("users.csv", &csv);
    // The third call is never answered, and so never paid for.
    let (server, release) = Server::holding_if(|request| request.nth == 3);
    let flags = "--no-dedupe -c 1";
    let run = place.scoring(&server);
    let run = run.args(flags);
    let stored = || {
        let ledger = ledger_file::open(&place.path("scored.csv.ledger"));
        let count = ledger.query_row("SELECT sum(answers) FROM answer_blocks", [], |row| {
            row.get::<_, i64>(0)
        });
        count.unwrap_or(0)
    };
    let killed = run
        .start()
        .kill_when(|| server.calls() >= 3 && stored() == 2);
    assert_eq!(killed.code(), None);
    drop(release);
    place.score(&server, flags).exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    assert_eq!(server.calls(), 3 + 3, "two of five were paid for before");
}

#[test]
fn a_row_equal_to_one_that_is_out_waits_for_its_answer() {
    let (server, release) = Server::holding_if(|request| request.name() == "A");
    let row = |id: usize, name: &str| format!("{id},{name},{name}@example.com,192.0.2.1,u");
    let names = ["B", "A", "A", "C", "A", "D"];
    let rows: Vec<_> = (1..).zip(names).map(|(id, name)| row(id, name)).collect();
    let csv = file(rows.iter().map(String::as_str));
    let place = Place::with("users.csv", &csv);
    let running = place.scoring(&server).start();
    server.wait_for_calls(4);
    drop(release);
    running
        .done()
        .exits(0)
        .says("2 rows reused the answer of an identical row");
    assert_eq!(server.calls(), 4);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn a_row_equal_to_one_that_this_run_has_paid_for_is_no_earlier_runs() {
    let (place, server) = (Place::with("users.csv", users::csv(1)), Server::good());
    let shared = "--ledger answers.ledger";
    place.score(&server, shared).exits(0);
    let (reader, mut writer) = std::io::pipe().unwrap();
    let running = { place.run(&server, "- -o more.csv") }
        .args(shared)
        .stdin_from(reader)
        .start();
    let row = "7,New,new@example.com,192.0.2.7,u";
    writer.write_all(file([row]).as_bytes()).unwrap();
    running.wait_for_file("more.csv.partial", |rows| {
        rows.windows(3).any(|it| it == b"New")
    });
    writer.write_all(format!("{row}\n").as_bytes()).unwrap();
    drop(writer);
    running
        .done()
        .exits(0)
        .says("1 row reused the answer of an identical row")
        .silent_about("from the ledger");
    assert_eq!(server.calls(), 2);
}

#[test]
fn a_foreign_file_or_a_newer_ledger_is_refused_and_left_as_it_is() {
    let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
    stopped(&place, &server, 2);
    let newer = rusqlite::Connection::open(place.path("scored.csv.ledger")).unwrap();
    newer.pragma_update(None, "user_version", 99).unwrap();
    drop(newer);
    let newer = place.read("scored.csv.ledger");
    for (bytes, words) in [
        (&newer[..], "version 99"),
        (b"id,name\n1,Jane\n", "is not a rescore ledger"),
    ] {
        for args in [&["--fresh"][..], &["--overwrite"], &[]] {
            place.write("scored.csv.ledger", bytes);
            place.write("answers.ledger", bytes);
            let program = || place.scoring(&server);
            let program = || program().args(args);
            program().done().exits(2).says(words);
            let shared = program().args("--ledger answers.ledger").done();
            shared.exits(2).says(words);
            assert!(place.read("scored.csv.ledger") == bytes);
            assert!(place.read("answers.ledger") == bytes);
        }
    }
    assert_eq!(server.calls(), 2);
    assert_eq!(
        place.text("scored.csv.partial"),
        users::scored(&users::csv(2))
    );
}

#[test]
fn an_output_on_a_link_has_its_ledger_beside_the_real_file() {
    let csv = users::csv(6);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    fs::create_dir(place.path("real")).unwrap();
    symlink("real/target.csv", place.path("link.csv")).unwrap();
    let run = || place.run(&server, "users.csv -o link.csv");
    run().args("--max-calls 4").done().exits(3);
    assert!(place.path("real/target.csv.ledger").exists());
    assert!(!place.path("link.csv.ledger").exists());
    // Under its real name it is the same output.
    let real = place.run(&server, "users.csv -o real/target.csv").done();
    real.exits(0).says("4 answers are paid for");
    assert_eq!(server.calls(), 6);
    assert_eq!(place.text("link.csv"), users::scored(&csv));
    assert_eq!(fs::read_dir(place.path("real")).unwrap().count(), 1);
}

#[test]
fn a_row_refused_for_good_by_a_pause_is_left_and_asked_by_the_next_run() {
    let csv = users::csv(8);
    let place = Place::with("users.csv", &csv);
    let server = Server::start(|request| match request.nth {
        5 => answer(429, &[("retry-after", "3600")], ""),
        _ => good(request),
    });
    place.score(&server, "-c 1").exits(3).says("4 paid answers");
    place.score(&server, "").exits(0);
    assert_eq!(server.calls(), 5 + 4);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn a_mistyped_command_in_between_costs_no_paid_answer() {
    let csv = users::csv(40);
    let (place, server, refuses) = (
        Place::with("users.csv", &csv),
        Server::good(),
        Server::start(|_| status(401)),
    );
    stopped(&place, &server, 30);
    // First an address that refuses everything, then another file with the same output.
    place.score(&refuses, "").exits(4);
    place.write("other.csv", users::named(["Somebody Else"]));
    let done = place.run(&server, "other.csv -o scored.csv").done();
    done.exits(0)
        .says("scored.csv.ledger has 31 paid answers, also for other rows");
    assert_eq!(server.calls(), 31);
    // Now the output belongs to another input.
    place.score(&server, "").exits(2).says("--retry-failed");
    place
        .score(&server, "--retry-failed")
        .exits(2)
        .says("`scored.csv` was written by a run with another input");
    let done = place.score(&server, "--retry-failed --overwrite");
    done.exits(0)
        .says("30 rows already paid for, taken from the ledger");
    assert_eq!(server.calls(), 41);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    assert_eq!(place.names(), ["other.csv", "scored.csv", "users.csv"]);
}

#[test]
fn a_row_that_always_fails_holds_up_no_row_behind_it() {
    let csv = users::csv(6);
    let place = Place::with("users.csv", &csv);
    let server = Server::start(|request| match &*request.name() {
        "User 1" => status(500),
        "User 5" if request.attempt == 1 => status(500),
        _ => good(request),
    });
    place.score(&server, "--retries 0 -c 1").exits(3);
    let server = Server::start(|request| match &*request.name() {
        "User 2" => status(500),
        "User 5" if request.attempt == 1 => status(500),
        _ => good(request),
    });
    place.score(&server, "--retries 0 -c 1").exits(1);
    let retry = "--retries 0 -c 1 --retry-failed";
    place.score(&server, retry).exits(1);
    let bad = |name: &str| name == "User 2";
    assert_eq!(place.text("scored.csv"), users::scored_without(&csv, bad));
}

#[test]
fn a_new_ledger_does_not_allow_overwriting_rows_that_were_paid_for() {
    let (place, server) = (Place::with("users.csv", users::csv(9)), Server::good());
    place.score(&server, "--no-ledger --max-calls 4").exits(3);
    place
        .score(&server, "--ledger new.ledger")
        .exits(2)
        .says("is in the way")
        .says("hint: move it away, or use `--overwrite` to start over\n");
    assert_eq!(server.calls(), 4);
}

#[test]
fn another_ledger_does_not_hide_that_the_runs_own_has_the_answers() {
    let csv = users::csv(9);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    place
        .run(
            &server,
            "users.csv -o other.csv --limit 1 --ledger used.ledger",
        )
        .done()
        .exits(0);
    stopped(&place, &server, 4);
    for (option, name) in [
        ("--ledger new.ledger", "--ledger"),
        ("--ledger used.ledger", "--ledger"),
        ("--no-ledger", "--no-ledger"),
    ] {
        place
            .score(&server, option)
            .exits(2)
            .says("scored.csv.partial` from an unfinished run is in the way")
            .says(&format!(
                "hint: the same command without `{name}` continues from `"
            ))
            .says("scored.csv.ledger`; to start over, move");
    }
    place.score(&server, "").exits(0);
    assert_eq!(server.calls(), 1 + 9);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}
