//! The service of a case: what it does to each call, and its own record of what it has processed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::server::{
    Action, Request, Server, answer, good, good_body, ok, raw, silence, status,
};

use super::case::PERSON;

/// What goes wrong.
#[derive(Debug, Clone)]
pub(super) struct Faults {
    seed: u64,
    /// How many of a hundred calls fail.
    share: u64,
    /// From this call on, all fail for a while.
    outage: Option<usize>,
    /// How many of a hundred users the service always refuses.
    refused: u64,
}

/// How long an outage lasts: longer than the first pauses before a retry.
const OUTAGE: Duration = Duration::from_millis(800);

/// Stands for a request that is about nobody who is in a file.
pub(super) const NOBODY: usize = usize::MAX;

/// What the service did with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Done {
    /// The user's verdict was sent.
    Answered,
    /// It was not processed, and is not billed.
    Refused,
    /// It was processed, but the answer did not come through.
    Lost,
    /// An answer came that is no verdict.
    Useless,
}

/// A call as the service saw it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) user: usize,
    pub(super) done: Done,
}

impl Call {
    pub(super) fn is_answered(self) -> bool {
        self.done == Done::Answered
    }
}

/// A number from a seed and others, always the same.
fn hash(seed: u64, more: [usize; 2]) -> u64 {
    let mix = |hash: u64, more: usize| (hash ^ more as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let hash = more
        .into_iter()
        .fold(seed | 1, |hash, more| mix(hash, more).rotate_left(29));
    hash ^ (hash >> 31)
}

impl Faults {
    pub(super) fn any(seed: u64, users: usize, chance: &mut fastrand::Rng) -> Self {
        // With more, or as many of many users, a run waits for minutes, as it should.
        let shares = [0, 0, 5, 15, 30];
        let most = if users > 100 { 3 } else { shares.len() };
        let outage = (chance.u8(..100) < 10).then(|| chance.usize(..users));
        Self {
            seed,
            share: shares[chance.usize(..most)],
            outage,
            // Where few users are known, some who are refused look like a service that refuses everybody.
            refused: if users > 20 { chance.u64(..5) } else { 0 },
        }
    }

    /// Whether the service refuses this user, always. The first ones show that it does not refuse everybody.
    pub(super) fn is_refused(&self, user: usize) -> bool {
        user > 10 && hash(self.seed, [user, 7]) % 100 < self.refused
    }

    /// What becomes of a call about this user, who was asked about so many times with this one.
    fn script(
        &self,
        request: &Request,
        user: usize,
        attempt: usize,
        is_calm: bool,
    ) -> (Done, Action) {
        let chance = hash(self.seed, [user, attempt]);
        // Nobody fails for ever.
        let fails = !is_calm && attempt <= 3 && chance % 100 < self.share;
        match (chance / 100) % 12 {
            _ if self.is_refused(user) => (Done::Refused, status(422)),
            kind if fails => fault(kind, request),
            _ => (Done::Answered, good(request)),
        }
    }
}

/// A fault of this kind.
fn fault(kind: u64, request: &Request) -> (Done, Action) {
    let body = good_body(&request.name());
    match kind {
        0 | 5 => (Done::Refused, status(500)),
        1 | 2 => (Done::Refused, status(503)),
        3 => (Done::Refused, status(502)),
        4 => (Done::Refused, status(429)),
        6 => (Done::Refused, answer(429, &[("retry-after", "0")], "")),
        7 => (Done::Lost, silence().then_reset()),
        8 => (Done::Lost, silence().then_close()),
        9 => {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            let half = &body[..body.len() / 2];
            (Done::Lost, raw(head + half).then_close())
        }
        10 => (Done::Useless, ok(r#"{"status":true,"summary":{}}"#)),
        _ => (Done::Useless, ok(&body[..body.len() - 9])),
    }
}

/// A service and its record.
pub(super) struct Service {
    pub(super) server: Server,
    record: Arc<Mutex<Record>>,
}

#[derive(Default)]
struct Record {
    calls: Vec<Call>,
    attempts: BTreeMap<usize, usize>,
    outage_began: Option<Instant>,
    /// Nothing goes wrong any more, but for users who are always refused.
    is_calm: bool,
}

impl Service {
    pub(super) fn start(faults: Faults) -> Self {
        let record = Arc::new(Mutex::new(Record::default()));
        let shared = Arc::clone(&record);
        let server = Server::start(move |request: &Request| {
            let name = request.name();
            let user = name.split_once(PERSON);
            let user = user.and_then(|(_, user)| user.trim().parse().ok());
            let user = user.unwrap_or(NOBODY);
            let mut record = shared.lock().unwrap();
            let attempt = record.attempts.entry(user).or_default();
            *attempt += 1;
            let (attempt, nth) = (*attempt, record.calls.len());
            let (is_calm, began) = (record.is_calm, &mut record.outage_began);
            let is_out = !is_calm && faults.outage.is_some_and(|first| nth >= first);
            let is_out = is_out && began.get_or_insert_with(Instant::now).elapsed() < OUTAGE;
            let (done, action) = if is_out {
                (Done::Refused, status(503))
            } else {
                faults.script(request, user, attempt, is_calm)
            };
            record.calls.push(Call { user, done });
            drop(record);
            let delay = hash(user as u64, [attempt, nth]) % 3_000;
            action.after(Duration::from_micros(delay))
        });
        Self { server, record }
    }

    pub(super) fn calm_down(&self) {
        self.record.lock().unwrap().is_calm = true;
    }

    pub(super) fn calls(&self) -> usize {
        self.record.lock().unwrap().calls.len()
    }

    /// The calls from this one on.
    pub(super) fn calls_since(&self, first: usize) -> Vec<Call> {
        self.record.lock().unwrap().calls[first..].to_vec()
    }
}

/// How many verdicts were sent for users who had theirs already.
pub(super) fn paid_twice(calls: &[Call]) -> usize {
    let answered = calls.iter().filter(|call| call.is_answered());
    let users: BTreeSet<_> = answered.clone().map(|call| call.user).collect();
    answered.count() - users.len()
}

/// The users who were asked about again after an answer of theirs was lost.
pub(super) fn resent_after_loss(calls: &[Call]) -> usize {
    let (mut lost, mut resent) = (BTreeSet::new(), BTreeSet::new());
    for call in calls {
        if lost.contains(&call.user) {
            resent.insert(call.user);
        }
        if call.done == Done::Lost {
            lost.insert(call.user);
        }
    }
    resent.len()
}
