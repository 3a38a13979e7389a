//! Refuses files of one command that would overwrite each other.

use std::path::{Path, PathBuf};

use crate::base::error::{Error, Result};
use crate::ledger;
use crate::output::{PARTIAL, is_same_file};

/// A file that a command reads or writes.
pub(in crate::commands) struct NamedFile<'a> {
    what: &'static str,
    path: &'a Path,
    /// Endings that its name has in the names of the files that come and go with it.
    ends: &'static [&'static str],
}

impl<'a> NamedFile<'a> {
    /// A file that is read.
    pub(in crate::commands) const fn input(path: &'a Path) -> Self {
        Self::new("input", path)
    }

    /// The output.
    pub(in crate::commands) const fn output(path: &'a Path) -> Self {
        Self::partial("output", path)
    }

    /// A file that is written under its own name from the start, or only read.
    pub(in crate::commands) const fn new(what: &'static str, path: &'a Path) -> Self {
        Self {
            what,
            path,
            ends: &[],
        }
    }

    /// A file that is called `.partial` until it is complete.
    pub(in crate::commands) const fn partial(what: &'static str, path: &'a Path) -> Self {
        let ends = &[PARTIAL];
        Self { what, path, ends }
    }

    /// A ledger, which other files go with.
    pub(in crate::commands) const fn ledger(path: &'a Path) -> Self {
        Self {
            what: "ledger",
            path,
            ends: ledger::SUFFIXES,
        }
    }

    /// Its own path and those of the files that go with it.
    fn names(&self) -> impl Iterator<Item = PathBuf> {
        let ends = [""].into_iter().chain(self.ends.iter().copied());
        ends.map(|end| {
            let mut name = self.path.as_os_str().to_owned();
            name.push(end);
            name.into()
        })
    }
}

/// Fails if two of these would be written to one file, also through links and also while they are still partial.
pub(in crate::commands) fn refuse_clashes(files: &[NamedFile<'_>]) -> Result<()> {
    for (index, one) in files.iter().enumerate() {
        for other in files.iter().skip(index + 1) {
            let clash = one
                .names()
                .any(|a| other.names().any(|b| is_same_file(&a, &b)));
            if clash {
                let (a, b) = (one.path.display(), other.path.display());
                let error = if one.what == "input" {
                    Error::usage(format!(
                        "the {} `{b}` would overwrite the input",
                        other.what
                    ))
                } else {
                    Error::usage(format!(
                        "the {} `{a}` and the {} `{b}` would be the same file",
                        one.what, other.what
                    ))
                };
                return Err(error.hint("give another name"));
            }
        }
    }
    Ok(())
}
