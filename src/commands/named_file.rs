//! The files that a command reads and writes, by name: no two may be one.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use crate::base::error::{Error, Result};
use crate::base::own_file;
use crate::ledger;
use crate::output::{PARTIAL, is_same_file};

/// A file that a command reads or writes.
pub(super) struct NamedFile<'a> {
    what: &'static str,
    path: &'a Path,
    /// Endings that its name has in the names of the files that come and go with it.
    ends: &'static [&'static str],
}

impl<'a> NamedFile<'a> {
    /// A file that the command reads.
    pub(super) const fn input(path: &'a Path) -> Self {
        Self::new("input", path)
    }

    /// A file that the command writes.
    pub(super) const fn output(path: &'a Path) -> Self {
        Self::partial("output", path)
    }

    /// A file that is written under its own name from the start, or only read.
    pub(super) const fn new(what: &'static str, path: &'a Path) -> Self {
        Self {
            what,
            path,
            ends: &[],
        }
    }

    /// A file that is called `.partial` until it is complete.
    pub(super) const fn partial(what: &'static str, path: &'a Path) -> Self {
        let ends = &[PARTIAL];
        Self { what, path, ends }
    }

    /// A ledger, which other files go with.
    pub(super) const fn ledger(path: &'a Path) -> Self {
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

/// Fails when a command would write two of these to one file, also through links and also while they are still partial.
pub(super) fn refuse_clashes(files: &[NamedFile<'_>]) -> Result<()> {
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

/// Opens the file for the summary. It is emptied now, so that an old summary is not taken for this run's.
pub(super) fn create_summary(path: &Path, mode: u32) -> Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    own_file::with_mode(&mut options, mode & 0o666 | 0o600)
        .open(path)
        .map_err(|e| Error::usage(format!("cannot write `{}`", path.display())).because(e))
}
