//! What happened, as the stages tell it.
//!
//! Events are past tense and carry row numbers and reason words, never a value of a field. Stages emit them; nobody
//! prints, counts or draws but the observers that fold them.

use std::sync::Arc;
use std::time::Duration;

use crate::drift::Drift;
use crate::row::RowNumber;
use crate::verdict::{Reason, Resolution};

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    /// The reader handed on this many rows.
    RowsRead {
        /// How many.
        rows: u64,
        /// Bytes of the source that are used up with them.
        position: u64,
    },
    /// No more rows will come.
    InputEnded,
    /// A row entered the window.
    RowAdmitted(RowNumber),
    /// A call went out.
    AttemptBegan {
        /// The row.
        row: RowNumber,
        /// What it repeats, if anything; after a throttle, or with a new key, it repeats nothing.
        again: Option<Again>,
    },
    /// A call brought a verdict.
    AttemptAnswered {
        /// The row.
        row: RowNumber,
        /// From the request's first byte to the answer's last.
        latency: Duration,
    },
    /// A call brought a transaction id that a different user's answer had before: one of the two is not the service's.
    TransactionRepeated {
        /// The row.
        row: RowNumber,
        /// The other user's.
        first: RowNumber,
    },
    /// A call brought no verdict.
    AttemptFailed {
        /// The row.
        row: RowNumber,
        /// What kind of failure.
        reason: Reason,
        /// Whether the service may have billed it.
        billing: Billing,
        /// How long it took.
        latency: Duration,
        /// What happens to the row.
        next: Next,
    },
    /// The service asked for less, or a proxy on its behalf; everybody pauses.
    Throttled {
        /// The row whose call was refused.
        row: RowNumber,
        /// How long everybody waits from now on; nothing when a pause that is on already lasts longer.
        pause: Option<Pause>,
    },
    /// The service is taken to be down: nothing is sent but now and then a single call.
    ServiceDown {
        /// The row whose call showed it.
        row: RowNumber,
        /// For how long it has been down.
        lasted: Duration,
        /// Until the next single call.
        next: Duration,
    },
    /// The service is back.
    ServiceUp {
        /// How long it was down.
        lasted: Duration,
    },
    /// What seemed an outage is put down to the rows: the service answers, and fails over each that is tried.
    OutageDismissed {
        /// How long it was taken to be down.
        lasted: Duration,
    },
    /// Calls go at another pace from now on.
    PaceChanged(Pace),
    /// The API key was read again from its file, and is another one: the run goes on with it.
    KeyRenewed,
    /// The service has refused this many rows in a row.
    ManyRefused {
        /// How many.
        rows: u32,
    },
    /// None of the first answers has these fields, which were asked for with `--column`.
    FieldsAbsent {
        /// How many answers were looked at.
        answers: u32,
        /// Their pointers, as they are shown.
        fields: Arc<str>,
    },
    /// An answer is in the ledger and cannot be used: the row is asked again.
    AnswerUnusable {
        /// The row.
        row: RowNumber,
        /// Why.
        why: Unusable,
    },
    /// A call was given up while it was out: the run had to end.
    AttemptAbandoned(RowNumber),
    /// An answer was paid for and given up before it was known to be durable: the ledger failed, or the run had to end.
    AnswerLost(RowNumber),
    /// A row got its verdict.
    RowResolved {
        /// The row.
        row: RowNumber,
        /// The verdict, without its values.
        resolution: Resolution,
        /// Where it comes from.
        origin: Origin,
    },
    /// A row was admitted but is left for a later run.
    RowLeft(RowNumber),
    /// The writer put this many rows into the output.
    RowsWritten {
        /// How many.
        rows: u64,
    },
    /// Scored rows were held against an earlier decision about the same user.
    DecisionsCompared(Drift),
    /// The writer failed: rows may be resolved and still not be in the output.
    OutputFailed,
    /// The run began to stop early.
    CancelBegan(CancelReason),
    /// Calls in flight get so long to finish from now on. A second one cuts the first one short.
    DrainBegan {
        /// Why they finish, or why they get less time.
        reason: CancelReason,
        /// How long.
        longest: Duration,
    },
}

/// Where a row's verdict comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// From calls for this row, or from none when it could ask nothing.
    Called,
    /// From an answer of an earlier run, or of another one at the same time.
    Ledger,
    /// From the answer to an equal row of this run.
    Duplicate,
}

/// Why an answer that is in the ledger cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// It is not as it was written.
    Damaged,
    /// It is dated in the future, so that its age cannot be told.
    FromTheFuture,
}

/// What a repeated call follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// A call that failed.
    Failed,
    /// The row's first call whose outcome is unknown: the row may be billed twice now.
    OutcomeUnknown,
}

/// A pause of all calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pause {
    /// How long.
    pub(crate) length: Duration,
    /// What the service asked for; `None` where it named no time and we chose one.
    pub(crate) asked: Option<Duration>,
}

