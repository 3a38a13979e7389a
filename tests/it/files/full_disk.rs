//! A disk that fills up, at every point where that can happen: nothing is torn or lost, and with free space the same
//! command continues.
//!
//! `ulimit -f` bounds each file; a tmpfs of some kilobytes bounds all of
//! them together, where a test may mount one.

use std::collections::HashSet;
use std::fs;
use std::process::Command;

use crate::support::process::{Done, Place, device};
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

/// Runs once with a limit on the size of files, and then without one. Returns what the first run did.
fn run_limited(csv: &str, blocks: usize, server: &Server) -> Done {
    let rows = csv.lines().count() - 1;
    let place = Place::with("users.csv", csv);
    place.write("limited.sh", format!("ulimit -f {blocks}\nexec \"$@\"\n"));
    let before = server.calls();
    let scored = users::scored(csv);
    let program = place.run(server, "users.csv -o scored.csv -c 4");
    let limited = program.under(&["sh", "limited.sh"]).done();
    let asked = server.calls() - before;
    limited.silent_about("panicked");
    let names = place.names();
    match limited.code() {
        Some(0) => {
            assert_eq!((place.text("scored.csv"), asked), (scored, rows));
            return limited;
        }
        // A full disk is not an error in the settings, even if nothing could start.
        Some(3) if asked == 0 => {
            limited.says("cannot ").says(LIMIT).check(
                names == ["limited.sh", "users.csv"],
                &format!("nothing left behind of {names:?}"),
            );
        }
        Some(3) => {
            limited.says("cannot ").says(LIMIT);
            if names.contains(&"scored.csv.partial".to_owned()) {
                limited.check(
                    whole_rows(&place.text("scored.csv.partial"), &scored),
                    "whole rows",
                );
            }
        }
        _ => limited.check(false, "exit code 0 or 3"),
    }
    let done = place.score(server, "-c 4");
    done.exits(0);
    let calls = server.calls() - before;
    done.check(place.text("scored.csv") == scored, "every row its verdict");
    done.check(
        (rows..=rows + 2 * CONCURRENCY).contains(&calls),
        &format!("{blocks} blocks: {calls} calls for {rows} rows\n{limited}"),
    );
    assert_eq!(
        place.names(),
        ["limited.sh", "rescore.ledger", "scored.csv", "users.csv"]
    );
    limited
}

/// First the run cannot start, then it stops, then it finishes. Returns the errors that stopped it.
fn run_with_growing_limits(csv: &str, mut blocks: usize) -> Vec<String> {
    let server = Server::good();
    let (mut codes, mut errors) = (Vec::new(), Vec::new());
    while codes.last() != Some(&Some(0)) {
        let done = run_limited(csv, blocks, &server);
        codes.push(done.code());
        let error = done.stderr.lines().find(|line| line.starts_with("error"));
        errors.extend(error.map(str::to_owned));
        blocks += 1 + blocks / 8;
    }
    assert_eq!(codes.pop(), Some(Some(0)));
    assert!(codes.contains(&Some(3)), "{codes:?}");
    errors
}

#[test]
fn if_the_disk_is_full_at_any_point_of_the_ledger_the_same_command_continues() {
    let errors = run_with_growing_limits(&users::csv(200), 0).join("\n");
    for error in [
        "error: cannot write `scored.csv.lock`: file too large",
        "write the ledger `rescore.ledger`: file too large",
        "error: cannot keep answers in `rescore.ledger`: file too large",
    ] {
        assert!(errors.contains(error), "{error} in {errors}");
    }
}

#[test]
fn if_the_disk_is_full_at_any_point_of_the_output_the_same_command_continues() {
    let errors = run_with_growing_limits(&wide(60, 12_000), 60).join("\n");
    let error = "error: cannot write `scored.csv.partial`: file too large";
    assert!(errors.contains(error), "{errors}");
}

/// Mounts a disk, runs the command, gives the disk more space and runs it again; keeps what was there after each.
const ON_A_SMALL_DISK: &str = r#"
mount -t tmpfs -o "size=$SIZE" tmpfs disk || exit 99
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

/// In a mount namespace of its own, so that the disk disappears with it.
const IN_A_NAMESPACE: &[&str] = &["unshare", "-rm", "sh", "on-a-small-disk.sh"];

/// Whether a test may mount a disk here.
fn can_mount() -> bool {
    let place = Place::new();
    let mount = "mount -t tmpfs tmpfs \"$1\"";
    let args = ["-rm", "sh", "-c", mount, "sh"];
    let mounted = Command::new("unshare")
        .args(args)
        .arg(place.path(""))
        .output();
    mounted.is_ok_and(|mounted| mounted.status.success())
}

