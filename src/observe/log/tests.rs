//! What is in a line, against the table in the reference; and what becomes of lines that nobody takes.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::encoder::LogEncoder;
use super::end::RunEnded;
use super::level::LogLevel;
use super::line::{AttemptEnd, LogLine};
use super::queue::LogQueue;
use super::start::{DecidedBy, InputOpened, RunFiles, RunLimits, RunStarted};
use crate::row::RowNumber;
use crate::telemetry::event::{CancelReason, FailureClass, InputEnd, Next};
use crate::telemetry::pace::{Hint, Pace, PaceCause, PaceChange, Pause, Search};
use crate::verdict::Reason;

const SECOND: Duration = Duration::from_secs(1);

fn run_started() -> RunStarted {
    let name = || Some("x".to_owned());
    RunStarted {
        job: "nightly".to_owned(),
        is_sandbox: false,
        endpoint: name(),
        plan: "paid",
        files: RunFiles {
            output: name(),
            rejects: name(),
            changes: name(),
            report: name(),
            summary: name(),
            metrics: name(),
            ledger: name(),
        },
        limit: Some(1),
        sample_percent: Some(1.0),
        rate: "auto".to_owned(),
        concurrency: 512,
        retries: 4,
        resend_unknown: 1,
        timeout: SECOND,
        max_wait: SECOND,
        price: name(),
        decided_by: DecidedBy::Score {
            approve_max: "2".to_owned(),
            review_max: "5".to_owned(),
        },
    }
}

fn pace_changed(cause: PaceCause) -> LogLine {
    LogLine::PaceChanged(PaceChange {
        pace: Pace {
            rate: Some(48.0),
            in_flight: 16,
            search: Search::ClosingIn,
            limit: Some(50.0),
            limit_in_flight: Some(16),
            headers: Hint::Silent,
            at_ceiling: false,
            refused_at_any: None,
        },
        cause,
    })
}

/// A failed call with everything that can be known of one.
fn attempt(next: Next) -> LogLine {
    LogLine::Attempt(AttemptEnd {
        row: RowNumber::FIRST,
        attempt: 2,
        outcome: "failed",
        class: Some(FailureClass::Unclear),
        reason: Some(Reason::ServerError),
        status: Some(500),
        latency: Some(Duration::from_micros(41_200)),
        next: Some(next),
    })
}

/// Every kind of line, with everything that can be known.
fn every_line() -> Vec<LogLine> {
    vec![
        LogLine::RunStarted(Box::new(run_started())),
        LogLine::RunLimits(Box::new(RunLimits {
            max_calls: Some(1),
            max_failures: Some("5".to_owned()),
            keep_going: Some(true),
            min_rows: Some(1),
            max_invalid: Some("2%".to_owned()),
            accept_failures: Some("0.5%".to_owned()),
        })),
        LogLine::InputOpened(Box::new(InputOpened {
            input: Some("users.csv".to_owned()),
            format: "csv",
            bytes: Some(9),
            mapping: "name ← `name`".to_owned(),
        })),
        LogLine::InputStarted {
            file: 2,
            input: "parts/b.csv".into(),
        },
        LogLine::InputEnded {
            rows: 1,
            bytes: 9,
            end: InputEnd::Part,
        },
        attempt(Next::Again(SECOND)),
        LogLine::Paused(Pause {
            length: SECOND,
            asked: Some(SECOND),
        }),
        pace_changed(PaceCause::Throttled),
        LogLine::ServiceDown(SECOND),
        LogLine::ServiceUp(SECOND),
        LogLine::OutageDismissed(SECOND),
        LogLine::KeyRenewed,
        LogLine::AnswerLost(RowNumber::FIRST),
        LogLine::Warning("w".to_owned()),
        LogLine::Stopping(CancelReason::MaxCalls),
        LogLine::Draining {
            reason: CancelReason::Terminated,
            in_flight: 4,
            longest: SECOND,
        },
        LogLine::StoppedImmediately(CancelReason::Interrupted),
        LogLine::Error("e".to_owned()),
        LogLine::RunEnded(Box::new(RunEnded {
            stopped: Some("max_calls"),
            ..RunEnded::default()
        })),
        LogLine::LogReopened,
        LogLine::LinesLost(3),
    ]
}

