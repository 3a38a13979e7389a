//! The log of a run: what happened, as JSON lines at the end of a file, for those who ask later.
//!
//! An observer puts events into a bounded channel, and a thread of its own writes them, so that a disk that hangs
//! never delays a call: what finds no room is dropped and counted. Lines have row numbers and reason words, never a value of
//! a row and no key. What every row passes through is left out; the last line has its counts.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::mem::take;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::Value;

use super::messages::{Heard, listen, stop_listening, warn};
use super::numbers::{counted, one_line, utc};
use crate::base::error::system_words;
use crate::base::own_file;
use crate::raw_json::escape_unsafe;
use crate::telemetry::counts::Counts;
use crate::telemetry::event::{CancelReason, Event, PassedOver};
use crate::telemetry::hub::Observer;

/// Lines that may wait to be written: what a fast service causes in half a second.
const MOST_WAITING: usize = 16 * 1024;
/// How long lines are gathered, so that the thread does not wake up for each of them. A power cut loses what was logged in
/// this time.
const GATHER: Duration = Duration::from_millis(20);
/// How long the last lines may take: a service manager waits.
const LAST_LINES: Duration = Duration::from_secs(1);
/// Bytes that are written together.
const CHUNK: usize = 64 * 1024;
/// How a log of ours starts: nothing is ever added to another file.
const START: &[u8] = br#"{"timestamp":""#;
/// Error messages and file names are for its owner alone.
const MODE: u32 = 0o600;

/// What can be logged: events, and what is no event of the run's stages.
#[derive(Debug, Serialize)]
#[serde(tag = "event", content = "data", rename_all = "snake_case")]
pub(crate) enum LogLine {
    /// The run starts: which run it is, its files, its inputs and its settings.
    RunStarted(Value),
    /// What people are warned of.
    Warning(String),
    /// What ended the run, or kept it from starting, in the words that people see.
    Error(String),
    /// A second signal ends the run, whatever is in flight.
    StoppedImmediately(CancelReason),
    /// The run has ended.
    RunEnded {
        /// How the process exits.
        exit_code: u8,
        /// Everything that was counted.
        #[serde(flatten)]
        counts: Box<Counts>,
    },
    /// The file was opened again.
    LogReopened,
    /// So many lines before this one could not be written.
    LinesLost(u64),
    /// Something happened.
    #[serde(untagged)]
    Event(Event),
}

/// Whether an event is logged: not those that each row causes.
fn is_logged(event: &Event) -> bool {
    match event {
        Event::RowsRead { .. }
        | Event::RowAdmitted(_)
        | Event::RowsTaken { .. }
        | Event::AttemptBegan { .. }
        | Event::RowResolved { .. }
        | Event::RowLeft(_)
        | Event::RowsWritten { .. }
        | Event::DecisionsCompared(_)
        | Event::LevelsUnknown(_)
        | Event::AgedAnswerUsed { .. } => false,
        Event::AnswerPassedOver { why, .. } => *why == PassedOver::Damaged,
        _ => true,
    }
}

/// Puts lines into the log: a bounded channel, whose clones share it.
#[derive(Clone, Default)]
pub(crate) struct LogWriter(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queue: Mutex<LogQueue>,
    changed: Condvar,
}

/// What waits for the thread that writes.
#[derive(Default)]
struct LogQueue {
    /// The lines with their times.
    lines: VecDeque<(SystemTime, LogLine)>,
    /// Lines after these that found no room.
    dropped: u64,
    /// Lines of the whole run that are not written, or not yet.
    unwritten: u64,
    /// The file is to be opened again.
    reopen: bool,
    /// No more lines will come.
    ended: bool,
    /// There is a thread that has not written the last line yet.
    is_read: bool,
}

impl LogWriter {
    fn lock(&self) -> MutexGuard<'_, LogQueue> {
        // Nothing panics while it is held.
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs a line, which happens now. It is dropped if too many wait.
    pub(crate) fn push(&self, line: LogLine) {
        let mut queue = self.lock();
        queue.unwritten += 1;
        if queue.lines.len() >= MOST_WAITING {
            queue.dropped += 1;
            return;
        }
        queue.lines.push_back((SystemTime::now(), line));
        drop(queue);
        self.0.changed.notify_all();
    }

    /// Has the file opened again, as after it was renamed. Before there is a file, that changes nothing.
    pub(crate) fn reopen(&self) {
        self.lock().reopen = true;
        self.push(LogLine::LogReopened);
    }

    /// Logs the last line, if there is one, and waits until all is written, but no longer than this: the thread may never
    /// come back from a disk that hangs. Returns how many lines of the run are not in the log.
    pub(crate) fn end(&self, last: Option<LogLine>, longest: Duration) -> u64 {
        let mut queue = self.lock();
        queue.unwritten += u64::from(last.is_some());
        queue
            .lines
            .extend(last.map(|line| (SystemTime::now(), line)));
        queue.ended = true;
        let changed = &self.0.changed;
        changed.notify_all();
        let ended = changed.wait_timeout_while(queue, longest, |queue| queue.is_read);
        let (queue, _) = ended.unwrap_or_else(PoisonError::into_inner);
        queue.unwritten
    }

