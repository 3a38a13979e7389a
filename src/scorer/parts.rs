//! The scorer and its parts.

use std::cell::RefCell;

use super::caller::Caller;
use super::policies::Policies;
use super::recorder::RowRecorder;

/// Gets verdicts for rows.
pub(crate) struct Scorer<S> {
    pub(super) caller: Caller<S>,
    pub(super) policies: RefCell<Policies>,
    pub(super) recorder: RowRecorder,
}

impl<S> Scorer<S> {
    /// A scorer of these parts.
    #[must_use]
    pub(crate) const fn new(caller: Caller<S>, policies: Policies, recorder: RowRecorder) -> Self {
        Self {
            caller,
            policies: RefCell::new(policies),
            recorder,
        }
    }
}
