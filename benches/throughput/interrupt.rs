//! An interrupted benchmark leaves nothing behind: neither the process that it measures, nor gigabytes of files.
//!
//! The server ends by itself, when its standard input does.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::Mutex;
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use crate::interrupted;

/// The process that is measured: one at a time.
static RUNNING: Mutex<Option<Pid>> = Mutex::new(None);

/// Starts a process that ends with us.
pub(crate) fn start(command: &mut Command) -> Child {
    let mut running = RUNNING.lock().unwrap();
    let child = command.spawn().unwrap();
    *running = Some(Pid::from_child(&child));
    child
}

/// Waits for a process. Its id may soon be another's, so it is forgotten.
pub(crate) fn reap(child: &mut Child) -> ExitStatus {
    let mut running = RUNNING.lock().unwrap();
    *running = None;
    child.wait().unwrap()
}

/// Ends what is running, and removes the files, when this process is interrupted or terminated.
pub(crate) fn watch(directory: PathBuf) {
    thread::spawn(move || {
        interrupted::wait();
        // Held to the end, so that nothing starts meanwhile.
        let running = RUNNING.lock().unwrap();
        if let Some(process) = *running {
            let _ = kill_process(process, Signal::KILL);
        }
        let _ = fs::remove_dir_all(directory);
        std::process::exit(130);
    });
}
