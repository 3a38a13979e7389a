//! What the kernel counts of a process, running or ended, as long as nobody has reaped it.

use std::fmt::Display;
use std::fs;

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

/// Bytes that it has caused to be sent to the disk: whole pages, counted again whenever a page changes after it was
/// written. Zero in a directory that is in memory.
pub(crate) fn written(process: impl Display) -> u64 {
    let io = fs::read_to_string(format!("/proc/{process}/io")).unwrap();
    let bytes = { io.lines() }.find_map(|line| line.strip_prefix("write_bytes: "));
    bytes.unwrap().parse().unwrap()
}

/// The most memory that it has had so far, in MiB; `None` when it has none any more.
pub(crate) fn highest_memory(process: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes / 1024.0)
}
