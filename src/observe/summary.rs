//! What is said when a run is over: a few lines for people, a JSON object for programs.
//!
//! Both are made of [`Stats`] alone and of what the run was asked to do.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::kept::Kept;
use super::lines::seconds;
use super::matrix;
use super::words::{self, MIXED_UP, count, counted, rate, time};
use crate::base::error::shown;
use crate::raw_json::escape_unsafe;
use crate::telemetry::event::CancelReason;
use crate::telemetry::pace::{Hint, Pace};
use crate::telemetry::stats::Stats;

/// A smaller share would be shown as 0.0 %.
const LEAST_SHARE: f64 = 0.001;

/// A run that is over.
#[derive(Debug)]
pub(crate) struct Summary<'a> {
    /// What was counted.
    pub(crate) stats: &'a Stats,
    /// How long it took.
    pub(crate) elapsed: Duration,
    /// The stand-in answered, not the service.
    pub(crate) sandbox: bool,
    /// The service's address.
    pub(crate) endpoint: &'a str,
    /// The output, or its partial file after an early stop; `None` for standard output.
    pub(crate) output: Option<PathBuf>,
    /// The rejects, where there are any.
    pub(crate) rejects: Option<PathBuf>,
    /// The rows whose decision changed, where they were asked for.
    pub(crate) changes: Option<PathBuf>,
    /// The ledger, where one stays.
    pub(crate) ledger: Option<Kept>,
    /// Calls that the stand-in billed.
    pub(crate) sandbox_billed: Option<u64>,
    /// Somebody has removed the output while the run was on.
    pub(crate) output_is_gone: bool,
}

