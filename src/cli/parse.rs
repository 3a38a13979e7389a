//! The command line with its subcommands and a variable for every argument, and what was typed on it.

use std::ffi::OsString;

use clap::{
    ArgAction, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueHint,
};

use super::settings::{self, ReadText};
use super::settings_file::SettingsFile;
use super::sources::{self, Origins, Sources};
use super::{
    check, completions, decide, help, ledger, man, report, run, sandbox, settings_shown, values,
};
use crate::base::error::Error;
use crate::config::{AdminConfig, CheckConfig, DecideConfig, ManConfig, ReportConfig, RunConfig};
use crate::sandbox::SandboxSettings;

/// Score every user of a CSV or JSONL file through a user validation service and get the same file back with
/// transaction_id, risk_score and decision appended.
#[derive(Debug, Parser)]
#[allow(clippy::doc_markdown, reason = "this comment is the help's text")]
#[command(
    version,
    max_term_width = 120,
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
    /// Show the settings in force for `run`, and where each comes from
    Config(settings::SettingsArgs),
    /// Look after a ledger of paid answers: show what is in it, prune it, or forget people
    #[command(subcommand, disable_help_subcommand = true)]
    Ledger(ledger::LedgerCommand),
    /// Print a script with which a shell completes commands, options and values
    #[command(after_help = completions::EXAMPLES)]
    Completions(completions::CompletionsArgs),
    /// Print the manual page, or write one for each command
    #[command(after_help = man::EXAMPLES)]
    Man(man::ManArgs),
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
    /// `rescore man DIR`.
    Man(ManConfig),
}

/// Why nothing can be done.
#[derive(Debug)]
pub(crate) enum ParseFailure {
    /// Arguments that clap refuses, or `--help` and `--version`, which it prints itself.
    Arguments(clap::Error),
    /// Well-formed arguments that do not make a valid config.
    Settings(Error),
}

/// Reads arguments, variables, the settings file and the key. `read` gives the text of the settings file.
///
/// # Errors
/// What is wrong with them, or the help that was asked for.
pub(crate) fn parse(
    arguments: &[OsString],
    read: ReadText<'_>,
) -> Result<(Command, Origins), ParseFailure> {
    let command = command();
    let matches = { command.clone() }
        .try_get_matches_from(arguments)
        .map_err(|error| {
            let without = Cli::command().try_get_matches_from(arguments).err();
            ParseFailure::Arguments(sources::explain(
                error,
                without.as_ref(),
                &command,
                arguments,
            ))
        })?;
    let (commands, matches, file) = with_settings(command, matches, arguments, read)?;
    let cli = Cli::from_arg_matches(&matches).map_err(ParseFailure::Arguments)?;
    let sources = Sources::of(&commands, &matches, file.as_ref());
    let origins = sources.origins();
    let failed = |error| ParseFailure::Settings(origins.explain(error));
    let command = match cli.command {
        Subcommands::Run(arguments) => {
            let config = arguments.into_config(sources).map_err(failed)?;
            Command::Run(Box::new(config))
        }
        Subcommands::Check(arguments) => {
            let config = arguments.into_config(sources).map_err(failed)?;
            Command::Check(Box::new(config))
        }
        Subcommands::Decide(arguments) => {
            let config = arguments.into_config(sources).map_err(failed)?;
            Command::Decide(Box::new(config))
        }
        Subcommands::Report(arguments) => {
            let config = arguments.into_config().map_err(failed)?;
            Command::Report(Box::new(config))
        }
        Subcommands::Sandbox(arguments) => {
            Command::Sandbox(arguments.into_settings().map_err(failed)?)
        }
        Subcommands::Ledger(command) => Command::Ledger(command.into_config().map_err(failed)?),
        Subcommands::Config(_) => Command::Print(shown_settings(&commands, file.as_ref())?),
        Subcommands::Completions(arguments) => Command::Print(arguments.script(commands)),
        Subcommands::Man(arguments) => manual(arguments, commands).map_err(failed)?,
    };
    Ok((command, origins))
}

/// A warning for each variable that looks like one of ours and is not.
pub(crate) fn variable_warnings() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let ours: Vec<_> = names.filter(|name| name.starts_with("RESCORE_")).collect();
    if ours.is_empty() {
        return Vec::new();
    }
    settings::unknown_variables(&command(), ours)
}

/// The settings of `run` without arguments, as text.
fn shown_settings(
    commands: &clap::Command,
    file: Option<&SettingsFile>,
) -> Result<String, ParseFailure> {
    let Some(run) = commands.find_subcommand("run") else {
        return Ok(String::new());
    };
    let parse = |run: &clap::Command| run.clone().try_get_matches_from(["run"]);
    let given = parse(run).map_err(|error| {
        let typed = ["rescore", "run"].map(OsString::from);
        ParseFailure::Arguments(sources::explain(error, None, commands, &typed))
    })?;
    let Some(file) = file else {
        return Ok(settings_shown::text(run, &given, None));
    };
    let run = settings::apply(file, run.clone(), &given).map_err(ParseFailure::Settings)?;
    let matches = parse(&run).map_err(|error| {
        ParseFailure::Arguments(sources::explain_setting(error, commands, "run", file))
    })?;
    Ok(settings_shown::text(&run, &matches, Some(file)))
}

/// The main page, or all pages for a directory.
fn manual(arguments: man::ManArgs, commands: clap::Command) -> Result<Command, Error> {
    let pages = man::pages(commands)?;
    if let Some(directory) = arguments.directory {
        return Ok(Command::Man(ManConfig { directory, pages }));
    }
    let main = pages.into_iter().next();
    Ok(Command::Print(
        main.map(|page| page.text).unwrap_or_default(),
    ))
}

