//! The row of a server's ledger in which the runs of an account share their pace. What is in it is theirs: here it is text.

use super::database::{Database, first, quoted};
use super::settings::LedgerLocation;
use crate::base::error::Result;

/// The row of an account, over a connection of its own.
pub(crate) struct PaceRow {
    pub(super) database: Box<dyn Database>,
    pub(super) account: i64,
    pub(super) location: LedgerLocation,
}

impl PaceRow {
    /// Tells and asks at once, as JSON. A server that is away is waited for.
    ///
    /// # Errors
    /// Exit code 3: the server stays away. Exit code 2: it refuses.
    pub(crate) fn ask(&mut self, ask: &str) -> Result<String> {
        let statement = format!("SELECT ask_pace({}, {})", self.account, quoted(ask));
        let reply = { self.database.query(&statement) }.and_then(|rows| first(&rows)?.get(0));
        reply.map_err(|fault| self.location.cannot("ask", &fault))
    }
}
