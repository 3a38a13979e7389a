//! Listens and serves connections.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::super::check::Rejection;
use super::super::deadline::{Deadline, Timed};
use super::super::settings::SandboxSettings;
use super::hang_up::{HangUp, ResetHandle};
use super::report::Report;
use super::stand_in::StandIn;

/// The largest body that is read. Ours are smaller than 2 KiB.
const MAX_BODY: usize = 1024 * 1024;

/// Starts to listen.
///
/// # Errors
/// The address is not on loopback, or it is taken.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    if !address.ip().is_loopback() {
        // If it answered a network, somebody would sooner or later mistake it for the service.
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
    // Answers are single small writes. Waiting to fill a packet would only add latency.
    let _ = stream.set_nodelay(true);
    let handle = ResetHandle::of(&stream);
    let deadline = Deadline::default();
    let serve = service_fn(async |request: Request<Incoming>| {
        let (head, body) = request.into_parts();
        let body = whole(body).await?;
        deadline.met();
        stand_in.answer(&head, body, &handle).await
    });
    // A client that goes away is not worth reporting.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(Timed::new(stream, deadline.clone())), serve)
        .await;
}

/// A request's body, or a rejection if it is too large.
async fn whole(body: Incoming) -> Result<Result<Bytes, Rejection>, HangUp> {
    match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => Ok(Ok(body.to_bytes())),
        Err(error) if error.is::<LengthLimitError>() => Ok(Err(Rejection::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            "the body is larger than 1 MiB",
        ))),
        // The client has gone away.
        Err(_) => Err(HangUp),
    }
}
