//! What a person types, turned once into a valid config.
//!
//! Every check that is possible before the first call is made here or while the parts are built. The only room that
//! names clap. Below it nothing knows of arguments or variables.

mod key;
mod ledger;
mod run;
mod sandbox;
mod sources;
mod values;

use std::ffi::OsString;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use sources::Sources;
pub(crate) use sources::Variables;

use crate::base::error::Error;
use crate::config::{AdminConfig, RunConfig};
use crate::sandbox::Settings;

/// Score every user of a CSV or JSONL file through a user validation service and get the same file back with
/// transaction_id, risk_score and decision appended.
#[derive(Debug, Parser)]
#[allow(clippy::doc_markdown, reason = "this comment is the help's text")]
#[command(
    version,
    max_term_width = 120,
    disable_help_subcommand = true,
    after_help = AFTER_HELP
)]
struct Cli {
    #[command(subcommand)]
    command: Subcommands,
}

const AFTER_HELP: &str = "\
Exit codes:
    0  every row has a verdict
    1  finished, some rows have none
    2  usage, settings or input
    3  stopped early
    4  refused by the service
   70  internal error
  129  hung up
  130  interrupted
  143  terminated";

#[derive(Debug, Subcommand)]
enum Subcommands {
    /// Score the users of a file
    Run(Box<run::RunArgs>),
    /// Serve a stand-in for the service on this machine, for rehearsals
    Sandbox(sandbox::SandboxArgs),
    /// Look into a ledger of paid answers, prune it, or forget people in it
    #[command(subcommand, disable_help_subcommand = true)]
    Ledger(ledger::LedgerCommand),
}

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Command {
    /// `rescore run`.
    Run(Box<RunConfig>),
    /// `rescore sandbox`.
    Sandbox(Settings),
    /// `rescore ledger`.
    Ledger(AdminConfig),
}

/// Why nothing can be done.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Arguments that clap refuses, or `--help` and `--version`: it prints these itself.
    Arguments(clap::Error),
    /// Arguments that are well-formed and still make no run.
    Settings(Error),
}

/// Reads arguments, variables and the key.
///
/// # Errors
/// What is wrong with them, or the help that was asked for.
pub(crate) fn parse(
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<(Command, Variables), Refusal> {
    let (command, arguments): (_, Vec<_>) = (command(), arguments.into_iter().collect());
    let matches = { command.clone() }
        .try_get_matches_from(&arguments)
        .map_err(|error| {
            let without = Cli::command().try_get_matches_from(&arguments).err();
            Refusal::Arguments(sources::explain(
                error,
                without.as_ref(),
                &command,
                &arguments,
            ))
        })?;
    let cli = Cli::from_arg_matches(&matches).map_err(Refusal::Arguments)?;
    let sources = Sources::of(&command, &matches);
    let variables = sources.variables();
    let command = match cli.command {
        Subcommands::Run(arguments) => {
            let config = arguments.into_config(sources);
            config.map(Box::new).map(Command::Run)
        }
        Subcommands::Sandbox(arguments) => arguments.into_settings().map(Command::Sandbox),
        Subcommands::Ledger(command) => command.into_config().map(Command::Ledger),
    };
    match command {
        Ok(command) => Ok((command, variables)),
        Err(error) => Err(Refusal::Settings(variables.explain(error))),
    }
}

/// The command line with a variable for every argument: given once here, none can be forgotten.
fn command() -> clap::Command {
    Cli::command()
        .mut_subcommand("run", |run| {
            with_variables::<run::RunArgs>(&run, "RESCORE_")
        })
        .mut_subcommand("sandbox", |sandbox| {
            with_variables::<sandbox::SandboxArgs>(&sandbox, "RESCORE_SANDBOX_")
        })
        .mut_subcommand("ledger", |ledger| {
            const PREFIX: &str = "RESCORE_LEDGER_";
            ledger
                .mut_subcommand("stats", |stats| {
                    with_variables::<ledger::StatsArgs>(&stats, PREFIX)
                })
                .mut_subcommand("prune", |prune| {
                    with_variables::<ledger::PruneArgs>(&prune, PREFIX)
                })
                .mut_subcommand("forget", |forget| {
                    with_variables::<ledger::ForgetArgs>(&forget, PREFIX)
                })
        })
}

fn with_variables<A: Args>(command: &clap::Command, prefix: &'static str) -> clap::Command {
    let about = command.get_about().cloned();
    let note = format!(
        "Every option `--some-name` can also be given by the variable `{prefix}SOME_NAME`."
    );
    A::augment_args(clap::Command::new(command.get_name().to_owned()))
        .about(about.unwrap_or_default())
        .display_order(command.get_display_order())
        .after_help(note)
        .mut_args(|argument| {
            let variable = format!("{prefix}{}", argument.get_id().as_str().to_uppercase());
            // Neither values (an address may hold a password) nor forty names make the help better.
            let argument = argument.env(variable).hide_env(true);
            if matches!(argument.get_action(), ArgAction::SetTrue) {
                // `1` and `yes` are as good as `true` in a variable, `0` and `no` as good as `false`.
                argument.value_parser(BoolishValueParser::new())
            } else {
                argument
            }
        })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound_and_every_argument_has_its_variable() {
        let command = command();
        command.clone().debug_assert();
        let all = command
            .get_subcommands()
            .flat_map(|subcommand| std::iter::once(subcommand).chain(subcommand.get_subcommands()));
        for subcommand in all {
            for argument in subcommand.get_arguments() {
                let variable = argument.get_env().unwrap().to_str().unwrap();
                assert!(variable.starts_with("RESCORE_"), "{variable}");
                // The key itself is no argument, so its variable must not become one either.
                assert_ne!(variable, "RESCORE_API_KEY");
                if let Some(long) = argument.get_long() {
                    assert!(
                        variable.ends_with(&long.replace('-', "_").to_uppercase()),
                        "{long} {variable}"
                    );
                }
            }
        }
    }
}
