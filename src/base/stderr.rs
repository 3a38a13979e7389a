//! The only way to standard error: text that cannot control a terminal, and a picture of a few lines that is redrawn in
//! place. Writing never blocks the caller.
//!
//! A file's or a column's name may contain any character. Where it must not break a line either, such as in a text of
//! several lines, the caller makes it [`printable`].
//!
//! A paused pager, Ctrl-S or a log collector that hangs blocks writes to standard error. So a thread of its own writes, and
//! all others put their texts into a queue.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::base::error::printable;

/// Bytes of progress that may wait to be written: some minutes of it. Later lines are dropped.
const MAX_PROGRESS: usize = 16 * 1024;
/// Bytes that may wait in total. A run writes little besides progress, but it may last for days.
const MAX_TOTAL: usize = 1024 * 1024;
/// How long the last texts may take at the end of the process, because a service manager waits.
const LAST_TEXTS: Duration = Duration::from_secs(1);

static TEXTS: Texts = Texts::new();

/// Writes the text and a line end. Line breaks are ours and stay; everything else that is unsafe to print is escaped.
///
/// A closed standard error must not end a run, and a blocked one must not delay it.
pub(crate) fn say(text: &str) {
    TEXTS.put(Text::Words(safe(text)), MAX_TOTAL);
}

/// Like [`say`], for a line of progress: it is dropped if too many earlier ones still wait to be written.
pub(crate) fn say_progress(line: &str) {
    TEXTS.put(Text::Words(safe(line)), MAX_PROGRESS);
}

/// Draws these lines over those that were drawn before; no lines at all clear them. Each line must fit the terminal.
pub(crate) fn draw(lines: &[String]) {
    let lines: Vec<_> = lines.iter().map(|line| printable(line)).collect();
    TEXTS.put(Text::Picture(lines), MAX_PROGRESS);
}

/// The terminal's width in columns; 80 if it is unknown.
#[must_use]
pub(crate) fn columns() -> u16 {
    let (_, columns) = console::Term::stderr().size();
    columns
}

/// Waits briefly until everything is written; to be called before the process ends.
pub(crate) fn flush() {
    TEXTS.flush(LAST_TEXTS);
}

fn safe(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(printable).collect();
    lines.join("\n") + "\n"
}

/// Something to write.
enum Text {
    /// Lines that stay.
    Words(String),
    /// Lines that are redrawn in place.
    Picture(Vec<String>),
}

/// Clears everything from the start of the line to the end of the screen.
const CLEAR: &str = "\r\x1b[J";

impl Text {
    fn len(&self) -> usize {
        match self {
            Self::Words(words) => words.len(),
            Self::Picture(lines) => lines.iter().map(String::len).sum(),
        }
    }

    /// The bytes to write. `drawn` says whether a picture is on the screen, with the cursor at its start.
    ///
    /// The cursor waits at the start because a terminal that is made narrower may wrap lines, and moves the cursor along with
    /// its line. The other lines are then still below the cursor; only lines that moved to the scroll-back stay. Each line is
    /// cleared before it is drawn, because otherwise tmux remembers that the line was wrapped. One `J` for all lines would
    /// not do: if the picture fills the screen, tmux keeps what a `J` clears.
    fn written(self, drawn: &mut bool) -> String {
        let clear = if *drawn { CLEAR } else { "" };
        *drawn = false;
        match self {
            Self::Words(words) => clear.to_owned() + &words,
            Self::Picture(lines) if lines.is_empty() => clear.to_owned(),
            Self::Picture(lines) => {
                *drawn = true;
                let back = match lines.len() {
                    1 => String::new(),
                    lines => format!("\x1b[{}A", lines - 1),
                };
                format!("\r\x1b[K{}\x1b[J\r{back}", lines.join("\n\x1b[K"))
            }
        }
    }
}

/// The queue, and a signal that it has changed.
struct Texts {
    queue: Mutex<TextQueue>,
    changed: Condvar,
}

/// Texts that wait to be written.
struct TextQueue {
    texts: VecDeque<Text>,
    bytes: usize,
    /// A text is being written.
    writing: bool,
    /// The thread that writes was started.
    started: bool,
}

