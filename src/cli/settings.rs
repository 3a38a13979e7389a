//! Where options get their values from beside the command line: a settings file with profiles, and a few variables.
//!
//! The file's settings become arguments in front of the typed ones, unless the command line or the environment sets them.
//! Mistakes in the file are reported with their line. Nothing is read here: `program` passes the text of the file.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command};
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::help;
use super::service::KEY_VARIABLE;
use crate::base::error::{Error, Result};
use crate::base::text::{display, nearest, printable, quoted};
use crate::config::values;
use crate::ledger::without_secrets;
use crate::verdict::Decision;

/// Options that cannot be in the file: they say which file it is, or ask for help.
const NOT_IN_FILE: [&str; 4] = ["config", "profile", "help", "help-all"];

/// Options that say which files are written. `run` has the same names, and no other command may replace its paid output, so
/// `decide` and `report` take them only from the command line.
const OUTPUT_OPTIONS: [&str; 4] = ["output", "changes", "overwrite", "summary"];

/// Reads a settings file: its text, or `None` if there is none.
pub(crate) type ReadText<'a> = &'a dyn Fn(&Path) -> io::Result<Option<String>>;

// A doc comment would be taken for the help of the command.
#[derive(Debug, Args)]
pub(super) struct SettingsArgs {
    /// Take options from this settings file (TOML) [default: rescore/config.toml in $XDG_CONFIG_HOME or ~/.config, if it
    /// exists]
    #[arg(
        long, value_name = "FILE", env = "RESCORE_CONFIG", value_parser = values::file(), help_heading = "Settings"
    )]
    config: Option<PathBuf>,
    /// Take the options of this profile of the settings file before its others
    #[arg(
        long,
        value_name = "NAME",
        env = "RESCORE_PROFILE",
        help_heading = "Settings"
    )]
    pub(super) profile: Option<String>,
}

/// Whether this option was typed, such as `--rate`.
pub(super) fn is_typed(given: &ArgMatches, option: &str) -> bool {
    let id = option.trim_start_matches('-').replace('-', "_");
    given.value_source(&id) == Some(ValueSource::CommandLine)
}

/// Whether a subcommand takes a settings file.
pub(super) fn takes_settings(command: &Command) -> bool {
    command.get_arguments().any(|arg| arg.get_id() == "config")
}

/// The settings file that is meant, if there is one.
///
/// # Errors
/// Exit code 2: the file cannot be read, is not valid, or does not exist although it was named.
pub(super) fn find(
    commands: &Command,
    given: &ArgMatches,
    read: ReadText<'_>,
) -> Result<Option<SettingsFile>> {
    let named = given.get_one::<PathBuf>("config");
    let profile = given.get_one::<String>("profile").map(String::as_str);
    let path = named.cloned().or_else(default_path);
    let text = path.as_deref().map(|path| {
        read(path).map_err(|cause| {
            Error::usage(format!("cannot read the settings in `{}`", display(path)))
                .because(cause)
                .hint("`--config FILE` names another file")
        })
    });
    if let (Some(path), Some(text)) = (&path, text.transpose()?.flatten()) {
        let file = SettingsFile::parse(path, &text, profile)?;
        refuse_unknown_settings(commands, &file)?;
        return Ok(Some(file));
    }
    match (named, profile) {
        (Some(path), _) => Err(Error::usage(format!(
            "no settings file `{}`",
            display(path)
        ))),
        (None, Some(profile)) => Err(Error::usage(format!(
            "no profile {}: there is no settings file",
            quoted(profile)
        ))
        .hint("name one with `--config FILE`")),
        (None, None) => Ok(None),
    }
}

/// The default path. Never the working directory: another person may have put a file there that sends the key to their host.
fn default_path() -> Option<PathBuf> {
    let absolute = |variable| {
        let path = PathBuf::from(std::env::var_os(variable)?);
        path.is_absolute().then_some(path)
    };
    let base = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(base.join("rescore").join("config.toml"))
}

