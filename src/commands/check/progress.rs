//! Shows that a long pass is alive: a line that is redrawn on a terminal, or one line now and then.

use std::time::Duration;

use tokio::time::Instant;

use crate::base::stderr::{draw, say_progress};
use crate::observe::{Style, counted};

/// Between two pictures on a terminal.
const REDRAWN: Duration = Duration::from_millis(200);
/// Between two lines elsewhere, as in a run. Most passes are over before the first one.
const LINES: Duration = Duration::from_secs(10);

/// Shows how far a pass is.
pub(super) struct PassProgress {
    style: Style,
    /// Bytes of all inputs, if that is known.
    size: Option<u64>,
    /// Rows and bytes of the files that were read before.
    before: (u64, u64),
    shown: Instant,
    drawn: bool,
}

impl PassProgress {
    /// For inputs of this size.
    pub(super) fn new(style: Style, size: Option<u64>) -> Self {
        Self {
            style,
            size,
            before: (0, 0),
            shown: Instant::now(),
            drawn: false,
        }
    }

    /// Shows that this many rows of a file were read, up to this position in it.
    pub(super) fn show(&mut self, rows: u64, position: u64) {
        let (rows, position) = (self.before.0 + rows, self.before.1 + position);
        let every = match self.style {
            Style::Bar => REDRAWN,
            Style::Plain => LINES,
            Style::Json | Style::Off => return,
        };
        if self.shown.elapsed() < every {
            return;
        }
        self.shown = Instant::now();
        let percent = match self.size {
            Some(size) if size > 0 => format!(", {} %", position.saturating_mul(100) / size),
            _ => String::new(),
        };
        let line = format!("rescore: {} read{percent}", counted(rows, "row"));
        if self.style == Style::Bar {
            draw(&[line]);
            self.drawn = true;
        } else {
            say_progress(&line);
        }
    }

    /// Counts a file that was read, and removes what was drawn.
    pub(super) fn end_file(&mut self, rows: u64, size: u64) {
        self.before.0 += rows;
        self.before.1 += size;
        self.end();
    }

    fn end(&mut self) {
        if std::mem::take(&mut self.drawn) {
            draw(&[]);
        }
    }
}

impl Drop for PassProgress {
    fn drop(&mut self) {
        self.end();
    }
}
