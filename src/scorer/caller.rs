//! The part of the scorer that makes calls: the service, the gate before it and the API key's generation.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use super::api_key::{KeyGeneration, KeyRefusal};
use crate::base::error::Error;
use crate::pace::Gate;
use crate::raw_json::Pointer;
use crate::service::{Classified, Exchange, KeyRenewal, Service, classify};

/// Makes the calls.
pub(crate) struct Caller<S> {
    /// What answers: the HTTP client, or a script in tests.
    pub(super) service: S,
    /// Says when a call may start.
    pub(super) gate: Gate,
    /// Which API key calls go out with.
    pub(super) key: RefCell<KeyGeneration>,
    /// How long the latest call took.
    pub(super) latest: Cell<Duration>,
    /// Further fields of the answer that are written.
    fields: Box<[Pointer]>,
}

impl<S> Caller<S> {
    /// A caller of this service that reads these further fields of its answers.
    #[must_use]
    pub(crate) fn new(service: S, gate: Gate, fields: Box<[Pointer]>) -> Self {
        Self {
            service,
            gate,
            key: RefCell::default(),
            latest: Cell::new(Duration::MAX),
            fields,
        }
    }

    /// What a call brought, and what that means.
    pub(super) fn classify(&self, exchange: Exchange) -> Classified {
        classify(exchange, &self.fields)
    }
}

impl<S: Service> Caller<S> {
    /// A call with the key of this generation was refused for its key. Of all calls that went out with a key that was
    /// good so far, the first one looks for a new key. Whether there is a new one since this call, or a reason to look.
    ///
    /// # Errors
    /// There is no other key, so the run must stop with `error`.
    pub(super) fn replace_key(&self, generation: u64, error: Error) -> Result<KeyReplaced, Error> {
        let mut key = self.key.borrow_mut();
        match key.refused(generation) {
            KeyRefusal::Outdated => Ok(KeyReplaced::Before),
            // A run that is stopping has no use for another key.
            KeyRefusal::Revoked if !self.gate.is_closed() => match self.service.renew_key() {
                KeyRenewal::Renewed => {
                    key.renewed();
                    Ok(KeyReplaced::Now)
                }
                KeyRenewal::Kept(why) => Err(error.detail(why)),
                KeyRenewal::Fixed => Err(error),
            },
            KeyRefusal::Useless if key.has_changed() => Err(error.detail(
                "the key had been read again from its file, and the new one is refused as well",
            )),
            KeyRefusal::Revoked | KeyRefusal::Useless => Err(error),
        }
    }
}

/// When a refused key was replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyReplaced {
    /// Since the refused call went out.
    Before,
    /// Just now.
    Now,
}