/// Fails if the file has a key that is not an option of a command that reads it.
fn refuse_unknown_settings(commands: &Command, file: &SettingsFile) -> Result<()> {
    let takers = commands.get_subcommands().filter(|it| takes_settings(it));
    let mut known: Vec<_> = takers
        .flat_map(Command::get_arguments)
        .filter_map(Arg::get_long)
        .collect();
    known.retain(|long| !NOT_IN_FILE.contains(long));
    let mut all = file.settings.iter();
    let Some(setting) = all.find(|setting| !known.contains(&&*setting.key)) else {
        return Ok(());
    };
    let what = format!("unknown setting {}", quoted(&setting.key));
    let option = format!("--{}", setting.key.to_lowercase().replace('_', "-"));
    let meant = help::option(&option, known.into_iter(), "run");
    Err(at_line(&file.path, setting.line, &what).hint(meant))
}

/// Refuses an unknown variable that starts with `RESCORE_`: a mistyped limit would silently have no effect.
///
/// # Errors
/// Exit code 2: there is one.
pub(super) fn refuse_unknown_variables(commands: &Command) -> Result<()> {
    let commands = commands.get_subcommands();
    let options = commands.flat_map(Command::get_arguments);
    let variables = options.filter_map(|arg| arg.get_env()?.to_str());
    let known: Vec<_> = variables.chain([KEY_VARIABLE]).collect();
    let set = std::env::vars_os().filter(|(_, value)| !value.is_empty());
    let names = set.filter_map(|(name, _)| name.into_string().ok());
    let unknown = names.filter(|name| name.starts_with("RESCORE_") && !known.contains(&&**name));
    let Some(name) = unknown.min() else {
        return Ok(());
    };
    let error = Error::usage(format!("the variable {} is unknown", quoted(&name)));
    Err(match nearest(&name, known.into_iter()) {
        Some(nearest) => error.hint(format!("did you mean `{nearest}`?")),
        None => error.hint("unset it: only what differs between machines has a variable, and all options can be typed or in the settings file"),
    })
}

/// The origins of values that were not typed: variables, and a settings file that may have been written long ago.
#[derive(Debug, Default)]
pub(crate) struct Origins(Vec<OptionOrigin>);

/// Where the value of an option comes from.
#[derive(Debug)]
struct OptionOrigin {
    /// The option, such as `--rate`.
    option: String,
    values: Vec<String>,
    /// Such as a variable, or a line of the file.
    source: String,
}

/// The file's settings as arguments of this command, and the origins of all values that were not typed. An option on the command
/// line or in the environment overrides the same setting of the file and every setting that conflicts with it; a profile
/// overrides the rest of the file.
pub(super) fn not_typed(
    command: &Command,
    given: &ArgMatches,
    file: Option<&SettingsFile>,
) -> (Vec<OsString>, Origins) {
    let (mut arguments, mut origins) = (Vec::new(), Vec::new());
    let mut stronger = Vec::new();
    for arg in command.get_arguments() {
        let id = arg.get_id().as_str();
        match given.value_source(id) {
            None | Some(ValueSource::DefaultValue) => continue,
            Some(ValueSource::EnvVariable) => {
                let values = given.get_raw(id).into_iter().flatten();
                let variable = arg.get_env().unwrap_or_default().display();
                origins.push(OptionOrigin {
                    option: format!("--{}", arg.get_long().unwrap_or(id)),
                    values: values.map(|it| it.to_string_lossy().into()).collect(),
                    source: format!("the variable `{variable}`"),
                });
            }
            Some(_) => {}
        }
        stronger.push(arg);
    }
    let only_typed = match command.get_name() {
        "decide" | "report" => &OUTPUT_OPTIONS[..],
        // In the file it is the column of a report.
        "stats" => &["by"],
        _ => &[],
    };
    for level in file.map(SettingsFile::levels).into_iter().flatten() {
        let mut chosen = Vec::new();
        for setting in level {
            let Setting {
                key, values, line, ..
            } = setting;
            // The commands of a ledger have it as an argument.
            let is_meant = |arg: &&Arg| {
                arg.get_long() == Some(key) || arg.is_positional() && arg.get_id() == key.as_str()
            };
            let arg = command.get_arguments().find(is_meant);
            let gives_way = |arg: &&Arg| {
                only_typed.contains(&&**key)
                    || stronger.iter().any(|other| excludes(command, arg, other))
            };
            let Some(arg) = arg.filter(|arg| !gives_way(arg)) else {
                continue;
            };
            chosen.push(arg);
            let is_switch = matches!(arg.get_action(), ArgAction::SetTrue);
            arguments.extend(values.iter().filter_map(|value| match value.as_str() {
                "true" if is_switch => Some(format!("--{key}").into()),
                "false" if is_switch => None,
                value if arg.is_positional() => Some(value.into()),
                value => Some(format!("--{key}={value}").into()),
            }));
            let path = file.map_or_else(String::new, |file| display(&file.path));
            origins.push(OptionOrigin {
                option: format!("--{key}"),
                values: values.clone(),
                source: format!("`{path}`, line {line}"),
            });
        }
        stronger.extend(chosen);
    }
    (arguments, Origins(origins))
}

