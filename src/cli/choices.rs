//! Options that take one of a few words: clap lists the words in help, errors and completions.

use clap::ValueEnum;

use crate::fields::InvalidPhone;
use crate::input::FormatChoice;
use crate::observe::Style;

/// `--format`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum FormatArg {
    Csv,
    Tsv,
    Jsonl,
}

impl From<FormatArg> for FormatChoice {
    fn from(format: FormatArg) -> Self {
        match format {
            FormatArg::Csv => Self::Csv,
            FormatArg::Tsv => Self::Tsv,
            FormatArg::Jsonl => Self::Jsonl,
        }
    }
}

/// `--plan`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum PlanArg {
    Paid,
    Free,
}

/// `--invalid-phone`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum PhoneArg {
    /// The row fails
    Reject,
    /// The row is sent without it, provided that it has an email address
    Drop,
}

impl From<PhoneArg> for InvalidPhone {
    fn from(phone: PhoneArg) -> Self {
        match phone {
            PhoneArg::Reject => Self::Reject,
            PhoneArg::Drop => Self::Drop,
        }
    }
}

/// `--progress`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum ProgressArg {
    /// A bar on a terminal, lines elsewhere
    Auto,
    /// A bar, on a terminal only
    Bar,
    /// A line every few seconds
    Plain,
    /// One JSON object per line
    Json,
    /// Nothing between the first lines and the summary but warnings
    Off,
}

impl ProgressArg {
    /// The style. `rows_on_terminal`: the rows themselves go to the terminal, and a bar would be drawn over them.
    pub(super) fn style(self, rows_on_terminal: bool) -> Style {
        match self {
            Self::Auto if rows_on_terminal => Style::Plain,
            Self::Auto => Style::automatic(),
            Self::Bar => Style::Bar,
            Self::Plain => Style::Plain,
            Self::Json => Style::Json,
            Self::Off => Style::Off,
        }
    }
}
