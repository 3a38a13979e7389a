//! Ledgers in files: SQLite databases with a log.

mod admin;
mod claims;
mod connect;
pub(super) mod errors;
mod find;
mod limits;
mod open;
mod runs;
mod schema;
mod store;

pub(super) use admin::{SqliteAdmin, stats};
pub(super) use open::{is_damaged, open, preview};
