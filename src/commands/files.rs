//! The files of one command: whether their names fit their format, the default name of the rejects, that no two of them
//! overwrite each other, the directory of several outputs, and who may read what is written; and waiting for a file that another
//! process holds. What is in the files does not matter here.

use std::cell::OnceCell;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use crate::base::error::{Error, Exit, HINT_FREE_SPACE, Result};
use crate::base::numbers::time;
use crate::base::private_file::{self, FileId, Readers, directory_of, with_suffix};
use crate::base::text::{display, printable};
use crate::input::{Input, stdin_file};
use crate::layout::{Compression, Format};
use crate::ledger;
use crate::observe::{report_preparing, tell};
use crate::output::{Document, OutputFile, PARTIAL, RowFiles, Target, is_same_file, partial_of};

/// Endings of files that are not made of lines.
const NOT_OF_LINES: [&str; 16] = [
    "xlsx", "xlsm", "xlsb", "xls", "ods", "numbers", "parquet", "avro", "arrow", "feather", "orc",
    "pdf", "zip", "7z", "bz2", "xz",
];

/// Fails when the name of a file for rows stands for another format than they have: programs trust the name.
pub(crate) fn check_name(flag: &str, path: &Path, format: Format) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (unpacked, _) = Compression::split_name(&name);
    let end = Path::new(unpacked).extension().unwrap_or_default();
    let fits = match (&*end.to_string_lossy().to_lowercase(), format) {
        ("jsonl" | "ndjson" | "json", format) => format == Format::Jsonl,
        ("csv", format) => format != Format::Jsonl,
        // A program that reads a file of this name does not look for another delimiter.
        ("tsv", format) => matches!(
            format,
            Format::Delimited {
                delimiter: b'\t',
                ..
            }
        ),
        (end, _) => !NOT_OF_LINES.contains(&end),
    };
    if fits {
        return Ok(());
    }
    let extension = format.extension();
    Err(Error::usage(format!(
        "cannot write {} to `{flag} {}`: its extension does not match, as the output has the format of the input",
        extension.to_uppercase(),
        display(path)
    ))
    .hint(format!("give it a name that ends in `.{extension}`")))
}

/// Where the rejects of an output go if no option says so: `scored.csv.gz` has them in `scored.rejects.csv`.
///
/// # Errors
/// Exit code 2: something other than a file has that name. Nobody asked for this name, so a link there is not followed.
pub(crate) fn rejects_beside(output: &Path, extension: &str) -> Result<PathBuf> {
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    let (name, _) = Compression::split_name(&name);
    let endings = ["csv", "tsv", "jsonl", "ndjson", "txt"];
    let is_ending = |end: &str| {
        endings
            .iter()
            .any(|ending| end.eq_ignore_ascii_case(ending))
    };
    let stem = match name.rsplit_once('.') {
        Some((stem, end)) if is_ending(end) => stem,
        _ => name,
    };
    let path = output.with_file_name(format!("{stem}.rejects.{extension}"));
    if path.symlink_metadata().is_ok_and(|there| !there.is_file()) {
        return Err(Error::usage(format!(
            "cannot write the rejects to `{}`: it is not a regular file",
            path.display()
        ))
        .hint("name another file with `--rejects FILE`"));
    }
    Ok(path)
}

/// A file that a command reads or writes: what it is in messages, and where.
pub(crate) type NamedFile<'a> = (&'static str, Option<&'a Path>);

