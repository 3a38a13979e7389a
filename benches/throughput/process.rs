//! A process that is measured from its start to its end, by the kernel's accounting.
//!
//! When it has ended, it is looked at before it is reaped, so that nothing of it is missing.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::{accounting, interrupt};

/// How often memory is looked at. The kernel keeps the highest value, but only until the end of the process.
const STEP: Duration = Duration::from_millis(10);

/// A running process.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    began: Instant,
    /// Its standard error, which is shown if it fails.
    said: File,
    /// Dropping it ends the watch.
    ended: Sender<()>,
    /// Ends with the most memory that was seen, in MiB.
    watch: JoinHandle<f64>,
}

/// What a process has used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    pub(crate) seconds: f64,
    /// CPU seconds.
    pub(crate) cpu: f64,
    /// Bytes sent to the disk.
    pub(crate) written: u64,
    /// The most memory, in MiB.
    pub(crate) peak: f64,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        let said = tempfile::tempfile().unwrap();
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said.try_clone().unwrap());
        let began = Instant::now();
        let child = interrupt::start(command);
        let (ended, end) = channel();
        let id = child.id();
        Self {
            child,
            began,
            said,
            ended,
            watch: thread::spawn(move || watch_memory(id, &end)),
        }
    }

    /// Since its start.
    pub(crate) fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Bytes sent to the disk so far.
    pub(crate) fn written(&self) -> u64 {
        accounting::written(self.child.id())
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.wait(WaitIdOptions::NOHANG)
    }

    /// Ends it without a warning.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.reap();
    }

    /// Waits until it ends by itself. If it fails, so does the benchmark.
    pub(crate) fn finish(self) -> Used {
        let mut said = self.said.try_clone().unwrap();
        let (used, succeeded) = self.reap();
        let mut text = String::new();
        said.rewind().unwrap();
        said.read_to_string(&mut text).unwrap();
        assert!(succeeded, "{text}");
        used
    }

    fn reap(mut self) -> (Used, bool) {
        self.wait(WaitIdOptions::empty());
        let seconds = self.seconds();
        drop(self.ended);
        let id = self.child.id();
        let used = Used {
            seconds,
            cpu: accounting::cpu_seconds(id),
            written: accounting::written(id),
            peak: self.watch.join().unwrap(),
        };
        (used, interrupt::reap(&mut self.child).success())
    }

    /// Waits for its end, and leaves it to be looked at.
    fn wait(&self, further: WaitIdOptions) -> bool {
        let id = WaitId::Pid(Pid::from_child(&self.child));
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | further;
        waitid(id, options).unwrap().is_some()
    }
}

/// Looks at a process's memory until its end.
fn watch_memory(process: u32, end: &Receiver<()>) -> f64 {
    let mut peak = 0.0;
    loop {
        // What has ended has no memory to show.
        if let Some(so_far) = accounting::highest_memory(process) {
            peak = so_far;
        }
        if end.recv_timeout(STEP) != Err(RecvTimeoutError::Timeout) {
            return peak;
        }
    }
}
