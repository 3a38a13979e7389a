//! The architecture: imports point only downwards, also inside a folder, and foreign crates have owners. Sources are read as
//! text, as rustfmt leaves it, without comments and what is under `#[cfg(test)]`.

#![allow(
    clippy::indexing_slicing,
    clippy::similar_names,
    clippy::string_slice,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot read the sources should fail"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The only files that may name a crate, by how their names start. Crates that are not here may be named anywhere.
const OWNERS: [(&str, &[&str]); 19] = [
    ("chardetng", &["input/text.rs"]),
    ("clap", &["cli/", "config/", "commands/text.rs"]),
    ("csv", &["input/sniff.rs"]),
    ("encoding_rs", &["base/encoding.rs"]),
    ("futures", &["engine/", "pace/gate.rs"]),
    ("governor", &["pace/limiter.rs"]),
    ("hyper", &["sandbox/", "service/http/"]),
    ("indicatif", &["observe/bar.rs"]),
    (
        "jiff",
        &[
            "config/values.rs",
            "ledger/outputs.rs",
            "observe/numbers.rs",
            "sandbox/",
        ],
    ),
    ("maud", &["report/"]),
    ("mimalloc", &["main.rs"]),
    ("postgres", &["ledger/postgres/", "ledger/server_url.rs"]),
    ("reqwest", &["service/"]),
    ("ring", &["ledger/key.rs"]),
    ("rlibphonenumber", &["fields/phone.rs"]),
    ("rusqlite", &["ledger/sqlite/"]),
    ("rustls", &["ledger/postgres/server.rs", "service/"]),
    ("toml", &["cli/settings_file.rs"]),
    ("zstd", &["input/source.rs", "output/encoder.rs"]),
];

/// A file that ships.
struct Source {
    /// Its name below `src/`.
    file: String,
    /// `pace/gate.rs` is `pace::gate`.
    module: Vec<String>,
    /// Without comments and tests.
    text: String,
    is_documented: bool,
}

impl Source {
    fn new(file: &str, text: &str) -> Self {
        let path = file.trim_end_matches(".rs").trim_end_matches("/mod");
        let mut code = String::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let indent = line.len() - line.trim_start().len();
            if line.trim() == "#[cfg(test)]" {
                // The item or field that follows ends with its own line, or with a brace as far to the left.
                let ends = |line: &str| line.ends_with([';', ',']) || line.trim() == "}";
                let _ =
                    lines.find(|line| line.len() - line.trim_start().len() == indent && ends(line));
            } else if !line.trim_start().starts_with("//") {
                code += line;
                code.push('\n');
            }
        }
        Self {
            file: file.to_owned(),
            module: path.split('/').map(str::to_owned).collect(),
            text: code,
            is_documented: text.starts_with("//! "),
        }
    }

    /// The paths that it names, with the parts of groups one by one, each from the crate's root if it starts there.
    fn paths(&self) -> BTreeSet<Vec<String>> {
        let mut found = BTreeSet::new();
        let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        let mut groups: Vec<Vec<String>> = vec![Vec::new()];
        let mut rest = self.text.as_str();
        while let Some(start) = rest.find(|c| is_path(c) || "{};".contains(c)) {
            rest = &rest[start..];
            let end = rest.find(|c| !is_path(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end.max(1));
            rest = after;
            let prefix = groups.last().cloned().unwrap_or_default();
            match word {
                "{" => groups.push(prefix),
                "}" if groups.len() > 1 => drop(groups.pop()),
                "}" | ";" => {}
                _ => {
                    let names = word
                        .split("::")
                        .filter(|name| !name.is_empty())
                        .map(str::to_owned);
                    let path: Vec<_> = prefix.iter().cloned().chain(names).collect();
                    if word.ends_with("::") && after.starts_with('{') {
                        // `super::{a, b}`.
                        groups.push(path);
                        rest = &after[1..];
                    } else if path.len() > 1 {
                        found.extend(self.absolute(&path));
                    }
                }
            }
        }
        found
    }

    fn absolute(&self, path: &[String]) -> Option<Vec<String>> {
        // The file of a folder is its module.
        let supers = path.iter().take_while(|name| *name == "super").count();
        match path.first()?.as_str() {
            "super" => {
                let parent = self.module.len().checked_sub(supers)?;
                Some(
                    [
                        &["crate".to_owned()],
                        &self.module[..parent],
                        &path[supers..],
                    ]
                    .concat(),
                )
            }
            "self" => None,
            _ => Some(path.to_vec()),
        }
    }

    /// The paths into the crate itself, without `crate`.
    fn own(&self) -> Vec<Vec<String>> {
        let paths = self.paths().into_iter().filter(|path| path[0] == "crate");
        paths
            .map(|path| path[1..].to_vec())
            .filter(|path| !path.is_empty())
            .collect()
    }
}

