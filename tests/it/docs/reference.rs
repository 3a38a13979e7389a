//! What README and docs/ name exists, and what exists is in the reference: options, exit codes, reasons, tests, files and links.
//! Keys of JSON objects are compared beside their schema, and metrics with the file that has them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::docs::documents::{
    code_spans, document, documents, first_cells, help, names_in_first_cells, prose, root,
};

/// All words that start with two dashes.
fn flags(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_lowercase() || c == '-'));
    let flags = words.filter(|word| word.starts_with("--") && word.len() > 3);
    flags
        .map(|word| word.trim_end_matches('-').to_owned())
        .collect()
}

/// The options that the help of a command lists.
fn options(command: &str) -> BTreeSet<String> {
    let help = help(&format!("{command} --help-all"));
    let lines = help.lines().map(str::trim_start);
    let entries = lines.filter(|line| line.starts_with('-'));
    // What an option is for comes after two spaces, and may name others.
    let names = entries.map(|line| line.split("  ").next().unwrap());
    names.flat_map(flags).collect()
}

#[test]
fn the_reference_has_every_option_and_no_document_names_one_that_does_not_exist() {
    let commands = "run,check,decide,report,status,config,completions,man,sandbox,ledger stats,ledger prune,ledger forget";
    let mut known: BTreeSet<_> = commands.split(',').flat_map(options).collect();
    assert!(known.len() > 60, "the test itself has gone blind");
    let reference = flags(&document("docs/reference.md"));
    let missing: Vec<_> = known.difference(&reference).collect();
    assert!(missing.is_empty(), "not in the reference: {missing:?}");
    // What people try, and options of other programs.
    let others = "--version --resume --dry-run --foreground --no-block --now --read-only --rm --stop-timeout --tmpfs --user \
        --archives --arg --csv --files --release --path --bench --list --long --lib --test --ignored --nocapture --retry";
    known.extend(others.split_whitespace().map(str::to_owned));
    for (name, text) in documents() {
        let unknown: Vec<_> = flags(&text).difference(&known).cloned().collect();
        assert!(unknown.is_empty(), "{name}: {unknown:?}");
    }
}

#[test]
fn readme_help_and_reference_have_the_same_exit_codes() {
    let documented = first_cells(&document("docs/reference.md"), "| Code |");
    let help = help("--help");
    let (_, listed) = help.split_once("Exit codes:\n").unwrap();
    let mut listed = { listed.lines() }.map_while(|line| line.split_whitespace().next());
    assert!(listed.all(|code| documented.iter().any(|it| it == code)));
    let readme = first_cells(&document("README.md"), "| Exit code |");
    assert_eq!(readme, documented[..6]);
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
fn every_promise_has_tests_that_exist() {
    let sources = ["src", "tests"].map(|directory| sources(&root().join(directory)));
    let sources = sources.concat();
    let guarantees = document("docs/guarantees.md");
    let promises = guarantees
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains('`'));
    let mut tests = 0;
    for promise in promises {
        let names = code_spans(promise.trim_end_matches(" |").rsplit(" | ").next().unwrap());
        assert!(!names.is_empty(), "{promise}");
        for name in names {
            assert!(sources.contains(&format!("fn {name}(")), "{name}");
            tests += 1;
        }
    }
    assert!(tests > 100, "the test itself has gone blind");
}

#[test]
fn the_reference_has_the_reasons_that_are_written_and_no_others() {
    let sources = sources(&root().join("src"));
    let (_, all) = sources.split_once("\nreasons! {\n").unwrap();
    let (all, _) = all.split_once("\n}").unwrap();
    let all: BTreeSet<_> = { all.split('"').skip(1).step_by(2) }
        .map(str::to_owned)
        .collect();
    let documented = names_in_first_cells(&document("docs/reference.md"), "| Reason |");
    assert_eq!(documented, all);
}

#[test]
fn the_architecture_names_files_that_exist() {
    let page = document("docs/architecture.md");
    let is_path = |span: &&String| span.contains('/') || Path::new(span).extension().is_some();
    let folders = ["", "src", "tests/it", "docs"];
    for path in code_spans(&page).iter().filter(is_path) {
        let exists = |folder: &&str| root().join(folder).join(path).exists();
        // These are not the names of particular files.
        let is_kind = ["mod.rs", ".rs", "OUTPUT.partial"].contains(&path.as_str());
        assert!(is_kind || folders.iter().any(exists), "{path}");
    }
}

/// The anchors that a page makes of its headings.
fn anchors(text: &str) -> Vec<String> {
    let prose = prose(text);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = text
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut followed = 0;
    for (name, text) in documents() {
        let prose = prose(&text);
        let links = prose.split("](").skip(1);
        let links = links.map(|rest| rest.split(')').next().unwrap());
        for link in links.filter(|link| !link.starts_with("https://")) {
            let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
            let here = root().join(&name);
            let target = match file {
                "" => here,
                file => here.parent().unwrap().join(file),
            };
            assert!(target.exists(), "{name}: {link}");
            if !fragment.is_empty() {
                let anchors = anchors(&fs::read_to_string(target).unwrap());
                assert!(anchors.iter().any(|it| it == fragment), "{name}: {link}");
            }
            followed += 1;
        }
    }
    assert!(followed > 30, "the test itself has gone blind");
}
