//! The counts of a stand-in.

use std::fmt;

use super::super::faults::{FaultKind, KINDS};

/// What a stand-in has counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// All requests, except those that asked for these counts.
    pub(crate) requests: u64,
    /// Successful answers: what the service would have charged.
    pub(crate) billed: u64,
    /// Requests above the rate limit.
    pub(crate) throttled: u64,
    /// Requests that violate the interface.
    pub(crate) refused: u64,
    /// Faults, in the order of [`FaultKind::ALL`].
    pub(crate) faults: [u64; KINDS],
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "requests {}, billed {}, throttled {}, refused {}",
            self.requests, self.billed, self.throttled, self.refused
        )?;
        let mut before = "; faults: ";
        for (count, kind) in self.faults.iter().zip(FaultKind::ALL) {
            if *count > 0 {
                write!(f, "{before}{count} × {}", kind.name())?;
                before = ", ";
            }
        }
        Ok(())
    }
}
