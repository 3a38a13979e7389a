//! Files that a run creates: never through a link, never readable by more people than the input, never over a file that
//! appeared during the run.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
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

const CHANGES: &str = "--changes changes.csv";

#[test]
fn no_name_of_ours_is_followed_and_a_pipe_is_not_waited_for() {
    let server = Server::good();
    for (at, name) in NAMES.into_iter().enumerate() {
        for (which, (put, words)) in PUTS.into_iter().enumerate() {
            let place = Place::with("users.csv", users::csv(3));
            place.write("victim", "precious");
            put(&place, name);
            let before = place.names();
            let overwrite = if (at + which) % 2 == 0 {
                "--overwrite"
            } else {
                ""
            };
            let run = place.scoring(&server).args(CHANGES).args(overwrite);
            run.exits(2).says(&format!("`{name}`")).says(words);
            assert_eq!(place.text("victim"), "precious");
            assert_eq!(place.names(), before);
        }
    }
    // Nor are rejects that nobody named.
    let place = Place::with("users.csv", format!("{}9,,u@x.org,::1,u\n", users::csv(1)));
    place.write("victim", "precious");
    symlink("victim", place.path("scored.rejects.csv")).unwrap();
    let done = place.score(&server, "--overwrite");
    done.exits(2).says("`scored.rejects.csv`").says("--rejects");
    assert_eq!(place.text("victim"), "precious");
    assert_eq!(server.calls(), 0);
}

#[test]
fn a_link_that_was_put_there_while_a_run_was_interrupted_is_not_followed() {
    let csv = users::csv(5);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    let stopped = place.score(&server, "--max-calls 2 --changes changes.csv");
    stopped.exits(5);
    place.write("victim", "precious");
    for name in NAMES {
        let away = fs::rename(place.path(name), place.path("away")).is_ok();
        symlink("victim", place.path(name)).unwrap();
        let done = place.score(&server, CHANGES);
        done.exits(2)
            .says(&format!("`{name}`"))
            .says("symbolic link");
        assert_eq!(place.text("victim"), "precious");
        fs::remove_file(place.path(name)).unwrap();
        if away {
            fs::rename(place.path("away"), place.path(name)).unwrap();
        }
    }
    place.score(&server, CHANGES).exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    assert_eq!(server.calls(), 5);
}

#[test]
fn a_file_that_is_not_a_lock_of_ours_is_not_emptied() {
    let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
    place.write("scored.csv.lock", "my notes");
    let done = place.score(&server, "--overwrite");
    done.exits(2).says("`scored.csv.lock`");
    assert_eq!(place.text("scored.csv.lock"), "my notes");
    // What a killed run or a power cut has left there is ours.
    for left in ["process 4194304", "proc", "\0\0\0\0", "process 41\0\0"] {
        place.write("scored.csv.lock", left);
        place.score(&server, "--overwrite").exits(0);
        assert_eq!(place.names(), ["rescore.ledger", "scored.csv", "users.csv"]);
    }
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
    // The mode of the input, the mode of the earlier output, and the mode that all files must have.
    for (input, old, expected) in [
        (0o640, None, 0o640),
        (0o444, None, 0o644),
        (0o644, Some(0o600), 0o600),
        (0o600, Some(0o644), 0o600),
        (0o644, Some(0o444), 0o444),
    ] {
        let place = Place::with("users.csv", &csv);
        set_mode(&place, "users.csv", input);
        if let Some(old) = old {
            place.write("scored.csv", "old");
            set_mode(&place, "scored.csv", old);
        }
        // What a run before has left there, and anybody may read.
        place.write("scored.csv.partial", "");
        set_mode(&place, "scored.csv.partial", 0o666);
        let (server, release) = Server::holding_if(|request| request.nth >= 3);
        let run = place.run(&server, "users.csv -o scored.csv --overwrite -c 1");
        let running = run.args(CHANGES).args("--summary summary.json").start();
        server.wait_for_calls(3);
        let is_private = |name: &str, at_most: u32| {
            let now = mode(&place, name);
            assert_eq!(
                now & 0o077 & !at_most,
                0,
                "{name} {now:o} {input:o} {old:?}"
            );
            now
        };
        // Already while it is written, and its owner can continue.
        for name in ["scored.csv", "scored.rejects.csv", "changes.csv"] {
            let now = is_private(&format!("{name}.partial"), expected);
            assert_eq!(now & 0o600, 0o600, "{name} {now:o}");
        }
        drop(release);
        running.exits(1);
        assert_eq!(mode(&place, "scored.csv"), expected, "{input:o} {old:?}");
        is_private("scored.rejects.csv", expected);
        is_private("changes.csv", expected);
        is_private("summary.json", input);
    }
}

