//! The arguments of `rescore report`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::fields::ThresholdArgs;
use super::files::{FILES, FormatArgs, refuse_terminal, source};
use super::guesses::as_typed;
use super::settings::SettingsArgs;
use crate::base::error::{Error, Result};
use crate::config::values;
use crate::config::{EarlierFile, ReportConfig};
use crate::input::Input;

const EXAMPLE: &str = "rescore report scored.csv -o report.html";

#[derive(Debug, Args)]
#[allow(clippy::doc_markdown, reason = "these comments are the help's text")]
pub(super) struct ReportArgs {
    /// A scored file: the output of `rescore run`, plain, gzip or zstd; `-` or nothing is standard input
    scored: Option<PathBuf>,
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
    /// What stands before the names of the verdict's columns, as in `rescore_decision`
    #[arg(
        long, value_name = "TEXT", default_value = "", hide_default_value = true, value_parser = values::prefix,
        help_heading = FILES
    )]
    prefix: String,
    #[command(flatten)]
    format: FormatArgs,
    /// Replace an existing report
    #[arg(long, help_heading = FILES)]
    overwrite: bool,

    // Read before this is made.
    #[command(flatten)]
    settings: SettingsArgs,
}

/// More columns than a page should have; each takes up to 4 MB of memory.
const MOST_COLUMNS: usize = 8;

impl ReportArgs {
    pub(super) fn into_config(self) -> Result<ReportConfig> {
        let scored = self.format.file(source(self.scored.as_deref(), EXAMPLE)?)?;
        let input = as_typed(self.scored.as_deref().unwrap_or(Path::new("-")));
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
                file: self.format.file(Input::File(path))?,
                key,
            }),
            _ => None,
        };
        Ok(ReportConfig {
            scored,
            against,
            prefix: self.prefix,
            by: self.by,
            summary: self.run,
            thresholds: self.thresholds.thresholds()?,
            output: self.output.filter(|path| path != Path::new("-")),
            overwrite: self.overwrite,
        })
    }
}
