//! Runs for the tests: one that met everything, and one that met nothing.

use std::num::NonZeroU64;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use super::files::{FileState, FileSummary};
use super::kept_ledger::{KeptLedger, LedgerLeft};
use super::named_file::{ReadFile, WrittenFile};
use super::run_summary::RunSummary;
use crate::analysis::UnknownLevels;
use crate::base::error::Error;
use crate::base::money::Tariff;
use crate::drift::Drift;
use crate::observe::run_identity::{DecisionRule, RunIdentity};
use crate::row::RowNumber;
use crate::selection::Selection;
use crate::telemetry::accepted_failures::AcceptedFailures;
use crate::telemetry::event::{
    Again, CallEnd, CancelReason, Event, FailureClass, Next, Origin, PassedOver,
};
use crate::telemetry::pace::{Hint, Pace, PaceCause, PaceChange, Pause, Search};
use crate::telemetry::row_counts::RowCounts;
use crate::telemetry::stats::Stats;
use crate::verdict::{Decision, DecisionPolicy, Reason, Resolution};

const ROW: RowNumber = RowNumber::FIRST;

/// What a call cost in it.
#[allow(clippy::unwrap_used, reason = "a price that is none fails the tests")]
static TARIFF: LazyLock<Tariff> = LazyLock::new(|| Tariff {
    price: "0.004".parse().unwrap(),
    currency: "EUR".parse().ok(),
});

/// When it started: 2026-11-22, 02:00 UTC.
fn start() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_312_800)
}

/// Which run it was.
pub(in crate::observe) static IDENTITY: LazyLock<RunIdentity> = LazyLock::new(|| RunIdentity {
    job: "scored.csv".to_owned(),
    profile: None,
    start: start(),
    rule: DecisionRule::of(&DecisionPolicy::default(), &[]),
});

/// The same with a profile.
static PROFILED: LazyLock<RunIdentity> = LazyLock::new(|| RunIdentity {
    profile: Some("nightly".to_owned()),
    ..IDENTITY.clone()
});

/// What ended it.
static ERROR: LazyLock<Error> = LazyLock::new(|| {
    let error = Error::stopped("`--max-calls` is reached").detail("details may quote the input");
    error.because(std::io::Error::other("a cause"))
});

/// A file that it wrote.
pub(super) fn written(path: &str) -> WrittenFile {
    WrittenFile {
        path: path.into(),
        bytes: Some(512),
    }
}

/// One of several files, with everything that a file can have.
static FILES: LazyLock<Vec<FileSummary>> = LazyLock::new(|| {
    vec![FileSummary {
        input: "parts/a.csv".into(),
        output: Some("scored/a.csv".into()),
        rejects: Some("scored/a.rejects.csv".into()),
        state: FileState::Finished,
        rows: RowCounts {
            resolved: 4,
            approved: 1,
            reviewed: 1,
            blocked: 0,
            undecided: 1,
            failed: 1,
        },
        error: Some("broken".to_owned()),
    }]
});

/// The statistics of a run that met everything, and was stopped by `--max-calls`.
pub(super) fn stats() -> Stats {
    let mut stats = Stats::default();
    for event in calls().into_iter().chain(service()).chain(rows()) {
        stats.apply(Duration::ZERO, &event);
    }
    stats
}

/// Five calls: answered, throttled, retried without an answer twice, and billed without a verdict.
fn calls() -> Vec<Event> {
    let began = |again| Event::AttemptBegan { row: ROW, again };
    let call = |latency| CallEnd {
        row: ROW,
        attempt: 1,
        status: None,
        latency: Duration::from_millis(latency),
    };
    let failed = |class| Event::AttemptFailed {
        call: call(1_000),
        reason: Reason::NoAnswer,
        class,
        next: Next::GiveUp,
    };
    vec![
        began(None),
        Event::AttemptAnswered(call(80)),
        began(None),
        Event::Throttled {
            call: call(10),
            next: Next::Again(Duration::ZERO),
        },
        Event::CallsPaused(Pause {
            length: Duration::from_millis(2_500),
            asked: None,
        }),
        began(Some(Again::Failed)),
        failed(FailureClass::OutcomeUnknown),
        began(Some(Again::OutcomeUnknown)),
        failed(FailureClass::OutcomeUnknown),
        began(None),
        failed(FailureClass::Useless),
    ]
}

