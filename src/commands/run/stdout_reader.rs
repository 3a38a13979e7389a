//! Whether anybody still reads the rows that a run writes to standard output. The writer's thread notices that only when it
//! writes the next row, and while the service is down or asks for a pause there is none: without its reader, which may have
//! been killed, such a run would wait for a long time and then go on paying.
//!
//! This file must not know what is written.

use std::io;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::sync::mpsc::UnboundedSender;

use super::threads::{spawn, stop_of};
use crate::base::error::Result;
use crate::engine::Stop;
use crate::output::WriteError;

/// How much later the run stops: a reader such as `head` may close its end as soon as it has the last row, and a run that
/// has written all of its rows is about to end by itself.
const LATER: Duration = Duration::from_secs(1);

/// Stops the run if nobody reads standard output any more. A file always counts as read.
///
/// # Errors
/// A thread cannot be started.
pub(super) fn watch(stops: UnboundedSender<Stop>) -> Result<()> {
    spawn("stdout", move || {
        if is_closed() {
            #[allow(clippy::disallowed_methods, reason = "this thread makes no calls")]
            std::thread::sleep(LATER);
            // Nobody receives it when the run is already over.
            let _ = stops.send(stop_of(WriteError::Closed));
        }
    })
}

/// Waits until nobody reads standard output any more; `false` if the system cannot say.
fn is_closed() -> bool {
    let stdout = io::stdout();
    // Errors are always reported, and only they matter here.
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    loop {
        match poll(&mut polled, None) {
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    let [stdout] = polled;
    stdout.revents().contains(PollFlags::ERR)
}
