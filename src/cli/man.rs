//! `rescore man`: manual pages, made from the help.
//!
//! The help has all the text, so each sentence is written once: options come from the arguments, examples and exit codes
//! from what stands below them. This is the only file that names `clap_mangen`. It writes nothing: `commands` does.

use std::io;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};

use super::help::note;
use super::help_notes::HelpNotes;
use crate::base::error::{Error, Result};
use crate::config::ManPage;

// A doc comment would be taken for the help of the command.
#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// Write one page for each command to this directory, which is made if it is missing; without it, the main page is
    /// printed
    #[arg(value_name = "DIR")]
    pub(super) directory: Option<PathBuf>,
}

/// What stands below the options of `rescore man`.
pub(super) const EXAMPLES: &str = "\
Examples:
  Read the main page:
    rescore man | man -l -
  Install all pages, so that `man rescore-run` finds them:
    rescore man ~/.local/share/man/man1";

/// Commands for users, as `man` calls them.
const SECTION: &str = "1";

/// The variables besides those of options, as in `docs/reference.md`.
const VARIABLES: &[(&str, &str)] = &[
    ("RESCORE_API_KEY", "the API key"),
    (
        "CREDENTIALS_DIRECTORY",
        "systemd's credentials; the file `rescore-api-key` in it is the key",
    ),
    (
        "HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY",
        "proxies, also in lower case",
    ),
    (
        "TMPDIR",
        "directory for temporary answers when no ledger is kept",
    ),
    (
        "NO_COLOR, TERM",
        "how progress is drawn; `TERM=dumb` means lines instead of a bar",
    ),
];

/// The files that have a name of their own, as in `docs/reference.md`.
const FILES: &[(&str, &str)] = &[
    (
        "OUTPUT",
        "every row, with `transaction_id`, `risk_score`, `decision` and the `--column` fields",
    ),
    (
        "OUTPUT.rejects.csv or .jsonl",
        "rows without a verdict: `reject_row`, `reject_reason`, `reject_message`, then the row as it was",
    ),
    (
        "OUTPUT.partial and the like",
        "the same files, before they are complete",
    ),
    (
        "rescore.ledger",
        "the paid answers of all runs in the folder",
    ),
    ("OUTPUT.lock", "names the run that is writing the output"),
    (
        "$XDG_CONFIG_HOME/rescore/config.toml or ~/.config/rescore/config.toml",
        "the settings file, unless `--config` or `RESCORE_CONFIG` names another",
    ),
];

/// All pages: the main page first, then one for each command.
///
/// # Errors
/// None that anybody has seen: pages are made in memory.
pub(super) fn pages(command: Command) -> Result<Vec<ManPage>> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add_pages(&command, None, &mut pages)
        .map_err(|error| Error::internal("cannot create the manual pages").because(error))?;
    Ok(pages)
}

/// Adds the page of a command, and those of its subcommands.
fn add_pages(
    command: &Command,
    parent: Option<&Command>,
    pages: &mut Vec<ManPage>,
) -> io::Result<()> {
    pages.push(page(command, parent)?);
    for subcommand in in_order(command) {
        add_pages(subcommand, Some(command), pages)?;
    }
    Ok(())
}

/// The subcommands, as the help lists them.
fn in_order(command: &Command) -> Vec<&Command> {
    let mut commands: Vec<_> = command.get_subcommands().collect();
    commands.sort_by_key(|command| command.get_display_order());
    commands
}

/// The name of a command's page, such as `rescore-run`.
fn page_name(command: &Command) -> &str {
    command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
}

/// The page of a command.
fn page(command: &Command, parent: Option<&Command>) -> io::Result<ManPage> {
    let name = page_name(command).to_owned();
    // An option that only the long help shows would have no text here.
    let shown = { command.clone() }
        .mut_args(|arg| arg.hide_short_help(false))
        .subcommand_help_heading("COMMANDS");
    let man = Man::new(shown)
        .title(name.to_uppercase())
        .section(SECTION)
        // No date: the same version always makes the same pages. The library would leave the argument out.
        .date("\"\"")
        .source(concat!("rescore ", env!("CARGO_PKG_VERSION")))
        .manual("User Commands");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    synopsis(command).to_writer(&mut text)?;
    man.render_description_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    let mut options = Vec::new();
    man.render_options_section(&mut options)?;
    text.extend(grouped(&String::from_utf8_lossy(&options), command).into_bytes());
    notes(command, parent).to_writer(&mut text)?;
    Ok(ManPage {
        file: format!("{name}.{SECTION}"),
        text: marked_up(&String::from_utf8_lossy(&text)),
    })
}

