//! Files that a run creates: never through a link, never readable by more people than the input, never over a file that
//! appeared during the run.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use crate::support::process::Place;
use crate::support::server::Server;
use crate::support::users;

/// Every file that a run of `users.csv` to `scored.csv` creates for itself, beside the output.
const NAMES: [&str; 8] = [
    "scored.csv.partial",
    "scored.rejects.csv.partial",
    "changes.csv.partial",
    "scored.csv.lock",
    "rescore.ledger",
    "rescore.ledger-wal",
    "rescore.ledger-shm",
    "rescore.ledger-journal",
];

/// Each way to put something at a path that leads elsewhere, and the name of that in the message.
type Put = fn(&Place, &str);
const PUTS: [(Put, &str); 4] = [
    (
        |place, name| symlink("victim", place.path(name)).unwrap(),
        "symbolic link",
    ),
    (
        |place, name| symlink("nowhere", place.path(name)).unwrap(),
        "symbolic link",
    ),
    (
        |place, name| fs::hard_link(place.path("victim"), place.path(name)).unwrap(),
        "hard link",
    ),
    (
        |place, name| {
            let made = Command::new("mkfifo").arg(place.path(name)).status();
            assert!(made.unwrap().success());
        },
        "not a regular file",
    ),
];

const CHANGES: [&str; 2] = ["--changes", "changes.csv"];

#[test]
fn no_name_of_ours_is_followed_and_a_pipe_is_not_waited_for() {
    let server = Server::good();
    for (put, words) in PUTS {
        for name in NAMES {
            for overwrite in [false, true] {
                let place = Place::with("users.csv", users::csv(3));
                place.write("victim", "precious");
                put(&place, name);
                let run = place.scoring(&server);
                let run = run.args(CHANGES);
                let run = if overwrite {
                    run.arg("--overwrite")
                } else {
                    run
                };
                run.done().exits(2).says(&format!("`{name}`")).says(words);
                assert_eq!(place.text("victim"), "precious");
                assert_eq!(place.names(), {
                    let mut names = vec![name, "users.csv", "victim"];
                    names.sort_unstable();
                    names
                });
            }
        }
    }
    assert_eq!(server.calls(), 0);
}

#[test]
fn a_link_that_was_put_there_while_a_run_was_interrupted_is_not_followed() {
    for name in NAMES {
        let (place, server) = (Place::with("users.csv", users::csv(5)), Server::good());
        let args = "--max-calls 2 --changes changes.csv";
        place.score(&server, args).exits(5);
        place.write("victim", "precious");
        let _ = fs::remove_file(place.path(name));
        symlink("victim", place.path(name)).unwrap();
        let done = place.score(&server, args);
        done.exits(2)
            .says(&format!("`{name}`"))
            .says("symbolic link");
        assert_eq!(
            (place.text("victim").as_str(), server.calls()),
            ("precious", 2)
        );
        fs::remove_file(place.path(name)).unwrap();
        if name != "rescore.ledger" {
            place.score(&server, CHANGES).exits(0);
            assert_eq!(place.text("scored.csv"), users::scored(&users::csv(5)));
        }
    }
}

#[test]
fn a_file_that_is_not_a_lock_of_ours_is_not_emptied() {
    let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
    place.write("scored.csv.lock", "my notes");
    let done = place.score(&server, "--overwrite");
    done.exits(2)
        .says("`scored.csv.lock`")
        .says("does not come from rescore")
        .says("move it away");
    assert_eq!(place.text("scored.csv.lock"), "my notes");
    // A file that a killed run left there is ours.
    place.write("scored.csv.lock", "process 4194304");
    place.score(&server, "").exits(0);
    assert_eq!(place.names(), ["rescore.ledger", "scored.csv", "users.csv"]);
}

#[test]
fn rejects_that_nobody_named_do_not_follow_a_link() {
    let csv = format!("{}9,,u@x.org,::1,u\n", users::csv(1));
    let (place, server) = (Place::with("users.csv", csv), Server::good());
    place.write("victim", "precious");
    symlink("victim", place.path("scored.rejects.csv")).unwrap();
    let done = place.score(&server, "--overwrite");
    done.exits(2).says("`scored.rejects.csv`").says("--rejects");
    assert_eq!(
        (place.text("victim").as_str(), server.calls()),
        ("precious", 0)
    );
}

fn set_mode(place: &Place, name: &str, mode: u32) {
    fs::set_permissions(place.path(name), Permissions::from_mode(mode)).unwrap();
}

fn mode(place: &Place, name: &str) -> u32 {
    let metadata = fs::metadata(place.path(name)).unwrap();
    metadata.permissions().mode() & 0o777
}

