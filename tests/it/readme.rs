//! README is true: its commands run as written, its flags and tests exist, its examples are what the program prints.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::process::Place;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn readme() -> String {
    fs::read_to_string(root().join("README.md")).unwrap()
}

/// The contents of all code blocks of a language, in order.
fn blocks(language: &str) -> Vec<String> {
    let readme = readme();
    let opening = format!("```{language}\n");
    let after = readme.split(&opening).skip(1);
    after
        .map(|block| block.split("```").next().unwrap().to_owned())
        .collect()
}

/// A directory with the samples, as a fresh clone has them.
fn clone() -> Place {
    let place = Place::new();
    fs::create_dir(place.path("samples")).unwrap();
    for entry in fs::read_dir(root().join("samples")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), place.path("samples").join(entry.file_name())).unwrap();
    }
    place
}

/// The text without times and speeds, which differ from run to run.
fn without_times(text: &str) -> String {
    let is_time = |word: &str| {
        word.contains(|c: char| c.is_ascii_digit())
            || ["ms", "ms,", "s", "s,", "ms;"].contains(&word)
    };
    let mut lines = Vec::new();
    for line in text.trim_end().lines() {
        let (kept, timed) = line.split_at(
            line.find(" in ")
                .or(line.find("latency"))
                .unwrap_or(line.len()),
        );
        let timed: Vec<_> = timed
            .split_whitespace()
            .filter(|word| !is_time(word))
            .collect();
        lines.push(format!("{kept}{}", timed.join(" ")));
    }
    lines.join("\n")
}

#[test]
fn the_first_command_does_what_it_says() {
    let place = clone();
    let console = blocks("console").remove(0);
    let (command, expected) = console.split_once('\n').unwrap();
    let arguments = command
        .strip_prefix("$ cargo run --release -- ")
        .unwrap()
        .split(' ');
    let program = arguments.fold(place.rescore([]), crate::process::Program::arg);
    let done = program.done();
    done.exits(0);
    assert_eq!(without_times(&done.stderr), without_times(expected));

    // Calls are numbered in the order in which they reach the stand-in.
    let unnumbered = |text: &str| -> Vec<String> {
        let cut = |line: &str| match line.split_once("sandbox-") {
            Some((before, after)) => format!("{before}{}", &after[8..]),
            None => line.to_owned(),
        };
        text.lines().map(cut).collect()
    };
    let (before, after) = (blocks("text").remove(0), blocks("text").remove(1));
    let (input, output) = (place.text("samples/users.csv"), place.text("scored.csv"));
    for (shown, file) in [(before, input), (after, output)] {
        let file = unnumbered(&file);
        assert_eq!(shown.lines().count(), 2);
        for line in unnumbered(&shown) {
            assert!(file.contains(&line), "{line}");
        }
    }
}

#[test]
fn the_nightly_example_does_what_it_says() {
    let place = clone();
    let first = ["run", "samples/users.csv", "-o", "scored.csv", "--sandbox"];
    place.rescore(first).done().exits(0);
    let console = blocks("console").remove(1);
    let (command, expected) = console.split_once('\n').unwrap();
    let arguments = command.strip_prefix("$ rescore ").unwrap().split(' ');
    let done = arguments
        .fold(place.rescore([]), crate::process::Program::arg)
        .done();
    done.exits(0);
    assert_eq!(without_times(&done.stderr), without_times(expected));
    assert_eq!(place.text("changes.csv").lines().count(), 1 + 16);
}

#[test]
fn the_progress_that_it_shows_is_the_one_that_is_printed() {
    let example: Value = serde_json::from_str(&blocks("json").remove(0)).unwrap();
    let place = clone();
    let arguments = [
        "run",
        "samples/users.csv",
        "-o",
        "scored.csv",
        "--sandbox",
        "--rate",
        "1000/s",
        "--progress",
        "json",
    ];
    let done = place
        .rescore(arguments)
        .arg("--progress-every")
        .arg("20ms")
        .done();
    let printed = done
        .stderr
        .lines()
        .find(|line| line.starts_with('{'))
        .unwrap();
    let printed: Value = serde_json::from_str(printed).unwrap();
    let members = |value: &Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(members(&example), members(&printed));
}

/// The text without moments, which are shorter today.
fn without_moments(text: &str) -> String {
    let is_moment = |word: &str| {
        let word = word.trim_end_matches(',');
        let digits =
            word.len() >= 5 && word.chars().all(|c| c.is_ascii_digit() || "-:".contains(c));
        digits && word.contains(['-', ':'])
    };
    let line = |line: &str| {
        let words = line.split(' ').filter(|word| !is_moment(word));
        words.collect::<Vec<_>>().join(" ")
    };
    text.trim_end()
        .lines()
        .map(line)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn what_it_shows_of_a_ledger_is_what_is_printed() {
    let place = clone();
    let run = ["run", "samples/users.csv", "-o", "scored.csv", "--sandbox"];
    let run = place.rescore(run).arg("--ledger").arg("answers.ledger");
    run.done().exits(0);
    let users = place.text("samples/users.csv");
    let people: Vec<_> = users.lines().take(3).collect();
    place.write("people.csv", people.join("\n"));
    let console = blocks("console").remove(2);
    let commands = console.split("$ rescore ").skip(1);
    assert_eq!(commands.clone().count(), 3);
    for command in commands {
        let (command, expected) = command.split_once('\n').unwrap();
        let words = command.split(' ');
        let done = words
            .fold(place.rescore([]), crate::process::Program::arg)
            .done();
        done.exits(0);
        let printed = String::from_utf8(done.stdout).unwrap();
        assert_eq!(without_moments(&printed), without_moments(expected));
    }
}

#[test]
fn every_flag_that_it_names_exists() {
    let place = Place::new();
    let help = |subcommand: &str| {
        let words = subcommand.split(' ').chain(["--help"]);
        let program = words.fold(place.rescore([]), crate::process::Program::arg);
        String::from_utf8(program.done().stdout).unwrap()
    };
    let ledger = ["stats", "prune", "forget"].map(|command| help(&format!("ledger {command}")));
    // Cargo's own.
    let known =
        help("run") + &help("sandbox") + &ledger.concat() + " --release --path --open --bench ";
    let readme = readme();
    let flags: Vec<_> = readme
        .split(|c: char| !(c.is_ascii_lowercase() || c == '-'))
        .filter(|word| word.starts_with("--") && word.len() > 3 && *word != "--some-name")
        .collect();
    assert!(flags.len() > 30, "the test itself has gone blind");
    for flag in flags {
        let exists = known
            .split(|c: char| !(c.is_ascii_lowercase() || c == '-'))
            .any(|word| word == flag);
        assert!(exists, "{flag}");
    }
}

fn sources(directory: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text += &sources(&path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text += &fs::read_to_string(path).unwrap();
        }
    }
    text
}

#[test]
fn every_test_that_it_promises_exists() {
    let sources = sources(&root().join("src")) + &sources(&root().join("tests"));
    let readme = readme();
    let promises = readme
        .split_once("| promise | test |")
        .unwrap()
        .1
        .split_once("\n\n")
        .unwrap()
        .0;
    let mut tests = 0;
    for row in promises.lines().skip(2) {
        let names = row.rsplit(" | ").next().unwrap();
        for name in names.split('`').skip(1).step_by(2) {
            assert!(sources.contains(&format!("fn {name}(")), "{name}");
            tests += 1;
        }
    }
    assert!(tests > 15, "the test itself has gone blind");
}
