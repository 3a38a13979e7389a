//! The architecture: imports point only downwards, also inside a folder, and foreign crates have owners. Sources are read as
//! text, as rustfmt leaves it, without comments and what is under `#[cfg(test)]`.

#![allow(
    clippy::indexing_slicing,
    clippy::case_sensitive_file_extension_comparisons,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot read the sources should fail"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The only files that may name a crate, by how their names start. Crates that are not here may be named anywhere.
const OWNERS: [(&str, &str); 19] = [
    ("governor", "pace/controller.rs"),
    ("clap", "cli/ config/ commands/text.rs"),
    ("csv", "input/sniff.rs selection.rs"),
    ("encoding_rs", "base/text.rs"),
    ("futures", "engine/ pace/gate.rs"),
    (
        "hyper",
        "sandbox/ service/client.rs service/network_fault.rs",
    ),
    ("icu_normalizer", "base/text.rs"),
    ("indicatif", "observe/"),
    (
        "jiff",
        "config/values.rs engine/deadline.rs ledger/accounts.rs ledger/outputs.rs observe/ sandbox/ service/quota.rs",
    ),
    ("maud", "report/"),
    ("mimalloc", "main.rs"),
    ("reqwest", "service/"),
    ("ring", "ledger/key.rs"),
    ("rlibphonenumber", "fields/phone.rs"),
    ("rusqlite", "ledger/"),
    ("rustls", "ledger/postgres.rs service/"),
    ("tokio_postgres", "ledger/postgres.rs ledger/location.rs"),
    ("toml", "cli/settings.rs"),
    ("zstd", "input/source.rs output/file.rs"),
];

/// What no file may have except those whose names start like this, and why.
const KEPT: [(&str, &[&str], &str); 3] = [
    // Progress asks whether it is a terminal.
    (
        "base/stderr.rs observe/progress.rs",
        &["io::stderr"],
        "names standard error: `say` makes texts safe",
    ),
    (
        "base/ observe/",
        &["stderr::say;", "stderr::{say,"],
        "uses `say`, which knows no JSON: `observe` has `tell`",
    ),
    ("commands/", &["process::exit"], "ends the process"),
];

/// Files that only tests use, although their names do not say so.
const FOR_TESTS: [&str; 4] = ["fixture.rs", "scripted.rs", "faults.rs", "/simulator/"];

