//! The stand-in on the network: HTTP/1.1 on loopback, also on a thread of its own.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::answer::Rejection;
use super::stand_in::{HangUp, Report, SandboxSettings, StandIn};

/// The largest body that is read. Ours are smaller than 2 KiB.
const MAX_BODY: usize = 1024 * 1024;

/// Starts to listen.
///
/// # Errors
/// The address is not on loopback, or it is taken.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    if !address.ip().is_loopback() {
        // If it answered a network, it would sooner or later be mistaken for the service.
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the stand-in listens on this machine only",
        ));
    }
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves until `stop`, and returns the counts.
///
/// # Errors
/// The listener cannot be used.
pub(crate) async fn serve(
    listener: TcpListener,
    settings: SandboxSettings,
    stop: impl Future<Output = ()>,
) -> io::Result<Report> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let stand_in = Arc::new(StandIn::new(settings));
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => return Ok(stand_in.report()),
        };
        match accepted {
            Ok((stream, _)) => drop(tokio::spawn(connection(stream, Arc::clone(&stand_in)))),
            // Probably out of file descriptors. The next attempt may succeed.
            Err(_) => sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn connection(stream: TcpStream, stand_in: Arc<StandIn>) {
    use std::os::fd::AsFd;
    // Answers are single small writes. Waiting to fill a packet would only add latency.
    let _ = stream.set_nodelay(true);
    // A second handle to the socket, to close it with a reset: hyper owns the first one.
    let handle = stream.as_fd().try_clone_to_owned().ok();
    let serve = service_fn(async |request: Request<Incoming>| {
        let (head, body) = request.into_parts();
        let body = match Limited::new(body, MAX_BODY).collect().await {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
            Err(_) => return Err(io::Error::other("the client has gone away")),
        };
        stand_in.answer(&head, body).await.map_err(|HangUp| {
            if let Some(socket) = &handle {
                // If this fails, the client sees an orderly end instead, which is a fault as well.
                let _ = rustix::net::sockopt::set_socket_linger(socket, Some(Duration::ZERO));
            }
            io::Error::other("the stand-in hangs up")
        })
    });
    // A client that goes away is not worth reporting.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), serve)
        .await;
}

const fn too_large() -> Rejection {
    let status = StatusCode::PAYLOAD_TOO_LARGE;
    Rejection(status, "the body is larger than 1 MiB")
}

/// A stand-in on its own thread.
pub(crate) struct Sandbox {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<io::Result<Report>>,
}

impl Sandbox {
    /// Starts a stand-in. It is listening when this returns.
    ///
    /// # Errors
    /// The address is not on loopback, or cannot be used.
    pub(crate) fn start(settings: SandboxSettings) -> io::Result<Self> {
        let listener = listen(settings.listen)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("sandbox".to_owned());
        let thread = thread.spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(serve(listener, settings, async {
                // A dropped sender means the same.
                let _ = stopped.await;
            }))
        })?;
        Ok(Self {
            address,
            stop,
            thread,
        })
    }

    /// Its address.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops it, and returns its counts.
    pub(crate) fn stop(self) -> Report {
        // It may have ended already.
        let _ = self.stop.send(());
        let ended = self.thread.join().ok().and_then(Result::ok);
        ended.unwrap_or_default()
    }
}
