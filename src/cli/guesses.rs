//! What people type that is not an option or a command here, and what they mean: clap's own suggestions go by the spelling, and
//! one that is wrong costs money.

use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error};

use crate::base::text::{display, nearest};
use crate::ledger::without_secrets;

/// Options and commands of other programs, a line for each meaning: what people type, and after the colon what rescore has
/// instead. An option that pays again says so.
const MEANT: &str = include_str!("guesses.txt");

/// Replaces clap's suggestions for arguments that it refuses by our own.
pub(super) fn with_meaning(mut error: Error, commands: &Command, typed: &[OsString]) -> Error {
    let wrong = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let meant = match error.kind() {
        ErrorKind::UnknownArgument => {
            let wrong = wrong(ContextKind::InvalidArg).unwrap_or_default();
            if !wrong.starts_with('-') {
                // An address of a database that was not quoted, for instance.
                let shown = ContextValue::String(without_secrets(&wrong));
                error.insert(ContextKind::InvalidArg, shown);
                return error;
            }
            // The usage line names the option that clap takes for the one that is meant.
            for guess in [
                ContextKind::SuggestedArg,
                ContextKind::Suggested,
                ContextKind::Usage,
            ] {
                error.remove(guess);
            }
            let command = typed.get(1).and_then(|word| commands.find_subcommand(word));
            let command = command.unwrap_or(commands);
            let options = command.get_arguments().filter_map(Arg::get_long);
            let name = wrong.split('=').next().unwrap_or_default();
            option(name, options, command.get_name())
        }
        ErrorKind::InvalidSubcommand => {
            let wrong = wrong(ContextKind::InvalidSubcommand).unwrap_or_default();
            error.remove(ContextKind::SuggestedSubcommand);
            error.remove(ContextKind::Suggested);
            let group = typed.get(1).and_then(|word| commands.find_subcommand(word));
            match group {
                None if wrong.contains(['.', '/']) => run_of(&wrong, typed),
                group => command(&wrong, group.unwrap_or(commands)),
            }
        }
        _ => return error,
    };
    error.insert(
        ContextKind::Suggested,
        ContextValue::StyledStrs(vec![meant.into()]),
    );
    error
}

/// The command line that was meant when a file stands in the place of a command.
fn run_of(file: &str, typed: &[OsString]) -> String {
    let words = typed.iter().skip(1).map(Path::new).map(as_typed);
    let words = words.collect::<Vec<_>>();
    let is_output = |word: &String| word.starts_with("-o") || word.starts_with("--output");
    let output = if words.iter().any(is_output) {
        String::new()
    } else {
        format!(" -o {}", output_for("scored", Path::new(file)))
    };
    let words = words.join(" ");
    format!("`rescore run {words}{output}` scores the users of a file")
}

/// The suggestion for an option that a command does not have, out of the `options` that it has.
pub(super) fn option<'a>(
    wrong: &str,
    options: impl Iterator<Item = &'a str>,
    command: &str,
) -> String {
    if let Some(meaning) = meaning(wrong) {
        return meaning.to_owned();
    }
    match nearest(wrong.trim_start_matches('-'), options) {
        Some(nearest) => format!("a similar option exists: '--{nearest}'"),
        None => format!("`rescore {command} --help-all` lists all options"),
    }
}

/// The suggestion for an unknown command among the subcommands of this one.
fn command(wrong: &str, known: &Command) -> String {
    let names: Vec<_> = known.get_subcommands().map(Command::get_name).collect();
    if let Some(meaning) = meaning(wrong) {
        return meaning.to_owned();
    }
    match nearest(wrong, names.iter().copied()) {
        Some(nearest) => format!("a similar command exists: '{nearest}'"),
        None => format!("the commands are {}", names.join(", ")),
    }
}

/// What rescore has instead of this option or command of other programs.
fn meaning(typed: &str) -> Option<&'static str> {
    let mut all = MEANT.lines().filter_map(|line| line.split_once(": "));
    let meant = all.find(|(words, _)| words.split(' ').any(|word| word == typed));
    meant.map(|(_, meaning)| meaning)
}

/// A file as it would be typed in a shell.
pub(super) fn as_typed(path: &Path) -> String {
    let shown = display(path);
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,".contains(c);
    if !shown.is_empty() && shown.chars().all(is_plain) {
        return shown;
    }
    format!("'{}'", shown.replace('\'', "'\\''"))
}

/// The name for the output of this input, in the working directory: `scored.csv`, or with another word in front.
pub(super) fn output_for(word: &str, input: &Path) -> String {
    let name = input
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let extension = name.as_deref().and_then(|name| name.split_once('.'));
    format!(
        "{word}.{}",
        extension.map_or("csv", |(_, extension)| extension)
    )
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_line_has_a_meaning_and_no_word_is_in_two() {
        let mut known = HashSet::new();
        for line in MEANT.lines() {
            let (words, meaning) = line.split_once(": ").unwrap();
            assert!(meaning.contains('`') || meaning.contains("again"), "{line}");
            for word in words.split(' ') {
                assert!(known.insert(word), "`{word}` is in two lines");
            }
        }
        assert!(known.len() > 100);
    }
}
