//! A settings file: the values of options, by name, and in profiles.
//!
//! This reads the text and says what is wrong with it, with line and column. It must not know what an option means, and not
//! where the text comes from.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::base::error::{Error, Result, quoted, shown};

/// The table that holds the profiles.
const PROFILES: &str = "profile";

/// A settings file that was read.
#[derive(Debug)]
pub(super) struct SettingsFile {
    path: PathBuf,
    profile: Option<String>,
    /// What is in force: each key once.
    settings: Vec<Setting>,
    /// Those of the other profiles.
    unused: Vec<Setting>,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    /// The option's name, without dashes in front.
    pub(super) key: String,
    /// Its values; more than one only for a list.
    pub(super) values: Vec<String>,
    /// Whether it is written as a list, for an option that may be repeated.
    pub(super) is_list: bool,
    /// Whether it comes from the profile.
    pub(super) in_profile: bool,
    /// Where it is in the file.
    place: SettingPlace,
}

/// A place in a file, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SettingPlace {
    line: usize,
    column: usize,
}

impl SettingsFile {
    /// Reads the text of the file at `path`, with the settings of this profile before those outside of profiles.
    ///
    /// # Errors
    /// Exit code 2: it is not TOML, has no such profile, or has something else than values of options.
    pub(super) fn parse(path: &Path, text: &str, profile: Option<&str>) -> Result<Self> {
        let text = FileText { path, text };
        let table = DeTable::parse(text.text).map_err(|error| text.not_toml(&error))?;
        let mut file = Self {
            path: path.to_owned(),
            profile: profile.map(ToOwned::to_owned),
            settings: Vec::new(),
            unused: Vec::new(),
        };
        let (mut profiles, mut common) = (None, Vec::new());
        for (key, value) in table.get_ref() {
            match (key.get_ref() == PROFILES, value.get_ref()) {
                (true, DeValue::Table(table)) => profiles = Some(table),
                (true, _) => {
                    return Err(text.wrong(
                        value,
                        "`profile` must be a table, as in `[profile.nightly]`",
                    ));
                }
                (false, DeValue::Table(_)) => return Err(text.no_table(key)),
                (false, _) => common.push(text.setting(key, value, false)?),
            }
        }
        text.profiles(profiles, &mut file)?;
        for setting in common {
            if file.get(&setting.key).is_none() {
                file.settings.push(setting);
            }
        }
        Ok(file)
    }

    /// Its name, for people.
    pub(super) fn name(&self) -> String {
        let path = shown(&self.path);
        match &self.profile {
            Some(profile) => format!("{path}, profile {profile}"),
            None => path,
        }
    }

    /// What is in force, the profile's settings first.
    pub(super) fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// All of the file, also those of other profiles.
    pub(super) fn all(&self) -> impl Iterator<Item = &Setting> {
        self.settings.iter().chain(&self.unused)
    }

    /// The setting of this name.
    pub(super) fn get(&self, key: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.key == key)
    }

    /// Where a setting is, for people.
    pub(super) fn place_of(&self, setting: &Setting) -> String {
        format!("`{}`, line {}", shown(&self.path), setting.place.line)
    }

    /// The error for a setting, with its place.
    pub(super) fn refuses(&self, setting: &Setting, what: &str) -> Error {
        at(&self.path, setting.place, what)
    }
}

/// The text of a settings file, for messages about it.
struct FileText<'a> {
    path: &'a Path,
    text: &'a str,
}

impl<'a> FileText<'a> {
    fn place(&self, span: &Range<usize>) -> SettingPlace {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        SettingPlace {
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
        }
    }

    fn wrong<T>(&self, value: &Spanned<T>, what: &str) -> Error {
        at(self.path, self.place(&value.span()), what)
    }

    /// The message of the parser quotes no line: it may hold a password.
    fn not_toml(&self, error: &toml::de::Error) -> Error {
        let span = error.span().unwrap_or_default();
        at(self.path, self.place(&span), error.message())
    }

    /// Only profiles are tables.
    fn no_table(&self, key: &Spanned<toml::de::DeString<'a>>) -> Error {
        let what = format!("{} is a table", quoted(key.get_ref()));
        self.wrong(key, &what).hint(
            "settings are at the start of the file, or in a profile, as in `[profile.nightly]`",
        )
    }

    /// Reads all profiles: what is wrong in one should not wait for the night that uses it.
    fn profiles(&self, profiles: Option<&DeTable<'a>>, file: &mut SettingsFile) -> Result<()> {
        let all = || profiles.into_iter().flat_map(|profiles| profiles.iter());
        let mut is_found = file.profile.is_none();
        for (name, value) in all() {
            let DeValue::Table(table) = value.get_ref() else {
                return Err(self.wrong(value, "a profile must be a table"));
            };
            let is_chosen = file.profile.as_deref() == Some(name.get_ref());
            is_found |= is_chosen;
            for (key, value) in table {
                let setting = self.setting(key, value, true)?;
                if is_chosen {
                    file.settings.push(setting);
                } else {
                    file.unused.push(setting);
                }
            }
        }
        if is_found {
            return Ok(());
        }
        let names: Vec<_> = all().map(|(name, _)| quoted(name.get_ref())).collect();
        let error = Error::usage(format!(
            "no profile {} in `{}`",
            quoted(file.profile.as_deref().unwrap_or_default()),
            shown(self.path)
        ));
        Err(if names.is_empty() {
            error.hint("a profile is a table, as in `[profile.nightly]`")
        } else {
            error.detail(format!("profiles: {}", names.join(", ")))
        })
    }