impl Summary<'_> {
    /// The lines for people.
    #[must_use]
    pub(crate) fn text(&self) -> String {
        let stats = self.stats;
        let mut lines = Vec::new();
        let stopped = stats
            .cancelled
            .map(|reason| format!("stopped early ({}): ", word(reason)))
            .unwrap_or_default();
        let speed = self
            .rows_per_second()
            .map(|speed| format!(", {} rows/s", rate(speed)))
            .unwrap_or_default();
        lines.push(format!(
            "{stopped}{} in {}{speed}",
            counted(stats.resolved(), "row"),
            time(self.elapsed)
        ));
        if self.sandbox {
            lines.push("sandbox: the scores are a stand-in's, not the service's".to_owned());
        }
        let decisions = [
            ("approve", stats.approved),
            ("review", stats.reviewed),
            ("block", stats.blocked),
        ];
        lines.extend(words::parts(&decisions));
        lines.extend(matrix::lines(&stats.drift, self.changes.as_deref()));
        let failed = self.reasons();
        lines.extend(failed.map(|why| format!("failed {}: {why}", count(stats.failures()))));
        lines.extend(self.without_calls());
        lines.extend((stats.calls > 0).then(|| self.calls()));
        lines.extend((stats.throttled > 0).then(|| self.throttled()));
        lines.extend(self.limits());
        if stats.maybe_billed_twice > 0 {
            lines.push(format!(
                "{} may have been billed twice: sent again after no answer came",
                counted(stats.maybe_billed_twice, "row")
            ));
        }
        let unanswered = stats.unknown_outcome - stats.maybe_billed_twice;
        if unanswered > 0 {
            lines.push(format!(
                "{} may have been billed without an answer",
                counted(unanswered, "call")
            ));
        }
        if stats.billed_without_verdict > 0 {
            lines.push(format!(
                "{} had no verdict in the answer and will have been billed",
                counted(stats.billed_without_verdict, "call")
            ));
        }
        lines.extend(self.rarities());
        lines.extend(self.output());
        let kept = self.ledger.as_ref();
        lines.extend(kept.map(|kept| kept.words(stats, self.sandbox)));
        lines.extend(self.not_kept());
        format!("rescore: {}", lines.join("\n         "))
    }

    /// What the service was found to bear, and when it was away.
    fn limits(&self) -> Vec<String> {
        let stats = self.stats;
        let pace = stats.pace.as_ref();
        let mut lines = Vec::new();
        lines.extend(pace.and_then(|pace| pace.limit).map(words::limit));
        lines.extend(pace.and_then(Pace::asked_for).map(words::asked_for));
        if pace.is_some_and(|pace| pace.headers == Hint::Disbelieved) {
            lines.push(words::HEADERS_DISBELIEVED.to_owned());
        }
        lines.extend(
            pace.and_then(|pace| pace.limit_in_flight)
                .map(words::limit_in_flight),
        );
        lines.extend(
            pace.and_then(|pace| pace.refused_at_any)
                .map(words::refused_at_any),
        );
        if stats.outages > 0 {
            lines.push(format!(
                "the service was down {}, for {} in all",
                counted(stats.outages, "time"),
                time(stats.time_down(self.elapsed))
            ));
        }
        if stats.dismissed_outages > Duration::ZERO {
            lines.push(format!(
                "waited {} for the service, which failed over each of the last rows",
                time(stats.dismissed_outages)
            ));
        }
        lines
    }

    /// Rows that cost nothing.
    fn without_calls(&self) -> Option<String> {
        let stats = self.stats;
        let mut words = Vec::new();
        if stats.known > 0 {
            words.push(format!("{} known from the ledger", count(stats.known)));
        }
        if stats.duplicates > 0 {
            words.push(format!("{} equal to another row", count(stats.duplicates)));
        }
        (!words.is_empty()).then(|| format!("without a call: {}", words.join(", ")))
    }

    /// Where the rows are, and what to do with them before another run.
    fn output(&self) -> Vec<String> {
        let stats = self.stats;
        let Some(path) = &self.output else {
            let gone = "the output was removed while the run was on".to_owned();
            return self.output_is_gone.then_some(gone).into_iter().collect();
        };
        let path = shown(path);
        if stats.cancelled.is_none() {
            return vec![format!("wrote {path}")];
        }
        let mut lines = vec![format!(
            "{path} has the {}; rows that were not finished are not in it",
            counted(stats.written, "finished row")
        )];
        if self.ledger.is_none() {
            // The next run refuses all of these files: following this must not lead to another refusal.
            let mut kept = vec!["it".to_owned()];
            let sides = [&self.rejects, &self.changes].into_iter().flatten();
            kept.extend(sides.map(|path| shown(path)));
            lines.push(format!(
                "before another run move {} away, or start over with `--overwrite`",
                kept.join(" and ")
            ));
        }
        lines
    }

    /// The one line of a quiet run that somebody must read; `None` where every row has a verdict.
    #[must_use]
    pub(crate) fn warning(&self) -> Option<String> {
        let rows = counted(self.stats.resolved(), "row");
        let failed = count(self.stats.failures());
        let why = self.reasons()?;
        Some(format!("warning: {failed} of {rows} failed: {why}"))
    }

    /// Why rows failed, and where they are.
    fn reasons(&self) -> Option<String> {
        let failed = self.stats.failed.iter();
        let reasons: Vec<_> = failed
            .map(|(reason, rows)| format!("{reason} {}", count(*rows)))
            .collect();
        let place = match &self.rejects {
            Some(path) => format!(", see {}", shown(path)),
            None => String::new(),
        };
        (!reasons.is_empty()).then(|| reasons.join(", ") + &place)
    }

    /// How often the service asked for less, and what that cost.
    fn throttled(&self) -> String {
        let stats = self.stats;
        #[allow(clippy::cast_precision_loss, reason = "a share is no exact number")]
        let share = stats.throttled as f64 / stats.calls.max(1) as f64;
        let mut words = format!(
            "the service asked {} for fewer calls",
            counted(stats.throttled, "time")
        );
        if share >= LEAST_SHARE {
            let _ = write!(words, " ({} of all)", words::percent(share));
        }
        let paused = stats.time_paused(self.elapsed);
        if !paused.is_zero() {
            let _ = write!(words, "; paused for {} in all", time(paused));
        }
        words
    }

    /// What stays nowhere: a run to a stream, without a ledger, was stopped.
    fn not_kept(&self) -> Option<String> {
        let stats = self.stats;
        let lost = stats.cancelled.is_some() && self.ledger.is_none() && self.output.is_none();
        if !lost || stats.answered == 0 {
            return None;
        }
        // At least: where the output failed, some of the rows that it took may have cost no call.
        let unwritten = stats.answered - stats.paid.min(stats.written).min(stats.answered);
        let of_them = match unwritten {
            0 => String::new(),
            _ if self.output_is_gone => String::new(),
            unwritten => format!(", and the output lacks {} of them", count(unwritten)),
        };
        Some(format!(
            "no ledger has the {} of this run{of_them}: another run asks again (`--ledger FILE` keeps them)",
            words::answers(stats.answered, self.sandbox),
        ))
    }

    /// What hardly any run meets.
    fn rarities(&self) -> Vec<String> {
        let stats = self.stats;
        let mut lines = Vec::new();
        // Where no ledger has any of them, that is what is said.
        if stats.lost > 0 && self.not_kept().is_none() {
            lines.push(format!(
                "{} may be lost: not known to be on disk",
                words::answers(stats.lost, self.sandbox)
            ));
        }
        if stats.damaged_answers > 0 {
            lines.push(format!(
                "the ledger is damaged: {} asked for again",
                counted(stats.damaged_answers, "answer")
            ));
        }
        if stats.future_answers > 0 {
            lines.push(format!(
                "{} dated in the future, asked for again",
                counted(stats.future_answers, "answer")
            ));
        }
        if stats.keys_renewed > 0 {
            lines.push(format!(
                "the API key was read again from its file {}",
                counted(stats.keys_renewed, "time")
            ));
        }
        if stats.repeated_transactions > 0 {
            lines.push(format!(
                "{} had the transaction id of a different user's: {MIXED_UP}",
                counted(stats.repeated_transactions, "answer")
            ));
        }
        lines
    }

    fn calls(&self) -> String {
        let stats = self.stats;
        let mut words = counted(stats.calls, "call");
        if let Some(billed) = self.sandbox_billed.filter(|billed| *billed > 0) {
            let _ = write!(words, " ({} billed by the stand-in)", count(billed));
        }
        if stats.retries > 0 {
            let _ = write!(words, ", {} of them again", count(stats.retries));
        }
        let quantile = |share: f64| stats.latency(share).map(time).unwrap_or_default();
        if stats.answered > 0 {
            let _ = write!(
                words,
                "; latency p50 {}, p95 {}, p99 {}",
                quantile(0.5),
                quantile(0.95),
                quantile(0.99)
            );
        }
        words
    }

    fn rows_per_second(&self) -> Option<f64> {
        let seconds = self.elapsed.as_secs_f64();
        #[allow(clippy::cast_precision_loss, reason = "shown with three digits")]
        (seconds > 0.0 && self.stats.resolved() > 0).then(|| self.stats.resolved() as f64 / seconds)
    }

    /// The object for programs. docs/reference.md documents every member; members are added, never changed.
    #[must_use]
    pub(crate) fn json(&self) -> Value {
        let stats = self.stats;
        let failed: Map<String, Value> = stats
            .failed
            .iter()
            .map(|(reason, rows)| (reason.word().to_owned(), (*rows).into()))
            .collect();
        let latency = |share: f64| {
            stats
                .latency(share)
                .map(|latency| seconds(latency.as_secs_f64() * 1000.0))
        };
        let path = |path: &Option<PathBuf>| {
            path.as_ref()
                .map(|path| path.to_string_lossy().into_owned())
        };
        let pace = stats.pace.as_ref();
        json!({
            "type": "summary",
            "version": 1,
            "exit_code": stats.exit().code(),
            "stopped": stats.cancelled.map(CancelReason::word),
            "sandbox": self.sandbox,
            "endpoint": self.endpoint,
            "elapsed_seconds": seconds(self.elapsed.as_secs_f64()),
            "rows_per_second": self.rows_per_second().map(seconds),
            "rows": {
                "read": stats.read,
                "resolved": stats.resolved(),
                "written": stats.written,
                "left": stats.read - stats.resolved(),
            },
            "known": stats.known,
            "duplicates": stats.duplicates,
            "decisions": { "approve": stats.approved, "review": stats.reviewed, "block": stats.blocked },
            "drift": matrix::json(&stats.drift),
            "failed": { "rows": stats.failures(), "reasons": failed },
            "calls": {
                "sent": stats.calls,
                "answered": stats.answered,
                "retries": stats.retries,
                "throttled": stats.throttled,
                "maybe_billed_twice": stats.maybe_billed_twice,
                "unknown_outcome": stats.unknown_outcome,
                "billed_without_verdict": stats.billed_without_verdict,
                "lost": stats.lost,
                "repeated_transaction_ids": stats.repeated_transactions,
            },
            "ledger_answers_damaged": stats.damaged_answers,
            "ledger_answers_from_the_future": stats.future_answers,
            "keys_renewed": stats.keys_renewed,
            "paused_seconds": seconds(stats.time_paused(self.elapsed).as_secs_f64()),
            "outages": stats.outages,
            "down_seconds": seconds(stats.time_down(self.elapsed).as_secs_f64()),
            "waited_in_vain_seconds": seconds(stats.dismissed_outages.as_secs_f64()),
            "limit": {
                "calls_per_second": pace.and_then(|pace| pace.limit).map(seconds),
                "in_flight": pace.and_then(|pace| pace.limit_in_flight),
            },
            "headers": {
                "calls_per_second": pace.and_then(Pace::asked_for).map(seconds),
                "disbelieved": pace.is_some_and(|pace| pace.headers == Hint::Disbelieved),
            },
            "pace": {
                "slot_seconds": stats.timeline.slot().as_secs(),
                "calls": stats.timeline.calls(),
            },
            "latency_ms": { "p50": latency(0.5), "p95": latency(0.95), "p99": latency(0.99) },
            "output": path(&self.output),
            "rejects": path(&self.rejects),
            "changes": path(&self.changes),
            "ledger": self.ledger.as_ref().map(|kept| json!({
                "path": kept.path.to_string_lossy(),
                "answers": kept.answers,
            })),
        })
    }

    /// The object for programs on one line.
    #[must_use]
    pub(crate) fn json_line(&self) -> String {
        escape_unsafe(&self.json().to_string())
    }

    /// Writes the object for programs.
    ///
    /// # Errors
    /// As the writer's.
    pub(crate) fn write_json(&self, mut to: impl Write) -> io::Result<()> {
        let text = format!("{:#}", self.json());
        let lines = text.lines().map(|line| escape_unsafe(line) + "\n");
        to.write_all(lines.collect::<String>().as_bytes())?;
        to.flush()
    }
}

fn word(reason: CancelReason) -> &'static str {
    match reason {
        CancelReason::OutputClosed => "standard output was closed",
        CancelReason::HungUp => "hung up",
        CancelReason::InputChanged => "the input changed",
        CancelReason::Internal => "internal error",
        CancelReason::NoVerdicts => "no verdicts",
        CancelReason::MaxCalls => "`--max-calls`",
        CancelReason::MaxFailures => "`--max-failures`",
        other => other.word(),
    }
}
