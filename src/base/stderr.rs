//! The only way to standard error: text that cannot control a terminal, and a few lines that are redrawn. Writing never blocks
//! the caller.
//!
//! A file's or a column's name may contain any character. If it must not break a line either, the caller makes it
//! [`printable`].
//!
//! A paused pager, Ctrl-S or a log collector that hangs blocks writes to standard error. So all texts go through a [`Queue`].

use std::io::Write;
use std::sync::LazyLock;

use super::text::printable;
use super::threads::Queue;

/// While so many bytes wait to be written, lines of progress are dropped: they are some minutes of it.
const MAX_PROGRESS: usize = 16 * 1024;
/// While so many bytes wait, all text is dropped. A run writes little besides progress, but it may last for days.
const MAX_TOTAL: usize = 1024 * 1024;

/// `None` if its thread cannot be started: blocking is better than staying silent then.
static QUEUE: LazyLock<Option<Queue<Text>>> = LazyLock::new(|| {
    let mut clear = "";
    Queue::start("stderr", move |text| write(text, &mut clear)).ok()
});

fn put(text: Text, most: usize) {
    match &*QUEUE {
        Some(queue) => {
            let size = text.len();
            queue.put(text, size, most);
        }
        None => write(text, &mut ""),
    }
}

fn write(text: Text, clear: &mut &'static str) {
    // A closed standard error must not end a run.
    let _ = std::io::stderr().write_all(text.written(clear).as_bytes());
}

/// Writes the text and a line end. Line breaks stay; everything else that is unsafe to print is escaped.
///
/// A closed standard error must not end a run, and a blocked one must not delay it.
pub(crate) fn say(text: &str) {
    put(Text::Words(safe(text)), MAX_TOTAL);
}

/// Like [`say`], for a line of progress: it is dropped if too many earlier ones still wait to be written.
pub(crate) fn say_progress(line: &str) {
    put(Text::Words(safe(line)), MAX_PROGRESS);
}

/// What a terminal shows of progress in its tab or in the taskbar.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TabProgress {
    /// A state of ConEmu's OSC 9;4: 1 is at work, 2 an error, 3 at work without a percentage, and 4 a pause.
    pub(crate) state: u8,
    /// How much is done.
    pub(crate) percent: f64,
}

/// Draws these lines over the previous ones, also in the `tab` of a terminal that shows progress there; an empty list clears
/// both. Each line must fit the terminal.
pub(crate) fn draw(lines: &[String], tab: Option<TabProgress>) {
    let lines: Vec<_> = lines.iter().map(|line| printable(line)).collect();
    put(Text::Picture(lines, tab), MAX_PROGRESS);
}

/// The terminal's width in columns; 80 if it is unknown.
pub(crate) fn columns() -> u16 {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    let columns = size.map_or(0, |size| size.ws_col);
    if columns == 0 { 80 } else { columns }
}

/// Waits briefly until everything is written; to be called before the process ends.
pub(crate) fn flush() {
    // What is not written by then is lost.
    let _ = QUEUE.as_ref().map(Queue::flush);
}

fn safe(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(printable).collect();
    lines.join("\n") + "\n"
}

/// Something to write.
enum Text {
    /// Lines that stay.
    Words(String),
    /// Lines that replace the previous ones.
    Picture(Vec<String>, Option<TabProgress>),
}

/// Clears everything from the start of the line to the end of the screen.
const CLEAR: &str = "\r\x1b[J";
/// The same, and the progress in the tab.
const CLEAR_WITH_TAB: &str = "\r\x1b[J\x1b]9;4;0;\x1b\\";

impl Text {
    fn len(&self) -> usize {
        match self {
            Self::Words(words) => words.len(),
            Self::Picture(lines, _) => lines.iter().map(String::len).sum(),
        }
    }

    /// The bytes to write. `clear` is what clears the picture that is on the screen, with the cursor at its start.
    ///
    /// The cursor waits at the start because a terminal that is made narrower may wrap lines, and moves the cursor along with
    /// its line. The other lines are then still below the cursor; only lines that moved to the scroll-back stay. Each line is
    /// cleared before it is drawn, because otherwise tmux remembers that the line was wrapped. One `J` for all lines would
    /// not do: if the picture fills the screen, tmux keeps what a `J` clears.
    fn written(self, clear: &mut &'static str) -> String {
        let clear_old = std::mem::take(clear);
        match self {
            Self::Words(words) => clear_old.to_owned() + &words,
            Self::Picture(lines, _) if lines.is_empty() => clear_old.to_owned(),
            Self::Picture(lines, tab) => {
                let back = match lines.len() {
                    1 => String::new(),
                    lines => format!("\x1b[{}A", lines - 1),
                };
                *clear = tab.map_or(CLEAR, |_| CLEAR_WITH_TAB);
                let tab = tab.map(|tab| format!("\x1b]9;4;{};{:.0}\x1b\\", tab.state, tab.percent));
                let lines = lines.join("\n\x1b[K");
                format!("{}\r\x1b[K{lines}\x1b[J\r{back}", tab.unwrap_or_default())
            }
        }
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
        let picture = |lines: &[&str], tab| {
            Text::Picture(lines.iter().map(|line| (*line).to_owned()).collect(), tab)
        };
        let words = |words: &str| Text::Words(words.to_owned());
        let mut clear = "";
        let mut written = |text: Text| text.written(&mut clear);
        let two = "\r\u{1b}[Kone\n\u{1b}[Ktwo\u{1b}[J\r\u{1b}[1A";
        assert_eq!(written(words("first\n")), "first\n");
        assert_eq!(written(picture(&["one", "two"], None)), two);
        assert_eq!(written(picture(&["one", "two"], None)), two);
        assert_eq!(written(words("said\n")), "\r\u{1b}[Jsaid\n");
        assert_eq!(written(words("again\n")), "again\n");
        assert_eq!(written(picture(&["one", "two"], None)), two);
        assert_eq!(written(picture(&[], None)), CLEAR);
        assert_eq!(written(picture(&[], None)), "");
        let tab = TabProgress {
            state: 1,
            percent: 40.4,
        };
        let in_tab = written(picture(&["one", "two"], Some(tab)));
        assert_eq!(in_tab, format!("\u{1b}]9;4;1;40\u{1b}\\{two}"));
        assert_eq!(written(words("end\n")), format!("{CLEAR_WITH_TAB}end\n"));
    }
}
