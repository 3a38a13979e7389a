//! What happened, as the stages report it.
//!
//! Events are in the past tense and carry row numbers and reason words, never the value of a field: they are the log, as JSON.
//! Stages only emit them; counting, printing and drawing is left to [`Counts`](super::counts::Counts) and the observers.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::pace::{PaceChange, Pause};
use crate::analysis::Drift;
use crate::base::error::{Exit, Signal};
use crate::base::money::Money;
use crate::base::numbers::seconds;
use crate::row::RowNumber;
use crate::verdict::{Reason, Resolution};

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", content = "data", rename_all = "snake_case")]
pub(crate) enum Event {
    /// The reader handed on some rows.
    RowsRead {
        /// How many.
        rows: u64,
        /// How many bytes of the source have been read with them.
        position: u64,
        /// How many of them are sent without an invalid phone number or email address.
        dropped: u64,
    },
    /// From now on, rows come from the next of several files.
    FileStarted {
        /// Its number, from 1.
        file: u64,
        /// The bytes of all files before it.
        before: u64,
    },
    /// A file was finished by an earlier run, and is left as it is.
    FileSkipped {
        /// Some of its rows have no verdict.
        has_rejects: bool,
    },
    /// One of several files cannot be used, or not to its end; the run continues with the others.
    FileFailed(CancelReason),
    /// No more rows will come of this file.
    InputEnded(InputEnd),
    /// The run continues earlier starts.
    EarlierStarts {
        /// Their calls.
        calls: u64,
    },
    /// A row entered the window.
    RowAdmitted(RowNumber),
    /// The number of rows that wait because another run on the same ledger asks about the same users has changed.
    RowsTaken {
        /// How many.
        rows: u64,
    },
    /// A call was sent.
    #[serde(rename = "attempt_began")]
    CallBegan {
        /// The row.
        row: RowNumber,
        /// Why it is a retry, if it is one. A call after a throttle or with a new key is not.
        again: Option<RetryCause>,
    },
    /// A call brought a verdict.
    #[serde(rename = "attempt_answered")]
    CallAnswered(CallEnd),
    /// An answer has the transaction id of a different user's earlier answer: one of the two is not the service's.
    TransactionRepeated {
        /// The row.
        row: RowNumber,
        /// The other user's row.
        first: RowNumber,
        /// The number of the file that it is in; 0 for a run of one file.
        first_file: u64,
    },
    /// A call brought no verdict.
    #[serde(rename = "attempt_failed")]
    CallFailed {
        /// The call.
        #[serde(flatten)]
        call: CallEnd,
        /// What kind of failure.
        reason: Reason,
        /// Whether the service may have billed it.
        class: FailureClass,
        /// What happens to the row.
        next: AfterCallKind,
    },
    /// The service, or a proxy on its behalf, asked for fewer calls.
    Throttled {
        /// The call that was refused.
        #[serde(flatten)]
        call: CallEnd,
        /// What happens to the row.
        next: AfterCallKind,
    },
    /// All calls wait from now on, because of the call that has just ended.
    CallsPaused {
        /// For how long.
        #[serde(flatten)]
        pause: Pause,
        /// The host and its answer; for people.
        #[serde(skip)]
        by: Box<str>,
    },
    /// The service is taken to be down: only a probe is sent now and then.
    ServiceDown {
        /// The row whose call showed it.
        row: RowNumber,
        /// How long it has been down.
        #[serde(rename = "lasted_seconds", serialize_with = "seconds::serialize")]
        lasted: Duration,
        /// Time until the next probe.
        #[serde(rename = "next_seconds", serialize_with = "seconds::serialize")]
        next: Duration,
        /// The host, and why its last call failed; for people.
        #[serde(skip)]
        why: Box<str>,
        /// Time until the run gives up.
        #[serde(skip)]
        patience: Duration,
    },
    /// The service is back.
    ServiceUp {
        /// How long it was down.
        #[serde(rename = "lasted_seconds", serialize_with = "seconds::serialize")]
        lasted: Duration,
    },
    /// An apparent outage was blamed on the rows: the service answers, but fails on each row that is tried.
    OutageDismissed {
        /// How long the service was taken to be down.
        #[serde(rename = "lasted_seconds", serialize_with = "seconds::serialize")]
        lasted: Duration,
    },
    /// The pace of calls has changed.
    PaceChanged(PaceChange),
    /// The run read a different API key from its file, and continues with it.
    KeyRenewed,
    /// An answer has a score below zero; only the first time.
    ScoreBelowZero {
        /// The row.
        row: RowNumber,
    },
    /// None of the first answers has these fields, which `--column` or `--decide-by` asks for.
    FieldsAbsent {
        /// How many answers were checked.
        answers: u32,
        /// The fields' pointers, and the pointers to what is there instead, in words.
        fields: String,
    },
    /// The ledger's entry for a row is not used: the row is sent again.
    AnswerPassedOver {
        /// The row.
        row: RowNumber,
        /// Why.
        why: PassedOver,
    },
    /// The ledger's answer for a row is used although it is older than 30 days.
    AgedAnswerUsed {
        /// When it arrived, in milliseconds since 1970.
        at: i64,
    },
    /// The budget leaves no call, or the run's hours are over: from now on rows get only answers from the ledger, however old.
    LimitReached(CancelReason),
    /// The budget leaves no call for a row whose answer is too old, so the old answer is used.
    OldAnswerUsed {
        /// When it arrived, in milliseconds since 1970.
        at: i64,
    },
    /// A call was abandoned in flight because the run had to end.
    #[serde(rename = "attempt_abandoned")]
    CallAbandoned {
        /// The row.
        row: RowNumber,
        /// The number of this call among those of the row, from 1.
        attempt: u32,
    },
    /// A paid answer was given up before it was known to be on disk: the ledger failed, or the run had to end.
    AnswerLost(RowNumber),
    /// A row got its verdict.
    RowResolved {
        /// The row.
        row: RowNumber,
        /// The verdict, without its values.
        resolution: Resolution,
        /// Where the verdict comes from.
        origin: Origin,
    },
    /// A row needs no verdict, and is written as it is.
    RowPassed(RowNumber),
    /// A row was admitted but is left for a later run.
    RowLeft(RowNumber),
    /// The writer put this many rows into the output.
    RowsWritten {
        /// How many.
        rows: u64,
    },
    /// Scored rows were compared with an earlier decision about the same user.
    DecisionsCompared(Drift),
    /// The writer failed: rows may be resolved and still not be in the output.
    OutputFailed,
    /// The run is stopping early.
    CancelBegan(CancelReason),
    /// Calls in flight get this long to finish, counted from now. A second such event shortens the first.
    DrainBegan {
        /// Why the run is stopping, or why calls get less time.
        reason: CancelReason,
        /// How long they get.
        #[serde(rename = "longest_seconds", serialize_with = "seconds::serialize")]
        longest: Duration,
    },
}

