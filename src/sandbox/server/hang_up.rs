//! Ends connections without an answer.

use std::fmt;

use tokio::net::TcpStream;

/// The connection ends without an answer.
#[derive(Debug)]
pub(super) struct HangUp;

impl fmt::Display for HangUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the stand-in hangs up")
    }
}

impl std::error::Error for HangUp {}

/// A second handle to a connection's socket, to close it with a reset: hyper owns the first handle.
pub(super) struct ResetHandle(Option<std::os::fd::OwnedFd>);

impl ResetHandle {
    pub(super) fn of(stream: &TcpStream) -> Self {
        use std::os::fd::AsFd;
        Self(stream.as_fd().try_clone_to_owned().ok())
    }

    pub(super) fn reset_on_close(&self) {
        if let Some(socket) = &self.0 {
            // If this fails, the client sees an orderly end instead, which is a fault as well.
            let _ = socket2::SockRef::from(socket).set_linger(Some(std::time::Duration::ZERO));
        }
    }
}
