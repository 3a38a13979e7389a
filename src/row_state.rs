//! A row on its way from the reader to the writer: its bytes, and how far it has come.
//!
//! It is one value for the whole way. The reader makes it, the look-up and the engine change its state in place, and the writer
//! writes it. This file must not know how they work.

use std::mem;

use bytes::Bytes;

use crate::base::error::{Error, Result};
use crate::fields::{Finding, Noticed};
use crate::layout::{DECISION_COLUMN, Layout, SCORE_COLUMN};
use crate::ledger::{Lookup, LookupResult, OldAnswer, RequestKey};
use crate::row::{RawRow, RowNumber, Span};
use crate::verdict::{Decision, Failure, Score, Verdict};

/// A row of the input.
#[derive(Debug)]
pub struct Row {
    /// Its position among the rows.
    pub number: RowNumber,
    /// Its bytes.
    pub raw: RawRow,
    /// How far it has come.
    pub state: RowState,
}

/// How far a row has come.
#[derive(Debug)]
pub enum RowState {
    /// It breaks a rule, so it is not sent.
    Invalid(Failure),
    /// It can be sent: the body of its request.
    Asked(Bytes),
    /// An earlier run wrote the file, so nothing is sent. These are the columns that a command wants besides the added ones; the
    /// span of a member that the row lacks is empty.
    Scored(Box<[Span]>),
    /// `--only` does not choose it, so it is not sent, and is written as it is.
    Passed,
    /// It waits for its turn.
    Waiting {
        /// The body of its request.
        body: Bytes,
        /// Names the request: rows with the same key share one call.
        key: RequestKey,
        /// What the look-up found when the row was read.
        found: LookupResult,
    },
    /// It has had its turn, and no verdict yet.
    Out {
        /// Its request, if this row makes the call, and not an equal one before it.
        key: Option<RequestKey>,
        /// The answer that this run replaces, if the ledger has one.
        old: Option<Box<OldAnswer>>,
    },
    /// It has its verdict.
    Done {
        /// The verdict.
        verdict: Verdict,
        /// The user's score before this run, if the ledger has it.
        old: Option<Score>,
    },
    /// It is left for a later run.
    Left,
}

/// Some consecutive rows.
#[derive(Debug)]
pub struct RowBatch {
    /// The rows.
    pub rows: Vec<Row>,
    /// The position in the source after these rows, in bytes, for the progress display.
    pub(crate) position: u64,
    /// Blank lines after the last row; empty except in the last batch.
    pub trailer: Bytes,
    /// What a person should know about their values.
    pub(crate) noticed: Noticed,
    /// What was found in the values of all rows, if that is noted; empty except in the last batch with rows.
    pub(crate) quality: Vec<Finding>,
}

impl RowState {
    /// The rule that the row breaks.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Invalid(failure) => Some(failure),
            _ => None,
        }
    }
}

/// The score and the decision that an earlier run wrote into a row; `None` for what it lacks.
pub(crate) fn earlier_verdict(raw: &RawRow, layout: &Layout) -> (Option<Score>, Option<Decision>) {
    let value = |column| layout.value(raw.slice(raw.value_of(column)));
    (
        Score::from_json_number(&value(SCORE_COLUMN)).ok(),
        Decision::of_word(&value(DECISION_COLUMN)),
    )
}

/// Turns rows that can be sent into rows that wait for a verdict: gives each its key, and the result of its look-up.
///
/// # Errors
/// The ledger cannot be read.
pub(crate) fn look_up(lookup: &mut Lookup, rows: &mut [Row]) -> Result<()> {
    let bodies = rows.iter().filter_map(|row| match &row.state {
        RowState::Asked(body) => Some(body),
        _ => None,
    });
    let keys: Vec<RequestKey> = bodies.map(|body| lookup.key(body)).collect();
    let found = lookup.look_up(&keys)?;
    let mut results = keys.into_iter().zip(found);
    for row in rows {
        if let RowState::Asked(body) = &mut row.state {
            let (key, found) = results
                .next()
                .ok_or_else(|| Error::internal("a look-up had no result for a request"))?;
            let body = mem::take(body);
            row.state = RowState::Waiting { body, key, found };
        }
    }
    Ok(())
}
