//! What people type that is not an option or a command here, and what they mean: clap's own suggestions go by the spelling, and
//! one that is wrong costs money.

use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error};

use super::settings::without_secrets;
use crate::base::text::shown;

/// Options of other programs, and what does here what they are for.
const MEANT: &[(&[&str], &str)] = &[
    (
        &["resume", "continue"],
        "a run continues by itself: give the same command again, without this option; nothing that was paid for is paid for again",
    ),
    (
        &["retry"],
        "the same command asks again about rows that failed at no cost; `--retry-failed` also asks again about rows whose call was or may have been billed, and `--retries N` is for calls that fail",
    ),
    (
        &["dry-run"],
        "`rescore check`, with the same arguments in place of `rescore run`, counts what the run would send and cost, without a call; `--sandbox` rehearses the run with made-up scores",
    ),
    (
        &["force"],
        "`--overwrite` replaces existing files, and asks about no row again that is paid for",
    ),
    (
        &["workers", "threads", "parallel"],
        "`--concurrency N` is the maximum number of calls in flight; up to 512, rescore finds by itself how many the service takes",
    ),
    (&["head", "rows"], "`--limit N` takes only the first N rows"),
    (&["url"], "`--base-url URL` is the address of the service"),
    (
        &["key", "token", "api-key"],
        "the API key is never an argument, which others could see: put it into a file for `--api-key-file FILE`, or into the variable `RESCORE_API_KEY`",
    ),
    (
        &["where", "filter"],
        "`--only COLUMN=VALUE` sends only these rows, and passes all others on as they are; `--limit N` and `--sample N%` take a part",
    ),
];

/// Arguments that clap refuses, with what was meant in place of clap's own suggestions.
pub(super) fn with_meaning(mut error: Error, commands: &Command, typed: &[OsString]) -> Error {
    let wrong = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let meant = match error.kind() {
        ErrorKind::UnknownArgument => {
            let wrong = wrong(ContextKind::InvalidArg).unwrap_or_default();
            if !wrong.starts_with("--") {
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
            let name = wrong.trim_start_matches('-').split('=').next();
            option(name.unwrap_or_default(), options, command.get_name())
        }
        ErrorKind::InvalidSubcommand => {
            let is_file = |word: &String| word.contains(['.', '/']);
            let Some(file) = wrong(ContextKind::InvalidSubcommand).filter(is_file) else {
                return error;
            };
            error.remove(ContextKind::SuggestedSubcommand);
            error.remove(ContextKind::Suggested);
            let is_output = |word: &OsString| {
                let word = word.to_string_lossy();
                word.starts_with("-o") || word.starts_with("--output")
            };
            let words: Vec<_> = typed
                .iter()
                .skip(1)
                .map(|word| as_typed(Path::new(word)))
                .collect();
            let output = if typed.iter().any(is_output) {
                String::new()
            } else {
                format!(" -o {}", output_for("scored", Path::new(&file)))
            };
            format!(
                "`rescore run {}{output}` scores the users of a file",
                words.join(" ")
            )
        }
        _ => return error,
    };
    error.insert(
        ContextKind::Suggested,
        ContextValue::StyledStrs(vec![meant.into()]),
    );
    error
}

/// What is meant by an option that a command does not have; these it has.
pub(super) fn option<'a>(
    wrong: &str,
    options: impl Iterator<Item = &'a str>,
    command: &str,
) -> String {
    if let Some((_, meant)) = MEANT.iter().find(|(names, _)| names.contains(&wrong)) {
        return (*meant).to_owned();
    }
    match nearest(wrong, options) {
        Some(nearest) => format!("a similar option exists: '--{nearest}'"),
        None => format!("`rescore {command} --help-all` lists all options"),
    }
}

/// The name that was probably meant.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    /// How alike it must be. Below this, suggestions are noise.
    const ALIKE: f64 = 0.75;
    let like = |known: &str| strsim::normalized_damerau_levenshtein(name, known);
    let nearest = known.max_by(|a, b| like(a).total_cmp(&like(b)))?;
    (like(nearest) >= ALIKE).then_some(nearest)
}

/// A file as it would be typed in a shell.
pub(super) fn as_typed(path: &Path) -> String {
    let shown = shown(path);
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
