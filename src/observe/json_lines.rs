//! Progress for programs: a JSON object at intervals, one per line.
//!
//! The reference documents every key; keys are added, but never change.

use std::time::Duration;

use serde::Serialize;

use super::json::{one_line, rounded};
use super::notice::Notice;
use super::settings::ProgressSettings;
use super::snapshot::Snapshot;
use super::view::View;
use super::words;
use crate::base::money::Money;
use crate::base::stderr::{say, say_progress};
use crate::telemetry::pace::Search;

/// Progress as JSON objects.
pub(super) struct JsonLines {
    sandbox: bool,
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

/// One line. What is not known, or not yet, is null.
#[derive(Debug, Serialize)]
struct ProgressLine {
    r#type: LineType,
    elapsed_seconds: f64,
    sandbox: bool,
    file: Option<u64>,
    files: Option<u64>,
    rows: u64,
    approve: u64,
    review: u64,
    block: u64,
    undecided: u64,
    failed: u64,
    calls: u64,
    in_flight: u64,
    retries: u64,
    keys_renewed: u64,
    rows_per_second: Option<f64>,
    percent: Option<f64>,
    eta_seconds: Option<f64>,
    calls_per_second_at_most: Option<f64>,
    in_flight_at_most: Option<usize>,
    search: Option<Search>,
    limit_per_second: Option<f64>,
    down_seconds: Option<f64>,
    paused_seconds: Option<f64>,
    spent: Option<Money>,
    spent_at_most: Option<Money>,
    saved: Option<Money>,
}

impl ProgressLine {
    fn new(now: &Snapshot, sandbox: bool) -> Self {
        let seconds = |time: Duration| rounded(time.as_secs_f64());
        Self {
            r#type: if now.stopping {
                LineType::Stopping
            } else {
                LineType::Progress
            },
            elapsed_seconds: seconds(now.at),
            sandbox,
            file: now.file.map(|(file, _)| file),
            files: now.file.map(|(_, files)| files),
            rows: now.resolved,
            approve: now.approved,
            review: now.reviewed,
            block: now.blocked,
            undecided: now.undecided,
            failed: now.failed,
            calls: now.calls,
            in_flight: now.in_flight,
            retries: now.retries,
            keys_renewed: now.keys_renewed,
            rows_per_second: now.rate.map(rounded),
            percent: now.share.map(|share| rounded(share * 100.0)),
            eta_seconds: now.remaining.map(seconds),
            calls_per_second_at_most: now.pace.and_then(|pace| pace.rate).map(rounded),
            in_flight_at_most: now.pace.map(|pace| pace.in_flight),
            search: now.pace.map(|pace| pace.search),
            limit_per_second: now.pace.and_then(|pace| pace.limit).map(rounded),
            down_seconds: now
                .outage
                .map(|outage| seconds(now.at.saturating_sub(outage.since))),
            paused_seconds: now.pause.map(|(left, _)| seconds(left)),
            spent: now.cost.map(|cost| cost.spent),
            spent_at_most: now.cost.map(|cost| cost.spent_at_most),
            saved: now.cost.map(|cost| cost.saved),
        }
    }
}

impl JsonLines {
    pub(super) const fn new(settings: &ProgressSettings) -> Self {
        Self {
            sandbox: settings.sandbox,
        }
    }

    fn line(&self, now: &Snapshot) -> String {
        one_line(&ProgressLine::new(now, self.sandbox))
    }
}

impl View for JsonLines {
    fn frame(&mut self, now: &Snapshot) {
        say_progress(&self.line(now));
    }

    fn notice(&mut self, notice: Notice, now: &Snapshot) {
        match notice {
            Notice::Warning(warning) => say(&words::warning(&warning)),
            _ => say(&self.line(now)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::base::money::Tariff;
    use crate::observe::cost::Cost;
    use crate::observe::documented::example_with;
    use crate::telemetry::pace::{Hint, Pace, Pause};
    use crate::telemetry::stats::{OngoingOutage, Stats};

    fn everything() -> Snapshot {
        let tariff = Tariff {
            price: "0.004".parse().unwrap(),
            currency: None,
        };
        let mut stats = Stats::default();
        (stats.answered, stats.in_flight, stats.known) = (308_625, 1, 1);
        Snapshot {
            at: Duration::from_millis(12_500),
            file: Some((3, 64)),
            resolved: 10,
            approved: 4,
            reviewed: 3,
            blocked: 2,
            undecided: 9,
            failed: 1,
            in_flight: 5,
            retries: 6,
            throttled: 7,
            keys_renewed: 8,
            calls: 20,
            pause: Some((
                Duration::from_millis(1_500),
                Pause {
                    length: Duration::from_secs(2),
                    asked: None,
                },
            )),
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
            stopping: true,
            cost: Some(Cost::of(&stats, &tariff)),
            share: Some(0.404),
            rate: Some(0.8),
            remaining: Some(Duration::from_secs(18)),
        }
    }

    #[test]
    fn a_line_has_these_keys_in_this_order_and_null_for_what_is_not_known() {
        let line = |now: &Snapshot| one_line(&ProgressLine::new(now, true));
        assert_eq!(
            line(&everything()),
            concat!(
                r#"{"type":"stopping","elapsed_seconds":12.5,"sandbox":true,"file":3,"files":64,"rows":10,"approve":4,"review":3,"block":2,"#,
                r#""undecided":9,"failed":1,"calls":20,"in_flight":5,"retries":6,"keys_renewed":8,"rows_per_second":0.8,"percent":40.4,"#,
                r#""eta_seconds":18.0,"calls_per_second_at_most":48.0,"in_flight_at_most":16,"search":"closing_in","#,
                r#""limit_per_second":50.0,"down_seconds":2.5,"paused_seconds":1.5,"#,
                r#""spent":1234.5,"spent_at_most":1234.504,"saved":0.004}"#
            )
        );
        assert_eq!(
            line(&Snapshot::default()),
            concat!(
                r#"{"type":"progress","elapsed_seconds":0.0,"sandbox":true,"file":null,"files":null,"rows":0,"approve":0,"review":0,"block":0,"#,
                r#""undecided":0,"failed":0,"calls":0,"in_flight":0,"retries":0,"keys_renewed":0,"rows_per_second":null,"percent":null,"#,
                r#""eta_seconds":null,"calls_per_second_at_most":null,"in_flight_at_most":null,"search":null,"#,
                r#""limit_per_second":null,"down_seconds":null,"paused_seconds":null,"#,
                r#""spent":null,"spent_at_most":null,"saved":null}"#
            )
        );
    }

    #[test]
    fn the_example_in_the_documents_has_the_keys_of_a_line() {
        let example = example_with(r#"{"type":"progress","#);
        let keys = |line: &str| -> Vec<String> {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line.as_object().unwrap().keys().cloned().collect()
        };
        let line = one_line(&ProgressLine::new(&everything(), false));
        assert_eq!(keys(&example), keys(&line));
    }
}