#[test]
fn no_file_is_readable_by_more_people_than_the_input_or_the_file_that_it_replaces() {
    let csv = format!("{}9,,u@x.org,::1,u\n", users::csv(5));
    let names = [
        "scored.csv",
        "scored.rejects.csv",
        "changes.csv",
        "summary.json",
    ];
    // The mode of the input, the mode of the earlier output, and the mode that all files must have.
    for (input, old, expected) in [
        (0o600, None, 0o600),
        (0o640, None, 0o640),
        (0o444, None, 0o644),
        (0o644, Some(0o600), 0o600),
        (0o644, Some(0o640), 0o640),
        (0o600, Some(0o644), 0o600),
        (0o644, Some(0o444), 0o444),
    ] {
        let place = Place::with("users.csv", &csv);
        set_mode(&place, "users.csv", input);
        if let Some(old) = old {
            place.write("scored.csv", "old");
            set_mode(&place, "scored.csv", old);
        }
        let (server, release) = Server::holding_if(|request| request.nth >= 3);
        let run = place.run(&server, "users.csv -o scored.csv --overwrite");
        let run = run.args(CHANGES).args("--summary summary.json -c 1");
        let running = run.start();
        server.wait_for_calls(3);
        // Already while it is written, and its owner can continue.
        for name in [
            "scored.csv.partial",
            "scored.rejects.csv.partial",
            "changes.csv.partial",
        ] {
            let now = mode(&place, name);
            assert_eq!(now & 0o600, 0o600, "{name} {now:o}");
            assert_eq!(now & 0o077 & !expected, 0, "{name} {now:o}");
        }
        drop(release);
        running.done().exits(1);
        assert_eq!(mode(&place, "scored.csv"), expected, "{input:o} {old:?}");
        for name in names {
            let now = mode(&place, name);
            let at_most = if name == "summary.json" {
                input
            } else {
                expected
            };
            assert_eq!(
                now & 0o077 & !at_most,
                0,
                "{name} {now:o} {input:o} {old:?}"
            );
        }
    }
}

#[test]
fn a_leftover_that_anybody_can_read_is_made_private_before_a_row_is_in_it() {
    let place = Place::with("users.csv", users::csv(3));
    set_mode(&place, "users.csv", 0o600);
    place.write("scored.csv.partial", "");
    set_mode(&place, "scored.csv.partial", 0o666);
    let (server, release) = Server::holding_if(|request| request.nth >= 1);
    let running = place
        .run(&server, "users.csv -o scored.csv --overwrite")
        .start();
    server.wait_for_calls(1);
    assert_eq!(mode(&place, "scored.csv.partial"), 0o600);
    drop(release);
    running.done().exits(0);
    assert_eq!(mode(&place, "scored.csv"), 0o600);
}

#[test]
fn a_run_that_replaces_a_read_only_output_can_be_stopped_and_continued() {
    let (place, server) = (Place::with("users.csv", users::csv(5)), Server::good());
    place.write("scored.csv", "old");
    set_mode(&place, "scored.csv", 0o444);
    let stopped = place.score(&server, "--overwrite --max-calls 2");
    stopped.exits(5);
    assert_eq!(mode(&place, "scored.csv.partial"), 0o644);
    place.score(&server, "--overwrite").exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(5)));
    assert_eq!((mode(&place, "scored.csv"), server.calls()), (0o444, 5));
}

#[test]
fn a_file_that_appears_during_a_run_is_neither_replaced_nor_removed() {
    let csv = format!("{}9,,u@x.org,::1,u\n", users::csv(5));
    for (name, args) in [
        ("scored.csv", &[][..]),
        // Also if there was a file to replace, and another one takes its place.
        ("scored.csv", &["--overwrite"]),
        ("scored.rejects.csv", &[]),
        ("changes.csv", &[]),
    ] {
        let place = Place::with("users.csv", &csv);
        if !args.is_empty() {
            place.write(name, "old");
        }
        let (server, release) = Server::holding_if(|request| request.nth >= 3);
        let run = place.run(&server, "users.csv -o scored.csv -c 1");
        let run = run.args(CHANGES).args(args);
        let running = run.start();
        server.wait_for_calls(3);
        place.write("new", "somebody's");
        fs::rename(place.path("new"), place.path(name)).unwrap();
        drop(release);
        let output = if name == "scored.csv" {
            "scored.csv.partial"
        } else {
            "scored.csv"
        };
        let done = running.done();
        done.exits(3)
            .says(&format!("{name}` appeared after the run started"))
            .says("the complete output is in `")
            .silent_about("unfinished rows")
            .says(&format!("{output} has the 6 finished rows\n"))
            .says(&format!("{name}.partial`\n"));
        assert_eq!(place.text(name), "somebody's");
        let scored = users::scored_without(&csv, str::is_empty);
        assert_eq!(place.text(output), scored);
        assert!(place.path(&format!("{name}.partial")).exists());
        if args.is_empty() {
            let run = place.run(&server, "users.csv -o scored.csv");
            run.args(CHANGES)
                .done()
                .exits(2)
                .says(&format!("{name}` is not as the unfinished run left it"));
        }
    }
}

