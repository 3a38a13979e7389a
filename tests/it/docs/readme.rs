//! The examples of README and docs/ are true: their commands run as written, and print what is shown.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::docs::documents::{blocks, clone, document, documents, help, program};
use crate::support::process::KEY;
use crate::support::server::Server;

/// The front door stays short: what does not fit belongs to docs/.
const LONGEST_README: usize = 130;
/// Lines of `rescore run -h` on a terminal with 100 columns: what most people need, and no more.
const LONGEST_HELP: usize = 60;

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
        let timed = if line.contains("in flight") {
            line[kept.len()..].to_owned()
        } else {
            timed.join(" ")
        };
        lines.push(format!("{kept}{timed}"));
    }
    lines.join("\n")
}

#[test]
fn readme_is_short_and_leads_to_every_document() {
    let readme = document("README.md");
    assert!(readme.lines().count() <= LONGEST_README);
    for (name, _) in documents() {
        assert!(
            name == "README.md" || readme.contains(&format!("]({name})")),
            "{name}"
        );
    }
}

#[test]
fn the_first_command_does_what_it_says() {
    let readme = document("README.md");
    let place = clone();
    let console = blocks(&readme, "console").remove(0);
    let (command, expected) = console.split_once('\n').unwrap();
    let words = command.strip_prefix("$ cargo run --release -- ").unwrap();
    let done = program(&place, words).done();
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
    let shown = blocks(&readme, "text");
    let (input, output) = (place.text("samples/users.csv"), place.text("scored.csv"));
    for (shown, file) in [(&shown[0], input), (&shown[1], output)] {
        let file = unnumbered(&file);
        assert!(shown.lines().count() > 2);
        for line in unnumbered(shown) {
            assert!(file.contains(&line), "{line}");
        }
    }
}

/// Runs what a shell would, against a service, with the settings in variables.
fn runs_as_written(script: &str) {
    let server = Server::good();
    let place = clone();
    fs::copy(place.path("samples/users.csv"), place.path("users.csv")).unwrap();
    let directory = Path::new(env!("CARGO_BIN_EXE_rescore")).parent().unwrap();
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
    let done = Command::new("sh")
        .args(["-e", "-c", script])
        .current_dir(place.path(""))
        .env("PATH", path)
        .env("RESCORE_BASE_URL", server.url())
        .env("RESCORE_SERVICE_ID", "my-app")
        .env("RESCORE_API_KEY", KEY)
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(0), "{script}\n{words}");
    assert!(server.calls() > 0, "{script}\n{words}");
}

#[test]
fn the_recipes_run_as_written() {
    let readme = document("README.md");
    let recipes: Vec<_> = { blocks(&readme, "sh").into_iter() }
        .filter(|block| block.contains("rescore run") && !block.contains("export"))
        .collect();
    assert_eq!(recipes.len(), 3, "bulk, nightly, analyst");
    for recipe in recipes {
        runs_as_written(&recipe);
    }
}

#[test]
fn the_short_help_fits_on_a_page_and_its_examples_run_as_written() {
    let help = help("run -h");
    assert!(help.lines().count() <= LONGEST_HELP, "{help}");
    let (_, examples) = help.split_once("\nExamples:\n").unwrap();
    let examples = examples.split("\n\n").next().unwrap();
    let commands = examples
        .lines()
        .filter_map(|line| line.strip_prefix("    "));
    assert_eq!(commands.clone().count(), 2, "bulk, nightly");
    for command in commands {
        runs_as_written(command);
    }
}

#[test]
fn the_nightly_example_does_what_it_says() {
    let place = clone();
    let first = "run samples/users.csv -o scored.csv --sandbox";
    place.rescore(first).done().exits(0);
    let consoles = blocks(&document("docs/guide.md"), "console");
    let mut consoles = consoles.into_iter();
    let console = consoles.find(|block| block.contains("tonight.csv"));
    let console = console.unwrap();
    let (command, expected) = console.split_once('\n').unwrap();
    let done = program(&place, command.strip_prefix("$ rescore ").unwrap()).done();
    done.exits(0);
    assert_eq!(without_times(&done.stderr), without_times(expected));
    assert_eq!(place.text("tonight-changes.csv").lines().count(), 1 + 16);
}

/// The text without moments, which are shorter today, and without the sizes of a ledger, whose pages fill as answers happen to
/// arrive together: numbers with a comma, and what an answer takes.
fn without_moments(text: &str) -> String {
    let is_moment = |word: &str| {
        let word = word.trim_end_matches(',');
        let digits =
            word.len() >= 5 && word.chars().all(|c| c.is_ascii_digit() || "-:".contains(c));
        digits && word.contains(['-', ':'])
    };
    let is_size =
        |word: &str| word.len() >= 6 && word.chars().all(|c| c.is_ascii_digit() || c == ',');
    let line = |line: &str| {
        let line = line.split(" bytes, ").next().unwrap_or_default();
        let words = { line.split(' ') }.filter(|word| !is_moment(word) && !is_size(word));
        words.collect::<Vec<_>>().join(" ")
    };
    text.trim_end()
        .lines()
        .map(line)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn the_analysts_morning_goes_as_it_is_told() {
    let guide = document("docs/guide.md");
    let (_, morning) = guide.split_once("\n## An analyst's morning\n").unwrap();
    let (morning, _) = morning.split_once("\n## ").unwrap();
    let place = clone();
    let consoles = blocks(morning, "console");
    assert!(consoles.len() >= 7);
    for console in consoles {
        let (command, expected) = console.split_once('\n').unwrap();
        let done = program(&place, command.strip_prefix("$ rescore ").unwrap()).done();
        // A terminal shows both streams, in no fixed order.
        let lines = |text: &str| {
            let text = without_moments(&without_times(text));
            let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
            lines.sort_unstable();
            lines
        };
        let shown = done.printed() + &done.stderr;
        assert_eq!(lines(&shown), lines(expected), "{command}");
    }
    let page = place.text("report.html");
    assert!(page.contains("last-month.csv") && page.contains("country"));
}

#[test]
fn what_they_show_of_a_ledger_is_what_is_printed() {
    let place = clone();
    let run = "run samples/users.csv -o scored.csv --sandbox --ledger answers.ledger";
    program(&place, run).done().exits(0);
    let users = place.text("samples/users.csv");
    let people: Vec<_> = users.lines().take(3).collect();
    place.write("people.csv", people.join("\n"));
    let console = blocks(&document("docs/ledger.md"), "console").remove(0);
    let commands = console.split("$ rescore ").skip(1);
    assert_eq!(commands.clone().count(), 3);
    for command in commands {
        let (command, expected) = command.split_once('\n').unwrap();
        let done = program(&place, command).done();
        done.exits(0);
        let printed = done.printed();
        assert_eq!(without_moments(&printed), without_moments(expected));
    }
}
