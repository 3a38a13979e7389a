//! Where the values of options came from: typed, or from a variable that may have been set long ago and elsewhere.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

use crate::base::error::{Error, shown};

/// A subcommand with what was given for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sources<'a> {
    command: &'a Command,
    matches: &'a ArgMatches,
}

impl<'a> Sources<'a> {
    /// Of the innermost subcommand.
    pub(super) fn of(mut command: &'a Command, mut matches: &'a ArgMatches) -> Self {
        while let Some((name, inner)) = matches.subcommand()
            && let Some(subcommand) = command.find_subcommand(name)
        {
            (command, matches) = (subcommand, inner);
        }
        Self { command, matches }
    }

    /// Whether the option was typed.
    pub(super) fn is_typed(self, id: &str) -> bool {
        self.matches.value_source(id) == Some(ValueSource::CommandLine)
    }

    /// Whether the option was typed or came from a variable.
    pub(super) fn is_given(self, id: &str) -> bool {
        self.is_typed(id) || self.variable(id).is_some()
    }

    /// The error in this option's value, with the variable that the value came from, if any.
    pub(super) fn in_value_of(self, id: &'static str) -> impl Fn(Error) -> Error {
        move |error| match self.variable(id) {
            Some(variable) => {
                error.detail(format!("the value comes from the variable `{variable}`"))
            }
            None => error,
        }
    }

    /// The options that came from variables, for errors that come up later.
    pub(super) fn variables(self) -> Variables {
        let of = |arg: &Arg| {
            let id = arg.get_id().as_str();
            let path = self.matches.try_get_one::<PathBuf>(id).ok().flatten();
            Some(FromVariable {
                variable: self.variable(id)?,
                long: arg.get_long().map(ToOwned::to_owned),
                file: path.map(|path| format!("`{}`", shown(path))),
            })
        };
        Variables(self.command.get_arguments().filter_map(of).collect())
    }

    fn variable(self, id: &str) -> Option<String> {
        let is_used = self.matches.value_source(id) == Some(ValueSource::EnvVariable);
        let argument = self.command.get_arguments().find(|arg| arg.get_id() == id);
        argument.filter(|_| is_used).and_then(variable)
    }
}

/// The options whose values came from variables.
#[derive(Debug)]
pub(crate) struct Variables(Vec<FromVariable>);

/// An option whose value came from a variable.
#[derive(Debug)]
struct FromVariable {
    variable: String,
    /// `INPUT` has none.
    long: Option<String>,
    /// As messages show it, if the value is a file: they rarely name its option.
    file: Option<String>,
}

impl Variables {
    /// The error with the variables of all options that it names, and of all files.
    #[must_use]
    pub(crate) fn explain(&self, error: Error) -> Error {
        let message = error.to_string();
        let is_named = |given: &&FromVariable| {
            { given.long.as_ref() }.is_some_and(|long| names(&message, long)) || {
                given.file.as_ref()
            }
            .is_some_and(|file| message.contains(file))
        };
        { self.0.iter().filter(is_named) }.fold(error, |error, given| {
            error.detail(given_by(given.long.as_deref(), &given.variable))
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
            Some(given_by(arg.get_long(), &variable).into())
        })
        .collect();
    if !tips.is_empty() {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    error
}

fn given_by(long: Option<&str>, variable: &str) -> String {
    let what = long.map_or_else(|| "the input".to_owned(), |long| format!("`--{long}`"));
    format!("{what} comes from the variable `{variable}`")
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
