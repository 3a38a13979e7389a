//! Where rows are written to: checked before the first call, so that no paid answer lacks a place.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::answers::Answers;
use crate::config::{LedgerConfig, OutputConfig, RejectsConfig};
use crate::error::{Error, Result};
use crate::input::Input;
use crate::layout::Layout;
use crate::ledger;
use crate::output::{Replace, Sides, Sink, Target, is_same_file, partial_of};

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
    let ledger = ledger.place.as_ref().and_then(ledger::Place::path);
    places.extend(ledger.as_deref().map(Place::ledger));
    refuse_clashes(&places)
}

/// The places that rows go to.
pub(super) struct Targets {
    output: Option<Target>,
    rejects: Option<Target>,
    changes: Option<Target>,
}

impl Targets {
    /// Checks the places, where nobody else can be at them any more: the input may have been waited for, and another run
    /// may have begun and ended meanwhile.
    pub(super) fn check(
        output: &OutputConfig,
        rejects: Option<&Path>,
        answers: &Answers,
    ) -> Result<Self> {
        let again = |target: &Target| {
            let replace = if output.overwrite || target.is_special() {
                Replace::Whole
            } else {
                answers.replace(target.path())?
            };
            target.again(replace)
        };
        let new = |path| Target::new(path, |_| Replace::Whole).and_then(|target| again(&target));
        Ok(Self {
            output: output.target.as_ref().map(again).transpose()?,
            rejects: rejects.map(new).transpose()?,
            changes: output.changes.as_deref().map(new).transpose()?,
        })
    }

    /// Opens the files.
    pub(super) fn open(self) -> Result<(Sink, Sides)> {
        let open = |target: &Target| target.open().map_err(|error| error.about(target.path()));
        let sink = self.output.as_ref().map(open).transpose()?;
        let sides = Sides::open(self.rejects, self.changes)?;
        Ok((sink.unwrap_or_else(Sink::stdout), sides))
    }
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
