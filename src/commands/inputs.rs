//! The inputs of a command: which files a name stands for, how one is opened, and what an earlier run wrote in it. What becomes of
//! their rows does not matter here.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};

use bytes::BytesMut;
use glob::{MatchOptions, glob_with};

use super::signals::spawn;
use crate::analysis::{PastVerdicts, UserOutcome};
use crate::base::error::{Error, Result};
use crate::base::numbers::Tolerance;
use crate::base::text::display;
use crate::config::InputLimits;
use crate::fields::UserRequest;
use crate::input::{Compose, FileSettings, Input, Opened, Reader, ReaderSettings};
use crate::layout::Layout;
use crate::observe::{ReportedRun, count, counted, warn};
use crate::output::is_same_file;
use crate::row_state::{Row, RowBatch, RowState, earlier_verdict};
use crate::selection::Condition;
use crate::service::{self, Plan};
use crate::verdict::{Decision, Score, Thresholds};

/// Characters that make a name a pattern.
const PATTERN_CHARACTERS: [char; 3] = ['*', '?', '['];
/// A shell matches names by these rules.
const SHELL_RULES: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};
/// Batches that are read ahead: one in work, one ready.
const BATCHES_AHEAD: usize = 2;
/// No summary is longer, not even one of many thousand files.
const MAX_SUMMARY_BYTES: u64 = 16 * 1024 * 1024;

/// Finds the inputs, in the order of their names. A name that no file has may be a pattern.
///
/// # Errors
/// Exit code 2: a pattern matches no file, or a directory is named, or standard input besides other inputs.
pub(super) fn find_inputs(named: &[ReaderSettings]) -> Result<Vec<ReaderSettings>> {
    let mut inputs = Vec::new();
    for settings in named {
        let paths = match &settings.file.input {
            Input::Stdin if named.len() == 1 => return Ok(named.to_vec()),
            Input::Stdin => {
                return Err(Error::usage(
                    "standard input cannot be one of several inputs",
                ));
            }
            Input::File(path) => match pattern(path) {
                Some(pattern) => matches(pattern)?,
                None if path.is_dir() => return Err(is_directory(path)),
                None => vec![path.clone()],
            },
        };
        inputs.extend(paths.into_iter().map(|path| {
            let mut settings = settings.clone();
            settings.file.input = Input::File(path);
            settings
        }));
    }
    inputs.sort_by(|a, b| (name_of(a), path_of(a)).cmp(&(name_of(b), path_of(b))));
    // Patterns may overlap, and `./a.csv` is `a.csv`.
    inputs.dedup_by(|a, b| name_of(a) == name_of(b) && is_same_file(path_of(a), path_of(b)));
    Ok(inputs)
}

/// The path of an input; `-` is standard input.
pub(super) fn path_of(input: &ReaderSettings) -> &Path {
    input.file.input.path().unwrap_or(Path::new("-"))
}

/// The name of an input without its directory.
pub(super) fn name_of(input: &ReaderSettings) -> &OsStr {
    let path = path_of(input);
    path.file_name().unwrap_or(path.as_os_str())
}

/// The name as a pattern, if it looks like one and no file has it.
fn pattern(path: &Path) -> Option<&str> {
    let text = path
        .to_str()
        .filter(|text| text.contains(PATTERN_CHARACTERS))?;
    path.symlink_metadata().is_err().then_some(text)
}

/// The files that a pattern matches. Folders are left out: nobody has named them.
fn matches(pattern: &str) -> Result<Vec<PathBuf>> {
    let cannot = || Error::usage(format!("cannot expand `{}`", display(Path::new(pattern))));
    let found = glob_with(pattern, SHELL_RULES).map_err(|e| cannot().because(e))?;
    let mut files = found
        .collect::<std::result::Result<Vec<_>, _>>()
        .map_err(|e| cannot().because(e))?;
    files.retain(|path| !path.is_dir());
    if files.is_empty() {
        let name = display(Path::new(pattern));
        return Err(Error::usage(format!("no file matches `{name}`")));
    }
    Ok(files)
}

fn is_directory(path: &Path) -> Error {
    let files = display(&path.join("*.csv"));
    Error::usage(format!("`{}` is a directory", display(path)))
        .hint(format!("name its files, as in `{files}`"))
}

/// Opens a file of users, whose requests are made for this plan.
///
/// # Errors
/// Exit code 2: it cannot be read, or is not a file of users.
pub(super) fn open_users(input: &ReaderSettings, plan: Plan) -> Result<(Reader, Opened)> {
    let compose = move |user: &UserRequest<'_>, to: &mut BytesMut| {
        service::write_body(user, plan, to);
    };
    Reader::open(input.clone(), Compose::new(compose))
}

/// Opens a file that an earlier run wrote, with these columns besides those of the verdict.
///
/// # Errors
/// Exit code 2: it cannot be read, or is not a scored file with these columns.
pub(super) fn open_scored(
    file: &FileSettings,
    prefix: &str,
    asked: Vec<String>,
) -> Result<(Reader, Opened)> {
    let settings = ReaderSettings::of_scored(file, prefix, asked);
    Reader::open(settings, Compose::new(|_, _| {}))
}

/// Reads the verdicts of a file that an earlier run wrote, by the values of the column `key`. Where only a decision is missing,
/// these thresholds decide. Also returns the file's name in messages.
///
/// # Errors
/// Exit code 2: it cannot be read, or is not a scored file with this column.
pub(super) fn read_past(
    file: &FileSettings,
    prefix: &str,
    key: &str,
    thresholds: Option<&Thresholds>,
) -> Result<(PastVerdicts, String)> {
    let (reader, Opened { layout, name, .. }) = open_scored(file, prefix, vec![key.to_owned()])?;
    let mut past = PastVerdicts::default();
    for batch in read_ahead(reader)? {
        for row in batch?.rows {
            let (score, decision) = verdict_of(&row, &layout);
            let by_score = || Some(thresholds?.decide(score.as_ref()?));
            let decision = decision.or_else(by_score);
            past.add(&value_of(&row, &layout, 0), score.as_ref(), decision);
        }
    }
    past.sort();
    Ok((past, name))
}

