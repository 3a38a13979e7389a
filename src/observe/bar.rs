//! Progress on a terminal: two lines drawn by indicatif, which fit terminals of any width.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::messages::warn;
use super::notice::Notice;
use super::numbers::{counted, percent, rate, whole_seconds};
use super::screen::Screen;
use super::settings::ProgressSettings;
use super::snapshot::Snapshot;
use super::view::View;
use super::wait_reason::wait_reasons;
use super::words;
use crate::base::stderr::{columns, draw, say};

/// A bar with the rows, and a line below it: why calls wait, and what they brought.
pub(super) struct Bar {
    progress: ProgressBar,
    screen: Screen,
    settings: ProgressSettings,
}

/// The bar's length in units: finer than any terminal draws.
const WHOLE: u64 = 1000;
/// The most pictures a second when many notices come: twice as many as without them.
const MOST_PICTURES: u8 = 20;
/// Columns of the bar itself, by the columns of the terminal: the words beside it matter more.
const GAUGES: [(usize, usize); 2] = [(72, 16), (50, 8)];

impl Bar {
    pub(super) fn new(settings: ProgressSettings) -> Self {
        let screen = Screen::default();
        let target = Box::new(screen.clone());
        let target = ProgressDrawTarget::term_like_with_hz(target, MOST_PICTURES);
        Self {
            progress: ProgressBar::with_draw_target(Some(WHOLE), target),
            screen,
            settings,
        }
    }

    /// What indicatif draws; `None` if it has drawn only just now.
    fn picture(&self, now: &Snapshot, columns: u16) -> Option<Vec<String>> {
        // After the last column some terminals start a new line and others do not.
        let width = usize::from(columns).saturating_sub(1);
        let gauge = now.share.and_then(|_| gauge(width));
        let room = width - gauge.map_or(0, |gauge| gauge + 1);
        let head = [
            now.share.map(percent),
            words::file(now),
            Some(counted(now.counts.rows.resolved, "row")),
            now.remaining
                .map(|left| format!("ETA {}", whole_seconds(left))),
            self.settings.sandbox.then(|| "sandbox".to_owned()),
            now.rate.map(|speed| format!("{} rows/s", rate(speed))),
        ];
        let below = wait_reasons(now, self.settings.concurrency)
            .into_iter()
            .chain(self.settings.cost(&now.counts))
            .chain(words::verdicts(&now.counts))
            .chain(words::calls(now));
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a share is from 0 to 1"
        )]
        let done = (now.share.unwrap_or_default() * WHOLE as f64) as u64;
        self.screen.set_columns(columns);
        // Unlike `set_…`, none of these draws: a picture shows all of them or none.
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
        let line = |words: &str| say(&format!("rescore: {words}"));
        match notice {
            Notice::Warning(warning) => warn(&words::warning(&warning)),
            Notice::KeyRenewed => line(words::KEY_RENEWED),
            Notice::Stopping {
                reason,
                in_flight,
                longest,
            } => line(&words::stopping(reason, in_flight, longest)),
            Notice::Up(lasted) => line(&words::up(lasted)),
            Notice::NotUp => line(words::NOT_UP),
            Notice::OutageDismissed => line(words::OUTAGE_DISMISSED),
            // The bar itself counts down.
            Notice::Paused(_) | Notice::Down(_) | Notice::End => {}
        }
        self.frame(now);
    }

    fn end(&mut self) {
        self.progress.finish_and_clear();
        if let Some(empty) = self.screen.picture() {
            draw(&empty);
        }
    }
}

/// Columns of the bar itself; `None` if there is no room for it.
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

