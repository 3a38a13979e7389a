//! A client that has started a request must finish it in time; it may be idle between requests.
//!
//! Hyper's own limit also counts idle time: it would cut off a client that comes back just then.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Our requests arrive in one piece. Half a request occupies a connection, and so a file, that
/// others may need.
const LONGEST_REQUEST: Duration = Duration::from_secs(10);

/// The deadline for the request that has started on a connection, if there is one.
#[derive(Clone, Default)]
pub(super) struct Deadline(Arc<Mutex<Option<Pin<Box<Sleep>>>>>);

impl Deadline {
    /// The request is complete; the next byte starts another one.
    pub(super) fn met(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Pin<Box<Sleep>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that fails after its deadline.
pub(super) struct Timed<S> {
    stream: S,
    deadline: Deadline,
}

impl<S> Timed<S> {
    pub(super) const fn new(stream: S, deadline: Deadline) -> Self {
        Self { stream, deadline }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let mut deadline = self.deadline.lock();
        if buffer.filled().len() > before && deadline.is_none() {
            *deadline = Some(Box::pin(sleep(LONGEST_REQUEST)));
        }
        match deadline.as_mut() {
            Some(deadline) if read.is_pending() => {
                let passed = deadline.as_mut().poll(context);
                passed.map(|()| Err(io::ErrorKind::TimedOut.into()))
            }
            _ => read,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn half_a_request_has_ten_seconds_and_an_idle_client_has_forever() {
        let (mut client, stream) = duplex(64);
        let deadline = Deadline::default();
        let mut server = Timed::new(stream, deadline.clone());
        let mut block = [0; 64];
        let hour = Duration::from_secs(3_600);
        for _ in 0..2 {
            let idle = tokio::time::timeout(hour, server.read(&mut block)).await;
            assert!(idle.is_err(), "nothing has started");
            client.write_all(b"POST").await.unwrap();
            assert_eq!(server.read(&mut block).await.unwrap(), 4);
            client.write_all(b" / HTTP/1.1\r\n\r\n").await.unwrap();
            assert_eq!(server.read(&mut block).await.unwrap(), 15);
            deadline.met();
        }
        let started = Instant::now();
        client.write_all(b"POST").await.unwrap();
        assert_eq!(server.read(&mut block).await.unwrap(), 4);
        sleep(Duration::from_secs(6)).await;
        client.write_all(b" ").await.unwrap();
        assert_eq!(server.read(&mut block).await.unwrap(), 1);
        let late = server.read(&mut block).await.unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        assert_eq!(started.elapsed(), LONGEST_REQUEST);
    }
}
