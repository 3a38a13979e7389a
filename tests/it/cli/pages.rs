//! Completions and manual pages: there is one for everything that can be typed, and the real shells and formatters read
//! them, where they are installed.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Output};

use crate::support::process::Place;

/// A line that is typed, and all that is offered for its last word.
const OFFERS: &[(&str, &[&str])] = &[
    ("rescore ru", &["run"]),
    ("rescore ledger pr", &["prune"]),
    ("rescore run --progress p", &["plain"]),
    ("rescore run --ledger us", &["users.csv"]),
    ("rescore decide --format ", &["csv", "jsonl", "tsv"]),
];

/// Prints what bash offers for a line, whose last word may be empty.
const BASH: &str = r#"
source ./script
line=("$@")
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_rescore rescore "${line[-1]}" "${line[-2]}" 2>/dev/null
printf '%s\n' "${COMPREPLY[@]}"
"#;

/// Types a line and a tab in an interactive zsh, until the line looks as expected.
const ZSH: &str = r#"
zmodload zsh/zpty
zpty shell zsh -f -i
type() { zpty -w shell "$1" }
seen() { local out; zpty -r -m shell out "*$1*" }
type 'autoload -Uz compinit; compinit -u -D; source ./script; print READ""Y'
seen READY
zpty -w -n shell "$1"$'\t'
seen "$2"
"#;

/// A directory with the script for a shell.
fn place_for(shell: &str) -> Place {
    let place = Place::with("users.csv", "");
    let done = place.rescore(["completions", shell]).exits(0);
    done.prints("max-failures").prints("older-than");
    place.write("script", &done.stdout);
    place
}

/// Runs a program in that directory; `None` if it is not installed.
fn run(place: &Place, program: &str, arguments: &[&str]) -> Option<Output> {
    let mut command = Command::new(program);
    let command = command.args(arguments).current_dir(place.path("."));
    let output = command.env("HOME", place.path(".")).output();
    if output.is_err() {
        println!("skipped: {program} is not installed");
    }
    output.ok()
}

#[test]
fn shells_complete_commands_options_values_and_files() {
    let (bash, fish, zsh) = (place_for("bash"), place_for("fish"), place_for("zsh"));
    for (line, offered) in OFFERS {
        let words: Vec<_> = line.split(' ').collect();
        let complete = format!("source script; complete -C '{line}'");
        let of_bash = run(
            &bash,
            "bash",
            &[&["--norc", "-c", BASH, "bash"], &*words].concat(),
        );
        let of_fish = run(&fish, "fish", &["--no-config", "-c", &complete]);
        for output in [of_bash, of_fish].into_iter().flatten() {
            let said = String::from_utf8(output.stdout).unwrap();
            // What a value means comes after a tab.
            let said = said.lines().filter_map(|line| line.split('\t').next());
            let mut said: Vec<_> = said.filter(|word| !word.starts_with('-')).collect();
            said.sort_unstable();
            assert_eq!(said, *offered, "{line:?}");
        }
        // In zsh, the only offer is put into the line.
        if let [offer] = offered {
            let whole = [&words[..words.len() - 1], &[offer]].concat().join(" ");
            if let Some(output) = run(&zsh, "zsh", &["-f", "-c", ZSH, "zsh", line, &whole]) {
                assert!(output.status.success(), "{line:?}: {output:?}");
            }
        }
    }
    let done = Place::new().rescore("completions tcsh").exits(2);
    done.says("bash, fish, zsh");
}

#[test]
fn there_is_a_page_with_all_options_for_each_command() {
    let place = Place::new();
    place.rescore("man share/man1").exits(0);
    let entries = fs::read_dir(place.path("share/man1")).unwrap();
    let mut compared = 0;
    for page in entries.map(|entry| entry.unwrap().path()) {
        let name = page.file_stem().unwrap().to_str().unwrap();
        let words = name.trim_start_matches("rescore").replace('-', " ");
        let help = place.rescore(&*words).arg("--help-all").done().printed();
        let text = fs::read_to_string(&page).unwrap().replace("\\-", "-");
        let lines = help.lines().map(str::trim_start);
        for line in lines.filter(|line| line.starts_with("--")) {
            let option = line.split([' ', ',']).next().unwrap();
            assert!(text.contains(option), "{name}: {option}");
            compared += 1;
        }
        let page = page.to_str().unwrap();
        for (tool, arguments) in [
            ("groff", ["-ww", "-z", "-man", "-Tutf8", page]),
            ("mandoc", ["-T", "lint", "-W", "warning", page]),
        ] {
            let Some(output) = run(&place, tool, &arguments) else {
                continue;
            };
            let said = [output.stderr, output.stdout].concat();
            let said = String::from_utf8(said).unwrap();
            // The same version always makes the same page, so there is no date.
            let mut said = said.lines().filter(|line| !line.contains("missing date"));
            assert_eq!(said.next(), None, "{tool} {name}");
        }
    }
    assert!(compared > 60, "the test itself has gone blind");
    // Pages of an earlier version are replaced, and a link is not followed. The main page is also printed.
    place.write("share/man1/rescore.1", "old ".repeat(10_000));
    place.write("precious", "mine");
    fs::remove_file(place.path("share/man1/rescore-run.1")).unwrap();
    symlink("../../precious", place.path("share/man1/rescore-run.1")).unwrap();
    place.rescore("man share/man1").exits(0);
    assert_eq!(place.text("precious"), "mine");
    assert!(!place.path("share/man1/rescore-run.1").is_symlink());
    let mut left = fs::read_dir(place.path("share/man1")).unwrap();
    assert!(left.all(|left| left.unwrap().path().is_file()));
    let printed = place.rescore("man").done();
    assert_eq!(printed.stdout, place.read("share/man1/rescore.1"));
}
