//! Signals that stop a run: the first one in order, the second immediately.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::time::timeout;

use super::super::signals::Signals;
use super::threads::spawn;
use crate::base::error::{Error, Exit, Result, Signal};
use crate::base::stderr::{flush, say};
use crate::pipeline::Stop;
use crate::telemetry::event::CancelReason;

/// What a run gets to open its files after a signal. It may wait for ever: for the first line of a pipe, or for somebody
/// who reads one.
const OPENING: Duration = Duration::from_millis(250);

/// Listens for signals for as long as the process lives: the first stops the run in order, the second immediately, even
/// while the disk or a pipe holds everything else up.
pub(super) struct StopSignals(Arc<SignalState>);

#[derive(Default)]
struct SignalState {
    /// The first signal.
    came: OnceLock<Signal>,
    /// What is said at the second one, where nothing else is said any more. There is none until the run is on.
    farewell: OnceLock<String>,
}

impl StopSignals {
    /// Listens from now on.
    pub(super) fn start(stops: UnboundedSender<Stop>) -> Result<Self> {
        let cannot = |e| Error::internal("cannot listen for signals").because(e);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(cannot)?;
        let listening = {
            let _runtime = runtime.enter();
            Signals::listen().map_err(cannot)?
        };
        let shared = Arc::new(SignalState::default());
        let heard = Arc::clone(&shared);
        spawn("signals", move || {
            runtime.block_on(heed(listening, &stops, &heard));
        })?;
        Ok(Self(shared))
    }

    /// The run is on: it takes stops from now on. `farewell` is what the second signal says.
    ///
    /// # Errors
    /// It must not begin: there was a signal.
    pub(super) fn run_starts(&self, farewell: String) -> Result<()> {
        let Self(shared) = self;
        if let Some(signal) = shared.came.get() {
            return Err(before_the_first_call(*signal));
        }
        // There is one run.
        let _ = shared.farewell.set(farewell);
        Ok(())
    }
}

async fn heed(mut signals: Signals, stops: &UnboundedSender<Stop>, shared: &SignalState) {
    let SignalState { came, farewell } = shared;
    let first = signals.next().await;
    let _ = came.set(first);
    // Nobody receives it when the run is over already.
    let _ = stops.send(Stop {
        reason: first.into(),
        error: None,
    });
    let mut last = None;
    if farewell.get().is_none() {
        last = timeout(OPENING, signals.second()).await.ok();
        if last.is_none() && farewell.get().is_none() {
            last = Some(first);
        }
    }
    let last = match last {
        Some(last) => last,
        None => signals.second().await,
    };
    match farewell.get() {
        Some(farewell) => say(farewell),
        None => say(&before_the_first_call(last).report()),
    }
    flush();
    #[allow(clippy::exit, reason = "a signal asks for exactly this")]
    std::process::exit(Exit::Interrupted(last).code().into());
}

fn before_the_first_call(signal: Signal) -> Error {
    Error::interrupted(signal).detail("it was before the first call: nothing was sent")
}

impl From<Signal> for CancelReason {
    fn from(signal: Signal) -> Self {
        match signal {
            Signal::Interrupt => Self::Interrupted,
            Signal::Terminate => Self::Terminated,
            Signal::HangUp => Self::HungUp,
        }
    }
}
