//! Names of the files of one command: the format that they say, the default name for the rejects, and that no two of them
//! would overwrite each other. What is in the files is not known here.

use std::path::{Path, PathBuf};

use crate::base::error::{Error, Exit, Result, shown};
use crate::base::file_id::FileId;
use crate::input::{Input, stdin_file};
use crate::layout::{Compression, Format};
use crate::ledger::{self, OutputLock};
use crate::output::{PARTIAL, is_same_file};

/// Endings of files that are not made of lines.
const NO_LINES: [&str; 16] = [
    "xlsx", "xlsm", "xlsb", "xls", "ods", "numbers", "parquet", "avro", "arrow", "feather", "orc",
    "pdf", "zip", "7z", "bz2", "xz",
];

/// Fails when the name of a file for rows says another format than they have: programs go by the name.
pub(in crate::commands) fn check_name(flag: &str, path: &Path, format: Format) -> Result<()> {
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
        // A program that reads a file of this name does not look for another delimiter.
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
    // Upper and lower case stay. `scored.csv.zip` is meant to be `scored.csv`.
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
        "cannot write {is} to `{flag} {}`: its extension does not match, as the output has the format of the input",
        shown(path)
    ))
    .hint(format!("name it `{}`", shown(&path.with_file_name(better)))))
}

/// Where the rejects of an output go if no option says so.
///
/// # Errors
/// Exit code 2: something other than a file has that name. It was not asked for, so it is not followed to wherever it leads.
pub(in crate::commands) fn rejects_beside(output: &Path, extension: &str) -> Result<PathBuf> {
    let path = beside(output, extension);
    if path.symlink_metadata().is_ok_and(|there| !there.is_file()) {
        return Err(Error::usage(format!(
            "cannot write the rejects to `{}`: it is not a regular file",
            path.display()
        ))
        .hint("choose another place with `--rejects FILE`"));
    }
    Ok(path)
}

/// `scored.csv.gz` has its rejects in `scored.rejects.csv`.
fn beside(output: &Path, extension: &str) -> PathBuf {
    let name = output
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let (name, _) = Compression::split_name(&name);
    let known = ["csv", "tsv", "jsonl", "ndjson", "txt"];
    let is_known = |end: &str| known.iter().any(|known| end.eq_ignore_ascii_case(known));
    let stem = match name.rsplit_once('.') {
        Some((stem, end)) if is_known(end) => stem,
        _ => name,
    };
    output.with_file_name(format!("{stem}.rejects.{extension}"))
}

/// What the input is called in messages.
const INPUT: &str = "input";

/// A file that a command reads or writes.
#[derive(Clone)]
pub(in crate::commands) struct NamedFile {
    what: &'static str,
    /// `None` is a file that is open as standard input: it may have any name.
    path: Option<PathBuf>,
    /// Which file that is.
    stdin: Option<FileId>,
    /// Endings that its name has in the names of the files that come and go with it.
    ends: &'static [&'static str],
}

impl NamedFile {
    /// The input, if it is a file, also one that a shell opened.
    pub(in crate::commands) fn input(input: &Input) -> Option<Self> {
        match input {
            Input::File(path) => Some(Self::input_at(path)),
            Input::Stdin => stdin_file().map(|file| Self {
                what: INPUT,
                path: None,
                stdin: Some(FileId::of(&file)),
                ends: &[],
            }),
        }
    }

    /// A file that is read.
    pub(in crate::commands) fn input_at(path: &Path) -> Self {
        Self::new(INPUT, path)
    }

    /// The output.
    pub(in crate::commands) fn output(path: &Path) -> Self {
        Self::partial("output", path)
    }

    /// A file that is written under its own name from the start, or only read.
    pub(in crate::commands) fn new(what: &'static str, path: &Path) -> Self {
        Self::with_ends(what, path, &[])
    }

    /// A file that is called `.partial` until it is complete.
    pub(in crate::commands) fn partial(what: &'static str, path: &Path) -> Self {
        Self::with_ends(what, path, &[PARTIAL])
    }

    /// A ledger, which other files go with.
    pub(in crate::commands) fn ledger(path: &Path) -> Self {
        Self::with_ends("ledger", path, ledger::SUFFIXES)
    }

    fn with_ends(what: &'static str, path: &Path, ends: &'static [&'static str]) -> Self {
        Self {
            what,
            path: Some(path.to_owned()),
            stdin: None,
            ends,
        }
    }

    /// Its own path and those of the files that go with it.
    fn names(&self) -> impl Iterator<Item = PathBuf> {
        let ends = [""].into_iter().chain(self.ends.iter().copied());
        self.path.iter().flat_map(move |path| {
            ends.clone().map(|end| {
                let mut name = path.as_os_str().to_owned();
                name.push(end);
                name.into()
            })
        })
    }

    /// Whether a file of the one is a file of the other.
    fn is_also(&self, other: &Self) -> bool {
        if let Some(stdin) = self.stdin {
            return other.names().any(|name| FileId::at(&name) == Some(stdin));
        }
        self.names()
            .any(|a| other.names().any(|b| is_same_file(&a, &b)))
    }

    /// It in a sentence.
    fn shown(&self) -> String {
        let path = self
            .path
            .as_ref()
            .map(|path| format!(" `{}`", path.display()));
        format!("the {}{}", self.what, path.unwrap_or_default())
    }
}

/// Fails if two of these would be written to one file, also through links and also while they are still partial.
pub(in crate::commands) fn refuse_clashes(files: &[NamedFile]) -> Result<()> {
    for (index, one) in files.iter().enumerate() {
        let mut others = files.iter().skip(index + 1);
        if let Some(other) = others.find(|other| one.is_also(other)) {
            let message = if one.what == INPUT {
                format!("{} would overwrite the input", other.shown())
            } else {
                format!(
                    "{} and {} would be the same file",
                    one.shown(),
                    other.shown()
                )
            };
            // Its failure must not be left under that name.
            let watched = |file: &&NamedFile| matches!(file.what, "summary" | "metrics");
            let named = [one, other].into_iter().find(watched);
            let error = Error::usage(message).hint("give another name");
            return Err(match named.and_then(|file| file.path.as_deref()) {
                Some(path) => error.about(path),
                None => error,
            });
        }
    }
    Ok(())
}

/// If another run is writing the output, the error that names it: a run that writes the file has its lock as well.
pub(in crate::commands) fn naming_the_other_run(error: Error, output: &Path) -> Error {
    if error.exit() != Exit::Busy {
        return error;
    }
    match OutputLock::take(output) {
        Err(named) if named.exit() == Exit::Busy => named,
        _ => error,
    }
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
            ("out/Scored.XLSX", tsv, "out/Scored.tsv"),
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
    fn rejects_go_next_to_the_output() {
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
