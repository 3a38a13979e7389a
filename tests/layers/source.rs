//! What the tests of the architecture need of a source file: the paths that it names, its imports and its items. Comments,
//! strings and items under `#[cfg(test)]` are left out; everything below such an item counts.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::str::FromStr as _;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The path of a module or of a name in it, without `crate`.
pub(crate) type Names = Vec<String>;

/// A path in the code that ships, as it is written: `super::Row`, `serde_json::Value`.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) line: usize,
    /// The module that contains it.
    pub(crate) within: Names,
    pub(crate) names: Names,
}

/// A name that a `use` brings into a module.
#[derive(Debug)]
pub(crate) struct Import {
    pub(crate) within: Names,
    pub(crate) name: String,
    pub(crate) of: Names,
    pub(crate) public: bool,
}

/// One file of `src/`.
#[derive(Debug, Default)]
pub(crate) struct Source {
    /// Its name below `src/`.
    pub(crate) file: String,
    pub(crate) text: String,
    pub(crate) module: Names,
    pub(crate) paths: Vec<Written>,
    pub(crate) imports: Vec<Import>,
    /// What it defines, except modules.
    pub(crate) items: BTreeSet<Names>,
    pub(crate) modules: BTreeSet<Names>,
    /// Modules that are built for tests only.
    pub(crate) test_modules: BTreeSet<Names>,
}

impl Source {
    pub(crate) fn parse(file: &str, text: &str) -> Self {
        let mut source = Self {
            file: file.to_owned(),
            text: text.to_owned(),
            module: module_of(file),
            ..Self::default()
        };
        let tokens = TokenStream::from_str(text).unwrap_or_else(|e| panic!("src/{file}: {e}"));
        let here = source.module.clone();
        source.modules.insert(here.clone());
        source.scan(&tokens.into_iter().collect::<Vec<_>>(), &here, true);
        source
    }

    /// Reads the tokens of a module, or of a block inside one.
    fn scan(&mut self, tokens: &[TokenTree], here: &Names, is_module: bool) {
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            if is_cfg_test(&tokens[at..]) {
                let item = &tokens[at + 2..][..item_length(&tokens[at + 2..])];
                if let Some(module) = names_after(item, "mod").next() {
                    self.test_modules.insert(joined(here, &[module]));
                }
                at += 2 + item.len();
            } else if is_ident(token, "use") && !is_punct(tokens.get(at + 1), '<') {
                let end = at + statement_length(&tokens[at..]);
                let public = at > 0 && is_visibility(&tokens[..at]);
                self.import(&tokens[at + 1..end], here, public);
                at = end;
            } else if let (true, [_, TokenTree::Ident(name), body, ..]) =
                (is_ident(token, "mod"), &tokens[at..])
            {
                let module = joined(here, &[name.to_string()]);
                if let TokenTree::Group(body) = body {
                    let body: Vec<_> = body.stream().into_iter().collect();
                    self.scan(&body, &module, true);
                }
                self.modules.insert(module);
                at += 3;
            } else if let TokenTree::Group(group) = token {
                let inside: Vec<_> = group.stream().into_iter().collect();
                self.scan(&inside, here, false);
                at += 1;
            } else {
                if is_module {
                    let name = defined(&tokens[at..]);
                    self.items.extend(name.map(|name| joined(here, &[name])));
                }
                let (names, length) = path(&tokens[at..]);
                if names.len() > 1 {
                    let line = token.span().start().line;
                    self.write(line, here, names);
                }
                at += length.max(1);
            }
        }
    }

    fn write(&mut self, line: usize, here: &Names, names: Names) {
        let within = here.clone();
        self.paths.push(Written {
            line,
            within,
            names,
        });
    }

    /// Reads a tree of imports: `a::{b, c as d}`.
    fn import(&mut self, tree: &[TokenTree], here: &Names, public: bool) {
        let line = tree.first().map_or(0, |token| token.span().start().line);
        for (name, of) in flattened(tree, &Names::new()) {
            self.write(line, here, of.clone());
            self.imports.push(Import {
                within: here.clone(),
                name,
                of,
                public,
            });
        }
    }
}

/// All files below a directory that end in `.rs`.
pub(crate) fn read_all(root: &Path) -> Vec<Source> {
    let (mut sources, mut directories) = (Vec::new(), vec![root.to_owned()]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap();
                let text = fs::read_to_string(&path).unwrap();
                sources.push(Source::parse(&name.replace('\\', "/"), &text));
            }
        }
    }
    sources.sort_by(|a, b| a.file.cmp(&b.file));
    sources
}

/// `pace/gate.rs` is `pace::gate`; `lib.rs` and `main.rs` are the crate itself.
fn module_of(file: &str) -> Names {
    let path = file.trim_end_matches(".rs").trim_end_matches("/mod");
    let names = path.split('/').map(str::to_owned).collect();
    if path == "lib" || path == "main" {
        return Names::new();
    }
    names
}

pub(crate) fn joined(names: &[String], more: &[String]) -> Names {
    [names, more].concat()
}

fn is_ident(token: &TokenTree, name: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if *ident == name)
}

fn is_punct(token: Option<&TokenTree>, of: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == of)
}

fn is_braces(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}

/// Whether the tokens start with `#[cfg(test)]`, or `#[cfg(all(test, …))]`.
fn is_cfg_test(tokens: &[TokenTree]) -> bool {
    let [hash, TokenTree::Group(attribute), ..] = tokens else {
        return false;
    };
    let attribute = attribute.stream().to_string().replace(' ', "");
    is_punct(Some(hash), '#')
        && (attribute == "cfg(test)" || attribute.starts_with("cfg(all(test,"))
}

