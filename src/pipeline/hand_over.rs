//! The end of the pipeline: hands what is left to the writer.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::dispatcher::Dispatcher;
use super::messages::Write;
use crate::scorer::Stop;
use crate::service::Service;

/// How long the writer may take to accept the last rows once no call is out any more.
const HAND_OVER: Duration = Duration::from_secs(4);

/// Hands what is left to the writer. Returns why the run stopped, even if it does so only now.
pub(super) async fn hand_over<S: Service>(
    mut dispatcher: Dispatcher<'_, S>,
    write: &mpsc::Sender<Write>,
    stops: &mut mpsc::UnboundedReceiver<Stop>,
) -> Option<Stop> {
    let mut deadline = Instant::now() + HAND_OVER;
    let (rows, trailer) = dispatcher.take_rest();
    for message in rows.into_iter().chain(trailer) {
        let slot = loop {
            tokio::select! {
                biased;
                slot = write.reserve() => break slot,
                Some(stop) = stops.recv(), if !dispatcher.is_stopping() => {
                    dispatcher.stop(stop);
                    deadline = Instant::now() + HAND_OVER;
                }
                // The program that reads the output has stopped reading: the caller will notice.
                () = sleep_until(deadline), if dispatcher.is_stopping() => {
                    return dispatcher.into_stop();
                }
            }
        };
        let Ok(slot) = slot else {
            if !dispatcher.is_stopping() {
                let reason = stops.try_recv().ok();
                dispatcher.stop(reason.unwrap_or_else(Stop::writer_ended));
            }
            break;
        };
        slot.send(message);
    }
    dispatcher.into_stop()
}