    fn setting(
        &self,
        key: &Spanned<toml::de::DeString<'a>>,
        value: &Spanned<DeValue<'a>>,
        in_profile: bool,
    ) -> Result<Setting> {
        let (values, is_list) = match value.get_ref() {
            DeValue::Array(values) => {
                let values: Result<_> = values.iter().map(|value| self.scalar(value)).collect();
                (values?, true)
            }
            _ => (vec![self.scalar(value)?], false),
        };
        Ok(Setting {
            key: key.get_ref().to_string(),
            values,
            is_list,
            in_profile,
            place: self.place(&key.span()),
        })
    }

    /// A value as it would be typed.
    fn scalar(&self, value: &Spanned<DeValue<'a>>) -> Result<String> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Boolean(on) => Ok(on.to_string()),
            DeValue::Integer(number) => Ok(number.to_string()),
            // As written: `2.50` keeps its digits.
            DeValue::Float(number) => Ok(number.to_string()),
            DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => Err(self.wrong(
                value,
                "expected a text, a number, `true`, `false`, or a list of them",
            )),
        }
    }
}

fn at(path: &Path, place: SettingPlace, what: &str) -> Error {
    Error::usage(format!(
        "`{}`, line {}, column {}: {what}",
        shown(path),
        place.line,
        place.column
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn parse(text: &str, profile: Option<&str>) -> Result<SettingsFile> {
        SettingsFile::parse(Path::new("config.toml"), text, profile)
    }

    fn values(file: &SettingsFile) -> Vec<(&str, Vec<&str>)> {
        let settings = file.settings().iter();
        settings
            .map(|setting| {
                let values = setting.values.iter().map(String::as_str).collect();
                (setting.key.as_str(), values)
            })
            .collect()
    }

    const TEXT: &str = "approve-max = 2.50\nrate = '50/s'\nvpn-check = true\n\
                        map = ['ip=last_ip', 'name={first} {last}']\n\n\
                        [profile.nightly]\nrate = '5/s'\nretries = 6\n";

    #[test]
    fn values_are_kept_as_written_and_the_profile_comes_first() {
        let without = parse(TEXT, None).unwrap();
        assert_eq!(
            values(&without),
            [
                ("approve-max", vec!["2.50"]),
                ("map", vec!["ip=last_ip", "name={first} {last}"]),
                ("rate", vec!["50/s"]),
                ("vpn-check", vec!["true"]),
            ]
        );
        let nightly = parse(TEXT, Some("nightly")).unwrap();
        let rate = nightly.get("rate").unwrap();
        assert_eq!(
            (rate.values.as_slice(), rate.in_profile),
            (&["5/s".to_owned()][..], true)
        );
        assert_eq!(nightly.place_of(rate), "`config.toml`, line 7");
        assert_eq!(values(&nightly).len(), 5);
    }

    #[test]
    fn what_is_wrong_is_said_with_line_and_column() {
        for (text, profile, report) in [
            ("rate = \n", None, "`config.toml`, line 1, column 8: "),
            (
                "\n  rate = 2026-01-01\n",
                None,
                "`config.toml`, line 2, column 10: expected a text",
            ),
            (
                "map = [{a = 1}]\n",
                None,
                "line 1, column 8: expected a text",
            ),
            (
                "\n[run]\nrate = '5/s'\n",
                None,
                "line 2, column 2: `run` is a table\n\nhint: settings are at the start",
            ),
            (
                "[profile.a]\n[profile.b]\nrate = [[1]]\n",
                Some("a"),
                "line 3, column 9: expected a text",
            ),
            (
                "profile = 1\n",
                None,
                "line 1, column 11: `profile` must be a table",
            ),
            (
                "[profile]\nnightly = 1\n",
                Some("nightly"),
                "line 2, column 11: a profile must be a table",
            ),
            (
                TEXT,
                Some("nihgtly"),
                "no profile `nihgtly` in `config.toml`\n  profiles: `nightly`",
            ),
            (
                "",
                Some("x"),
                "hint: a profile is a table, as in `[profile.nightly]`",
            ),
        ] {
            let report_of = parse(text, profile).unwrap_err().report();
            assert!(report_of.contains(report), "{report_of}");
        }
    }

    #[test]
    fn a_broken_line_is_not_quoted() {
        let report = parse("base-url = https://me:secret@x\n", None)
            .unwrap_err()
            .report();
        assert!(!report.contains("secret"), "{report}");
    }
}
