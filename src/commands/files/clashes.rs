//! Refuses files of one command that would overwrite each other.

use std::path::{Path, PathBuf};

use crate::base::error::{Error, Result};
use crate::base::file_id::FileId;
use crate::input::{Input, stdin_file};
use crate::ledger;
use crate::output::{PARTIAL, is_same_file};

/// A file that a command reads or writes.
pub(in crate::commands) struct NamedFile<'a> {
    what: &'static str,
    place: FilePlace<'a>,
    /// Endings that its name has in the names of the files that come and go with it.
    ends: &'static [&'static str],
}

/// Where a file is.
enum FilePlace<'a> {
    At(&'a Path),
    /// Open as standard input: it may have any name.
    Stdin(FileId),
}

impl<'a> NamedFile<'a> {
    /// The input, if it is a file, also one that a shell opened.
    pub(in crate::commands) fn input(input: &'a Input) -> Option<Self> {
        match input {
            Input::File(path) => Some(Self::input_at(path)),
            Input::Stdin => stdin_file().map(|file| Self {
                what: INPUT,
                place: FilePlace::Stdin(FileId::of(&file)),
                ends: &[],
            }),
        }
    }

    /// A file that is read.
    pub(in crate::commands) const fn input_at(path: &'a Path) -> Self {
        Self::new(INPUT, path)
    }

    /// The output.
    pub(in crate::commands) const fn output(path: &'a Path) -> Self {
        Self::partial("output", path)
    }

    /// A file that is written under its own name from the start, or only read.
    pub(in crate::commands) const fn new(what: &'static str, path: &'a Path) -> Self {
        Self {
            what,
            place: FilePlace::At(path),
            ends: &[],
        }
    }

    /// A file that is called `.partial` until it is complete.
    pub(in crate::commands) const fn partial(what: &'static str, path: &'a Path) -> Self {
        Self {
            what,
            place: FilePlace::At(path),
            ends: &[PARTIAL],
        }
    }

    /// A ledger, which other files go with.
    pub(in crate::commands) const fn ledger(path: &'a Path) -> Self {
        Self {
            what: "ledger",
            place: FilePlace::At(path),
            ends: ledger::SUFFIXES,
        }
    }

    /// Its path, if it has one.
    const fn path(&self) -> Option<&'a Path> {
        match self.place {
            FilePlace::At(path) => Some(path),
            FilePlace::Stdin(_) => None,
        }
    }

    /// Its own path and those of the files that go with it.
    fn names(&self) -> impl Iterator<Item = PathBuf> {
        let ends = [""].into_iter().chain(self.ends.iter().copied());
        let path = self.path().into_iter();
        path.flat_map(move |path| {
            ends.clone().map(|end| {
                let mut name = path.as_os_str().to_owned();
                name.push(end);
                name.into()
            })
        })
    }

    /// Whether a file of the one is a file of the other.
    fn is_also(&self, other: &Self) -> bool {
        match self.place {
            FilePlace::Stdin(id) => other.names().any(|name| FileId::at(&name) == Some(id)),
            FilePlace::At(_) => {
                { self.names() }.any(|a| other.names().any(|b| is_same_file(&a, &b)))
            }
        }
    }
}

/// What the input is called.
const INPUT: &str = "input";

/// Fails if two of these would be written to one file, also through links and also while they are still partial.
pub(in crate::commands) fn refuse_clashes(files: &[NamedFile<'_>]) -> Result<()> {
    for (index, one) in files.iter().enumerate() {
        for other in files.iter().skip(index + 1) {
            if !one.is_also(other) {
                continue;
            }
            let named = |file: &NamedFile<'_>| {
                let path = file.path().map(|path| format!(" `{}`", path.display()));
                format!("the {}{}", file.what, path.unwrap_or_default())
            };
            let message = if one.what == INPUT {
                format!("{} would overwrite the input", named(other))
            } else {
                format!("{} and {} would be the same file", named(one), named(other))
            };
            return Err(Error::usage(message).hint("give another name"));
        }
    }
    Ok(())
}