#[test]
fn a_report_whose_name_is_taken_during_a_run_is_where_the_warning_says() {
    let place = Place::with("users.csv", users::csv(5));
    let (server, release) = Server::holding_if(|request| request.nth >= 3);
    let run = place.run(&server, "users.csv -o scored.csv -c 1 --report r.html");
    let running = run.start();
    server.wait_for_calls(3);
    place.write("r.html", "somebody's");
    drop(release);
    let done = running.done();
    done.exits(0)
        .says("warning: `r.html` appeared after the run started")
        .says("the complete output is in `r.html.partial`\n\nhint: rename one of them");
    assert_eq!(place.text("r.html"), "somebody's");
    assert!(place.text("r.html.partial").trim_end().ends_with("</html>"));
}

#[test]
fn an_empty_file_that_becomes_a_ledger_is_no_longer_readable_by_everybody() {
    let (place, server) = (Place::with("users.csv", users::csv(1)), Server::good());
    for before in [0o644, 0o666, 0o600] {
        place.write("answers.ledger", "");
        set_mode(&place, "answers.ledger", before);
        let options = "--ledger answers.ledger --overwrite";
        place.score(&server, options).exits(0);
        assert_eq!(mode(&place, "answers.ledger"), 0o600, "{before:o}");
        // Nobody changes the rights of a ledger.
        set_mode(&place, "answers.ledger", 0o644);
        place.score(&server, options).exits(0);
        assert_eq!(mode(&place, "answers.ledger"), 0o644);
        fs::remove_file(place.path("answers.ledger")).unwrap();
    }
}

#[test]
fn rejects_that_appear_during_a_run_without_any_stay() {
    let (place, (server, release)) = (
        Place::with("users.csv", users::csv(3)),
        Server::holding_if(|request| request.nth >= 2),
    );
    let running = place.scoring(&server).start();
    server.wait_for_calls(2);
    place.write("scored.rejects.csv", "somebody's");
    drop(release);
    running.done().exits(0);
    assert_eq!(place.text("scored.rejects.csv"), "somebody's");
}

/// Root may read any directory unless it gives up that capability; other users have nothing to give up.
fn without_root_s_rights() -> Option<&'static [&'static str]> {
    const GIVE_UP: &[&str] = &[
        "setpriv",
        "--bounding-set=-dac_override,-dac_read_search",
        "--inh-caps=-dac_override,-dac_read_search",
    ];
    let id = Command::new("id").arg("-u").output().unwrap();
    if id.stdout != b"0\n" {
        return Some(&[]);
    }
    let mut try_it = Command::new(GIVE_UP[0]);
    let done = try_it.args(&GIVE_UP[1..]).arg("true").status();
    done.is_ok_and(|status| status.success()).then_some(GIVE_UP)
}

#[test]
fn in_a_directory_that_cannot_be_read_the_output_is_complete_and_there_is_a_warning() {
    let Some(under) = without_root_s_rights() else {
        println!("root without `setpriv` cannot give up its rights: not tried");
        return;
    };
    let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
    fs::create_dir(place.path("drop")).unwrap();
    set_mode(&place, "drop", 0o300);
    let run = place.run(&server, "users.csv -o drop/scored.csv");
    let done = run.under(under).done();
    set_mode(&place, "drop", 0o700);
    done.exits(0)
        .says("wrote drop/scored.csv")
        .says("warning: `drop` cannot be synced: the files in it are complete");
    assert_eq!(place.text("drop/scored.csv"), users::scored(&users::csv(3)));
    assert_eq!(fs::read_dir(place.path("drop")).unwrap().count(), 2);
}

