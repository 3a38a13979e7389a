//! The loop: starts rows, waits for what happens next, and has the dispatcher handle it. At the end it hands what is left to the
//! writer.

use std::pin::{Pin, pin};
use std::time::Duration;

use futures::future::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep_until};

use super::dispatcher::{Channels, Dispatcher, StartNeeds, Write};
use super::parts::Engine;
use super::stop::Stop;
use super::window::WindowSize;
use crate::service::Service;

/// How long the writer may take to accept the last rows once no call is out any more.
const HAND_OVER: Duration = Duration::from_secs(4);

/// Runs rows from `channels.read` to `channels.write` until the input ends or something stops the run; then finishes what
/// is in flight. Returns why it stopped.
#[expect(clippy::too_many_lines, reason = "it is the whole loop, in its order")]
pub(crate) async fn run<S: Service>(
    engine: &Engine<S>,
    channels: Channels<'_>,
    size: WindowSize,
) -> Option<Stop> {
    let Channels {
        mut read,
        write,
        stops,
    } = channels;
    let mut dispatcher = Dispatcher::new(engine, size);
    let mut scoring = FuturesUnordered::new();
    // One batch at most.
    let mut claiming = FuturesUnordered::new();
    // Made once and reset: a timer for each turn of the loop would cost more than a row.
    let now = Instant::now();
    let mut write_timer = pin!(sleep_until(now));
    let mut drain_timer = pin!(sleep_until(now));
    let mut claim_timer = pin!(sleep_until(now));
    loop {
        while let Some((call, permit)) = dispatcher.start_now() {
            scoring.push(engine.score(call, permit));
        }
        if let Some((requests, urgency)) = dispatcher.claim_now() {
            claiming.push(engine.claim(requests, urgency));
        }
        if dispatcher.is_done() {
            break;
        }
        engine.gate.set_fresh_rows(dispatcher.fresh_rows());
        let (start, goes_on) = (dispatcher.start_needs(), !dispatcher.is_stopping());
        let renewal = dispatcher.rows.claims.awaits_renewal();
        let writes = set(&mut write_timer, dispatcher.write_at());
        let drains = set(&mut drain_timer, dispatcher.drain_ends());
        let asks_again = set(&mut claim_timer, dispatcher.ask_again_at());
        // Only one thing wins each wait, and the other futures are dropped. They lose nothing: all may be started again.
        tokio::select! {
            Some(outcome) = scoring.next(), if dispatcher.is_scoring() => {
                dispatcher.time_passed();
                dispatcher.row_done(outcome);
                // To look at everything else between rows that are done together would cost more than a row. A stop comes
                // first.
                while !dispatcher.is_stopping()
                    && let Some(outcome) = scoring.next().now_or_never().flatten()
                {
                    dispatcher.row_done(outcome);
                }
            }
            Ok(permit) = engine.gate.permit(), if start == StartNeeds::Permit => {
                dispatcher.time_passed();
                if let Some(call) = dispatcher.start() {
                    scoring.push(engine.score(call, permit));
                }
            }
            // The next row may start now, or be claimed, which is seen before the next wait.
            () = engine.gate.canary_is_held_up(), if start == StartNeeds::Canary => {}
            () = &mut claim_timer, if asks_again => dispatcher.time_passed(),
            () = engine.lease_renewal(renewal), if goes_on && renewal.is_some() => {}
            Some(claimed) = claiming.next(), if goes_on => {
                dispatcher.time_passed();
                dispatcher.claimed(claimed);
            }
            message = read.recv(), if dispatcher.wants_rows() => {
                dispatcher.time_passed();
                dispatcher.read(message);
                // Rows that need no call can come without end, and calls among them would wait for the connections' tasks.
                yield_now().await;
            }
            slot = write.reserve(), if dispatcher.should_write() => {
                dispatcher.time_passed();
                match slot {
                    Ok(slot) => slot.send(Write::Rows(dispatcher.take_ready())),
                    // A writer that fails gives its reason before it ends.
                    Err(_) => dispatcher.writer_gone(stops.try_recv().ok()),
                }
            }
            () = &mut write_timer, if writes => dispatcher.rows.window.set_overdue(),
            Some(stop) = stops.recv() => dispatcher.stop(stop),
            () = &mut drain_timer, if drains => {
                scoring.clear();
                dispatcher.give_up();
            }
        }
    }
    // The reader may be blocked on a pipe; once nothing receives, its next batch ends it.
    drop(read);
    hand_over(dispatcher, &write, stops).await
}

/// Sets a timer, if there is a time. Whether there is.
fn set(timer: &mut Pin<&mut Sleep>, at: Option<Instant>) -> bool {
    if let Some(at) = at
        && timer.deadline() != at
    {
        timer.as_mut().reset(at);
    }
    at.is_some()
}

/// Hands what is left to the writer. Returns why the run stopped, even if it does so only now.
async fn hand_over<S: Service>(
    mut dispatcher: Dispatcher<'_, S>,
    write: &mpsc::Sender<Write>,
    stops: &mut mpsc::UnboundedReceiver<Stop>,
) -> Option<Stop> {
    let mut deadline = Instant::now() + HAND_OVER;
    let (rows, trailer) = dispatcher.take_rest();
    let rows = (!rows.is_empty()).then_some(Write::Rows(rows));
    let trailer = (!trailer.is_empty()).then_some(Write::Trailer(trailer));
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
