//! What README and docs/ name exists: options, defaults, exit codes, members, words, tests and links.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::docs::documents::{
    blocks, clone, code_spans, document, documents, help, names_in_first_column, program, prose,
    root, section, table,
};
use crate::support::process::Place;

fn members(value: &Value) -> BTreeSet<String> {
    value.as_object().unwrap().keys().cloned().collect()
}

/// The header of tables of keys.
const HEADER: &str = "| Key | Meaning |";

#[test]
fn what_programs_read_has_the_documented_members() {
    let reference = document("docs/reference.md");
    let place = clone();
    let run = "run samples/users.csv -o scored.csv --sandbox --rate 40/s";
    let run = format!("{run} --progress json --summary summary.json");
    let done = program(&place, &run).done();
    let printed = done.stderr.lines().find(|line| line.starts_with('{'));
    let printed: Value = serde_json::from_str(printed.unwrap()).unwrap();
    let lines = section(&reference, "## Progress lines");
    let example: Value = serde_json::from_str(&blocks(&lines, "json").remove(0)).unwrap();
    assert_eq!(members(&example), members(&printed));
    assert_eq!(members(&example["now"]), members(&printed["now"]));
    let counts = section(&reference, "### Counts");
    let common = names_in_first_column(&counts, HEADER);
    let own = names_in_first_column(&lines, HEADER);
    assert_eq!(&own | &common, members(&printed));
    let (_, now) = lines.split_once("Keys of `now`:").unwrap();
    assert_eq!(names_in_first_column(now, HEADER), members(&printed["now"]));

    let summary = place.json("summary.json");
    let documented = section(&reference, "## Summary");
    let own = names_in_first_column(&documented, HEADER);
    assert_eq!(&own | &common, members(&summary));
    for part in ["calls", "pace"] {
        let head = format!("Keys of `{part}`:");
        let (_, keys) = counts.split_once(&head).unwrap();
        assert_eq!(names_in_first_column(keys, HEADER), members(&summary[part]));
    }
    let rows = [&counts, &documented]
        .map(|text| table(text, HEADER))
        .concat();
    for (member, value) in summary.as_object().unwrap() {
        let row = rows
            .iter()
            .find(|row| row[0].contains(&format!("`{member}`")));
        let named = code_spans(&row.unwrap()[1]).into_iter().collect();
        if member != "calls" && member != "pace" && value.is_object() {
            let missing: Vec<_> = members(value).difference(&named).cloned().collect();
            assert!(missing.is_empty(), "{member}: {missing:?}");
        }
    }
}

#[test]
fn a_message_has_the_documented_members() {
    let reference = document("docs/reference.md");
    let run = "run users.csv --sandbox --progress json";
    let done = Place::new().rescore(run).done();
    let printed: Value = serde_json::from_str(&done.stderr).unwrap();
    let documented = section(&reference, "## Messages");
    let example: Value = serde_json::from_str(&blocks(&documented, "json").remove(0)).unwrap();
    assert_eq!(example, printed);
    assert_eq!(
        names_in_first_column(&documented, "| Key | Meaning |"),
        members(&printed)
    );
}

#[test]
fn the_result_of_a_check_has_the_documented_members() {
    let reference = document("docs/reference.md");
    let place = clone();
    let run = "run samples/messy.csv -o scored.csv --sandbox --ledger answers";
    program(&place, run).done().exits(1);
    let check = "check samples/messy.csv --json --sandbox --ledger answers --price 0.004";
    let done = program(&place, check).done();
    let result = done.json();
    let documented = section(&reference, "## Result of `check`");
    let (all, each) = documented
        .split_once("Keys of each of the `files`:")
        .unwrap();
    let file = &result["files"][0];
    assert_eq!(names_in_first_column(all, HEADER), members(&result));
    assert_eq!(names_in_first_column(each, HEADER), members(file));
    let rows = [all, each].map(|text| table(text, HEADER)).concat();
    let names_of = |member: &str| -> BTreeSet<String> {
        let row = rows.iter().find(|row| row[0] == format!("`{member}`"));
        code_spans(&row.unwrap()[1]).into_iter().collect()
    };
    let nested = ["rows", "cost", "ledger"].map(|member| (member, &result[member]));
    let reason = ("unsendable", &file["unsendable"]["ragged"]);
    for (member, value) in nested.into_iter().chain([reason]) {
        let missing: Vec<_> = members(value)
            .difference(&names_of(member))
            .cloned()
            .collect();
        assert!(missing.is_empty(), "{member}: {missing:?}");
    }
}

#[test]
fn what_decide_writes_has_the_documented_members() {
    let documented = section(
        &document("docs/reference.md"),
        "## What `rescore decide` writes",
    );
    let (summary, what_if) = documented.split_once("`--what-if --json`").unwrap();
    let scored = "transaction_id,risk_score,decision\nt,1,block\n";
    let place = Place::with("scored.csv", scored);
    let decide = "decide scored.csv -o out.csv --summary s.json";
    place.rescore(decide).done().exits(0);
    let written = place.json("s.json");
    let printed = place.rescore("decide scored.csv --what-if --json").done();
    let printed: Value = serde_json::from_slice(&printed.stdout).unwrap();
    for (text, object) in [(summary, written), (what_if, printed)] {
        let header = "| Key | Meaning |";
        assert_eq!(names_in_first_column(text, header), members(&object));
        for nested in object.as_object().unwrap().values() {
            let nested = nested.get(0).unwrap_or(nested).as_object();
            for key in nested.into_iter().flat_map(serde_json::Map::keys) {
                assert!(text.contains(&format!("`{key}`")), "{key}");
            }
        }
    }
}