#[test]
fn a_complete_output_that_cannot_be_renamed_is_where_the_error_says() {
    let Some(under) = without_root_s_rights() else {
        println!("root without `setpriv` cannot give up its rights: not tried");
        return;
    };
    let place = Place::with("users.csv", users::csv(5));
    let (server, release) = Server::holding_if(|request| request.nth >= 3);
    fs::create_dir(place.path("out")).unwrap();
    let run = || {
        let run = place.run(&server, "users.csv -o out/scored.csv -c 1");
        run.args("--ledger answers").under(under)
    };
    let running = run().start();
    server.wait_for_calls(3);
    set_mode(&place, "out", 0o555);
    drop(release);
    let done = running.done();
    set_mode(&place, "out", 0o755);
    done.exits(3).says(
        "error: `out/scored.csv.partial` is complete, but cannot be renamed to `out/scored.csv`: permission denied\n\nhint: rename it once that is possible\n",
    );
    let scored = users::scored(&users::csv(5));
    assert_eq!(place.text("out/scored.csv.partial"), scored);
    run().done().exits(0);
    assert_eq!((place.text("out/scored.csv"), server.calls()), (scored, 5));
}

#[test]
fn no_two_files_of_a_run_are_the_same_file_under_two_names() {
    let server = Server::good();
    let csv = users::csv(3);
    for (args, words) in [
        (
            &["--summary", "key.txt"][..],
            "the API key file `key.txt` and the summary",
        ),
        (&["--summary", "hard.txt"], "the API key"),
        (&["--summary", "soft.txt"], "the API key"),
        (&["--summary", "ca.pem"], "certificate authority"),
        (&["--rejects", "ca.pem"], "certificate authority"),
        (&["--changes", "key.txt"], "the API key"),
        (&["--ledger", "key.txt"], "the API key"),
        (&["--ledger", "x", "--summary", "x-wal"], "the ledger"),
        (&["--summary", "rescore.ledger-shm"], "the ledger"),
        (&["--summary", "scored.csv.lock"], "the output's lock"),
        (&["--summary", "scored.rejects.csv.partial"], "the rejects"),
    ] {
        let place = Place::with("users.csv", &csv);
        place.write("key.txt", "key-of-the-file");
        place.write("ca.pem", "a certificate");
        fs::hard_link(place.path("key.txt"), place.path("hard.txt")).unwrap();
        symlink("key.txt", place.path("soft.txt")).unwrap();
        let before = place.names();
        let run = place.run(
            &server,
            "users.csv -o scored.csv --overwrite --api-key-file key.txt --ca-file ca.pem",
        );
        let run = run.args(args);
        run.done()
            .exits(2)
            .says(words)
            .says("would be the same file");
        assert_eq!(
            (place.text("key.txt").as_str(), place.names()),
            ("key-of-the-file", before)
        );
        assert_eq!(place.text("ca.pem"), "a certificate");
    }
    assert_eq!(server.calls(), 0);
}

#[test]
fn an_output_that_another_program_changes_stops_the_run_and_is_left_as_it_is() {
    /// Changes a file, and returns what is in it then.
    type Change = fn(&Place, &str) -> String;
    let cut: Change = |place, name| {
        place.write(name, "");
        String::new()
    };
    let replace: Change = |place, name| {
        place.write("other", "somebody's");
        fs::rename(place.path("other"), place.path(name)).unwrap();
        "somebody's".to_owned()
    };
    let add: Change = |place, name| {
        let before = place.text(name);
        place.write(name, format!("{before}somebody's\n"));
        place.text(name)
    };
    let bad = format!(
        "9,,u@x.org,::1,u\n{}",
        users::csv(9).split_once('\n').unwrap().1
    );
    let csv = format!("{}\n{bad}", users::csv(9).split_once('\n').unwrap().0);
    for (output, changed) in [
        ("scored.csv", "scored.csv.partial"),
        ("scored.csv.gz", "scored.csv.gz.partial"),
        ("scored.csv", "scored.rejects.csv.partial"),
    ] {
        for (change, words) in [
            (cut, "another program has changed it: it has "),
            (replace, "another file has taken its place"),
            (add, "another program has changed it: it has "),
        ] {
            let is_packed = output == "scored.csv.gz";
            if is_packed && words.contains("changed") {
                // What is compressed may still be in memory: nothing to cut.
                continue;
            }
            let place = Place::with("users.csv", &csv);
            let (server, release) = Server::holding_if(|request| request.nth >= 5);
            let run = place.run(&server, ["users.csv", "-o", output, "-c", "1"]);
            let running = run.start();
            server.wait_for_calls(5);
            running.wait_for_file(changed, |rows| is_packed || !rows.is_empty());
            let left = change(&place, changed);
            drop(release);
            let done = running.done();
            done.exits(3)
                .says(&format!("error: cannot write `{changed}`: {words}"))
                .says("hint: find the program that did it, then run the same command again");
            assert!(!place.path(output).exists(), "{changed}");
            let text = place.text(changed);
            assert!(text.starts_with(&left) && !text.contains('\0'), "{text}");
        }
    }
}
