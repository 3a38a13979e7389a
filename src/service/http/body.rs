//! The body of an answer, put together from chunks.

use bytes::{Bytes, BytesMut};

/// A body as it arrives. Nearly every body is a single chunk, which is not copied.
#[derive(Default)]
pub(super) struct Body {
    first: Bytes,
    all: BytesMut,
}

impl Body {
    pub(super) fn len(&self) -> usize {
        self.first.len().max(self.all.len())
    }

    pub(super) fn push(&mut self, chunk: Bytes) {
        if self.first.is_empty() && self.all.is_empty() {
            self.first = chunk;
            return;
        }
        self.all.extend_from_slice(&std::mem::take(&mut self.first));
        self.all.extend_from_slice(&chunk);
    }

    pub(super) fn into_bytes(self) -> Bytes {
        if self.all.is_empty() {
            self.first
        } else {
            self.all.freeze()
        }
    }
}
