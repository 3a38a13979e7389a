//! The life of a run: its limits, signals, kills, and its use of the system.

mod budgets;
mod ended_at_once;
mod finishing;
mod kills;
mod limits;
#[cfg(target_os = "linux")]
mod memory;
mod open_files;
mod part;
mod signals;
mod stops;
mod unread;
mod wait_lock;
