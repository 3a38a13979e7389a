//! The arguments of `rescore decide` and `rescore report`, which read a scored file, and the configs that they make.

use std::path::{Path, PathBuf};

use clap::Args;

use super::fields::{PolicyArgs, ThresholdArgs};
use super::files::{FILES, FormatArgs, refuse_terminal, source};
use super::help::{as_typed, output_for};
use super::settings::SettingsArgs;
use crate::base::error::{Error, Result};
use crate::config::{
    AskedThresholds, DecideConfig, DecideOutput, DecideTask, EarlierFile, ReportConfig, WHAT_IF,
    values,
};
use crate::input::{FileSettings, Input};
use crate::verdict::DecisionPolicy;

#[derive(Debug, Args)]
struct ScoredArgs {
    /// A scored file: the output of `rescore run`, plain, gzip or zstd; `-` or nothing is standard input
    scored: Option<PathBuf>,
    /// What stands before the names of the verdict's columns, as in `rescore_decision`
    #[arg(
        long, value_name = "TEXT", default_value = "", hide_default_value = true, value_parser = values::prefix,
        help_heading = FILES
    )]
    prefix: String,
    #[command(flatten)]
    format: FormatArgs,
    // Read before this is made.
    #[command(flatten)]
    settings: SettingsArgs,
}

impl ScoredArgs {
    /// The scored file.
    ///
    /// # Errors
    /// Nothing was named, and nothing is piped in, or the file cannot be as its options say.
    fn file(&self, example: &str) -> Result<FileSettings> {
        self.format.file(source(self.scored.as_deref(), example)?)
    }

    /// The path as it was typed.
    fn path(&self) -> &Path {
        self.scored.as_deref().unwrap_or(Path::new("-"))
    }
}

/// Options that only make sense if rows are written.
const ROW_OPTIONS: [&str; 4] = ["output", "changes", "overwrite", "summary"];

#[derive(Debug, Args)]
pub(super) struct DecideArgs {
    #[command(flatten)]
    scored: ScoredArgs,
    #[command(flatten)]
    output: DecideOutput,

    /// Write no rows: print how many each pair of thresholds would approve, review and block
    #[arg(long, conflicts_with_all = ROW_OPTIONS, help_heading = WHAT_IF)]
    what_if: bool,
    /// Print all pairs of thresholds, as one JSON object
    // Together with one of these, `--what-if` would not be required.
    #[arg(long, requires = "what_if", conflicts_with_all = ROW_OPTIONS, help_heading = WHAT_IF)]
    json: bool,
    #[command(flatten)]
    asked: AskedThresholds,

    #[command(flatten)]
    policy: PolicyArgs,
}

impl DecideArgs {
    pub(super) fn into_config(self) -> Result<DecideConfig> {
        let policy = self.policy.policy("COLUMN")?;
        let file = self
            .scored
            .file("rescore decide scored.csv -o decided.csv")?;
        let task = if self.what_if {
            let DecisionPolicy::Score(today) = policy else {
                return Err(Error::usage(
                    "`--what-if` compares thresholds, which do not decide with `--decide-by level`",
                )
                .hint("leave one of them out"));
            };
            DecideTask::WhatIf {
                asked: AskedThresholds {
                    today,
                    ..self.asked
                },
                json: self.json,
            }
        } else if self.asked.outcome.is_some() || self.asked.run.is_some() {
            return Err(
                Error::usage("`--outcome` and `--run` go with `--what-if`").hint("add `--what-if`")
            );
        } else {
            let scored = self.scored.path();
            let (input, output) = (as_typed(scored), output_for("decided", scored));
            let command = format!("rescore decide {input} -o {output}");
            refuse_terminal(self.output.output.as_deref(), &command)?;
            let mut output = self.output;
            output.output = output.output.filter(|path| path != Path::new("-"));
            DecideTask::Rewrite {
                policy,
                level: self.policy.level().map(ToOwned::to_owned),
                output,
            }
        };
        Ok(DecideConfig {
            file,
            prefix: self.scored.prefix,
            task,
        })
    }
}

#[derive(Debug, Args)]
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
    /// Show decisions by the values of this column, at most a hundred, which then appear in the page (repeatable)
    #[arg(long, value_name = "COLUMN")]
    by: Vec<String>,
    #[command(flatten)]
    asked: AskedThresholds,
    #[command(flatten)]
    thresholds: ThresholdArgs,
    /// Replace an existing report
    #[arg(long, help_heading = FILES)]
    overwrite: bool,
}

impl ReportArgs {
    pub(super) fn into_config(self) -> Result<ReportConfig> {
        let scored = self
            .scored
            .file("rescore report scored.csv -o report.html")?;
        let input = as_typed(self.scored.path());
        let command = format!("rescore report {input} -o report.html");
        refuse_terminal(self.output.as_deref(), &command)?;
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
            asked: AskedThresholds {
                today: self.thresholds.thresholds()?,
                ..self.asked
            },
            output: self.output.filter(|path| path != Path::new("-")),
            overwrite: self.overwrite,
        })
    }
}
