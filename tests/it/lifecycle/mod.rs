//! The life of a run: its limits, signals, kills, and what it asks of the system.

mod kills;
mod limits;
#[cfg(target_os = "linux")]
mod memory;
mod signals;
mod stops;
mod unread;
