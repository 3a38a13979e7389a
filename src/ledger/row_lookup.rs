//! Looking up the rows of a file, wherever the ledger is.

#[cfg(test)]
use super::faults::StoreFaults;
use super::lookup::Lookup;
use super::lookup_result::{AnsweredIn, LookupResult};
#[cfg(feature = "postgres")]
use super::postgres::ServerLookup;
use super::request_key::RequestKey;
use crate::base::error::Result;

/// Looks rows up.
pub(crate) enum RowLookup {
    /// In a file.
    File(Box<Lookup>),
    /// On a server.
    #[cfg(feature = "postgres")]
    Server(Box<ServerLookup>),
}

impl RowLookup {
    /// Makes the look-ups of these requests, which follow, cost less for each.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn begin(&mut self, keys: &[RequestKey]) -> Result<()> {
        match self {
            Self::File(lookup) => {
                // A file is asked about each of them on its own.
                let _ = keys;
                lookup.begin()
            }
            #[cfg(feature = "postgres")]
            Self::Server(lookup) => lookup.fetch(keys),
        }
    }

    /// What is known of the request with this key and body, and the run that it arrived in.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn find(
        &mut self,
        key: &RequestKey,
        body: &[u8],
    ) -> Result<(LookupResult, AnsweredIn)> {
        match self {
            Self::File(lookup) => lookup.find_with_run(key, body),
            #[cfg(feature = "postgres")]
            Self::Server(lookup) => lookup.find(key),
        }
    }

    /// The look-ups have ended.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn end(&mut self) -> Result<()> {
        match self {
            Self::File(lookup) => lookup.end(),
            #[cfg(feature = "postgres")]
            Self::Server(_) => Ok(()),
        }
    }

    /// Fails from now on.
    #[cfg(test)]
    pub(crate) fn fail(&mut self, faults: StoreFaults) {
        match self {
            Self::File(lookup) => lookup.fail(faults),
            #[cfg(feature = "postgres")]
            Self::Server(_) => {}
        }
    }
}