/// All files that ship.
fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut texts, mut tests, mut folders) = (BTreeMap::new(), Vec::new(), vec![root.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let file = path
                .strip_prefix(&root)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            let text = fs::read_to_string(&path).unwrap();
            let folder = file
                .trim_end_matches("mod.rs")
                .trim_end_matches(".rs")
                .trim_end_matches('/');
            for module in text.split("#[cfg(test)]\n").skip(1) {
                let declared = module
                    .lines()
                    .next()
                    .and_then(|line| line.strip_suffix(';'));
                let name = declared
                    .and_then(|line| line.split_once("mod "))
                    .map(|(_, name)| name);
                tests.extend(name.map(|name| format!("{folder}/{name}")));
            }
            texts.insert(file, text);
        }
    }
    let is_test = |file: &str| {
        tests.iter().any(|test| {
            file.trim_end_matches(".rs") == test || file.starts_with(&format!("{test}/"))
        })
    };
    texts
        .iter()
        .filter(|(file, _)| !is_test(file))
        .map(|(file, text)| Source::new(file, text))
        .collect()
}

/// The layer of each module, from the table in the page of the architecture, counted from the top. A row whose first cell is
/// empty is of the same layer as the row above.
fn layers() -> BTreeMap<String, usize> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/architecture.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, table) = page.split_once("| Layer | Modules | Job |\n").unwrap();
    let mut layer = 0;
    let rows = table.lines().skip(1).take_while(|row| row.starts_with('|'));
    rows.map(|row| {
        layer += usize::from(!row.starts_with("| |"));
        (row.split('`').nth(1).unwrap().to_owned(), layer)
    })
    .collect()
}

