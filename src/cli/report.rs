//! The arguments of `rescore report`.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::Args;

use super::fields::FIELDS;
use super::format::{FILES, FormatArgs, source};
use super::settings::SettingsArgs;
use super::thresholds::ThresholdArgs;
use super::values;
use crate::base::error::{Error, Result, quoted};
use crate::config::{EarlierFile, ReportConfig};
use crate::input::Input;

const EXAMPLE: &str = "rescore report scored.csv -o report.html";

#[derive(Debug, Args)]
#[allow(clippy::doc_markdown, reason = "these comments are the help's text")]
pub(super) struct ReportArgs {
    /// A file that `rescore run` has written; `-` or nothing is standard input
    scored: Option<PathBuf>,
    /// Write the page to this file; `-` or nothing is standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Show what has changed since this scored file, such as last month's
    ///
    /// Rows are paired by --key, or else by all of their own columns. The verdicts of the earlier file are kept in memory: 32
    /// MB for a million rows. Without this option, a file that has the columns of `--existing keep` is compared with these.
    #[arg(long, value_name = "EARLIER", value_parser = values::file())]
    against: Option<PathBuf>,
    /// Pair the rows of both files by this column, such as an id [default: all columns but the verdict's]
    #[arg(long, value_name = "COLUMN", requires = "against")]
    key: Option<String>,
    /// Show decisions by the values of this column; they are in the page as they are (repeatable, up to 8 times)
    #[arg(long, value_name = "COLUMN", value_delimiter = '\n')]
    by: Vec<String>,
    /// Show how the run went: the summary that `rescore run --summary FILE` wrote
    #[arg(long, value_name = "FILE", value_parser = values::file())]
    run: Option<PathBuf>,
    #[command(flatten)]
    thresholds: ThresholdArgs,
    /// What stands before the names of the verdict's columns, as in `run`
    #[arg(
        long, value_name = "TEXT", default_value = "", hide_default_value = true, value_parser = values::prefix,
        help_heading = FIELDS
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

/// More columns than a page should have; each takes up to 10 MB of memory.
const MOST_COLUMNS: usize = 8;

impl ReportArgs {
    pub(super) fn into_config(self) -> Result<ReportConfig> {
        let output = self.output.filter(|path| path != Path::new("-"));
        if output.is_none() && std::io::stdout().is_terminal() {
            return Err(
                Error::usage("a page of HTML is not for a terminal").hint("add `-o report.html`")
            );
        }
        for (place, name) in self.by.iter().enumerate() {
            if place == MOST_COLUMNS {
                return Err(Error::usage(format!(
                    "`--by` was given {} times, and {MOST_COLUMNS} are allowed",
                    self.by.len()
                )));
            }
            if self.by.iter().take(place).any(|other| other == name) {
                return Err(Error::usage(format!(
                    "`--by {}` was given twice",
                    quoted(name).trim_matches('`')
                )));
            }
        }
        let against = self.against.map(|path| -> Result<_> {
            Ok(EarlierFile {
                file: self.format.file(Input::File(path))?,
                key: self.key,
            })
        });
        Ok(ReportConfig {
            scored: self.format.file(source(self.scored.as_deref(), EXAMPLE)?)?,
            against: against.transpose()?,
            prefix: self.prefix,
            by: self.by,
            summary: self.run,
            thresholds: self.thresholds.thresholds()?,
            output,
            overwrite: self.overwrite,
        })
    }
}
