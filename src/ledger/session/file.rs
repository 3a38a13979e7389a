//! Opening the file of a ledger for a run: refusing what is not ours, creating it where it is missing.

use rusqlite::Connection;

use crate::base::error::Result;
use crate::ledger::db::connect::{self, Connect, Durability, Mode};
use crate::ledger::db::{header, schema};
use crate::ledger::file;
use crate::ledger::location::{ClaimedLocation, NewFile};
use crate::ledger::settings::Reuse;

/// A ledger's file, open for a run to write.
pub(super) struct LedgerFile {
    // First: the connection is closed before the file is removed.
    pub(super) connection: Connection,
    /// Removes the file if the run does not start.
    pub(super) new_file: NewFile,
    /// Whether it was there when it was opened.
    pub(super) existed: bool,
}

impl LedgerFile {
    /// Opens the file, and creates it where there is none.
    ///
    /// # Errors
    /// Exit code 2: it is not a ledger of this version, is of the other kind, is damaged, or cannot be created. Exit code
    /// 3: the disk is full.
    pub(super) fn open(claim: &ClaimedLocation, reuse: Reuse) -> Result<Self> {
        let (path, own) = (claim.path(), claim.is_own());
        let found = header::check(path)?;
        claim.refuse_other_kind(found)?;
        let existed = found.is_some();
        // A ledger that cannot be read has no answers to lose.
        let starts_over = existed && own && reuse == Reuse::Nothing && connect::is_damaged(path);
        if starts_over {
            file::remove(path).map_err(|e| claim.cannot_write().because(e))?;
        }
        let is_new = !existed || starts_over;
        let mut new_file = if is_new && own {
            NewFile::at(path.to_owned())
        } else {
            NewFile::none()
        };
        file::create(path, claim.kind()).map_err(|e| claim.cannot_write().because(e))?;
        let unreadable = |error| claim.cannot_open(&error);
        let connect = Connect {
            mode: Mode::Create(claim.kind()),
            durability: if claim.is_scratch() {
                Durability::Unsynced
            } else {
                Durability::Synced
            },
        };
        let connection = connect.open(path).map_err(unreadable)?;
        // A run of the other kind may have created it just now; then it is not ours to remove.
        let found = schema::kind(&connection).map_err(unreadable)?;
        claim
            .refuse_other_kind(found)
            .inspect_err(|_| new_file.keep())?;
        if !is_new {
            schema::check_soundness(&connection, path).map_err(unreadable)?;
        }
        Ok(Self {
            connection,
            new_file,
            existed,
        })
    }
}
