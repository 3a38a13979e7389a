//! The arguments that say which file of rows is read, how it is written, and which of its rows are taken.

use std::io::IsTerminal;
use std::num::NonZeroU64;
use std::path::Path;

use clap::{ArgAction, Args};

use crate::base::error::{Error, Result};
use crate::base::text::TextEncoding;
use crate::config::values::{self, one_of};
use crate::input::{FileSettings, FormatChoice, Input};
use crate::selection::{Condition, Precision, Sample, Selection};

/// Their heading in the help.
pub(super) const FILES: &str = "Files";

/// The words of `--quotes`.
const QUOTES: &[(&str, bool)] = &[("on", true), ("off", false)];
/// The words of `--format`.
const FORMATS: &[(&str, FormatChoice)] = &[
    ("csv", FormatChoice::Csv),
    ("tsv", FormatChoice::Tsv),
    ("jsonl", FormatChoice::Jsonl),
];

// A doc comment would be taken for the help of the command.
#[derive(Debug, Args)]
pub(super) struct FormatArgs {
    /// Format of the input [default: by the file name, or by the first bytes]
    #[arg(long, value_parser = one_of(FORMATS), help_heading = FILES)]
    format: Option<FormatChoice>,
    /// The character between cells, or `tab` [default: found automatically among , ; tab |]
    #[arg(long, value_name = "CHARACTER", value_parser = values::delimiter, help_heading = FILES)]
    delimiter: Option<u8>,
    /// `off` if quotes are ordinary characters, as in what databases write
    #[arg(long, action = ArgAction::Set, value_parser = one_of(QUOTES), default_value = "on", help_heading = FILES)]
    quotes: bool,
    /// Encoding of a CSV or TSV file, as in `windows-1252`, `shift_jis` or `gb18030`; an output of rows has the same
    #[arg(long, default_value = "utf-8", value_parser = TextEncoding::of_label, help_heading = FILES)]
    encoding: TextEncoding,
    /// The file has no header: columns are named by number, as in `--map email=3`; a scored file has the verdict in its last three
    #[arg(long, help_heading = FILES)]
    no_header: bool,
}

impl FormatArgs {
    /// The file with what these arguments say of it.
    ///
    /// # Errors
    /// `--delimiter` for JSONL.
    pub(super) fn file(&self, input: Input) -> Result<FileSettings> {
        if self.format == Some(FormatChoice::Jsonl) && self.delimiter.is_some() {
            return Err(Error::usage(
                "`--delimiter` has no effect with `--format jsonl`",
            ));
        }
        Ok(FileSettings {
            input,
            format: self.format.unwrap_or_default(),
            encoding: self.encoding,
            delimiter: self.delimiter,
            no_header: self.no_header,
            quotes: self.quotes,
        })
    }
}

/// The input that was named: `-` or nothing is standard input, unless that is a terminal, where nobody types a file of users.
///
/// # Errors
/// Nothing was named, and nothing is piped in.
pub(super) fn source(named: Option<&Path>, example: &str) -> Result<Input> {
    match named {
        Some(path) if path != Path::new("-") => Ok(Input::File(path.to_owned())),
        _ if std::io::stdin().is_terminal() => Err(Error::usage("no input")
            .hint(format!("name a file, as in `{example}`, or pipe rows in"))),
        _ => Ok(Input::Stdin),
    }
}

/// Fails if rows would fill the terminal because no option names an output; `-o -` allows it.
pub(super) fn refuse_terminal(output: Option<&Path>, command: &str) -> Result<()> {
    if output.is_none() && std::io::stdout().is_terminal() {
        return Err(
            Error::usage("nothing says where the result goes").hint(format!(
                "`{command}` writes it to a file, and `-o -` to this terminal"
            )),
        );
    }
    Ok(())
}

#[derive(Debug, Args)]
pub(super) struct SelectionArgs {
    /// Take only the first N rows; the same command without it continues
    ///
    /// With `--sample`, the first N rows of the sample. What was paid for is kept and not paid for again.
    #[arg(long, value_name = "N", value_parser = values::count)]
    pub(super) limit: Option<NonZeroU64>,
    /// Take only about this share of the rows, such as `1%`, the same rows each time; or `auto:±1%`
    ///
    /// Rows are drawn by a hash of what is sent, so equal rows are all in the sample or all not. The same command without it
    /// continues, and pays for none of these rows again. `auto:±1%` takes 1% of the rows, then 2%, 4% and so on, until the shares
    /// of `block` and of `review` among all rows are known to one percentage point, with 95% confidence.
    #[arg(long, value_name = "N%|auto:±N%", value_parser = values::sample)]
    sample: Option<(Sample, Option<Precision>)>,
    /// Send only rows with this value, such as `decision=review` (repeatable)
    ///
    /// `decision=review,block` is one of these values, and `country!=DE` any other one. All other rows are written as they are,
    /// with empty cells in the new columns; columns of an earlier run keep their values. `--limit` counts only the rows that are
    /// sent. In JSONL, a JSON pointer reaches nested members.
    #[arg(long, value_name = "COLUMN=VALUE")]
    pub(super) only: Vec<Condition>,
}

impl SelectionArgs {
    /// Whether the sample grows until it tells enough.
    pub(super) fn grows(&self) -> bool {
        self.sample
            .is_some_and(|(_, precision)| precision.is_some())
    }

    /// Which rows are taken.
    pub(super) fn selection(&self) -> Selection {
        let (sample, precision) = self.sample.unzip();
        Selection {
            limit: self.limit,
            sample,
            precision: precision.flatten(),
        }
    }
}
