//! What the tests share: new ledgers, and runs on them without a thread.

pub(super) use std::path::{Path, PathBuf};
pub(super) use std::sync::Arc;
pub(super) use std::time::Duration;

pub(super) use bytes::Bytes;

pub(super) use crate::ledger::answers::{KnownResult, LookupResult, PaidResult, ReadAnswer};
pub(super) use crate::ledger::claims::{ClaimResult, Unanswered};
pub(super) use crate::ledger::database::now_millis;
pub(super) use crate::ledger::key::RequestHasher;
pub(super) use crate::ledger::location::{LedgerAccount, LedgerLocation, ServerWait};
pub(super) use crate::ledger::open::{LedgerFacts, OpenLedger};
pub(super) use crate::ledger::runs::{Group, LedgerSettings, Record, Reuse, RunEnd};
pub(super) use crate::verdict::{Answer, Failure, Reason, Score, TransactionId};

use rusqlite::params;

use super::postgres::Schema;
use crate::base::error::Result;
use crate::base::money::Money;
use crate::ledger::fault::DbFault;
use crate::ledger::outputs;

/// Reads bodies that are only a score.
pub(super) fn read() -> ReadAnswer {
    Arc::new(|body| {
        Some(Answer {
            transaction_id: TransactionId::new("t").unwrap(),
            score: Score::from_json_number(str::from_utf8(body).ok()?).ok()?,
            captured: Box::default(),
        })
    })
}

/// Answers up to this age.
pub(super) const fn recent(age: Duration) -> Reuse {
    Reuse::Recent {
        least: age,
        most: age,
    }
}

/// A new ledger.
pub(super) struct TestLedger {
    /// Its path, or its address.
    pub(super) path: PathBuf,
    _directory: Option<tempfile::TempDir>,
}

/// A ledger in a file, and one on a server if tests have one.
pub(super) fn ledgers() -> Vec<TestLedger> {
    let directory = tempfile::tempdir().unwrap();
    let file = TestLedger {
        path: directory.path().join("rescore.ledger"),
        _directory: Some(directory),
    };
    let on_server = |schema: Schema| TestLedger {
        path: schema.url.to_string().into(),
        _directory: None,
    };
    [file]
        .into_iter()
        .chain(Schema::shared().map(on_server))
        .collect()
}

/// A run on a ledger.
pub(super) struct Run {
    pub(super) ledger: OpenLedger,
    pub(super) hasher: RequestHasher,
    pub(super) facts: LedgerFacts,
}

pub(super) fn settings(path: &Path, output: &str, reuse: Reuse) -> LedgerSettings {
    LedgerSettings {
        location: LedgerLocation::named(path).unwrap(),
        reuse,
        output: Some(path.with_file_name(output)),
        input: None,
        account: Some(LedgerAccount {
            endpoint: "https://scripted.test".to_owned(),
            service_id: "test".to_owned(),
        }),
        read: read(),
        in_flight: 8.try_into().unwrap(),
        longest_call: Duration::from_secs(30),
        wait: ServerWait::new(Duration::from_secs(60)),
        budgets: Vec::new(),
        price: Money::default(),
    }
}

impl Run {
    /// A run to this output that has started.
    pub(super) fn start(path: &Path, output: &str, reuse: Reuse) -> Result<Self> {
        Self::start_with(&settings(path, output, reuse))
    }

    pub(super) fn start_with(settings: &LedgerSettings) -> Result<Self> {
        let mut ledger = OpenLedger::open(settings)?;
        let facts = ledger.facts.clone();
        assert!(ledger.facts.run.start(&mut *ledger.database).unwrap());
        ledger.database.run_starts();
        Ok(Self {
            ledger,
            hasher: facts.hasher.clone(),
            facts,
        })
    }

    pub(super) fn write(
        &mut self,
        group: &Group,
    ) -> std::result::Result<Vec<ClaimResult>, DbFault> {
        let OpenLedger {
            facts, database, ..
        } = &mut self.ledger;
        facts.run.store(&mut **database, group)
    }

