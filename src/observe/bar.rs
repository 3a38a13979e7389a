//! Progress on a terminal: a bar with the rows, and a line below it that says why calls wait and what they brought. Both fit
//! terminals of any width. indicatif draws them on a page in memory, as only `base::stderr` writes to the terminal.

use std::io::Result;
use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

use crate::base::threads::lock;

/// Columns of the bar itself, by the columns of the terminal: the words beside it matter more.
const GAUGES: [(usize, usize); 2] = [(72, 16), (50, 8)];
/// The bar's length in units: finer than any terminal draws.
const WHOLE: f64 = 1000.0;
const SEPARATOR: &str = " · ";

/// The two lines for a terminal of this width. `share` is the part that is done, from 0 to 1; `None` if it is not known.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share is from 0 to 1"
)]
pub(super) fn picture(
    share: Option<f64>,
    [head, below]: [Vec<String>; 2],
    columns: u16,
) -> Vec<String> {
    // After the last column some terminals start a new line and others do not.
    let width = usize::from(columns).saturating_sub(1);
    let fits = GAUGES.iter().find(|(least, _)| width >= *least);
    let gauge = share.and(fits).map(|(_, columns)| *columns);
    let room = width - gauge.map_or(0, |gauge| gauge + 1);
    let gauge = gauge.map(|columns| format!("{{bar:{columns}}} "));
    let template = gauge.unwrap_or_default() + "{prefix}\n{msg}";
    let style = ProgressStyle::with_template(&template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("█▉▊▋▌▍▎▏ ");
    let page = Page {
        columns,
        text: Arc::default(),
    };
    let target = ProgressDrawTarget::term_like(Box::new(page.clone()));
    let bar = ProgressBar::with_draw_target(Some(WHOLE as u64), target)
        .with_style(style)
        .with_position((share.unwrap_or_default() * WHOLE) as u64)
        .with_prefix(fit(head, room))
        .with_message(fit(below, width));
    bar.tick();
    // indicatif pads each line to the terminal's width. If the terminal is then made narrower, such lines wrap and can no
    // longer be redrawn in place; so the padding is removed.
    let text: Vec<_> = take(&mut *page.text()).chars().collect();
    let lines = text.chunks(usize::from(columns).max(1));
    lines
        .map(|line| line.iter().collect::<String>().trim_end().to_owned())
        .collect()
}

/// What indicatif takes for a terminal: the text of one picture, without line breaks, as each line is as wide as the page.
#[derive(Debug, Clone)]
struct Page {
    columns: u16,
    text: Arc<Mutex<String>>,
}

impl Page {
    fn text(&self) -> MutexGuard<'_, String> {
        lock(&self.text)
    }
}

impl TermLike for Page {
    fn width(&self) -> u16 {
        self.columns
    }

    fn write_line(&self, text: &str) -> Result<()> {
        self.write_str(text)
    }

    fn write_str(&self, text: &str) -> Result<()> {
        self.text().push_str(text);
        Ok(())
    }

    // `base::stderr` knows where the picture before is.

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

    fn clear_line(&self) -> Result<()> {
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }
}

/// The parts that fit, whole and in this order. Only the first is cut, if it alone is too long.
fn fit(parts: Vec<String>, width: usize) -> String {
    let mut line = String::new();
    for part in parts {
        if line.is_empty() {
            line = cut(part, width);
        } else if line.chars().count() + SEPARATOR.chars().count() + part.chars().count() <= width {
            line += SEPARATOR;
            line += &part;
        }
    }
    line
}

fn cut(text: String, width: usize) -> String {
    if text.chars().count() <= width {
        return text;
    }
    let kept = text.chars().take(width.saturating_sub(1));
    kept.chain(['…']).take(width).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(share: Option<f64>, columns: u16) -> Vec<String> {
        let parts = |words: [&str; 4]| words.map(str::to_owned).to_vec();
        let head = parts(["40.4%", "1,234,567 rows", "ETA 12 min 3 s", "412 rows/s"]);
        let below = parts([
            "pace 48.0/s, cut to see if throttling drops",
            "limit found: about 50.0/s",
            "approve 1,000,000, review 200,000",
            "in flight 16, retries 5",
        ]);
        picture(share, [head, below], columns)
    }

    #[test]
    fn a_narrow_bar_keeps_what_comes_first_whole() {
        let wide = [
            "██████▌          40.4% · 1,234,567 rows · ETA 12 min 3 s · 412 rows/s",
            "pace 48.0/s, cut to see if throttling drops · limit found: about 50.0/s",
        ];
        assert_eq!(drawn(Some(0.404), 80), wide);
        let narrow = [
            "███▎     40.4% · 1,234,567 rows · ETA 12 min 3 s",
            "pace 48.0/s, cut to see if throttling drops",
        ];
        assert_eq!(drawn(Some(0.404), 60), narrow);
        let unknown = "40.4% · 1,234,567 rows · ETA 12 min 3 s · 412 rows/s";
        assert_eq!(drawn(None, 80).first().map(String::as_str), Some(unknown));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_no_reason_is_cut_at_60_columns() {
        for width in 1..130 {
            for line in drawn(Some(0.5), width) {
                let columns = line.chars().count();
                assert!(columns < width.into(), "{columns} at {width}: {line}");
                assert!(!line.contains('…') || width < 60, "{width}: {line}");
            }
        }
    }
}
