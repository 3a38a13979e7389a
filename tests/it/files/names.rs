//! Names of files and columns: with terminal escape sequences, as a download, an archive or a glob may bring them, in other forms
//! of the same letters, and paths that mean something to a shell.

use serde_json::Value;

use crate::support::process::{Place, clean};
use crate::support::server::{Request, Server, good, status};
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
    let column = "name\u{1b}]0;owned\u{7}";
    place.write(
        &file("users.csv"),
        users::csv(3).replacen("name", column, 1),
    );
    let run = |progress: &str| {
        let run = place.run(&server, "-c 1 --overwrite");
        let run = run.args(["--progress", progress, &file("users.csv")]);
        let run = run.args(["--map".to_owned(), format!("name={column}")]);
        let written = [
            ("-o", "out.csv"),
            ("--summary", "summary.json"),
            ("--changes", "changes.csv"),
            ("--ledger", "ledger"),
            ("--log", "log"),
        ];
        let run = written.into_iter().fold(run, |run, (option, name)| {
            run.args([option.to_owned(), file(name)])
        });
        let done = run.exits(1);
        clean("standard error", &done.stderr);
        done
    };
    let done = run("plain");
    done.says(&format!("rescore: sending users.csv{SHOWN} to http://"));
    done.says("name\\u{1b}]0;owned\\u{7}")
        .says(&format!("wrote out.csv{SHOWN}\n"));

    // For programs the same names are JSON strings with the real name.
    let json = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
    for name in ["summary.json", "log"] {
        clean(name, &place.text(&file(name)));
    }
    assert_eq!(
        place.json(&file("summary.json"))["output"]["path"],
        file("out.csv")
    );
    let first = json(place.text(&file("log")).lines().next().unwrap());
    assert_eq!(first["data"]["output"], file("out.csv"));
    let last = json(run("json").stderr.lines().last().unwrap());
    assert_eq!(last["output"]["path"], file("out.csv"));

    for (arguments, name) in [
        ("ledger stats", "ledger"),
        ("ledger forget - --ledger", "ledger"),
        ("ledger stats", "no-such-ledger"),
    ] {
        let done = place.rescore(arguments).arg(file(name)).done();
        let said = format!("{}{}", done.stderr, done.printed());
        clean("what is printed", &said);
        assert!(said.contains(&format!("{name}{SHOWN}")), "{done}");
    }
}

#[test]
fn no_argument_that_is_refused_steers_a_terminal() {
    let place = Place::new();
    for arguments in [
        ["run", "--\u{1b}]0;owned\u{7}"],
        ["run", "--plan=a\u{7}\u{9b}31m\u{202e}"],
        ["run", "--column=\u{1b}]0;owned\u{7}"],
        ["run", "no-such\u{1b}]0;owned\u{7}\r\nerror: forged"],
        ["\u{1b}]0;owned\u{7}", ""],
    ] {
        let done = place.rescore(arguments).exits(2);
        clean("standard error", &done.stderr);
    }
}

#[test]
fn names_and_values_that_look_the_same_are_the_same() {
    // As files from a Mac have them, and as they are typed.
    let rows = "Ann Lee,a@x.org,::1,u,Zu\u{308}rich\nBob Roe,b@x.org,::1,u,Z\u{fc}rich\nCy Doe,c@x.org,::1,u,Zurich\n";
    let objects = rows.lines().map(|row| {
        let cells: Vec<_> = row.split(',').collect();
        format!(
            r#"{{"nom_pre\u0301f":"{}","email":"{}","ip":"::1","user_agent":"u","ville":"{}"}}"#,
            cells[0], cells[1], cells[4]
        ) + "\n"
    });
    let csv = format!("nom_pre\u{301}f,email,ip,user_agent,ville\n{rows}");
    for (name, content) in [("users.csv", csv), ("users.jsonl", objects.collect())] {
        let (place, server) = (Place::with(name, content), Server::good());
        let run = place.run(&server, [name, "-o", "scored", "-c", "1"]);
        let done = run.args([
            "--map",
            "name=nom_pr\u{e9}f",
            "--only",
            "ville=Zu\u{308}rich",
        ]);
        done.exits(0);
        let names: Vec<_> = server.requests().iter().map(Request::name).collect();
        assert_eq!(names, ["Ann Lee", "Bob Roe"], "{name}");
    }
}
