//! The arguments of `rescore check`: those of `run`, so that it can stand in the place of `run`. Those that change no count are
//! accepted and have no effect.

use std::path::Path;

use clap::{ArgMatches, Args};

use super::fields::capture;
use super::files::source;
use super::run::RunArgs;
use crate::base::error::Result;
use crate::config::{CheckConfig, FilesConfig};
use crate::ledger::LedgerLocation;
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

impl CheckArgs {
    pub(super) fn into_config(self, given: &ArgMatches) -> Result<CheckConfig> {
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
        let ledger = run.ledger(given)?;
        let account = match ledger.named {
            Some(LedgerLocation::Temporary) => None,
            _ if run.sandbox => {
                RunArgs::refuse_address(given)?;
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
        })
    }
}