#[track_caller]
fn assert_none(found: &[String]) {
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn imports_point_only_downwards() {
    let (layers, mut found, mut checked) = (layers(), Vec::new(), 0);
    for source in sources().iter().filter(|source| source.file != "lib.rs") {
        let here = &source.module[0];
        let layer = layers
            .get(here)
            .unwrap_or_else(|| panic!("`{here}` has no layer in docs/architecture.md"));
        for used in source.own().iter().filter(|used| used[0] != *here) {
            checked += 1;
            if layers.get(&used[0]).is_some_and(|other| other <= layer) {
                found.push(format!("src/{} uses `{}`", source.file, used.join("::")));
            }
        }
    }
    assert!(checked > 500, "the test itself has gone blind");
    assert_none(&found);
}

/// For each folder, which of its files and folders use which.
type Arrows = BTreeMap<Vec<String>, BTreeMap<String, BTreeSet<String>>>;

/// Those arrows, and what files take from the file of a folder above them.
fn arrows(sources: &[Source]) -> (Arrows, Vec<String>) {
    let modules: BTreeSet<_> = sources.iter().map(|source| source.module.clone()).collect();
    let (mut arrows, mut upward) = (Arrows::new(), Vec::new());
    for source in sources {
        for used in source.own() {
            let same = source
                .module
                .iter()
                .zip(&used)
                .take_while(|(a, b)| a == b)
                .count();
            let (Some(from), Some(to)) = (source.module.get(same), used.get(same)) else {
                continue;
            };
            let folder = used[..same].to_vec();
            let is_module = modules
                .iter()
                .any(|module| module.starts_with(&used[..=same]));
            if is_module {
                arrows
                    .entry(folder)
                    .or_default()
                    .entry(from.clone())
                    .or_default()
                    .insert(to.clone());
            } else if same > 0 && !source.text.contains(&format!("fn {to}(")) {
                upward.push(format!("src/{} uses `{}`", source.file, used.join("::")));
            }
        }
    }
    (arrows, upward)
}

/// What leads back to itself.
fn circles(arrows: &Arrows) -> Vec<String> {
    let mut found = Vec::new();
    for (folder, children) in arrows {
        for child in children.keys() {
            let (mut seen, mut open) = (BTreeSet::new(), vec![child]);
            while let Some(next) = open.pop() {
                open.extend(
                    { children.get(next).into_iter().flatten() }
                        .filter(|to| seen.insert((*to).clone())),
                );
            }
            if seen.contains(child) {
                found.push(format!("`{child}` uses itself in `{}`", folder.join("::")));
            }
        }
    }
    found
}

#[test]
fn imports_point_only_downwards_inside_a_folder() {
    let (arrows, upward) = arrows(&sources());
    assert!(arrows.len() > 10, "the test itself has gone blind");
    assert_none(&[upward, circles(&arrows)].concat());
}

#[test]
fn what_the_rules_forbid_is_found() {
    let planted = [
        (
            "pace/mod.rs",
            "mod gate;\nmod limit;\npub(crate) use limit::Limit;",
        ),
        (
            "pace/gate.rs",
            "use super::{Own, limit::Limit};\nfn f() { reqwest::get() }",
        ),
        (
            "pace/limit.rs",
            "// super::none\nfn f() -> super::gate::Gate {}\n#[cfg(test)]\nmod tests {\nuse super::super::Own;\n}",
        ),
    ];
    let planted = planted.map(|(file, text)| Source::new(file, text));
    let (arrows, upward) = arrows(&planted);
    assert_eq!(upward, ["src/pace/gate.rs uses `pace::Own`"]);
    assert_eq!(
        circles(&arrows),
        [
            "`gate` uses itself in `pace`",
            "`limit` uses itself in `pace`"
        ]
    );
    assert_eq!(
        crates_of_others(&planted),
        ["src/pace/gate.rs names `reqwest`"]
    );
}

fn crates_of_others(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources {
        // A module may be called like a crate.
        let own = source.own();
        let is_own = |name: &String| own.iter().any(|path| path.last() == Some(name));
        let paths = source.paths().into_iter();
        let named: BTreeSet<_> = { paths.map(|path| path[0].clone()) }
            .filter(|name| !is_own(name))
            .collect();
        for (name, owners) in OWNERS.iter().filter(|(name, _)| named.contains(*name)) {
            if !owners.iter().any(|owner| source.file.starts_with(owner)) {
                found.push(format!("src/{} names `{name}`", source.file));
            }
        }
    }
    found
}

#[test]
fn each_crate_is_named_by_its_owners_only() {
    assert_none(&crates_of_others(&sources()));
}

#[test]
fn no_two_types_have_one_name() {
    let sources = sources();
    let mut files = BTreeMap::<&str, Vec<&str>>::new();
    for source in &sources {
        for line in source.text.lines() {
            let words: Vec<_> = line
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .collect();
            let kind = words
                .iter()
                .position(|word| ["struct", "enum", "trait"].contains(word));
            if let (Some(at), true) = (kind, !line.starts_with(' ')) {
                files.entry(words[at + 1]).or_default().push(&source.file);
            }
        }
    }
    assert!(files.len() > 100, "the test itself has gone blind");
    let twice = files.iter().filter(|(_, files)| files.len() > 1);
    assert_none(
        &twice
            .map(|(name, files)| format!("`{name}` is in {}", files.join(", ")))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn every_file_keeps_to_its_place() {
    let mut found = Vec::new();
    for Source {
        file,
        text,
        is_documented,
        ..
    } in sources()
    {
        let mut must_not = |is_there: bool, why: &str| {
            if is_there {
                found.push(format!("src/{file} {why}"));
            }
        };
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        must_not(!is_documented, "does not start with `//!`");
        let defines = has(&[
            "\nstruct ",
            "\nenum ",
            "\nfn ",
            " struct ",
            " enum ",
            " fn ",
        ]);
        must_not(file.ends_with("/mod.rs") && defines, "defines something");
        let looks = has(&["fs::", ".exists()", "metadata()", ".read()"]);
        must_not(file.starts_with("cli/") && looks, "looks at files");
        // Asking whether it is a terminal writes nothing.
        let prints = text
            .replace("stderr().is_terminal()", "")
            .contains("io::stderr");
        must_not(
            file != "base/stderr.rs" && prints,
            "names standard error; `say` makes texts safe",
        );
        let says = has(&["stderr::say;", "stderr::{say,"]);
        must_not(
            !file.starts_with("observe/") && says,
            "uses `say`, which knows no JSON: `observe` has `tell`",
        );
    }
    assert_none(&found);
}
