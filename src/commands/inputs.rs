//! The inputs of a command: which files a name stands for, how one is opened, and whether all of them are as the user says
//! that they must be (`--min-rows`, `--max-invalid`). What becomes of their rows is not known here.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};

use bytes::BytesMut;
use glob::{MatchOptions, glob_with};

use super::signals::spawn;
use crate::base::error::{Error, Result};
use crate::base::numbers::Tolerance;
use crate::base::text::shown;
use crate::config::InputLimits;
use crate::fields::UserRequest;
use crate::input::{Compose, FileSettings, Input, Opened, Reader, ReaderSettings};
use crate::observe::{count, counted};
use crate::output::is_same_file;
use crate::row_state::{RowBatch, RowState};
use crate::selection::Selection;
use crate::service::{self, Plan};
use crate::verdict::{Reason, most_frequent};

/// What a pattern has and few names have.
const PATTERN: [char; 3] = ['*', '?', '['];
/// As a shell matches names.
const AS_A_SHELL: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};
/// Batches that are read ahead: one in work, one ready.
const BATCHES: usize = 2;

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
    let text = path.to_str().filter(|text| text.contains(PATTERN))?;
    path.symlink_metadata().is_err().then_some(text)
}

/// The files that a pattern matches. A folder beside them was not named by anybody.
fn matches(pattern: &str) -> Result<Vec<PathBuf>> {
    let cannot = || Error::usage(format!("cannot expand `{}`", shown(Path::new(pattern))));
    let found = glob_with(pattern, AS_A_SHELL).map_err(|e| cannot().because(e))?;
    let mut files = found
        .collect::<std::result::Result<Vec<_>, _>>()
        .map_err(|e| cannot().because(e))?;
    files.retain(|path| !path.is_dir());
    if files.is_empty() {
        let name = shown(Path::new(pattern));
        return Err(Error::usage(format!("no file matches `{name}`")));
    }
    Ok(files)
}

