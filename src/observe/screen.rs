//! Where indicatif draws: a page in memory, as only `stderr` writes to the terminal.
//!
//! indicatif pads each line with spaces to the terminal's width. If the terminal is then made narrower, such lines wrap
//! and can no longer be redrawn in place. So the page removes the padding and returns lines.

use std::io::Result;
use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indicatif::TermLike;

/// A page that indicatif draws on; its clones are the same page.
#[derive(Debug, Clone, Default)]
pub(super) struct Screen(Arc<Mutex<Page>>);

#[derive(Debug, Default)]
struct Page {
    columns: u16,
    /// What was drawn since the last picture, without line breaks: each line is as wide as the page.
    text: String,
    picture: Option<Vec<String>>,
}

impl Screen {
    /// Sets the width of the next picture.
    pub(super) fn set_columns(&self, columns: u16) {
        self.page().columns = columns;
    }

    /// The lines of the latest picture, if it was not taken before; none at all if the bar was cleared.
    pub(super) fn picture(&self) -> Option<Vec<String>> {
        self.page().picture.take()
    }

    fn page(&self) -> MutexGuard<'_, Page> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Each picture is drawn whole, and `stderr` knows where the previous one is: cursor moves and clearing can be ignored.
impl TermLike for Screen {
    fn width(&self) -> u16 {
        self.page().columns
    }

    fn move_cursor_up(&self, _: usize) -> Result<()> {
        Ok(())
    }

    fn move_cursor_down(&self, _: usize) -> Result<()> {
        Ok(())
    }

    fn move_cursor_right(&self, _: usize) -> Result<()> {
        Ok(())
    }

    fn move_cursor_left(&self, _: usize) -> Result<()> {
        Ok(())
    }

    fn write_line(&self, text: &str) -> Result<()> {
        let columns = usize::from(self.width());
        self.write_str(&format!("{text:columns$}"))
    }

    fn write_str(&self, text: &str) -> Result<()> {
        self.page().text.push_str(text);
        Ok(())
    }

    fn clear_line(&self) -> Result<()> {
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        let mut page = self.page();
        let text: Vec<_> = take(&mut page.text).chars().collect();
        let lines = text.chunks(usize::from(page.columns).max(1));
        let lines = lines.map(|line| line.iter().collect::<String>().trim_end().to_owned());
        page.picture = Some(lines.collect());
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

    use super::*;

    #[test]
    fn a_picture_has_the_lines_of_the_template_without_padding() {
        let screen = Screen::default();
        let target = ProgressDrawTarget::term_like(Box::new(screen.clone()));
        let style = ProgressStyle::with_template("{bar:4} {prefix}\n\n{msg}").unwrap();
        let bar = ProgressBar::with_draw_target(Some(2), target).with_style(style);
        let bar = bar
            .with_prefix("50 %")
            .with_message("paused · 3 s")
            .with_position(1);
        assert_eq!(screen.picture(), None);
        for columns in [12, 60] {
            screen.set_columns(columns);
            bar.tick();
            let picture = screen.picture().unwrap();
            assert_eq!(picture, ["██░░ 50 %", "", "paused · 3 s"], "{columns}");
        }
        bar.finish_and_clear();
        assert_eq!(screen.picture(), Some(Vec::new()));
        assert_eq!(screen.picture(), None);
    }
}
