//! All sources together: where each path leads, upward arrows inside a folder, and circles there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::source::{Import, Names, Source, joined, read_all};

pub(crate) struct Tree {
    sources: Vec<Source>,
    modules: BTreeSet<Names>,
    items: BTreeSet<Names>,
    test_modules: BTreeSet<Names>,
}

/// A use of the crate's own modules by a file.
pub(crate) struct Use<'a> {
    pub(crate) source: &'a Source,
    pub(crate) line: usize,
    /// The path from the crate's root.
    pub(crate) to: Names,
}

impl Tree {
    pub(crate) fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        Self::of(read_all(&root))
    }

    pub(crate) fn of(sources: Vec<Source>) -> Self {
        let all = |names: fn(&Source) -> &BTreeSet<Names>| {
            sources.iter().flat_map(names).cloned().collect()
        };
        Self {
            modules: all(|source| &source.modules),
            items: all(|source| &source.items),
            test_modules: all(|source| &source.test_modules),
            sources,
        }
    }

    /// All files, including those that only tests use.
    pub(crate) fn files(&self) -> &[Source] {
        &self.sources
    }

    /// The files that ship.
    pub(crate) fn shipped(&self) -> impl Iterator<Item = &Source> {
        let is_test = |source: &Source| {
            let module = &source.module;
            (1..=module.len()).any(|length| self.test_modules.contains(&module[..length]))
        };
        self.sources.iter().filter(move |source| !is_test(source))
    }

    /// The paths of the crate itself that a file names.
    pub(crate) fn uses<'a>(&'a self, source: &'a Source) -> impl Iterator<Item = Use<'a>> {
        source.paths.iter().filter_map(move |path| {
            let to = self.absolute(&path.within, &path.names)?;
            let line = path.line;
            Some(Use { source, line, to })
        })
    }

    /// The foreign crates that a file names, and other names that might be one.
    pub(crate) fn foreign<'a>(
        &'a self,
        source: &'a Source,
    ) -> impl Iterator<Item = (usize, &'a str)> {
        let ours: BTreeSet<_> = source
            .imports
            .iter()
            .filter(|import| self.absolute(&import.within, &import.of).is_some())
            .map(|import| import.name.as_str())
            .collect();
        source.paths.iter().filter_map(move |path| {
            let first = path.names.iter().find(|name| !name.is_empty())?.as_str();
            let is_rooted = path.names.first().is_some_and(String::is_empty);
            let is_ours = self.absolute(&path.within, &path.names).is_some();
            (is_rooted || !is_ours && !ours.contains(first)).then_some((path.line, first))
        })
    }

    /// The path from the crate's root; `None` if it leads out of the crate or starts with a local name.
    fn absolute(&self, within: &Names, names: &[String]) -> Option<Names> {
        let (first, rest) = names.split_first()?;
        match first.as_str() {
            "crate" | "rescore" => Some(rest.to_vec()),
            "self" => Some(joined(within, rest)),
            "super" => {
                let (_, parent) = within.split_last()?;
                let is_more = rest.first().is_some_and(|name| name == "super");
                let parent = parent.to_vec();
                if is_more {
                    self.absolute(&parent, rest)
                } else {
                    Some(joined(&parent, rest))
                }
            }
            _ => {
                let path = joined(within, names);
                let module = joined(within, std::slice::from_ref(first));
                self.modules.contains(&module).then_some(path)
            }
        }
    }

    /// The import that brings a name into a module.
    fn import(&self, module: &[String], name: &str) -> Option<&Import> {
        let imports = self.sources.iter().flat_map(|source| &source.imports);
        imports
            .into_iter()
            .find(|import| import.within == module && import.name == name)
    }

    /// The module that defines what a path names, behind every façade.
    fn home(&self, path: &[String]) -> Names {
        let known = (0..=path.len())
            .rev()
            .find(|length| self.modules.contains(&path[..*length]));
        let (module, rest) = path.split_at(known.unwrap_or(0));
        let import = rest.first().and_then(|name| self.import(module, name));
        let target = import.and_then(|import| self.absolute(&import.within, &import.of));
        match target {
            Some(target) if target != path => self.home(&target),
            _ => module.to_vec(),
        }
    }

    /// What files use of the file of a folder above them, one line for each pair of files.
    pub(crate) fn upward_arrows(&self) -> Vec<String> {
        let mut arrows = BTreeMap::<(String, String), BTreeSet<String>>::new();
        for source in self.shipped() {
            for used in self.uses(source) {
                let Some((folder, what)) = self.taken_from_a_parent(&source.module, &used.to)
                else {
                    continue;
                };
                let arrow = (source.file.clone(), folder.join("::"));
                arrows.entry(arrow).or_default().insert(what);
            }
        }
        let line = |((file, folder), names): (&(String, String), &BTreeSet<String>)| {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            format!("src/{file} uses {} of `{folder}`", names.join(", "))
        };
        arrows.iter().map(line).collect()
    }

    /// If the path ends in the file of a folder above the module: that folder, and what it names there.
    fn taken_from_a_parent(&self, module: &[String], path: &[String]) -> Option<(Names, String)> {
        let folder = common(module, path);
        let name = path.get(folder.len())?;
        if folder.is_empty() || folder.len() == module.len() {
            return None;
        }
        let below = joined(folder, std::slice::from_ref(name));
        if self.modules.contains(&below) {
            return None;
        }
        let how = if self.items.contains(&below) {
            "defined there"
        } else {
            match self.import(folder, name) {
                Some(import) if import.public => "through the façade",
                _ => "imported there",
            }
        };
        Some((folder.to_vec(), format!("`{name}` ({how})")))
    }

    /// What `mod.rs` files define, except modules.
    pub(crate) fn more_than_facades(&self) -> Vec<String> {
        let folders = self
            .shipped()
            .filter(|source| source.file.ends_with("/mod.rs"));
        let mut found = Vec::new();
        for source in folders.filter(|source| !source.items.is_empty()) {
            let items = source.items.iter().filter_map(|item| item.last());
            let items: Vec<_> = items.map(String::as_str).collect();
            found.push(format!("src/{} defines {}", source.file, items.join(", ")));
        }
        found
    }

    /// Neighbours in one folder that use each other, directly or through others.
    pub(crate) fn circles(&self) -> Vec<String> {
        // By folder and child: the neighbours that the child uses, each with a line where it does.
        let mut arrows = BTreeMap::<Names, BTreeMap<String, BTreeMap<String, String>>>::new();
        for source in self.shipped() {
            for used in self.uses(source) {
                let home = self.home(&used.to);
                let folder = common(&source.module, &home);
                let (from, to) = (source.module.get(folder.len()), home.get(folder.len()));
                if let (Some(from), Some(to)) = (from, to) {
                    let place = format!("src/{}:{}", used.source.file, used.line);
                    let children = arrows.entry(folder.to_vec()).or_default();
                    let used = children.entry(from.clone()).or_default();
                    used.entry(to.clone()).or_insert(place);
                }
            }
        }
        let mut circles = Vec::new();
        for (folder, children) in &arrows {
            let reach = |from: &String| reachable(children, from);
            let mut seen = BTreeSet::new();
            for child in children.keys() {
                let mut circle: Vec<_> = reach(child)
                    .into_iter()
                    .filter(|other| reach(other).contains(child))
                    .collect();
                circle.sort();
                if !circle.is_empty() && seen.insert(circle.clone()) {
                    let arrow = |from: &String| {
                        let used = children[from].iter();
                        let used = used.filter(|(to, _)| circle.contains(to));
                        let lines = used.map(|(to, at)| format!("\n    {from} → {to} ({at})"));
                        lines.collect::<String>()
                    };
                    let lines: String = circle.iter().map(arrow).collect();
                    circles.push(format!("in `crate::{}`:{lines}", folder.join("::")));
                }
            }
        }
        circles
    }
}

/// The common start of two paths.
fn common<'a>(one: &'a [String], other: &[String]) -> &'a [String] {
    let same = one.iter().zip(other).take_while(|(a, b)| a == b);
    &one[..same.count()]
}

/// What a child reaches by one arrow or more.
fn reachable(
    arrows: &BTreeMap<String, BTreeMap<String, String>>,
    from: &String,
) -> BTreeSet<String> {
    let (mut found, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(child) = open.pop() {
        for to in arrows.get(child).into_iter().flat_map(BTreeMap::keys) {
            if found.insert(to.clone()) {
                open.push(to);
            }
        }
    }
    found
}
