//! Removing the answers about some users, or about everybody, from a ledger on a server.

use super::keeper::ServerKeeper;
use crate::base::error::Result;
use crate::ledger::named_ledger::ServerSettings;
use crate::ledger::request_key::{KeyHash, RequestHasher};

/// A ledger on a server that answers about users are removed from.
pub(crate) struct ServerForget {
    keeper: ServerKeeper,
    /// For each address and service ID that was ever asked.
    hashers: Vec<RequestHasher>,
    marked: Vec<KeyHash>,
}

impl ServerForget {
    /// Opens an existing ledger.
    ///
    /// # Errors
    /// Exit code 2: the ledger or its secret cannot be used. Exit code 3: the server does not answer.
    pub(crate) fn open(settings: &ServerSettings) -> Result<Self> {
        let keeper = ServerKeeper::open(settings)?;
        Ok(Self {
            hashers: keeper.hashers(settings)?,
            keeper,
            marked: Vec::new(),
        })
    }

    /// Marks every answer to one of these bodies, and what was claimed of them, whichever address and service ID was asked: how many
    /// answers there are.
    ///
    /// # Errors
    /// The server is away.
    pub(crate) fn mark<'a>(
        &mut self,
        bodies: &(impl Iterator<Item = &'a [u8]> + Clone),
    ) -> Result<u64> {
        let of_hasher = |hasher: &RequestHasher| {
            bodies
                .clone()
                .map(|body| hasher.key(body).hash)
                .collect::<Vec<_>>()
        };
        let keys: Vec<_> = self.hashers.iter().flat_map(of_hasher).collect();
        let (answers, claimed) = self.keeper.known(&keys)?;
        if answers > 0 || claimed {
            self.marked.extend(keys);
        }
        Ok(answers)
    }

    /// Removes what was marked: how many answers there were.
    ///
    /// # Errors
    /// The server is away, or the user may not remove answers.
    pub(crate) fn remove_marked(&mut self) -> Result<u64> {
        let mut keys = std::mem::take(&mut self.marked);
        keys.sort_unstable();
        keys.dedup();
        self.keeper.remove(&keys)
    }

    /// Removes every answer: how many there were.
    ///
    /// # Errors
    /// As [`Self::remove_marked`].
    pub(crate) fn remove_all(&self) -> Result<u64> {
        self.keeper.remove_all()
    }

    /// What answers are removed from.
    pub(crate) const fn keeper(&self) -> &ServerKeeper {
        &self.keeper
    }
}
