//! A settings file: the values of options, by name, and in profiles.
//!
//! This reads the text and says what is wrong with it, with its line. It must not know what an option means, and not where the
//! text comes from.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::base::error::{Error, Result, quoted, shown};

/// The table that holds the profiles.
const PROFILES: &str = "profile";

/// A settings file that was read.
#[derive(Debug)]
pub(super) struct SettingsFile {
    pub(super) path: PathBuf,
    /// What is in force: each key once, the profile's first.
    pub(super) settings: Vec<Setting>,
    /// Those of the other profiles.
    pub(super) others: Vec<Setting>,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    /// The option's name, without dashes in front.
    pub(super) key: String,
    /// Its values as they would be typed; more than one only for a list.
    pub(super) values: Vec<String>,
    pub(super) in_profile: bool,
    pub(super) line: usize,
}

impl SettingsFile {
    /// Reads the text of the file at `path`, with the settings of this profile before those outside of profiles. All profiles
    /// are read: what is wrong in one should not wait for the night that uses it.
    ///
    /// # Errors
    /// Exit code 2: it is not TOML, has no such profile, or has something else than values of options.
    pub(super) fn parse(path: &Path, text: &str, profile: Option<&str>) -> Result<Self> {
        let text = FileText { path, text };
        // The message of the parser quotes no line: it may hold a password.
        let table = DeTable::parse(text.text)
            .map_err(|error| text.wrong(error.span().unwrap_or_default(), error.message()))?;
        let mut names = Vec::new();
        let mut entries = Vec::new();
        for (key, value) in table.get_ref() {
            match value.get_ref() {
                DeValue::Table(profiles) if key.get_ref() == PROFILES => {
                    for (name, value) in profiles {
                        let DeValue::Table(table) = value.get_ref() else {
                            return Err(text.wrong(value.span(), "a profile must be a table"));
                        };
                        let name = name.get_ref().as_ref();
                        names.push(name);
                        entries.extend(table.iter().map(|(key, value)| (Some(name), key, value)));
                    }
                }
                DeValue::Table(_) => {
                    let what = format!("{} is a table", quoted(key.get_ref()));
                    return Err(text
                        .wrong(key.span(), &what)
                        .hint("a profile is a table, as in `[profile.nightly]`"));
                }
                _ => entries.push((None, key, value)),
            }
        }
        if let Some(name) = profile.filter(|name| !names.contains(name)) {
            let error = Error::usage(format!("no profile {} in `{}`", quoted(name), shown(path)));
            let names: Vec<_> = names.into_iter().map(quoted).collect();
            return Err(error.detail(format!("profiles: {}", names.join(", "))));
        }
        // The profile's first.
        entries.sort_by_key(|(of, ..)| of.is_none());
        let (mut settings, mut others) = (Vec::<Setting>::new(), Vec::new());
        for (of, key, value) in entries {
            let setting = text.setting(key, value, of.is_some())?;
            let is_new = settings.iter().all(|there| there.key != setting.key);
            if is_new && (of.is_none() || of == profile) {
                settings.push(setting);
            } else {
                others.push(setting);
            }
        }
        let path = path.to_owned();
        Ok(Self {
            path,
            settings,
            others,
        })
    }

    /// The first value of a setting.
    pub(super) fn first(&self, key: &str) -> Option<&String> {
        let setting = self.settings.iter().find(|setting| setting.key == key)?;
        setting.values.first()
    }
}

/// The text of a settings file, for messages about it.
struct FileText<'a> {
    path: &'a Path,
    text: &'a str,
}

impl FileText<'_> {
    fn line(&self, span: &Range<usize>) -> usize {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        before.matches('\n').count() + 1
    }

    #[allow(clippy::needless_pass_by_value, reason = "spans are made for it")]
    fn wrong(&self, span: Range<usize>, what: &str) -> Error {
        at(self.path, self.line(&span), what)
    }

    fn setting(
        &self,
        key: &Spanned<DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
        in_profile: bool,
    ) -> Result<Setting> {
        let values = match value.get_ref() {
            DeValue::Array(values) => { values.iter() }
                .map(|value| scalar(value.get_ref()))
                .collect(),
            one => scalar(one).map(|value| vec![value]),
        };
        let expected = "expected a text, a number, `true`, `false`, or a list of them";
        Ok(Setting {
            key: key.get_ref().to_string(),
            values: values.ok_or_else(|| self.wrong(value.span(), expected))?,
            in_profile,
            line: self.line(&key.span()),
        })
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
    Error::usage(format!("`{}`, line {line}: {what}", shown(path)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn parse(text: &str, profile: Option<&str>) -> Result<SettingsFile> {
        SettingsFile::parse(Path::new("config.toml"), text, profile)
    }

    const TEXT: &str = "approve-max = 2.50\nrate = '50/s'\nvpn-check = true\n\
                        map = ['ip=last_ip', 'name={first} {last}']\n\n\
                        [profile.nightly]\nrate = '5/s'\nretries = 6\n";

    #[test]
    fn values_are_kept_as_written_and_the_profile_comes_first() {
        let values = |profile| -> Vec<_> {
            let settings = parse(TEXT, profile).unwrap().settings.into_iter();
            settings
                .map(|setting| (setting.key, setting.values.join(" | "), setting.line))
                .collect()
        };
        let setting = |key: &str, value: &str, line| (key.to_owned(), value.to_owned(), line);
        let common = [
            setting("approve-max", "2.50", 1),
            setting("map", "ip=last_ip | name={first} {last}", 4),
            setting("rate", "50/s", 2),
            setting("vpn-check", "true", 3),
        ];
        let [approve, map, rate, vpn] = common.clone();
        assert_eq!(
            values(None),
            [approve.clone(), map.clone(), rate, vpn.clone()]
        );
        let [slow, retries] = [setting("rate", "5/s", 7), setting("retries", "6", 8)];
        assert_eq!(values(Some("nightly")), [slow, retries, approve, map, vpn]);
        assert!(parse(TEXT, Some("nihgtly")).is_err());
    }
}
