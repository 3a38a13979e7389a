//! The ways to show progress, and which one fits the terminal.

use std::io::IsTerminal;

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// A bar that is redrawn in place.
    Bar,
    /// A line at intervals.
    Plain,
    /// A JSON object at intervals.
    Json,
    /// Nothing but warnings.
    Off,
}

impl Style {
    /// A bar on a terminal that can redraw, lines everywhere else.
    #[must_use]
    pub(crate) fn automatic() -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|kind| kind == "dumb");
        if std::io::stderr().is_terminal() && !dumb {
            Self::Bar
        } else {
            Self::Plain
        }
    }
}
