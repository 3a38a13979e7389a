//! What people are told of the command line beside the comments of its options: examples, exit codes, which options fit on the one
//! page of the help, manual pages and completions; and what was meant by a word that is no option or command here. Clap's own
//! suggestions go by the spelling, and a wrong one costs money.

use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::base::text::{display, nearest};
use crate::ledger::without_secrets;

/// The exit codes, as in `docs/reference.md`.
pub(super) const EXIT_CODES: &str = "\
Exit codes:
    0  every row has a verdict and a decision, or failures are accepted
    1  finished, but some rows have no verdict or no decision
    2  wrong usage, settings or input
    3  stopped early; the same command continues
    4  refused by the service
    5  stopped by a limit of yours; after --until or --max-time, the same command continues
   70  internal error
   75  another run holds the output or the ledger: try again later
  129  interrupted by SIGHUP
  130  interrupted by SIGINT (Ctrl-C)
  143  interrupted by SIGTERM";

/// What `-h` and `--help` show of `rescore run`: what most people need, on one page. `--help-all` shows everything.
const COMMON_IN_RUN: &str = "input output sandbox limit only base_url service_id api_key_file map set approve_max review_max \
    concurrency rate max_calls max_cost price max_failures ledger max_age retry_failed overwrite quiet summary";

/// What they show of `rescore check`.
const COMMON_IN_CHECK: &str = "input json output limit only base_url service_id map set default null phone_region invalid \
    price ledger max_age format encoding";

/// What has a variable: that which differs between machines.
const VARIABLES: &str = "\
Variables: RESCORE_BASE_URL, RESCORE_FREE_BASE_URL, RESCORE_SERVICE_ID, RESCORE_API_KEY, RESCORE_API_KEY_FILE, RESCORE_LEDGER, RESCORE_CONFIG and RESCORE_PROFILE stand for the options of these names. All options can be in the settings file.";

const RUN: &str = "\
Examples:
  A whole user base; after an interruption, the same command continues:
    rescore run users.csv -o scored.csv --max-failures 5%
  Every night, paying only for users that are new, changed or not scored for 30 days:
    rescore run users.csv -o scored.csv --overwrite --max-age 30d -q";

const CHECK: &str = "\
Examples:
  What would it cost, and what is wrong with my rows?
    rescore check users.csv --price '0.004 EUR'
  Before the nightly run, with the answers that are already paid for:
    rescore check users.csv -o scored.csv --max-age 30d";

const DECIDE: &str = "\
Examples:
  What would other thresholds do?
    rescore decide scored.csv --what-if
  The same file with other thresholds, and the rows whose decision changes:
    rescore decide scored.csv -o decided.csv --approve-max 3 --review-max 6 --changes changes.csv
  By a level that the run wrote with `--column risk_level=/summary/risk_level`:
    rescore decide scored.csv -o decided.csv --decide-by level=risk_level \\
      --approve-levels 0,low --review-levels 1,medium --block-levels 2,high";

const REPORT: &str = "\
Examples:
  The verdicts of a run, with how the run went:
    rescore report scored.csv --run summary.json -o report.html
  What has changed since last month, and decisions by country:
    rescore report scored.csv --against last-month.csv --key id --by country -o report.html";

/// The command with its texts, and with its most used options alone on the one page.
pub(super) fn with_texts(command: Command) -> Command {
    let (common, examples, codes) = match command.get_name() {
        "run" => (COMMON_IN_RUN, RUN, EXIT_CODES),
        "check" => (COMMON_IN_CHECK, CHECK, ""),
        "decide" => return command.after_help(DECIDE),
        "report" => return command.after_help(REPORT),
        _ => return command,
    };
    let long_help = [examples, VARIABLES, codes].join("\n\n");
    command
        .after_help(format!("{examples}\n\n`--help-all` shows all options."))
        .after_long_help(long_help.trim_end().to_owned())
        .mut_args(|arg| {
            let is_common = common.split_whitespace().any(|id| arg.get_id() == id);
            arg.hide_short_help(!is_common)
        })
}

/// The shells with completions.
pub(super) const SHELLS: &[(&str, Shell)] = &[
    ("bash", Shell::Bash),
    ("fish", Shell::Fish),
    ("zsh", Shell::Zsh),
];

/// The script with which a shell completes commands, options and values.
pub(super) fn completions(shell: Shell, mut command: Command) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "rescore", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// The main manual page.
pub(super) fn man_page(command: Command) -> String {
    let mut page = Vec::new();
    // Writing to memory cannot fail.
    let _ = Man::new(command).render(&mut page);
    String::from_utf8_lossy(&page).into_owned()
}

/// Options and commands of other programs, a line for each meaning: what people type, and after the colon what rescore has
/// instead. An option that pays again says so.
const MEANINGS: &str = include_str!("guesses.txt");

/// Replaces clap's suggestions for arguments that it refuses by those of this file.
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

/// The command line that was meant when a file stands where a command should.
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
fn command(wrong: &str, group: &Command) -> String {
    let names: Vec<_> = group.get_subcommands().map(Command::get_name).collect();
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
    let mut all = MEANINGS.lines().filter_map(|line| line.split_once(": "));
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
        for line in MEANINGS.lines() {
            let (words, meaning) = line.split_once(": ").unwrap();
            assert!(meaning.contains('`') || meaning.contains("again"), "{line}");
            for word in words.split(' ') {
                assert!(known.insert(word), "`{word}` is in two lines");
            }
        }
        assert!(known.len() > 100);
    }
}
