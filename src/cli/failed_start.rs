//! What can be known of a run whose arguments or settings file are wrong: the files in which its failure is left.
//!
//! clap stops at the first mistake, so the few options that matter here are looked for without it. Nothing is opened; what
//! is in the settings file is passed as text.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::settings::{self, ReadText};
use super::settings_file::SettingsFile;
use crate::config::UnconfiguredRun;

/// The run that these arguments ask for, if they ask for one.
pub(crate) fn unconfigured_run(
    arguments: &[OsString],
    read: ReadText<'_>,
) -> Option<UnconfiguredRun> {
    let typed = of_run(arguments)?;
    let given = |name: &str| {
        let variable = format!("RESCORE_{}", name.to_uppercase());
        value(typed, name).or_else(|| std::env::var_os(variable).filter(|value| !value.is_empty()))
    };
    let profile = given("profile").and_then(|name| name.into_string().ok());
    let file = { given("config").map(PathBuf::from) }
        .or_else(settings::usual)
        .and_then(|path| {
            let text = read(&path).ok().flatten()?;
            SettingsFile::parse(&path, &text, profile.as_deref()).ok()
        });
    let value = |name: &str| {
        let set = || file.as_ref()?.first(name).map(OsString::from);
        value(typed, name).or_else(set)
    };
    let path = |name: &str| {
        let path = value(name).map(PathBuf::from);
        path.filter(|path| path != Path::new("-"))
    };
    Some(UnconfiguredRun {
        output: path("output").or_else(|| path("output-dir")),
        summary: path("summary"),
        metrics: path("metrics"),
        profile,
    })
}

/// Whether arguments ask for JSON on standard error: then even their own errors are reported in it. What a settings file asks
/// for is known only when it has been read.
pub(crate) fn asks_for_json(arguments: &[OsString]) -> bool {
    let progress = of_run(arguments).and_then(|typed| value(typed, "progress"));
    progress.is_some_and(|style| style == "json")
}

/// What is typed after `rescore run`, up to a `--`.
fn of_run(arguments: &[OsString]) -> Option<&[OsString]> {
    match arguments {
        [_, command, typed @ ..] if command == "run" => {
            typed.split(|argument| argument == "--").next()
        }
        _ => None,
    }
}

/// The value that is typed: `--name VALUE`, `--name=VALUE`, and for the output also `-o VALUE` and `-oVALUE`.
fn value(typed: &[OsString], name: &str) -> Option<OsString> {
    let following = typed.iter().skip(1).map(Some).chain([None]);
    typed.iter().zip(following).find_map(|(argument, next)| {
        let argument = argument.to_str()?;
        let short = argument.strip_prefix("-o").filter(|_| name == "output");
        let long = argument
            .strip_prefix("--")
            .and_then(|long| long.strip_prefix(name));
        let is_value =
            |next: &&OsString| *next == "-" || !next.as_encoded_bytes().starts_with(b"-");
        match long.or(short)? {
            "" => next.filter(is_value).cloned(),
            rest => { rest.strip_prefix('=') }.or(short).map(OsString::from),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_in_every_form_and_beside_mistakes() {
        let value_of = |line: &str, name| {
            let words: Vec<_> = line.split(' ').map(OsString::from).collect();
            of_run(&words).and_then(|typed| value(typed, name))
        };
        for line in [
            "rescore run --bogus -o out",
            "rescore run -oout --bogus",
            "rescore run --output out",
            "rescore run a.csv --output=out --",
        ] {
            assert_eq!(value_of(line, "output"), Some("out".into()), "{line}");
        }
        for line in [
            "rescore run --output-dir out",
            "rescore run --output --bogus",
            "rescore run -- --output out",
            "rescore decide --output out",
        ] {
            assert_eq!(value_of(line, "output"), None, "{line}");
        }
    }
}
