//! Where options get their values from beside the command line and variables: a settings file and its profiles.
//!
//! A value of the file takes the place of an option's default, so whatever is typed or in a variable comes before it. This
//! file reads nothing itself: `program` passes the text of the file that is named here.

use std::io;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command};

use super::key;
use super::settings_file::{Setting, SettingsFile};
use super::values;
use crate::base::error::{Error, Result, quoted, shown};

/// How alike a key must be to be what was meant. Below this, suggestions are noise.
const ALIKE: f64 = 0.8;

/// Keys that people try for the API key, which is never in the file: files are copied, shared and kept in repositories.
const KEYS: [&str; 6] = [
    "api-key",
    "apikey",
    "key",
    "token",
    "secret",
    "rescore-api-key",
];

/// Options that cannot be in the file, because they say which file it is.
const OF_THE_FILE: [&str; 2] = ["config", "profile"];

/// Reads a settings file: its text, or `None` if there is none.
pub(crate) type ReadText<'a> = &'a dyn Fn(&Path) -> io::Result<Option<String>>;

// A doc comment would be taken for the help of the command.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown, reason = "these comments are the help's text")]
pub(super) struct SettingsArgs {
    /// Take options from this settings file (TOML) [default: rescore/config.toml in $XDG_CONFIG_HOME or ~/.config, if it
    /// exists]
    #[arg(long, value_name = "FILE", value_parser = values::file(), help_heading = SETTINGS)]
    config: Option<PathBuf>,
    /// Take the options of this profile of the settings file before its others
    #[arg(long, value_name = "NAME", help_heading = SETTINGS)]
    profile: Option<String>,
}

impl SettingsArgs {
    /// The profile whose options count.
    pub(super) fn into_profile(self) -> Option<String> {
        self.profile
    }
}

/// Their heading in the help.
const SETTINGS: &str = "Settings";

/// The settings file of the subcommand of this name, if it takes one and there is one.
///
/// # Errors
/// Exit code 2: the file cannot be read, is not valid, or does not exist although it was named.
pub(super) fn find(
    commands: &Command,
    name: &str,
    matches: &ArgMatches,
    read: ReadText<'_>,
) -> Result<Option<SettingsFile>> {
    // Only in a debug build would clap say of an argument that the subcommand does not have it.
    if !commands.find_subcommand(name).is_some_and(takes_file) {
        return Ok(None);
    }
    let named = matches.get_one::<PathBuf>("config");
    let profile = matches.get_one::<String>("profile").map(String::as_str);
    let Some(path) = named.cloned().or_else(usual) else {
        return no_file(profile, None);
    };
    let text = read(&path).map_err(|cause| {
        let error = Error::usage(format!("cannot read the settings in `{}`", shown(&path)));
        let error = error.because(cause);
        match named {
            Some(_) => error,
            None => error.hint(
                "`XDG_CONFIG_HOME` or `HOME` leads there; `--config FILE` names another file",
            ),
        }
    })?;
    let Some(text) = text else {
        return match named {
            Some(_) => Err(Error::usage(format!("no settings file `{}`", shown(&path)))),
            None => no_file(profile, Some(&path)),
        };
    };
    let file = SettingsFile::parse(&path, &text, profile)?;
    refuse_unknown(&file, commands)?;
    Ok(Some(file))
}

/// There is no file: then there can be no profile either.
fn no_file(profile: Option<&str>, usual: Option<&Path>) -> Result<Option<SettingsFile>> {
    let Some(profile) = profile else {
        return Ok(None);
    };
    let error = Error::usage(format!(
        "no profile {}: there is no settings file",
        quoted(profile)
    ));
    Err(match usual {
        Some(path) => error.hint(format!(
            "name one with `--config FILE`, or write `{}`",
            shown(path)
        )),
        None => error.hint("name one with `--config FILE`"),
    })
}

/// The usual place. Never the working directory: somebody else may have put a file there that sends the key to their host.
pub(super) fn usual() -> Option<PathBuf> {
    let absolute = |variable| {
        let path = PathBuf::from(std::env::var_os(variable)?);
        path.is_absolute().then_some(path)
    };
    let base = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(base.join("rescore").join("config.toml"))
}

/// Whether a subcommand takes a settings file.
fn takes_file(command: &Command) -> bool {
    command.get_arguments().any(|arg| arg.get_id() == "config")
}

