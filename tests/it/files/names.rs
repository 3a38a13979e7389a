//! Names of files and columns with terminal escape sequences, as a download, an archive or a glob may bring them.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::process::{KEY, Place, clean};
use crate::support::server::{Server, good, status};
use crate::support::users;

/// Renames the window, rings the bell, returns to the start of the line, forges a line, and reverses what follows.
const EVIL: &str = "\u{1b}]0;owned\u{7}\r\nwarning: forged\u{9b}31m\u{202e}";
/// How a message shows it.
const SHOWN: &str = "\\u{1b}]0;owned\\u{7}\\r\\nwarning: forged\\u{9b}31m\\u{202e}";

#[test]
fn no_name_of_a_file_or_column_steers_a_terminal() {
    let server = Server::start(|request| match request.nth {
        2 => status(422),
        _ => good(request),
    });
    let place = Place::new();
    let file = |what: &str| format!("{what}{EVIL}");
    let header = users::csv(3).replacen("name", "name\u{1b}]0;owned\u{7}", 1);
    place.write(&file("users.csv"), header);
    place.write(&file("key"), KEY);
    fs::set_permissions(place.path(&file("key")), fs::Permissions::from_mode(0o644)).unwrap();
    let program = |progress: &'static str| {
        let run = place
            .run(&server, ["-c", "1", "--overwrite", "--progress", progress])
            .without_env("RESCORE_API_KEY");
        run.args([
            file("users.csv"),
            "-o".to_owned(),
            file("out.csv"),
            "--api-key-file".to_owned(),
            file("key"),
            "--summary".to_owned(),
            file("summary.json"),
            "--changes".to_owned(),
            file("changes.csv"),
            "--map".to_owned(),
            "name=name\u{1b}]0;owned\u{7}".to_owned(),
            "--ledger".to_owned(),
            file("ledger"),
            "--log".to_owned(),
            file("log"),
        ])
    };
    let done = program("plain").done();
    done.exits(1)
        .says(&format!("rescore: sending users.csv{SHOWN} to http://"))
        .says("name\\u{1b}]0;owned\\u{7}")
        .says(&format!("`key{SHOWN}`; `chmod 600` prevents that\n"))
        .says(&format!("wrote out.csv{SHOWN}\n"))
        .says(&format!("answers are kept in ledger{SHOWN};"));
    clean("standard error", &done.stderr);

    // For programs the same names are JSON strings with the real name.
    let summary = place.text(&file("summary.json"));
    clean("the summary", &summary);
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["output"]["path"], file("out.csv"));
    let log = place.text(&file("log"));
    clean("the log", &log);
    let first = log.lines().next().unwrap();
    let first: serde_json::Value = serde_json::from_str(first).unwrap();
    assert_eq!(first["data"]["output"], file("out.csv"));
    let done = program("json").done();
    clean("standard error", &done.stderr);
    let last = done.stderr.lines().last().unwrap();
    let last: serde_json::Value = serde_json::from_str(last).unwrap();
    assert_eq!(last["output"]["path"], file("out.csv"));

    for (arguments, name) in [
        (&["stats"][..], "ledger"),
        (&["prune", "--older-than", "1d"], "ledger"),
        (&["forget", "-", "--ledger"], "ledger"),
        (&["stats"], "no-such-ledger"),
    ] {
        let program = place.rescore("ledger").args(arguments);
        let done = program.arg(file(name)).done();
        clean("standard error", &done.stderr);
        clean("standard output", &done.printed());
        let said = format!("{}{}", done.stderr, done.printed());
        assert!(said.contains(&format!("{name}{SHOWN}")), "{done}");
    }
}

#[test]
fn no_argument_that_is_refused_steers_a_terminal() {
    let place = Place::new();
    for arguments in [
        ["run", "--\u{1b}]0;owned\u{7}"],
        ["run", "--plan=\u{1b}]0;owned\u{7}"],
        ["run", "--column=\u{1b}]0;owned\u{7}"],
        ["run", "--plan=a\u{7}\u{9b}31m\u{202e}"],
        ["run", "no-such\u{1b}]0;owned\u{7}\r\nerror: forged"],
        ["sandbox", "--listen=\u{1b}]0;owned\u{7}"],
        ["\u{1b}]0;owned\u{7}", ""],
    ] {
        let done = place.rescore(arguments).done();
        done.exits(2);
        clean("standard error", &done.stderr);
    }
}
