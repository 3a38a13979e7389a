//! `rescore ledger`: making a ledger on a server, what is in one, removing what is old, and forgetting people.
//!
//! The result goes to standard output. It contains no data about people: only numbers and times are known here.

mod execute;
mod forget;
#[cfg(feature = "postgres")]
mod import;
#[cfg(feature = "postgres")]
mod init;
mod prune;
mod stats;

pub(crate) use execute::execute;