/// Whether two options are one, or one of them excludes the other.
fn excludes(command: &Command, one: &Arg, other: &Arg) -> bool {
    let conflicts = |a: &Arg, b: &Arg| {
        let of = command.get_arg_conflicts_with(a);
        of.iter().any(|arg| arg.get_id() == b.get_id())
    };
    one.get_id() == other.get_id() || conflicts(one, other) || conflicts(other, one)
}

impl Origins {
    /// The origins of all options that a message names, or whose value it quotes.
    fn of_named_in(&self, message: &str) -> impl Iterator<Item = String> {
        let is_of_name = |c: char| c.is_alphanumeric() || c == '-';
        let has_option =
            move |option: &str| message.split(|c| !is_of_name(c)).any(|it| it == option);
        // Shorter ones, such as `5`, may stand for anything.
        let has_value = move |value: &String| value.len() > 3 && message.contains(&quoted(value));
        let is_named =
            move |it: &&OptionOrigin| has_option(&it.option) || it.values.iter().any(has_value);
        let named = self.0.iter().filter(is_named);
        named.map(|OptionOrigin { option, source, .. }| format!("`{option}` comes from {source}"))
    }

    /// The same for an error of clap.
    pub(super) fn explain_arguments(&self, mut error: clap::Error) -> clap::Error {
        let message = error.render().to_string();
        let origins: Vec<_> = self.of_named_in(&message).map(Into::into).collect();
        if !origins.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(origins));
        }
        error
    }

    /// The error with the origins of all options that it names.
    pub(crate) fn explain(&self, error: Error) -> Error {
        let message = error.report();
        self.of_named_in(&message).fold(error, Error::detail)
    }

    fn source_of(&self, long: &str) -> &str {
        let mut origins = self.0.iter();
        let found = origins.find(|it| it.option.trim_start_matches('-') == long);
        found.map_or("default", |it| it.source.as_str())
    }
}

