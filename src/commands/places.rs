//! Where rows are written to: checked before the first call, so that no paid answer lacks a place.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use super::answers::Answers;
use crate::base::error::{Error, Result, printable, shown};
use crate::base::own_file;
use crate::config::{LedgerConfig, OutputConfig, RejectsConfig, ServiceConfig};
use crate::input::Input;
use crate::layout::{Format, Layout, Packing};
use crate::ledger;
use crate::output::{PARTIAL, Replace, Sides, Sink, Target, is_same_file};
use crate::service::KeyFile;

/// A file that a run reads or writes.
pub(crate) struct Place<'a> {
    what: &'static str,
    path: &'a Path,
    /// What stands behind its name in those of the files that come and go with it.
    ends: &'static [&'static str],
}

impl<'a> Place<'a> {
    /// A file that the run reads.
    pub(crate) const fn input(path: &'a Path) -> Self {
        Self::new("input", path)
    }

    /// A file that the run writes.
    pub(crate) const fn output(path: &'a Path) -> Self {
        Self::partial("output", path)
    }

    /// A file that is written straight away, or only read.
    const fn new(what: &'static str, path: &'a Path) -> Self {
        Self {
            what,
            path,
            ends: &[],
        }
    }

    /// A file that has another name until it is whole.
    const fn partial(what: &'static str, path: &'a Path) -> Self {
        let ends = &[PARTIAL];
        Self { what, path, ends }
    }

    const fn ledger(path: &'a Path) -> Self {
        Self {
            what: "ledger",
            path,
            ends: ledger::SUFFIXES,
        }
    }

    fn names(&self) -> impl Iterator<Item = PathBuf> {
        let ends = [""].into_iter().chain(self.ends.iter().copied());
        ends.map(|end| {
            let mut name = self.path.as_os_str().to_owned();
            name.push(end);
            name.into()
        })
    }
}

/// Fails when two places would be written over each other, also through links and also before they are whole.
pub(crate) fn refuse_clashes(places: &[Place<'_>]) -> Result<()> {
    for (index, one) in places.iter().enumerate() {
        for other in places.iter().skip(index + 1) {
            let clash = one
                .names()
                .any(|a| other.names().any(|b| is_same_file(&a, &b)));
            if clash {
                let (a, b) = (one.path.display(), other.path.display());
                let error = if one.what == "input" {
                    Error::usage(format!(
                        "the {} `{b}` is the input itself, or would be on the way",
                        other.what
                    ))
                } else {
                    Error::usage(format!(
                        "the {} `{a}` and the {} `{b}` would be one file",
                        one.what, other.what
                    ))
                };
                return Err(error.hint("give another name; what is only read is never changed"));
            }
        }
    }
    Ok(())
}

/// Where failed rows go, if anywhere.
pub(super) fn rejects(output: &OutputConfig, layout: &Layout) -> Result<Option<PathBuf>> {
    match &output.rejects {
        RejectsConfig::Nowhere => Ok(None),
        RejectsConfig::At(path) => Ok(Some(path.clone())),
        RejectsConfig::Beside(output) => {
            let path = beside(output, layout.format.extension());
            // Nobody asked for this name, so it is not followed to wherever it leads.
            if path.symlink_metadata().is_ok_and(|there| !there.is_file()) {
                return Err(Error::usage(format!(
                    "cannot write the rejects to `{}`: it is not a regular file",
                    path.display()
                ))
                .hint("name another place with `--rejects FILE`"));
            }
            Ok(Some(path))
        }
    }
}

/// Fails when the name of a file for rows says another format than they have: programs go by the name.
pub(super) fn check_names(
    output: &OutputConfig,
    rejects: Option<&Path>,
    format: Format,
) -> Result<()> {
    let target = output.target.as_ref().filter(|target| !target.is_special());
    [
        ("--output", target.map(Target::path)),
        ("--rejects", rejects),
        ("--changes", output.changes.as_deref()),
    ]
    .into_iter()
    .filter_map(|(flag, path)| Some((flag, path?)))
    .try_for_each(|(flag, path)| check_name(flag, path, format))
}

/// Ends of names of files that hold no lines, however they are written.
const NO_LINES: [&str; 16] = [
    "xlsx", "xlsm", "xlsb", "xls", "ods", "numbers", "parquet", "avro", "arrow", "feather", "orc",
    "pdf", "zip", "7z", "bz2", "xz",
];

fn check_name(flag: &str, path: &Path, format: Format) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let lower = name.to_lowercase();
    let packed = [".gz", ".zst"].into_iter().find(|end| lower.ends_with(end));
    let lower = lower
        .strip_suffix(packed.unwrap_or_default())
        .unwrap_or(&lower);
    let Some((stem, end)) = lower.rsplit_once('.') else {
        return Ok(());
    };
    let fits = match (end, format) {
        ("jsonl" | "ndjson" | "json", format) => format == Format::Jsonl,
        ("csv", format) => format != Format::Jsonl,
        // Who reads a file of this name does not look for another delimiter.
        ("tsv", format) => format == Format::Delimited { delimiter: b'\t' },
        (end, _) => !NO_LINES.contains(&end),
    };
    if fits {
        return Ok(());
    }
    let is = match format {
        Format::Delimited { delimiter: b'\t' } => "TSV",
        Format::Delimited { .. } => "CSV",
        Format::Jsonl => "JSONL",
    };
    // In the case that it has. `scored.csv.zip` is meant to be `scored.csv`.
    let stem = name.get(..stem.len()).unwrap_or(stem);
    let stem = stem
        .strip_suffix(&format!(".{}", format.extension()))
        .unwrap_or(stem);
    let better = format!(
        "{stem}.{}{}",
        format.extension(),
        packed.unwrap_or_default()
    );
    Err(Error::usage(format!(
        "cannot write {is} to `{flag} {}`: it is the name of another format, and the output has the input's",
        shown(path)
    ))
    .hint(format!("name it `{}`", printable(&better))))
}

