//! The inputs of a command that takes several: patterns that no shell has expanded, and the order.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, glob_with};

use crate::base::error::{Error, Result, shown};
use crate::input::{Input, ReaderSettings};
use crate::output::is_same_file;

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

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

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
