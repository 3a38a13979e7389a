//! A disk that fills up, at every point where that can happen: nothing is torn or lost, and with free space the same
//! command continues.
//!
//! `ulimit -f` bounds each file; a tmpfs of some kilobytes bounds all of them together, where a test may mount one.

use std::collections::HashSet;
use std::fs;
use std::process::Command;

use crate::support::process::{Done, Place};
use crate::support::server::{Server, good_body, ok};
use crate::support::users;

const CONCURRENCY: usize = 4;

/// Users with a further cell of so many bytes.
fn wide(rows: usize, bytes: usize) -> String {
    let csv = users::csv(rows);
    let (header, rows) = csv.split_once('\n').unwrap();
    let cell = "x".repeat(bytes);
    let rows: String = rows.lines().map(|row| format!("{row},{cell}\n")).collect();
    format!("{header},more\n{rows}")
}

/// Whether all lines are whole lines of the expected output, in order. Some may be missing: their calls were not made.
fn whole_rows(partial: &str, whole: &str) -> bool {
    let mut whole = whole.split_inclusive('\n');
    let mut partial = partial.split_inclusive('\n');
    partial.all(|line| whole.any(|right| right == line))
}

const LIMIT: &str = "hint: raise the file size limit (`ulimit -f`)";
const LIMITED: &[&str] = &["sh", "limited.sh"];

/// With these users, and a script that limits the size of files to so many blocks.
fn limited(csv: &str, blocks: usize) -> Place {
    let place = Place::with("users.csv", csv);
    place.write("limited.sh", format!("ulimit -f {blocks}\nexec \"$@\"\n"));
    place
}

/// Runs once with a limit on the size of files, and then without one. Returns what the first run did.
fn run_limited(csv: &str, blocks: usize, server: &Server) -> Done {
    let rows = csv.lines().count() - 1;
    let (place, before, scored) = (limited(csv, blocks), server.calls(), users::scored(csv));
    let program = place.run(server, "users.csv -o scored.csv -c 4");
    let stopped = program.under(LIMITED).done();
    stopped.exits_with_one_of(&[0, 3]).silent_about("panicked");
    if stopped.code() == Some(3) {
        // A full disk is not an error in the settings, even if nothing could start.
        stopped.says("cannot ").says(LIMIT);
        let names = place.names();
        if server.calls() == before {
            assert_eq!(names, ["limited.sh", "users.csv"], "{stopped}");
        }
        if names.contains(&"scored.csv.partial".to_owned()) {
            let partial = place.text("scored.csv.partial");
            stopped.check(whole_rows(&partial, &scored), "whole rows");
        }
        place.score(server, "-c 4").exits(0);
    }
    assert!(place.text("scored.csv") == scored, "{stopped}");
    let calls = server.calls() - before;
    let few = (rows..=rows + 2 * CONCURRENCY).contains(&calls);
    stopped.check(few, "little is asked twice");
    let left = ["limited.sh", "rescore.ledger", "scored.csv", "users.csv"];
    assert_eq!(place.names(), left);
    stopped
}

#[test]
fn if_the_disk_is_full_at_any_point_the_same_command_continues() {
    let server = Server::good();
    for (csv, mut blocks, expected) in [
        (
            users::csv(100),
            0,
            &[
                "error: cannot write `scored.csv.lock`: file too large",
                "write the ledger `rescore.ledger`: file too large",
                "error: cannot keep answers in `rescore.ledger`: file too large",
            ][..],
        ),
        (
            // The output outgrows the ledger, whose journal takes up to 16 KiB an answer.
            wide(60, 30_000),
            60,
            &["error: cannot write `scored.csv.partial`: file too large"],
        ),
    ] {
        let mut said = String::new();
        // First the run cannot start, then it stops, then it finishes.
        loop {
            let done = run_limited(&csv, blocks, &server);
            if done.code() == Some(0) {
                break;
            }
            said += &done.stderr;
            blocks = 2 * blocks + 1;
        }
        for error in expected {
            assert!(said.contains(error), "{error} in {said}");
        }
    }
}

