//! Progress on a terminal: indicatif draws two lines, and they fit it, however narrow.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::reason::reasons;
use super::screen::Screen;
use super::{Notice, Setting, Snapshot, View, words};
use crate::base::say::{columns, draw, say};

/// A bar with the rows, and a line below it with why calls wait, and what they brought.
pub(super) struct Bar {
    progress: ProgressBar,
    screen: Screen,
    setting: Setting,
}

/// The bar's length in units: per mille is finer than any terminal draws.
const WHOLE: u64 = 1000;
/// Pictures a second, where notices come in a rush: twice as many as there are without them.
const MOST_PICTURES: u8 = 20;
/// Columns of the bar itself, where there are so many in all: what is said beside it counts for more.
const GAUGES: [(usize, usize); 2] = [(72, 16), (50, 8)];

impl Bar {
    pub(super) fn new(setting: Setting) -> Self {
        let screen = Screen::default();
        let target = Box::new(screen.clone());
        let target = ProgressDrawTarget::term_like_with_hz(target, MOST_PICTURES);
        Self {
            progress: ProgressBar::with_draw_target(Some(WHOLE), target),
            screen,
            setting,
        }
    }

    /// What indicatif draws; `None` where it has drawn only just now.
    fn picture(&self, now: &Snapshot, columns: u16) -> Option<Vec<String>> {
        // In the last column some terminals begin the next line and others do not.
        let width = usize::from(columns).saturating_sub(1);
        let gauge = now.share.and_then(|_| gauge(width));
        let room = width - gauge.map_or(0, |gauge| gauge + 1);
        let head = [
            now.share.map(words::percent),
            Some(words::counted(now.resolved, "row")),
            now.remaining
                .map(|left| format!("ETA {}", words::time(left))),
            self.setting.sandbox.then(|| "sandbox".to_owned()),
            now.rate.map(|rate| format!("{} rows/s", words::rate(rate))),
        ];
        let below = reasons(now, self.setting.concurrency)
            .into_iter()
            .chain(words::verdicts(now))
            .chain(words::calls(now));
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a share is from 0 to 1"
        )]
        let done = (now.share.unwrap_or_default() * WHOLE as f64) as u64;
        self.screen.set_columns(columns);
        // Of these none draws, unlike `set_…`: a picture shows all of them or none.
        let bar = self.progress.clone().with_style(style(gauge));
        bar.with_position(done)
            .with_prefix(fit(head.into_iter().flatten(), room))
            .with_message(fit(below, width))
            .tick();
        self.screen.picture()
    }
}

impl View for Bar {
    fn frame(&mut self, now: &Snapshot) {
        if let Some(lines) = self.picture(now, columns()) {
            draw(&lines);
        }
    }

    fn notice(&mut self, notice: Notice, now: &Snapshot) {
        let said = match notice {
            Notice::KeyRenewed => Some(format!("rescore: {}", words::KEY_RENEWED)),
            Notice::TransactionRepeated(..)
            | Notice::ManyRefused(_)
            | Notice::FieldsAbsent(..)
            | Notice::Unusable(_) => notice.warning(),
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
        self.progress.finish_and_clear();
        if let Some(nothing) = self.screen.picture() {
            draw(&nothing);
        }
    }
}

/// Columns of the bar itself; `None` where there is no room for it.
fn gauge(width: usize) -> Option<usize> {
    let gauge = GAUGES.iter().find(|(least, _)| width >= *least);
    gauge.map(|(_, columns)| *columns)
}

fn style(gauge: Option<usize>) -> ProgressStyle {
    let gauge = gauge.map(|columns| format!("{{bar:{columns}}} "));
    let template = gauge.unwrap_or_default() + "{prefix}\n{msg}";
    ProgressStyle::with_template(&template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("█▉▊▋▌▍▎▏ ")
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
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::super::Style;
    use super::*;
    use crate::telemetry::pace::{Hint, Pace, Pause, Search};

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

    fn bar() -> Bar {
        Bar::new(Setting {
            style: Style::Bar,
            every: Duration::ZERO,
            size: Some(1),
            sandbox: true,
            concurrency: 64,
        })
    }

    fn drawn(now: &Snapshot, columns: u16) -> Vec<String> {
        bar().picture(now, columns).unwrap()
    }

    #[test]
    fn a_narrow_bar_keeps_rows_percent_eta_and_the_reason_whole() {
        assert_eq!(
            drawn(&BUSY, 120),
            [
                "██████▌          40.4 % · 1,234,567 rows · ETA 12 min 3 s · sandbox · 412 rows/s",
                "48.0/s, slower, to see whether fewer calls are refused · limit found: about 50.0/s · 16 in flight, retries 1,234"
            ]
        );
        assert_eq!(
            drawn(&BUSY, 80),
            [
                "██████▌          40.4 % · 1,234,567 rows · ETA 12 min 3 s · sandbox",
                "48.0/s, slower, to see whether fewer calls are refused"
            ]
        );
        assert_eq!(
            drawn(&BUSY, 60),
            [
                "███▎     40.4 % · 1,234,567 rows · ETA 12 min 3 s · sandbox",
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
        assert_eq!(
            drawn(&now, 80).last().unwrap(),
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
                    assert!(columns < width.into(), "{columns} at {width}: {line}");
                    assert!(!line.contains('…') || width < 60, "{width}: {line}");
                }
            }
        }
    }

    #[test]
    fn the_bar_is_full_when_all_is_done_and_not_before() {
        let gauge = |share: f64, columns| {
            let mut now = BUSY;
            now.share = Some(share);
            let above = drawn(&now, columns).remove(0);
            let percent = words::percent(share);
            above.split_once(&percent).unwrap().0.to_owned()
        };
        assert_eq!(gauge(0.0, 80), format!("{:17}", ""));
        assert_eq!(gauge(0.999, 80), "███████████████▉ ");
        assert_eq!(gauge(1.0, 80), "████████████████ ");
        assert_eq!(gauge(1.0, 60), "████████ ");
        assert_eq!(gauge(1.0, 40), "");
    }

    #[test]
    fn a_rush_of_notices_is_not_a_rush_of_pictures() {
        let bar = bar();
        let pictures = (0..1_000).filter_map(|_| bar.picture(&BUSY, 80));
        assert!(pictures.count() < 500);
    }

    #[test]
    fn where_the_end_is_not_known_there_are_words_alone_and_at_the_end_nothing() {
        let mut bar = bar();
        let now = Snapshot {
            share: None,
            remaining: None,
            ..BUSY
        };
        let picture = bar.picture(&now, 80).unwrap();
        let above = picture.first().unwrap();
        assert_eq!(above, "1,234,567 rows · sandbox · 412 rows/s");
        bar.end();
        assert_eq!(bar.picture(&now, 80), Some(Vec::new()));
    }
}
