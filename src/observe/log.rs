//! The log of a run: what happened, as JSON lines at the end of a file, for those who ask later.
//!
//! An observer puts events into a bounded channel, and a thread of its own writes them, so that a disk that hangs
//! never delays a call: what finds no room is dropped and counted. Lines have row numbers and reason words, never a value of
//! a row and no key. What every row passes through is left out; the last line has its counts.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::Value;

use super::messages::{listen, warn};
use super::numbers::{counted, one_line, utc};
use crate::base::error::system_words;
use crate::base::own_file;
use crate::raw_json::escape_unsafe;
use crate::telemetry::counts::Counts;
use crate::telemetry::event::{CancelReason, Event, PassedOver};
use crate::telemetry::hub::Observer;

/// Lines that may wait to be written: what a fast service causes in half a second.
const MOST_WAITING: u64 = 16 * 1024;
/// How long the last lines may take: a service manager waits.
const LAST_LINES: Duration = Duration::from_secs(1);
/// How a log of ours starts: nothing is ever added to another file.
const START: &[u8] = br#"{"timestamp":""#;
/// Error messages and file names are for its owner alone.
const MODE: u32 = 0o600;

/// A line of the log: an event of the run, or something beside it, such as a warning.
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
        | Event::AgedAnswerUsed { .. } => false,
        Event::AnswerPassedOver { why, .. } => *why == PassedOver::Damaged,
        _ => true,
    }
}

/// What the thread that writes is asked to do.
enum Request {
    Write(SystemTime, LogLine),
    /// No more lines will come. All before this are written when the sender hears of it.
    End(Sender<()>),
}

/// Puts lines into the log; its clones share it.
#[derive(Clone)]
pub(crate) struct LogWriter {
    to: Sender<Request>,
    numbers: Arc<Numbers>,
}

/// Where the lines arrive.
struct LogInbox {
    from: Receiver<Request>,
    numbers: Arc<Numbers>,
}

#[derive(Default)]
struct Numbers {
    /// Lines that are not written yet.
    waiting: AtomicU64,
    /// Lines of the whole run that never will be.
    lost: AtomicU64,
}

/// A log's two ends.
fn log_channel() -> (LogWriter, LogInbox) {
    let ((to, from), numbers) = (channel(), Arc::<Numbers>::default());
    let writer = LogWriter {
        to,
        numbers: numbers.clone(),
    };
    (writer, LogInbox { from, numbers })
}

impl LogWriter {
    /// Logs a line, which happens now. It is dropped if too many wait.
    pub(crate) fn push(&self, line: LogLine) {
        if self.numbers.waiting.load(Ordering::Relaxed) < MOST_WAITING {
            self.send(line);
        } else {
            self.numbers.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn send(&self, line: LogLine) {
        self.numbers.waiting.fetch_add(1, Ordering::Relaxed);
        let _ = self.to.send(Request::Write(SystemTime::now(), line));
    }

    /// Logs the last line, if there is one, and waits until all is written, but no longer than this: the thread may never
    /// come back from a disk that hangs. Returns how many lines of the run are not in the log.
    pub(crate) fn end(&self, last: Option<LogLine>, longest: Duration) -> u64 {
        if let Some(line) = last {
            self.send(line);
        }
        let (done, ended) = channel();
        let _ = self.to.send(Request::End(done));
        let _ = ended.recv_timeout(longest);
        let Numbers { waiting, lost } = &*self.numbers;
        waiting.load(Ordering::Relaxed) + lost.load(Ordering::Relaxed)
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
    pub(crate) fn start(file: LogFile) -> Self {
        let (writer, inbox) = log_channel();
        let thread = std::thread::Builder::new().name("log".to_owned());
        if let Err(error) = thread.spawn(move || write(&inbox, file)) {
            warn(&format!("no log: {}", system_words(&error)));
        }
        let heard_by = writer.clone();
        listen(Some(Box::new(move |kind, words| {
            heard_by.push(match kind {
                "error" => LogLine::Error(words),
                _ => LogLine::Warning(words),
            });
        })));
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
        listen(None);
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
fn write(inbox: &LogInbox, file: LogFile) {
    let mut pen = Pen {
        file,
        numbers: &inbox.numbers,
        reported: 0,
        warned: false,
    };
    // Without a sender there is no more to come.
    while let Ok(request) = inbox.from.recv() {
        pen.report_missing();
        match request {
            Request::Write(time, line) => pen.write(&text_of(time, &line)),
            Request::End(done) => {
                let _ = done.send(());
                return;
            }
        }
    }
}

/// Writes the log, as far as that is possible.
struct Pen<'a> {
    file: LogFile,
    numbers: &'a Numbers,
    /// Of the lost lines, those that the log says it lacks.
    reported: u64,
    /// A failure was said.
    warned: bool,
}

impl Pen<'_> {
    fn write(&mut self, line: &str) {
        if let Err(error) = self.file.write(line) {
            self.numbers.lost.fetch_add(1, Ordering::Relaxed);
            self.warn(&error);
        }
        self.numbers.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Says in the log how many lines are missing before the next one.
    fn report_missing(&mut self) {
        let lost = self.numbers.lost.load(Ordering::Relaxed);
        let line = LogLine::LinesLost(lost - self.reported);
        if lost > self.reported && self.file.write(&text_of(SystemTime::now(), &line)).is_ok() {
            self.reported = lost;
        }
    }

    /// Once is enough: the rows matter more.
    fn warn(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.warned, true) {
            warn(&format!("cannot write the log: {}", system_words(error)));
        }
    }
}

/// An open log file.
#[derive(Debug)]
pub(crate) struct LogFile {
    file: File,
    /// Its last line is not whole.
    is_torn: bool,
}

impl LogFile {
    /// Opens a file to add lines to it. A missing one is created.
    ///
    /// # Errors
    /// It cannot be opened, or it is not a log of ours.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut file = own_file::append(path, MODE, false)?;
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
            file,
            is_torn: !(last.is_empty() || last.ends_with(b"\n")),
        })
    }

    /// Writes a line. What is left of one that a full disk or a kill cut off is a line of its own.
    fn write(&mut self, line: &str) -> io::Result<()> {
        if self.is_torn {
            self.file.write_all(b"\n")?;
        }
        self.is_torn = true;
        self.file.write_all(line.as_bytes())?;
        self.is_torn = false;
        Ok(())
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
        let (writer, inbox) = log_channel();
        for _ in 0..MOST_WAITING + 7 {
            writer.push(LogLine::Warning(String::new()));
        }
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("n.log");
        let file = LogFile::open(&path).unwrap();
        // Nobody reads yet.
        let missing = writer.end(Some(LogLine::Warning(String::new())), Duration::ZERO);
        assert_eq!(missing, MOST_WAITING + 8);
        write(&inbox, file);
        drop(inbox);
        assert_eq!(writer.end(None, Duration::from_secs(60)), 7);
        let text = std::fs::read_to_string(path).unwrap();
        let lost = r#""event":"lines_lost","data":7}"#;
        assert!(text.contains(lost), "7 were dropped");
    }
}