/// How the command is called. The usual list of every option would hide it.
fn synopsis(command: &Command) -> Roff {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    match usage.strip_prefix(name) {
        Some(rest) => roff.text([bold(name), roman(rest)]),
        None => roff.text([roman(usage)]),
    };
    roff
}

/// The groups of options below one heading: each would have a section of its own otherwise.
fn grouped(options: &str, command: &Command) -> String {
    let headings: Vec<_> = { command.get_arguments() }
        .filter_map(clap::Arg::get_help_heading)
        .collect();
    let group = |title: &str| {
        let title = title.trim_matches('"');
        headings
            .iter()
            .find(|heading| heading.to_uppercase() == title)
    };
    let lines = options
        .lines()
        .map(|line| match line.strip_prefix(".SH ").and_then(group) {
            Some(heading) => format!(".SS \"{heading}\"\n"),
            None => format!("{line}\n"),
        });
    lines.collect()
}

/// What stands below the options in the help, in the sections of a manual page.
fn notes(command: &Command, parent: Option<&Command>) -> Roff {
    let help = { command.get_after_long_help() }
        .or_else(|| command.get_after_help())
        .map(ToString::to_string)
        .unwrap_or_default();
    let notes = HelpNotes::of(&help);
    // The main page and that of the command that uses all of them.
    let is_main = parent.is_none() || command.get_name() == "run";
    let mut roff = Roff::new();
    if !notes.exit_codes.is_empty() {
        roff.control("SH", ["EXIT STATUS"]);
        list(&mut roff, notes.exit_codes);
    }
    if is_main || !notes.other.is_empty() {
        roff.control("SH", ["ENVIRONMENT"]);
    }
    // The help of the program itself does not say it.
    let of_options = parent.is_none().then(|| note("RESCORE_"));
    for paragraph in of_options.as_deref().into_iter().chain(notes.other) {
        roff.text([roman(paragraph)]);
    }
    if is_main {
        list(&mut roff, VARIABLES.iter().copied());
        roff.control("SH", ["FILES"]);
        list(&mut roff, FILES.iter().copied());
    }
    if !notes.examples.is_empty() {
        roff.control("SH", ["EXAMPLES"]);
        for (n, example) in notes.examples.into_iter().enumerate() {
            if n > 0 {
                roff.control("PP", []);
            }
            roff.text([roman(example.purpose)]);
            roff.control("PP", []);
            roff.control("EX", []);
            let lines = { example.command.iter() }.map(|line| roman(format!("    {line}")));
            for line in lines {
                roff.text([line]);
            }
            roff.control("EE", []);
        }
    }
    let others: Vec<_> = { parent.into_iter() }.chain(in_order(command)).collect();
    if !others.is_empty() {
        roff.control("SH", ["SEE ALSO"]);
        roff.text(see_also(&others));
    }
    roff
}

/// A list of terms with their meanings.
fn list<'a>(roff: &mut Roff, entries: impl IntoIterator<Item = (&'a str, &'a str)>) {
    for (term, meaning) in entries {
        roff.control("TP", []);
        roff.text([bold(term)]);
        roff.text([roman(meaning)]);
    }
}

/// The names of other pages.
fn see_also(commands: &[&Command]) -> Vec<Inline> {
    let mut text = Vec::new();
    for command in commands {
        if !text.is_empty() {
            text.push(roman(", "));
        }
        text.push(bold(page_name(command)));
        text.push(roman(format!("({SECTION})")));
    }
    text
}

/// The page with what is between backticks in bold, as manual pages show it.
///
/// Empty lines, and breaks beside them, become the space that is meant: formatters warn of them.
fn marked_up(page: &str) -> String {
    const BREAK: &str = ".br\n";
    const SPACE: &str = ".sp\n";
    let mut marked = String::new();
    for line in page.lines() {
        if line.is_empty() {
            let before = marked.strip_suffix(BREAK).unwrap_or(&marked).len();
            marked.truncate(before);
            marked.push_str(SPACE);
            continue;
        }
        if line == BREAK.trim_end() && marked.ends_with(SPACE) {
            continue;
        }
        let is_text = !line.starts_with('.');
        for (n, part) in line.split('`').enumerate() {
            if n > 0 && is_text {
                marked.push_str(if n % 2 == 1 { "\\fB" } else { "\\fR" });
            } else if n > 0 {
                marked.push('`');
            }
            marked.push_str(part);
        }
        marked.push('\n');
    }
    marked
}
