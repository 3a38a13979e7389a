//! The lines between a run and the thread that writes its log: bounded, and never a reason to wait.

use std::collections::VecDeque;
use std::mem::take;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::line::LogLine;

/// Lines that may wait to be written: what a fast service causes in a second at the level debug, in some 6 MB. Later ones are
/// counted and dropped.
const MOST_WAITING: usize = 50_000;
/// How long lines are gathered, so that the thread does not wake up for each of them. A power cut loses what was logged in
/// this time.
const GATHER: Duration = Duration::from_millis(20);

/// The queue of a log; clones share it.
#[derive(Clone, Default)]
pub(crate) struct LogQueue(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    waiting: LogBatch,
    /// There is a thread that has not written the last line yet.
    is_read: bool,
    /// Lines of the whole run that could not be written.
    lost: u64,
}

/// What waits to be written.
#[derive(Default)]
pub(super) struct LogBatch {
    /// The lines, each with its time.
    pub(super) lines: VecDeque<(SystemTime, LogLine)>,
    /// Lines after these that were dropped.
    pub(super) dropped: u64,
    /// The file is to be opened again.
    pub(super) reopen: bool,
    /// No more lines will come.
    pub(super) ended: bool,
}

impl LogBatch {
    fn is_empty(&self) -> bool {
        self.lines.is_empty() && !self.is_urgent()
    }

    const fn is_urgent(&self) -> bool {
        self.reopen || self.ended
    }
}

impl LogQueue {
    /// Logs a line, which happens now. It is dropped if too many wait.
    pub(crate) fn push(&self, line: LogLine) {
        let mut state = self.lock();
        let waiting = &mut state.waiting;
        if waiting.lines.len() >= MOST_WAITING {
            waiting.dropped += 1;
            return;
        }
        let is_first = waiting.is_empty();
        waiting.lines.push_back((SystemTime::now(), line));
        drop(state);
        if is_first {
            self.0.changed.notify_all();
        }
    }

    /// Has the file opened again, as after it was renamed. Before there is a file, that changes nothing.
    pub(crate) fn reopen(&self) {
        self.lock().waiting.reopen = true;
        self.0.changed.notify_all();
    }

    /// Logs the last line, if there is one, and waits until all is written, but no longer than this. Returns how many lines
    /// of the run are not in the log.
    pub(crate) fn end(&self, last: Option<LogLine>, longest: Duration) -> u64 {
        let mut state = self.lock();
        let last = last.map(|line| (SystemTime::now(), line));
        state.waiting.lines.extend(last);
        state.waiting.ended = true;
        self.0.changed.notify_all();
        let changed = &self.0.changed;
        let ended = changed.wait_timeout_while(state, longest, |state| state.is_read);
        let (state, _) = ended.unwrap_or_else(PoisonError::into_inner);
        let LogBatch { lines, dropped, .. } = &state.waiting;
        state.lost + dropped + lines.len() as u64
    }

    /// A thread takes lines from now on.
    pub(super) fn begin(&self) {
        self.lock().is_read = true;
    }

    /// Waits for lines, and takes them all.
    pub(super) fn take(&self) -> LogBatch {
        let changed = &self.0.changed;
        let idle = |state: &mut QueueState| state.waiting.is_empty();
        let state = changed.wait_while(self.lock(), idle);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        let calm = |state: &mut QueueState| !state.waiting.is_urgent();
        let gathered = changed.wait_timeout_while(state, GATHER, calm);
        let (mut state, _) = gathered.unwrap_or_else(PoisonError::into_inner);
        let batch = take(&mut state.waiting);
        // Until they are written: the thread may never come back from a disk that hangs.
        state.lost += batch.lines.len() as u64 + batch.dropped;
        batch
    }

    /// This many of the lines that were taken are written now.
    pub(super) fn written(&self, lines: u64) {
        let mut state = self.lock();
        state.lost = state.lost.saturating_sub(lines);
    }

    /// The last line is written, or nobody will write any.
    pub(super) fn over(&self) {
        self.lock().is_read = false;
        self.0.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        // Nothing panics while it is held.
        let state = self.0.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }
}
