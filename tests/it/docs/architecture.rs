//! The page of the architecture names all modules, and only files that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::docs::documents::{code_spans, document, root};

/// The names of files in each folder of sources, by the folder's path.
type Tree = BTreeMap<String, BTreeSet<String>>;

/// Adds what is in a folder and in those below it, except for tests.
fn add_sources(tree: &mut Tree, folder: &str) {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(root().join(folder)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        match name {
            "mod" | "tests" => {}
            _ if path.is_dir() => add_sources(tree, &format!("{folder}{name}/")),
            _ => {
                names.insert(name.to_owned());
            }
        }
    }
    tree.insert(folder.to_owned(), names);
}

/// The page's tree: a line for each folder, whose names may continue on indented lines.
fn documented(page: &str) -> Tree {
    let mut tree = Tree::new();
    let (_, lines) = page.split_once("```text\nsrc/").unwrap();
    let lines = format!("src/{}", lines.split("\n```").next().unwrap());
    let mut folder = String::new();
    for line in lines.lines() {
        for word in line.split_whitespace() {
            if word.ends_with('/') {
                word.clone_into(&mut folder);
                tree.entry(folder.clone()).or_default();
            } else {
                tree.get_mut(&folder).unwrap().insert(word.to_owned());
            }
        }
    }
    tree
}

#[test]
fn the_architecture_lists_every_file_of_the_sources() {
    let mut sources = Tree::new();
    add_sources(&mut sources, "src/");
    assert!(sources.len() > 20, "the test has lost sight of the sources");
    let mut documented = documented(&document("docs/architecture.md"));
    for (folder, names) in sources {
        assert_eq!(documented.remove(&folder), Some(names), "{folder}");
    }
    assert!(documented.is_empty(), "not there: {documented:?}");
}

#[test]
fn the_architecture_names_files_that_exist() {
    let page = document("docs/architecture.md");
    let is_path = |span: &String| span.contains('/') || Path::new(span).extension().is_some();
    let paths: Vec<_> = code_spans(&page).into_iter().filter(is_path).collect();
    assert!(paths.len() > 50, "the test itself has gone blind");
    // These are not the names of particular files.
    let folders = ["", "src", "tests/it", "docs"];
    for path in paths
        .iter()
        .filter(|path| !["mod.rs", ".rs", "OUTPUT.partial"].contains(&path.as_str()))
    {
        let exists = |folder: &&str| root().join(folder).join(path).exists();
        assert!(folders.iter().any(exists), "{path}");
    }
}
