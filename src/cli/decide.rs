//! The arguments of `rescore decide`, and the config that they make.

use std::path::{Path, PathBuf};

use clap::{Args, Command};

use super::format::{FILES, FormatArgs, source};
use super::policy::{PolicyArgs, PolicyChoice};
use super::settings::SettingsArgs;
use super::sources::Sources;
use super::values;
use crate::base::error::{Error, Result};
use crate::config::{DecideConfig, DecideOutput, DecideTask, RewriteTask};
use crate::verdict::DecisionPolicy;

const WHAT_IF: &str = "What other thresholds would do";
const SUMMARY: &str = "Summary";
/// What is only for written rows.
const OF_ROWS: [&str; 4] = ["output", "changes", "overwrite", "summary"];

#[derive(Debug, Args)]
#[allow(
    clippy::struct_excessive_bools,
    clippy::doc_markdown,
    reason = "flags are bools, and these comments are the help's text"
)]
pub(super) struct DecideArgs {
    /// A scored file: the output of `rescore run`, plain, gzip or zstd; `-` or nothing is standard input
    scored: Option<PathBuf>,
    /// Write the rows to this file, compressed if it ends in .gz or .zst; `-` or nothing is standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Write no rows: print how many each pair of thresholds would approve, review and block
    #[arg(long, conflicts_with_all = OF_ROWS, help_heading = WHAT_IF)]
    what_if: bool,
    /// Print all pairs of thresholds, as one JSON object
    // Together with one of these, `--what-if` would not be required.
    #[arg(long, requires = "what_if", conflicts_with_all = OF_ROWS, help_heading = WHAT_IF)]
    json: bool,

    #[command(flatten)]
    policy: PolicyArgs,

    #[command(flatten)]
    format: FormatArgs,
    /// What stands before the names of the verdict's columns, as in `rescore_decision`
    #[arg(
        long, value_name = "TEXT", default_value = "", hide_default_value = true, value_parser = values::prefix,
        help_heading = FILES
    )]
    prefix: String,
    /// Also write the rows whose decision changed to this file
    #[arg(long, value_name = "FILE", value_parser = values::file(), help_heading = FILES)]
    changes: Option<PathBuf>,
    /// Replace existing output and changes
    #[arg(long, help_heading = FILES)]
    overwrite: bool,
    /// Show only warnings and errors
    #[arg(short, long, help_heading = SUMMARY)]
    quiet: bool,
    /// Write the summary to this file as JSON
    #[arg(long, value_name = "FILE", value_parser = values::file(), help_heading = SUMMARY)]
    summary: Option<PathBuf>,

    // Read before this is made.
    #[command(flatten)]
    settings: SettingsArgs,
}

/// What shared options mean here.
pub(super) fn with_own_help(command: Command) -> Command {
    command
        .mut_arg("no_header", |argument| {
            argument.help(
                "The file has no header: the verdict's columns are its last three, and `--decide-by level=N` takes a column number",
            )
        })
        .mut_arg("decide_by", |argument| {
            argument
                .help("Decide by the score, or by a level in a column, such as `level=risk_level`")
                .long_help(
                    "Decide by the score, or by a level in a column, such as `level=risk_level`\n\nThe column is one that the \
                     run wrote with `--column`; in JSONL, a member or a JSON pointer. Its values are listed with \
                     `--approve-levels`, `--review-levels` and `--block-levels`; a row whose level is in none of them gets \
                     no decision.",
                )
        })
}

impl DecideArgs {
    pub(super) fn into_config(self, sources: Sources<'_>) -> Result<DecideConfig> {
        let choice = self.policy.choice(sources, "COLUMN")?;
        let input = source(
            self.scored.as_deref(),
            "rescore decide scored.csv -o decided.csv",
        )?;
        let file = self.format.file(input)?;
        let task = if self.what_if {
            let PolicyChoice::Score(today) = choice else {
                return Err(Error::usage(
                    "`--what-if` compares thresholds, which do not decide with `--decide-by level`",
                )
                .hint("leave one of them out"));
            };
            DecideTask::WhatIf {
                today,
                json: self.json,
            }
        } else {
            let (policy, level) = match choice {
                PolicyChoice::Score(thresholds) => (DecisionPolicy::Score(thresholds), None),
                PolicyChoice::Level { place, levels } => {
                    (DecisionPolicy::Level { levels, field: 0 }, Some(place))
                }
            };
            DecideTask::Rewrite(Box::new(RewriteTask {
                policy,
                level,
                output: DecideOutput {
                    path: self.output.filter(|path| path != Path::new("-")),
                    changes: self.changes,
                    summary: self.summary,
                    overwrite: self.overwrite,
                },
                quiet: self.quiet,
            }))
        };
        Ok(DecideConfig {
            file,
            prefix: self.prefix,
            task,
        })
    }
}