/// A call that has ended, with whatever result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct CallEnd {
    /// The row.
    pub(crate) row: RowNumber,
    /// The number of this call among those of the row, from 1.
    pub(crate) attempt: u32,
    /// The HTTP status; `None` if no answer came.
    pub(crate) status: Option<u16>,
    /// From the request's first byte to the answer's last.
    #[serde(rename = "latency_seconds", serialize_with = "seconds::serialize")]
    pub(crate) latency: Duration,
}

/// Where a row's verdict comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Origin {
    /// From this row's own calls, or without a call if the row could not be sent.
    Called,
    /// From the ledger: an answer that another run paid for, or a failure from before this start of the run. The first row with
    /// an answer carries its cost, zero if that is unknown.
    Ledger(Option<Money>),
    /// From an identical row of this run.
    Duplicate,
}

/// Why the ledger's entry for a row is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PassedOver {
    /// The answer is older than the run asks for.
    TooOld,
    /// It failed, and is asked again.
    Failed,
    /// Its seal is broken: the file was damaged.
    Damaged,
}

/// How the input ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum InputEnd {
    /// All rows.
    Whole,
    /// A part: the run was asked to leave the other rows out.
    Part,
    /// The rows up to the place where this one of several inputs is broken.
    Broken,
}

/// Why a call is a retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RetryCause {
    /// A call that failed.
    Failed,
    /// The row's first call with an unknown outcome: the row may be billed twice now.
    OutcomeUnknown,
    /// Another run may have called for the row and got no answer, so that it may be billed twice now.
    TakenOver,
}

/// Could a failed call have been billed? The reference has the table of these classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum FailureClass {
    /// A: no, it was not processed.
    #[serde(rename = "A")]
    NotProcessed,
    /// B: unknown, as the request was sent and no answer came back.
    #[serde(rename = "B")]
    OutcomeUnknown,
    /// C: perhaps, as the service failed for an unclear reason.
    #[serde(rename = "C")]
    Unclear,
    /// D: yes, as the service answered with success, but without a usable verdict.
    #[serde(rename = "D")]
    Useless,
    /// E: no, the service rejected the row.
    #[serde(rename = "E")]
    RowRefused,
    /// F: no, the service refuses the run.
    #[serde(rename = "F")]
    RunRefused,
}

