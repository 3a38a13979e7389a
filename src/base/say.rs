//! The only way to standard error: text that can do nothing to a terminal, and a picture of a few lines that is drawn over.
//! Nobody waits for either.
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

use crate::base::error::printable;

/// Bytes of progress that wait to be written: some minutes of it. Of what comes then the latest line tells all.
const PROGRESS: usize = 16 * 1024;
/// Bytes that wait in all. A run says little besides progress, but it may last for days.
const ALL: usize = 1024 * 1024;
/// What the last texts get. A service manager waits.
const LAST_TEXTS: Duration = Duration::from_secs(1);

static TEXTS: Texts = Texts::new();

/// Writes the text and a line end. Line breaks in it are ours and stay; everything else that is unsafe to print is escaped.
///
/// That nobody can read it must not end a run, and that nobody does must not hold it up.
pub(crate) fn say(text: &str) {
    TEXTS.put(Text::Words(safe(text)), ALL);
}

/// As [`say`], for a line that tells how a run is doing: it is dropped where nobody has read those before it.
pub(crate) fn say_progress(line: &str) {
    TEXTS.put(Text::Words(safe(line)), PROGRESS);
}

/// Draws these lines in place of those that were drawn before, if nothing was said since; none at all clears them. Each must
/// fit the terminal.
pub(crate) fn draw(lines: &[String]) {
    let lines: Vec<_> = lines.iter().map(|line| printable(line)).collect();
    TEXTS.put(Text::Picture(lines), PROGRESS);
}

/// How many columns there are to draw in: 80 where the terminal does not tell it.
#[must_use]
pub(crate) fn columns() -> u16 {
    let (_, columns) = console::Term::stderr().size();
    columns
}

/// Waits until everything is written, but not for long: to be called before the process ends.
pub(crate) fn flush() {
    TEXTS.flush(LAST_TEXTS);
}

fn safe(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(printable).collect();
    lines.join("\n") + "\n"
}

/// What waits to be written.
enum Text {
    /// Some lines that stay.
    Words(String),
    /// Lines that are drawn over.
    Picture(Vec<String>),
}

/// From the beginning of the line on, everything is cleared.
const CLEAR: &str = "\r\x1b[J";

impl Text {
    fn len(&self) -> usize {
        match self {
            Self::Words(words) => words.len(),
            Self::Picture(lines) => lines.iter().map(String::len).sum(),
        }
    }

    /// What is written where `drawn` says whether a picture is on the screen, and the cursor at its beginning: when a
    /// terminal is made narrower it may wrap lines, and the cursor goes with its line. Whatever became of the others, they
    /// are below it; only what has moved to the scroll-back stays. Each line is cleared before it is drawn, as tmux remembers
    /// of others that they were wrapped, and not all of them with one `J`: of a whole screen, tmux keeps what that clears.
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

/// Texts that wait to be written.
struct Texts {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

struct Waiting {
    texts: VecDeque<Text>,
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
    fn put(&'static self, text: Text, most: usize) {
        let mut waiting = self.lock();
        if !waiting.started {
            let writer = std::thread::Builder::new().name("words".to_owned());
            if writer.spawn(|| self.write(std::io::stderr())).is_err() {
                // Without a thread to spare it is better to wait than to keep silent.
                let written = text.written(&mut false);
                let _ = std::io::stderr().write_all(written.as_bytes());
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
        let mut drawn = false;
        loop {
            let idle = |waiting: &mut Waiting| waiting.texts.is_empty();
            let waited = self.changed.wait_while(self.lock(), idle);
            let text = waited.unwrap_or_else(PoisonError::into_inner).take();
            // That nobody can read it must not end a run.
            let written = text.map(|text| text.written(&mut drawn));
            let _ = to.write_all(written.unwrap_or_default().as_bytes());
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
    fn put(&mut self, text: Text, most: usize) {
        // Of pictures only the last one counts.
        if let (Text::Picture(_), Some(Text::Picture(_))) = (&text, self.texts.back()) {
            self.texts
                .pop_back()
                .iter()
                .for_each(|old| self.bytes -= old.len());
        }
        if self.bytes < most {
            self.bytes += text.len();
            self.texts.push_back(text);
        }
    }

    /// The next text, which is being written from now on.
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
    fn line_breaks_stay_and_nothing_else_that_steers_a_terminal() {
        assert_eq!(
            safe("wrote a\u{1b}]0;owned\u{7}.csv\r\n  hint: é\u{9b}2J"),
            "wrote a\\u{1b}]0;owned\\u{7}.csv\\r\n  hint: é\\u{9b}2J\n"
        );
    }

    #[test]
    fn a_picture_is_drawn_over_from_its_first_line_and_cleared_by_words() {
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
    fn of_pictures_that_nobody_has_seen_only_the_last_one_waits() {
        let texts = Texts::new();
        let mut waiting = texts.lock();
        for second in 0..1_000 {
            waiting.put(Text::Picture(vec![second.to_string()]), PROGRESS);
        }
        assert_eq!((waiting.texts.len(), waiting.bytes), (1, "999".len()));
    }

    #[test]
    fn while_nobody_reads_progress_is_dropped_before_anything_else_is() {
        let texts = Texts::new();
        let mut waiting = texts.lock();
        let line = safe(&"x".repeat(99));
        for _ in 0..1_000 {
            waiting.put(Text::Words(line.clone()), PROGRESS);
        }
        assert_eq!(waiting.texts.len(), PROGRESS.div_ceil(100));
        waiting.put(Text::Words("the end\n".to_owned()), ALL);
        let last = waiting.texts.back();
        assert!(matches!(last, Some(Text::Words(words)) if words == "the end\n"));
        for _ in 0..20_000 {
            waiting.put(Text::Words(line.clone()), ALL);
        }
        assert!(waiting.bytes < ALL + line.len(), "{}", waiting.bytes);
        // Once it is read again there is room again.
        while !waiting.texts.is_empty() {
            waiting.take();
        }
        assert_eq!(waiting.bytes, 0);
    }
}