fn is_directory(path: &Path) -> Error {
    let files = shown(&path.join("*.csv"));
    Error::usage(format!("`{}` is a directory", shown(path)))
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

/// Opens a file that an earlier run wrote, with these columns besides ours.
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

/// The warning of an input without rows.
pub(super) fn no_rows(name: &str, rows: u64) -> Option<String> {
    (rows == 0).then(|| format!("{name} has no rows"))
}

/// The warning of a run that passes all its rows on: of many files, some may well have no row to send, but not all of them.
pub(super) fn none_chosen(rows: u64, passed: u64) -> Option<String> {
    let warning = || format!("`--only` chooses none of the {}", counted(rows, "row"));
    (rows > 0 && rows == passed).then(warning)
}

/// Reads on a thread, for the commands that make no calls, until the file ends or the receiver is gone. The channel closes
/// after the last rows, or after an error.
///
/// # Errors
/// A thread cannot be started.
pub(super) fn read_ahead(mut reader: Reader) -> Result<Receiver<Result<RowBatch>>> {
    let (sender, receiver) = sync_channel(BATCHES);
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

/// Reads the inputs, with all their rows together, as far as needed to see that they are as they must be: a broken export
/// must neither be scored in part nor replace yesterday's output. A stream can be read only once and cannot be checked so.
///
/// # Errors
/// Exit code 2: they are not, or the only input cannot be read, or is a stream.
pub(super) fn refuse_broken(limits: InputLimits, inputs: &[&ReaderSettings]) -> Result<()> {
    if limits == InputLimits::default() {
        return Ok(());
    }
    let (mut rows, mut passed, mut unsendable) = (0, 0, BTreeMap::new());
    for input in inputs {
        let there = path_of(input).metadata();
        let is_stream = there.is_ok_and(|there| !there.is_file() && !there.is_dir());
        let read = if is_stream || input.file.input == Input::Stdin {
            Err(needs_a_file(limits))
        } else {
            count_rows(input, limits, (&mut rows, &mut passed), &mut unsendable)
        };
        match read {
            // Of several, the run reports one that cannot be read, and continues with the others.
            Err(error) if inputs.len() == 1 => return Err(error),
            _ => {}
        }
    }
    let (name, have) = match inputs {
        [only] => (format!("`{}`", only.file.input.shown()), "has"),
        _ => (format!("the {} inputs", inputs.len()), "have"),
    };
    // A share is of the rows that would be sent.
    let (invalid, chosen) = (unsendable.values().sum(), rows - passed);
    let too_many = |most: &Tolerance| !most.covers(invalid, chosen);
    let error = if let Some(most) = limits.max_invalid.filter(too_many) {
        let (invalid, chosen) = (count(invalid), counted(chosen, "row"));
        Error::usage(format!("{invalid} of the {chosen} of {name} cannot be sent, more than `--max-invalid {most}` allows"))
            .detail(format!("most frequent: {}", most_frequent(&unsendable)))
            .hint("`rescore check` names these rows; `--max-invalid` sets how many are allowed")
    } else if let Some(least) = { limits.min_rows }.filter(|least| rows < least.get()) {
        let rows = counted(rows, "row");
        Error::usage(format!(
            "{name} {have} {rows}, fewer than `--min-rows {least}`"
        ))
        .hint("check that the export is complete, or lower `--min-rows`")
    } else {
        return Ok(());
    };
    Err(error.detail("nothing was sent"))
}

/// Reads a file to its end, or until no further row can make a difference.
fn count_rows(
    input: &ReaderSettings,
    limits: InputLimits,
    (rows, passed): (&mut u64, &mut u64),
    unsendable: &mut BTreeMap<Reason, u64>,
) -> Result<()> {
    let all = ReaderSettings {
        selection: Selection::default(),
        ..input.clone()
    };
    let (mut reader, _) = Reader::open(all, Compose::new(|_, _| {}))?;
    while let Some(batch) = reader.next_batch()? {
        *rows += batch.rows.len() as u64;
        for row in &batch.rows {
            *passed += u64::from(matches!(row.state, RowState::Passed));
            if let Some(failure) = row.state.failure() {
                *unsendable.entry(failure.reason).or_default() += 1;
            }
        }
        let has_enough = limits.min_rows.is_none_or(|least| *rows >= least.get());
        if has_enough && limits.max_invalid.is_none() {
            break;
        }
    }
    Ok(())
}

fn needs_a_file(limits: InputLimits) -> Error {
    let option = match limits.min_rows {
        Some(_) => "--min-rows",
        None => "--max-invalid",
    };
    Error::usage(format!(
        "`{option}` needs a file: the rows of a stream cannot be counted before the first call"
    ))
    .hint("write the rows to a file first")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::num::NonZeroU64;

    use super::*;

    /// What is wrong with these three files: 4 rows, 6 rows of which one has no name, and none that could be read.
    fn judged(min_rows: u64, max_invalid: Option<Tolerance>) -> Option<String> {
        let place = tempfile::tempdir().unwrap();
        let header = "name,email,ip,user_agent\n";
        let row = "Jo,jo@example.com,::1,curl\n";
        let files = [
            ("a.csv", format!("{header}{}", row.repeat(4))),
            (
                "b.csv",
                format!("{header}{},jo@example.com,::1,curl\n", row.repeat(5)),
            ),
            ("c.csv", "[1]".to_owned()),
        ];
        let inputs = files.map(|(name, content)| {
            fs::write(place.path().join(name), content).unwrap();
            ReaderSettings::without_options(Input::File(place.path().join(name)))
        });
        let limits = InputLimits {
            min_rows: NonZeroU64::new(min_rows),
            max_invalid,
        };
        let checked = refuse_broken(limits, &inputs.iter().collect::<Vec<_>>());
        checked.err().map(|error| error.to_string())
    }

    #[test]
    fn several_files_are_counted_together() {
        assert_eq!(judged(10, None), None);
        assert_eq!(
            judged(11, None).as_deref(),
            Some("the 3 inputs have 10 rows, fewer than `--min-rows 11`")
        );
        assert_eq!(judged(0, Some(Tolerance::Percent(10.0))), None);
        assert_eq!(
            judged(1, Some(Tolerance::Percent(9.9))).as_deref(),
            Some(
                "1 of the 10 rows of the 3 inputs cannot be sent, more than `--max-invalid 9.9%` allows"
            )
        );
    }

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
