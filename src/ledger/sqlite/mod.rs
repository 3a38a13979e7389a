//! Ledgers in files: SQLite databases with a log.

mod connect;
mod find;
mod store;

pub(super) use connect::is_damaged;
pub(super) use store::{open, temporary};