#[test]
fn without_a_ledger_a_run_to_standard_output_needs_no_space_anywhere() {
    let csv = users::csv(600);
    let server = Server::start(|request| {
        let padding = format!("{{\"padding\":\"{}\",", "x".repeat(20_000));
        ok(&good_body(&request.name()).replacen('{', &padding, 1))
    });
    let place = limited(&csv, 0);
    let run = place.run(&server, "users.csv --no-ledger -c 4");
    let done = run.env("TMPDIR", "/nowhere").under(LIMITED).done();
    // Standard output is a pipe, and has no limit.
    done.exits(0);
    assert_eq!(done.printed(), users::scored(&csv));
    assert_eq!(place.names(), ["limited.sh", "users.csv"]);
}

/// In a mount namespace of its own, so that the disk disappears with it.
const IN_A_NAMESPACE: &[&str] = &["unshare", "-rm", "sh", "on-a-small-disk.sh"];

/// Whether a test may mount a disk here.
fn can_mount() -> bool {
    let place = Place::new();
    let mount = ["-rm", "sh", "-c", "mount -t tmpfs tmpfs \"$1\"", "sh"];
    let mut mounting = Command::new("unshare");
    let mounted = mounting.args(mount).arg(place.path("")).output();
    let can = mounted.is_ok_and(|mounted| mounted.status.success());
    if !can {
        println!("skipped: no file system can be mounted here");
    }
    can
}

/// With these users, and a script that mounts a disk of `$SIZE` kilobytes at `disk` and then does this with the command.
fn small_disk(csv: &str, script: &str) -> Place {
    let place = Place::with("users.csv", csv);
    let mount = "mount -t tmpfs -o \"size=${SIZE}k\" tmpfs disk || exit 99";
    place.write("on-a-small-disk.sh", format!("{mount}\n{script}"));
    fs::create_dir(place.path("disk")).unwrap();
    place
}

/// Runs the command, gives the disk more space and runs it again; keeps what was there after each.
const THEN_WITH_SPACE: &str = r#"
"$@"
code=$?
echo $code > first-code
cp -r disk first
[ $code = 0 ] && mv first last && exit
mount -o remount,size=64m disk
echo 'now with space' >&2
"$@"
code=$?
cp -r disk last
exit $code
"#;

#[test]
fn a_full_disk_is_reported_and_with_space_the_same_command_continues() {
    if !can_mount() {
        return;
    }
    // First rows so wide that the output fills the disk, although there seemed to be space at the start; then rows so narrow
    // that the ledger does.
    for (csv, mut kilobytes) in [(wide(60, 40_000), 900), (users::csv(60), 4)] {
        let (rows, scored) = (60, users::scored(&csv));
        let mut stopped = 0;
        loop {
            let (place, server) = (small_disk(&csv, THEN_WITH_SPACE), Server::good());
            let program = place.run(&server, "users.csv -o disk/scored.csv -c 4");
            let program = program
                .args("--ledger disk/rescore.ledger")
                .under(IN_A_NAMESPACE);
            let done = program.env("SIZE", kilobytes.to_string()).exits(0);
            done.check(server.calls() == rows, "nobody is asked twice");
            assert!(place.text("last/scored.csv") == scored);
            assert_eq!(fs::read_dir(place.path("last")).unwrap().count(), 2);
            if place.text("first-code") == "0\n" {
                break;
            }
            assert_eq!(place.text("first-code"), "3\n");
            let first = done.stderr.split("now with space").next().unwrap();
            for words in [
                "no space left on device",
                " in `",
                "\nhint: free some disk space and run the same command again",
            ] {
                done.check(first.contains(words), words);
            }
            if let Ok(partial) = fs::read_to_string(place.path("first/scored.csv.partial")) {
                done.check(whole_rows(&partial, &scored), "whole rows");
            }
            stopped += 1;
            kilobytes += 4 + kilobytes / 8 * 4;
        }
        assert!(stopped > 1);
    }
}

/// Runs the command four times. With `TAKEN`, something else takes what the first one has left free.
const AGAIN_AND_AGAIN: &str = r#"
for try in 1 2 3 4; do
    echo "try $try" >&2
    "$@"
    echo $? >> codes
    [ -z "$TAKEN" ] || cat /dev/zero 2> errors > disk/other
done
"#;

