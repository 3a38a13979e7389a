//! The arguments of `rescore report`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::fields::ThresholdArgs;
use super::files::{FILES, ScoredArgs, refuse_terminal};
use super::guesses::as_typed;
use crate::base::error::{Error, Result};
use crate::config::values;
use crate::config::{EarlierFile, ReportConfig};
use crate::input::Input;

const EXAMPLE: &str = "rescore report scored.csv -o report.html";

#[derive(Debug, Args)]
#[allow(clippy::doc_markdown, reason = "these comments are the help's text")]
pub(super) struct ReportArgs {
    #[command(flatten)]
    scored: ScoredArgs,
    /// Write the page to this file; `-` or nothing is standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Show what has changed since this scored file, such as last month's
    ///
    /// Rows are paired by `--key`. The verdicts of the earlier file are kept in memory: up to 60 MB for a million rows.
    #[arg(long, value_name = "EARLIER", value_parser = values::file(), requires = "key")]
    against: Option<PathBuf>,
    /// Pair the rows of both files by this column, such as an id
    #[arg(long, value_name = "COLUMN", requires = "against")]
    key: Option<String>,
    /// Show decisions by the values of this column, which then appear in the page (repeatable, up to 8 times)
    #[arg(long, value_name = "COLUMN")]
    by: Vec<String>,
    /// Show how the run went: the summary that `rescore run --summary FILE` wrote
    #[arg(long, value_name = "FILE", value_parser = values::file())]
    run: Option<PathBuf>,
    #[command(flatten)]
    thresholds: ThresholdArgs,
    /// Replace an existing report
    #[arg(long, help_heading = FILES)]
    overwrite: bool,
}

/// More columns than a page should have; each takes up to 4 MB of memory.
const MOST_COLUMNS: usize = 8;

impl ReportArgs {
    pub(super) fn into_config(self) -> Result<ReportConfig> {
        let scored = self.scored.file(EXAMPLE)?;
        let input = as_typed(self.scored.path());
        let command = format!("rescore report {input} -o report.html");
        refuse_terminal(self.output.as_deref(), &command)?;
        if self.by.len() > MOST_COLUMNS {
            return Err(Error::usage(format!(
                "`--by` was given {} times, and {MOST_COLUMNS} are allowed",
                self.by.len()
            )));
        }
        let against = match (self.against, self.key) {
            (Some(path), Some(key)) => Some(EarlierFile {
                file: self.scored.format.file(Input::File(path))?,
                key,
            }),
            _ => None,
        };
        Ok(ReportConfig {
            scored,
            against,
            prefix: self.scored.prefix,
            by: self.by,
            summary: self.run,
            thresholds: self.thresholds.thresholds()?,
            output: self.output.filter(|path| path != Path::new("-")),
            overwrite: self.overwrite,
        })
    }
}
