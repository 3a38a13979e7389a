//! Finding answers: in the index, or, where requests come in the order of their answers, right behind the last one.
//!
//! A file that is scored again has its rows nearly in the order in which its answers arrived. So after a hit the answers that
//! follow it are read together, and the next requests are looked for among them first: that needs no index.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::index::Index;
use crate::ledger::answers::{KnownOutcome, LookupResult, Scope, Stored};
use crate::ledger::key::RequestKey;

/// So many answers are read together. Calls end in another order than they start, by about as many as are in flight.
const AHEAD: i64 = 512;

/// Finds answers over one connection.
#[derive(Default)]
pub(super) struct Finder {
    /// What the process knows of where answers are, on all its connections.
    index: Arc<Mutex<Index>>,
    /// Answers that were read behind a hit, by fingerprint, each with its place: the latest and those before them.
    latest: HashMap<i64, (i64, Stored)>,
    earlier: HashMap<i64, (i64, Stored)>,
    /// The last one that was read.
    end: i64,
    /// Where an answer was found last.
    last: i64,
}

impl Finder {
    /// One for another connection.
    pub(super) fn beside(&self) -> Self {
        Self {
            index: Arc::clone(&self.index),
            ..Self::default()
        }
    }

    pub(super) fn index(&self) -> MutexGuard<'_, Index> {
        // A panic elsewhere leaves at worst an answer that is not found.
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds answers that were stored since the last time, by whichever process, and at first all that are not in the table.
    pub(super) fn catch_up(&self, connection: &Connection) -> rusqlite::Result<()> {
        let (merged, replaced) = connection
            .prepare_cached("SELECT up_to, replaced_up_to FROM merged")?
            .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut index = self.index();
        index.set_table(merged, replaced);
        let mut new =
            connection.prepare_cached("SELECT fp, seq FROM answers WHERE seq > ? ORDER BY seq")?;
        let mut rows = new.query([index.seen()])?;
        while let Some(row) = rows.next()? {
            index.add((row.get(0)?, row.get(1)?));
        }
        Ok(())
    }

    /// What is known of a request.
    pub(super) fn find(
        &mut self,
        connection: &Connection,
        scope: &Scope,
        key: &RequestKey,
    ) -> rusqlite::Result<LookupResult> {
        if let Some(found) = self.find_ahead(scope, key) {
            return Ok(found);
        }
        let mut places = self.places(connection, key)?.into_iter().peekable();
        let Some(latest) = places.peek().copied() else {
            return Ok(LookupResult::default());
        };
        let mut load =
            connection.prepare_cached("SELECT fp, seq, at, sealed FROM answers WHERE seq = ?")?;
        let result = scope.judge(key, || {
            for seq in places.by_ref() {
                // One that another connection has just stored may not be seen yet by this one.
                if let Some((_, (_, stored))) = load.query_row([seq], stored).optional()? {
                    return Ok(Some(stored));
                }
            }
            Ok::<_, rusqlite::Error>(None)
        })?;
        drop(load);
        self.read_ahead(connection, latest)?;
        Ok(result)
    }

    /// Looks among the answers that were read ahead. Only one that no later one has replaced is right without the index.
    fn find_ahead(&self, scope: &Scope, key: &RequestKey) -> Option<LookupResult> {
        let fingerprint = &key.fingerprint();
        let found = self.latest.get(fingerprint);
        let (seq, stored) = found.or_else(|| self.earlier.get(fingerprint))?;
        // Whether a run's own answer has replaced one is in the index.
        let replaces = scope.not_before != i64::MIN && stored.at >= scope.started;
        if replaces || *seq <= self.index().replaced() {
            return None;
        }
        let mut only = Some(stored.clone());
        let judged = scope.judge(key, || Ok::<_, ()>(only.take())).ok()?;
        // There may be an answer before a failure.
        matches!(judged.known, Some(KnownOutcome::Answer(_))).then_some(judged)
    }

    /// The places of all answers to a request, the latest first.
    pub(super) fn places(
        &self,
        connection: &Connection,
        key: &RequestKey,
    ) -> rusqlite::Result<Vec<i64>> {
        let fingerprint = key.fingerprint();
        let (mut places, has_table): (Vec<_>, _) = {
            let index = self.index();
            (index.places(fingerprint).collect(), index.may_be_in_table())
        };
        if has_table {
            let mut find = connection.prepare_cached("SELECT seq FROM idx WHERE fp = ?")?;
            for place in find.query_map([fingerprint], |row| row.get(0))? {
                places.push(place?);
            }
        }
        places.sort_unstable_by(|one, other| other.cmp(one));
        places.dedup();
        Ok(places)
    }

    /// An answer was found at this place through the index: if it is near the last one, those that follow are read.
    fn read_ahead(&mut self, connection: &Connection, seq: i64) -> rusqlite::Result<()> {
        let is_near = (seq - mem::replace(&mut self.last, seq)).abs() <= AHEAD;
        // Those shortly before what was read come out of turn.
        if !is_near || (seq <= self.end && seq > self.end - 2 * AHEAD) {
            return Ok(());
        }
        let continues = seq > self.end && seq <= self.end + AHEAD;
        let from = if continues { self.end } else { seq };
        self.earlier = mem::take(&mut self.latest);
        let mut read = connection.prepare_cached(
            "SELECT fp, seq, at, sealed FROM answers WHERE seq > ? ORDER BY seq LIMIT ?",
        )?;
        let mut rows = read.query(params![from, AHEAD])?;
        while let Some(row) = rows.next()? {
            let (fingerprint, (seq, stored)) = stored(row)?;
            self.end = seq;
            self.latest.insert(fingerprint, (seq, stored));
        }
        Ok(())
    }
}

/// An answer's fingerprint, its place, and itself.
fn stored(row: &Row<'_>) -> rusqlite::Result<(i64, (i64, Stored))> {
    let (at, sealed) = (row.get(2)?, row.get(3)?);
    Ok((row.get(0)?, (row.get(1)?, Stored { at, sealed })))
}