/// Fails when any two of the files that a run reads or writes would be one.
pub(super) fn check(
    input: &Input,
    output: &OutputConfig,
    rejects: Option<&Path>,
    summary: Option<&Path>,
    ledger: &LedgerConfig,
    service: &ServiceConfig,
) -> Result<()> {
    let ledger = ledger
        .location
        .as_ref()
        .and_then(ledger::LedgerLocation::path);
    let mut places = Vec::new();
    if let Input::File(path) = input {
        places.push(Place::input(path));
    }
    if let ServiceConfig::Real(client) = service {
        let key = client.key_file.as_ref().map(KeyFile::path);
        places.extend(key.map(|path| Place::new("API key", path)));
        let ca = client.ca_file.as_deref();
        places.extend(ca.map(|path| Place::new("certificate authority", path)));
    }
    let target = output.target.as_ref().map(Target::path);
    places.extend(target.map(Place::output));
    places.extend(rejects.map(|path| Place::partial("rejects", path)));
    let changes = output.changes.as_deref();
    places.extend(changes.map(|path| Place::partial("changes", path)));
    places.extend(summary.map(|path| Place::new("summary", path)));
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

    /// Opens the files, for nobody who cannot read the input, whose mode this is: its rows are in all of them.
    pub(super) fn open(self, mode: u32) -> Result<(Sink, Sides)> {
        let Self {
            output,
            rejects,
            changes,
        } = self;
        // The rows of an output that was narrowed by hand stay so beside it, too.
        let beside = mode & output.as_ref().and_then(Target::mode).unwrap_or(mode);
        let open = |target: Target| {
            let path = target.path().to_owned();
            target.open(mode).map_err(|error| error.about(&path))
        };
        let sink = output.map(open).transpose()?;
        let sides = Sides::open(rejects.as_ref(), changes.as_ref(), beside)?;
        Ok((sink.unwrap_or_else(Sink::stdout), sides))
    }
}

/// The file, unless somebody has removed it, as with its directory.
pub(super) fn still_there(file: Option<PathBuf>) -> Option<PathBuf> {
    file.filter(|file| file.symlink_metadata().is_ok())
}

/// Opens the file for the summary. It is emptied now: an old summary must not be taken for this run's. A new one is for
/// nobody who cannot read the input, whose mode this is.
pub(super) fn summary(path: Option<&Path>, mode: u32) -> Result<Option<File>> {
    let open = |path: &Path| {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        own_file::with_mode(&mut options, mode & 0o666 | 0o600)
            .open(path)
            .map_err(|e| Error::usage(format!("cannot write `{}`", path.display())).because(e))
    };
    path.map(open).transpose()
}

/// `scored.csv.gz` has its rejects in `scored.rejects.csv`.
fn beside(output: &Path, extension: &str) -> PathBuf {
    let name = output
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let (name, _) = Packing::split(&name);
    let known = ["csv", "tsv", "jsonl", "ndjson", "txt"];
    let is_known = |end: &str| known.iter().any(|known| end.eq_ignore_ascii_case(known));
    let stem = match name.rsplit_once('.') {
        Some((stem, end)) if is_known(end) => stem,
        _ => name,
    };
    output.with_file_name(format!("{stem}.rejects.{extension}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_says_another_format_is_refused_with_a_better_one() {
        let [csv, tsv] = [b',', b'\t'].map(|delimiter| Format::Delimited { delimiter });
        for (name, format, better) in [
            ("scored.xlsx", csv, "scored.csv"),
            ("out/Scored.XLSX", tsv, "Scored.tsv"),
            ("scored.parquet", Format::Jsonl, "scored.jsonl"),
            ("scored.csv.zip", csv, "scored.csv"),
            ("scored.jsonl.gz", csv, "scored.csv.gz"),
            ("scored.json", csv, "scored.csv"),
            ("scored.csv.zst", Format::Jsonl, "scored.jsonl.zst"),
            ("scored.tsv", csv, "scored.csv"),
        ] {
            let report = check_name("--output", Path::new(name), format)
                .unwrap_err()
                .report();
            assert!(
                report.ends_with(&format!("\n\nhint: name it `{better}`")),
                "{report}"
            );
        }
        for (name, format) in [
            ("scored.csv", csv),
            ("scored.CSV.GZ", tsv),
            ("scored.tsv.zst", tsv),
            ("scored.json", Format::Jsonl),
            ("scored.ndjson", Format::Jsonl),
            ("scored", csv),
            ("scored.txt", Format::Jsonl),
            ("scored.2026-11-22", csv),
        ] {
            assert!(
                check_name("--output", Path::new(name), format).is_ok(),
                "{name}"
            );
        }
    }

    #[test]
    fn rejects_lie_beside_the_output() {
        for (output, rejects) in [
            ("scored.csv", "scored.rejects.csv"),
            ("out/scored.csv.gz", "out/scored.rejects.csv"),
            ("OUT.CSV.GZ", "OUT.rejects.csv"),
            ("scored", "scored.rejects.csv"),
            ("a.b.jsonl.zst", "a.b.rejects.csv"),
        ] {
            assert_eq!(beside(Path::new(output), "csv"), PathBuf::from(rejects));
        }
    }
}
