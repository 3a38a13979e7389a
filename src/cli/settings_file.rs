//! A settings file: the values of options, by name, and in profiles.
//!
//! Parses the text and reports mistakes with their line. It must not know what an option means, or where the text comes from.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::base::error::{Error, Result};
use crate::base::text::{display, quoted};

/// The table that holds the profiles.
const PROFILES: &str = "profile";

/// A settings file that was read.
#[derive(Debug)]
pub(super) struct SettingsFile {
    pub(super) path: PathBuf,
    /// The profile that is in force.
    profile: Option<String>,
    /// Those of all profiles and those outside of profiles.
    pub(super) settings: Vec<Setting>,
}

/// One setting.
#[derive(Debug)]
pub(super) struct Setting {
    /// The option's name, without dashes in front.
    pub(super) key: String,
    /// Its values as they would be typed; more than one only for a list.
    pub(super) values: Vec<String>,
    profile: Option<String>,
    pub(super) line: usize,
}

impl SettingsFile {
    /// Parses the text of the file at `path` and chooses this profile. All profiles are checked, so that a mistake does not wait
    /// for the night that uses one.
    ///
    /// # Errors
    /// Exit code 2: it is not TOML, has no such profile, or has something else than values of options.
    pub(super) fn parse(path: &Path, text: &str, profile: Option<&str>) -> Result<Self> {
        let line = |span: Range<usize>| {
            let before = text.get(..span.start).unwrap_or(text);
            before.matches('\n').count() + 1
        };
        let wrong = |span, what: &str| at(path, line(span), what);
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
    pub(super) fn levels(&self) -> [Vec<&Setting>; 2] {
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

pub(super) fn at(path: &Path, line: usize, what: &str) -> Error {
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
