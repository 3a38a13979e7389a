//! Names of the files of one command: the format that they say, the default name for the rejects, that no two of them would
//! overwrite each other, and the directory of several outputs. What is in the files is not known here.

use std::fs;
use std::path::{Path, PathBuf};

use crate::base::error::{Error, Result, shown};
use crate::base::own_file::{self, FileId, directory_of};
use crate::input::{Input, stdin_file};
use crate::layout::{Compression, Format};
use crate::ledger;
use crate::output::{PARTIAL, is_same_file, partial_of};

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
    let extension = format.extension();
    // Upper and lower case stay. `scored.csv.zip` is meant to be `scored.csv`.
    let stem = name.get(..stem.len()).unwrap_or(stem);
    let stem = { stem.strip_suffix(&format!(".{extension}")) }.unwrap_or(stem);
    let better = format!("{stem}.{extension}{}", packed.unwrap_or_default());
    Err(Error::usage(format!(
        "cannot write {} to `{flag} {}`: its extension does not match, as the output has the format of the input",
        extension.to_uppercase(),
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
/// Endings of files that come and go with another one: what is not complete yet, and what belongs to a ledger.
fn endings() -> impl Iterator<Item = &'static str> {
    [PARTIAL]
        .into_iter()
        .chain(ledger::SUFFIXES.iter().copied())
}

/// A file that a command reads or writes.
#[derive(Clone)]
pub(in crate::commands) struct NamedFile {
    what: &'static str,
    path: PathBuf,
    /// Which file is open as standard input: it may have any name.
    stdin: Option<FileId>,
}

impl NamedFile {
    /// A file, called so in messages.
    pub(in crate::commands) fn new(what: &'static str, path: &Path) -> Self {
        Self {
            what,
            path: path.to_owned(),
            stdin: None,
        }
    }

    /// The input, if it is a file, also one that a shell opened.
    pub(in crate::commands) fn input(input: &Input) -> Option<Self> {
        match input {
            Input::File(path) => Some(Self::new(INPUT, path)),
            Input::Stdin => stdin_file().map(|file| Self {
                stdin: Some(FileId::of(&file)),
                ..Self::new(INPUT, Path::new(""))
            }),
        }
    }

    /// Whether a file of the one is a file of the other.
    fn is_also(&self, other: &Self) -> bool {
        let with = |path: &Path, end: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(end);
            PathBuf::from(name)
        };
        if let Some(stdin) = self.stdin {
            let mut names = endings().chain([""]).map(|end| with(&other.path, end));
            return names.any(|name| FileId::at(&name) == Some(stdin));
        }
        let (one, other) = (&self.path, &other.path);
        // Looking at a file takes far longer than looking at its name.
        let comes_with = |one: &Path, other: &Path| {
            let mut ends = endings().map(|end| with(one, end));
            ends.any(|name| name.file_name() == other.file_name() && is_same_file(&name, other))
        };
        is_same_file(one, other) || comes_with(one, other) || comes_with(other, one)
    }

    /// It in a sentence.
    fn shown(&self) -> String {
        format!("the {} `{}`", self.what, self.path.display())
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
            return Err(match named.map(|file| file.path.as_path()) {
                Some(path) => error.about(path),
                None => error,
            });
        }
    }
    Ok(())
}