    /// Renews the lease.
    pub(super) fn renew(&mut self) -> std::result::Result<(), DbFault> {
        self.write(&Group::default()).map(drop)
    }

    /// The lease is not renewed in time, or was renewed when the clock was a day ahead.
    pub(super) fn lose_lease(&mut self, clock_was_ahead: bool) {
        let until = if clock_was_ahead {
            "until + 86400000"
        } else {
            "0"
        };
        let start = self.facts.run.scope.start;
        let lose = format!("UPDATE runs SET until = {until} WHERE start = $1");
        let written = self.ledger.database.write(&lose, params![start]);
        written.unwrap();
    }

    pub(super) fn record(&mut self, files: &[(PathBuf, std::fs::Metadata)], input: &Path) {
        let ledger = &mut self.ledger;
        outputs::record(&mut *ledger.database, &ledger.secret, files, Some(input)).unwrap();
    }

    pub(super) fn leave(&mut self, calls: u64) {
        let OpenLedger {
            facts, database, ..
        } = &mut self.ledger;
        facts.run.leave(&mut **database, calls, None);
    }

    pub(super) fn end(&mut self, end: RunEnd) {
        let OpenLedger {
            facts, database, ..
        } = &mut self.ledger;
        facts.run.end(&mut **database, end);
    }

    /// The request with this number.
    pub(super) fn key(&self, request: u64) -> crate::ledger::RequestKey {
        self.hasher
            .key(format!("{{\"request\":{request}}}").as_bytes())
    }

    /// Stores results as of now, in one group.
    pub(super) fn keep(&mut self, results: &[(u64, PaidResult)]) {
        let group = self.answers(results);
        self.write(&group).unwrap();
    }

    pub(super) fn answers(&self, results: &[(u64, PaidResult)]) -> Group {
        let record = |(request, result): &(u64, PaidResult)| Record {
            key: self.key(*request),
            result: result.clone(),
            at: now_millis(),
        };
        Group {
            records: results.iter().map(record).collect(),
            ..Group::default()
        }
    }

    /// Stores an answer to each of these requests, whose score is its number.
    pub(super) fn keep_answers(&mut self, requests: &[u64]) {
        let answers: Vec<_> = requests.iter().map(|it| (*it, answer(*it))).collect();
        self.keep(&answers);
    }

    /// Distrusts what it has stored about these requests, and stores these results in the same
    /// group.
    pub(super) fn distrust(&mut self, requests: &[u64], results: &[(u64, PaidResult)]) {
        let requests = requests.iter().map(|it| self.key(*it).fingerprint());
        let group = Group {
            distrusted: requests.collect(),
            ..self.answers(results)
        };
        self.write(&group).unwrap();
    }

    pub(super) fn claim(&mut self, requests: &[u64]) -> Vec<ClaimResult> {
        let group = Group {
            claims: requests.iter().map(|request| self.key(*request)).collect(),
            max_claims: usize::MAX,
            ..Group::default()
        };
        self.write(&group).unwrap()
    }

    /// A claim ends without an answer, or its call has ended and another one follows.
    pub(super) fn end_call(&mut self, request: u64, end: Unanswered) {
        let group = Group {
            unanswered: vec![(self.key(request), end)],
            ..Group::default()
        };
        self.write(&group).unwrap();
    }

    pub(super) fn look_up(&self, requests: &[u64]) -> Vec<LookupResult> {
        let keys: Vec<_> = requests.iter().map(|request| self.key(*request)).collect();
        self.ledger.lookup().unwrap().look_up(&keys).unwrap()
    }
}

/// An answer with this score.
pub(super) fn answer(score: u64) -> PaidResult {
    PaidResult::Answer(Bytes::from(score.to_string()))
}

pub(super) fn failure() -> PaidResult {
    PaidResult::Failure(Failure::new(Reason::NoAnswer, "timed out"))
}

/// The score that was found.
pub(super) fn score(found: &LookupResult) -> Option<u64> {
    match &found.result {
        Some(KnownResult::Answer(answer)) => answer.score.digits().parse().ok(),
        _ => None,
    }
}
