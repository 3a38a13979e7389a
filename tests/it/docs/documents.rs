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

/// README, CHANGELOG and all pages in docs/, by name.
pub(crate) fn documents() -> Vec<(String, String)> {
    let mut names = vec!["README.md".to_owned(), "CHANGELOG.md".to_owned()];
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let entry = entry.unwrap();
        // Beside the pages are the schema, which is for programs, and the pictures.
        if entry.path().is_file() {
            names.push(format!("docs/{}", entry.file_name().to_str().unwrap()));
        }
    }
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

/// The first cells of the rows of all tables whose header starts like this.
pub(crate) fn first_cells(text: &str, header: &str) -> Vec<String> {
    let header = format!("\n{header}");
    let tables = text.split(&header).skip(1);
    let rows = tables.flat_map(|after| {
        let lines = after.lines().skip(2);
        lines.take_while(|line| line.starts_with('|'))
    });
    rows.map(|row| row.split('|').nth(1).unwrap().trim().to_owned())
        .collect()
}

/// The names in backticks in these cells.
pub(crate) fn names_in_first_cells(text: &str, header: &str) -> BTreeSet<String> {
    let cells = first_cells(text, header);
    cells.iter().flat_map(|cell| code_spans(cell)).collect()
}

/// A directory with the sample files of users, as a fresh clone has them.
pub(crate) fn clone() -> Place {
    let place = Place::new();
    fs::create_dir(place.path("samples")).unwrap();
    for entry in fs::read_dir(root().join("samples")).unwrap() {
        let entry = entry.unwrap();
        if entry.path().is_file() {
            fs::copy(entry.path(), place.path("samples").join(entry.file_name())).unwrap();
        }
    }
    place
}

/// The program with the words of a command as its arguments.
pub(crate) fn program<'a>(place: &'a Place, words: &str) -> Program<'a> {
    place.rescore(words.split(' '))
}

pub(crate) fn help(words: &str) -> String {
    program(&Place::new(), words).done().printed()
}