/// How fast calls may go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Calls a second; `None` where nothing limits them.
    pub rate: Option<f64>,
    /// Calls in flight.
    pub(crate) in_flight: usize,
    /// What the search for the pace does.
    pub(crate) search: Search,
    /// Calls a second at which the service refused: its limit, as far as it is known.
    pub(crate) limit: Option<f64>,
    /// Calls in flight that are kept to because the service refused more.
    pub(crate) limit_in_flight: Option<usize>,
    /// What the service's headers ask for.
    pub(crate) headers: Hint,
    /// It is what the user allows at most.
    pub(crate) at_ceiling: bool,
    /// The share of calls that the service refuses at any pace, where it does.
    pub(crate) refused_at_any: Option<f64>,
}

impl Pace {
    /// The rate that the service's headers ask for, where that is what calls keep to.
    #[must_use]
    pub(crate) fn asked_for(&self) -> Option<f64> {
        match self.headers {
            Hint::Asks(rate) if self.rate.is_none_or(|most| rate <= most) => Some(rate),
            _ => None,
        }
    }
}

/// Why the pace changes, or does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Search {
    /// Nothing was refused yet: it doubles.
    Growing,
    /// Something was refused: it closes in on the limit.
    ClosingIn,
    /// It was cut, and it is being checked whether that brings fewer refusals.
    Checking,
    /// It keeps just below the limit.
    Holding,
    /// It looks whether more is allowed by now.
    Looking,
}

/// What the service's `RateLimit` headers ask for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Hint {
    /// Nothing.
    Silent,
    /// At most so many calls a second.
    Asks(f64),
    /// It is not believed: what they say is left does not change while calls are accepted.
    Disbelieved,
}

/// What the service was found to bear at most, as far as that is known.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Limit {
    /// Calls a second.
    pub rate: Option<Found>,
    /// Calls in flight.
    pub in_flight: Option<Found>,
}

impl Limit {
    /// Nothing is known.
    pub(crate) const NONE: Self = Self {
        rate: None,
        in_flight: None,
    };

    /// What may be remembered for another run.
    #[must_use]
    pub(crate) fn seen_as_limit(self) -> Self {
        Self {
            rate: self.rate.filter(Found::was_seen_as_limit),
            in_flight: self.in_flight.filter(Found::was_seen_as_limit),
        }
    }

    /// Whether any of it was seen too rarely to be believed unchecked.
    #[must_use]
    pub(crate) fn is_doubtful(self) -> bool {
        let mut found = self.rate.iter().chain(&self.in_flight);
        found.any(|found| found.is_doubtful())
    }
}

/// A limit, and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    /// What the service bears at most.
    pub value: f64,
    /// How often it was seen to refuse above this and to accept below it.
    pub times: u32,
}

impl Found {
    /// A single refusal may have had another reason, as another program's calls.
    const REMEMBERED_FROM: u32 = 2;
    /// Two in a row still come by chance, from a service that refuses some calls at any pace.
    const SURE_FROM: u32 = 3;

    fn was_seen_as_limit(&self) -> bool {
        self.times >= Self::REMEMBERED_FROM
    }

    /// Whether it was seen too rarely to be believed unchecked.
    #[must_use]
    pub(crate) const fn is_doubtful(self) -> bool {
        self.times < Self::SURE_FROM
    }
}

/// What the service may have charged for a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Billing {
    /// Nothing: it was not processed, or refused.
    Unlikely,
    /// It cannot be known: the request went out and no answer came back.
    Unknown,
    /// It answered with success, so it has billed.
    Billed,
}

/// What follows a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another attempt after this back-off.
    Again(Duration),
    /// None: the row has failed.
    GiveUp,
    /// None: the run stops.
    Stop,
}

/// Why a run stops early, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CancelReason {
    /// SIGINT.
    Interrupted,
    /// SIGTERM.
    Terminated,
    /// SIGHUP.
    HungUp,
    /// The service refuses the run.
    Refused,
    /// The service cannot be reached or is not well.
    Unavailable,
    /// The input is broken or cannot be read on.
    Input,
    /// The input changed while it was read.
    InputChanged,
    /// Answers cannot be kept, or not be looked up.
    Ledger,
    /// Too many rows in a row brought no verdict.
    NoVerdicts,
    /// The calls that the run may make are used up.
    MaxCalls,
    /// Too many rows have failed.
    MaxFailures,
    /// The output cannot be written.
    Output,
    /// Whoever read our standard output has gone.
    OutputClosed,
    /// A bug of ours.
    Internal,
}

impl CancelReason {
    /// Whether the system or a service manager wants the process to end, and may kill it soon.
    #[must_use]
    pub(crate) const fn hurries(self) -> bool {
        matches!(self, Self::Terminated | Self::HungUp)
    }

    /// The reason's word, as the summary has it.
    #[must_use]
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Interrupted => "interrupted",
            Self::Terminated => "terminated",
            Self::HungUp => "hung_up",
            Self::Refused => "refused",
            Self::Unavailable => "unavailable",
            Self::Input => "input",
            Self::InputChanged => "input_changed",
            Self::Ledger => "ledger",
            Self::NoVerdicts => "no_verdicts",
            Self::MaxCalls => "max_calls",
            Self::MaxFailures => "max_failures",
            Self::Output => "output",
            Self::OutputClosed => "output_closed",
            Self::Internal => "internal",
        }
    }
}