impl Texts {
    const fn new() -> Self {
        Self {
            queue: Mutex::new(TextQueue {
                texts: VecDeque::new(),
                bytes: 0,
                writing: false,
                started: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, TextQueue> {
        // Nothing panics while it is held.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues the text, unless `most` bytes wait already. Returns whether it did.
    fn put(&'static self, text: Text, most: usize) -> bool {
        let mut queue = self.lock();
        if !queue.started {
            let writer = std::thread::Builder::new().name("stderr".to_owned());
            if writer.spawn(|| self.write(std::io::stderr())).is_err() {
                // Without the thread it is better to block than to stay silent.
                let written = text.written(&mut false);
                return std::io::stderr().write_all(written.as_bytes()).is_ok();
            }
            queue.started = true;
        }
        let is_queued = queue.put(text, most);
        drop(queue);
        self.changed.notify_all();
        is_queued
    }

    /// Writes texts as they come, as long as the process lives.
    fn write(&self, mut to: impl Write) {
        let mut drawn = false;
        loop {
            let idle = |queue: &mut TextQueue| queue.texts.is_empty();
            let queue = self.changed.wait_while(self.lock(), idle);
            let text = queue.unwrap_or_else(PoisonError::into_inner).take();
            // A closed standard error must not end a run.
            let written = text.map(|text| text.written(&mut drawn));
            let _ = to.write_all(written.unwrap_or_default().as_bytes());
            self.lock().writing = false;
            self.changed.notify_all();
        }
    }

    fn flush(&self, longest: Duration) {
        let busy = |queue: &mut TextQueue| queue.writing || !queue.texts.is_empty();
        // What is not written by then is lost.
        let _ = self.changed.wait_timeout_while(self.lock(), longest, busy);
    }
}

impl TextQueue {
    fn put(&mut self, text: Text, most: usize) -> bool {
        // A new picture replaces one that was not drawn yet.
        if let (Text::Picture(_), Some(Text::Picture(_))) = (&text, self.texts.back()) {
            self.texts
                .pop_back()
                .iter()
                .for_each(|old| self.bytes -= old.len());
        }
        let has_room = self.bytes < most;
        if has_room {
            self.bytes += text.len();
            self.texts.push_back(text);
        }
        has_room
    }

    /// Takes the next text to write it.
    fn take(&mut self) -> Option<Text> {
        let text = self.texts.pop_front();
        self.bytes -= text.as_ref().map_or(0, Text::len);
        self.writing = true;
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_stay_and_other_control_characters_are_escaped() {
        assert_eq!(
            safe("wrote a\u{1b}]0;owned\u{7}.csv\r\n  hint: é\u{9b}2J"),
            "wrote a\\u{1b}]0;owned\\u{7}.csv\\r\n  hint: é\\u{9b}2J\n"
        );
    }

    #[test]
    fn a_picture_is_redrawn_in_place_and_cleared_by_words() {
        let picture =
            |lines: &[&str]| Text::Picture(lines.iter().map(|line| (*line).to_owned()).collect());
        let words = |words: &str| Text::Words(words.to_owned());
        let mut drawn = false;
        let mut written = |text: Text| text.written(&mut drawn);
        let two = "\r\u{1b}[Kone\n\u{1b}[Ktwo\u{1b}[J\r\u{1b}[1A";
        assert_eq!(written(words("first\n")), "first\n");
        assert_eq!(written(picture(&["one", "two"])), two);
        assert_eq!(written(picture(&["one", "two"])), two);
        assert_eq!(written(words("said\n")), "\r\u{1b}[Jsaid\n");
        assert_eq!(written(words("again\n")), "again\n");
        assert_eq!(written(picture(&["one", "two"])), two);
        assert_eq!(written(picture(&[])), CLEAR);
        assert_eq!(written(picture(&[])), "");
    }

    #[test]
    fn only_the_latest_picture_waits() {
        let texts = Texts::new();
        let mut queue = texts.lock();
        for second in 0..1_000 {
            queue.put(Text::Picture(vec![second.to_string()]), MAX_PROGRESS);
        }
        assert_eq!((queue.texts.len(), queue.bytes), (1, "999".len()));
    }

    #[test]
    fn while_nobody_reads_progress_is_dropped_first() {
        let texts = Texts::new();
        let mut queue = texts.lock();
        let line = safe(&"x".repeat(99));
        for _ in 0..1_000 {
            queue.put(Text::Words(line.clone()), MAX_PROGRESS);
        }
        assert_eq!(queue.texts.len(), MAX_PROGRESS.div_ceil(100));
        queue.put(Text::Words("the end\n".to_owned()), MAX_TOTAL);
        let last = queue.texts.back();
        assert!(matches!(last, Some(Text::Words(words)) if words == "the end\n"));
        for _ in 0..20_000 {
            queue.put(Text::Words(line.clone()), MAX_TOTAL);
        }
        assert!(queue.bytes < MAX_TOTAL + line.len(), "{}", queue.bytes);
        // Once somebody reads again, there is room again.
        while !queue.texts.is_empty() {
            queue.take();
        }
        assert_eq!(queue.bytes, 0);
    }
}