/// The command line with the settings file's values as defaults, parsed again, if there is such a file.
fn with_settings(
    command: clap::Command,
    matches: ArgMatches,
    arguments: &[OsString],
    read: ReadText<'_>,
) -> Result<(clap::Command, ArgMatches, Option<SettingsFile>), ParseFailure> {
    let Some((name, given)) = matches.subcommand() else {
        return Ok((command, matches, None));
    };
    let file = settings::find(&command, name, given, read).map_err(ParseFailure::Settings)?;
    let Some(file) = file else {
        return Ok((command, matches, None));
    };
    let mut applied = Ok(());
    let command = command.mut_subcommand(name, |subcommand| {
        settings::apply(&file, subcommand.clone(), given).unwrap_or_else(|error| {
            applied = Err(ParseFailure::Settings(error));
            subcommand
        })
    });
    applied?;
    let matches = { command.clone() }
        .try_get_matches_from(arguments)
        .map_err(|error| {
            let error = sources::explain_setting(error, &command, name, &file);
            ParseFailure::Arguments(error)
        })?;
    Ok((command, matches, Some(file)))
}

/// The command line with a variable for each argument: given once here, none can be forgotten.
fn command() -> clap::Command {
    Cli::command()
        .mut_subcommand("run", |run| {
            const PREFIX: &str = "RESCORE_";
            help::of_run(with_variables::<run::RunArgs>(&run, PREFIX), PREFIX)
        })
        .mut_subcommand("config", |config| {
            with_variables::<settings::SettingsArgs>(&config, "RESCORE_")
        })
        .mut_subcommand("check", |check| {
            const PREFIX: &str = "RESCORE_";
            help::of_check(with_variables::<check::CheckArgs>(&check, PREFIX), PREFIX)
        })
        .mut_subcommand("decide", |decide| {
            const PREFIX: &str = "RESCORE_";
            let decide = with_variables_but::<decide::DecideArgs>(WRITTEN, &decide, PREFIX);
            help::of_decide(decide::with_own_help(decide), PREFIX)
        })
        .mut_subcommand("report", |report| {
            const PREFIX: &str = "RESCORE_";
            let report = with_variables_but::<report::ReportArgs>(WRITTEN, &report, PREFIX);
            report::with_own_help(report).after_help(help::of_report(PREFIX))
        })
        .mut_subcommand("sandbox", |sandbox| {
            with_variables::<sandbox::SandboxArgs>(&sandbox, "RESCORE_SANDBOX_")
        })
        .mut_subcommand("man", with_hints)
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

/// Arguments that complete as what they are: files, directories, and everything else as nothing that a shell knows.
fn with_hints(command: clap::Command) -> clap::Command {
    command.mut_args(|argument| {
        let is_directory = { argument.get_value_names() }
            .is_some_and(|names| names.first().is_some_and(|name| name == "DIR"));
        let hint = match argument.get_value_hint() {
            _ if !argument.get_action().takes_values() => return argument,
            ValueHint::AnyPath if is_directory => ValueHint::DirPath,
            ValueHint::AnyPath => ValueHint::FilePath,
            ValueHint::Unknown => ValueHint::Other,
            hint => hint,
        };
        argument.value_hint(hint)
    })
}

/// What says which files are written. It has the same names in `run`, whose paid output no other command may replace, so
/// `decide` and `report` take it only as typed: without a variable, an option has no setting either.
const WRITTEN: &[&str] = &["output", "changes", "overwrite", "summary"];

fn with_variables<A: Args>(command: &clap::Command, prefix: &'static str) -> clap::Command {
    with_variables_but::<A>(&[], command, prefix)
}

/// With a variable for every argument that is not `only_typed`.
fn with_variables_but<A: Args>(
    only_typed: &[&str],
    command: &clap::Command,
    prefix: &'static str,
) -> clap::Command {
    let about = command.get_about().cloned();
    with_hints(A::augment_args(clap::Command::new(
        command.get_name().to_owned(),
    )))
    .about(about.unwrap_or_default())
    .display_order(command.get_display_order())
    .after_help(help::note(prefix))
    .mut_args(|argument| {
        if only_typed.contains(&argument.get_id().as_str()) {
            return argument;
        }
        let name = argument.get_id().as_str().to_uppercase();
        // What has `ledger` in its own name needs it only once.
        let name = match name.strip_prefix("LEDGER_") {
            Some(rest) if prefix.ends_with("LEDGER_") => rest,
            _ => &name,
        };
        let variable = format!("{prefix}{name}");
        let is_empty = std::env::var_os(&variable).is_some_and(|value| value.is_empty());
        // One that is empty counts as unset, but the option keeps a variable: no variable can have a `=` in its name.
        let variable = if is_empty { variable + "=" } else { variable };
        // Neither values (an address may hold a password) nor forty names make the help better.
        let argument = argument.env(variable).hide_env(true);
        if matches!(argument.get_action(), ArgAction::SetTrue) {
            // `1` and `yes` are as good as `true` in a variable, `0` and `no` as good as `false`.
            argument.value_parser(values::switch)
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
        // Nobody sets a variable for what is done once, when the program is installed.
        let all = all.filter(|command| !["completions", "man"].contains(&command.get_name()));
        for subcommand in all {
            let no_run = ["decide", "report"].contains(&subcommand.get_name());
            for argument in subcommand.get_arguments() {
                if no_run && WRITTEN.contains(&argument.get_id().as_str()) {
                    assert_eq!(argument.get_env(), None);
                    continue;
                }
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
