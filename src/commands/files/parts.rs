//! Several inputs and the directory of their outputs: patterns that no shell has expanded, the order, where each output is, and
//! which of them are finished. What is in the files is not known here.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, glob_with};

use super::names::rejects_beside;
use crate::base::directory::directory_of;
use crate::base::error::{Error, Result, shown};
use crate::base::own_file;
use crate::input::{Input, ReaderSettings};
use crate::layout::Format;
use crate::output::{PARTIAL, is_same_file, partial_of};

/// What a pattern has and few names have.
const PATTERN: [char; 3] = ['*', '?', '['];
/// As a shell matches names.
const AS_A_SHELL: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

/// One of several inputs.
pub(in crate::commands) struct InputFile {
    /// How it is read.
    pub(in crate::commands) settings: ReaderSettings,
    /// Where it is.
    pub(in crate::commands) path: PathBuf,
}

impl InputFile {
    /// Its name, without the directory.
    pub(in crate::commands) fn name(&self) -> &OsStr {
        self.path.file_name().unwrap_or(self.path.as_os_str())
    }
}

/// Finds the inputs, in the order of their names.
///
/// # Errors
/// Exit code 2: a pattern matches no file, or a directory or standard input is named.
pub(in crate::commands) fn find_inputs(named: Vec<ReaderSettings>) -> Result<Vec<InputFile>> {
    let mut inputs = Vec::new();
    for settings in named {
        let Input::File(path) = &settings.file.input else {
            return Err(Error::usage(
                "standard input cannot be one of several inputs",
            ));
        };
        let paths = match pattern(path) {
            Some(pattern) => matches(pattern)?,
            None if path.is_dir() => return Err(is_directory(path)),
            None => vec![path.clone()],
        };
        for path in paths {
            let mut settings = settings.clone();
            settings.file.input = Input::File(path.clone());
            inputs.push(InputFile { settings, path });
        }
    }
    inputs.sort_by(|one, other| (one.name(), &one.path).cmp(&(other.name(), &other.path)));
    // Patterns may overlap, and `./a.csv` is `a.csv`.
    inputs.dedup_by(|one, other| {
        one.path == other.path || one.name() == other.name() && is_same_file(&one.path, &other.path)
    });
    Ok(inputs)
}

/// The name as a pattern, if it looks like one and no file has it.
fn pattern(path: &Path) -> Option<&str> {
    let text = path.to_str().filter(|text| text.contains(PATTERN))?;
    path.symlink_metadata().is_err().then_some(text)
}

