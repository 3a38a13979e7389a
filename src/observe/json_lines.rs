//! Progress for programs: a JSON object at intervals, one per line.
//!
//! The reference documents every key; keys are added, but change only with the version.

use std::time::Duration;

use serde::Serialize;

use super::json::{one_line, rounded};
use super::messages::warn;
use super::notice::Notice;
use super::run_counts::RunCounts;
use super::run_identity::RunHead;
use super::settings::ProgressSettings;
use super::snapshot::Snapshot;
use super::view::View;
use super::words;
use crate::base::stderr::{say, say_progress};
use crate::telemetry::event::CancelReason;
use crate::telemetry::pace::Search;

/// Progress as JSON objects.
pub(super) struct JsonLines {
    settings: ProgressSettings,
}

/// The type of a line.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum LineType {
    /// The run is in progress.
    Progress,
    /// The run is stopping early.
    Stopping,
}

/// One line: the counts that the summary has as well, and the moment. What is not known, or not yet, is null.
#[derive(Debug, Serialize)]
struct ProgressLine<'a> {
    r#type: LineType,
    #[serde(flatten)]
    head: RunHead<'a>,
    #[serde(flatten)]
    counts: &'a RunCounts,
    now: NowJson,
}

/// What only a run that lasts has.
#[derive(Debug, Serialize)]
struct NowJson {
    file: Option<u64>,
    files: Option<u64>,
    percent: Option<f64>,
    eta_seconds: Option<f64>,
    rows_per_second: Option<f64>,
    in_flight: u64,
    calls_per_second_at_most: Option<f64>,
    in_flight_at_most: Option<usize>,
    search: Option<Search>,
    pause_left_seconds: Option<f64>,
    outage_seconds: Option<f64>,
    rows_of_other_runs: u64,
}

impl<'a> ProgressLine<'a> {
    fn new(now: &'a Snapshot, settings: &'a ProgressSettings) -> Self {
        let stopped = now.stopping.map(CancelReason::word);
        Self {
            r#type: match now.stopping {
                Some(_) => LineType::Stopping,
                None => LineType::Progress,
            },
            head: settings.identity.head(stopped, settings.sandbox),
            counts: &now.counts,
            now: NowJson::new(now),
        }
    }
}

impl NowJson {
    fn new(now: &Snapshot) -> Self {
        let seconds = |time: Duration| rounded(time.as_secs_f64());
        Self {
            file: now.file.map(|turn| turn.file),
            files: now.file.map(|turn| turn.files),
            percent: now.share.map(|share| rounded(share * 100.0)),
            eta_seconds: now.remaining.map(seconds),
            rows_per_second: now.rate.map(rounded),
            in_flight: now.in_flight,
            calls_per_second_at_most: now.pace.and_then(|pace| pace.rate).map(rounded),
            in_flight_at_most: now.pace.map(|pace| pace.in_flight),
            search: now.pace.map(|pace| pace.search),
            pause_left_seconds: now.pause.map(|(left, _)| seconds(left)),
            outage_seconds: now
                .outage
                .map(|outage| seconds(now.at.saturating_sub(outage.since))),
            rows_of_other_runs: now.taken,
        }
    }
}

impl JsonLines {
    pub(super) const fn new(settings: ProgressSettings) -> Self {
        Self { settings }
    }

    fn line(&self, now: &Snapshot) -> String {
        one_line(&ProgressLine::new(now, &self.settings))
    }
}

impl View for JsonLines {
    fn frame(&mut self, now: &Snapshot) {
        say_progress(&self.line(now));
    }

