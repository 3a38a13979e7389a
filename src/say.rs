//! The only way to standard error, except for the progress bar's: text that can do nothing to a terminal, and that nobody
//! waits for.
//!
//! A file name or a column's name may hold any character. What must not break a line either, as a name within a text of
//! several lines, is made [`printable`] by the code that puts it there.
//!
//! A paused pager, Ctrl-S or a collector that hangs stops whoever writes to standard error. So a thread of its own does,
//! and all others leave their texts in a queue.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::printable;

/// Bytes of progress that wait to be written: some minutes of it. Of what comes then the latest line tells all.
const PROGRESS: usize = 16 * 1024;
/// Bytes that wait in all. A run says little besides progress, but it may last for days.
const ALL: usize = 1024 * 1024;
/// What the last texts get. A service manager waits.
const LAST_TEXTS: Duration = Duration::from_secs(1);

static TEXTS: Texts = Texts::new();

/// Writes the text and a line end. Line breaks in it are ours and stay; everything else that steers a terminal is escaped.
///
/// That nobody can read it must not end a run, and that nobody does must not hold it up.
pub fn say(text: &str) {
    TEXTS.put(safe(text), ALL);
}

/// As [`say`], for a line that tells how a run is doing: it is dropped where nobody has read those before it.
pub fn say_progress(line: &str) {
    TEXTS.put(safe(line), PROGRESS);
}

/// Waits until everything is written, but not for long: to be called before the process ends.
pub fn flush() {
    TEXTS.flush(LAST_TEXTS);
}

fn safe(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(printable).collect();
    lines.join("\n") + "\n"
}

/// Texts that wait to be written.
struct Texts {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

struct Waiting {
    texts: VecDeque<String>,
    bytes: usize,
    /// One is being written.
    writing: bool,
    /// There is a thread that writes.
    started: bool,
}

impl Texts {
    const fn new() -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                texts: VecDeque::new(),
                bytes: 0,
                writing: false,
                started: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Nothing panics while it is held.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the text written, unless so many bytes wait already.
    fn put(&'static self, text: String, most: usize) {
        let mut waiting = self.lock();
        if !waiting.started {
            let writer = std::thread::Builder::new().name("words".to_owned());
            if writer.spawn(|| self.write(std::io::stderr())).is_err() {
                // Without a thread to spare it is better to wait than to keep silent.
                let _ = std::io::stderr().write_all(text.as_bytes());
                return;
            }
            waiting.started = true;
        }
        waiting.put(text, most);
        drop(waiting);
        self.changed.notify_all();
    }

    /// Writes what comes, for as long as the process lives.
    fn write(&self, mut to: impl Write) {
        loop {
            let idle = |waiting: &mut Waiting| waiting.texts.is_empty();
            let waited = self.changed.wait_while(self.lock(), idle);
            let text = waited.unwrap_or_else(PoisonError::into_inner).take();
            // That nobody can read it must not end a run.
            let _ = to.write_all(text.as_bytes());
            self.lock().writing = false;
            self.changed.notify_all();
        }
    }

    fn flush(&self, longest: Duration) {
        let busy = |waiting: &mut Waiting| waiting.writing || !waiting.texts.is_empty();
        // What is not written by then is lost: nobody reads it.
        let _ = self.changed.wait_timeout_while(self.lock(), longest, busy);
    }
}

impl Waiting {
    fn put(&mut self, text: String, most: usize) {
        if self.bytes < most {
            self.bytes += text.len();
            self.texts.push_back(text);
        }
    }

    /// The next text, which is being written from now on.
    fn take(&mut self) -> String {
        let text = self.texts.pop_front().unwrap_or_default();
        self.bytes -= text.len();
        self.writing = true;
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_stay_and_nothing_else_that_steers_a_terminal() {
        assert_eq!(
            safe("wrote a\u{1b}]0;owned\u{7}.csv\r\n  hint: é\u{9b}2J"),
            "wrote a\\u{1b}]0;owned\\u{7}.csv\\r\n  hint: é\\u{9b}2J\n"
        );
    }

    #[test]
    fn while_nobody_reads_progress_is_dropped_before_anything_else_is() {
        let texts = Texts::new();
        let mut waiting = texts.lock();
        let line = safe(&"x".repeat(99));
        for _ in 0..1_000 {
            waiting.put(line.clone(), PROGRESS);
        }
        assert_eq!(waiting.texts.len(), PROGRESS.div_ceil(100));
        waiting.put("the end\n".to_owned(), ALL);
        assert_eq!(waiting.texts.back().map(String::as_str), Some("the end\n"));
        for _ in 0..20_000 {
            waiting.put(line.clone(), ALL);
        }
        assert!(waiting.bytes < ALL + line.len(), "{}", waiting.bytes);
        // Once it is read again there is room again.
        while !waiting.texts.is_empty() {
            waiting.take();
        }
        assert_eq!(waiting.bytes, 0);
    }
}
