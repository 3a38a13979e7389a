//! The outcome of a call, and what it means for the row and the run.

use std::time::Duration;

use bytes::Bytes;

use crate::base::error::Error;
use crate::verdict::{Answer, Failure, Reason};

/// The outcome of one call.
#[derive(Debug)]
pub enum Classified {
    /// A verdict, and the whole body that it was read from.
    Answered(Answer, Bytes),
    /// Class A, too many calls: all calls wait, and the row's attempts are not used up.
    Throttled {
        /// How long the service asks to wait, if it says so.
        wait: Option<Duration>,
        /// The status of the answer.
        status: u16,
    },
    /// Classes A to E: this call brought no verdict.
    Failed(Fault),
    /// Class F: every further call would fail in the same way.
    Refused(Error),
    /// Class F for the key: every further call with this key would fail in the same way.
    KeyRefused(Error),
}

/// A call that brought no verdict.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    /// What it means for another attempt.
    pub(crate) class: Class,
    /// What it says about the service.
    pub(crate) health: Health,
    /// Whether the answer seems to come from something other than the service: its body is not
    /// JSON.
    pub(crate) from_other_program: bool,
    /// The row's failure if there is no further attempt.
    pub failure: Failure,
}

impl Fault {
    /// The fault of a row whose calls were throttled so many times, the last time with this status,
    /// while others were accepted. Nothing was processed, so a later run asks again.
    #[must_use]
    pub(crate) fn throttled(times: u32, status: u16) -> Self {
        let message = format!(
            "the service throttled this row {times} times ({status}) while it accepted others"
        );
        Self {
            class: Class::NotProcessed,
            health: Health::AtWork,
            from_other_program: false,
            failure: Failure::new(Reason::Throttled, message),
        }
    }
}

/// What a call without a verdict says about the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    /// It works, whatever it thinks of this row.
    AtWork,
    /// It failed, perhaps because of this row.
    Failed,
    /// A bare 503: it gets too many calls, or it is away.
    BusyOrAway,
    /// It cannot be reached, or a gateway in front of it says so.
    Gone,
    /// It takes too long to answer.
    Slow,
}

/// Could the call have been billed?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// A: it was not processed.
    NotProcessed,
    /// A, and the name of the host or its proxy cannot be resolved: before the first answer, this
    /// means that the address is wrong.
    HostNotFound,
    /// A, and there is no connection: the service is waited for, also before the first answer.
    NotConnected,
    /// B: the request was sent, and no complete answer came back.
    OutcomeUnknown,
    /// C: refused for an unclear cause.
    Unclear,
    /// D: billed, but without a verdict.
    Useless,
    /// E: the row is at fault.
    RowsFault,
    /// A bare 403: the row's fault if it comes among good answers, the run's if it comes at the
    /// start or several times in succession.
    Forbidden,
}

impl Class {
    /// Whether a request with this outcome must not be sent again in the same run: it was billed,
    /// may have been billed, or would be refused again.
    #[must_use]
    pub(crate) const fn is_for_good(self) -> bool {
        match self {
            Self::OutcomeUnknown | Self::Useless | Self::RowsFault | Self::Forbidden => true,
            Self::NotProcessed | Self::HostNotFound | Self::NotConnected | Self::Unclear => false,
        }
    }
}
