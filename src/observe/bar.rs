//! Progress on a terminal: two lines that are drawn over, and that fit it, however narrow.

use super::reason::reasons;
use super::{Notice, Setting, Snapshot, View, words};
use crate::say::{columns, draw, say};

/// A bar with the rows, and a line below it with why calls wait, and what they brought.
pub(super) struct Bar(Setting);

/// The columns of a terminal that does not tell them.
const USUAL_WIDTH: usize = 80;
/// Columns of the bar itself, where there are so many in all: what is said beside it counts for more.
const GAUGES: [(usize, usize); 2] = [(72, 16), (50, 8)];
/// What a character of the bar can show, from an eighth to a whole.
const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

impl Bar {
    pub(super) const fn new(setting: Setting) -> Self {
        Self(setting)
    }

    fn lines(&self, now: &Snapshot, width: usize) -> [String; 2] {
        // In the last column some terminals begin the next line and others do not.
        let width = width.saturating_sub(1);
        let gauge = now.share.map(|share| gauge(share, width));
        let gauge = gauge.unwrap_or_default();
        let head = [
            now.share.map(words::percent),
            Some(words::counted(now.resolved, "row")),
            now.remaining
                .map(|left| format!("ETA {}", words::time(left))),
            self.0.sandbox.then(|| "sandbox".to_owned()),
            now.rate.map(|rate| format!("{} rows/s", words::rate(rate))),
        ];
        let below = reasons(now, self.0.concurrency)
            .into_iter()
            .chain(words::verdicts(now))
            .chain(words::calls(now));
        let room = width - gauge.chars().count();
        [
            gauge + &fit(head.into_iter().flatten(), room),
            fit(below, width),
        ]
    }
}

impl View for Bar {
    fn frame(&mut self, now: &Snapshot) {
        draw(&self.lines(now, columns().unwrap_or(USUAL_WIDTH)));
    }

    fn notice(&mut self, notice: Notice, now: &Snapshot) {
        let said = match notice {
            Notice::KeyRenewed => Some(format!("rescore: {}", words::KEY_RENEWED)),
            Notice::TransactionRepeated(..) | Notice::ManyRefused(_) | Notice::Unusable(_) => {
                notice.warning()
            }
            Notice::Stopping(reason, in_flight, longest) => Some(format!(
                "rescore: {}",
                words::stopping(reason, in_flight, longest)
            )),
            Notice::Up(lasted) => Some(format!("rescore: {}", words::up(lasted))),
            Notice::Dismissed => Some(format!("rescore: {}", words::OUTAGE_DISMISSED)),
            // The bar itself counts down.
            Notice::Paused(_) | Notice::Down(_) | Notice::End => None,
        };
        if let Some(said) = said {
            say(&said);
        }
        self.frame(now);
    }

    fn end(&mut self) {
        draw(&[]);
    }
}

/// The bar itself and a space; nothing where there is no room for it.
fn gauge(share: f64, width: usize) -> String {
    let columns = GAUGES.iter().find(|(least, _)| width >= *least);
    let Some((_, columns)) = columns else {
        return String::new();
    };
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share is from 0 to 1, and columns are few"
    )]
    let eighths = (share * (columns * EIGHTHS.len()) as f64) as usize;
    let cell = |column: usize| match eighths.saturating_sub(column * EIGHTHS.len()) {
        0 => ' ',
        filled => EIGHTHS.get(filled - 1).copied().unwrap_or('█'),
    };
    (0..*columns).map(cell).chain([' ']).collect()
}

/// As many of these as fit, whole and in their order; only the first is cut, where it alone is too long.
fn fit(parts: impl Iterator<Item = String>, width: usize) -> String {
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

const SEPARATOR: &str = " · ";

fn cut(text: String, width: usize) -> String {
    if text.chars().count() <= width {
        return text;
    }
    let kept = text.chars().take(width.saturating_sub(1));
    kept.chain(['…']).take(width).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Style;
    use super::*;
    use crate::event::{Hint, Pace, Pause, Search};

    const BUSY: Snapshot = Snapshot {
        at: Duration::from_secs(3_000),
        resolved: 1_234_567,
        approved: 1_000_000,
        reviewed: 200_000,
        blocked: 34_000,
        failed: 567,
        in_flight: 16,
        retries: 1_234,
        keys_renewed: 0,
        calls: 1_240_000,
        pause: None,
        outage: None,
        pace: Some(Pace {
            rate: Some(48.0),
            in_flight: 32,
            search: Search::Checking,
            limit: Some(50.0),
            limit_in_flight: None,
            headers: Hint::Silent,
            at_ceiling: false,
            refused_at_any: Some(0.05),
        }),
        stopping: false,
        share: Some(0.404),
        rate: Some(411.5),
        remaining: Some(Duration::from_secs(723)),
    };

    fn drawn(now: &Snapshot, width: usize) -> [String; 2] {
        let bar = Bar::new(Setting {
            style: Style::Bar,
            every: Duration::ZERO,
            size: Some(1),
            sandbox: true,
            concurrency: 64,
        });
        bar.lines(now, width)
    }

    #[test]
    fn a_narrow_bar_keeps_rows_percent_eta_and_the_reason_whole() {
        assert_eq!(
            drawn(&BUSY, 120),
            [
                "██████▍          40.4 % · 1,234,567 rows · ETA 12 min 3 s · sandbox · 412 rows/s",
                "48.0/s, slower, to see whether fewer calls are refused · limit found: about 50.0/s · 16 in flight, retries 1,234"
            ]
        );
        assert_eq!(
            drawn(&BUSY, 80),
            [
                "██████▍          40.4 % · 1,234,567 rows · ETA 12 min 3 s · sandbox",
                "48.0/s, slower, to see whether fewer calls are refused"
            ]
        );
        assert_eq!(
            drawn(&BUSY, 60),
            [
                "███▏     40.4 % · 1,234,567 rows · ETA 12 min 3 s · sandbox",
                "48.0/s, slower, to see whether fewer calls are refused"
            ]
        );
    }

    #[test]
    fn what_it_says_at_80_columns_while_the_limit_is_kept_to() {
        let mut now = BUSY;
        if let Some(pace) = &mut now.pace {
            pace.search = Search::Holding;
            pace.refused_at_any = None;
        }
        let [_, below] = drawn(&now, 80);
        assert_eq!(
            below,
            "limit found: about 50.0/s · now 48.0/s · 16 in flight, retries 1,234"
        );
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_no_reason_is_lost_at_60_columns() {
        let long = Duration::from_secs(754);
        let asked = |asked| Snapshot {
            pause: Some((
                long,
                Pause {
                    length: long,
                    asked,
                },
            )),
            ..BUSY
        };
        for now in [BUSY, asked(None), asked(Some(long))] {
            for width in 1..130 {
                for line in drawn(&now, width) {
                    let columns = line.chars().count();
                    assert!(columns < width, "{columns} at {width}: {line}");
                    assert!(!line.contains('…') || width < 60, "{width}: {line}");
                }
            }
        }
    }

    #[test]
    fn the_bar_is_full_when_all_is_done_and_not_before() {
        assert_eq!(gauge(0.0, 80), format!("{:17}", ""));
        assert_eq!(gauge(0.999, 80), "███████████████▉ ");
        assert_eq!(gauge(1.0, 80), "████████████████ ");
        assert_eq!(gauge(1.0, 60), "████████ ");
        assert_eq!(gauge(1.0, 40), "");
    }
}