#[test]
fn no_file_is_readable_by_a_group_that_could_not_read_the_input_or_the_file_that_it_replaces() {
    let give_none: &[&str] = &["setpriv", "--bounding-set=-chown", "--inh-caps=-chown"];
    let set = |place: &Place, name: &str, (bits, group): (u32, u32)| {
        chown(place.path(name), None, Some(group)).map(|()| set_mode(place, name, bits))
    };
    // The input, the earlier output, and what all files must be. The user of the tests is in group 0 only.
    for (input, old, under, expected) in [
        ((0o640, 7), None, &[][..], (0o640, 7)),
        ((0o644, 7), None, &[], (0o644, 7)),
        ((0o640, 7), Some((0o640, 8)), &[], (0o600, 8)),
        ((0o644, 7), Some((0o640, 8)), &[], (0o640, 8)),
        ((0o640, 7), None, give_none, (0o600, 0)),
        ((0o644, 7), None, give_none, (0o644, 0)),
        ((0o644, 7), Some((0o660, 8)), give_none, (0o600, 0)),
    ] {
        let csv = format!("{}9,,u@x.org,::1,u\n", users::csv(3));
        let (place, server) = (Place::with("users.csv", csv), Server::good());
        if set(&place, "users.csv", input).is_err() {
            println!("only root can give files to any group: not tried");
            return;
        }
        if let Some(old) = old {
            place.write("scored.csv", "old");
            set(&place, "scored.csv", old).unwrap();
        }
        let run = place.run(&server, "users.csv -o scored.csv --overwrite");
        let run = run.args(CHANGES).args("--summary summary.json");
        run.under(under).exits(1);
        for name in [
            "scored.csv",
            "scored.rejects.csv",
            "changes.csv",
            "summary.json",
        ] {
            let now = fs::metadata(place.path(name)).unwrap();
            let (bits, group) = (now.mode() & 0o777, now.gid());
            let what = format!("{name} {bits:o} {group} of {input:?} {old:?} {under:?}");
            assert!(
                bits & 0o060 == 0 || [input.1, expected.1].contains(&group),
                "{what}"
            );
            assert!(bits & 0o004 == 0 || input.0 & 0o004 != 0, "{what}");
            if name == "scored.csv" {
                assert_eq!((bits, group), expected, "{what}");
            }
        }
    }
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
    for (name, overwrite) in [
        ("scored.csv", ""),
        // Also if there was a file to replace, and another one takes its place.
        ("scored.csv", "--overwrite"),
        ("scored.rejects.csv", ""),
        ("changes.csv", ""),
    ] {
        let place = Place::with("users.csv", &csv);
        if !overwrite.is_empty() {
            place.write(name, "old");
        }
        let (server, release) = Server::holding_if(|request| request.nth >= 3);
        let run = place.run(&server, "users.csv -o scored.csv -c 1");
        let running = run.args(CHANGES).args(overwrite).start();
        server.wait_for_calls(3);
        place.write("new", "somebody's");
        fs::rename(place.path("new"), place.path(name)).unwrap();
        drop(release);
        // The changes get their name before the output, and the rejects after it.
        let output = if name == "scored.rejects.csv" {
            "scored.csv"
        } else {
            "scored.csv.partial"
        };
        let done = running.exits(3);
        done.says(&format!("{name}` appeared after the run started"));
        done.says(&format!("{output} has the 6 finished rows\n"));
        assert_eq!(place.text(name), "somebody's");
        assert_eq!(
            place.text(output),
            users::scored_without(&csv, str::is_empty)
        );
        assert!(place.path(&format!("{name}.partial")).exists());
        if overwrite.is_empty() {
            let words = format!("{name}` is not as the unfinished run left it");
            place.score(&server, CHANGES).exits(2).says(&words);
        }
    }
}

