//! README and docs/ for the tests that hold them to what the program does: their text, code blocks and tables.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::support::process::{Place, Program};

pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn document(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

/// README and everything in docs/, by name.
pub(crate) fn documents() -> Vec<(String, String)> {
    let mut names = vec!["README.md".to_owned(), "CHANGELOG.md".to_owned()];
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        // Beside them is the schema, which is for programs.
        if path.is_file() {
            names.push(format!("docs/{name}"));
        }
    }
    assert!(names.len() > 8, "the test has lost sight of docs/");
    let read = |name: String| (name.clone(), document(&name));
    names.into_iter().map(read).collect()
}

/// The contents of all code blocks of a language, in order.
pub(crate) fn blocks(text: &str, language: &str) -> Vec<String> {
    let opening = format!("```{language}\n");
    let after = text.split(&opening).skip(1);
    after
        .map(|block| block.split("```").next().unwrap().to_owned())
        .collect()
}

/// The text without its code blocks.
pub(crate) fn prose(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

/// What is between backticks, outside of code blocks.
pub(crate) fn code_spans(text: &str) -> Vec<String> {
    let prose = prose(text);
    let spans = prose
        .lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    spans.map(ToOwned::to_owned).collect()
}

/// The cells of the rows of the table with this header.
pub(crate) fn table(text: &str, header: &str) -> Vec<Vec<String>> {
    let (_, after) = text
        .split_once(&format!("{header}\n"))
        .unwrap_or_else(|| panic!("no table `{header}`"));
    let rows = after
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with('|'));
    let cells = |row: &str| {
        row.trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect()
    };
    rows.map(cells).collect()
}

/// The section under a heading, up to the next heading of any kind.
pub(crate) fn section(text: &str, heading: &str) -> String {
    let (_, after) = text
        .split_once(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("no heading `{heading}`"));
    let end = after.find("\n#").unwrap_or(after.len());
    after[..end].to_owned()
}

/// The first names of a table's rows, each of which may be several in backticks.
pub(crate) fn names_in_first_column(text: &str, header: &str) -> BTreeSet<String> {
    let rows = table(text, header);
    rows.iter().flat_map(|row| code_spans(&row[0])).collect()
}

/// A directory with the sample files of users, as a fresh clone has them.
pub(crate) fn clone() -> Place {
    let place = Place::new();
    fs::create_dir(place.path("samples")).unwrap();
    for entry in fs::read_dir(root().join("samples")).unwrap() {
        let entry = entry.unwrap();
        if entry.path().is_dir() {
            continue;
        }
        fs::copy(entry.path(), place.path("samples").join(entry.file_name())).unwrap();
    }
    place
}

/// The program with the words of a command as its arguments.
pub(crate) fn program<'a>(place: &'a Place, words: &str) -> Program<'a> {
    words.split(' ').fold(place.rescore(""), Program::arg)
}

pub(crate) fn help(words: &str) -> String {
    let place = Place::new();
    String::from_utf8(program(&place, words).done().stdout).unwrap()
}