/// Fails if two of these files would be one, or if one of them would be the input, also through links and also while they are
/// still partial.
pub(crate) fn refuse_clashes(input: &Input, files: &[NamedFile<'_>]) -> Result<()> {
    let named = files.iter();
    let files: Vec<_> = named
        .filter_map(|(what, path)| Some((*what, (*path)?)))
        .collect();
    for (index, (what, path)) in files.iter().enumerate() {
        let one = format!("the {what} `{}`", path.display());
        let mut others = files.iter().skip(index + 1);
        let (message, other) = if is_input(input, path) {
            (format!("{one} would overwrite the input"), None)
        } else if let Some(other) = others.find(|(_, other)| is_one(path, other)) {
            let shown = other.1.display();
            let message = format!("{one} and the {} `{shown}` would be the same file", other.0);
            (message, Some(other))
        } else {
            continue;
        };
        let error = Error::usage(message).hint("give another name");
        // The failure must not be recorded under that name.
        let watched = |(what, _): &(&str, &Path)| matches!(*what, "summary" | "metrics");
        let named = [(*what, *path)].into_iter().chain(other.copied());
        let mut named = named.filter(watched);
        return Err(match named.next() {
            Some((_, path)) => error.about(path),
            None => error,
        });
    }
    Ok(())
}

/// The names of files that may exist beside this one: its partial file, and those of a database.
fn companions(path: &Path) -> impl Iterator<Item = PathBuf> {
    let endings = ledger::SUFFIXES.iter().copied().chain([PARTIAL]);
    endings.map(|end| with_suffix(path, end))
}

/// Whether two paths lead to one file, or one of them to a companion of the other.
fn is_one(one: &Path, other: &Path) -> bool {
    // Looking at a file takes far longer than looking at its name.
    let comes_with = |one: &Path, other: &Path| {
        companions(one)
            .any(|name| name.file_name() == other.file_name() && is_same_file(&name, other))
    };
    is_same_file(one, other) || comes_with(one, other) || comes_with(other, one)
}

/// Whether the input is this file, also one that a shell has opened as standard input.
fn is_input(input: &Input, path: &Path) -> bool {
    match input {
        Input::File(input) => is_one(input, path),
        Input::Stdin => stdin_file().is_some_and(|stdin| {
            let stdin = Some(FileId::of(&stdin));
            let mut names = companions(path).chain([path.to_owned()]);
            names.any(|name| FileId::at(&name) == stdin)
        }),
    }
}

/// Checks the directory of the outputs, which need not exist yet, and returns its path: in front of the outputs' names, and
/// with an ending the name of its lock.
///
/// # Errors
/// Exit code 2: it is not a directory, or cannot be made there.
pub(crate) fn output_directory(path: &Path) -> Result<PathBuf> {
    let cannot = || Error::usage(format!("cannot write to `{}`", display(path)));
    // Without a slash at the end, which would be in the lock's name.
    let plain: PathBuf = path.components().collect();
    match fs::metadata(&plain) {
        Ok(there) if !there.is_dir() => Err(cannot().detail("it is not a directory")),
        // Behind a link, or as `.`, it has another name: its lock is beside the real one.
        Ok(_) if plain.file_name().is_none() || plain.is_symlink() => {
            fs::canonicalize(&plain).map_err(|e| cannot().because(e))
        }
        Ok(_) => Ok(plain),
        Err(_) => match fs::metadata(directory_of(&plain)) {
            Ok(_) => Ok(plain),
            Err(error) => Err(private_file::cannot_make(&plain, cannot().because(error))),
        },
    }
}

/// Whether a file was modified after another one.
pub(crate) fn is_newer(file: &Path, other: &Path) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|there| there.modified()).ok();
    modified(file) > modified(other)
}

/// Fails if a finished output is not that of its input: if the input was modified since, or is another one.
///
/// # Errors
/// Exit code 2: it is not.
pub(crate) fn refuse_outdated(input: &Path, output: &Path, is_of_other_input: bool) -> Result<()> {
    let why = if is_of_other_input {
        "was written for another input"
    } else if is_newer(input, output) {
        "is older than its input, which was modified since"
    } else {
        return Ok(());
    };
    let (input, shown_output) = (display(input), display(output));
    let rejects = rejects_of(output).map(|rejects| format!(" and `{}`", display(&rejects)));
    let rejects = rejects.unwrap_or_default();
    Err(Error::usage(format!("`{shown_output}` {why}: `{input}`")).hint(format!(
        "remove `{shown_output}`{rejects} to score this input again, or score all inputs again with `--overwrite`"
    )))
}

/// Whether an output is there with all of its files. The output gets its name before its rejects do: a run may be killed
/// in between.
pub(crate) fn is_finished(output: &Path) -> bool {
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    let is_half_named = || {
        !is_there(&partial_of(output))
            && all_rejects(output).any(|rejects| is_there(&partial_of(&rejects)))
    };
    is_there(output) && !is_half_named()
}

/// The rejects of an output, if there are any.
pub(crate) fn rejects_of(output: &Path) -> Option<PathBuf> {
    all_rejects(output).find(|rejects| rejects.is_file())
}

/// The names that the rejects of an output can have, by the format of its rows.
fn all_rejects(output: &Path) -> impl Iterator<Item = PathBuf> {
    let extensions = Format::EXTENSIONS.into_iter();
    extensions.filter_map(|extension| rejects_beside(output, extension).ok())
}

/// Where the rows of a part go: its output and the files beside it. Each is a new file, or replaces one.
#[derive(Default)]
pub(crate) struct Targets {
    /// `None` is standard output.
    pub(crate) output: Option<Target>,
    pub(crate) rejects: Option<Target>,
    pub(crate) changes: Option<Target>,
    pub(crate) report: Option<Target>,
}

impl Targets {
    /// Opens the files for rows. Only those who can read the input may read them.
    ///
    /// # Errors
    /// Exit code 2: one cannot be made. Exit code 3: the disk is full. Nothing is replaced then.
    pub(crate) fn open(&self, readers: Readers) -> Result<RowFiles> {
        self.open_with(readers, Target::open)
    }

