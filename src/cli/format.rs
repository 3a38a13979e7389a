//! The arguments that say how a file of rows is written. Every command that reads one has them.

use std::io::IsTerminal;
use std::path::Path;

use clap::Args;

use super::choices::FormatArg;
use super::values;
use crate::base::encoding::TextEncoding;
use crate::base::error::{Error, Result};
use crate::input::{FileSettings, FormatChoice, Input};

/// Their heading in the help.
pub(super) const FILES: &str = "Files";

// A doc comment would be taken for the help of the command.
#[derive(Debug, Args)]
pub(super) struct FormatArgs {
    /// Format of the input [default: by the file name, or by the first bytes]
    #[arg(long, value_enum, help_heading = FILES)]
    format: Option<FormatArg>,
    /// The character between cells, or `tab` [default: found automatically among , ; tab |]
    #[arg(long, value_name = "CHARACTER", value_parser = values::delimiter, help_heading = FILES)]
    delimiter: Option<u8>,
    /// Encoding of a CSV or TSV file, as in `windows-1252`, `shift_jis` or `gb18030`; the output has the same
    #[arg(long, default_value = "utf-8", value_parser = values::encoding, help_heading = FILES)]
    encoding: TextEncoding,
    /// The file has no header: its first row is a user, and `--map` takes column numbers, as in `email=3`
    #[arg(long, help_heading = FILES)]
    no_header: bool,
}

impl FormatArgs {
    /// The file with what these arguments say of it.
    ///
    /// # Errors
    /// `--delimiter` for JSONL.
    pub(super) fn file(&self, input: Input) -> Result<FileSettings> {
        if matches!(self.format, Some(FormatArg::Jsonl)) && self.delimiter.is_some() {
            return Err(Error::usage(
                "`--delimiter` has no effect with `--format jsonl`",
            ));
        }
        Ok(FileSettings {
            input,
            format: self.format.map_or(FormatChoice::Detect, Into::into),
            encoding: self.encoding,
            delimiter: self.delimiter,
            no_header: self.no_header,
        })
    }
}

/// The source that was named: `-` or nothing is standard input, unless that is a terminal, where nobody would type users.
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