/// All words that start with two dashes.
fn flags(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_lowercase() || c == '-'));
    let flags = words.filter(|word| word.starts_with("--") && word.len() > 3);
    flags
        .map(|word| word.trim_end_matches('-').to_owned())
        .collect()
}

/// The options that a help lists.
fn options(help: &str) -> BTreeSet<String> {
    let lines = help.lines().map(str::trim_start);
    let entries = lines.filter(|line| line.starts_with('-'));
    // What an option is for comes after two spaces, and may name others.
    let names = entries.map(|line| line.split("  ").next().unwrap());
    names.flat_map(flags).collect()
}

/// The commands with options.
const COMMANDS: [&str; 11] = [
    "run",
    "check",
    "decide",
    "report",
    "config",
    "completions",
    "man",
    "sandbox",
    "ledger stats",
    "ledger prune",
    "ledger forget",
];

#[test]
fn the_reference_has_every_option_and_no_document_names_one_that_does_not_exist() {
    let mut known: BTreeSet<_> = { COMMANDS.iter() }
        .flat_map(|command| options(&help(&format!("{command} --help-all"))))
        .collect();
    assert!(known.len() > 60, "the test itself has gone blind");
    let reference = flags(&document("docs/reference.md"));
    let missing: Vec<_> = known.difference(&reference).collect();
    assert!(missing.is_empty(), "not in the reference: {missing:?}");
    // What people try, and options of other programs.
    let others = "--version --resume --dry-run --foreground --no-block --now --read-only --rm --stop-timeout \
        --tmpfs --user --release --path --open --no-deps --document-private-items --bench --list --long --write \
        --lib --test --ignored --nocapture --no-dedupe";
    known.extend(others.split_whitespace().map(str::to_owned));
    for (name, text) in documents() {
        let unknown: Vec<_> = flags(&text).difference(&known).cloned().collect();
        assert!(unknown.is_empty(), "{name}: {unknown:?}");
    }
}

#[test]
fn all_documents_have_the_same_exit_codes_and_those_of_the_help() {
    let codes = |name: &str, header: &str| -> Vec<String> {
        let rows = table(&document(name), header);
        let cells = rows.into_iter().map(|row| row[0].clone());
        let each = cells.flat_map(|cell| cell.split(", ").map(str::to_owned).collect::<Vec<_>>());
        each.collect()
    };
    let documented = codes("docs/reference.md", "| Code | Meaning |");
    let help = help("--help");
    let (_, listed) = help.split_once("Exit codes:\n").unwrap();
    let mut listed = { listed.lines() }.map_while(|line| line.split_whitespace().next());
    assert!(listed.all(|code| documented.iter().any(|it| it == code)));
    let readme = codes("README.md", "| Exit code | Meaning | What to do |");
    assert_eq!(readme, documented[..6]);
    // The page on operations has one code that is not the program's own.
    let mut explained = codes(
        "docs/operations.md",
        "| Code | What happened | What to do |",
    );
    explained.retain(|code| code != "137");
    assert_eq!(explained, documented);
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
fn every_test_that_they_promise_exists() {
    let sources = ["src", "tests", "benches"].map(|directory| sources(&root().join(directory)));
    let sources = sources.concat();
    let exists = |name: &str| sources.contains(&format!("fn {name}("));
    let guarantees = document("docs/guarantees.md");
    let promises = guarantees
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains('`'));
    let mut tests = 0;
    for promise in promises {
        let names = code_spans(promise.trim_end_matches(" |").rsplit(" | ").next().unwrap());
        assert!(!names.is_empty(), "{promise}");
        for name in names {
            assert!(exists(&name), "{name}");
            tests += 1;
        }
    }
    assert!(tests > 100, "the test itself has gone blind");
    // Elsewhere, only a test has a name this long.
    let is_test = |name: &String| {
        name.matches('_').count() > 5 && name.chars().all(|c| c.is_ascii_lowercase() || c == '_')
    };
    for (document, text) in documents() {
        for name in code_spans(&text).into_iter().filter(is_test) {
            assert!(exists(&name), "{document}: {name}");
        }
    }
}

#[test]
fn every_reason_in_the_reference_is_one_that_is_written() {
    let sources = sources(&root().join("src"));
    let reference = document("docs/reference.md");
    let reasons = names_in_first_column(&reference, "| Reason | Meaning | Sent? |");
    assert!(reasons.len() > 20);
    let (_, all) = sources.split_once("\nreasons! {\n").unwrap();
    let (all, _) = all.split_once("\n}").unwrap();
    let all: BTreeSet<_> = all.split('"').skip(1).step_by(2).collect();
    assert!(reasons.iter().map(String::as_str).eq(all), "{reasons:?}");
}

/// The anchor that a page makes of a heading.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut followed = 0;
    for (name, text) in documents() {
        let prose = prose(&text);
        let links = prose
            .split("](")
            .skip(1)
            .map(|rest| rest.split(')').next().unwrap());
        for link in links.filter(|link| !link.starts_with("https://")) {
            let (file, fragment) = link
                .split_once('#')
                .map_or((link, None), |(file, fragment)| (file, Some(fragment)));
            let directory = root().join(&name).parent().unwrap().to_owned();
            let target = if file.is_empty() {
                root().join(&name)
            } else {
                directory.join(file)
            };
            assert!(target.exists(), "{name}: {link}");
            if let Some(fragment) = fragment {
                let target = fs::read_to_string(target).unwrap();
                let target = prose_headings(&target);
                assert!(target.contains(&fragment.to_owned()), "{name}: {link}");
            }
            followed += 1;
        }
    }
    assert!(followed > 30, "the test itself has gone blind");
}

/// The anchors of all headings.
fn prose_headings(text: &str) -> Vec<String> {
    let prose = prose(text);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    headings.map(anchor).collect()
}
