//! A process that is measured from its start to its end, by the kernel's accounting.
//!
//! When it has ended, it is looked at before it is reaped, so that nothing of it is missing.

use std::fmt::Display;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// How often memory is looked at. The kernel keeps the highest value, but only until the end of the process.
const STEP: Duration = Duration::from_millis(10);

/// What a process has used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    pub(crate) seconds: f64,
    /// CPU seconds.
    pub(crate) cpu: f64,
    /// Bytes sent to the disk: whole pages, counted again whenever a page changes after it was written. Zero in a directory that
    /// is in memory.
    pub(crate) written: u64,
    /// The most memory, in MiB.
    pub(crate) peak: f64,
}

/// Runs a command to its end. If it fails, so does the benchmark.
pub(crate) fn run(command: &mut Command) -> Used {
    let said = tempfile::NamedTempFile::new().unwrap();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(said.reopen().unwrap());
    let began = Instant::now();
    let mut child = command.spawn().unwrap();
    let (id, (ended, end)) = (child.id(), channel::<()>());
    let watch = thread::spawn(move || {
        let mut peak = 0.0;
        loop {
            // What has ended has no memory to show.
            peak = highest_memory(id).unwrap_or(peak);
            if end.recv_timeout(STEP) != Err(RecvTimeoutError::Timeout) {
                return peak;
            }
        }
    });
    waitid(
        WaitId::Pid(Pid::from_child(&child)),
        WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
    )
    .unwrap();
    let seconds = began.elapsed().as_secs_f64();
    drop(ended);
    let (cpu, written) = (cpu_seconds(id), written(id));
    let status = child.wait().unwrap();
    assert!(
        status.success(),
        "{}",
        fs::read_to_string(said.path()).unwrap()
    );
    let peak = watch.join().unwrap();
    Used {
        seconds,
        cpu,
        written,
        peak,
    }
}

/// CPU seconds of all threads so far, ended ones as well, user and system. In steps of 10 ms.
pub(crate) fn cpu_seconds(process: impl Display) -> f64 {
    // Linux shows these in hundredths everywhere.
    const TICKS: f64 = 100.0;
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The second field is the program's name in parentheses and may hold anything; user time is the 14th.
    let (_, rest) = stat.rsplit_once(')').unwrap();
    let times = rest.split_whitespace().skip(11).take(2);
    times
        .map(|ticks| ticks.parse::<f64>().unwrap())
        .sum::<f64>()
        / TICKS
}

fn written(process: u32) -> u64 {
    let io = fs::read_to_string(format!("/proc/{process}/io")).unwrap();
    let bytes = { io.lines() }.find_map(|line| line.strip_prefix("write_bytes: "));
    bytes.unwrap().parse().unwrap()
}

fn highest_memory(process: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = { status.lines() }.find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes / 1024.0)
}