    fn notice(&mut self, notice: Notice, now: &Snapshot) {
        match notice {
            Notice::Warning(warning) => warn(&words::warning(&warning)),
            _ => say(&self.line(now)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use insta::assert_snapshot;

    use super::super::snapshot::FileTurn;
    use super::super::style::Style;
    use super::*;
    use crate::base::money::Tariff;
    use crate::observe::documented::example_with;
    use crate::observe::summary::example::IDENTITY;
    use crate::row::RowNumber;
    use crate::telemetry::event::{Event, Origin};
    use crate::telemetry::pace::{Hint, Pace, Pause};
    use crate::telemetry::stats::{OngoingOutage, Stats};
    use crate::verdict::{Decision, Reason, Resolution};

    /// A row was approved, one failed, and then the run was interrupted.
    fn stats() -> Stats {
        let mut stats = Stats::default();
        let resolved = |resolution| Event::RowResolved {
            row: RowNumber::FIRST,
            resolution,
            origin: Origin::Called,
        };
        for event in [
            Event::RowsRead {
                rows: 4,
                position: 90,
                dropped: 1,
            },
            resolved(Resolution::Scored(Some(Decision::Approve))),
            resolved(Resolution::Failed(Reason::NoAnswer)),
        ] {
            stats.apply(Duration::ZERO, &event);
        }
        (stats.calls, stats.answered, stats.in_flight) = (308_626, 308_625, 1);
        stats
    }

    fn everything() -> Snapshot {
        let at = Duration::from_millis(12_500);
        let tariff = Tariff {
            price: "0.004".parse().unwrap(),
            currency: None,
        };
        let pause = Pause {
            length: Duration::from_secs(2),
            asked: None,
        };
        Snapshot {
            at,
            file: Some(FileTurn { file: 3, files: 64 }),
            counts: RunCounts::of(&stats(), at, Some(&tariff)),
            in_flight: 5,
            taken: 7,
            pause: Some((Duration::from_millis(1_500), pause)),
            outage: Some(OngoingOutage {
                since: Duration::from_secs(10),
                next: Duration::from_secs(20),
            }),
            pace: Some(Pace {
                rate: Some(48.0),
                in_flight: 16,
                search: Search::ClosingIn,
                limit: Some(49.999_6),
                limit_in_flight: None,
                headers: Hint::Silent,
                at_ceiling: false,
                refused_at_any: None,
            }),
            ledger_wait: None,
            stopping: Some(CancelReason::Interrupted),
            share: Some(0.404),
            rate: Some(0.8),
            remaining: Some(Duration::from_secs(18)),
        }
    }

    fn settings() -> ProgressSettings {
        ProgressSettings {
            identity: IDENTITY.clone(),
            style: Style::Json,
            every: Duration::ZERO,
            size: None,
            files: None,
            limit: None,
            sandbox: true,
            tariff: None,
            concurrency: 64,

            ledger_wait: crate::observe::LedgerWait(std::sync::Arc::new(|| None)),
        }
    }

    #[test]
    fn a_line_has_these_keys_in_this_order_and_null_for_what_is_not_known() {
        let settings = settings();
        let line = |now: &Snapshot| one_line(&ProgressLine::new(now, &settings));
        assert_snapshot!(line(&everything()), @r#"{"type":"stopping","version":2,"job":"scored.csv","start_time":"2026-11-22T02:00:00Z","stopped":"interrupted","sandbox":true,"elapsed_seconds":12.5,"rows_per_second":0.16,"rows":{"read":4,"resolved":2,"written":0,"left":2},"known":0,"duplicates":0,"dropped":1,"decisions":{"approve":1,"review":0,"block":0},"undecided":{"rows":0,"first":[]},"drift":null,"failed":{"rows":1,"reasons":{"no_answer":1}},"calls":{"sent":308626,"sent_before":0,"answered":308625,"retries":0,"throttled":0,"maybe_billed_twice":0,"unknown_outcome":0,"billed_without_verdict":0,"lost":0,"repeated_transaction_ids":0},"cost":{"price":0.004,"currency":null,"spent":1234.5,"spent_at_most":1234.504,"paid_earlier":0.0,"saved":0.0},"ledger_answers_damaged":0,"ledger_answers_too_old":0,"ledger_answers_aged":0,"ledger_failures_retried":0,"keys_renewed":0,"paused_seconds":0.0,"outages":0,"down_seconds":0.0,"waited_in_vain_seconds":0.0,"limit":{"calls_per_second":null,"in_flight":null},"headers":{"calls_per_second":null,"disbelieved":false},"latency_ms":{"p50":null,"p95":null,"p99":null},"now":{"file":3,"files":64,"percent":40.4,"eta_seconds":18.0,"rows_per_second":0.8,"in_flight":5,"calls_per_second_at_most":48.0,"in_flight_at_most":16,"search":"closing_in","pause_left_seconds":1.5,"outage_seconds":2.5,"rows_of_other_runs":7}}"#);
        assert_snapshot!(line(&Snapshot::default()), @r#"{"type":"progress","version":2,"job":"scored.csv","start_time":"2026-11-22T02:00:00Z","stopped":null,"sandbox":true,"elapsed_seconds":0.0,"rows_per_second":null,"rows":{"read":0,"resolved":0,"written":0,"left":0},"known":0,"duplicates":0,"dropped":0,"decisions":{"approve":0,"review":0,"block":0},"undecided":{"rows":0,"first":[]},"drift":null,"failed":{"rows":0,"reasons":{}},"calls":{"sent":0,"sent_before":0,"answered":0,"retries":0,"throttled":0,"maybe_billed_twice":0,"unknown_outcome":0,"billed_without_verdict":0,"lost":0,"repeated_transaction_ids":0},"cost":null,"ledger_answers_damaged":0,"ledger_answers_too_old":0,"ledger_answers_aged":0,"ledger_failures_retried":0,"keys_renewed":0,"paused_seconds":0.0,"outages":0,"down_seconds":0.0,"waited_in_vain_seconds":0.0,"limit":{"calls_per_second":null,"in_flight":null},"headers":{"calls_per_second":null,"disbelieved":false},"latency_ms":{"p50":null,"p95":null,"p99":null},"now":{"file":null,"files":null,"percent":null,"eta_seconds":null,"rows_per_second":null,"in_flight":0,"calls_per_second_at_most":null,"in_flight_at_most":null,"search":null,"pause_left_seconds":null,"outage_seconds":null,"rows_of_other_runs":0}}"#);
    }

    #[test]
    fn the_example_in_the_documents_has_the_keys_of_a_line() {
        let example = example_with(r#"{"type":"progress","#);
        let keys = |line: &str| -> Vec<String> {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line.as_object().unwrap().keys().cloned().collect()
        };
        let line = one_line(&ProgressLine::new(&everything(), &settings()));
        assert_eq!(keys(&example), keys(&line));
    }
}
