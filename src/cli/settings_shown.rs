//! What `rescore config` prints: the settings of `rescore run` that are in force, and where each comes from.
//!
//! The text is itself a settings file. No key is in it, and no password of an address.

use std::ffi::OsStr;
use std::fmt::Write as _;

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::key;
use super::settings_file::SettingsFile;
use super::sources::Sources;
use crate::base::error::{printable, shown};
use crate::config::DEFAULT_CONCURRENCY;

/// The settings of this subcommand, as parsed from no arguments.
pub(super) fn text(command: &Command, matches: &ArgMatches, file: Option<&SettingsFile>) -> String {
    let sources = Sources::of(command, matches, file);
    let mut text = match file {
        Some(file) => format!("# Settings file: {}\n", printable(&file.name())),
        None => "# Settings file: none\n".to_owned(),
    };
    let mut lines = Vec::new();
    for arg in command.get_arguments() {
        let Some(long) = arg.get_long() else { continue };
        if let Some(value) = value(arg, matches) {
            let place = sources.elsewhere(arg.get_id().as_str());
            let place = place.unwrap_or_else(|| "default".to_owned());
            lines.push((format!("{long} = {value}"), place));
        } else if let Some((value, place)) = unless_given(long, matches) {
            lines.push((format!("{long} = \"{value}\""), place.to_owned()));
        }
    }
    let width = lines.iter().map(|(line, _)| line.chars().count()).max();
    let width = width.unwrap_or_default().min(MOST_ALIGNED);
    for (line, place) in lines {
        let _ = writeln!(text, "{line:width$}  # {place}");
    }
    let key = match matches.get_one::<std::path::PathBuf>("api_key_file") {
        Some(path) => format!("in the file `{}`", shown(path)),
        None if is_set(key::VARIABLE) => format!("in the variable `{}`", key::VARIABLE),
        None if is_set("CREDENTIALS_DIRECTORY") => "among systemd's credentials".to_owned(),
        None => "not set".to_owned(),
    };
    let _ = writeln!(text, "# API key: {key}");
    text
}

/// The value of an option that is not given and whose default depends on others or on the system, and where it comes from.
fn unless_given(long: &str, matches: &ArgMatches) -> Option<(String, &'static str)> {
    match long {
        "concurrency" => Some((
            DEFAULT_CONCURRENCY.to_string(),
            "default, or fewer if few files may be open",
        )),
        "rate" if matches.get_flag("sandbox") => {
            Some(("unlimited".to_owned(), "default with `--sandbox`"))
        }
        "rate" => Some(("auto".to_owned(), "default")),
        _ => None,
    }
}

/// The comments stand in one column behind settings up to this width; a long address must not move them off the screen.
const MOST_ALIGNED: usize = 48;

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

/// The value as TOML; `None` if the option has none.
fn value(arg: &Arg, matches: &ArgMatches) -> Option<String> {
    let id = arg.get_id().as_str();
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        return matches.get_flag(id).then(|| "true".to_owned());
    }
    if !arg.get_action().takes_values() {
        return None;
    }
    let values: Vec<_> = matches.get_raw(id)?.map(quoted).collect();
    match (arg.get_action(), values.as_slice()) {
        (_, []) => None,
        (ArgAction::Append, all) => Some(format!("[{}]", all.join(", "))),
        // What is off by default, such as a prefix.
        (_, [one]) if one == "\"\"" => None,
        (_, [one, ..]) => Some(one.clone()),
    }
}

/// A value as a TOML string, without what may be a secret in an address.
fn quoted(value: &OsStr) -> String {
    let value = value.to_string_lossy();
    // JSON's strings are TOML's.
    serde_json::Value::from(without_secrets(&value)).to_string()
}

/// An address without its user name and password, and without a query, where people paste keys. A run refuses both.
fn without_secrets(value: &str) -> String {
    let Some((scheme, rest)) = value.split_once("://") else {
        return value.to_owned();
    };
    // A password may have any character: everything before the last `@` may be one.
    let (login, rest) = match rest.rsplit_once('@') {
        Some((_, rest)) => ("…@", rest),
        None => ("", rest),
    };
    match rest.find(['?', '#']) {
        Some(end) => format!(
            "{scheme}://{login}{}…",
            rest.get(..=end).unwrap_or_default()
        ),
        None => format!("{scheme}://{login}{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::without_secrets;

    #[test]
    fn an_address_is_shown_without_what_may_be_a_secret() {
        for (value, expected) in [
            ("https://api.example.com/x", "https://api.example.com/x"),
            ("https://me:pw@host/x", "https://…@host/x"),
            ("https://me:p/w?@host:1/x", "https://…@host:1/x"),
            ("https://host/x?key=pw", "https://host/x?…"),
            ("https://me:p@w@host/#pw", "https://…@host/#…"),
            ("50/s", "50/s"),
            ("email={name}@example.com", "email={name}@example.com"),
        ] {
            assert_eq!(without_secrets(value), expected);
        }
    }
}