/// What `rescore config` prints: the settings of `rescore run` that are in force, and where each comes from. The text is
/// itself a settings file. No key is in it, and no password of an address.
pub(super) fn text(
    run: &Command,
    matches: &ArgMatches,
    file: Option<&SettingsFile>,
    origins: &Origins,
) -> String {
    /// The comments stand in one column behind settings up to this width.
    const COMMENT_COLUMN: usize = 48;
    let file = file.map_or("none".to_owned(), |file| display(&file.path));
    let mut text = format!("# Settings file: {}\n", printable(&file));
    for (arg, long) in options_of(run) {
        if let Some(value) = value(arg, matches, without_secrets) {
            let line = format!("{long} = {value}");
            let _ = writeln!(
                text,
                "{line:COMMENT_COLUMN$}  # {}",
                origins.source_of(long)
            );
        }
    }
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let key = match matches.get_one::<PathBuf>("api_key_file") {
        Some(path) => format!("in the file `{}`", display(path)),
        None if is_set(KEY_VARIABLE) => format!("in the variable `{KEY_VARIABLE}`"),
        None if is_set("CREDENTIALS_DIRECTORY") => "among systemd's credentials".to_owned(),
        None => "not set".to_owned(),
    };
    let _ = writeln!(text, "# API key: {key}");
    text
}

/// The options that can be in the file, with their names.
fn options_of(run: &Command) -> impl Iterator<Item = (&Arg, &str)> {
    let named = run
        .get_arguments()
        .filter_map(|arg| Some((arg, arg.get_long()?)));
    named.filter(|(_, long)| !NOT_IN_FILE.contains(long))
}

/// The options of `rescore run` that were given in any way, by name, for the run's summary. Secrets and values of a field or
/// column, such as an email address, are left out. A decision says nothing about a person.
pub(super) fn given(run: &Command, matches: &ArgMatches) -> Value {
    let is_decision = |word: &str| Decision::of_word(word).is_some();
    let is_given =
        |arg: &Arg| matches.value_source(arg.get_id().as_str()) != Some(ValueSource::DefaultValue);
    let all = options_of(run).filter(|(arg, _)| is_given(arg));
    let all = all.filter_map(|(arg, long)| {
        let names = arg.get_value_names().unwrap_or_default();
        let is_value = names.iter().any(|name| name.contains("=VALUE"));
        let redacted = |value: &str| match value.split_once('=') {
            Some((field, values)) if is_value && !values.split(',').all(is_decision) => {
                format!("{field}=…")
            }
            _ => without_secrets(value),
        };
        Some((long.to_owned(), value(arg, matches, redacted)?))
    });
    Value::Object(all.collect())
}

/// The value as JSON, which is TOML as well; `None` if the option has none. `redacted` leaves out secrets and values of people.
fn value(arg: &Arg, matches: &ArgMatches, redacted: impl Fn(&str) -> String) -> Option<Value> {
    let id = arg.get_id().as_str();
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        return matches.get_flag(id).then_some(Value::Bool(true));
    }
    let values = matches
        .get_raw(id)?
        .map(|value| redacted(&value.to_string_lossy()));
    match (arg.get_action(), values.collect::<Vec<_>>()) {
        (ArgAction::Append, all) if !all.is_empty() => Some(all.into()),
        // An empty value, such as no prefix, is the default.
        (_, mut one) => one.pop().filter(|one| !one.is_empty()).map(Value::String),
    }
}

/// The table that holds the profiles.
const PROFILES: &str = "profile";

/// A settings file that was read.
#[derive(Debug)]
pub(super) struct SettingsFile {
    path: PathBuf,
    /// The profile that is in force.
    profile: Option<String>,
    /// Those of all profiles and those outside of profiles.
    settings: Vec<Setting>,
}

/// One setting.
#[derive(Debug)]
struct Setting {
    /// The option's name, without dashes in front.
    key: String,
    /// Its values as they would be typed; more than one only for a list.
    values: Vec<String>,
    profile: Option<String>,
    line: usize,
}