    /// Opens the files for rows with this function.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn open_with(
        &self,
        readers: Readers,
        open: impl Fn(&Target, Readers) -> Result<OutputFile>,
    ) -> Result<RowFiles> {
        let beside = |target: &Option<Target>| {
            let target = target.as_ref();
            let opened = target.map(|target| open(target, self.beside(readers)));
            opened.transpose().map_err(full_disk)
        };
        let output = match &self.output {
            Some(target) => open(target, readers).map_err(full_disk)?,
            None => OutputFile::stdout(),
        };
        Ok(RowFiles::new(
            output,
            beside(&self.rejects)?,
            beside(&self.changes)?,
        ))
    }

    /// Opens the report, if there is one.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn open_report(&self, readers: Readers) -> Result<Option<Document>> {
        let report = self.report.as_ref();
        let report = report.map(|target| target.open(self.beside(readers)).map(Document::new));
        report.transpose().map_err(full_disk)
    }

    /// If the output's mode was narrowed by hand, the files beside it are as narrow.
    fn beside(&self, readers: Readers) -> Readers {
        let output = self.output.as_ref();
        output.map_or(readers, |output| output.narrow(readers))
    }
}

/// An error of a command, which names the disk if one is full.
pub(crate) fn full_disk(error: Error) -> Error {
    if error.comes_from(ErrorKind::FileTooLarge) {
        return error.hint("raise the file size limit (`ulimit -f`)");
    }
    let Some(file) = error.file().filter(|_| error.is_disk_full()) else {
        return error;
    };
    let detail = format!(
        "there is no space left in `{}`",
        display(directory_of(file))
    );
    error.detail(detail).or_hint(HINT_FREE_SPACE)
}

/// How often a lock is tried again: a shorter wait would not be noticed, and a try costs some microseconds.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How long a command waits for all locks together.
pub(crate) struct LockWait {
    longest: Option<Duration>,
    /// Whether it tells people that it waits.
    tells: bool,
    /// When it started to wait, if it had to.
    since: OnceCell<Instant>,
}

impl LockWait {
    /// Waits up to `longest`, or not at all.
    pub(crate) const fn new(longest: Option<Duration>, tells: bool) -> Self {
        Self {
            longest,
            tells,
            since: OnceCell::new(),
        }
    }

    /// Tries to take something until no other process holds it.
    ///
    /// # Errors
    /// As `take`, with exit code 75 only after the longest wait.
    pub(crate) fn until_free<T>(&self, mut take: impl FnMut() -> Result<T>) -> Result<T> {
        loop {
            let busy = match take() {
                Err(error) if error.exit() == Exit::Busy => error,
                taken => return taken,
            };
            let Some(longest) = self.longest else {
                return Err(busy.hint("`--wait-lock 10m` waits until it has ended"));
            };
            let since = self.since.get_or_init(|| {
                let (busy, longest) = (printable(busy.message()), time(longest));
                let words = format!("{busy}: waiting up to {longest}");
                if self.tells {
                    tell(&format!("rescore: {words}"));
                }
                report_preparing(move || words.clone());
                Instant::now()
            });
            let left = longest.saturating_sub(since.elapsed());
            if left.is_zero() {
                return Err(busy
                    .detail(format!("waited {} for it", time(longest)))
                    .hint("run the same command again later, or raise `--wait-lock`"));
            }
            pause(left.min(POLL_INTERVAL));
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "no call is made yet")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_says_another_format_is_refused() {
        let [csv, tsv] = [b',', b'\t'].map(|delimiter| Format::Delimited {
            delimiter,
            quotes: true,
        });
        for (name, format, is_right) in [
            ("scored.xlsx", csv, false),
            ("out/Scored.XLSX", tsv, false),
            ("scored.parquet", Format::Jsonl, false),
            ("scored.csv.zip", csv, false),
            ("scored.jsonl.gz", csv, false),
            ("scored.csv.zst", Format::Jsonl, false),
            ("scored.tsv", csv, false),
            ("scored.CSV.GZ", tsv, true),
            ("scored.tsv.zst", tsv, true),
            ("scored.ndjson", Format::Jsonl, true),
            ("scored", csv, true),
            ("scored.txt", Format::Jsonl, true),
            ("scored.2026-11-22", csv, true),
        ] {
            let checked = check_name("--output", Path::new(name), format);
            assert_eq!(checked.is_ok(), is_right, "{name}");
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
            let beside = rejects_beside(Path::new(output), "csv").unwrap();
            assert_eq!(beside, PathBuf::from(rejects));
        }
    }
}
