//! Where rows are written to: checked before the first call, so that no paid answer lacks a place.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::config::{LedgerConfig, OutputConfig, RejectsConfig};
use crate::error::{Error, Result};
use crate::input::Input;
use crate::layout::Layout;
use crate::ledger::{self, ledger_of};
use crate::output::{is_same_file, partial_of};
use crate::stats::Stats;

/// A file that a run reads or writes.
pub(crate) struct Place<'a> {
    what: &'static str,
    path: &'a Path,
    /// Whether it has another name until it is whole.
    partial: bool,
}

impl<'a> Place<'a> {
    pub(crate) const fn input(path: &'a Path) -> Self {
        Self {
            what: "input",
            path,
            partial: false,
        }
    }

    pub(crate) const fn output(path: &'a Path) -> Self {
        Self {
            what: "output",
            path,
            partial: true,
        }
    }

    const fn rejects(path: &'a Path) -> Self {
        Self {
            what: "rejects",
            path,
            partial: true,
        }
    }

    const fn changes(path: &'a Path) -> Self {
        Self {
            what: "changes",
            path,
            partial: true,
        }
    }

    const fn ledger(path: &'a Path) -> Self {
        Self {
            what: "ledger",
            path,
            partial: false,
        }
    }

    const fn summary(path: &'a Path) -> Self {
        Self {
            what: "summary",
            path,
            partial: false,
        }
    }

    fn names(&self) -> Vec<PathBuf> {
        let partial = self.partial.then(|| partial_of(self.path));
        std::iter::once(self.path.to_owned())
            .chain(partial)
            .collect()
    }
}

/// Fails when two places would be written over each other, also through links and also before they are whole.
pub(crate) fn refuse_clashes(places: &[Place<'_>]) -> Result<()> {
    for (index, one) in places.iter().enumerate() {
        for other in places.iter().skip(index + 1) {
            let clash = one
                .names()
                .iter()
                .any(|a| other.names().iter().any(|b| is_same_file(a, b)));
            if clash {
                let (a, b) = (one.path.display(), other.path.display());
                let error = if one.what == "input" {
                    Error::usage(format!(
                        "the {} `{b}` is the input itself, or would be on the way",
                        other.what
                    ))
                } else {
                    Error::usage(format!(
                        "{} `{a}` and {} `{b}` would be one file",
                        one.what, other.what
                    ))
                };
                return Err(error.hint("give another name; the input is never changed"));
            }
        }
    }
    Ok(())
}

/// Where failed rows go, if anywhere.
pub(super) fn rejects(output: &OutputConfig, layout: &Layout) -> Option<PathBuf> {
    match &output.rejects {
        RejectsConfig::Nowhere => None,
        RejectsConfig::At(path) => Some(path.clone()),
        RejectsConfig::Beside(output) => Some(beside(output, layout.format.extension())),
    }
}

/// Fails when any two of a run's files would be one.
pub(super) fn check(
    input: &Input,
    output: &OutputConfig,
    rejects: Option<&Path>,
    summary: Option<&Path>,
    ledger: &LedgerConfig,
) -> Result<()> {
    let mut places = Vec::new();
    if let Input::File(path) = input {
        places.push(Place::input(path));
    }
    places.extend(
        output
            .target
            .as_ref()
            .map(|target| Place::output(target.path())),
    );
    places.extend(rejects.map(Place::rejects));
    places.extend(output.changes.as_deref().map(Place::changes));
    places.extend(summary.map(Place::summary));
    let ledger = match &ledger.place {
        Some(ledger::Place::Shared(path)) => Some(path.clone()),
        Some(ledger::Place::Beside(output)) => Some(ledger_of(output)),
        Some(ledger::Place::Scratch) | None => None,
    };
    places.extend(ledger.as_deref().map(Place::ledger));
    refuse_clashes(&places)
}

/// A megabyte, as `df` and people count them.
const MEGABYTE: u64 = 1_000_000;

/// A full disk's error with the space that the rest of the run will take, by what it took so far.
pub(super) fn with_space(error: Error, output: &Path, size: Option<u64>, stats: &Stats) -> Error {
    if !error.is_disk_full() {
        return error;
    }
    let length = |path: &Path| path.metadata().map_or(0, |metadata| metadata.len());
    let taken = length(&partial_of(output)) + length(&ledger_of(output));
    let needed = match size {
        Some(size) if stats.position > 0 => {
            let left = u128::from(size.saturating_sub(stats.position));
            let needed = u128::from(taken) * left / u128::from(stats.position);
            u64::try_from(needed).unwrap_or(u64::MAX)
        }
        _ => taken,
    };
    let directory = output
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    error.detail(format!(
        "the rest needs about {} MB more in `{}`",
        needed / MEGABYTE + 1,
        directory.display()
    ))
}

/// Opens the file for the summary. It is emptied now: an old summary must not be taken for this run's.
pub(super) fn summary(path: &Path) -> Result<File> {
    File::create(path)
        .map_err(|e| Error::usage(format!("cannot write `{}`", path.display())).because(e))
}

/// `scored.csv.gz` has its rejects in `scored.rejects.csv`.
fn beside(output: &Path, extension: &str) -> PathBuf {
    let name = output
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let name = name
        .strip_suffix(".gz")
        .or_else(|| name.strip_suffix(".zst"))
        .unwrap_or(&name);
    let known = [".csv", ".tsv", ".jsonl", ".ndjson", ".txt"];
    let stem = known
        .iter()
        .find_map(|end| name.strip_suffix(end))
        .unwrap_or(name);
    output.with_file_name(format!("{stem}.rejects.{extension}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_lie_beside_the_output() {
        for (output, rejects) in [
            ("scored.csv", "scored.rejects.csv"),
            ("out/scored.csv.gz", "out/scored.rejects.csv"),
            ("scored", "scored.rejects.csv"),
            ("a.b.jsonl.zst", "a.b.rejects.csv"),
        ] {
            assert_eq!(beside(Path::new(output), "csv"), PathBuf::from(rejects));
        }
    }
}