#[test]
fn on_a_disk_that_is_full_the_same_command_pays_for_nothing_again_however_often_it_is_run() {
    if !can_mount() {
        return;
    }
    // Every other of these rows fails.
    let failing = (1..=100).fold(wide(200, 10_000), |csv, row| {
        let user = format!("\n{0},User {0},", 2 * row);
        csv.replace(&user, &format!("\n{},,", 2 * row))
    });
    // Each fills a disk of its own: on a shared disk it would be chance which of them is named.
    for (csv, options, file, kilobytes, taken) in [
        // The writer takes up to 256 rows at a time, and where these do not fit removes them again: as they are far smaller
        // than what a run needs to start, no further run starts.
        (
            wide(3_200, 1_000),
            "-o disk/scored.csv --ledger paid.ledger",
            "scored.csv.partial",
            2_400,
            "",
        ),
        (
            failing,
            "-o scored.csv --rejects disk/failed.csv",
            "failed.csv.partial",
            300,
            "",
        ),
        // A ledger gives back the space that it has kept for calls in flight.
        (
            users::csv(1_000),
            "-o scored.csv --ledger disk/paid.ledger",
            "paid.ledger",
            500,
            "taken",
        ),
    ] {
        let (place, server) = (small_disk(&csv, AGAIN_AND_AGAIN), Server::good());
        let program = place.run(&server, "users.csv -c 32").args(options);
        let program = program.under(IN_A_NAMESPACE).env("TAKEN", taken);
        let done = program.env("SIZE", kilobytes.to_string()).done();
        assert_eq!(place.text("codes"), "3\n3\n3\n3\n", "{done}");
        let requests = server.requests().into_iter();
        let asked: HashSet<_> = requests.map(|request| request.body).collect();
        done.check(server.calls() == asked.len(), "nothing is paid for again");
        for again in done.stderr.split("try ").skip(2) {
            let full = format!("disk/{file}`: no space left on device\n");
            done.check(again.contains(&full), "where it is full");
        }
    }
}

/// Runs the command twice at the same time, for two outputs; with more space, both once more.
const TWO_AT_A_TIME: &str = r#"
"$@" -o 1.csv 2> said-1 & first=$!
"$@" -o 2.csv 2> said-2 & second=$!
for run in $first $second; do wait $run; echo $? >> codes; done
mount -o remount,size=64m disk
for output in 1.csv 2.csv; do "$@" -o $output || exit; done
ls disk > left
"#;

#[test]
fn two_runs_whose_ledgers_disk_is_full_stop_and_with_space_both_continue() {
    const ROWS: usize = 1_000;
    if !can_mount() {
        return;
    }
    let csv = users::csv(ROWS);
    let (place, server) = (small_disk(&csv, TWO_AT_A_TIME), Server::good());
    let program = place.run(&server, "users.csv --ledger disk/paid.ledger -c 4");
    let done = program.under(IN_A_NAMESPACE).env("SIZE", "400").exits(0);
    assert_eq!(place.text("codes"), "3\n3\n");
    for (said, output) in [("said-1", "1.csv"), ("said-2", "2.csv")] {
        let said = place.text(said);
        assert!(said.contains("no space left on device"), "{said}");
        assert!(place.text(output) == users::scored(&csv), "{output}");
    }
    let most = ROWS + 2 * 2 * CONCURRENCY;
    let few = (ROWS..=most).contains(&server.calls());
    done.check(few, "little is asked twice");
    assert_eq!(place.text("left"), "paid.ledger\n");
}

#[test]
fn a_summary_that_has_no_space_is_warned_of_and_leaves_no_empty_file() {
    if !can_mount() {
        return;
    }
    let (csv, server) = (users::csv(9), Server::good());
    let full = "cat /dev/zero 2> errors > disk/other\n\"$@\"\necho $? > code\nls disk > left\n";
    let place = small_disk(&csv, full);
    let run = place.run(&server, "users.csv -o scored.csv --summary disk/s.json");
    let done = run.under(IN_A_NAMESPACE).env("SIZE", "16").done();
    done.says("warning: cannot write the summary to `disk/s.json`: no space left on device\n");
    assert_eq!([place.text("code"), place.text("left")], ["0\n", "other\n"]);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}
