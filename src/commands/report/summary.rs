//! The summary of the run that wrote a file.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::analysis::RowTally;
use crate::base::error::{Error, Result};
use crate::base::thousands::grouped;
use crate::report::RunFacts;
use crate::verdict::Decision;

/// No summary is longer: its longest part has 128 numbers.
const LONGEST: u64 = 1024 * 1024;

/// Reads a summary.
///
/// # Errors
/// Exit code 2: it cannot be read, or is not a summary.
pub(super) fn read(path: &Path) -> Result<RunFacts> {
    let mut json = String::new();
    let file = File::open(path).and_then(|file| file.take(LONGEST).read_to_string(&mut json));
    file.map_err(|e| Error::usage(format!("cannot read `{}`", path.display())).because(e))?;
    RunFacts::parse(&json).map_err(|why| {
        Error::usage(format!("`{}` is not the summary of a run", path.display()))
            .detail(why)
            .hint("`rescore run --summary FILE` writes one")
    })
}

/// Fails if the summary is about another number of rows. Returns whether it has other decisions, as after `rescore decide`.
///
/// # Errors
/// Exit code 2: it is not the summary of the run that wrote the file.
pub(super) fn compare(
    facts: &RunFacts,
    summary: &Path,
    tally: &RowTally,
    file: &str,
) -> Result<bool> {
    let (written, rows) = (facts.rows.written, tally.rows());
    if written != rows {
        return Err(Error::usage(format!(
            "`{}` is about {} rows, but {file} has {}",
            summary.display(),
            grouped(written.into()),
            grouped(rows.into())
        ))
        .hint("give the summary of the run that wrote this file to `--run`"));
    }
    let decisions = &facts.decisions;
    let counted = |decision| tally.decisions.of(Some(decision));
    Ok(decisions.approve != counted(Decision::Approve)
        || decisions.review != counted(Decision::Review)
        || decisions.block != counted(Decision::Block))
}