/// The line as it is in the file, at this level.
fn written(line: &LogLine, level: LogLevel) -> String {
    let encoder = LogEncoder::new(level);
    encoder.add(SystemTime::UNIX_EPOCH, line);
    String::from_utf8(encoder.take()).unwrap()
}

/// Of each event: its level and its keys, by the reference.
fn documented() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, table) = page
        .split_once("| Event | Level | Keys | Meaning |\n")
        .unwrap();
    let rows = table
        .lines()
        .skip(1)
        .map_while(|row| row.strip_prefix("| "));
    let of_row = |row: &str| {
        let cells: Vec<_> = row.split(" | ").collect();
        let spans = cells[2].split('`').skip(1).step_by(2);
        let keys = spans.map(str::to_owned).collect();
        let name = cells[0].trim_matches('`').to_owned();
        (name, (cells[1].to_owned(), keys))
    };
    rows.map(of_row).collect()
}

#[test]
fn every_event_has_the_documented_level_and_keys() {
    let mut found = BTreeMap::new();
    for line in every_line() {
        let text = written(&line, LogLevel::Debug);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let mut keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        let common: Vec<_> = keys.drain(..3).collect();
        assert_eq!(common, ["timestamp", "level", "event"], "{text}");
        let word = |key: &str| value[key].as_str().unwrap().to_owned();
        let of_event = (word("level"), keys.into_iter().collect());
        assert!(found.insert(word("event"), of_event).is_none(), "{text}");
    }
    assert_eq!(found, documented());
}

#[test]
fn a_line_is_json_with_its_time_in_utc() {
    assert_eq!(
        written(
            &attempt(Next::Again(Duration::from_millis(381))),
            LogLevel::Debug
        ),
        concat!(
            r#"{"timestamp":"1970-01-01T00:00:00.000Z","level":"DEBUG","event":"attempt","row":1,"attempt":2,"#,
            r#""outcome":"failed","class":"C","reason":"server_error","status":500,"latency_ms":41.2,"#,
            r#""next":"again","wait_seconds":0.381}"#,
            "\n"
        )
    );
    let warning = LogLine::Warning("no `a\u{202e}b`\nin it".to_owned());
    assert_eq!(
        written(&warning, LogLevel::Warn),
        concat!(
            r#"{"timestamp":"1970-01-01T00:00:00.000Z","level":"WARN","event":"warning","#,
            r#""message":"no `a\u202eb`\nin it"}"#,
            "\n"
        )
    );
}

#[test]
fn lines_below_the_level_are_dropped() {
    let lines = [
        (LogLine::Error(String::new()), [true; 4]),
        (LogLine::Warning(String::new()), [false, true, true, true]),
        (LogLine::KeyRenewed, [false, false, true, true]),
        (attempt(Next::Stop), [false, false, false, true]),
        (
            pace_changed(PaceCause::Headers),
            [false, false, false, true],
        ),
    ];
    let levels = [
        LogLevel::Error,
        LogLevel::Warn,
        LogLevel::Info,
        LogLevel::Debug,
    ];
    for (line, expected) in lines {
        let shown = levels.map(|level| !written(&line, level).is_empty());
        assert_eq!(shown, expected, "{line:?}");
    }
}

#[test]
fn while_nothing_is_written_lines_are_dropped_and_counted() {
    let queue = LogQueue::default();
    for _ in 0..50_003 {
        queue.push(LogLine::KeyRenewed);
    }
    let batch = queue.take();
    assert_eq!((batch.lines.len(), batch.dropped), (50_000, 3));
    // There is room again, and what was taken counts as lost until it is written.
    queue.push(LogLine::KeyRenewed);
    queue.written(49_999);
    let last = LogLine::Warning(String::new());
    assert_eq!(queue.end(Some(last), Duration::ZERO), 1 + 3 + 2);
}
