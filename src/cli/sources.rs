//! Where the values of options came from: typed, or from a variable or a settings file that may have been written long ago
//! and elsewhere.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

use super::settings_file::SettingsFile;
use crate::base::error::{Error, shown};

/// A subcommand with what was given for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sources<'a> {
    command: &'a Command,
    matches: &'a ArgMatches,
    file: Option<&'a SettingsFile>,
}

impl<'a> Sources<'a> {
    /// Of the innermost subcommand.
    pub(super) fn of(
        mut command: &'a Command,
        mut matches: &'a ArgMatches,
        file: Option<&'a SettingsFile>,
    ) -> Self {
        while let Some((name, inner)) = matches.subcommand()
            && let Some(subcommand) = command.find_subcommand(name)
        {
            (command, matches) = (subcommand, inner);
        }
        Self {
            command,
            matches,
            file,
        }
    }

    /// The values of all options.
    pub(super) const fn matches(self) -> &'a ArgMatches {
        self.matches
    }

    /// Whether the option was typed.
    pub(super) fn is_typed(self, id: &str) -> bool {
        self.matches.value_source(id) == Some(ValueSource::CommandLine)
    }

    /// Whether the option was typed or came from a variable. What a settings file says gives way to both.
    pub(super) fn is_given(self, id: &str) -> bool {
        let source = self.matches.value_source(id);
        matches!(
            source,
            Some(ValueSource::CommandLine | ValueSource::EnvVariable)
        )
    }

    /// The error in this option's value, with the place that the value came from, unless it was typed.
    pub(super) fn in_value_of(self, id: &'static str) -> impl Fn(Error) -> Error {
        move |error| match self.elsewhere(id) {
            Some(place) => error.detail(format!("the value comes from {place}")),
            None => error,
        }
    }

    /// The options that came from variables and from the settings file, for errors that come up later.
    pub(super) fn origins(self) -> Origins {
        let of = |arg: &Arg| {
            let id = arg.get_id().as_str();
            let path = self.matches.try_get_one::<PathBuf>(id).ok().flatten();
            Some(ValueOrigin {
                place: self.elsewhere(id)?,
                long: arg.get_long().map(ToOwned::to_owned),
                file: path.map(|path| format!("`{}`", shown(path))),
            })
        };
        Origins(self.command.get_arguments().filter_map(of).collect())
    }

    /// Where the option's value came from, if neither from the command line nor from the program.
    pub(super) fn elsewhere(self, id: &str) -> Option<String> {
        let argument = self
            .command
            .get_arguments()
            .find(|arg| arg.get_id() == id)?;
        match self.matches.value_source(id)? {
            ValueSource::EnvVariable => {
                variable(argument).map(|name| format!("the variable `{name}`"))
            }
            ValueSource::DefaultValue => {
                let (file, long) = (self.file?, argument.get_long()?);
                let setting = file.get(long)?;
                // It may not be in force, as when what was typed excludes it.
                let defaults = argument.get_default_values().iter();
                if !defaults.eq(setting.values.iter().map(String::as_str)) {
                    return None;
                }
                Some(file.place_of(setting))
            }
            _ => None,
        }
    }
}

/// The options whose values came from variables and from the settings file.
#[derive(Debug)]
pub(crate) struct Origins(Vec<ValueOrigin>);

/// An option whose value was not typed.
#[derive(Debug)]
struct ValueOrigin {
    /// Where it came from, in words.
    place: String,
    /// `INPUT` has none.
    long: Option<String>,
    /// As messages show it, if the value is a file: they rarely name its option.
    file: Option<String>,
}

impl Origins {
    /// The error with the origins of all options that it names, and of all files.
    #[must_use]
    pub(crate) fn explain(&self, error: Error) -> Error {
        let message = error.to_string();
        let is_named = |given: &&ValueOrigin| {
            { given.long.as_ref() }.is_some_and(|long| names(&message, long)) || {
                given.file.as_ref()
            }
            .is_some_and(|file| message.contains(file))
        };
        { self.0.iter().filter(is_named) }.fold(error, |error, given| {
            error.detail(given_by(given.long.as_deref(), &given.place))
        })
    }
}

/// Adds to an error of clap the variables that it came from: none, if the same error comes `without` variables.
pub(super) fn explain(
    mut error: clap::Error,
    without: Option<&clap::Error>,
    command: &Command,
    typed: &[OsString],
) -> clap::Error {
    let said = |error: &clap::Error| error.render().to_string();
    if without.is_some_and(|without| said(without) == said(&error)) {
        return error;
    }
    let mut command = command;
    for word in typed.iter().skip(1) {
        command = command.find_subcommand(word).unwrap_or(command);
    }
    let is_about = |arg: &Arg| {
        [ContextKind::InvalidArg, ContextKind::PriorArg]
            .into_iter()
            .any(|kind| matches!(error.get(kind), Some(ContextValue::String(text)) if arg.get_long().is_some_and(|long| names(text, long))))
    };
    let tips: Vec<_> = command
        .get_arguments()
        .filter(|arg| is_about(arg))
        .filter_map(|arg| {
            let variable = variable(arg).filter(|name| std::env::var_os(name).is_some())?;
            let place = format!("the variable `{variable}`");
            Some(given_by(arg.get_long(), &place).into())
        })
        .collect();
    if !tips.is_empty() {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    error
}

/// Adds to an error of clap that comes up only with the settings file where in the file its option is.
pub(super) fn explain_setting(
    mut error: clap::Error,
    command: &Command,
    name: &str,
    file: &SettingsFile,
) -> clap::Error {
    let Some(ContextValue::String(about)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let arguments = command
        .find_subcommand(name)
        .into_iter()
        .flat_map(Command::get_arguments);
    let tips: Vec<_> = arguments
        .filter_map(Arg::get_long)
        .filter(|long| names(about, long))
        .filter_map(|long| {
            let place = file.place_of(file.get(long)?);
            Some(given_by(Some(long), &place).into())
        })
        .collect();
    if !tips.is_empty() {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    error
}

fn given_by(long: Option<&str>, place: &str) -> String {
    let what = long.map_or_else(|| "the input".to_owned(), |long| format!("`--{long}`"));
    format!("{what} comes from {place}")
}

/// The variable of an option.
fn variable(arg: &Arg) -> Option<String> {
    arg.get_env()
        .map(|name| name.to_string_lossy().into_owned())
}

/// Whether a text names the option.
fn names(text: &str, long: &str) -> bool {
    let is_of_name = |c: char| c.is_alphanumeric() || c == '-';
    text.split(|c: char| !is_of_name(c))
        .any(|word| word.strip_prefix("--") == Some(long))
}
