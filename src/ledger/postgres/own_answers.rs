//! The requests that this run has stored an answer to: the tables do not say which run an answer is from, and other runs
//! store theirs at the same time.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::ledger::bloom_filter::BloomFilter;
use crate::ledger::lookup_result::AnsweredIn;
use crate::ledger::packed::Fingerprint;
use crate::ledger::request_key::RequestKey;

/// The requests that this run has stored an answer to, as the threads that store and look up both know them.
#[derive(Default)]
pub(super) struct OwnAnswers(Mutex<BloomFilter>);

impl OwnAnswers {
    /// An answer to this request is about to be stored: so nobody finds it before it is known here.
    pub(super) fn insert(&self, key: &RequestKey) {
        self.lock().insert(Fingerprint::of(&key.into()));
    }

    /// The run that the answer to a request is from, which came since this run started.
    pub(super) fn run_of(&self, key: &RequestKey) -> AnsweredIn {
        if self.lock().may_contain(Fingerprint::of(&key.into())) {
            AnsweredIn::ThisRun
        } else {
            AnsweredIn::OtherRun
        }
    }

    fn lock(&self) -> MutexGuard<'_, BloomFilter> {
        // A panic elsewhere can at most leave an answer out.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
