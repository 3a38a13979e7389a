//! Opening a ledger's file: for a run, or to see what a run would find.

use std::path::{Path, PathBuf};

use super::claims::Claimant;
use super::connect::{self, Mode};
use super::errors::{self, is_damage};
use super::find::{Finder, SharedIndex};
use super::schema::{self, Meta};
use super::store::{Space, SqliteLookup, SqliteStore};
use crate::base::error::Result;
use crate::base::file_id::FileId;
use crate::ledger::file;
use crate::ledger::known_limit::LimitRecorder;
use crate::ledger::opening::Opening;
use crate::ledger::settings::LedgerSettings;
use crate::ledger::space_reserve::SpaceReserve;
use crate::ledger::store::{Lookup, Store};

/// Opens a ledger for a run, at this real path, or one that is gone with the run.
pub(in crate::ledger) fn open(
    settings: &LedgerSettings,
    path: Option<&Path>,
) -> Result<(Box<dyn Store>, Opening)> {
    let given = settings.location.path();
    let shown = given.unwrap_or_else(|| PathBuf::from("answers"));
    if let Some(path) = path {
        schema::check_head(path, &shown)?;
    }
    let unreadable = |error| errors::cannot_open(&shown, &error);
    let mut connection = connect::open(path, Mode::Run).map_err(unreadable)?;
    if let Some(path) = path {
        schema::check_soundness(&connection, path).map_err(unreadable)?;
    }
    let secret = Meta::read(&connection).map_err(unreadable)?.secret;
    let place = String::new();
    let opening = Opening::of_run(&mut connection, &secret, settings, place, unreadable)?;
    let index = SharedIndex::read(&connection).map_err(unreadable)?;
    let keep = |path| {
        SpaceReserve::beside(path, settings.in_flight).map_err(|e| errors::no_space(&shown, e))
    };
    let store = SqliteStore {
        space: Space::Kept(path.map(keep).transpose()?.flatten()),
        connection,
        file_id: path.and_then(FileId::at),
        path: path.map(Path::to_owned),
        finder: Finder::new(index, opening.scope.clone()),
        secret,
        plan: opening.facts.run.clone(),
        lease: opening.facts.run.lease,
        account: opening.account,
        us: Claimant { run: 0, start: 0 },
        limits: LimitRecorder::default(),
        is_synced: true,
        shown,
    };
    Ok((Box::new(store), opening))
}

/// Opens a ledger to see what a run would find; `None` if there is none yet.
pub(in crate::ledger) fn preview(
    settings: &LedgerSettings,
    ledger: &Path,
) -> Result<Option<(Box<dyn Lookup>, Opening)>> {
    let path = file::check(ledger)?;
    if !schema::check_head(&path, ledger)? {
        return Ok(None);
    }
    let unreadable = |error| errors::cannot_open(ledger, &error);
    let mut connection = connect::open(Some(&path), Mode::Inspect).map_err(unreadable)?;
    schema::check_soundness(&connection, &path).map_err(unreadable)?;
    let secret = Meta::read(&connection).map_err(unreadable)?.secret;
    let place = String::new();
    let opening = Opening::read(&mut connection, &secret, settings, place, unreadable)?;
    let index = SharedIndex::read(&connection).map_err(unreadable)?;
    let lookup = SqliteLookup {
        connection,
        shown: ledger.to_owned(),
        finder: Finder::new(index, opening.scope.clone()),
    };
    Ok(Some((Box::new(lookup), opening)))
}

/// Whether a ledger is damaged, however large it is: all of it is read.
pub(in crate::ledger) fn is_damaged(path: &Path) -> bool {
    let check = || {
        let real = file::check(path).map_err(|_| errors::damaged())?;
        let connection = connect::open(Some(&real), Mode::Read)?;
        Meta::read(&connection)?;
        schema::check_pages(&connection)
    };
    check().is_err_and(|error| is_damage(&error))
}