/// A limit, two outages, a new key, mixed-up and unusable answers, a full disk.
fn service() -> Vec<Event> {
    vec![
        Event::PaceChanged(PaceChange {
            pace: Pace {
                rate: Some(48.0),
                in_flight: 16,
                search: Search::Holding,
                limit: Some(50.0),
                limit_in_flight: Some(16),
                headers: Hint::Asks(48.0),
                at_ceiling: false,
                refused_at_any: Some(0.05),
            },
            cause: PaceCause::Headers,
        }),
        Event::ServiceDown {
            row: ROW,
            lasted: Duration::ZERO,
            next: Duration::ZERO,
        },
        Event::ServiceUp {
            lasted: Duration::from_secs(30),
        },
        Event::ServiceDown {
            row: ROW,
            lasted: Duration::ZERO,
            next: Duration::ZERO,
        },
        Event::OutageDismissed {
            lasted: Duration::from_secs(60),
        },
        Event::KeyRenewed,
        Event::TransactionRepeated {
            row: ROW,
            first: ROW,
            first_file: 0,
        },
        Event::AnswerPassedOver {
            row: ROW,
            why: PassedOver::Damaged,
        },
        Event::AnswerPassedOver {
            row: ROW,
            why: PassedOver::TooOld,
        },
        Event::AnswerPassedOver {
            row: ROW,
            why: PassedOver::Failed,
        },
        Event::AgedAnswerUsed {
            at: 1_700_000_000_000,
        },
        Event::AnswerLost(ROW),
    ]
}

/// Nine rows: one of each decision, one without a decision, one failed, four left.
fn rows() -> Vec<Event> {
    let resolved = |resolution, origin| Event::RowResolved {
        row: ROW,
        resolution,
        origin,
    };
    let scored = |decision, origin| resolved(Resolution::Scored(Some(decision)), origin);
    let mut drift = Drift::default();
    drift.count(Decision::Approve, Decision::Block);
    let mut unknown = UnknownLevels::default();
    unknown.count(ROW);
    vec![
        Event::RowsRead {
            rows: 9,
            position: 900,
            dropped: 1,
        },
        scored(Decision::Approve, Origin::Called),
        scored(Decision::Review, Origin::Ledger),
        scored(Decision::Block, Origin::Duplicate),
        resolved(Resolution::Scored(None), Origin::Ledger),
        resolved(Resolution::Failed(Reason::Refused), Origin::Called),
        Event::RowsWritten { rows: 5 },
        Event::DecisionsCompared(drift),
        Event::LevelsUnknown(unknown),
        Event::CancelBegan(CancelReason::MaxCalls),
    ]
}

/// The summary of such a run, with all files.
pub(super) fn everything(stats: &Stats) -> RunSummary<'_> {
    RunSummary {
        identity: &PROFILED,
        error: Some(&ERROR),
        input: ReadFile {
            path: Some("users.csv".into()),
            bytes: Some(1_024),
        },
        output: Some(written("scored.csv.partial")),
        rejects: Some(written("scored.rejects.csv.partial")),
        changes: Some(written("changes.csv.partial")),
        ledger: LedgerLeft::Kept(KeptLedger {
            path: "rescore.ledger".into(),
            damaged: false,
        }),
        files: Some(&FILES),
        elapsed: Duration::from_secs(100),
        tariff: Some(&TARIFF),
        part: Some(Selection {
            limit: NonZeroU64::new(9),
            sample: "0.5%".parse().ok(),
        }),
        ..nothing(stats)
    }
}

/// The summary of a run without files.
pub(super) fn nothing(stats: &Stats) -> RunSummary<'_> {
    RunSummary {
        identity: &IDENTITY,
        stats,
        end: start() + Duration::from_secs(100),
        error: None,
        input: ReadFile::default(),
        accepted: AcceptedFailures::default(),
        elapsed: Duration::ZERO,
        sandbox: false,
        tariff: None,
        part: None,
        endpoint: Some("https://api.example.com/v1/validate/user"),
        output: None,
        rejects: None,
        changes: None,
        ledger: LedgerLeft::Nothing,
        sandbox_billed: None,
        files: None,
        output_is_gone: false,
    }
}
