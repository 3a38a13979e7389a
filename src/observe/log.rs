//! The log of a run: what happened, as JSON lines at the end of a file, for those who ask later.
//!
//! Lines wait in a [`Queue`], so that a disk that hangs never delays a call: what finds no room is dropped and counted. Lines have row numbers and reason words, never a value of a row and no key. What every
//! row passes through is left out; the last line has its counts. Nothing here says anything to people.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::Value;

use super::numbers::{counted, one_line, utc};
use crate::base::error::system_words;
use crate::base::private_file;
use crate::base::threads::{Queue, lock};
use crate::telemetry::counts::Counts;
use crate::telemetry::event::{CancelReason, Event, PassedOver};
use crate::telemetry::hub::Observer;

/// Lines that may wait to be written: what a fast service causes in half a second.
const MAX_WAITING: usize = 16 * 1024;
/// How every log of rescore starts: nothing is ever added to another file.
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
    /// The number of lines before this one that could not be written.
    LinesLost(u64),
    /// Something happened.
    #[serde(untagged)]
    Event(Event),
}

/// Whether an event is logged. Events that every row causes are not.
fn is_logged(event: &Event) -> bool {
    match event {
        Event::RowsRead { .. }
        | Event::RowAdmitted(_)
        | Event::RowsTaken { .. }
        | Event::AttemptBegan { .. }
        | Event::RowResolved { .. }
        | Event::FailureReplaced { .. }
        | Event::RowPassed(_)
        | Event::RowLeft(_)
        | Event::RowsWritten { .. }
        | Event::DecisionsCompared(_)
        | Event::AgedAnswerUsed { .. } => false,
        Event::AnswerPassedOver { why, .. } => *why == PassedOver::Damaged,
        _ => true,
    }
}

/// The log of the process's run, while there is one.
static LOG: Mutex<Option<Log>> = Mutex::new(None);

/// Starts the log of the run, at the end of this file. A missing one is created.
///
/// # Errors
/// The file cannot be opened, or rescore did not write it.
pub(crate) fn start_log(path: &Path) -> io::Result<()> {
    let mut file = LogFile::open(path)?;
    let missing = Arc::<Mutex<MissingLines>>::default();
    let noted = Arc::clone(&missing);
    let queue = Queue::start("log", move |line| file.write(line, &mut lock(&noted)))?;
    *lock(&LOG) = Some(Log {
        queue,
        dropped: 0,
        missing,
    });
    Ok(())
}

/// Logs a line, which happens now, if the run has a log. It is dropped if too many wait.
pub(crate) fn log_line(line: LogLine) {
    if let Some(log) = &mut *lock(&LOG) {
        log.add(line, MAX_WAITING);
    }
}

/// Ends the log, if there is one, with this line, and waits up to a second until everything is written. Returns a sentence about
/// lines that are missing, if any are.
pub(crate) fn end_log(last: LogLine) -> Option<String> {
    let mut log = lock(&LOG).take()?;
    log.add(last, usize::MAX);
    if !log.queue.flush() {
        return Some("the log lacks its last lines: its disk is too slow".to_owned());
    }
    let MissingLines { lines, why } = &*lock(&log.missing);
    let why = why.as_deref().unwrap_or("its disk is too slow");
    (*lines > 0).then(|| format!("the log lacks {}: {why}", counted(*lines, "line")))
}

/// Logs the events of the run.
pub(crate) struct EventLog;

impl Observer for EventLog {
    fn observe(&mut self, _: Duration, event: &Event, _: &Counts) {
        if is_logged(event) {
            log_line(LogLine::Event(event.clone()));
        }
    }
}

/// Lines on their way to the file.
struct Log {
    /// Lines, and when they happened.
    queue: Queue<(SystemTime, LogLine)>,
    /// Lines that have found no room since the last one that did.
    dropped: u64,
    missing: Arc<Mutex<MissingLines>>,
}

/// The lines that are missing in a log.
#[derive(Default)]
struct MissingLines {
    lines: u64,
    /// The disk's error, if there was one.
    why: Option<String>,
}

impl Log {
    /// Adds a line, unless `most` wait already.
    fn add(&mut self, line: LogLine, most: usize) {
        let put = |line| self.queue.put((SystemTime::now(), line), 1, most);
        if self.dropped > 0 && put(LogLine::LinesLost(self.dropped)) {
            self.dropped = 0;
        }
        if self.dropped > 0 || !put(line) {
            self.dropped += 1;
        }
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
    one_line(&Stamped { timestamp, line }) + "\n"
}

/// An open log file.
struct LogFile {
    file: File,
    /// Its last line is not whole.
    is_torn: bool,
}

impl LogFile {
    fn open(path: &Path) -> io::Result<Self> {
        let mut file = private_file::append(path, MODE, false)?;
        let (mut start, mut last) = (Vec::new(), Vec::new());
        (&file).take(START.len() as u64).read_to_end(&mut start)?;
        if !start.is_empty() {
            // A power cut may leave the start of a line, or bytes of zero.
            if !START.starts_with(&start) && start != [0; START.len()] {
                return Err(io::Error::other(private_file::ForeignFile::CONTENT));
            }
            file.seek(SeekFrom::End(-1))?;
            file.read_to_end(&mut last)?;
        }
        let is_torn = !(last.is_empty() || last == b"\n");
        Ok(Self { file, is_torn })
    }

    /// Writes a line that happened at this time, or notes that it is missing.
    fn write(&mut self, (time, line): (SystemTime, LogLine), missing: &mut MissingLines) {
        if let LogLine::LinesLost(lost) = line {
            missing.lines += lost;
        }
        if let Err(error) = self.append(&text_of(time, &line)) {
            missing.lines += 1;
            missing.why.get_or_insert_with(|| system_words(&error));
        }
    }

    /// Appends a line. A line that a full disk or a kill cut off is ended first.
    fn append(&mut self, line: &str) -> io::Result<()> {
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
mod tests {
    use super::*;
    use crate::row::RowNumber;
    use crate::telemetry::event::{CallEnd, FailureClass, Next};
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
        assert_eq!(text(LogLine::Event(Event::KeyRenewed)), r#"key_renewed"}"#);
        let warning = LogLine::Warning("a\u{202e}b".to_owned());
        assert_eq!(text(warning), r#"warning","data":"a\u202eb"}"#);
    }

    #[test]
    fn lines_without_room_are_counted_in_the_log() {
        let (seen, written) = std::sync::mpsc::channel();
        let mut log = Log {
            queue: Queue::start("log", move |(_, line)| drop(seen.send(line))).unwrap(),
            dropped: 0,
            missing: Arc::default(),
        };
        log.add(LogLine::Event(Event::KeyRenewed), 0);
        log.add(LogLine::Event(Event::KeyRenewed), 0);
        log.add(LogLine::Warning("the last".to_owned()), usize::MAX);
        assert!(log.queue.flush());
        let [first, last] = [written.recv().unwrap(), written.recv().unwrap()];
        assert!(matches!(first, LogLine::LinesLost(2)), "{first:?}");
        assert!(matches!(last, LogLine::Warning(_)), "{last:?}");
    }
}
