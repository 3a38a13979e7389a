//! A report for the tests: rows with all kinds of verdicts, and a value that would break out of the page.

use super::sections::{Comparison, PageContent, ShownThresholds};
use crate::analysis::{GroupTally, PairingCounts, PastVerdict, RowTally, UserOutcome};
use crate::observe::ReportedRun;
use crate::verdict::{Score, Thresholds};

/// A value that means something to HTML and to a terminal.
pub(super) const HOSTILE: &str = "<script>alert(1)</script>&\"'\u{202e}\u{1b}[2J";

/// The summary of a run, with everything that a report shows.
const SUMMARY: &str = r#"{"type":"summary","version":1,"exit_code":1,"stopped":null,"sandbox":true,
"start_time":"2026-11-22T14:58:30Z","end_time":"2026-11-22T14:59:35Z","endpoint":"http://127.0.0.1:1","elapsed_seconds":65.25,"rows_per_second":15.3,
"rows":{"read":1000,"resolved":1000,"written":1000,"left":0},"known":7,"duplicates":3,
"decisions":{"approve":499,"review":248,"block":248},"drift":null,
"failed":{"rows":5,"reasons":{"invalid_ip":4,"refused":1}},
"calls":{"sent":990,"answered":985,"retries":4,"throttled":12,"maybe_billed_twice":1,"unknown_outcome":1,
"billed_without_verdict":0,"lost":0,"repeated_transaction_ids":0},"paused_seconds":2.5,"outages":1,"down_seconds":4.0,
"pace":null,"cost":{"price":0.004,"currency":"EUR","spent":3.96,
"verdicts":3.972,"unpriced":0},"rescore_version":"0.0.9",
"blake3":{"input":"cd","output":"ef"},"options":{"map":["ip=<b>"],"rate":"5/s","output":"/home/jo/scored.csv"},"later":1}"#;

/// A report of a rehearsal with everything in it.
pub(super) fn everything() -> PageContent {
    let thresholds = Thresholds::default();
    let mut tally = RowTally::new(Some(&thresholds));
    let mut groups = GroupTally::default();
    for row in 0..1_000_u32 {
        // A share below 2, as in most files, and the others up to 10.
        let hundredths = if row % 2 == 0 { row % 200 } else { row % 1_001 };
        let score = Score::from_json_number(&format!("{hundredths}e-2")).ok();
        let score = score.filter(|_| row % 200 != 7);
        let decision = score.as_ref().map(|score| thresholds.decide(score));
        let past = Score::from_json_number(&format!("{}e-2", (hundredths + row % 90) % 1_000)).ok();
        let past = past.filter(|_| row % 3 > 0).map(|score| PastVerdict {
            decision: thresholds.decide(&score),
            score: Some(score),
        });
        let outcome = match row % 50 {
            _ if row % 4 == 0 => UserOutcome::Unknown,
            _ if hundredths > 400 => UserOutcome::Bad,
            1 => UserOutcome::Bad,
            _ => UserOutcome::Good,
        };
        tally.count(score.as_ref(), decision, past.as_ref(), outcome);
        let country = match row {
            3 => HOSTILE,
            row if row % 5 == 1 => "US",
            row if row % 5 == 2 => "",
            row if row % 5 == 3 => "FR",
            _ => "DE",
        };
        groups.count(country.as_bytes(), decision);
    }
    PageContent {
        file: "scored.csv".to_owned(),
        made: "22 November 2026, 16:05 (UTC+01:00)".to_owned(),
        sandbox: true,
        tally,
        comparison: Some(Comparison::File {
            name: "last-month.csv".to_owned(),
            pairing: PairingCounts {
                key: "id".to_owned(),
                paired: 666,
                new: 334,
                gone: 12,
                ambiguous: 2,
            },
        }),
        groups: vec![("country".to_owned(), groups.top(3))],
        run: ReportedRun::parse(SUMMARY).ok(),
        redecided: false,
        thresholds: ShownThresholds {
            outcome: Some("fraud".to_owned()),
            catch: Some(90.0),
            candidate: None,
            are_read: false,
        },
    }
}