#[test]
fn a_full_disk_is_reported_and_with_space_the_same_command_continues() {
    if !can_mount() {
        println!("skipped: no file system can be mounted here");
        return;
    }
    // First rows so wide that the output fills the disk, although there seemed to be space at the start; then rows so narrow
    // that the ledger does.
    for (csv, fills, mut kilobytes) in [
        (wide(60, 40_000), "scored.csv.partial", 900),
        (users::csv(60), "rescore.ledger", 4),
    ] {
        let (rows, scored) = (60, users::scored(&csv));
        let (mut codes, mut said) = (Vec::new(), String::new());
        while codes.last() != Some(&"0".to_owned()) {
            let (place, server) = (Place::with("users.csv", &csv), Server::good());
            place.write("on-a-small-disk.sh", ON_A_SMALL_DISK);
            fs::create_dir(place.path("disk")).unwrap();
            let command = "users.csv -o disk/scored.csv -c 4";
            let program = place.run(&server, command).under(IN_A_NAMESPACE);
            let done = program.env("SIZE", format!("{kilobytes}k")).done();
            done.exits(0);
            let code = place.text("first-code").trim().to_owned();
            let first = done.stderr.split("now with space").next().unwrap();
            if code != "0" {
                let space = first.contains("no space left on device");
                done.check(space, &format!("{kilobytes} KB: space is what it lacks"));
                said += first;
            }
            if code == "3" {
                let place = first.contains(" in `");
                done.check(place, "where it needs it");
                let way_out = first.contains("\nhint: free space there; then ");
                done.check(way_out, "what to do");
            }
            if let Ok(partial) = fs::read_to_string(place.path("first/scored.csv.partial")) {
                done.check(whole_rows(&partial, &scored), "whole rows");
            }
            assert!(place.text("last/scored.csv") == scored);
            assert_eq!(fs::read_dir(place.path("last")).unwrap().count(), 2);
            done.check(server.calls() == rows, "nobody is asked twice");
            codes.push(code);
            kilobytes += 4 + kilobytes / 32 * 4;
        }
        codes.dedup();
        assert_eq!(codes, ["3", "0"]);
        assert!(said.contains(&format!("{fills}`: no space left")), "{said}");
    }
}

/// Mounts a disk and runs the command four times. With `TAKEN`, something else takes what the first one has left free.
const AGAIN_AND_AGAIN: &str = r#"
mount -t tmpfs -o "size=$SIZE" tmpfs disk || exit 99
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
        println!("skipped: no file system can be mounted here");
        return;
    }
    // Each fills a disk of its own: on a shared disk it would be chance which of them is named.
    let of_output = ["-o", "disk/scored.csv", "--ledger", "paid.ledger"];
    let of_ledger = ["-o", "scored.csv", "--ledger", "disk/paid.ledger"];
    for (csv, options, file, kilobytes, taken) in [
        // The writer takes up to 256 rows at a time, and where these do not fit removes them again: as they are far smaller
        // than what a run needs to start, no further run starts.
        (
            wide(3_200, 1_000),
            of_output,
            "scored.csv.partial",
            2_400,
            "",
        ),
        // A ledger gives back the space that it has kept for calls in flight.
        (users::csv(1_000), of_ledger, "paid.ledger", 500, "taken"),
    ] {
        let (place, server) = (Place::with("users.csv", &csv), Server::good());
        place.write("on-a-small-disk.sh", AGAIN_AND_AGAIN);
        fs::create_dir(place.path("disk")).unwrap();
        let program = place.run(&server, "users.csv -c 32");
        let program = program.args(options).under(IN_A_NAMESPACE);
        let program = program.env("SIZE", format!("{kilobytes}k"));
        let done = program.env("TAKEN", taken).done();
        assert_eq!(place.text("codes"), "3\n3\n3\n3\n", "{done}");
        let tries: Vec<_> = done.stderr.split("try ").skip(1).collect();
        let asked = server
            .requests()
            .into_iter()
            .map(|request| request.body)
            .collect::<HashSet<_>>();
        done.check(server.calls() == asked.len(), "nothing is paid for again");
        for again in &tries[1..] {
            let full = format!("disk/{file}`: no space left on device\n");
            done.check(again.contains(&full), "where it is full");
        }
    }
}

/// Mounts a disk and runs the command twice at the same time, for two outputs; with more space, both once more.
const TWO_AT_A_TIME: &str = r#"
mount -t tmpfs -o "size=$SIZE" tmpfs disk || exit 99
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
        println!("skipped: no file system can be mounted here");
        return;
    }
    let csv = users::csv(ROWS);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    place.write("on-a-small-disk.sh", TWO_AT_A_TIME);
    fs::create_dir(place.path("disk")).unwrap();
    let args = "users.csv --ledger disk/paid.ledger -c 4";
    let program = place.run(&server, args).under(IN_A_NAMESPACE);
    let done = program.env("SIZE", "400k").done();
    done.exits(0);
    assert_eq!(place.text("codes"), "3\n3\n");
    for said in ["said-1", "said-2"] {
        let said = place.text(said);
        assert!(said.contains("no space left on device"), "{said}");
    }
    for output in ["1.csv", "2.csv"] {
        assert!(place.text(output) == users::scored(&csv), "{output}");
    }
    let calls = server.calls();
    let most = ROWS + 2 * 2 * CONCURRENCY;
    done.check((ROWS..=most).contains(&calls), "little is asked twice");
    assert_eq!(place.text("left"), "paid.ledger\n");
}

