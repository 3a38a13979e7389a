//! What tests of single rows share: steps of scripts, and rows that are scored with outlines of their outcomes.

pub(super) use std::time::Duration;

pub(super) use futures::future::{join, join_all};
pub(super) use tokio::time::Instant;

pub(super) use crate::engine::parts::RowOutcome;
pub(super) use crate::engine::{Engine, Fixture};
pub(super) use crate::row::RowNumber;
pub(super) use crate::service::KeyRenewal;
pub(super) use crate::service::scripted::{MadeCall, Scripted, ScriptedResult, Step};
pub(super) use crate::telemetry::pace::{Hint, Limit};

use crate::engine::parts::RowCall;
use crate::ledger::{RequestKey, WorkerNumber};
use crate::pace::Closed;
use crate::telemetry::counts::Counts;
use crate::verdict::Verdict;

pub(super) const GOOD: Step = ScriptedResult::Verdict.immediately();
pub(super) const SICK: Step = ScriptedResult::Status(500).immediately();
pub(super) const KEY_REFUSED: Step = ScriptedResult::Status(401).immediately();

/// The row with this number.
pub(super) fn number(row: u64) -> RowNumber {
    (1..row).fold(RowNumber::FIRST, |number, _| number.next())
}

impl Engine<Scripted> {
    /// Scores a row as soon as a call may start.
    pub(super) async fn outcome(&self, row: u64) -> RowOutcome {
        self.outcome_of(row, row).await
    }

    /// Scores a row with the same request as row `like`.
    pub(super) async fn outcome_of(&self, row: u64, like: u64) -> RowOutcome {
        let (row, body) = (number(row), Scripted::body(like));
        let call = RowCall {
            row,
            body,
            key: RequestKey::of_row(like),
            taken_over: false,
            worker: WorkerNumber::default(),
        };
        match self.gate.permit().await {
            Ok(permit) => self.score(call, permit).await,
            Err(Closed) => RowOutcome {
                row,
                verdict: None,
                stop: None,
            },
        }
    }

    pub(super) fn counts(&self) -> Counts {
        self.events().with_counts(Clone::clone)
    }

    /// The calls that were made for a row.
    pub(super) fn calls(&self, row: u64) -> Vec<MadeCall> {
        let made = self.service().made().into_iter();
        made.filter(|made| made.row == row).collect()
    }
}

impl RowOutcome {
    /// The answer's transaction or the failure's reason; `-` for a row that is left. A stop follows after a `!`.
    pub(super) fn outline(&self) -> String {
        let verdict = match &self.verdict {
            Some(Verdict::Scored(answer, _)) => answer.transaction_id.as_str(),
            Some(Verdict::Failed(failure)) => failure.reason.word(),
            None => "-",
        };
        let stop = self.stop.as_ref().map(|stop| {
            let code = stop.error.as_ref().unwrap().exit().code();
            format!(
                " ! {} {code}",
                serde_json::to_value(stop.reason).unwrap().as_str().unwrap()
            )
        });
        verdict.to_owned() + &stop.unwrap_or_default()
    }

    /// The report of its stop's error.
    pub(super) fn report(&self) -> String {
        let stop = self.stop.as_ref().unwrap();
        stop.error.as_ref().unwrap().report()
    }
}

/// Asserts the outcomes of rows 1, 2, 3 … when they are scored one after the other.
pub(super) async fn assert_outcomes(engine: &Engine<Scripted>, expected: &[&str]) {
    let mut outcomes = Vec::new();
    for row in 1..=expected.len() as u64 {
        outcomes.push(engine.outcome(row).await.outline());
    }
    assert_eq!(outcomes, expected);
    assert_eq!(engine.counts().calls.in_flight, 0);
}

/// Scores rows until the run stops. Returns their outcomes.
pub(super) async fn until_stopped(engine: &Engine<Scripted>) -> Vec<RowOutcome> {
    let mut outcomes = Vec::new();
    for row in 1.. {
        outcomes.push(engine.outcome(row).await);
        if outcomes.last().unwrap().stop.is_some() {
            break;
        }
    }
    outcomes
}