/// Fails if the file has a key that is not an option of a command that reads it.
fn refuse_unknown(file: &SettingsFile, commands: &Command) -> Result<()> {
    let known: Vec<_> = { commands.get_subcommands() }
        .filter(|command| takes_file(command))
        .flat_map(Command::get_arguments)
        .filter_map(Arg::get_long)
        .filter(|long| !OF_THE_FILE.contains(long) && *long != "help")
        .collect();
    for setting in file.all() {
        let key = setting.key.as_str();
        if known.contains(&key) {
            continue;
        }
        let as_option = key.to_lowercase().replace('_', "-");
        if KEYS.contains(&as_option.as_str()) {
            return Err(file
                .refuses(setting, "the API key cannot be in a settings file")
                .hint("`api-key-file` names the file that holds it"));
        }
        let error = file.refuses(setting, &format!("unknown setting {}", quoted(key)));
        return Err(match nearest(&as_option, known.iter().copied()) {
            Some(nearest) => error.hint(format!("did you mean `{nearest}`?")),
            None => error.hint(
                "settings are named like the options, without `--`; `rescore run --help` lists them",
            ),
        });
    }
    Ok(())
}

/// The subcommand with the file's values in the place of its defaults.
///
/// # Errors
/// Exit code 2: two settings of the file exclude each other, or one is a list for an option that takes one value.
pub(super) fn apply(file: &SettingsFile, command: Command, given: &ArgMatches) -> Result<Command> {
    let mut command = command;
    for setting in in_force(file, &command, given)? {
        let values = setting.values.clone();
        command = command.mut_args(|arg| {
            if arg.get_long() == Some(&setting.key) {
                arg.default_values(values.clone())
            } else {
                arg
            }
        });
    }
    Ok(command)
}

/// The settings that count for this subcommand, given what is typed or in variables.
pub(super) fn in_force<'a>(
    file: &'a SettingsFile,
    command: &Command,
    given: &ArgMatches,
) -> Result<Vec<&'a Setting>> {
    let is_given = |arg: &Arg| {
        matches!(
            given.value_source(arg.get_id().as_str()),
            Some(ValueSource::CommandLine | ValueSource::EnvVariable)
        )
    };
    let mut chosen: Vec<(&Setting, &Arg)> = Vec::new();
    for setting in file.settings() {
        let arg = command
            .get_arguments()
            .find(|arg| arg.get_long() == Some(&setting.key));
        let Some(arg) = arg.filter(|arg| is_setting(arg)) else {
            continue;
        };
        if setting.is_list && !matches!(arg.get_action(), ArgAction::Append) {
            return Err(file.refuses(
                setting,
                &format!("`{}` takes one value, not a list", setting.key),
            ));
        }
        // What is switched off excludes nothing.
        let is_off = |setting: &Setting, arg: &Arg| {
            matches!(arg.get_action(), ArgAction::SetTrue) && setting.values == ["false"]
        };
        let excluded = |other: &Arg| excludes(command, arg, other);
        if is_off(setting, arg)
            || command
                .get_arguments()
                .any(|other| is_given(other) && excluded(other))
        {
            continue;
        }
        match chosen.iter().find(|(_, other)| excluded(other)) {
            // The profile's settings come first, and count.
            Some((first, _)) if first.in_profile && !setting.in_profile => {}
            Some((first, _)) => {
                return Err(file.refuses(
                    setting,
                    &format!(
                        "`{}` and `{}` cannot be used together",
                        first.key, setting.key
                    ),
                ));
            }
            None => chosen.push((setting, arg)),
        }
    }
    Ok(chosen.into_iter().map(|(setting, _)| setting).collect())
}

/// Whether an option can be a setting of its command, and is not only typed: then it has a variable as well.
fn is_setting(arg: &Arg) -> bool {
    arg.get_env().is_some()
}

/// Whether one of two options excludes the other.
fn excludes(command: &Command, one: &Arg, other: &Arg) -> bool {
    let conflicts = |a: &Arg, b: &Arg| {
        let of = command.get_arg_conflicts_with(a);
        of.iter().any(|arg| arg.get_id() == b.get_id())
    };
    one.get_id() != other.get_id() && (conflicts(one, other) || conflicts(other, one))
}

/// A warning for each of these variables that is none of ours: its option would silently have its default.
pub(super) fn unknown_variables(commands: &Command, names: Vec<String>) -> Vec<String> {
    let all = commands
        .get_subcommands()
        .flat_map(|command| std::iter::once(command).chain(command.get_subcommands()));
    let known: Vec<_> = all
        .flat_map(Command::get_arguments)
        .filter_map(|arg| Some(arg.get_env()?.to_str()?.trim_end_matches('=')))
        .chain([key::VARIABLE])
        .collect();
    let mut unknown = names;
    unknown.retain(|name| !known.contains(&name.as_str()));
    unknown.sort_unstable();
    let warning = |name: &String| {
        let suggestion = nearest(name, known.iter().copied());
        let suggestion = suggestion.map(|known| format!("; did you mean `{known}`?"));
        format!(
            "the variable {} is unknown{}",
            quoted(name),
            suggestion.unwrap_or_default()
        )
    };
    unknown.iter().map(warning).collect()
}

/// The name that was probably meant.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let like = |known: &str| strsim::jaro_winkler(name, known);
    let nearest = known.max_by(|a, b| like(a).total_cmp(&like(b)))?;
    (like(nearest) >= ALIKE).then_some(nearest)
}
