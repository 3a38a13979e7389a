//! Where rows are written to: checked before the first call, so that no paid answer lacks a place.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::config::{OutputConfig, RejectsConfig};
use crate::error::{Error, Result};
use crate::input::Input;
use crate::layout::Layout;
use crate::output::{Target, is_same_file};

/// Where failed rows go, if anywhere.
pub(super) fn rejects(
    output: &OutputConfig,
    input: &Input,
    layout: &Layout,
) -> Result<Option<Target>> {
    let path = match &output.rejects {
        RejectsConfig::Nowhere => return Ok(None),
        RejectsConfig::At(path) => path.clone(),
        RejectsConfig::Beside(output) => beside(output, layout.format.extension()),
    };
    refuse_input(&path, input, "rejects file")?;
    let target = Target::new(&path, output.overwrite)?;
    refuse_twice(output, &target, "rejects")?;
    Ok(Some(target))
}

/// Opens the file for the summary. It is emptied now: an old summary must not be taken for this run's.
pub(super) fn summary(path: &Path, output: &OutputConfig, input: &Input) -> Result<File> {
    refuse_input(path, input, "summary")?;
    refuse_twice(output, &Target::new(path, true)?, "summary")?;
    File::create(path)
        .map_err(|e| Error::usage(format!("cannot write `{}`", path.display())).because(e))
}

/// What is written must not be what is read.
pub(crate) fn refuse_input(path: &Path, input: &Input, what: &str) -> Result<()> {
    match input {
        Input::File(input) if is_same_file(path, input) => Err(Error::usage(format!(
            "the {what} `{}` is the input itself",
            path.display()
        ))
        .hint("give another name; the input is never changed")),
        _ => Ok(()),
    }
}

fn refuse_twice(output: &OutputConfig, target: &Target, what: &str) -> Result<()> {
    match &output.target {
        Some(output) if is_same_file(output.path(), target.path()) => Err(Error::usage(format!(
            "output and {what} are both `{}`",
            target.path().display()
        ))),
        _ => Ok(()),
    }
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