/// What follows a call without a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AfterCallKind {
    /// Another call, after this back-off.
    #[serde(rename = "again_in_seconds", serialize_with = "seconds::serialize")]
    Again(Duration),
    /// Nothing: the row has failed.
    GiveUp,
    /// Nothing: the run stops.
    Stop,
}

/// Why a run stops early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CancelReason {
    /// SIGINT.
    Interrupted,
    /// SIGTERM.
    Terminated,
    /// SIGHUP.
    HungUp,
    /// The service refuses the run.
    Refused,
    /// The service cannot be reached, or answers with errors.
    Unavailable,
    /// The service refuses calls for longer than the run may wait.
    MaxWait,
    /// The input is invalid or cannot be read any further.
    Input,
    /// The input changed while it was being read.
    InputChanged,
    /// Answers cannot be stored or looked up.
    Ledger,
    /// Too many consecutive rows ended without a verdict.
    NoVerdicts,
    /// None of the first answers has the level that decides.
    NoDecisions,
    /// The run has made all calls that it may make.
    MaxCalls,
    /// The run has made all calls that its budget pays for.
    MaxCost,
    /// The time of day has come at which the run must end.
    Until,
    /// The run has lasted as long as it may.
    MaxTime,
    /// Too many rows have failed.
    MaxFailures,
    /// The output cannot be written.
    Output,
    /// The reader of standard output has gone.
    OutputClosed,
    /// The run could not start: its settings, its input or its files are wrong.
    NotStarted,
    /// A bug in rescore.
    Internal,
}

impl CancelReason {
    /// Whether the system or a service manager asks the process to end, and may kill it soon.
    pub(crate) const fn is_urgent(self) -> bool {
        matches!(self, Self::Terminated | Self::HungUp)
    }

    /// Whether the hours of the run are over, as its user has set them.
    pub(crate) const fn is_of_hours(self) -> bool {
        matches!(self, Self::Until | Self::MaxTime)
    }

    /// How a run exits that was stopped for this reason.
    pub(crate) const fn exit(self) -> Exit {
        self.facts().0
    }

    /// Why the run stops, for people. Programs read the name of the variant.
    pub(crate) const fn words(self) -> &'static str {
        self.facts().1
    }

    const fn facts(self) -> (Exit, &'static str) {
        const MAX_WAIT: &str =
            "the service refuses calls, or asks to wait, for longer than `--max-wait`";
        match self {
            Self::Interrupted => (Exit::Interrupted(Signal::Interrupt), "interrupted"),
            Self::Terminated => (Exit::Interrupted(Signal::Terminate), "terminated"),
            Self::HungUp => (Exit::Interrupted(Signal::HangUp), "hung up"),
            Self::Refused => (Exit::Refused, "the service refuses the run"),
            Self::Unavailable => (Exit::Stopped, "the service is unavailable"),
            Self::MaxWait => (Exit::Stopped, MAX_WAIT),
            Self::Input => (Exit::Usage, "the input is invalid"),
            Self::InputChanged => (Exit::Stopped, "the input has changed"),
            Self::Ledger => (Exit::Stopped, "the ledger cannot be used"),
            Self::NoVerdicts => (Exit::Stopped, "the service gives no verdicts"),
            Self::NoDecisions => (Exit::Stopped, "no answer has the level that decides"),
            Self::MaxCalls => (Exit::Limited, "`--max-calls` is reached"),
            Self::MaxCost => (Exit::Limited, "`--max-cost` is reached"),
            Self::Until => (Exit::Limited, "`--until` is reached"),
            Self::MaxTime => (Exit::Limited, "`--max-time` is reached"),
            Self::MaxFailures => (Exit::Limited, "`--max-failures` is reached"),
            Self::Output => (Exit::Stopped, "the output cannot be written"),
            Self::OutputClosed => (Exit::Stopped, "standard output was closed"),
            Self::NotStarted => (Exit::Usage, "it could not start"),
            Self::Internal => (Exit::Internal, "internal error"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_has_the_words_of_all_reasons_to_stop() {
        // serde lists the words if it reads another one.
        let unknown = serde_json::from_str::<CancelReason>("\"?\"").unwrap_err();
        let unknown = unknown.to_string();
        let (_, words) = unknown.split_once("expected one of ").unwrap();
        let words: Vec<_> = words.split('`').skip(1).step_by(2).collect();
        let schema = include_str!("../../docs/schema/rescore.schema.json");
        let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
        let listed = schema.pointer("/$defs/stopped/enum").unwrap();
        let listed = listed.as_array().unwrap();
        let mut listed: Vec<_> = listed.iter().map(|word| word.as_str().unwrap()).collect();
        listed.sort_unstable();
        let mut sorted = words.clone();
        sorted.sort_unstable();
        assert_eq!(listed, sorted);
    }
}
