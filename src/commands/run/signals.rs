//! Signals to a run: before the first call they end it, as they end a command that makes no calls. Once rows run, the first
//! one stops the run in order, and the second one ends it immediately, even while a disk or a pipe blocks everything else.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use super::super::signals::{Signals, end_process, listen_on_a_thread};
use crate::base::error::{Error, Exit, Result, Signal};
use crate::engine::Stop;
use crate::observe::{LogLine, end_log, tell, tell_error};
use crate::telemetry::event::CancelReason;

/// A second SIGTERM within this time after the first one is the same request. `timeout` sends both within microseconds, on
/// a stalled machine later; no impatient person is as fast.
const SAME_REQUEST: Duration = Duration::from_secs(1);

/// A thread that listens for signals as long as the process lives.
pub(super) struct StopSignals(Arc<Mutex<RunPhase>>);

/// How far the run has come.
#[derive(Default)]
struct RunPhase {
    /// `None` until rows run.
    reach: Option<SignalReach>,
    /// All rows are done, and no signal came in time to stop the run.
    rows_are_done: bool,
    /// The process is about to exit by itself.
    is_over: bool,
}

/// What a signal reaches once rows run.
pub(super) struct SignalReach {
    /// The dispatcher.
    pub(super) stops: UnboundedSender<Stop>,
    /// What the second signal says of the answers that stay.
    pub(super) last_words: Option<String>,
}

impl StopSignals {
    /// Listens from now on.
    ///
    /// # Errors
    /// The system refuses the signal handlers, or a thread cannot be started.
    pub(super) fn start() -> Result<Self> {
        let phase = Arc::<Mutex<RunPhase>>::default();
        let heard = Arc::clone(&phase);
        listen_on_a_thread(move |runtime, mut signals| listen(runtime, &mut signals, &heard))?;
        Ok(Self(phase))
    }

    /// Rows start to run: from now on the first signal is left to the dispatcher.
    pub(super) fn run_starts(&self, reach: SignalReach) {
        lock(&self.0).reach = Some(reach);
    }

    /// No more rows run, and the run stops for no signal any more. Unless it was `stopped`, all rows are done.
    pub(super) fn rows_ended(&self, stopped: bool) {
        lock(&self.0).rows_are_done = !stopped;
    }

    /// The run is finished: a signal ends nothing any more.
    pub(super) fn run_is_over(&self) {
        lock(&self.0).is_over = true;
    }
}

fn lock(phase: &Mutex<RunPhase>) -> MutexGuard<'_, RunPhase> {
    // Nothing panics while it is held.
    phase.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listen(runtime: &Runtime, signals: &mut Signals, phase: &Mutex<RunPhase>) {
    let first = runtime.block_on(signals.next());
    let since = Instant::now();
    {
        let phase = lock(phase);
        let Some(reach) = &phase.reach else {
            // The lock is held to the end of the process, so that no row starts to run.
            let error = Error::interrupted(first);
            tell_error(&error.detail("nothing was sent: the signal came before the first call"));
            end_process(Exit::Interrupted(first));
        };
        if phase.rows_are_done {
            tell("rescore: all rows are done, finishing; another signal stops immediately");
        }
        // Nobody receives it when all rows are done.
        let _ = reach.stops.send(Stop {
            reason: first.into(),
            error: None,
        });
    }
    let last = runtime.block_on(second(signals, first, since));
    let phase = lock(phase);
    if let (false, Some(reach)) = (phase.is_over, &phase.reach) {
        let kept = reach
            .last_words
            .iter()
            .map(|kept| format!("\n         {kept}"));
        tell(&format!(
            "rescore: stopped immediately{}",
            kept.collect::<String>()
        ));
        // Nobody is left to care whether lines are missing.
        let _ = end_log(LogLine::StoppedImmediately(last.into()));
        end_process(Exit::Interrupted(last));
    }
}

/// The next signal that asks again for the end. SIGHUP does not: when a connection drops, the shell and the system send
/// one each, and nobody is impatient. Neither does a SIGTERM that comes with another one: `timeout` sends one to the
/// program, and one to its group.
async fn second(signals: &mut Signals, first: Signal, since: Instant) -> Signal {
    let is_repeated = || first == Signal::Terminate && since.elapsed() < SAME_REQUEST;
    loop {
        match signals.next().await {
            Signal::HangUp => {}
            Signal::Terminate if is_repeated() => {}
            signal => return signal,
        }
    }
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
