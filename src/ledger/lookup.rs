//! Looking up what a ledger knows about a request, over a connection of its own.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::db::connect::{Connect, Mode};
use super::db::errors;
use super::db::request_reader::{ReadScope, RequestReader};
#[cfg(test)]
use super::faults::{FailingReads, StoreFaults};
use super::lookup_result::{AnsweredIn, LookupResult};
use super::request_key::RequestKey;
use crate::base::error::{Error, Result};

/// Looks requests up, over a connection of its own.
pub struct Lookup {
    connection: Connection,
    path: PathBuf,
    reader: RequestReader,
    #[cfg(test)]
    reads: FailingReads,
}

impl Lookup {
    /// For a run, beside its connection that writes.
    pub(super) fn open(path: &Path, scope: &ReadScope) -> Result<Self> {
        Self::open_as(Mode::Read, path, scope)
    }

    /// Without a run: nothing is changed.
    pub(super) fn inspect(path: &Path, scope: &ReadScope) -> Result<Self> {
        Self::open_as(Mode::Inspect, path, scope)
    }

    fn open_as(mode: Mode, path: &Path, scope: &ReadScope) -> Result<Self> {
        let open = || {
            let connection = Connect::to(mode).open(path)?;
            let reader = RequestReader::open(&connection, scope)?;
            Ok((connection, reader))
        };
        let (connection, reader) = open().map_err(|error| errors::cannot_open(path, &error))?;
        Ok(Self {
            connection,
            path: path.to_owned(),
            reader,
            #[cfg(test)]
            reads: FailingReads::default(),
        })
    }

    /// Fails from now on.
    #[cfg(test)]
    pub(crate) const fn fail(&mut self, faults: StoreFaults) {
        self.reads = FailingReads::new(faults);
    }

    /// From now on the run may have stored failures.
    pub(super) const fn expect_failures(&mut self) {
        self.reader.expect_failures();
    }

    /// What is known now about the request with this key and body.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn find(&mut self, key: &RequestKey, body: &[u8]) -> Result<LookupResult> {
        let (found, _) = self.find_with_run(key, body)?;
        Ok(found)
    }

    /// As [`Self::find`], with the run that what is known arrived in.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn find_with_run(
        &mut self,
        key: &RequestKey,
        body: &[u8],
    ) -> Result<(LookupResult, AnsweredIn)> {
        #[cfg(test)]
        self.reads
            .read()
            .map_err(|error| self.cannot_read(&error))?;
        let found = self.reader.find(&self.connection, key, body);
        found.map_err(|error| self.cannot_read(&error))
    }

    /// Whether an answer to this request may have come since the run has the ledger open. "No" is always right, but for
    /// answers that other runs have stored since this process last looked.
    pub(super) fn may_have_come(&self, key: &RequestKey) -> bool {
        self.reader.answers.may_have_come(key)
    }

    /// Makes the lookups that follow see the ledger's present state, which costs less for each. To be ended soon: the log
    /// grows meanwhile.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn begin(&mut self) -> Result<()> {
        #[cfg(test)]
        self.reads
            .read()
            .map_err(|error| self.cannot_read(&error))?;
        let begun = self.reader.answers.begin(&self.connection);
        begun.map_err(|error| self.cannot_read(&error))
    }

    /// Ends what [`Self::begin`] started.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn end(&mut self) -> Result<()> {
        let ended = self.reader.answers.end(&self.connection);
        ended.map_err(|error| self.cannot_read(&error))
    }

    fn cannot_read(&self, error: &rusqlite::Error) -> Error {
        errors::cannot_use(&self.path, "read", error)
    }
}
