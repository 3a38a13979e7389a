//! Looking requests up in a ledger on a server, many in one statement.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::contact::ServerContact;
use super::fault::ServerFault;
use super::own_answers::OwnAnswers;
use super::server::{Lane, Server};
use super::sources::FieldLists;
use super::stored::{self, COLUMNS, key_of};
use crate::base::error::{Error, Result};
use crate::ledger::judge::{AnswerJudge, JudgeScope};
use crate::ledger::lookup_result::{AnsweredIn, LookupResult};
use crate::ledger::request_key::RequestKey;
use crate::ledger::stored_answer::StoredAnswer;
use crate::telemetry::event::Unusable;

/// Requests that are looked up in one statement: with more, each costs no less.
const AT_ONCE: usize = 256;

/// How long to wait before a look is tried again while the server is away.
const PAUSE: Duration = Duration::from_millis(200);

/// Looks requests up.
pub(crate) struct ServerLookup {
    server: Arc<Server>,
    contact: Arc<ServerContact>,
    judge: ServerJudge,
    /// What was found of the requests that are looked up together.
    found: HashMap<Uuid, StoredAnswer>,
    /// Since when the server has not answered this; `None` while it does.
    waits: Option<Instant>,
}

/// Says what answers on the server are to a run.
pub(super) struct ServerJudge {
    judge: AnswerJudge,
    lists: FieldLists,
    own: Arc<OwnAnswers>,
    /// When the run started, over all its stops, in milliseconds since 1970.
    started: i64,
}

impl ServerJudge {
    /// For this run, which stores these answers.
    pub(super) fn new(scope: JudgeScope, own: Arc<OwnAnswers>) -> Self {
        Self {
            started: scope.started,
            judge: AnswerJudge::new(scope),
            lists: FieldLists::default(),
            own,
        }
    }

    /// What the answer to a request is to the run, and the run that it is from.
    ///
    /// # Errors
    /// The server is away.
    pub(super) fn judge(
        &mut self,
        server: &Server,
        key: &RequestKey,
        answer: StoredAnswer,
    ) -> Result<(LookupResult, AnsweredIn), ServerFault> {
        let Self { judge, lists, .. } = self;
        let run = if answer.at < self.started {
            AnsweredIn::OtherRun
        } else {
            self.own.run_of(key)
        };
        let judged = judge.judge(answer, run, |source| lists.of(server, source))?;
        // Values that are not what we write: somebody has changed the table by hand.
        let found = judged.unwrap_or_else(|| LookupResult::unusable(Unusable::Damaged));
        Ok((found, run))
    }
}

impl ServerLookup {
    /// For a run, or for a look without one.
    pub(super) fn new(
        server: Arc<Server>,
        contact: Arc<ServerContact>,
        judge: ServerJudge,
    ) -> Self {
        Self {
            server,
            contact,
            judge,
            found: HashMap::new(),
            waits: None,
        }
    }

    /// Asks the server for these requests, which are then found one by one. While the server is away it waits, as long as
    /// the run does.
    ///
    /// # Errors
    /// Exit code 3: the server has been away for too long.
    pub(crate) fn fetch(&mut self, keys: &[RequestKey]) -> Result<()> {
        const LOOK: &str = "SELECT a.key, {} FROM rescore.answers a WHERE a.key = ANY($1)";
        let statement = LOOK.replace("{}", COLUMNS);
        self.found.clear();
        for keys in keys.chunks(AT_ONCE) {
            let keys: Vec<_> = keys.iter().map(|key| key_of(&key.hash)).collect();
            let look = |server: &Server| {
                server.query(Lane::Quick, &statement, &[(&keys, Type::UUID_ARRAY)])
            };
            let rows = loop {
                match look(&self.server) {
                    Ok(rows) => break rows,
                    Err(fault) => self.wait_out(&fault)?,
                }
            };
            self.waits = None;
            let found = { rows.iter() }.filter_map(|row| Some((row.get(0), stored::read(row, 1)?)));
            self.found.extend(found);
        }
        Ok(())
    }

    /// What is known of a request that was asked for, and the run that it is from.
    ///
    /// # Errors
    /// As [`Self::fetch`].
    pub(crate) fn find(&mut self, key: &RequestKey) -> Result<(LookupResult, AnsweredIn)> {
        // Equal requests may follow.
        let Some(answer) = self.found.get(&key_of(&key.hash)).cloned() else {
            return Ok((LookupResult::default(), AnsweredIn::OtherRun));
        };
        loop {
            match self.judge.judge(&self.server, key, answer.clone()) {
                Ok(found) => {
                    self.waits = None;
                    return Ok(found);
                }
                Err(fault) => self.wait_out(&fault)?,
            }
        }
    }

    /// Waits a moment. The thread that writes finds out itself whether the server is away.
    #[allow(
        clippy::disallowed_methods,
        reason = "no call is made on the thread that reads"
    )]
    fn wait_out(&mut self, fault: &ServerFault) -> Result<()> {
        let since = *self.waits.get_or_insert_with(Instant::now);
        if self.contact.is_too_long(since) {
            let cannot = format!("cannot read the ledger `{}`: {fault}", self.server.shown());
            return Err(Error::stopped(cannot).hint(
                "run the same command again when the server answers: it continues from here",
            ));
        }
        std::thread::sleep(PAUSE);
        Ok(())
    }
}