#[test]
fn rejects_and_a_report_that_appear_during_a_run_stay() {
    let place = Place::with("users.csv", users::csv(5));
    let (server, release) = Server::holding_if(|request| request.nth >= 3);
    let run = place.run(&server, "users.csv -o scored.csv -c 1 --report r.html");
    let running = run.start();
    server.wait_for_calls(3);
    for name in ["r.html", "scored.rejects.csv"] {
        place.write(name, "somebody's");
    }
    drop(release);
    let done = running.exits(0);
    done.says("warning: `r.html` appeared after the run started");
    assert_eq!(place.text("r.html"), "somebody's");
    assert_eq!(place.text("scored.rejects.csv"), "somebody's");
    assert!(place.text("r.html.partial").trim_end().ends_with("</html>"));
}

#[test]
fn an_empty_file_becomes_a_ledger_with_its_mode_unless_everybody_may_write_to_it() {
    let (place, server) = (Place::with("users.csv", users::csv(1)), Server::good());
    let options = "--ledger answers.ledger --overwrite --fresh";
    for before in [0o660, 0o600] {
        place.write("answers.ledger", "");
        set_mode(&place, "answers.ledger", before);
        place.score(&server, options).exits(0);
        assert_eq!(mode(&place, "answers.ledger"), before, "{before:o}");
        // Whoever shares it later changes nothing for a run.
        set_mode(&place, "answers.ledger", 0o644);
        place.score(&server, options).exits(0);
        assert_eq!(mode(&place, "answers.ledger"), 0o644);
        fs::remove_file(place.path("answers.ledger")).unwrap();
    }
    let calls = server.calls();
    place.write("answers.ledger", "");
    set_mode(&place, "answers.ledger", 0o666);
    let done = place.score(&server, options);
    done.exits(2).says("chmod 660");
    assert_eq!(
        (server.calls(), place.read("answers.ledger").len()),
        (calls, 0)
    );
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
fn a_directory_that_cannot_be_read_or_written_costs_no_row() {
    let Some(under) = without_root_s_rights() else {
        println!("root without `setpriv` cannot give up its rights: not tried");
        return;
    };
    let (csv, scored) = (users::csv(5), users::scored(&users::csv(5)));
    let place = Place::with("users.csv", csv);
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
    set_mode(&place, "out", 0o300);
    done.exits(3).says(
        "error: `out/scored.csv.partial` is complete, but cannot be renamed to `out/scored.csv`: permission denied",
    );
    assert_eq!(place.text("out/scored.csv.partial"), scored);
    let done = run().exits(0);
    done.says("warning: `out` cannot be synced: the files in it are complete");
    set_mode(&place, "out", 0o700);
    assert_eq!(place.text("out/scored.csv"), scored);
    assert_eq!(server.calls(), 5);
}

#[test]
fn an_output_that_another_program_changes_stops_the_run_and_is_left_as_it_is() {
    let (header, rows) = (users::csv(0), users::csv(9));
    let csv = rows.replace(&header, &format!("{header}9,,u@x.org,::1,u\n"));
    for (output, file) in [
        ("scored.csv", "scored.csv.partial"),
        ("scored.csv", "scored.rejects.csv.partial"),
        ("scored.csv.gz", "scored.csv.gz.partial"),
    ] {
        for change in ["replaced", "cut", "added to"] {
            let is_packed = output == "scored.csv.gz";
            if is_packed && change != "replaced" {
                // What is compressed may still be in memory: nothing to cut.
                continue;
            }
            let place = Place::with("users.csv", &csv);
            let (server, release) = Server::holding_if(|request| request.nth >= 5);
            let run = place.run(&server, ["users.csv", "-o", output, "-c", "1"]);
            let running = run.start();
            server.wait_for_calls(5);
            running.wait_for_file(file, |rows| is_packed || !rows.is_empty());
            let (left, words) = match change {
                "cut" => (String::new(), "another program has changed it: it has "),
                "added to" => (
                    place.text(file) + "somebody's\n",
                    "another program has changed it",
                ),
                _ => {
                    fs::remove_file(place.path(file)).unwrap();
                    ("somebody's".to_owned(), "another file has taken its place")
                }
            };
            place.write(file, &left);
            drop(release);
            let done = running.exits(3);
            done.says(&format!("error: cannot write `{file}`: {words}"));
            assert!(!place.path(output).exists(), "{file}");
            let text = place.text(file);
            assert!(text.starts_with(&left) && !text.contains('\0'), "{text}");
        }
    }
}