/// Checks the directory of the outputs, which need not exist yet, and returns its path: in front of the outputs' names, and
/// with an ending the name of its lock.
///
/// # Errors
/// Exit code 2: it is not a directory, it cannot be made there, or an input is in it.
pub(in crate::commands) fn output_directory<'a>(
    path: &Path,
    mut inputs: impl Iterator<Item = &'a Path>,
) -> Result<PathBuf> {
    let cannot = || Error::usage(format!("cannot write to `{}`", shown(path)));
    // Without a slash at the end, which would be in the lock's name.
    let plain: PathBuf = path.components().collect();
    let real = match fs::metadata(&plain) {
        Ok(there) if there.is_dir() => fs::canonicalize(&plain).map_err(|e| cannot().because(e))?,
        Ok(_) => return Err(cannot().detail("it is not a directory")),
        // Neither can an input be in it, nor does a link lead to it.
        Err(_) => {
            return match fs::metadata(directory_of(&plain)) {
                Ok(_) => Ok(plain),
                Err(error) => Err(own_file::cannot_make(&plain, cannot().because(error))),
            };
        }
    };
    let is_inside = |input: &&Path| {
        let input = fs::canonicalize(input).ok();
        input.is_some_and(|input| input.parent() == Some(&real))
    };
    if let Some(input) = inputs.find(is_inside) {
        return Err(Error::usage(format!(
            "the input `{}` is in the directory of the outputs, `{}`",
            shown(input),
            shown(path)
        ))
        .hint("name another directory with `--output-dir DIR`"));
    }
    // Behind a link, or as `.`, it has another name: its lock is beside the real one.
    let is_plain = plain.file_name().is_some() && !plain.is_symlink();
    Ok(if is_plain { plain } else { real })
}

/// Makes the directory if it is missing.
///
/// # Errors
/// Exit code 2: it cannot be made.
pub(in crate::commands) fn make_directory(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let cannot = || Error::usage(format!("cannot create the directory `{}`", shown(path)));
    fs::create_dir(path).map_err(|e| cannot().because(e))
}

/// Fails if a finished output is not that of its input: if the input was modified since, or is known to be another one.
///
/// # Errors
/// Exit code 2: it is not.
pub(in crate::commands) fn refuse_outdated(
    input: &Path,
    output: &Path,
    is_of_other_input: bool,
) -> Result<()> {
    let modified = |path: &Path| fs::metadata(path).and_then(|there| there.modified()).ok();
    let why = if is_of_other_input {
        "was written for another input"
    } else if modified(input) > modified(output) {
        "is older than its input, which was modified since"
    } else {
        return Ok(());
    };
    let (input, shown_output) = (shown(input), shown(output));
    let rejects = rejects_of(output).map(|rejects| format!(" and `{}`", shown(&rejects)));
    let rejects = rejects.unwrap_or_default();
    Err(Error::usage(format!("`{shown_output}` {why}: `{input}`")).hint(format!(
        "remove `{shown_output}`{rejects} to score this input again, or score all inputs again with `--overwrite`"
    )))
}

/// Whether an output is there with all of its files. The output gets its name before its rejects do: a run may be killed
/// in between.
pub(in crate::commands) fn is_finished(output: &Path) -> bool {
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    let is_half_named = || {
        !is_there(&partial_of(output))
            && all_rejects(output).any(|rejects| is_there(&partial_of(&rejects)))
    };
    is_there(output) && !is_half_named()
}

/// The rejects of an output, if there are any.
pub(in crate::commands) fn rejects_of(output: &Path) -> Option<PathBuf> {
    all_rejects(output).find(|rejects| rejects.is_file())
}

/// The names that the rejects of an output can have, by the format of its rows.
fn all_rejects(output: &Path) -> impl Iterator<Item = PathBuf> {
    let extensions = Format::EXTENSIONS.into_iter();
    extensions.filter_map(|extension| rejects_beside(output, extension).ok())
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

    #[test]
    fn the_path_has_no_slash_at_its_end_and_a_link_is_followed() {
        let place = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(place.path()).unwrap();
        let path = |name: &str| output_directory(&real.join(name), std::iter::empty());
        assert_eq!(path("scored/").unwrap(), real.join("scored"));
        assert_eq!(path(".").unwrap(), real);
        fs::create_dir(real.join("scored")).unwrap();
        assert_eq!(path("scored/").unwrap(), real.join("scored"));
        std::os::unix::fs::symlink("scored", real.join("link")).unwrap();
        assert_eq!(path("link").unwrap(), real.join("scored"));
        fs::write(real.join("file"), "").unwrap();
        assert!(path("file").is_err() && path("missing/scored").is_err());
    }
}
