//! The bodies of requests.

use bytes::{Bytes, BytesMut};

use crate::fields::UserRequest;

/// Writes the body of a valid request. It runs here to save the thread that makes the calls from
/// it.
pub type Compose = Box<dyn Fn(&UserRequest<'_>, &mut BytesMut) + Send>;

/// The size of a block, for about 250 bodies. A body that waits keeps its whole block in memory.
const BODIES: usize = 64 * 1024;

/// Makes the bodies of requests, many in one block: an allocation for each would be freed by
/// another thread, which is the most expensive way.
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

    #[inline]
    pub(super) fn body(&mut self, request: &UserRequest<'_>) -> Bytes {
        (self.compose)(request, &mut self.block);
        self.block.split().freeze()
    }
}
