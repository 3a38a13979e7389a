//! The arguments of `rescore check`: those of `run`, so that it can stand in the place of `run`. Those that change no count are
//! accepted and have no effect.

use std::path::Path;

use clap::{Args, Command};

use super::fields::capture;
use super::files::source;
use super::run::RunArgs;
use super::settings::Typed;
use crate::base::error::Result;
use crate::config::{CheckConfig, FilesConfig, LedgerChoice};
use crate::observe::Style;
use crate::service::Account;

// A doc comment would be taken for the help of the command.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

/// What options of `run` mean here.
const MEANINGS: [(&str, &str); 3] = [
    (
        "output",
        "The output of the run, which is not written: what is in the ledger of its folder is paid for already",
    ),
    (
        "output_dir",
        "The directory of the run's outputs: what is in its ledger is paid for already, and finished files are skipped",
    ),
    (
        "keep_going",
        "Count the calls of a file whose first hundred rows all fail for the same reason; a run refuses it otherwise",
    ),
];

/// The command with the meaning that options of `run` have here.
pub(super) fn with_own_help(command: Command) -> Command {
    MEANINGS.into_iter().fold(command, |command, (id, help)| {
        command.mut_arg(id, |arg| arg.help(help).long_help(None))
    })
}

impl CheckArgs {
    pub(super) fn into_config(self, typed: Typed<'_>) -> Result<CheckConfig> {
        let run = self.run;
        let (columns, mut captured) = run.columns.added()?;
        if let Some(place) = run.policy.level() {
            capture(place, &mut captured)?;
        }
        let named: Vec<_> = match run.input.as_slice() {
            [] => vec![None],
            paths => paths.iter().map(|path| Some(path.as_path())).collect(),
        };
        let input = |path: Option<&Path>| {
            let source = source(path, "rescore check users.csv")?;
            run.input(source, columns.clone())
        };
        let inputs = named.into_iter().map(input).collect::<Result<_>>()?;
        let ledger = run.ledger(typed)?;
        let account = match ledger.choice {
            LedgerChoice::Nowhere => None,
            _ if run.sandbox => {
                RunArgs::refuse_address(typed)?;
                Some(Account::of_sandbox())
            }
            _ => run.service.account()?,
        };
        Ok(CheckConfig {
            files: FilesConfig {
                inputs,
                rejects: None,
                output: run.files.output.filter(|path| path != Path::new("-")),
                changes: None,
                report: None,
                ..run.files
            },
            limits: run.limits,
            plan: run.service.plan()?,
            ledger,
            account,
            captured: captured.into(),
            tariff: run.budget.price,
            json: self.json,
            style: if run.watch.quiet {
                Style::Off
            } else {
                Style::Auto.chosen(false)
            },
        })
    }
}
