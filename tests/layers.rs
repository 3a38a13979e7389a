//! The architecture: imports point only downwards, also inside a folder, and each foreign crate has its owners.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot read the sources should fail"
)]

#[path = "layers/crates.rs"]
mod crates;
#[path = "layers/page.rs"]
mod page;
#[path = "layers/source.rs"]
mod source;
#[path = "layers/tree.rs"]
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crates::crates_of_others;
use source::Source;
use tree::Tree;

/// Modules from the bottom up. A module may use the layers below its own, and of its own layer only itself.
const LAYERS: &[&[&str]] = &[
    &["base", "row"],
    &["raw_json"],
    &["verdict", "layout", "selection"],
    &["drift"],
    &["analysis"],
    &["telemetry", "fields"],
    &["service", "pace", "ledger", "observe", "report", "sandbox"],
    &["row_state"],
    &["input", "output"],
    &["engine"],
    &["config"],
    &["commands", "cli"],
    &["program"],
    &["main"],
];

fn module(source: &Source) -> &str {
    // `main.rs` and `lib.rs` are in no module.
    source.module.first().map_or("main", String::as_str)
}

fn layer(module: &str) -> usize {
    LAYERS
        .iter()
        .position(|modules| modules.contains(&module))
        .unwrap_or_else(|| panic!("`{module}` has no layer yet: give it one in tests/layers.rs"))
}

/// What a file uses of its own layer or of one above.
fn upward_imports(tree: &Tree, source: &Source) -> Vec<String> {
    let here = module(source);
    let mut found = Vec::new();
    for used in tree.uses(source) {
        let (line, Some(used)) = (used.line, used.to.first()) else {
            continue;
        };
        if used != here && layer(used) >= layer(here) {
            found.push(format!(
                "src/{}:{line} (layer {}) uses `{used}` (layer {})",
                source.file,
                layer(here),
                layer(used)
            ));
        }
    }
    found
}

/// Fails and prints everything that was found.
#[track_caller]
fn assert_none(found: &[String]) {
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn the_page_of_the_architecture_has_the_same_layers() {
    let from_the_top: Vec<BTreeSet<_>> = LAYERS
        .iter()
        .rev()
        .map(|layer| layer.iter().copied().collect())
        .collect();
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/architecture.md"))
            .unwrap();
    assert_eq!(page::layers(&page), from_the_top);
}

#[test]
fn imports_point_only_downwards() {
    let tree = Tree::read();
    let checked: usize = tree
        .files()
        .iter()
        .map(|file| tree.uses(file).count())
        .sum();
    assert!(checked > 100, "the test itself has gone blind");
    let found = tree
        .files()
        .iter()
        .flat_map(|file| upward_imports(&tree, file));
    assert_none(&found.collect::<Vec<_>>());
}

#[test]
fn imports_point_only_downwards_inside_a_folder() {
    let tree = Tree::read();
    let (arrows, circles) = (tree.upward_arrows(), tree.circles());
    let counts = format!("{} upward arrows, {} circles", arrows.len(), circles.len());
    assert!(
        arrows.is_empty() && circles.is_empty(),
        "\n{}\n\n{}\n\n{counts}",
        arrows.join("\n"),
        circles.join("\n")
    );
}

#[test]
fn a_folders_own_file_only_lists_what_is_in_it() {
    assert_none(&Tree::read().more_than_facades());
}

#[test]
fn the_command_line_looks_at_no_file() {
    let tree = Tree::read();
    let sources: Vec<_> = { tree.shipped() }
        .filter(|source| source.file.starts_with("cli/"))
        .collect();
    assert!(sources.len() > 5, "the test itself sees nothing");
    let mut found = Vec::new();
    for source in sources {
        for path in &source.paths {
            let names: Vec<_> = path.names.iter().map(String::as_str).collect();
            if names.contains(&"fs") || names.first() == Some(&"File") {
                found.push(format!("src/{}:{} names files", source.file, path.line));
            }
        }
        for looks in [".exists()", "metadata()", ".read()"] {
            if source.text.contains(looks) {
                found.push(format!("src/{} has `{looks}`", source.file));
            }
        }
    }
    assert_none(&found);
}

#[test]
fn only_say_writes_to_standard_error() {
    let tree = Tree::read();
    let mut found = Vec::new();
    for source in tree
        .shipped()
        .filter(|source| source.file != "base/stderr.rs")
    {
        let lines: Vec<_> = source.text.lines().collect();
        let named = source
            .paths
            .iter()
            .filter(|path| path.names.ends_with(&["stderr".to_owned()]));
        for path in named {
            // Asking whether it is a terminal writes nothing.
            if !lines[path.line - 1].contains("io::stderr().is_terminal()") {
                found.push(format!(
                    "src/{}:{} names standard error; `say` makes texts safe",
                    source.file, path.line
                ));
            }
        }
    }
    assert_none(&found);
}

#[test]
fn only_messages_and_views_use_say() {
    let tree = Tree::read();
    let mut found = Vec::new();
    let above = tree
        .shipped()
        .filter(|source| !source.file.starts_with("observe/"));
    for source in above {
        let says = |names: &[String]| names.ends_with(&["stderr".to_owned(), "say".to_owned()]);
        for path in source.paths.iter().filter(|path| says(&path.names)) {
            found.push(format!(
                "src/{}:{} uses `say`, which knows no JSON: `observe` has `tell` and `warn`",
                source.file, path.line
            ));
        }
    }
    assert_none(&found);
}

#[test]
fn no_two_types_have_one_name() {
    let tree = Tree::read();
    let mut files = BTreeMap::<&str, Vec<&str>>::new();
    for source in tree.shipped() {
        for name in source.items.iter().filter_map(|item| item.last()) {
            // Constants and functions have letters of one case.
            let is_type = name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase);
            if is_type {
                files.entry(name).or_default().push(&source.file);
            }
        }
    }
    assert!(files.len() > 100, "the test itself has gone blind");
    let twice = files.iter().filter(|(_, files)| files.len() > 1);
    let found = twice.map(|(name, files)| format!("`{name}` is in src/{}", files.join(", src/")));
    assert_none(&found.collect::<Vec<_>>());
}

