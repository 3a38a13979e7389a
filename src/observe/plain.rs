//! Progress for logs: a line at intervals, and notices as they come, each with its time. Warnings look the same in every view, and
//! have none.

use std::fmt::Write as _;

use super::messages::warn;
use super::notice::Notice;
use super::numbers::{counted, now_in_local_time, percent, rate, whole_seconds};
use super::settings::ProgressSettings;
use super::snapshot::Snapshot;
use super::view::View;
use super::wait_reason::wait_reasons;
use super::words;
use crate::base::stderr::{say, say_progress};
use crate::telemetry::stats::OngoingOutage;

/// Lines for logs.
pub(super) struct Plain {
    settings: ProgressSettings,
    /// A pause was shown since the last line. A service that refuses a call every second must not fill a log: the next
    /// line shows the rest.
    pause_shown: bool,
}

impl Plain {
    pub(super) const fn new(settings: ProgressSettings) -> Self {
        Self {
            settings,
            pause_shown: false,
        }
    }

    fn line(&self, now: &Snapshot) -> String {
        let mut line = String::from("rescore: ");
        if self.settings.sandbox {
            line.push_str("sandbox: ");
        }
        if let Some(file) = words::file(now) {
            let _ = write!(line, "{file}: ");
        }
        line.push_str(&counted(now.counts.rows.resolved, "row"));
        if let Some(share) = now.share {
            let _ = write!(line, " ({})", percent(share));
        }
        if let Some(speed) = now.rate {
            let _ = write!(line, ", {} rows/s", rate(speed));
        }
        if let Some(left) = now.remaining {
            let _ = write!(line, ", ETA {}", whole_seconds(left));
        }
        let more = words::verdicts(&now.counts)
            .into_iter()
            .chain(words::calls(now));
        let more = more.chain(self.settings.cost(&now.counts));
        for part in more.chain(wait_reasons(now, self.settings.concurrency)) {
            line.push_str("; ");
            line.push_str(&part);
        }
        line
    }
}

impl View for Plain {
    fn frame(&mut self, now: &Snapshot) {
        self.pause_shown = false;
        say_progress(&with_time(&self.line(now)));
    }

    fn notice(&mut self, notice: Notice, now: &Snapshot) {
        let words = match notice {
            Notice::Warning(warning) => return warn(&words::warning(&warning)),
            Notice::Paused(pause) => {
                if std::mem::replace(&mut self.pause_shown, true) {
                    return;
                }
                words::pausing(pause)
            }
            Notice::Down(next) => {
                let outage = OngoingOutage {
                    since: now.at,
                    next: now.at + next,
                };
                words::down(outage, now.at)
            }
            Notice::NotUp => words::NOT_UP.to_owned(),
            Notice::Up(lasted) => words::up(lasted),
            Notice::OutageDismissed => words::OUTAGE_DISMISSED.to_owned(),
            Notice::KeyRenewed => words::KEY_RENEWED.to_owned(),
            Notice::Stopping {
                reason,
                in_flight,
                longest,
            } => words::stopping(reason, in_flight, longest),
            Notice::End => return,
        };
        say(&with_time(&format!("rescore: {words}")));
    }
}

/// The line with the time in front.
fn with_time(line: &str) -> String {
    format!("{} {line}", now_in_local_time())
}

/// Shows warnings and nothing else.
pub(super) struct WarningsOnly;

impl View for WarningsOnly {
    fn frame(&mut self, _: &Snapshot) {}

    fn notice(&mut self, notice: Notice, _: &Snapshot) {
        if let Notice::Warning(warning) = notice {
            warn(&words::warning(&warning));
        }
    }
}
