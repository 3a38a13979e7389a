//! A run's time with a ledger, a type for each part: an [`OpenLedger`] has not been changed by the run, a
//! [`RunningLedger`] gets its answers, a [`SettledLedger`] has them all, and a [`ClosedLedger`] is what is left.

mod closed;
mod file;
mod open;
mod plan;
mod preview;
mod running;
mod settled;

pub(crate) use closed::ClosedLedger;
pub use closed::Removal;
pub use open::OpenLedger;
pub(crate) use preview::preview;
pub(crate) use running::RunningLedger;
pub(crate) use settled::SettledLedger;