impl SettingsFile {
    /// Parses the text of the file at `path` and chooses this profile. All profiles are checked, so that a mistake does not wait
    /// for the night that uses one.
    ///
    /// # Errors
    /// Exit code 2: it is not TOML, has no such profile, or has something else than values of options.
    fn parse(path: &Path, text: &str, profile: Option<&str>) -> Result<Self> {
        let line = |span: Range<usize>| {
            let before = text.get(..span.start).unwrap_or(text);
            before.matches('\n').count() + 1
        };
        let wrong = |span, what: &str| at_line(path, line(span), what);
        // The message of the parser quotes no line: it may hold a password.
        let table = DeTable::parse(text)
            .map_err(|error| wrong(error.span().unwrap_or_default(), error.message()))?;
        let (mut entries, mut profiles) = (Vec::new(), Vec::new());
        for (key, value) in table.get_ref() {
            match value.get_ref() {
                DeValue::Table(all) if key.get_ref() == PROFILES => {
                    for (name, value) in all {
                        let DeValue::Table(table) = value.get_ref() else {
                            return Err(wrong(value.span(), "a profile must be a table"));
                        };
                        profiles.push(name.get_ref().as_ref());
                        let name = Some(name.get_ref().to_string());
                        entries.extend(table.iter().map(|(key, value)| (name.clone(), key, value)));
                    }
                }
                _ => entries.push((None, key, value)),
            }
        }
        if let Some(name) = profile.filter(|name| !profiles.contains(name)) {
            let error = Error::usage(format!(
                "no profile {} in `{}`",
                quoted(name),
                display(path)
            ));
            let names: Vec<_> = profiles.into_iter().map(quoted).collect();
            return Err(error.detail(format!("profiles: {}", names.join(", "))));
        }
        let setting = |(profile, key, value): (
            _,
            &Spanned<DeString<'_>>,
            &Spanned<DeValue<'_>>,
        )| {
            let values = match value.get_ref() {
                DeValue::Array(values) => values.iter().map(|it| scalar(it.get_ref())).collect(),
                one => scalar(one).map(|value| vec![value]),
            };
            let expected = "expected a text, a number, `true`, `false`, or a list of them; a profile is a table, as in `[profile.nightly]`";
            Ok(Setting {
                key: key.get_ref().to_string(),
                values: values.ok_or_else(|| wrong(value.span(), expected))?,
                profile,
                line: line(key.span()),
            })
        };
        Ok(Self {
            path: path.to_owned(),
            profile: profile.map(ToOwned::to_owned),
            settings: entries.into_iter().map(setting).collect::<Result<_>>()?,
        })
    }

    /// The settings of the profile, and those outside of profiles.
    fn levels(&self) -> [Vec<&Setting>; 2] {
        let of = |profile: &Option<String>| {
            let all = self.settings.iter();
            all.filter(|it| it.profile == *profile).collect()
        };
        match &self.profile {
            Some(_) => [of(&self.profile), of(&None)],
            None => [Vec::new(), of(&None)],
        }
    }
}

/// A value as it would be typed.
fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Boolean(on) => Some(on.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        // As written: `2.50` keeps its digits.
        DeValue::Float(number) => Some(number.to_string()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

/// A mistake in this line of the file.
fn at_line(path: &Path, line: usize, what: &str) -> Error {
    Error::usage(format!("`{}`, line {line}: {what}", display(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_kept_as_written_and_the_profile_comes_first() {
        let text = "approve-max = 2.50\nrate = '50/s'\nvpn-check = true\n\
                    map = ['ip=last_ip', 'name={first} {last}']\n\n\
                    [profile.nightly]\nrate = '5/s'\nretries = 6\n";
        let parse = |profile| SettingsFile::parse(Path::new("config.toml"), text, profile);
        let file = parse(Some("nightly")).unwrap();
        let words = |it: &Setting| format!("{} {} {}", it.line, it.key, it.values.join("|"));
        let all: Vec<_> = file.levels().concat().into_iter().map(words).collect();
        let expected = [
            "7 rate 5/s",
            "8 retries 6",
            "1 approve-max 2.50",
            "4 map ip=last_ip|name={first} {last}",
            "2 rate 50/s",
            "3 vpn-check true",
        ];
        assert_eq!(all, expected);
        assert_eq!(parse(None).unwrap().levels().concat().len(), 4);
        assert!(parse(Some("nihgtly")).is_err());
    }
}