/// How many tokens the first item, field or arm takes, with its attributes.
fn item_length(tokens: &[TokenTree]) -> usize {
    const STATEMENTS: [&str; 5] = ["use", "const", "static", "type", "let"];
    const FUNCTIONS: [&str; 4] = ["fn", "unsafe", "async", "extern"];
    const BLOCKS: [&str; 6] = ["mod", "struct", "enum", "union", "trait", "impl"];
    let mut start = 0;
    while is_punct(tokens.get(start), '#') {
        start += 2;
    }
    if tokens
        .get(start)
        .is_some_and(|token| is_ident(token, "pub"))
    {
        let scope = tokens.get(start + 1);
        start += 1 + usize::from(matches!(scope, Some(TokenTree::Group(_))));
    }
    let item = &tokens[start..];
    let is = |at: usize, words: &[&str]| {
        let token = item.get(at);
        token.is_some_and(|token| words.iter().any(|word| is_ident(token, word)))
    };
    if is(0, &STATEMENTS) && !is(1, &FUNCTIONS) {
        return start + statement_length(item);
    }
    let is_item = is(0, &STATEMENTS) || is(0, &FUNCTIONS) || is(0, &BLOCKS);
    let mut angles = 0_usize;
    for (at, token) in item.iter().enumerate() {
        let arrow = at > 0 && (is_punct(item.get(at - 1), '-') || is_punct(item.get(at - 1), '='));
        if is_punct(Some(token), '<') {
            angles += 1;
        } else if is_punct(Some(token), '>') && !arrow {
            angles = angles.saturating_sub(1);
        }
        let comma = !is_item && angles == 0 && is_punct(Some(token), ',');
        if comma || is_punct(Some(token), ';') || is_braces(token) {
            return start + at + 1;
        }
    }
    tokens.len()
}

/// How many tokens there are up to the next `;`, with it.
fn statement_length(tokens: &[TokenTree]) -> usize {
    let end = tokens.iter().position(|token| is_punct(Some(token), ';'));
    end.map_or(tokens.len(), |end| end + 1)
}

/// The names that follow a keyword.
fn names_after<'a>(tokens: &'a [TokenTree], keyword: &'a str) -> impl Iterator<Item = String> + 'a {
    let pairs = tokens.windows(2);
    pairs.filter_map(move |pair| match pair {
        [first, TokenTree::Ident(name)] if is_ident(first, keyword) => Some(name.to_string()),
        _ => None,
    })
}

/// Whether the tokens end with `pub`, `pub(crate)` and the like.
fn is_visibility(tokens: &[TokenTree]) -> bool {
    match tokens {
        [.., last] if is_ident(last, "pub") => true,
        [.., word, TokenTree::Group(_)] => is_ident(word, "pub"),
        _ => false,
    }
}

/// The name of the item that starts here.
fn defined(tokens: &[TokenTree]) -> Option<String> {
    const KEYWORDS: [&str; 8] = [
        "fn", "struct", "enum", "union", "trait", "type", "const", "static",
    ];
    match tokens {
        [keyword, TokenTree::Ident(name), ..]
            if KEYWORDS.iter().any(|word| is_ident(keyword, word)) =>
        {
            // `const fn` is a `fn`.
            Some(name.to_string()).filter(|name| !["fn", "unsafe", "async"].contains(&&**name))
        }
        [keyword, bang, TokenTree::Ident(name), ..]
            if is_ident(keyword, "macro_rules") && is_punct(Some(bang), '!') =>
        {
            Some(name.to_string())
        }
        _ => None,
    }
}

/// The path that starts here, and how many tokens it takes. Its first name is empty if it starts with `::`.
fn path(tokens: &[TokenTree]) -> (Names, usize) {
    let mut names = Names::new();
    let mut at = 0;
    let colons = |at: usize| is_punct(tokens.get(at), ':') && is_punct(tokens.get(at + 1), ':');
    if colons(0) {
        names.push(String::new());
        at = 2;
    }
    while let Some(TokenTree::Ident(name)) = tokens.get(at) {
        names.push(name.to_string());
        at += 1;
        if !(colons(at) && matches!(tokens.get(at + 2), Some(TokenTree::Ident(_)))) {
            break;
        }
        at += 2;
    }
    (names, at)
}

/// The names that a tree of imports brings in, each with its path; `*` counts as a name.
fn flattened(tree: &[TokenTree], prefix: &Names) -> Vec<(String, Names)> {
    let (names, length) = path(tree);
    let whole = joined(prefix, &names);
    let rest = &tree[length..];
    let mut found = Vec::new();
    let after_colons = |rest: &[TokenTree]| {
        let skipped = rest.iter().take_while(|token| is_punct(Some(token), ':'));
        skipped.count()
    };
    match &rest[after_colons(rest)..] {
        [TokenTree::Group(group), ..] => {
            let inside: Vec<_> = group.stream().into_iter().collect();
            for part in inside.split(|token| is_punct(Some(token), ',')) {
                if !part.is_empty() {
                    found.extend(flattened(part, &whole));
                }
            }
        }
        [star, ..] if is_punct(Some(star), '*') => {
            found.push(("*".to_owned(), joined(&whole, &["*".to_owned()])));
        }
        [keyword, TokenTree::Ident(alias), ..] if is_ident(keyword, "as") => {
            found.push((alias.to_string(), whole));
        }
        _ if names.last().is_some_and(|name| name == "self") => {
            // `a::{self}` is `a`.
            let of = whole[..whole.len() - 1].to_vec();
            found.push((of.last().cloned().unwrap_or_default(), of));
        }
        _ => found.push((whole.last().cloned().unwrap_or_default(), whole)),
    }
    found
}
