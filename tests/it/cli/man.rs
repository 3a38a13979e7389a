//! Manual pages.

use std::fs;
use std::process::Command;

use crate::support::process::Place;

/// The names of all pages.
const PAGES: [&str; 14] = [
    "rescore-check.1",
    "rescore-completions.1",
    "rescore-config.1",
    "rescore-decide.1",
    "rescore-ledger-forget.1",
    "rescore-ledger-init.1",
    "rescore-ledger-prune.1",
    "rescore-ledger-stats.1",
    "rescore-ledger.1",
    "rescore-man.1",
    "rescore-report.1",
    "rescore-run.1",
    "rescore-sandbox.1",
    "rescore.1",
];

/// All pages in `man1`.
fn pages() -> Place {
    let place = Place::new();
    let done = place.rescore("man share/man1").done();
    done.exits(0).says("wrote the manual pages to share/man1");
    done.check(done.stdout.is_empty(), "nothing on standard output");
    place
}

/// The text of a page without its markup.
fn plain(page: &str) -> String {
    let text = page.replace("\\-", "-").replace("\\*(Aq", "'");
    ["\\fB", "\\fR", "\\fI"]
        .iter()
        .fold(text, |text, markup| text.replace(markup, ""))
}

/// The headings of a page's sections.
fn sections(page: &str) -> Vec<&str> {
    let headings = page.lines().filter_map(|line| line.strip_prefix(".SH "));
    headings.map(|heading| heading.trim_matches('"')).collect()
}

#[test]
fn there_is_a_page_for_each_command_and_the_main_page_is_also_printed() {
    let place = pages();
    let mut names: Vec<_> = fs::read_dir(place.path("share/man1"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, PAGES);
    let printed = place.rescore("man").done();
    printed.exits(0);
    assert_eq!(printed.stdout, place.read("share/man1/rescore.1"));
    let sections = sections(&place.text("share/man1/rescore-run.1")).join(" ");
    assert!(sections.starts_with("NAME SYNOPSIS"), "{sections}");
}

#[test]
fn a_page_has_all_options_of_the_help() {
    let place = pages();
    let mut compared = 0;
    for page in PAGES {
        let words = page.trim_end_matches(".1").replace("ledger-", "ledger ");
        let words = words.trim_start_matches("rescore").trim_start_matches('-');
        let program = place.rescore(words.split_whitespace());
        let help = program.arg("--help-all").done().printed();
        let text = plain(&place.text(&format!("share/man1/{page}")));
        let lines = help.lines().map(str::trim_start);
        for line in lines.filter(|line| line.starts_with("--")) {
            let option = line.split([' ', ',']).next().unwrap();
            assert!(text.contains(option), "{page}: {option}");
            compared += 1;
        }
    }
    assert!(compared > 60, "the test itself has gone blind");
}

#[test]
fn formatters_have_nothing_to_say_about_the_pages() {
    let place = pages();
    for (tool, arguments) in [
        ("groff", ["-ww", "-z", "-man", "-Tutf8"].as_slice()),
        ("mandoc", &["-T", "lint", "-W", "warning"]),
        ("man", &["--warnings", "-l"]),
    ] {
        for page in PAGES {
            let output = Command::new(tool)
                .args(arguments)
                .arg(place.path("share/man1").join(page))
                .env("MANPAGER", "cat")
                .env("LC_ALL", "C.UTF-8")
                .output();
            let Ok(output) = output else {
                println!("skipped: {tool} is not installed");
                break;
            };
            let said = [
                output.stderr,
                if tool == "mandoc" {
                    output.stdout
                } else {
                    Vec::new()
                },
            ];
            let said = String::from_utf8(said.concat()).unwrap();
            // The same version always makes the same page, so there is no date.
            let said: Vec<_> = { said.lines() }
                .filter(|line| !line.contains("missing date"))
                .collect();
            assert!(said.is_empty(), "{tool} {page}: {said:?}");
        }
    }
}

#[test]
fn pages_of_an_earlier_version_are_replaced() {
    let place = pages();
    place.write("share/man1/rescore.1", "old ".repeat(10_000));
    place.rescore("man share/man1").done().exits(0);
    assert!(!place.text("share/man1/rescore.1").contains("old old"));
}
