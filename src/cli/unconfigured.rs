//! What can be known of a run whose arguments, variables or settings file are wrong: the files in which its failure is left.
//!
//! clap stops at the first mistake, so the few options that matter here are looked for without it. Nothing is opened; what
//! is in the settings file is passed as text.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::settings::{self, ReadText};
use super::settings_file::SettingsFile;
use crate::config::UnconfiguredRun;

/// The run that these arguments ask for, if they ask for one.
pub(crate) fn unconfigured_run(
    arguments: &[OsString],
    read: ReadText<'_>,
) -> Option<UnconfiguredRun> {
    let given = Given::of_run(arguments)?;
    let profile = given.text("profile");
    let file = given.settings(profile.as_deref(), read);
    let value = |name: &str| {
        let set = || file.as_ref()?.get(name)?.values.first().map(OsString::from);
        given.value(name).or_else(set)
    };
    let path = |name: &str| {
        let path = value(name).map(PathBuf::from);
        path.filter(|path| path != Path::new("-"))
    };
    Some(UnconfiguredRun {
        output: path("output").or_else(|| path("output-dir")),
        summary: path("summary"),
        metrics: path("metrics"),
        log: path("log"),
        profile,
    })
}

/// Whether arguments or variables ask for JSON on standard error: then even their own errors are reported in it. What a
/// settings file asks for is known only when it has been read.
pub(crate) fn asks_for_json(arguments: &[OsString]) -> bool {
    let progress = Given::of_run(arguments).and_then(|given| given.text("progress"));
    progress.is_some_and(|style| style == "json")
}

/// What is given for `rescore run`, right or wrong.
#[derive(Debug, Clone, Copy)]
struct Given<'a> {
    /// What follows `run`.
    typed: &'a [OsString],
}

impl<'a> Given<'a> {
    /// `None` if the command is another one.
    fn of_run(arguments: &'a [OsString]) -> Option<Self> {
        let typed = match arguments {
            [_, command, typed @ ..] if command == "run" => typed,
            _ => return None,
        };
        // What follows `--` is not an option.
        let typed = typed.split(|argument| argument == "--").next()?;
        Some(Self { typed })
    }

    /// The value of an option that is typed or in its variable.
    fn value(self, name: &str) -> Option<OsString> {
        let variable = || {
            let variable = format!("RESCORE_{}", name.replace('-', "_").to_uppercase());
            std::env::var_os(variable).filter(|value| !value.is_empty())
        };
        self.typed(name).or_else(variable)
    }

    fn text(self, name: &str) -> Option<String> {
        self.value(name)?.into_string().ok()
    }

    /// The value that is typed: `--name VALUE`, `--name=VALUE`, and for the output also `-o VALUE` and `-oVALUE`.
    fn typed(self, name: &str) -> Option<OsString> {
        let following = self.typed.iter().skip(1).map(Some).chain([None]);
        self.typed
            .iter()
            .zip(following)
            .find_map(|(argument, next)| {
                let argument = argument.to_str()?;
                let rest = match (argument.strip_prefix("--"), argument.strip_prefix("-o")) {
                    (Some(long), _) => long.strip_prefix(name)?,
                    (None, Some(rest)) if name == "output" => rest,
                    _ => return None,
                };
                match (rest.strip_prefix('='), rest) {
                    (Some(value), _) => Some(OsString::from(value)),
                    (None, "") => next.filter(|next| is_value(next)).cloned(),
                    (None, joined) if !argument.starts_with("--") => Some(OsString::from(joined)),
                    // Another option, whose name only starts like this one's.
                    (None, _) => None,
                }
            })
    }

    /// The settings file that is named or usual, if it can be read.
    fn settings(self, profile: Option<&str>, read: ReadText<'_>) -> Option<SettingsFile> {
        let named = self.value("config").map(PathBuf::from);
        let path = named.or_else(settings::usual)?;
        let text = read(&path).ok().flatten()?;
        SettingsFile::parse(&path, &text, profile).ok()
    }
}

/// Whether an argument can be the value of the option before it, and not the next option.
fn is_value(argument: &OsStr) -> bool {
    argument == "-" || !argument.as_encoded_bytes().starts_with(b"-")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn arguments(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    fn typed(line: &str, name: &str) -> Option<String> {
        let arguments = arguments(line);
        let value = Given::of_run(&arguments)?.typed(name);
        value.map(|value| value.into_string().unwrap())
    }

    #[test]
    fn a_value_is_found_in_each_form_and_beside_what_is_wrong() {
        for (line, value) in [
            ("rescore run --sumary x --summary s", Some("s")),
            ("rescore run --rate=x --summary=s", Some("s")),
            ("rescore run --summary= ", Some("")),
            ("rescore run --summary - -q", Some("-")),
            ("rescore run --summary --quiet", None),
            ("rescore run --summary", None),
            ("rescore run --summary-file s", None),
            ("rescore run -- --summary s", None),
            ("rescore decide --summary s", None),
            ("rescore", None),
        ] {
            assert_eq!(typed(line, "summary").as_deref(), value, "{line}");
        }
        for line in ["-o out", "-oout", "-o=out", "--output out", "--output=out"] {
            let line = format!("rescore run users.csv {line}");
            assert_eq!(typed(&line, "output").as_deref(), Some("out"), "{line}");
        }
        assert_eq!(typed("rescore run --log-x debug", "log"), None);
        assert_eq!(typed("rescore run --log-x=debug", "log"), None);
    }

    #[test]
    fn what_is_typed_comes_before_the_profile_and_the_profile_before_the_file() {
        const TEXT: &str = "summary = 'a'\nmetrics = 'm'\nlog = 'l'\nbogus = 1\n\
                            [profile.nightly]\nsummary = 'b'\n";
        let read = |_: &Path| Ok(Some(TEXT.to_owned()));
        let run = |line: &str| unconfigured_run(&arguments(line), &read).unwrap();
        let common = run("rescore run --config f --nonsense");
        assert_eq!(common.summary, Some(PathBuf::from("a")));
        assert_eq!(common.metrics, Some(PathBuf::from("m")));
        assert_eq!(common.log, Some(PathBuf::from("l")));
        let profile = run("rescore run --profile nightly --config f");
        assert_eq!(profile.summary, Some(PathBuf::from("b")));
        let typed = run("rescore run --profile nightly --config f --summary=c");
        assert_eq!(typed.summary, Some(PathBuf::from("c")));
        assert_eq!(typed.profile.as_deref(), Some("nightly"));
        // Whose summary it would be is not known.
        let mistyped = run("rescore run --profile nihgtly --config f");
        assert_eq!(mistyped.summary, None);
    }
}
