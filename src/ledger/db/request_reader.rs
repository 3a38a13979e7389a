//! Finding what is known about requests, over one connection: their answers, and failures of the run that asks.

use std::sync::Arc;

use rusqlite::Connection;

use super::answers::AnswerReader;
use super::checksum::Checksums;
use super::errors::damaged;
use super::found_answer::{AnswerState, FoundAnswer};
use super::latest_answers::LatestAnswers;
use super::runs::RunRecord;
use super::{captures, failures};
use crate::ledger::clock::LedgerClock;
use crate::ledger::judge::{AnswerJudge, JudgeScope};
use crate::ledger::lookup_result::{AnsweredIn, KnownOutcome, LookupResult};
use crate::ledger::packed::BlockNumber;
use crate::ledger::request_key::{RequestHasher, RequestKey};
use crate::telemetry::event::Unusable;

/// What must be known of a run to look requests up for it.
#[derive(Clone)]
pub(crate) struct ReadScope {
    pub(crate) checksums: Checksums,
    /// What the process knows of the ledger's latest answers.
    pub(crate) latest: Arc<LatestAnswers>,
    pub(crate) hasher: RequestHasher,
    pub(crate) run: RunRecord,
    /// Whether answers may be too old to be used.
    pub(crate) ages: bool,
    /// The clock that answers are dated by.
    pub(crate) clock: LedgerClock,
    /// The additional fields that the run needs of an answer, as pointers.
    pub(crate) fields: Vec<String>,
}

impl ReadScope {
    /// What an answer is judged by.
    fn judge(&self) -> JudgeScope {
        JudgeScope {
            started: self.run.started,
            not_before: self.run.not_before,
            leftover: self.run.leftover,
            ages: self.ages,
            clock: self.clock,
            fields: self.fields.clone(),
        }
    }
}

/// Finds what is known about requests, over one connection.
pub(crate) struct RequestReader {
    pub(crate) answers: AnswerReader,
    judge: AnswerJudge,
    checksums: Checksums,
    hasher: RequestHasher,
    run: i64,
    /// Whether the run may have stored failures.
    failures: bool,
}

impl RequestReader {
    /// A reader for a run.
    pub(crate) fn open(connection: &Connection, scope: &ReadScope) -> rusqlite::Result<Self> {
        Ok(Self {
            answers: AnswerReader::new(scope.checksums, Arc::clone(&scope.latest)),
            judge: AnswerJudge::new(scope.judge()),
            checksums: scope.checksums,
            hasher: scope.hasher.clone(),
            run: scope.run.id(),
            failures: failures::any(connection, scope.run.id())?,
        })
    }

    /// From now on the run may have stored failures.
    pub(crate) const fn expect_failures(&mut self) {
        self.failures = true;
    }

    /// What is known about a request, and which run it arrived in.
    pub(crate) fn find(
        &mut self,
        connection: &Connection,
        key: &RequestKey,
        body: &[u8],
    ) -> rusqlite::Result<(LookupResult, AnsweredIn)> {
        let (found, block) = self.look(connection, key, body)?;
        // A failure is known only to the run that it happened in.
        let run = block.map_or(AnsweredIn::ThisRun, |block| self.run_of(block));
        Ok((found, run))
    }

    /// The run that the answers of a block arrived in.
    fn run_of(&self, block: BlockNumber) -> AnsweredIn {
        if self.answers.is_ours(block) {
            AnsweredIn::ThisRun
        } else {
            AnsweredIn::OtherRun
        }
    }

    /// What is known about a request, and the block of an answer that can be used.
    fn look(
        &mut self,
        connection: &Connection,
        key: &RequestKey,
        body: &[u8],
    ) -> rusqlite::Result<(LookupResult, Option<BlockNumber>)> {
        if let Some(recent) = self.answers.recent(key) {
            let block = recent.block;
            let found = self.judge(connection, recent)?;
            if found.known.is_some() {
                return Ok((found, Some(block)));
            }
            // It may have been replaced by one that can be used.
        }
        let mut found = match self.answers.find(connection, key)? {
            AnswerState::Absent => LookupResult::default(),
            AnswerState::Damaged(_) => LookupResult::unusable(Unusable::Damaged),
            AnswerState::Sound(answer) => {
                let block = answer.block;
                let found = self.judge(connection, answer)?;
                if found.known.is_some() {
                    return Ok((found, Some(block)));
                }
                found
            }
        };
        if self.failures && found.known.is_none() {
            let failure = failures::find(
                connection,
                self.checksums,
                &self.hasher,
                (key, body),
                self.run,
            )?;
            found.known = failure.map(KnownOutcome::Failure);
        }
        Ok((found, None))
    }

    /// What a stored answer is to the run.
    fn judge(
        &mut self,
        connection: &Connection,
        found: FoundAnswer,
    ) -> rusqlite::Result<LookupResult> {
        let checksums = self.checksums;
        let list =
            |number| captures::list(connection, checksums, number).map(Option::unwrap_or_default);
        // The checksum matches, so it is not damage: we wrote something else than we read.
        let run = self.run_of(found.block);
        let judged = self.judge.judge(found.answer, run, list)?;
        judged.ok_or_else(damaged)
    }
}