/// The value of one of the columns that are asked for in a scored file, by its index; empty where there is none, and in a row
/// that cannot be read.
pub(super) fn value_of<'a>(row: &'a Row, layout: &Layout, index: usize) -> Cow<'a, str> {
    let span = match &row.state {
        RowState::Scored(asked) => asked.get(index).copied(),
        _ => None,
    };
    layout.value(row.raw.slice(span.unwrap_or_default()))
}

/// The score and the decision of a row in a scored file. A value that is neither counts as none, as does every value of a row
/// that cannot be read.
pub(super) fn verdict_of(row: &Row, layout: &Layout) -> (Option<Score>, Option<Decision>) {
    match row.state {
        RowState::Scored(_) => earlier_verdict(&row.raw, layout),
        _ => (None, None),
    }
}

/// What a user turned out to be, by this value; `is_bad` holds for those of frauds.
pub(super) fn outcome_of(value: &str, is_bad: &Condition) -> UserOutcome {
    match value.trim() {
        "" => UserOutcome::Unknown,
        _ if is_bad.holds(value) => UserOutcome::Bad,
        _ => UserOutcome::Good,
    }
}

/// Reads the summary of the run that wrote a file.
///
/// # Errors
/// Exit code 2: it cannot be read, or is not a summary.
pub(super) fn read_summary(path: &Path) -> Result<ReportedRun> {
    let mut json = String::new();
    let file = File::open(path);
    let read = file.and_then(|file| file.take(MAX_SUMMARY_BYTES).read_to_string(&mut json));
    read.map_err(|e| Error::usage(format!("cannot read `{}`", path.display())).because(e))?;
    ReportedRun::parse(&json).map_err(|why| {
        Error::usage(format!("`{}` is not the summary of a run", path.display()))
            .detail(why)
            .hint("`rescore run --summary FILE` writes one")
    })
}

/// Fails unless the summary is about as many rows as the file has.
///
/// # Errors
/// Exit code 2: it is not the summary of the run that wrote the file.
pub(super) fn refuse_other_run(run: &ReportedRun, rows: u64, file: &str) -> Result<()> {
    let [written, rows] = [run.counts.rows.written, rows].map(count);
    if written == rows {
        return Ok(());
    }
    let message = format!("the summary is about {written} rows, but {file} has {rows}");
    let hint = "give the summary of the run that wrote this file to `--run`";
    Err(Error::usage(message).hint(hint))
}

/// The warning of an input without rows.
pub(super) fn no_rows(name: &str, rows: u64) -> Option<String> {
    (rows == 0).then(|| format!("{name} has no rows"))
}

/// Warns of an input without rows.
pub(super) fn warn_if_empty(name: &str, rows: u64) {
    if let Some(warning) = no_rows(name, rows) {
        warn(&warning);
    }
}

/// The warning that `--only` chooses no row at all. One of several files may well have none.
pub(super) fn none_chosen(rows: u64, passed: u64) -> Option<String> {
    let warning = || format!("`--only` chooses none of the {}", counted(rows, "row"));
    (rows > 0 && rows == passed).then(warning)
}

/// Reads on a thread, where no calls are made, until the file ends or the receiver is gone. The channel closes after the last
/// rows, or after an error.
///
/// # Errors
/// A thread cannot be started.
pub(super) fn read_ahead(mut reader: Reader) -> Result<Receiver<Result<RowBatch>>> {
    let (sender, receiver) = sync_channel(BATCHES_AHEAD);
    let read = move || {
        while let Some(batch) = reader.next_batch().transpose() {
            let last = batch.is_err();
            if sender.send(batch).is_err() || last {
                break;
            }
        }
    };
    spawn("reader", read)?;
    Ok(receiver)
}

/// Fails if the rows must be counted before the first call, and this input can be read only once.
///
/// # Errors
/// Exit code 2: the input is a stream, and a limit needs its rows counted.
pub(super) fn refuse_stream(limits: InputLimits, input: &ReaderSettings) -> Result<()> {
    let min_rows = limits.min_rows.filter(|least| *least != Tolerance::Rows(0));
    let options = [
        ("--min-rows", min_rows.is_some()),
        ("--max-invalid", limits.max_invalid.is_some()),
        ("--max-new", limits.max_new.is_some()),
        ("--sample auto", input.selection.precision.is_some()),
    ];
    let there = path_of(input).metadata();
    let is_stream = !there.is_ok_and(|there| there.is_file() || there.is_dir());
    match options.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) if is_stream => Err(Error::usage(format!(
            "`{option}` needs a file: the rows of a stream cannot be counted before the first call"
        ))
        .hint("write the rows to a file first")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_pattern_matches_files_and_neither_folders_nor_hidden_files() {
        let place = tempfile::tempdir().unwrap();
        for name in ["b.csv", "a.csv", ".c.csv", "d.txt"] {
            fs::write(place.path().join(name), "").unwrap();
        }
        fs::create_dir(place.path().join("e.csv")).unwrap();
        let all = |pattern: &str| matches(place.path().join(pattern).to_str().unwrap());
        let expected = ["a.csv", "b.csv"].map(|name| place.path().join(name));
        assert_eq!(all("*.csv").unwrap(), expected);
        let report = all("*.jsonl").unwrap_err().report();
        assert!(report.starts_with("error: no file matches `"), "{report}");
    }
}
