//! A worker of a shared pace, between the thread that makes its calls and the one that asks the row.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::leading::Leading;
use super::member::Member;
use crate::pace::types::PaceLimits;
use crate::telemetry::shared_pace::SharedPace;

/// The worker, as both threads see it.
pub(in crate::pace) struct Sharing {
    began: Instant,
    member: Mutex<SharingState>,
    /// The row is to be asked sooner than was planned.
    sooner: Condvar,
    /// The row answered, so that a call may start.
    changed: Arc<Notify>,
}

struct SharingState {
    member: Member,
    ended: bool,
}

/// The thread that asks the row. It ends when this is dropped.
pub(crate) struct PaceThread {
    sharing: Arc<Sharing>,
    thread: Option<JoinHandle<()>>,
}

impl Sharing {
    /// Lets the worker do this, and has the row asked if there is something to tell it.
    pub(in crate::pace) fn with<T>(&self, work: impl FnOnce(&mut Member) -> T) -> T {
        let mut state = self.lock();
        let before = state.member.asks_at();
        let done = work(&mut state.member);
        if state.member.asks_at() < before {
            self.sooner.notify_one();
        }
        done
    }

    fn lock(&self) -> MutexGuard<'_, SharingState> {
        self.member.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the row whenever it is time, until the run ends.
    fn ask_on(&self, mut row: impl SharedPace, mut leading: Leading) {
        let mut state = self.lock();
        while !state.ended {
            let now = self.began.elapsed();
            let at = state.member.asks_at().unwrap_or(now);
            if let Some(wait) = at.checked_sub(now).filter(|wait| !wait.is_zero()) {
                let woken = self.sooner.wait_timeout(state, wait);
                (state, _) = woken.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let (ask, own) = state.member.ask(now, leading.decision());
            drop(state);
            let answered = row
                .ask(&ask)
                .map(|reply| (leading.read(&reply, own), reply));
            if answered.is_err() {
                leading.row_is_away();
            }
            state = self.lock();
            let now = self.began.elapsed();
            match answered {
                Ok((lead, reply)) => state.member.answered_by_row(now, &reply, lead),
                Err(_) => state.member.row_is_away(now),
            }
            self.changed.notify_one();
        }
    }
}

impl PaceThread {
    /// Starts the thread that asks `row` for this worker.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(in crate::pace) fn start(
        limits: PaceLimits,
        mut random: fastrand::Rng,
        began: Instant,
        changed: Arc<Notify>,
        row: impl SharedPace,
    ) -> io::Result<(Self, Arc<Sharing>)> {
        let own = random.fork();
        let member = Member::new(limits, random);
        let sharing = Arc::new(Sharing {
            began,
            member: Mutex::new(SharingState {
                member,
                ended: false,
            }),
            sooner: Condvar::new(),
            changed,
        });
        let asking = Arc::clone(&sharing);
        let thread = thread::Builder::new()
            .name("pace".to_owned())
            .spawn(move || asking.ask_on(row, Leading::new(limits, own)))?;
        let thread = Self {
            sharing: Arc::clone(&sharing),
            thread: Some(thread),
        };
        Ok((thread, sharing))
    }
}

impl Drop for PaceThread {
    fn drop(&mut self) {
        self.sharing.lock().ended = true;
        self.sharing.sooner.notify_one();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has nothing left to do.
            let _ = thread.join();
        }
    }
}
