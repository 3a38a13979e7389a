//! The arguments of `rescore decide`, and the config that they make.

use std::path::Path;

use clap::Args;

use super::fields::PolicyArgs;
use super::files::{ScoredArgs, refuse_terminal};
use super::guesses::{as_typed, output_for};
use crate::base::error::{Error, Result};
use crate::config::{DecideConfig, DecideOutput, DecideTask};
use crate::verdict::DecisionPolicy;

const EXAMPLE: &str = "rescore decide scored.csv -o decided.csv";
const WHAT_IF: &str = "What other thresholds would do";
/// What is only for written rows.
const OF_ROWS: [&str; 4] = ["output", "changes", "overwrite", "summary"];

#[derive(Debug, Args)]
#[allow(clippy::doc_markdown, reason = "these comments are the help's text")]
pub(super) struct DecideArgs {
    #[command(flatten)]
    scored: ScoredArgs,
    #[command(flatten)]
    output: DecideOutput,

    /// Write no rows: print how many each pair of thresholds would approve, review and block
    #[arg(long, conflicts_with_all = OF_ROWS, help_heading = WHAT_IF)]
    what_if: bool,
    /// Print all pairs of thresholds, as one JSON object
    // Together with one of these, `--what-if` would not be required.
    #[arg(long, requires = "what_if", conflicts_with_all = OF_ROWS, help_heading = WHAT_IF)]
    json: bool,

    #[command(flatten)]
    policy: PolicyArgs,
}

impl DecideArgs {
    pub(super) fn into_config(self) -> Result<DecideConfig> {
        let policy = self.policy.policy("COLUMN")?;
        let file = self.scored.file(EXAMPLE)?;
        let task = if self.what_if {
            let DecisionPolicy::Score(today) = policy else {
                return Err(Error::usage(
                    "`--what-if` compares thresholds, which do not decide with `--decide-by level`",
                )
                .hint("leave one of them out"));
            };
            let json = self.json;
            DecideTask::WhatIf { today, json }
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
