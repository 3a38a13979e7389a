//! The bodies of requests.

use bytes::{Bytes, BytesMut};

use crate::fields::UserRequest;

/// A function that writes the body of a valid request.
type WriteBody = dyn Fn(&UserRequest<'_>, &mut BytesMut) + Send;

/// Writes the body of a valid request. It runs here to save the thread that makes the calls from
/// it.
pub struct Compose {
    write: Box<WriteBody>,
    marks: usize,
}

impl Compose {
    /// Writes bodies as this function does.
    pub fn new(write: impl Fn(&UserRequest<'_>, &mut BytesMut) + Send + 'static) -> Self {
        Self {
            write: Box::new(write),
            marks: 0,
        }
    }

    /// The same, where the function writes so many bytes before the body that are not sent. A sample must not depend on them.
    #[must_use]
    pub(crate) fn behind_marks(self, marks: usize) -> Self {
        Self { marks, ..self }
    }

    /// Writes what stands for a request.
    #[inline]
    pub(crate) fn write(&self, request: &UserRequest<'_>, to: &mut BytesMut) {
        (self.write)(request, to);
    }

    /// How many bytes of a request come before its body.
    pub(super) const fn marks(&self) -> usize {
        self.marks
    }
}

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
        self.compose.write(request, &mut self.block);
        self.block.split().freeze()
    }
}
