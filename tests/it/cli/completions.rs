//! Completions, asked of the real shells where they are installed.

use std::process::{Command, Output};

use crate::support::process::Place;

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
    let place = Place::new();
    let done = place.rescore(["completions", shell]).done();
    done.exits(0);
    place.write("script", &done.stdout);
    place.write("users.csv", "");
    place
}

/// Runs a shell in that directory; `None` if it is not installed.
fn run(place: &Place, shell: &str, arguments: &[&str]) -> Option<Output> {
    let output = Command::new(arguments[0])
        .args(&arguments[1..])
        .current_dir(place.path("."))
        .env("HOME", place.path("."))
        .output();
    if output.is_err() {
        println!("skipped: {shell} is not installed");
    }
    output.ok()
}

/// A line that is typed, and all that is offered for its last word.
type Offer = (&'static [&'static str], &'static [&'static str]);

const OFFERS: &[Offer] = &[
    (&["rescore", "ru"], &["run"]),
    (&["rescore", "ledger", "pr"], &["prune"]),
    (
        &["rescore", "completions", ""],
        &["bash", "elvish", "fish", "powershell", "zsh"],
    ),
    (&["rescore", "run", "--progress", "p"], &["plain"]),
    (
        &["rescore", "decide", "--format", ""],
        &["csv", "jsonl", "tsv"],
    ),
    (&["rescore", "run", "--ledger", "us"], &["users.csv"]),
];

#[test]
fn bash_completes_commands_options_values_and_files() {
    let place = place_for("bash");
    for (line, offered) in OFFERS {
        let arguments = [&["bash", "--norc", "-c", BASH, "bash"], *line].concat();
        let Some(output) = run(&place, "bash", &arguments) else {
            return;
        };
        let said = String::from_utf8(output.stdout).unwrap();
        let mut said: Vec<_> = said.lines().filter(|word| !word.starts_with('-')).collect();
        said.sort_unstable();
        assert_eq!(said, *offered, "{line:?}");
    }
}

#[test]
fn fish_completes_the_same() {
    let place = place_for("fish");
    for (line, offered) in OFFERS {
        let complete = format!("source script; complete -C '{}'", line.join(" "));
        let Some(output) = run(&place, "fish", &["fish", "--no-config", "-c", &complete]) else {
            return;
        };
        let said = String::from_utf8(output.stdout).unwrap();
        // What a value means comes after a tab.
        let mut said: Vec<_> = { said.lines() }
            .filter_map(|line| line.split('\t').next())
            .collect();
        said.sort_unstable();
        assert_eq!(said, *offered, "{line:?}: {:?}", output.stderr);
    }
}

#[test]
fn zsh_completes_the_same() {
    let place = place_for("zsh");
    // The only offer is put into the line.
    for (line, offered) in OFFERS.iter().filter(|(_, offered)| offered.len() == 1) {
        let (_, before) = line.split_last().unwrap();
        let whole = [before, *offered].concat().join(" ");
        let arguments = ["zsh", "-f", "-c", ZSH, "zsh", &line.join(" "), &whole];
        let arguments = [&["timeout", "60"], arguments.as_slice()].concat();
        let installed = Command::new("zsh").arg("--version").output().is_ok();
        if !installed {
            println!("skipped: zsh is not installed");
            return;
        }
        let output = run(&place, "zsh", &arguments).unwrap();
        assert!(output.status.success(), "{line:?}: {output:?}");
    }
}

#[test]
fn the_scripts_of_all_shells_have_every_option_and_other_shells_are_refused() {
    let place = Place::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let done = place.rescore(["completions", shell]).done();
        done.exits(0);
        let script = String::from_utf8(done.stdout.clone()).unwrap();
        for option in ["max-failures", "ca-file", "older-than", "what-if"] {
            done.check(script.contains(option), option);
        }
    }
    let done = place.rescore("completions tcsh").done();
    done.exits(2).says("bash, elvish, fish, powershell, zsh");
}
