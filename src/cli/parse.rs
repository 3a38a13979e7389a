//! The command line with its subcommands, and what comes of it: the one place where arguments, variables and the settings file
//! are brought together.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::Resettable;
use clap::{Arg, ArgAction, ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use super::settings::{self, Origins, ReadText};
use super::{check, decide, guesses, help, ledger, report, run, sandbox};
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
    disable_help_flag = true,
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
    /// Count what a run with these arguments would send, skip and cost, without a call or a key; nothing is written
    Check(Box<check::CheckArgs>),
    /// Decide the rows of a scored file again without a call, or show what other thresholds would do
    Decide(Box<decide::DecideArgs>),
    /// Show a scored file as a page of HTML: verdicts, scores, other thresholds, and what has changed
    Report(Box<report::ReportArgs>),
    /// Serve a stand-in for the service on this machine, for rehearsals
    Sandbox(sandbox::SandboxArgs),
    /// Show the settings in force for `run`, and where each comes from
    Config(settings::SettingsArgs),
    /// Look after a ledger of paid answers: show what is in it, prune it, or forget people
    #[command(subcommand, disable_help_subcommand = true)]
    Ledger(ledger::LedgerCommand),
    /// Print a script with which a shell completes commands, options and values
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Print the manual page, or write one for each command
    Man {
        /// Write one page for each command to this directory, which is made if it is missing; without it, the main page is
        /// printed
        #[arg(value_name = "DIR")]
        directory: Option<PathBuf>,
    },
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
    /// `rescore config`, `rescore completions` and `rescore man`: this text.
    Print(String),
    /// `rescore man DIR`: the pages of this command line.
    Man(PathBuf, Box<clap::Command>),
}

/// Why nothing can be done.
#[derive(Debug)]
pub(crate) enum ParseFailure {
    /// Arguments that clap refuses, or `--help` and `--version`, which it prints itself.
    Arguments(clap::Error),
    /// Well-formed arguments that do not make a valid config.
    Settings(Error),
}

impl From<clap::Error> for ParseFailure {
    fn from(error: clap::Error) -> Self {
        Self::Arguments(error)
    }
}

impl From<Error> for ParseFailure {
    fn from(error: Error) -> Self {
        Self::Settings(error)
    }
}

/// Reads arguments, variables, the settings file and the key. `read` gives the text of the settings file.
///
/// # Errors
/// What is wrong with them, or the help that was asked for.
pub(crate) fn parse(
    arguments: &[OsString],
    read: ReadText<'_>,
) -> Result<(Command, Origins), ParseFailure> {
    let commands = command();
    let matches = { commands.clone() }
        .try_get_matches_from(arguments)
        .map_err(|error| guesses::with_meaning(error, &commands, arguments))?;
    let (name, given) = matches.subcommand().unwrap_or(("", &matches));
    let takes_settings = |command: &&clap::Command| settings::takes_settings(command);
    let Some(command) = { commands.find_subcommand(name) }.filter(takes_settings) else {
        let cli = Cli::from_arg_matches(&matches)?;
        let command = config(cli.command, &commands, given)?;
        return Ok((command, Origins::default()));
    };
    settings::refuse_unknown_variables(&commands)?;
    let file = settings::find(&commands, given, read)?;
    // All arguments with the settings of the file, behind the names of the program and of the command.
    let settled = |command, arguments: &[OsString], given| {
        let (set, origins) = settings::elsewhere(command, given, file.as_ref());
        let (names, typed) = arguments.split_at_checked(2).unwrap_or((arguments, &[]));
        let all = names.iter().chain(&set).chain(typed);
        match commands.clone().try_get_matches_from(all) {
            Ok(matches) => Ok((matches, origins)),
            Err(error) => Err(origins.explain_arguments(error)),
        }
    };
    if let ("config", Some(run)) = (name, commands.find_subcommand("run")) {
        let bare = ["rescore", "run"].map(OsString::from);
        let given = commands.clone().try_get_matches_from(&bare)?;
        let given = given.subcommand_matches("run").unwrap_or(&given);
        let (matches, origins) = settled(run, &bare, given)?;
        let matches = matches.subcommand_matches("run").unwrap_or(&matches);
        let text = settings::text(run, matches, file.as_ref(), &origins);
        return Ok((Command::Print(text), Origins::default()));
    }
    let (matches, origins) = settled(command, arguments, given)?;
    let cli = Cli::from_arg_matches(&matches)?;
    match config(cli.command, &commands, given) {
        Ok(command) => Ok((command, origins)),
        Err(error) => Err(origins.explain(error).into()),
    }
}

/// The config that the arguments make.
fn config(
    command: Subcommands,
    commands: &clap::Command,
    given: &ArgMatches,
) -> Result<Command, Error> {
    Ok(match command {
        Subcommands::Run(arguments) => Command::Run(arguments.into_config(given)?.into()),
        Subcommands::Check(arguments) => Command::Check(arguments.into_config(given)?.into()),
        Subcommands::Decide(arguments) => Command::Decide(arguments.into_config()?.into()),
        Subcommands::Report(arguments) => Command::Report(arguments.into_config()?.into()),
        Subcommands::Sandbox(arguments) => Command::Sandbox(arguments.into_settings()?),
        Subcommands::Ledger(command) => Command::Ledger(command.into_config()?),
        // It has been carried out, as it takes settings.
        Subcommands::Config(_) => Command::Print(String::new()),
        Subcommands::Completions { shell } => {
            Command::Print(help::completions(shell, commands.clone()))
        }
        Subcommands::Man { directory } => {
            let command = help::with_pages(commands.clone());
            match directory {
                Some(directory) => Command::Man(directory, command.into()),
                None => Command::Print(help::man_page(command)),
            }
        }
    })
}

/// The command line.
fn command() -> clap::Command {
    let help = |name: &'static str, action| {
        Arg::new(name.replace('-', "_"))
            .long(name)
            .action(action)
            .global(true)
    };
    Cli::command()
        .arg(
            help("help", ArgAction::HelpShort)
                .short('h')
                .help("Print the most used options"),
        )
        .arg(help("help-all", ArgAction::HelpLong).help("Print all options"))
        .mut_subcommands(help::with_texts)
        .mut_subcommands(finished)
}

/// A number below zero is the value of an option, and not an option. A variable that is empty counts as unset; no value of one is
/// shown in the help, as it may be a password.
fn finished(command: clap::Command) -> clap::Command {
    let finish = |arg: Arg| {
        let takes_values = arg.get_action().takes_values() && !arg.is_positional();
        let arg = arg.allow_negative_numbers(takes_values);
        match arg.get_env() {
            Some(name) if std::env::var_os(name).is_some_and(|value| value.is_empty()) => {
                arg.env(Resettable::<clap::builder::OsStr>::Reset)
            }
            Some(_) => arg.hide_env(true),
            None => arg,
        }
    };
    command.mut_args(finish).mut_subcommands(finished)
}

#[cfg(test)]
mod tests {
    use super::command;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }
}
