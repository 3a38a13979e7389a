//! A failure as it is stored: its message may contain the service's words about a person, so it is sealed with the
//! request, and can be read only with that person's data at hand, just as an answer can be found only with it.

use super::request_key::{RequestHasher, RequestKey};
use crate::verdict::{Failure, Reason};

/// A failure as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct SealedFailure {
    pub(super) reason: Reason,
    /// The message: noise without the request's body.
    pub(super) message: Box<[u8]>,
}

impl SealedFailure {
    /// Seals the failure of a request with this body.
    pub(super) fn new(
        hasher: &RequestHasher,
        key: &RequestKey,
        body: &[u8],
        failure: &Failure,
    ) -> Self {
        let mut message: Box<[u8]> = failure.message.as_bytes().into();
        hasher.seal(key, body, &mut message);
        Self {
            reason: failure.reason,
            message,
        }
    }

    /// Opens it with the request's body; `None` where it is not what was sealed.
    pub(super) fn open(
        mut self,
        hasher: &RequestHasher,
        key: &RequestKey,
        body: &[u8],
    ) -> Option<Failure> {
        hasher.seal(key, body, &mut self.message);
        let message = String::from_utf8(self.message.into()).ok()?;
        Some(Failure::new(self.reason, message))
    }
}
