//! The loop: starts rows, waits for what happens next, and has the dispatcher handle it.

use std::pin::pin;

use futures::stream::FuturesUnordered;
use tokio::task::yield_now;
use tokio::time::sleep_until;

use super::claim_wake::ClaimSources;
use super::dispatcher::{Dispatcher, Response};
use super::hand_over::hand_over;
use super::messages::Channels;
use super::wake::{Wake, WakeSources};
use super::window::WindowSize;
use crate::scorer::{Scorer, Stop};
use crate::service::Service;

/// Runs rows from `channels.read` to `channels.write` until the input ends or something stops the run; then finishes what
/// is in flight. Returns why it stopped.
pub(crate) async fn run<S: Service>(
    scorer: &Scorer<S>,
    channels: Channels<'_>,
    size: WindowSize,
) -> Option<Stop> {
    let Channels { read, write, stops } = channels;
    let mut dispatcher = Dispatcher::new(scorer, size);
    let write_timer = pin!(sleep_until(dispatcher.write_at()));
    let drain_timer = pin!(sleep_until(dispatcher.write_at()));
    let claim_timer = pin!(sleep_until(dispatcher.write_at()));
    let mut sources = WakeSources {
        scorer,
        scoring: FuturesUnordered::new(),
        claims: ClaimSources {
            batch: FuturesUnordered::new(),
            timer: claim_timer,
        },
        read,
        write: &write,
        stops,
        write_timer,
        drain_timer,
    };
    loop {
        while let Some((call, permit)) = dispatcher.start_now() {
            sources.scoring.push(scorer.score(call, permit));
        }
        if let Some((requests, urgency)) = dispatcher.claim_now() {
            sources.claims.batch.push(scorer.claim(requests, urgency));
        }
        if dispatcher.is_done() {
            break;
        }
        scorer.set_fresh_rows(dispatcher.fresh_rows());
        sources.set_timers(dispatcher.write_at(), dispatcher.drain_ends());
        let wake = sources.next(dispatcher.interests()).await;
        let was_row = matches!(wake, Wake::RowDone(_));
        let was_read = matches!(wake, Wake::Read(_));
        match dispatcher.handle(wake) {
            Response::None => {}
            Response::Score(call, permit) => sources.scoring.push(scorer.score(call, permit)),
            Response::GiveUp => sources.scoring.clear(),
        }
        // To look at everything else between rows that are done together would cost more than a row. A stop comes first.
        while was_row
            && !dispatcher.is_stopping()
            && let Some(outcome) = sources.next_done()
        {
            dispatcher.row_done(outcome);
        }
        // Rows that need no call can come without end, and calls among them would wait for the connections' tasks.
        if was_read {
            yield_now().await;
        }
    }
    let WakeSources { read, stops, .. } = sources;
    // The reader may be blocked on a pipe; once nothing receives, its next batch ends it.
    drop(read);
    hand_over(dispatcher, &write, stops).await
}
