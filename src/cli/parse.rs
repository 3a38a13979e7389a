//! The command line with its subcommands: the one place where arguments, variables and the settings file come together.
//!
//! Nothing is opened here: `program` reads the settings file.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::Resettable;
use clap::{Arg, ArgAction, ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use super::settings::{self, Origins, ReadText};
use super::{help, ledger, run, sandbox, scored};
use crate::base::error::Error;
use crate::config::values::one_of;
use crate::config::{
    AdminConfig, CheckConfig, DecideConfig, ReportConfig, RunConfig, StatusConfig,
};
use crate::sandbox::SandboxSettings;

/// Score every user of a CSV or JSONL file through a user validation service and get the same file back with
/// transaction_id, risk_score and decision appended.
#[derive(Debug, Parser)]
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
    Check(Box<run::CheckArgs>),
    /// Decide the rows of a scored file again without a call, or show what other thresholds would do
    Decide(Box<scored::DecideArgs>),
    /// Show a scored file as a page of HTML: verdicts, scores, other thresholds, and what has changed
    Report(Box<scored::ReportArgs>),
    /// Show how far runs are, why they wait, and how they ended
    Status(StatusConfig),
    /// Serve a stand-in for the service on this machine, for rehearsals
    Sandbox(sandbox::SandboxArgs),
    /// Show the settings in force for `run`, and where each comes from
    Config(settings::SettingsArgs),
    /// Look after a ledger of paid answers: show what is in it, prune it, or forget people
    #[command(disable_help_subcommand = true)]
    Ledger {
        #[command(subcommand)]
        command: ledger::LedgerCommand,
        /// Print the result as one JSON object
        #[arg(long, global = true)]
        json: bool,
    },
    /// Print a script with which a shell completes commands, options and values
    Completions {
        /// The shell
        #[arg(value_parser = one_of(help::SHELLS))]
        shell: clap_complete::Shell,
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
    /// `rescore status`.
    Status(StatusConfig),
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
/// A mistake in them, or the help that was asked for.
pub(crate) fn parse(
    arguments: &[OsString],
    read: ReadText<'_>,
) -> Result<(Command, Origins), ParseFailure> {
    let commands = command();
    let matches = commands.clone().try_get_matches_from(arguments);
    let matches = matches.map_err(|error| help::with_meaning(error, &commands, arguments))?;
    let (name, given) = matches.subcommand().unwrap_or(("", &matches));
    let found = commands.find_subcommand(name);
    // The commands of a ledger have a name of two words, with an option between them.
    let last = given.subcommand_name().unwrap_or(name);
    let position = arguments.iter().skip(1).position(|word| word == last);
    let words = 2 + position.unwrap_or_default();
    let (found, given) = match given.subcommand() {
        Some((second, given)) => (found.and_then(|it| it.find_subcommand(second)), given),
        None => (found, given),
    };
    let takes_settings = |command: &&clap::Command| settings::takes_settings(command);
    let Some(command) = found.filter(takes_settings) else {
        let cli = Cli::from_arg_matches(&matches)?;
        let command = config(cli.command, &commands, given)?;
        return Ok((command, Origins::default()));
    };
    settings::refuse_unknown_variables(&commands)?;
    let file = settings::find(&commands, given, read)?;
    // All arguments with the settings of the file, behind the words that name the program and the command.
    let parsed = |command, arguments: &[OsString], given| {
        let (set, origins) = settings::not_typed(command, given, file.as_ref());
        let (names, typed) = arguments
            .split_at_checked(words)
            .unwrap_or((arguments, &[]));
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
        let (matches, origins) = parsed(run, &bare, given)?;
        let matches = matches.subcommand_matches("run").unwrap_or(&matches);
        let text = settings::text(run, matches, file.as_ref(), &origins);
        return Ok((Command::Print(text), Origins::default()));
    }
    let (matches, origins) = parsed(command, arguments, given)?;
    let cli = Cli::from_arg_matches(&matches)?;
    let mut config =
        config(cli.command, &commands, given).map_err(|error| origins.explain(error))?;
    if let (Command::Run(run), Some((_, matches))) = (&mut config, matches.subcommand()) {
        run.options = settings::given(command, matches);
    }
    Ok((config, origins))
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
        Subcommands::Status(config) => Command::Status(config),
        Subcommands::Sandbox(arguments) => Command::Sandbox(arguments.into_settings()?),
        Subcommands::Ledger { command, json } => Command::Ledger(command.into_config(json)?),
        // `parse` has carried it out, with the settings.
        Subcommands::Config(_) => Command::Print(String::new()),
        Subcommands::Completions { shell } => {
            Command::Print(help::completions(shell, commands.clone()))
        }
        Subcommands::Man { directory } => {
            let mut command = commands.clone().disable_help_subcommand(true);
            command.build();
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

/// Whether arguments ask for JSON on standard error: then even errors about them are JSON. A settings file may ask for it later.
pub(crate) fn asks_for_json(arguments: &[OsString]) -> bool {
    let [_, command, typed @ ..] = arguments else {
        return false;
    };
    let words = typed.split(|word| word == "--").next().unwrap_or_default();
    let is_apart = |pair: &[OsString]| matches!(pair, [name, style] if name == "--progress" && style == "json");
    let asks = words.windows(2).any(is_apart) || words.iter().any(|word| word == "--progress=json");
    command == "run" && asks
}

#[cfg(test)]
mod tests {
    use super::{command, *};

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn a_guess_names_only_options_that_there_are() {
        let commands = command();
        let run = commands.find_subcommand("run").unwrap();
        let all = commands
            .get_subcommands()
            .flat_map(clap::Command::get_arguments);
        let all: Vec<_> = all
            .filter_map(Arg::get_long)
            .chain(["version", "help"])
            .collect();
        for line in include_str!("guesses.txt").lines() {
            let (words, meaning) = line.split_once(": ").unwrap();
            let named = |text: &'static str| {
                text.split([' ', '`', ',', '='])
                    .filter_map(|word| word.strip_prefix("--"))
            };
            for option in named(meaning) {
                assert!(all.contains(&option), "there is no `--{option}`");
            }
            for option in named(words) {
                let is_one = run
                    .get_arguments()
                    .any(|arg| arg.get_long() == Some(option));
                assert!(!is_one, "`--{option}` is an option of `run`");
            }
        }
    }

    #[test]
    fn json_is_asked_for_in_either_form_and_also_beside_mistakes() {
        for (line, expected) in [
            ("rescore run --bogus --progress json", true),
            ("rescore run --progress=json --bogus", true),
            ("rescore run --progress plain json", false),
            ("rescore run -- --progress json", false),
            ("rescore check --progress json", false),
        ] {
            let words: Vec<_> = line.split(' ').map(OsString::from).collect();
            assert_eq!(asks_for_json(&words), expected, "{line}");
        }
    }
}
