//! The bodies of requests.

use bytes::{Bytes, BytesMut};

use crate::fields::UserRequest;

/// Writes the bytes that are sent for a valid request; it runs here so that the thread that makes calls need not.
pub type Compose = Box<dyn Fn(&UserRequest<'_>, &mut BytesMut) + Send>;

/// A block of bodies: some 250 of them. One that waits holds the whole block.
const BODIES: usize = 64 * 1024;

/// Makes requests' bodies, many to a block: an allocation for each would be freed by another thread, which is the dearest
/// way.
pub(super) struct Bodies {
    compose: Compose,
    block: BytesMut,
}

impl Bodies {
    pub(super) fn new(compose: Compose) -> Self {
        Self {
            compose,
            block: BytesMut::with_capacity(BODIES),
        }
    }

    pub(super) fn body(&mut self, request: &UserRequest<'_>) -> Bytes {
        (self.compose)(request, &mut self.block);
        self.block.split().freeze()
    }
}
