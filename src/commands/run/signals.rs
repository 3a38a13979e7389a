//! Signals that stop a run: the first one in order, the second immediately.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, timeout};

use super::super::signals::{OnHangUp, Signals, listen_on_a_thread};
use super::log::LogSignals;
use crate::base::error::{Error, Exit, Result, Signal};
use crate::base::stderr::flush;
use crate::engine::Stop;
use crate::observe::{tell, tell_error};
use crate::telemetry::event::CancelReason;

/// How long a run may continue to open its files after a signal. Without a limit it could wait for ever: for the first line
/// of a pipe, or for a reader of one.
const OPENING: Duration = Duration::from_millis(250);

/// A second SIGTERM within this time after the first one is the same request. `timeout` sends both within microseconds, on
/// a stalled machine later; no impatient person is as fast.
const SAME_REQUEST: Duration = Duration::from_secs(1);

/// A thread that listens for signals as long as the process lives: the first one stops the run in order, the second one
/// immediately, even while a disk or a pipe blocks everything else.
pub(super) struct StopSignals(Arc<SignalState>);

#[derive(Default)]
struct SignalState {
    /// The first signal.
    first: OnceLock<Signal>,
    /// What to say at the second signal of the answers that stay; not set until rows run.
    last_words: OnceLock<Option<String>>,
    /// All rows are done, and no signal came in time to stop the run.
    rows_are_done: AtomicBool,
    /// The process is about to exit by itself.
    is_over: AtomicBool,
}

impl StopSignals {
    /// Listens from now on.
    ///
    /// # Errors
    /// The system refuses the signal handlers, or a thread cannot be started.
    pub(super) fn start(stops: UnboundedSender<Stop>, log: Option<LogSignals>) -> Result<Self> {
        let state = Arc::new(SignalState::default());
        let heard = Arc::clone(&state);
        let hang_up = log.as_ref().map_or(OnHangUp::Ends, |log| log.hang_up);
        listen_on_a_thread(hang_up, move |runtime, mut signals| {
            runtime.block_on(listen(&mut signals, log.as_ref(), &stops, &heard));
        })?;
        Ok(Self(state))
    }

    /// Checks that the run may still start.
    ///
    /// # Errors
    /// There was a signal.
    pub(super) fn check(&self) -> Result<()> {
        match self.0.first.get() {
            Some(signal) => Err(before_the_first_call(*signal)),
            None => Ok(()),
        }
    }

    /// Rows start to run: from now on the first signal is left to the dispatcher. `last_words` is what the second one
    /// says of the answers that stay.
    ///
    /// # Errors
    /// There was a signal, so the run must not start.
    pub(super) fn run_starts(&self, last_words: Option<String>) -> Result<()> {
        self.check()?;
        // Set once, as there is one run.
        let _ = self.0.last_words.set(last_words);
        Ok(())
    }

    /// No more rows run, and the run stops for no signal any more. Unless it was `stopped`, all rows are done.
    pub(super) fn rows_ended(&self, stopped: bool) {
        self.0.rows_are_done.store(!stopped, Ordering::SeqCst);
    }

    /// The run is finished: a signal ends nothing any more.
    pub(super) fn run_is_over(&self) {
        self.0.is_over.store(true, Ordering::SeqCst);
    }
}

async fn listen(
    signals: &mut Signals,
    log: Option<&LogSignals>,
    stops: &UnboundedSender<Stop>,
    state: &SignalState,
) {
    let first = next(signals, log).await;
    let since = Instant::now();
    let _ = state.first.set(first);
    if state.rows_are_done.load(Ordering::SeqCst) {
        tell("rescore: all rows are done, finishing; another signal stops immediately");
    }
    // Nobody receives it when the run is already over.
    let _ = stops.send(Stop {
        reason: first.into(),
        error: None,
    });
    let opens = || state.last_words.get().is_none();
    let second = second(signals, log, first, since);
    tokio::pin!(second);
    let last = match timeout(OPENING, &mut second).await {
        Ok(last) => last,
        Err(_) if opens() => first,
        Err(_) => second.await,
    };
    if state.is_over.load(Ordering::SeqCst) {
        return;
    }
    match state.last_words.get() {
        Some(Some(kept)) => tell(&format!("rescore: stopped immediately\n         {kept}")),
        Some(None) => tell("rescore: stopped immediately"),
        None => tell_error(&before_the_first_call(last)),
    }
    if let Some(log) = log {
        log.stopped_immediately(last.into());
    }
    flush();
    #[allow(clippy::exit, reason = "a signal asks for exactly this")]
    std::process::exit(Exit::Interrupted(last).code().into());
}

/// The next signal that ends the run; one may only be about its log.
async fn next(signals: &mut Signals, log: Option<&LogSignals>) -> Signal {
    loop {
        match (signals.next().await, log) {
            (Signal::HangUp, Some(log)) if log.hang_up == OnHangUp::ReopensLog => log.reopen(),
            (signal, _) => return signal,
        }
    }
}

/// The next signal that asks again for the end. SIGHUP does not: when a connection drops, the shell and the system send
/// one each, and nobody is impatient. Neither does a SIGTERM that comes with another one: `timeout` sends one to the
/// program, and one to its group.
async fn second(
    signals: &mut Signals,
    log: Option<&LogSignals>,
    first: Signal,
    since: Instant,
) -> Signal {
    let is_repeated = || first == Signal::Terminate && since.elapsed() < SAME_REQUEST;
    loop {
        match next(signals, log).await {
            Signal::HangUp => {}
            Signal::Terminate if is_repeated() => {}
            signal => return signal,
        }
    }
}

fn before_the_first_call(signal: Signal) -> Error {
    Error::interrupted(signal).detail("nothing was sent: the signal came before the first call")
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
