//! The examples of README and docs/ are true: their commands run as written, and print what is shown.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::docs::documents::{blocks, clone, document, documents, help, program};
use crate::support::process::{KEY, LEDGER, Place};
use crate::support::server::Server;

/// The front door stays short: what does not fit belongs to docs/.
const LONGEST_README: usize = 130;

#[test]
fn readme_is_short_and_leads_to_every_document() {
    let readme = document("README.md");
    assert!(readme.lines().count() <= LONGEST_README);
    for (name, _) in documents() {
        let link = format!("]({name})");
        assert!(name == "README.md" || readme.contains(&link), "{name}");
    }
}

/// The lines of a text, sorted, since a terminal shows both streams in no fixed order; and without times, speeds, moments and
/// sizes, which differ from run to run.
fn stable_lines(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let varies = [" in ", "bytes", "created", " from "];
        let varies = varies.iter().any(|words| line.contains(words));
        let is_value = |word: &str| {
            word.contains(|c: char| c.is_ascii_digit()) || ["ms,", "s,"].contains(&word)
        };
        let words = line.split_whitespace();
        // The month in which something was spent.
        let is_month = |word: &str| word.len() == 7 && word.starts_with("20") && word.contains('-');
        let words = words.filter(|word| !(varies && is_value(word) || is_month(word)));
        words.collect::<Vec<_>>().join(" ")
    };
    let mut lines: Vec<_> = text.lines().map(line).collect();
    lines.sort_unstable();
    lines
}

/// Runs all commands of a text's consoles, one after the other, each of which must print what is shown.
fn consoles_print_what_is_shown(place: &Place, text: &str) {
    let consoles = blocks(text, "console");
    assert!(!consoles.is_empty(), "the test itself has gone blind");
    for console in consoles {
        for example in console.split("$ ").skip(1) {
            let (command, expected) = example.split_once('\n').unwrap();
            let words = command.strip_prefix("cargo run --release -- ");
            let words = words.or(command.strip_prefix("rescore ")).unwrap();
            let done = program(place, words).done();
            let mut printed = stable_lines(&(done.printed() + &done.stderr));
            // Whose state directory it is differs.
            let mut shown = stable_lines(&expected.replace("/home/jane/.local/state/rescore/", ""));
            // A line of dots stands for some that are left out.
            if shown.iter().any(|line| line == "…") {
                shown.retain(|line| line != "…");
                printed.retain(|line| shown.contains(line));
            }
            assert_eq!(printed, shown, "{command}");
        }
    }
}

#[test]
fn the_first_command_of_readme_does_what_it_says() {
    let (place, readme) = (clone(), document("README.md"));
    consoles_print_what_is_shown(&place, &readme);
    // Calls are numbered in the order in which they reach the stand-in.
    let unnumbered = |line: &str| match line.split_once("sandbox-") {
        Some((before, after)) => format!("{before}{}", &after[8..]),
        None => line.to_owned(),
    };
    let files = ["samples/users.csv", "scored.csv"].map(|file| place.text(file));
    for (shown, file) in blocks(&readme, "text").iter().zip(files) {
        let file: Vec<_> = file.lines().map(unnumbered).collect();
        for line in shown.lines().map(unnumbered) {
            assert!(file.contains(&line), "{line}");
        }
    }
}

#[test]
fn the_guide_shows_what_is_printed() {
    let place = clone();
    consoles_print_what_is_shown(&place, &document("docs/guide.md"));
    let page = place.text("report.html");
    assert!(page.contains("last-month.csv") && page.contains("country"));
}

#[test]
fn the_page_on_ledgers_shows_what_is_printed() {
    let place = clone();
    let run = "run samples/users.csv -o scored.csv --sandbox --ledger answers.ledger --price 0.004";
    program(&place, run).exits(0);
    let users = place.text("samples/users.csv");
    let people: Vec<_> = users.lines().take(3).collect();
    place.write("people.csv", people.join("\n"));
    consoles_print_what_is_shown(&place, &document("docs/ledger.md"));
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
        .env("RESCORE_LEDGER", LEDGER)
        .env("XDG_STATE_HOME", place.path("state"))
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{script}\n{words}");
    assert!(server.calls() > 0, "{script}\n{words}");
}

#[test]
fn the_recipes_and_the_examples_of_the_help_run_as_written() {
    let readme = document("README.md");
    let recipes = blocks(&readme, "sh").into_iter();
    let recipes = recipes.filter(|it| it.contains("rescore run") && !it.contains("export"));
    let help = help("run -h");
    let (_, examples) = help.split_once("\nExamples:\n").unwrap();
    let commands = examples
        .split("\n\n")
        .take(1)
        .flat_map(str::lines)
        .filter_map(|line| line.strip_prefix("    "));
    let scripts: Vec<_> = recipes.chain(commands.map(str::to_owned)).collect();
    assert_eq!(scripts.len(), 3 + 2, "the test itself has gone blind");
    for script in scripts {
        runs_as_written(&script);
    }
}