#[test]
fn what_is_in_a_ledger_is_not_printed_to_a_full_disk_without_a_word() {
    let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
    place.score(&server, "--ledger answers").exits(0);
    let stats = place.rescore("ledger stats answers");
    let done = stats.stdout(device("/dev/full")).done();
    done.exits(3)
        .says("cannot write standard output: no space left on device");
}

#[test]
fn if_a_file_may_not_grow_any_more_the_same_command_pays_for_nothing_again() {
    let csv = wide(60, 12_000);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    place.write("limited.sh", "ulimit -f 800\nexec \"$@\"\n");
    let run = || {
        let run = place.run(&server, "users.csv -o scored.csv -c 4");
        run.under(&["sh", "limited.sh"]).done()
    };
    run().exits(3).says(LIMIT);
    for _ in 0..3 {
        let done = run();
        done.exits(3).says("file too large").says(LIMIT);
    }
    place.score(&server, "").exits(0);
    assert!(server.calls() <= 60 + 2 * 4, "nothing is paid for again");
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn missing_space_is_reported_for_the_file_that_lacks_it() {
    if !can_mount() {
        println!("skipped: no file system can be mounted here");
        return;
    }
    // Every other row fails, and only the rejects are on the small disk.
    let (csv, rows) = (wide(200, 10_000), 200);
    let csv = (1..=rows / 2).fold(csv, |csv, row| {
        csv.replace(
            &format!("\n{0},User {0},", 2 * row),
            &format!("\n{},,", 2 * row),
        )
    });
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    place.write("on-a-small-disk.sh", AGAIN_AND_AGAIN);
    fs::create_dir(place.path("disk")).unwrap();
    let args = "users.csv -o scored.csv --rejects disk/failed.csv";
    let program = place.run(&server, args).under(IN_A_NAMESPACE);
    let done = program.env("SIZE", "300k").done();
    done.exits(0)
        .says("cannot write `disk/failed.csv.partial`: no space left on device\n  there is no space left in `disk`");
    assert_eq!(place.text("codes"), "3\n3\n3\n3\n", "{done}");
}

#[test]
fn without_space_for_temporary_files_a_run_says_where_that_is_and_what_names_it() {
    // Far more than is kept in memory.
    let csv = users::csv(600);
    let server = Server::start(|request| {
        let body = good_body(&request.name());
        let padding = "x".repeat(20_000);
        ok(&body.replacen('{', &format!(r#"{{"padding":"{padding}","#), 1))
    });
    let place = Place::with("users.csv", &csv);
    place.write("limited.sh", "ulimit -f 1000\nexec \"$@\"\n");
    fs::create_dir(place.path("temporary")).unwrap();
    // Standard output is a pipe, and has no limit.
    let run = || {
        let run = place.run(&server, "users.csv --no-ledger -c 4");
        run.env("TMPDIR", place.path("temporary"))
    };
    let done = run().under(&["sh", "limited.sh"]).done();
    done.exits(3).says("/temporary` while it lasts").says(LIMIT);
    assert!(whole_rows(&done.printed(), &users::scored(&csv)));
    run().done().exits(0);
    assert_eq!(place.names(), ["limited.sh", "temporary", "users.csv"]);
    assert_eq!(fs::read_dir(place.path("temporary")).unwrap().count(), 0);
}

#[test]
fn a_summary_that_has_no_space_is_warned_of_and_leaves_no_empty_file() {
    if !can_mount() {
        println!("skipped: no file system can be mounted here");
        return;
    }
    let (place, server) = (Place::with("users.csv", users::csv(9)), Server::good());
    fs::create_dir(place.path("disk")).unwrap();
    let full = "mount -t tmpfs -o size=16k tmpfs disk && cat /dev/zero 2> errors > disk/other\n";
    let script = format!("{full}\"$@\"\necho $? > code\nls disk > left\n");
    place.write("on-a-small-disk.sh", script);
    let run = place.run(&server, "users.csv -o scored.csv --summary disk/s.json");
    let done = run.under(IN_A_NAMESPACE).done();
    done.says("warning: cannot write the summary to `disk/s.json`: no space left on device\n");
    assert_eq!(
        (place.text("code"), place.text("left")),
        ("0\n".to_owned(), "other\n".to_owned())
    );
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(9)));
}