/// A file that ships: its name below `src/`, its module's path, and its code without comments and tests.
struct Source {
    file: String,
    module: Vec<String>,
    code: String,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut found, mut folders) = (Vec::new(), vec![root.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let file = path.strip_prefix(&root).unwrap().to_str().unwrap();
            let is_test =
                file.contains("tests") || FOR_TESTS.iter().any(|name| file.contains(name));
            if path.is_dir() {
                folders.push(path);
            } else if file.ends_with(".rs") && !is_test {
                found.push(source(file, &fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(found.len() > 100, "the test itself has gone blind");
    found
}

fn source(file: &str, text: &str) -> Source {
    assert!(
        text.starts_with("//! "),
        "src/{file} does not say what it is for"
    );
    let indent = |line: &str| line.len() - line.trim_start().len();
    let (mut code, mut lines) = (String::new(), text.lines());
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            // The item or field that follows ends with its own line, or with a brace as far to the left.
            let ends = |next: &str| next.ends_with([';', ',']) || next.trim() == "}";
            let _ = lines.find(|next| indent(next) == indent(line) && ends(next));
        } else if !line.trim_start().starts_with("//") {
            code = code + line + "\n";
        }
    }
    let path = file.trim_end_matches(".rs").trim_end_matches("/mod");
    Source {
        file: file.to_owned(),
        module: path.split('/').map(str::to_owned).collect(),
        code,
    }
}

impl Source {
    /// The paths that it names, with the parts of groups one by one; those into this crate start with `crate`.
    fn paths(&self) -> BTreeSet<Vec<String>> {
        let (mut found, mut groups) = (BTreeSet::new(), vec![Vec::<String>::new()]);
        let mut word = String::new();
        for c in self.code.chars() {
            if c.is_alphanumeric() || c == '_' || c == ':' {
                word.push(c);
                continue;
            }
            let names = word.split("::").filter(|name| !name.is_empty());
            let names = names.map(str::to_owned);
            let path: Vec<_> = groups
                .last()
                .unwrap()
                .iter()
                .cloned()
                .chain(names)
                .collect();
            match c {
                // `super::{a, b}`.
                '{' if word.ends_with("::") => groups.push(path),
                '{' => groups.push(Vec::new()),
                _ if !word.is_empty() && path.len() > 1 => drop(found.insert(self.absolute(path))),
                _ => {}
            }
            if c == '}' && groups.len() > 1 {
                groups.pop();
            }
            word.clear();
        }
        found
    }

    fn absolute(&self, path: Vec<String>) -> Vec<String> {
        let supers = path.iter().take_while(|name| *name == "super").count();
        if supers == 0 {
            return path;
        }
        // The file of a folder is its module.
        let above = &self.module[..self.module.len() - supers];
        [&["crate".to_owned()], above, &path[supers..]].concat()
    }
}

fn assert_none(found: impl IntoIterator<Item = String>) {
    let found: Vec<_> = found.into_iter().collect();
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn imports_point_only_downwards() {
    // The layers are those of the page, counted from the top; a row whose first cell is empty is of the same layer as the row above.
    let page = include_str!("../docs/architecture.md");
    let (_, table) = page.split_once("| Layer | Modules | Job |\n").unwrap();
    let rows = table.lines().skip(1).take_while(|row| row.starts_with('|'));
    let mut layer = 0;
    let layers: BTreeMap<_, _> = rows
        .map(|row| {
            layer += usize::from(!row.starts_with("| |"));
            (row.split('`').nth(1).unwrap(), layer)
        })
        .collect();
    let sources = sources();
    let modules: BTreeSet<_> = sources.iter().map(|source| &*source.module).collect();
    let (mut found, mut arrows) = (Vec::new(), BTreeMap::<_, BTreeSet<_>>::new());
    for source in sources.iter().filter(|source| source.file != "lib.rs") {
        let here = layers.get(&*source.module[0]).expect(&source.file);
        for path in source.paths().iter().filter(|path| path[0] == "crate") {
            let used = &path[1..];
            let same = { source.module.iter().zip(used) }.take_while(|(a, b)| a == b);
            let same = same.count();
            let (Some(from), Some(to)) = (source.module.get(same), used.get(same)) else {
                continue;
            };
            let is_module = modules
                .iter()
                .any(|module| module.starts_with(&used[..=same]));
            let is_upward = match same {
                0 => layers.get(&**to).is_some_and(|there| there <= here),
                // Something of the folder's own file.
                _ => !is_module && !source.code.contains(&format!("fn {to}(")),
            };
            if is_upward {
                found.push(format!("src/{} uses `{}`", source.file, used.join("::")));
            }
            if is_module {
                let folder = used[..same].join("::");
                let from = (folder.clone(), from.clone());
                arrows.entry(from).or_default().insert((folder, to.clone()));
            }
        }
    }
    assert!(arrows.len() > 50, "the test itself has gone blind");
    for start in arrows.keys() {
        let (mut seen, mut open) = (BTreeSet::new(), vec![start]);
        while let Some(next) = open.pop() {
            let uses = arrows.get(next).into_iter().flatten();
            open.extend(uses.filter(|to| seen.insert(*to)));
        }
        if seen.contains(start) {
            found.push(format!("`{}` uses itself in `{}`", start.1, start.0));
        }
    }
    assert_none(found);
}

#[test]
fn crates_and_words_are_named_by_their_owners_only() {
    let mut found = Vec::new();
    for source in sources() {
        let is_owner = |owners: &str| {
            let mut owners = owners.split(' ');
            owners.any(|owner| source.file.starts_with(owner))
        };
        let paths = source.paths();
        for (name, _) in OWNERS.iter().filter(|(_, owners)| !is_owner(owners)) {
            // A module may be called like a crate.
            let is_own = |path: &Vec<_>| path[0] == "crate" && path.last().unwrap() == name;
            if paths.iter().any(|path| path[0] == *name) && !paths.iter().any(is_own) {
                found.push(format!("src/{} names `{name}`", source.file));
            }
        }
        for (_, words, why) in KEPT.iter().filter(|(owners, ..)| !is_owner(owners)) {
            let has = words.iter().any(|word| source.code.contains(word));
            found.extend(has.then(|| format!("src/{} {why}", source.file)));
        }
        let looks = ["fs::", ".exists()", "metadata()", ".read()"];
        if source.file.starts_with("cli/") && looks.iter().any(|word| source.code.contains(word)) {
            found.push(format!("src/{} looks at files", source.file));
        }
        let defines = ["struct ", "enum ", "fn "];
        if source.file.ends_with("/mod.rs") && defines.iter().any(|word| source.code.contains(word))
        {
            found.push(format!("src/{} defines something", source.file));
        }
    }
    assert_none(found);
}

#[test]
fn no_two_types_have_one_name() {
    let mut files = BTreeMap::<String, Vec<String>>::new();
    for source in sources() {
        for line in source.code.lines().filter(|line| !line.starts_with(' ')) {
            let is_name = |c: char| !c.is_alphanumeric() && c != '_';
            let mut words = line
                .split(is_name)
                .skip_while(|word| !["struct", "enum", "trait"].contains(word));
            if let Some(name) = words.nth(1) {
                let files = files.entry(name.to_owned()).or_default();
                files.push(source.file.clone());
            }
        }
    }
    assert!(files.len() > 100, "the test itself has gone blind");
    let twice = files.iter().filter(|(_, files)| files.len() > 1);
    assert_none(twice.map(|(name, files)| format!("`{name}` is in {}", files.join(", "))));
}
