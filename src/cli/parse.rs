//! The command line with its subcommands and a variable for every argument, and what was typed on it.

use std::ffi::OsString;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use super::sources::{self, Sources, Variables};
use super::{check, decide, help, ledger, report, run, sandbox};
use crate::base::error::Error;
use crate::config::{AdminConfig, CheckConfig, DecideConfig, ReportConfig, RunConfig};
use crate::sandbox::SandboxSettings;

/// Score every user of a CSV or JSONL file through a user validation service and get the same file back with
/// transaction_id, risk_score and decision appended.
#[derive(Debug, Parser)]
#[allow(clippy::doc_markdown, reason = "this comment is the help's text")]
#[command(
    version,
    max_term_width = 120,
    disable_help_subcommand = true,
    after_help = help::EXIT_CODES
)]
struct Cli {
    #[command(subcommand)]
    command: Subcommands,
}

#[derive(Debug, Subcommand)]
enum Subcommands {
    /// Score the users of a file
    Run(Box<run::RunArgs>),
    /// Count what a run would send, skip and cost, without a call or a key
    Check(Box<check::CheckArgs>),
    /// Decide the rows of a scored file again without a call, or show what other thresholds would do
    Decide(Box<decide::DecideArgs>),
    /// Show a scored file as a page of HTML: verdicts, scores, other thresholds, and what has changed
    Report(Box<report::ReportArgs>),
    /// Serve a stand-in for the service on this machine, for rehearsals
    Sandbox(sandbox::SandboxArgs),
    /// Look after a ledger of paid answers: show what is in it, prune it, or forget people
    #[command(subcommand, disable_help_subcommand = true)]
    Ledger(ledger::LedgerCommand),
}

/// What to do.
#[derive(Debug)]
pub(crate) enum Command {
    /// `rescore run`.
    Run(Box<RunConfig>),
    /// `rescore check`.
    Check(Box<CheckConfig>),
    /// `rescore decide`.
    Decide(Box<DecideConfig>),
    /// `rescore report`.
    Report(Box<ReportConfig>),
    /// `rescore sandbox`.
    Sandbox(SandboxSettings),
    /// `rescore ledger`.
    Ledger(AdminConfig),
}

/// Why nothing can be done.
#[derive(Debug)]
pub(crate) enum ParseFailure {
    /// Arguments that clap refuses, or `--help` and `--version`, which it prints itself.
    Arguments(clap::Error),
    /// Well-formed arguments that do not make a valid config.
    Settings(Error),
}

/// Reads arguments, variables and the key.
///
/// # Errors
/// What is wrong with them, or the help that was asked for.
pub(crate) fn parse(
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<(Command, Variables), ParseFailure> {
    let (command, arguments): (_, Vec<_>) = (command(), arguments.into_iter().collect());
    let matches = { command.clone() }
        .try_get_matches_from(&arguments)
        .map_err(|error| {
            let without = Cli::command().try_get_matches_from(&arguments).err();
            ParseFailure::Arguments(sources::explain(
                error,
                without.as_ref(),
                &command,
                &arguments,
            ))
        })?;
    let cli = Cli::from_arg_matches(&matches).map_err(ParseFailure::Arguments)?;
    let sources = Sources::of(&command, &matches);
    let variables = sources.variables();
    let command = match cli.command {
        Subcommands::Run(arguments) => {
            let config = arguments.into_config(sources);
            config.map(Box::new).map(Command::Run)
        }
        Subcommands::Check(arguments) => {
            let config = arguments.into_config(sources);
            config.map(Box::new).map(Command::Check)
        }
        Subcommands::Decide(arguments) => {
            let config = arguments.into_config(sources);
            config.map(Box::new).map(Command::Decide)
        }
        Subcommands::Report(arguments) => {
            let config = arguments.into_config();
            config.map(Box::new).map(Command::Report)
        }
        Subcommands::Sandbox(arguments) => arguments.into_settings().map(Command::Sandbox),
        Subcommands::Ledger(command) => command.into_config().map(Command::Ledger),
    };
    match command {
        Ok(command) => Ok((command, variables)),
        Err(error) => Err(ParseFailure::Settings(variables.explain(error))),
    }
}

/// The command line with a variable for every argument: given once here, none can be forgotten.
fn command() -> clap::Command {
    Cli::command()
        .mut_subcommand("run", |run| {
            const PREFIX: &str = "RESCORE_";
            help::of_run(with_variables::<run::RunArgs>(&run, PREFIX), PREFIX)
        })
        .mut_subcommand("check", |check| {
            const PREFIX: &str = "RESCORE_";
            help::of_check(with_variables::<check::CheckArgs>(&check, PREFIX), PREFIX)
        })
        .mut_subcommand("decide", |decide| {
            const PREFIX: &str = "RESCORE_";
            let decide = with_variables::<decide::DecideArgs>(&decide, PREFIX);
            help::of_decide(decide::with_own_help(decide), PREFIX)
        })
        .mut_subcommand("report", |report| {
            const PREFIX: &str = "RESCORE_";
            let report = with_variables::<report::ReportArgs>(&report, PREFIX);
            report::with_own_help(report).after_help(help::of_report(PREFIX))
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
    A::augment_args(clap::Command::new(command.get_name().to_owned()))
        .about(about.unwrap_or_default())
        .display_order(command.get_display_order())
        .after_help(help::note(prefix))
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
        let run = command.find_subcommand("run").unwrap();
        let shown = run
            .get_arguments()
            .filter(|arg| !arg.is_hide_short_help_set());
        assert_eq!(shown.count(), help::COMMON.len());
        let all = command
            .get_subcommands()
            .flat_map(|subcommand| std::iter::once(subcommand).chain(subcommand.get_subcommands()));
        for subcommand in all {
            for argument in subcommand.get_arguments() {
                let variable = argument.get_env().unwrap().to_str().unwrap();
                assert!(variable.starts_with("RESCORE_"), "{variable}");
                // The key itself is never an argument, so no argument may have its variable.
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
