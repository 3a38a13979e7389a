//! Processes that end with this one, however it ends.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::interrupted;

static RUNNING: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// How long a process may take to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often a process is looked at.
const STEP: Duration = Duration::from_millis(5);

/// A process that ends when this is dropped.
pub(crate) struct Guarded(Child);

impl Guarded {
    pub(crate) fn start(command: &mut Command) -> Self {
        let child = Self(command.spawn().unwrap());
        RUNNING.lock().unwrap().push(child.id());
        child
    }

    fn id(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    /// It has ended; its id may soon be another's.
    fn forget(&self) {
        RUNNING.lock().unwrap().retain(|id| *id != self.id());
    }

    /// Waits for its end until that moment.
    pub(crate) fn wait_until(&mut self, moment: Instant) -> Option<ExitStatus> {
        loop {
            let status = self.0.try_wait().unwrap();
            if status.is_some() {
                self.forget();
                return status;
            }
            if Instant::now() >= moment {
                return None;
            }
            thread::sleep(STEP);
        }
    }

    /// Asks it to end, and kills it if it does not.
    pub(crate) fn end(&mut self, by: Signal) -> ExitStatus {
        // One that has just ended by itself does not mind.
        let _ = kill_process(self.id(), by);
        if let Some(status) = self.wait_until(Instant::now() + PATIENCE) {
            return status;
        }
        eprintln!("  had to kill process {}", self.0.id());
        let _ = self.0.kill();
        let status = self.0.wait().unwrap();
        self.forget();
        status
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if self.wait_until(Instant::now()).is_none() {
            // nginx takes its worker with it when it is asked; a kill would leave that behind.
            self.end(Signal::TERM);
        }
    }
}

/// Ends all of them, and removes their files, when this process is interrupted or terminated.
pub(crate) fn end_with_us(directory: PathBuf) {
    thread::spawn(move || {
        interrupted::wait();
        for pid in &*RUNNING.lock().unwrap() {
            let _ = kill_process(*pid, Signal::TERM);
        }
        let _ = fs::remove_dir_all(directory);
        std::process::exit(130);
    });
}
