//! The signals that end a command: SIGINT, SIGTERM and, on Linux, SIGHUP. SIGXFSZ must not end it: the write that causes it
//! fails, as on a full disk. A command that makes no calls ends immediately, and its partial files are removed: repeating it
//! costs nothing. The other threads are not asked, as they may be waiting for a pipe that never delivers.
//!
//! A run ends in the same way before its first call. Once its rows run, the first signal stops it in order, and the second one
//! ends it immediately, even while a disk or a pipe blocks everything else.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{fs, io};

use tokio::runtime::Runtime;
use tokio::signal::unix::{self, SignalKind, signal};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use crate::base::error::{Error, Exit, Result, Signal};
use crate::base::private_file::Readers;
use crate::base::stderr::flush;
use crate::base::threads::lock;
use crate::engine::Stop;
use crate::observe::{LogLine, end_log, report_exit, tell, tell_error};
use crate::output::{OutputFile, Target};
use crate::telemetry::event::CancelReason;

/// A listener for signals. It listens as long as it exists, so that no signal is lost between two waits.
pub(super) struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    /// `None` where SIGHUP keeps its default action.
    hang_up: Option<unix::Signal>,
}

impl Signals {
    /// Starts to listen; needs a runtime.
    ///
    /// # Errors
    /// The system refuses the signal handlers.
    pub(super) fn listen() -> Result<Self> {
        Self::install().map_err(|e| Error::internal("cannot listen for signals").because(e))
    }

    fn install() -> io::Result<Self> {
        // It stays caught after the listener is dropped.
        let file_too_large = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
        drop(signal(file_too_large)?);
        let hang_up = reacts_to_hang_up().then(|| signal(SignalKind::hangup()));
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: hang_up.transpose()?,
        })
    }

    /// The next signal.
    pub(super) async fn next(&mut self) -> Signal {
        let hang_up = async {
            match &mut self.hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
            _ = hang_up => Signal::HangUp,
        }
    }
}

/// A runtime on the current thread.
///
/// # Errors
/// The system refuses it.
pub(super) fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::internal("cannot start the runtime").because(e))
}

/// Starts a thread that is never joined.
///
/// # Errors
/// The system refuses it.
pub(super) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map(drop)
        .map_err(|e| Error::stopped("cannot start a thread").because(e))
}

/// Ends the process once all messages are on standard error.
pub(super) fn end_process(exit: Exit) -> ! {
    report_exit(exit.code());
    flush();
    #[allow(clippy::exit, reason = "a signal asks for exactly this")]
    std::process::exit(exit.code().into());
}

/// Whether SIGHUP is known not to be ignored. Under `nohup` it is ignored and must stay so. If the system does not
/// say, nothing is changed.
fn reacts_to_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The first bit is that of signal 1.
    mask.is_some_and(|mask| mask & 1 == 0)
}

/// A signal within this time after the first one is the same request: `timeout` sends SIGTERM to the program and to its group,
/// and a terminal and a script that forwards signals both send SIGINT, within microseconds, on a stalled machine later. An
/// impatient person tries again.
const SAME_REQUEST: Duration = Duration::from_secs(1);

/// Records why a run could not start, in its summary, its metrics and its log.
pub(crate) type RecordFailure = Arc<dyn Fn(&Error) + Send + Sync>;

/// A thread that listens for signals as long as the process lives.
#[derive(Clone)]
pub(crate) struct StopSignals(Arc<Mutex<CommandPhase>>);

/// How far the command has come.
enum CommandPhase {
    /// It is not a run, and a signal removes these partial files.
    WithoutCalls(Vec<PathBuf>),
    /// It is a run, or a round of it, before its first call.
    Preparing {
        /// Nothing is recorded while its files may be another run's.
        record: Option<RecordFailure>,
        /// A round before this one has made calls.
        has_made_calls: bool,
    },
    /// Rows run, or all are done and no signal came in time to stop the run.
    Running {
        reach: SignalReach,
        rows_are_done: bool,
        /// The first signal, once it has come.
        signal: Option<Signal>,
    },
    /// The process is about to exit.
    Over,
}

/// The parts of a run that signals reach once rows run.
pub(crate) struct SignalReach {
    /// The dispatcher.
    pub(crate) stops: UnboundedSender<Stop>,
    /// The sentence after a second signal about the answers that are kept.
    pub(crate) last_words: Option<String>,
}

impl CommandPhase {
    const fn preparing(has_made_calls: bool) -> Self {
        Self::Preparing {
            record: None,
            has_made_calls,
        }
    }
}

impl StopSignals {
    /// Listens from now on.
    ///
    /// # Errors
    /// The system refuses the signal handlers, or a thread cannot be started.
    pub(crate) fn start(is_run: bool) -> Result<Self> {
        let phase = if is_run {
            CommandPhase::preparing(false)
        } else {
            CommandPhase::WithoutCalls(Vec::new())
        };
        let phase = Arc::new(Mutex::new(phase));
        let stopped = Arc::clone(&phase);
        let runtime = runtime()?;
        let mut signals = {
            let _runtime = runtime.enter();
            Signals::listen()?
        };
        spawn("signals", move || {
            listen(&runtime, &mut signals, &stopped);
        })?;
        Ok(Self(phase))
    }