/// As many of these parts as fit, whole and in this order. Only the first is cut, if it alone is too long.
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

    use super::super::run_counts::RunCounts;
    use super::super::style::Style;
    use super::*;
    use crate::observe::summary::example::IDENTITY;
    use crate::telemetry::pace::{Hint, Pace, Pause, Search};
    use crate::telemetry::stats::Stats;
    use crate::verdict::Reason;

    /// A long run, in the middle.
    fn busy() -> Snapshot {
        let mut stats = Stats::default();
        (stats.approved, stats.reviewed, stats.blocked) = (1_000_000, 200_000, 34_000);
        (stats.calls, stats.retries) = (1_240_000, 1_234);
        stats.failed.insert(Reason::Refused, 567);
        stats.read = stats.resolved();
        let at = Duration::from_secs(3_000);
        Snapshot {
            at,
            file: None,
            counts: RunCounts::of(&stats, at, None),
            in_flight: 16,
            taken: 0,
            pause: None,
            outage: None,
            pace: Some(Pace {
                rate: Some(48.0),
                in_flight: 32,
                search: Search::ClosingIn,
                limit: Some(50.0),
                limit_in_flight: None,
                headers: Hint::Silent,
                at_ceiling: false,
                refused_at_any: Some(0.05),
            }),
            ledger_wait: None,
            stopping: None,
            share: Some(0.404),
            rate: Some(411.5),
            remaining: Some(Duration::from_secs(723)),
        }
    }

    fn bar() -> Bar {
        Bar::new(ProgressSettings {
            identity: IDENTITY.clone(),
            style: Style::Bar,
            every: Duration::ZERO,
            size: Some(1),
            files: None,
            limit: None,
            sandbox: true,
            tariff: None,
            concurrency: 64,

            ledger_wait: crate::observe::LedgerWait(std::sync::Arc::new(|| None)),
        })
    }

    fn drawn(now: &Snapshot, columns: u16) -> Vec<String> {
        bar().picture(now, columns).unwrap()
    }

    #[test]
    fn a_narrow_bar_keeps_rows_percent_eta_and_the_reason_whole() {
        assert_eq!(
            drawn(&busy(), 120),
            [
                "██████▌          40.4 % · 1,234,567 rows · ETA 12 min 3 s · sandbox · 412 rows/s",
                "pace 48.0/s, closing in on the limit · limit found: about 50.0/s · the service throttles some calls at any pace"
            ]
        );
        assert_eq!(
            drawn(&busy(), 80),
            [
                "██████▌          40.4 % · 1,234,567 rows · ETA 12 min 3 s · sandbox",
                "pace 48.0/s, closing in on the limit · limit found: about 50.0/s"
            ]
        );
        assert_eq!(
            drawn(&busy(), 60),
            [
                "███▎     40.4 % · 1,234,567 rows · ETA 12 min 3 s · sandbox",
                "pace 48.0/s, closing in on the limit"
            ]
        );
    }

    #[test]
    fn at_80_columns_limit_pace_and_calls_fit_below_the_bar() {
        let mut now = busy();
        if let Some(pace) = &mut now.pace {
            pace.search = Search::Holding;
            pace.refused_at_any = None;
        }
        assert_eq!(
            drawn(&now, 80).last().unwrap(),
            "limit found: about 50.0/s · pace 48.0/s · 16 in flight, 1,234 retries"
        );
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_no_reason_is_cut_at_60_columns() {
        let long = Duration::from_secs(754);
        let asked = |asked| Snapshot {
            pause: Some((
                long,
                Pause {
                    length: long,
                    asked,
                },
            )),
            ..busy()
        };
        for now in [busy(), asked(None), asked(Some(long))] {
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
    fn the_bar_is_full_only_when_everything_is_done() {
        let gauge = |share: f64, columns| {
            let mut now = busy();
            now.share = Some(share);
            let above = drawn(&now, columns).remove(0);
            let done = percent(share);
            above.split_once(&done).unwrap().0.to_owned()
        };
        assert_eq!(gauge(0.0, 80), format!("{:17}", ""));
        assert_eq!(gauge(0.999, 80), "███████████████▉ ");
        assert_eq!(gauge(1.0, 80), "████████████████ ");
        assert_eq!(gauge(1.0, 60), "████████ ");
        assert_eq!(gauge(1.0, 40), "");
    }

    #[test]
    fn many_notices_do_not_cause_many_pictures() {
        let bar = bar();
        let pictures = (0..1_000).filter_map(|_| bar.picture(&busy(), 80));
        assert!(pictures.count() < 500);
    }

    #[test]
    fn without_a_known_end_there_are_words_only_and_nothing_stays_when_the_bar_ends() {
        let mut bar = bar();
        let now = Snapshot {
            share: None,
            remaining: None,
            ..busy()
        };
        let picture = bar.picture(&now, 80).unwrap();
        let above = picture.first().unwrap();
        assert_eq!(above, "1,234,567 rows · sandbox · 412 rows/s");
        bar.end();
        assert_eq!(bar.picture(&now, 80), Some(Vec::new()));
    }
}
