//! How much is logged.

/// The least important lines that are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogLevel {
    /// Only what ended the run.
    Error,
    /// Also warnings, outages and stops.
    Warn,
    /// Also the start, pauses, the pace and the end.
    Info,
    /// Also every call.
    Debug,
}
