//! One pace for many workers, through a row that all of them ask (`telemetry/shared_pace.rs`).
//!
//! A worker makes the calls that the row grants it, and reports how they ended. One of them leads: it feeds an ordinary
//! controller with what all report, and writes to the row what that one decides. Any worker can lead; the next one that
//! asks does when the one before has not asked for a second.

mod in_flight;
mod leader;
mod leading;
mod member;
#[cfg(test)]
mod memory_row;
mod report;
mod row_clock;
mod sharing;
mod slots;
mod state;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(super) use leading::Leading;
#[cfg(test)]
pub(super) use member::Member;
#[cfg(test)]
pub(super) use memory_row::MemoryRow;
#[cfg(test)]
pub(super) use report::WorkerReport;
pub(crate) use sharing::PaceThread;
pub(super) use sharing::Sharing;