    /// Opens a file of a command that is not a run. A signal comes before that, or it removes the file while it is partial.
    ///
    /// # Errors
    /// As [`Target::open`].
    pub(crate) fn open(&self, target: &Target, readers: Readers) -> Result<OutputFile> {
        let Some(partial) = target.partial() else {
            // A pipe may wait for its reader for ever.
            return target.open(readers);
        };
        let mut phase = lock(&self.0);
        let file = target.open(readers)?;
        if let CommandPhase::WithoutCalls(files) = &mut *phase {
            files.push(partial);
        }
        Ok(file)
    }

    /// This run alone writes to the output: until rows run, a signal is recorded as what kept the run from starting.
    pub(crate) fn output_is_locked(&self, record: RecordFailure) {
        if let CommandPhase::Preparing {
            record: missing, ..
        } = &mut *lock(&self.0)
        {
            *missing = Some(record);
        }
    }

    /// Rows start to run: from now on the first signal is left to the dispatcher.
    pub(crate) fn run_starts(&self, reach: SignalReach) {
        *lock(&self.0) = CommandPhase::Running {
            reach,
            rows_are_done: false,
            signal: None,
        };
    }

    /// No more rows run, and no signal stops the run any more. Unless it was `stopped`, all rows are done.
    pub(crate) fn rows_ended(&self, stopped: bool) {
        if let CommandPhase::Running { rows_are_done, .. } = &mut *lock(&self.0) {
            *rows_are_done = !stopped;
        }
    }

    /// A round of the run is finished, and the next one prepares, unless a signal has come, which is returned.
    pub(crate) fn next_round(&self) -> Option<Signal> {
        let phase = &mut *lock(&self.0);
        if let CommandPhase::Running {
            signal: Some(first),
            ..
        } = phase
        {
            return Some(*first);
        }
        *phase = CommandPhase::preparing(true);
        None
    }

    /// The hours of the run are over: before its first call it ends now, and once rows run it stops in order.
    pub(crate) fn hours_are_over(&self, stop: Stop) {
        match &*lock(&self.0) {
            CommandPhase::Running { reach, .. } => {
                // When all rows are done, nobody receives it.
                let _ = reach.stops.send(stop);
            }
            CommandPhase::Preparing {
                record,
                has_made_calls,
            } => {
                if let Some(error) = stop.error {
                    end_before_calls(error, record.as_ref(), *has_made_calls);
                }
            }
            CommandPhase::WithoutCalls(_) | CommandPhase::Over => {}
        }
    }

    /// The run is finished, and no signal ends it any more.
    pub(crate) fn run_is_over(&self) {
        *lock(&self.0) = CommandPhase::Over;
    }
}

/// Ends a run, or a round of it, before its first call.
fn end_before_calls(error: Error, record: Option<&RecordFailure>, has_made_calls: bool) -> ! {
    let error = if has_made_calls {
        error
    } else {
        error.detail("nothing was sent: the run ended before its first call")
    };
    tell_error(&error);
    if let Some(record) = record {
        record(&error);
    }
    end_process(error.exit());
}

fn listen(runtime: &Runtime, signals: &mut Signals, phase: &Mutex<CommandPhase>) {
    let first = runtime.block_on(signals.next());
    let since = Instant::now();
    // Locked to the end of a process that ends here, so that no row starts to run.
    match &mut *lock(phase) {
        CommandPhase::WithoutCalls(partial) => {
            for file in partial {
                // If it is complete, it has another name by now.
                let _ = fs::remove_file(file);
            }
            tell_error(&Error::interrupted(first));
            end_process(Exit::Interrupted(first));
        }
        CommandPhase::Preparing {
            record,
            has_made_calls,
        } => {
            end_before_calls(Error::interrupted(first), record.as_ref(), *has_made_calls);
        }
        CommandPhase::Running {
            reach,
            rows_are_done,
            signal,
        } => {
            *signal = Some(first);
            if *rows_are_done {
                tell("rescore: all rows are done, finishing; another signal stops immediately");
            }
            // When all rows are done, nobody receives it.
            let _ = reach.stops.send(Stop {
                reason: first.into(),
                error: None,
            });
        }
        CommandPhase::Over => {}
    }
    // The next signal that is a second request, not a part of the first one.
    let last = runtime.block_on(async {
        loop {
            let signal = signals.next().await;
            if asks_again(signal, since.elapsed()) {
                return signal;
            }
        }
    });
    if let CommandPhase::Running { reach, .. } = &*lock(phase) {
        let kept = reach.last_words.as_ref();
        let kept = kept.map(|kept| format!("\n         {kept}"));
        let kept = kept.unwrap_or_default();
        tell(&format!("rescore: stopped immediately{kept}"));
        // It is too late to report that lines are missing.
        let _ = end_log(LogLine::StoppedImmediately(last.into()));
        end_process(Exit::Interrupted(last));
    }
}

/// Whether a signal, this long after the first one, is a second request to stop. SIGHUP never is: when a connection drops, the
/// shell and the system send one each.
fn asks_again(signal: Signal, later: Duration) -> bool {
    signal != Signal::HangUp && later >= SAME_REQUEST
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_within_a_second_are_one_and_a_hang_up_never_asks_again() {
        let asked_again = |signal| {
            [0, 1, 999, 1_000, 60_000].map(|later| asks_again(signal, Duration::from_millis(later)))
        };
        for signal in [Signal::Interrupt, Signal::Terminate] {
            assert_eq!(asked_again(signal), [false, false, false, true, true]);
        }
        assert_eq!(asked_again(Signal::HangUp), [false; 5]);
    }
}