/// The files that a pattern matches.
fn matches(pattern: &str) -> Result<Vec<PathBuf>> {
    let cannot = || Error::usage(format!("cannot expand `{}`", shown(Path::new(pattern))));
    let found = glob_with(pattern, AS_A_SHELL).map_err(|e| cannot().because(e))?;
    let mut files = Vec::new();
    for path in found {
        let path = path.map_err(|e| cannot().because(e))?;
        // A folder beside the files was not named by anybody.
        if !path.is_dir() {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(Error::usage(format!(
            "no file matches `{}`",
            shown(Path::new(pattern))
        )));
    }
    Ok(files)
}

fn is_directory(path: &Path) -> Error {
    Error::usage(format!("`{}` is a directory", shown(path))).hint(format!(
        "name its files, as in `{}`",
        shown(&path.join("*.csv"))
    ))
}

/// The directory of the outputs.
pub(in crate::commands) struct OutputDirectory {
    /// Its path: in front of the outputs' names, and with an ending the name of the ledger.
    pub(in crate::commands) path: PathBuf,
}

impl OutputDirectory {
    /// Checks the directory, which need not exist yet.
    ///
    /// # Errors
    /// Exit code 2: it is not a directory, it cannot be made there, an input is in it, or two inputs have the same name.
    pub(in crate::commands) fn check(path: &Path, inputs: &[InputFile]) -> Result<Self> {
        refuse_equal_names(inputs)?;
        let cannot = || Error::usage(format!("cannot write to `{}`", shown(path)));
        // Without a slash at the end, which would be in the ledger's name.
        let plain: PathBuf = path.components().collect();
        let real = match fs::metadata(&plain) {
            Ok(there) if there.is_dir() => {
                fs::canonicalize(&plain).map_err(|e| cannot().because(e))?
            }
            Ok(_) => return Err(cannot().detail("it is not a directory")),
            Err(_) => {
                let is_there = fs::metadata(directory_of(&plain))
                    .map_err(|e| own_file::cannot_make(&plain, cannot().because(e)))?;
                if !is_there.is_dir() || fs::symlink_metadata(&plain).is_ok() {
                    return Err(cannot().detail("no directory can be made there"));
                }
                // Neither can an input be in it, nor does a link lead to it.
                return Ok(Self { path: plain });
            }
        };
        let inside = |input: &&InputFile| {
            let folder = fs::canonicalize(&input.path).ok();
            folder.is_some_and(|real_input| real_input.parent() == Some(&real))
        };
        if let Some(input) = inputs.iter().find(inside) {
            return Err(Error::usage(format!(
                "the input `{}` is in the directory of the outputs, `{}`",
                shown(&input.path),
                shown(path)
            ))
            .hint("name another directory with `--output-dir DIR`"));
        }
        // Behind a link, or as `.`, it has another name: the ledger is beside the real one.
        let is_plain = plain.file_name().is_some() && !plain.is_symlink();
        Ok(Self {
            path: if is_plain { plain } else { real },
        })
    }

    /// Makes the directory if it is missing.
    ///
    /// # Errors
    /// Exit code 2: it cannot be made.
    pub(in crate::commands) fn make(&self) -> Result<()> {
        if self.path.is_dir() {
            return Ok(());
        }
        fs::create_dir(&self.path).map_err(|e| {
            Error::usage(format!(
                "cannot create the directory `{}`",
                shown(&self.path)
            ))
            .because(e)
        })
    }

    /// Fails if a finished output is not that of its input: if the input was modified since, or is known to be another one.
    ///
    /// # Errors
    /// Exit code 2: it is not.
    pub(in crate::commands) fn refuse_outdated(
        &self,
        input: &InputFile,
        output: &Path,
        is_of_other_input: bool,
    ) -> Result<()> {
        let modified = |path: &Path| fs::metadata(path).and_then(|there| there.modified()).ok();
        let why = if is_of_other_input {
            "was written for another input"
        } else if modified(&input.path) > modified(output) {
            "is older than its input, which was modified since"
        } else {
            return Ok(());
        };
        let what = match rejects_of(output) {
            Some(rejects) => format!("`{}` and `{}`", shown(output), shown(&rejects)),
            None => "it".to_owned(),
        };
        let message = format!("`{}` {why}: `{}`", shown(output), shown(&input.path));
        Err(self.refused_unless_removed(&message, &what))
    }

    /// Fails if the rejects of a new output are there, as when an output was removed without them.
    ///
    /// # Errors
    /// Exit code 2: they are.
    pub(in crate::commands) fn refuse_left_rejects(
        &self,
        output: &Path,
        rejects: &Path,
    ) -> Result<()> {
        if !rejects.is_file() || output.symlink_metadata().is_ok() {
            return Ok(());
        }
        let message = format!("`{}` is left from an earlier output", shown(rejects));
        Err(self.refused_unless_removed(&message, "it"))
    }

    fn refused_unless_removed(&self, message: &str, what: &str) -> Error {
        Error::usage(message).hint(format!(
            "remove {what} to score this input again, or score all inputs again with `--overwrite --output-dir {}`",
            shown(&self.path)
        ))
    }

    /// The output of this input.
    pub(in crate::commands) fn output_of(&self, input: &InputFile) -> PathBuf {
        self.path.join(input.name())
    }
}

/// Their outputs would be one file.
fn refuse_equal_names(inputs: &[InputFile]) -> Result<()> {
    for pair in inputs.windows(2) {
        if let [one, other] = pair
            && one.name() == other.name()
        {
            return Err(Error::usage(format!(
                "`{}` and `{}` have the same name, and so would their outputs",
                shown(&one.path),
                shown(&other.path)
            ))
            .hint("score each directory with an `--output-dir` of its own"));
        }
    }
    Ok(())
}

/// The files that are written for the inputs, by name: an output may be called as the rejects of another one.
#[derive(Default)]
pub(in crate::commands) struct WrittenNames(HashMap<PathBuf, PathBuf>);

impl WrittenNames {
    /// Adds a file that is written for this input.
    ///
    /// # Errors
    /// Exit code 2: another file has this name, or has it until it is complete.
    pub(in crate::commands) fn add(&mut self, file: &Path, input: &InputFile) -> Result<()> {
        for name in [file.to_owned(), partial_of(file)] {
            if let Some(other) = self.0.insert(name, input.path.clone()) {
                return Err(Error::usage(format!(
                    "`{}` would be written for `{}` and for `{}`",
                    shown(file),
                    shown(&other),
                    shown(&input.path)
                ))
                .hint("rename one of them, or score them one after the other, each with its own `--output-dir DIR`"));
            }
        }
        Ok(())
    }
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

/// How the names of rejects end.
const REJECTS: [&str; 3] = [".rejects.csv", ".rejects.tsv", ".rejects.jsonl"];

/// Files in the directory of the outputs that this run did not finish: a run over some of the files may be complete while
/// others are not, which keeps the run to the directory one to continue. This goes by names alone.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) struct UnfinishedFiles {
    /// An output is not complete. The run that wrote it can be continued.
    pub(in crate::commands) any_partial: bool,
    /// The files of rows without a verdict, which can be retried.
    pub(in crate::commands) rejects: u64,
}

impl UnfinishedFiles {
    /// Looks for them beside the finished files of this run: an output may be called as rejects are.
    pub(in crate::commands) fn find(directory: &Path, ours: &HashSet<&Path>) -> Self {
        let mut found = Self::default();
        // In a directory that cannot be listed there may be anything.
        let Ok(entries) = fs::read_dir(directory) else {
            return Self {
                any_partial: true,
                rejects: 0,
            };
        };
        for entry in entries.flatten() {
            if ours.contains(&*entry.path()) {
                continue;
            }
            let name = entry.file_name();
            let name = name.to_string_lossy();
            found.any_partial |= name.ends_with(PARTIAL);
            found.rejects += u64::from(REJECTS.iter().any(|end| name.ends_with(end)));
        }
        found
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn the_path_has_no_slash_at_its_end_and_a_link_is_followed() {
        let place = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(place.path()).unwrap();
        let path = |name: &str| OutputDirectory::check(&real.join(name), &[]).map(|it| it.path);
        assert_eq!(path("scored/").unwrap(), real.join("scored"));
        assert_eq!(path(".").unwrap(), real);
        fs::create_dir(real.join("scored")).unwrap();
        assert_eq!(path("scored/").unwrap(), real.join("scored"));
        {
            std::os::unix::fs::symlink("scored", real.join("link")).unwrap();
            assert_eq!(path("link").unwrap(), real.join("scored"));
        }
        fs::write(real.join("file"), "").unwrap();
        assert!(path("file").is_err() && path("missing/scored").is_err());
    }

    #[test]
    fn a_name_is_a_pattern_only_if_no_file_has_it() {
        let place = tempfile::tempdir().unwrap();
        let odd = place.path().join("a[1].csv");
        assert!(pattern(&odd).is_some());
        std::fs::write(&odd, "").unwrap();
        assert_eq!(pattern(&odd), None);
        assert_eq!(pattern(Path::new("part-00000.csv")), None);
    }

    #[test]
    fn a_pattern_matches_files_and_neither_folders_nor_hidden_files() {
        let place = tempfile::tempdir().unwrap();
        for name in ["b.csv", "a.csv", ".c.csv", "d.txt"] {
            std::fs::write(place.path().join(name), "").unwrap();
        }
        std::fs::create_dir(place.path().join("e.csv")).unwrap();
        let all = |pattern: &str| matches(place.path().join(pattern).to_str().unwrap());
        let names: Vec<_> = all("*.csv").unwrap();
        let names: Vec<_> = names.iter().map(|path| path.file_name().unwrap()).collect();
        assert_eq!(names, ["a.csv", "b.csv"]);
        let report = all("*.jsonl").unwrap_err().report();
        assert!(report.starts_with("error: no file matches `"), "{report}");
    }
}