    /// Waits for lines, gathers them for a moment, and takes what has to be done.
    fn take(&self) -> LogQueue {
        let changed = &self.0.changed;
        let is_calm = |queue: &mut LogQueue| !queue.reopen && !queue.ended;
        let idle = |queue: &mut LogQueue| queue.lines.is_empty() && is_calm(queue);
        let queue = changed.wait_while(self.lock(), idle);
        let queue = queue.unwrap_or_else(PoisonError::into_inner);
        let gathered = changed.wait_timeout_while(queue, GATHER, is_calm);
        let (mut queue, _) = gathered.unwrap_or_else(PoisonError::into_inner);
        LogQueue {
            lines: take(&mut queue.lines),
            dropped: take(&mut queue.dropped),
            reopen: take(&mut queue.reopen),
            ended: queue.ended,
            ..LogQueue::default()
        }
    }

    fn set_read(&self, is_read: bool) {
        self.lock().is_read = is_read;
        self.0.changed.notify_all();
    }
}

impl Observer for LogWriter {
    fn observe(&mut self, _: Duration, event: &Event, _: &Counts) {
        if is_logged(event) {
            self.push(LogLine::Event(event.clone()));
        }
    }
}

/// The log of a run. Dropped before its end, it still writes what was logged.
pub(crate) struct RunLog {
    writer: LogWriter,
    ended: bool,
}

impl RunLog {
    /// Starts to write what is logged. A run whose thread cannot be started continues without its log.
    #[must_use]
    pub(crate) fn start(writer: LogWriter, file: LogFile) -> Self {
        writer.set_read(true);
        let (of_thread, heard_by) = (writer.clone(), writer.clone());
        let thread = std::thread::Builder::new().name("log".to_owned());
        let started = thread.spawn(move || write(&of_thread, file));
        if let Err(error) = started {
            warn(&format!("no log: {}", system_words(&error)));
            writer.set_read(false);
        }
        listen(move |heard| {
            heard_by.push(match heard {
                Heard::Error(message) => LogLine::Error(message),
                Heard::Warning(message) => LogLine::Warning(message),
            });
        });
        Self {
            writer,
            ended: false,
        }
    }

    /// What logs the events of the run.
    #[must_use]
    pub(crate) fn writer(&self) -> LogWriter {
        self.writer.clone()
    }

    /// Logs the end of the run, and says if lines are missing.
    pub(crate) fn finish(mut self, last: LogLine) {
        self.end(Some(last));
    }

    fn end(&mut self, last: Option<LogLine>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        stop_listening();
        let missing = self.writer.end(last, LAST_LINES);
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

/// A line of the log. A file's name may contain characters that control the terminal of a reader.
fn text_of(time: SystemTime, line: &LogLine) -> String {
    #[derive(Serialize)]
    struct Stamped<'a> {
        timestamp: String,
        #[serde(flatten)]
        line: &'a LogLine,
    }
    let timestamp = utc(time);
    escape_unsafe(&one_line(&Stamped { timestamp, line })) + "\n"
}

/// Writes until no more lines come.
fn write(writer: &LogWriter, file: LogFile) {
    let mut pen = Pen {
        file,
        missing: 0,
        warned: false,
    };
    loop {
        let waiting = writer.take();
        if waiting.reopen {
            pen.reopen();
        }
        pen.report_missing();
        let (mut text, mut lines) = (String::new(), 0);
        let mut rest = waiting.lines.iter().peekable();
        while let Some((time, line)) = rest.next() {
            text += &text_of(*time, line);
            lines += 1;
            if text.len() >= CHUNK || rest.peek().is_none() {
                let written = pen.write(&take(&mut text), take(&mut lines));
                writer.lock().unwritten -= written;
            }
        }
        pen.missing += waiting.dropped;
        if waiting.ended {
            pen.report_missing();
            return writer.set_read(false);
        }
    }
}

/// Writes the log, as far as that is possible.
struct Pen {
    file: LogFile,
    /// Lines that are missing in the log, which does not say so yet.
    missing: u64,
    /// A failure was said.
    warned: bool,
}

impl Pen {
    /// Writes so many lines. Returns how many of them are written.
    fn write(&mut self, text: &str, lines: u64) -> u64 {
        let (lost, failed) = self.file.write(text.as_bytes());
        self.missing += lost;
        if let Some(error) = failed {
            self.warn("cannot write the log", &error);
        }
        lines.saturating_sub(lost)
    }

