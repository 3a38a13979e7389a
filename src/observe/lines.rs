//! Progress where nobody draws: a line, or a JSON object, every so often.

use std::fmt::Write as _;

use serde_json::json;

use super::reason::reasons;
use super::{Notice, Setting, Snapshot, View, words};
use crate::base::say::{say, say_progress};
use crate::telemetry::stats::OngoingOutage;

/// Lines for logs.
pub(super) struct Plain {
    setting: Setting,
    /// A pause was told since the last line. A service that refuses a call a second must not fill a log: the next line
    /// says how it goes.
    told_of_pause: bool,
}

impl Plain {
    pub(super) const fn new(setting: Setting) -> Self {
        Self {
            setting,
            told_of_pause: false,
        }
    }
}

impl View for Plain {
    fn frame(&mut self, now: &Snapshot) {
        self.told_of_pause = false;
        let mut line = String::from("rescore: ");
        if self.setting.sandbox {
            line.push_str("sandbox: ");
        }
        line.push_str(&words::counted(now.resolved, "row"));
        if let Some(share) = now.share {
            let _ = write!(line, " ({})", words::percent(share));
        }
        if let Some(rate) = now.rate {
            let _ = write!(line, ", {} rows/s", words::rate(rate));
        }
        if let Some(left) = now.remaining {
            let _ = write!(line, ", ETA {}", words::time(left));
        }
        let further = words::verdicts(now).into_iter().chain(words::calls(now));
        for part in further.chain(reasons(now, self.setting.concurrency)) {
            line.push_str("; ");
            line.push_str(&part);
        }
        say_progress(&line);
    }

    fn notice(&mut self, notice: Notice, now: &Snapshot) {
        match notice {
            Notice::Down(next) => {
                let outage = OngoingOutage {
                    since: now.at,
                    next: now.at + next,
                };
                say(&format!("rescore: {}", words::down(outage, now.at)));
            }
            Notice::Up(lasted) => say(&format!("rescore: {}", words::up(lasted))),
            Notice::Dismissed => say(&format!("rescore: {}", words::OUTAGE_DISMISSED)),
            Notice::Paused(pause) => {
                if !std::mem::replace(&mut self.told_of_pause, true) {
                    say(&format!("rescore: {}", words::pausing(pause)));
                }
            }
            Notice::TransactionRepeated(..)
            | Notice::ManyRefused(_)
            | Notice::FieldsAbsent(..)
            | Notice::Unusable(_) => {
                warn(notice);
            }
            Notice::KeyRenewed => say(&format!("rescore: {}", words::KEY_RENEWED)),
            Notice::Stopping(reason, in_flight, longest) => {
                say(&format!(
                    "rescore: {}",
                    words::stopping(reason, in_flight, longest)
                ));
            }
            Notice::End => {}
        }
    }

    fn end(&mut self) {}
}

/// JSON objects for programs; docs/reference.md says what they contain.
pub(super) struct Json(Setting);

impl Json {
    pub(super) const fn new(setting: Setting) -> Self {
        Self(setting)
    }

    fn object(&self, now: &Snapshot) -> serde_json::Value {
        json!({
            "type": if now.stopping { "stopping" } else { "progress" },
            "elapsed_seconds": seconds(now.at.as_secs_f64()),
            "sandbox": self.0.sandbox,
            "rows": now.resolved,
            "approve": now.approved,
            "review": now.reviewed,
            "block": now.blocked,
            "failed": now.failed,
            "calls": now.calls,
            "in_flight": now.in_flight,
            "retries": now.retries,
            "keys_renewed": now.keys_renewed,
            "rows_per_second": now.rate.map(seconds),
            "percent": now.share.map(|share| seconds(share * 100.0)),
            "eta_seconds": now.remaining.map(|left| seconds(left.as_secs_f64())),
            "calls_per_second_at_most": now.pace.and_then(|pace| pace.rate).map(seconds),
            "in_flight_at_most": now.pace.map(|pace| pace.in_flight),
            "search": now.pace.map(|pace| words::search(pace.search)),
            "limit_per_second": now.pace.and_then(|pace| pace.limit).map(seconds),
            "down_seconds": now.outage.map(|outage| seconds(now.at.saturating_sub(outage.since).as_secs_f64())),
            "paused_seconds": now.pause.map(|(left, _)| seconds(left.as_secs_f64())),
        })
    }
}

impl View for Json {
    fn frame(&mut self, now: &Snapshot) {
        say_progress(&self.object(now).to_string());
    }

    fn notice(&mut self, notice: Notice, now: &Snapshot) {
        if !warn(notice) {
            say(&self.object(now).to_string());
        }
    }

    fn end(&mut self) {}
}

/// Says a warning, if it is one.
fn warn(notice: Notice) -> bool {
    let warning = notice.warning();
    if let Some(words) = &warning {
        say(words);
    }
    warning.is_some()
}

/// Warnings alone, where no progress is wanted.
pub(super) struct Warnings;

impl View for Warnings {
    fn frame(&mut self, _: &Snapshot) {}

    fn notice(&mut self, notice: Notice, _: &Snapshot) {
        warn(notice);
    }

    fn end(&mut self) {}
}

/// Milliseconds are as exact as anybody needs.
pub(super) fn seconds(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}