#[test]
fn every_file_says_what_it_is_for() {
    for source in Tree::read().files() {
        assert!(
            source.text.starts_with("//! "),
            "src/{} does not start with `//!`",
            source.file
        );
    }
}

/// Files as if they were in `src/`.
fn planted(files: &[(&str, &str)]) -> Tree {
    let parse = |(file, text): &(&str, &str)| Source::parse(file, text);
    Tree::of(files.iter().map(parse).collect())
}

#[test]
fn what_stands_below_a_test_item_is_seen() {
    let after = [
        "#[cfg(test)]\nmod tests;",
        "#[cfg(test)]\nmod tests { use crate::cli::Run; fn reqwest() { reqwest::get(\"}\"); } }",
        "#[cfg(test)]\nuse crate::cli::{Run, Key};",
        "#[cfg(test)]\n#[allow(dead_code)]\npub(crate) fn f<A, B>(run: crate::cli::Run) -> Vec<A> { reqwest::get() }",
        "#[cfg(all(test, unix))]\npub(crate) const CLI: crate::cli::Run = crate::cli::Run { id: 1 };",
        "struct Row { #[cfg(test)] run: Map<crate::cli::Run, u8>, id: u8 }",
        "fn f(id: u8) { match id { #[cfg(test)] 0 => reqwest::get(), _ => {} } }",
        "// crate::cli::Run\n/// `crate::cli::Run`\nconst TEXT: &str = \"crate::cli::Run, reqwest::get\";",
    ];
    let violations = [
        "use crate::cli::Run;",
        "use crate::{row::Row, cli::{self, Run as R}};",
        "fn f() { let x = [1].map(|_| crate::cli::Run); }",
        "fn f() { log!(\"{}\", super::super::cli::Run) }",
        "mod inner { pub(crate) use super::super::super::cli::*; }",
        "#[derive(reqwest::Part)] struct S;",
        "use reqwest;",
        "use ::reqwest::{self as http};",
        "impl From<reqwest::Error> for Error {}",
    ];
    let found = |text: &str| {
        let tree = planted(&[("input/csv.rs", text), ("cli/mod.rs", "")]);
        let [source, _] = tree.files() else {
            panic!("there are two files")
        };
        upward_imports(&tree, source).len() + crates_of_others(&tree, source).len()
    };
    for before in after {
        assert_eq!(found(before), 0, "{before}");
        for violation in violations {
            let text = format!("{before}\n{violation}\n");
            assert!(found(&text) > 0, "{text}");
        }
    }
}

#[test]
fn a_module_may_be_called_like_a_crate() {
    let tree = planted(&[
        ("engine/mod.rs", "mod reqwest;\nfn f() { reqwest::get() }"),
        (
            "engine/call.rs",
            "use super::reqwest;\nfn f() { reqwest::get() }",
        ),
        ("engine/reqwest.rs", "fn f() { ::reqwest::get() }"),
    ]);
    let found: Vec<_> = tree
        .files()
        .iter()
        .map(|file| crates_of_others(&tree, file).len())
        .collect();
    assert_eq!(found, [0, 0, 1]);
}

#[test]
fn arrows_and_circles_inside_a_folder_are_found() {
    let tree = planted(&[
        (
            "pace/mod.rs",
            "mod gate; mod limit; mod pause; mod retry; pub(crate) use limit::Limit; use crate::row::Row; struct Own;",
        ),
        (
            "pace/gate.rs",
            "use super::{Own, Row}; use super::limit::Limit; use crate::pace::Limit as L;",
        ),
        ("pace/limit.rs", "fn f() -> super::pause::Pause { todo!() }"),
        (
            "pace/pause.rs",
            "mod long { use super::super::gate::Gate; } #[cfg(test)] mod tests;",
        ),
        ("pace/pause/tests.rs", "use super::*; use crate::pace::Own;"),
        (
            "pace/retry.rs",
            "use super::gate::Gate; struct Retry; impl Retry { fn f(self: Self) {} }",
        ),
    ]);
    assert_eq!(
        tree.upward_arrows(),
        [
            "src/pace/gate.rs uses `Limit` (through the façade), `Own` (defined there), `Row` (imported there) of `pace`"
        ]
    );
    assert_eq!(
        tree.circles(),
        [concat!(
            "in `crate::pace`:",
            "\n    gate → limit (src/pace/gate.rs:1)",
            "\n    limit → pause (src/pace/limit.rs:1)",
            "\n    pause → gate (src/pace/pause.rs:1)"
        )]
    );
    assert_eq!(tree.more_than_facades(), ["src/pace/mod.rs defines Own"]);
}