    /// Says in the log how many lines are missing before this one.
    fn report_missing(&mut self) {
        if self.missing > 0 {
            let line = LogLine::LinesLost(self.missing);
            let (lost, _) = self
                .file
                .write(text_of(SystemTime::now(), &line).as_bytes());
            self.missing *= lost.min(1);
        }
    }

    fn reopen(&mut self) {
        match LogFile::open(self.file.path.clone()) {
            Ok(opened) => self.file = opened,
            // The old one stays.
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

/// An open log file.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    file: File,
    /// Its last line is not whole.
    is_torn: bool,
}

impl LogFile {
    /// Opens a file to add lines to it. A missing one is created.
    ///
    /// # Errors
    /// It cannot be opened, or it is not a log of ours.
    pub(crate) fn open(path: PathBuf) -> io::Result<Self> {
        let mut file = own_file::append(&path, MODE, false)?;
        let mut start = Vec::new();
        (&file).take(START.len() as u64).read_to_end(&mut start)?;
        if !start.is_empty() && start != START {
            return Err(io::Error::other(own_file::NotOurs::Content));
        }
        let mut last = Vec::new();
        if !start.is_empty() {
            file.seek(SeekFrom::End(-1))?;
            file.read_to_end(&mut last)?;
        }
        Ok(Self {
            path,
            file,
            is_torn: !(last.is_empty() || last.ends_with(b"\n")),
        })
    }

    /// Writes these lines. Returns how many are not whole in the file, and why. What is left of a line that a full disk or a
    /// kill cut off is a line of its own.
    fn write(&mut self, lines: &[u8]) -> (u64, Option<io::Error>) {
        let torn: &[u8] = if self.is_torn { b"\n" } else { b"" };
        for mut rest in [torn, lines] {
            while !rest.is_empty() {
                let failed = match self.file.write(rest) {
                    Ok(0) => io::ErrorKind::WriteZero.into(),
                    Ok(written) => {
                        let (done, left) = rest.split_at(written.min(rest.len()));
                        self.is_torn = !done.ends_with(b"\n");
                        rest = left;
                        continue;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => error,
                };
                let lost = rest.split_inclusive(|byte| *byte == b'\n').count();
                return (lost as u64, Some(failed));
            }
        }
        (0, None)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::row::RowNumber;
    use crate::telemetry::event::{CallEnd, FailureClass, Next};
    use crate::telemetry::pace::Pause;
    use crate::verdict::Reason;

    #[test]
    fn an_event_is_a_line_with_its_numbers() {
        let text = |line| {
            let text = text_of(SystemTime::UNIX_EPOCH, &line);
            let data = text.strip_prefix(r#"{"timestamp":"1970-01-01T00:00:00.000Z","event":""#);
            data.unwrap().trim_end().to_owned()
        };
        let call = CallEnd {
            row: RowNumber::FIRST,
            attempt: 2,
            status: Some(500),
            latency: Duration::from_micros(41_200),
        };
        let failed = Event::AttemptFailed {
            call,
            reason: Reason::ServerError,
            class: FailureClass::Unclear,
            next: Next::Again(Duration::from_millis(380)),
        };
        assert_eq!(
            text(LogLine::Event(failed)),
            r#"attempt_failed","data":{"row":1,"attempt":2,"status":500,"latency_seconds":0.041,"reason":"server_error","class":"C","next":{"again_in_seconds":0.38}}}"#
        );
        let pause = Event::CallsPaused(Pause {
            length: Duration::from_secs(1),
            asked: None,
        });
        assert_eq!(
            text(LogLine::Event(pause)),
            r#"calls_paused","data":{"seconds":1.0,"asked_seconds":null}}"#
        );
        let stopping = Event::CancelBegan(CancelReason::MaxCalls);
        assert_eq!(
            text(LogLine::Event(stopping)),
            r#"cancel_began","data":"max_calls"}"#
        );
        assert_eq!(text(LogLine::Event(Event::KeyRenewed)), r#"key_renewed"}"#);
        let warning = LogLine::Warning("a\u{202e}b".to_owned());
        assert_eq!(text(warning), r#"warning","data":"a\u202eb"}"#);
    }

    #[test]
    fn what_finds_no_room_is_counted_and_nobody_waits() {
        let writer = LogWriter::default();
        for _ in 0..MOST_WAITING + 7 {
            writer.push(LogLine::LogReopened);
        }
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("n.log");
        let file = LogFile::open(path.clone()).unwrap();
        // Nobody reads yet: the end does not wait.
        let missing = writer.end(Some(LogLine::LogReopened), Duration::from_secs(60));
        assert_eq!(missing, MOST_WAITING as u64 + 8);
        write(&writer, file);
        assert_eq!(writer.end(None, Duration::from_secs(60)), 7);
        let text = std::fs::read_to_string(path).unwrap();
        let lost = r#""event":"lines_lost","data":7}"#;
        assert!(text.trim_end().ends_with(lost), "7 were dropped");
    }
}
