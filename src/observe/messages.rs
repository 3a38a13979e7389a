//! Messages beside progress: errors, warnings and notices, in words for people or as JSON objects for programs; and the log of
//! a run, which appends its events as JSON lines to a file, for questions that come later.
//!
//! One form of messages holds for the whole process, because everything in it shares one standard error: a program that reads
//! it must not find a sentence among its objects. Commands write messages only through here; `program` chooses the form.
//!
//! Lines of the log wait in a [`Queue`], so that a disk that hangs never delays a call: a line that finds no room is dropped and
//! counted. They have row numbers and reason words, never a value of a row and no key. Events that every row causes are left
//! out; the last line has their counts.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::Value;

use super::numbers::{counted, one_line, utc};
use crate::base::error::{Error, Exit, system_words};
use crate::base::private_file;
use crate::base::stderr::say;
use crate::base::threads::{Queue, lock};
use crate::telemetry::counts::{Counts, Observer};
use crate::telemetry::event::{CancelReason, Event, PassedOver};

/// Whether a program reads the messages.
static FOR_PROGRAMS: AtomicBool = AtomicBool::new(false);

/// From now on, every message is a JSON object on a line of its own.
pub(crate) fn speak_json() {
    FOR_PROGRAMS.store(true, Ordering::Relaxed);
}

/// Whether every message is a JSON object.
pub(super) fn speaks_json() -> bool {
    FOR_PROGRAMS.load(Ordering::Relaxed)
}

/// Writes the error that ended the command.
pub(crate) fn tell_error(error: &Error) {
    tell_as("error", error);
}

/// Warns in one sentence, which does not start with `warning`.
pub(crate) fn warn(warning: &str) {
    warn_of(&Error::stopped(warning));
}

/// Warns of an error that does not end the command.
pub(crate) fn warn_of(error: &Error) {
    tell_as("warning", error);
}

fn tell_as(kind: &'static str, error: &Error) {
    log_line(match kind {
        "error" => LogLine::Error(error.log_words()),
        _ => LogLine::Warning(error.log_words()),
    });
    let report = error.report();
    let words = report.strip_prefix("error: ").unwrap_or(&report);
    say(&if speaks_json() {
        line(kind, error)
    } else {
        format!("{kind}: {words}")
    });
}

/// Writes what clap does not accept, in clap's own words: the first line says what is wrong, and the others help. Returns how
/// the process exits.
pub(crate) fn tell_usage(text: &str) -> Exit {
    if speaks_json() {
        tell_error(&of_lines(text, "error: "));
    } else {
        say(text.trim_end());
    }
    Exit::Usage
}

/// Writes a notice: neither an error nor a warning.
pub(crate) fn tell(text: &str) {
    if speaks_json() {
        // A program knows this program's name.
        say(&line("notice", &of_lines(text, "rescore: ")));
    } else {
        say(text);
    }
}

/// A message for programs. An `error` ended the command, a `warning` needs attention, and a `notice` is anything else.
fn line(r#type: &'static str, error: &Error) -> String {
    #[derive(Serialize)]
    struct MessageJson<'a> {
        r#type: &'static str,
        /// Only an error ends the command.
        #[serde(skip_serializing_if = "Option::is_none")]
        exit_code: Option<u8>,
        message: &'a str,
        causes: Vec<String>,
        details: &'a [String],
        hint: Option<&'a str>,
    }
    one_line(&MessageJson {
        r#type,
        exit_code: (r#type == "error").then(|| error.exit().code()),
        message: error.message(),
        causes: error.causes(),
        details: error.details(),
        hint: error.hint_text(),
    })
}

fn of_lines(text: &str, prefix: &str) -> Error {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let error = Error::usage(first.strip_prefix(prefix).unwrap_or(first));
    lines.fold(error, |error, line| match line.strip_prefix("tip: ") {
        Some(tip) => error.hint(tip),
        None => error.detail(line),
    })
}

/// Lines that may wait to be written: a fast service causes as many in half a second.
const MAX_WAITING_LINES: usize = 16 * 1024;
/// How every log of rescore starts: nothing is ever added to another file.
const LOG_START: &[u8] = br#"{"timestamp":""#;
/// Error messages and file names are for its owner alone.
const LOG_MODE: u32 = 0o600;

/// A line of the log: an event of the run, or something else, such as a warning.
#[derive(Debug, Serialize)]
#[serde(tag = "event", content = "data", rename_all = "snake_case")]
pub(crate) enum LogLine {
    /// The run starts: which run it is, its files, its inputs and its settings.
    RunStarted(Value),
    /// A warning to people.
    Warning(String),
    /// The error that ended the run, or kept it from starting, in the words for people.
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
        | Event::CallBegan { .. }
        | Event::RowResolved { .. }
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
        log.add(line, MAX_WAITING_LINES);
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
        let mut file = private_file::append(path, LOG_MODE, false)?;
        let (mut start, mut last) = (Vec::new(), Vec::new());
        (&file)
            .take(LOG_START.len() as u64)
            .read_to_end(&mut start)?;
        if !start.is_empty() {
            // A power cut may leave the start of a line, or bytes of zero.
            if !LOG_START.starts_with(&start) && start != [0; LOG_START.len()] {
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
    use insta::assert_snapshot;

    use super::*;
    use crate::row::RowNumber;
    use crate::telemetry::event::{AfterCallKind, CallEnd, FailureClass};
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
        let failed = Event::CallFailed {
            call,
            reason: Reason::ServerError,
            class: FailureClass::Unclear,
            next: AfterCallKind::Again(Duration::from_millis(380)),
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

    #[test]
    fn an_error_and_a_warning_of_one_have_the_same_parts() {
        let error = Error::stopped("cannot write `a\u{202e}b`")
            .because(std::io::Error::other("disk on fire"))
            .detail("120 MB are free")
            .hint("free some space");
        assert_snapshot!(line("error", &error), @r#"{"type":"error","exit_code":3,"message":"cannot write `a\u202eb`","causes":["disk on fire"],"details":["120 MB are free"],"hint":"free some space"}"#);
        assert_snapshot!(line("warning", &error), @r#"{"type":"warning","message":"cannot write `a\u202eb`","causes":["disk on fire"],"details":["120 MB are free"],"hint":"free some space"}"#);
    }

    #[test]
    fn a_text_of_several_lines_is_one_object() {
        assert_snapshot!(line("notice", &of_lines("rescore: stopped immediately\n         the ledger stays", "rescore: ")), @r#"{"type":"notice","message":"stopped immediately","causes":[],"details":["the ledger stays"],"hint":null}"#);
        let text =
            "error: unexpected argument '--progres' found\n\n  tip: a similar argument exists\n";
        let error = of_lines(text, "error: ");
        assert_snapshot!(line("error", &error), @r#"{"type":"error","exit_code":2,"message":"unexpected argument '--progres' found","causes":[],"details":[],"hint":"a similar argument exists"}"#);
    }
}
