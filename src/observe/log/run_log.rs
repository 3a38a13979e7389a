//! The log of one run, from its first line to its last.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::encoder::LogEncoder;
use super::end::RunEnded;
use super::level::LogLevel;
use super::line::LogLine;
use super::observer::LogObserver;
use super::queue::LogQueue;
use super::sink::LogSink;
use crate::base::error::system_words;
use crate::observe::messages::{Heard, listen, stop_listening, warn};
use crate::observe::numbers::counted;

/// How long the last lines may take: a service manager waits.
const LAST_LINES: Duration = Duration::from_secs(1);
/// Bytes that are written together.
const CHUNK: usize = 64 * 1024;

/// The log of a run. Dropped before its end, it still writes what was logged.
pub(crate) struct RunLog {
    queue: LogQueue,
    level: LogLevel,
    ended: bool,
}

impl RunLog {
    /// Starts to write what is pushed into the queue. A run whose thread cannot be started continues without its log.
    #[must_use]
    pub(crate) fn start(queue: LogQueue, sink: LogSink, level: LogLevel) -> Self {
        queue.begin();
        let lines = queue.clone();
        let thread = std::thread::Builder::new().name("log".to_owned());
        let started = thread.spawn(move || write(&lines, sink, level));
        if let Err(error) = started {
            warn(&format!("no log: {}", system_words(&error)));
            queue.over();
        }
        let said = queue.clone();
        listen(move |heard| {
            said.push(match heard {
                Heard::Error(message) => LogLine::Error(message),
                Heard::Warning(message) => LogLine::Warning(message),
            });
        });
        Self {
            queue,
            level,
            ended: false,
        }
    }

    /// Logs a line.
    pub(crate) fn push(&self, line: LogLine) {
        self.queue.push(line);
    }

    /// What logs the events of the run.
    #[must_use]
    pub(crate) fn observer(&self, files: Vec<Arc<str>>) -> LogObserver {
        LogObserver::new(self.queue.clone(), self.level, files)
    }

    /// Logs the end of the run, and says if lines are missing.
    pub(crate) fn finish(mut self, end: RunEnded) {
        self.end(Some(LogLine::RunEnded(Box::new(end))));
    }

    fn end(&mut self, last: Option<LogLine>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        stop_listening();
        let missing = self.queue.end(last, LAST_LINES);
        if missing > 0 {
            let lines = counted(missing, "line");
            warn(&format!(
                "the log lacks {lines} that could not be written in time"
            ));
        }
    }
}

impl Drop for RunLog {
    fn drop(&mut self) {
        self.end(None);
    }
}

/// Writes until no more lines come.
fn write(queue: &LogQueue, sink: LogSink, level: LogLevel) {
    let mut pen = Pen {
        encoder: LogEncoder::new(level),
        sink,
        missing: 0,
        warned: false,
    };
    loop {
        let batch = queue.take();
        if batch.reopen {
            pen.reopen();
        }
        pen.report_missing();
        let mut lines = 0;
        for (time, line) in &batch.lines {
            pen.encoder.add(*time, line);
            lines += 1;
            if pen.encoder.len() >= CHUNK {
                queue.written(pen.write(std::mem::take(&mut lines)));
            }
        }
        queue.written(pen.write(lines));
        pen.missing += batch.dropped;
        if batch.ended {
            pen.report_missing();
            queue.over();
            return;
        }
    }
}

/// Writes the log, as far as that is possible.
struct Pen {
    encoder: LogEncoder,
    sink: LogSink,
    /// Lines that are missing in the log, which does not say so yet.
    missing: u64,
    /// A failure was said.
    warned: bool,
}

impl Pen {
    /// Writes what the encoder has of this many lines. Returns how many of them are done with.
    fn write(&mut self, lines: u64) -> u64 {
        let (lost, written) = self.sink.write(&self.encoder.take());
        self.missing += lost;
        if let Err(error) = written {
            self.warn("cannot write the log", &error);
        }
        lines.saturating_sub(lost)
    }

    /// Says in the log how many lines are missing before this one.
    fn report_missing(&mut self) {
        if self.missing == 0 {
            return;
        }
        let line = LogLine::LinesLost(self.missing);
        self.encoder.add(SystemTime::now(), &line);
        if self.sink.write(&self.encoder.take()).0 == 0 {
            self.missing = 0;
        }
    }

    /// Opens the file again.
    fn reopen(&mut self) {
        match self.sink.reopen() {
            Ok(true) => self.encoder.add(SystemTime::now(), &LogLine::LogReopened),
            Ok(false) => {}
            Err(error) => self.warn("cannot open the log again", &error),
        }
    }

    /// Once is enough: the rows matter more.
    fn warn(&mut self, what: &str, error: &io::Error) {
        if !std::mem::replace(&mut self.warned, true) {
            warn(&format!("{what}: {}", system_words(error)));
        }
    }
}
