//! Ledgers in files: SQLite databases with a log.

mod connect;
mod file;
mod find;
mod index;
mod store;

pub(super) use connect::is_damaged;
pub(super) use file::{ELSEWHERE, PRIVATE, with_suffix};
pub(crate) use file::{NAME, SUFFIXES, ledger_in};
pub(super) use store::{open, temporary};
