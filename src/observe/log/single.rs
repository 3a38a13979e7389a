//! Lines of a run that could not start: the log of an earlier night says so.

use std::time::SystemTime;

use super::encoder::LogEncoder;
use super::level::LogLevel;
use super::line::LogLine;
use super::sink::LogSink;

/// Adds these lines. What cannot be written is left: there is an error to report already.
pub(crate) fn log_at_once(mut sink: LogSink, level: LogLevel, lines: &[LogLine]) {
    let encoder = LogEncoder::new(level);
    for line in lines {
        encoder.add(SystemTime::now(), line);
    }
    let _ = sink.write(&encoder.take());
}
