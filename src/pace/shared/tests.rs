//! Workers that share a row, call by call: who may call, what all hear of a refusal, and who leads.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

use std::cell::Cell;
use std::time::Duration;

use super::leader::Leader;
use super::leading::{Lead, Leading};
use super::member::Member;
use super::memory_row::MemoryRow;
use super::report::{Ended, ReportedCall, WorkerReport};
use crate::pace::rate::Rate;
use crate::pace::types::{Admission, Allowance, Call, CallOutcome, PaceEvent, PaceLimits, Try};
use crate::telemetry::pace::{FoundLimit, Limit, PaceCause, Search};
use crate::telemetry::shared_pace::{PaceAsk, PaceDecision};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// The row's clock when the workers' clocks start.
const ROW_CLOCK: Duration = Duration::from_secs(1_000_000);

fn limits(rate: Rate) -> PaceLimits {
    PaceLimits {
        rate,
        in_flight: 16.try_into().unwrap(),
        known: Limit::NONE,
        wait: Duration::from_secs(900),
        outage: Duration::from_secs(900),
    }
}

/// Workers that reach the row without a delay.
struct Workers {
    row: MemoryRow,
    each: Vec<(Member, Leading)>,
    leads: Vec<bool>,
    /// Calls that are out.
    out: Vec<(usize, Call)>,
    /// When calls started.
    begun: Vec<Duration>,
    now: Duration,
}

impl Workers {
    fn new(rates: &[Rate]) -> Self {
        let each: Vec<_> = rates.iter().copied().map(limits).collect();
        Self::within(&each)
    }

    fn within(limits: &[PaceLimits]) -> Self {
        let each = (1..).zip(limits).map(|(seed, limits)| {
            let mut random = fastrand::Rng::with_seed(seed);
            let leading = Leading::new(*limits, random.fork());
            (Member::new(*limits, random), leading)
        });
        Self {
            row: MemoryRow::default(),
            each: each.collect(),
            leads: vec![false; limits.len()],
            out: Vec::new(),
            begun: Vec::new(),
            now: Duration::ZERO,
        }
    }

    /// The worker asks the row if it is time.
    fn exchange(&mut self, who: usize) {
        let (member, leading) = &mut self.each[who];
        if member.asks_at().is_some_and(|at| at <= self.now) {
            let (ask, own) = member.ask(self.now, leading.decision());
            let reply = self.row.ask(ROW_CLOCK + self.now, &ask);
            let lead = leading.read(&reply, own);
            self.leads[who] = lead != Lead::Follows;
            member.answered_by_row(self.now, &reply, lead);
        }
    }

    /// Lets these workers run for this long; each starts every call that it may, and calls take 20 ms. `outcome` says how a
    /// call of a worker ends. Returns the calls of each.
    fn run(
        &mut self,
        alive: &[usize],
        length: Duration,
        outcome: impl Fn(usize, Duration) -> CallOutcome,
    ) -> Vec<u32> {
        let mut started = vec![0; self.each.len()];
        let until = self.now + length;
        while self.now < until {
            self.now += MILLISECOND;
            let now = self.now;
            let over: Vec<_> = self
                .out
                .extract_if(.., |(_, call)| call.began + 20 * MILLISECOND <= now)
                .collect();
            for (who, call) in over {
                let how = outcome(who, call.began);
                self.each[who].0.call_ended(now, call, how, Try::First, 0.5);
            }
            for who in alive {
                self.exchange(*who);
                while let Admission::Admitted(call) = self.each[*who].0.admit(now) {
                    started[*who] += 1;
                    self.begun.push(now);
                    self.out.push((*who, call));
                }
                self.exchange(*who);
            }
        }
        started
    }
}

const fn answered(_: usize, _: Duration) -> CallOutcome {
    CallOutcome::Answered
}

#[test]
fn the_smallest_rate_that_a_user_allows_rules_all_runs() {
    let mut workers = Workers::new(&[Rate::PerSecond(50.0), Rate::Auto, Rate::PerSecond(20.0)]);
    let all = [0, 1, 2];
    let _ = workers.run(&all, 5 * SECOND, answered);
    let calls = workers.run(&all, 10 * SECOND, answered);
    let sum: u32 = calls.iter().sum();
    assert!((195..=205).contains(&sum), "{calls:?}");
    assert!(
        calls.iter().all(|calls| (33..=133).contains(calls)),
        "{calls:?}"
    );
}

#[test]
fn while_headers_hold_calls_back_the_search_does_not_grow() {
    let mut workers = Workers::new(&[Rate::Auto]);
    for left in (1..=20).rev() {
        let allowance = Allowance {
            calls: 5 * u64::from(left),
            lasts: left * SECOND,
        };
        workers.each[0].0.allowed(allowance);
        let _ = workers.run(&[0], SECOND, answered);
    }
    // What the headers asked for is over.
    let _ = workers.run(&[0], 100 * MILLISECOND, answered);
    let rate = workers.each[0].0.pace().rate.unwrap();
    assert!((5.0..=100.0).contains(&rate), "{rate}");
}

#[test]
fn a_run_that_follows_another_one_is_said_to_be_alone() {
    let mut workers = Workers::new(&[Rate::PerSecond(50.0); 3]);
    let _ = workers.run(&[0], 5 * SECOND, answered);
    let most = |workers: &Workers, who: usize| {
        let pace = workers.each[who].0.pace();
        pace.shared_by.map(|shared| shared.most)
    };
    let _ = workers.run(&[1], 5 * SECOND, answered);
    assert_eq!(most(&workers, 1), Some(1), "the first is gone");
    let _ = workers.run(&[1, 2], 5 * SECOND, answered);
    assert_eq!((most(&workers, 1), most(&workers, 2)), (Some(2), Some(2)));
}

#[test]
fn calls_of_several_workers_are_as_far_apart_as_those_of_one() {
    let mut workers = Workers::new(&[Rate::PerSecond(50.0); 3]);
    let all = [0, 1, 2];
    let _ = workers.run(&all, 5 * SECOND, answered);
    workers.begun.clear();
    let _ = workers.run(&all, 10 * SECOND, answered);
    assert!(workers.begun.len() > 490, "{}", workers.begun.len());
    let pairs = workers.begun.windows(2);
    let gaps = pairs.map(|pair| pair[1].saturating_sub(pair[0]));
    // A timer ticks at 1 ms.
    assert!(gaps.min().unwrap() >= 18 * MILLISECOND);
}

#[test]
fn a_run_without_a_limit_of_its_own_takes_no_calls_from_the_others() {
    let mut workers = Workers::new(&[Rate::PerSecond(20.0), Rate::Unlimited]);
    let _ = workers.run(&[0, 1], 5 * SECOND, answered);
    let calls = workers.run(&[0, 1], 10 * SECOND, answered);
    assert!((190..=205).contains(&calls[0]), "{calls:?}");
    assert!(calls[1] > 1_000, "{calls:?}");
}

#[test]
fn all_pause_when_one_is_refused_and_the_pace_is_cut_once() {
    let mut workers = Workers::new(&[Rate::PerSecond(100.0); 4]);
    let all = [0, 1, 2, 3];
    let _ = workers.run(&all, 4 * SECOND, answered);
    let before = workers.each[0].0.pace().rate.unwrap();
    let refused = workers.now;
    // All calls of half a second are refused, and ask for three seconds.
    let until = refused + 500 * MILLISECOND;
    let outcome = |_, began: Duration| {
        if (refused..until).contains(&began) {
            CallOutcome::Throttled(Some(3 * SECOND))
        } else {
            CallOutcome::Answered
        }
    };
    let calls = workers.run(&all, SECOND, outcome);
    let sum: u32 = calls.iter().sum();
    assert!(f64::from(sum) < before * 0.25, "{calls:?} at {before}/s");
    let silent = workers.run(&all, SECOND, answered);
    assert_eq!(silent, [0; 4], "all wait as the service asked");
    let _ = workers.run(&all, 2 * SECOND, answered);
    let after = workers.each[0].0.pace().rate.unwrap();
    assert!(
        (before * 0.4..before).contains(&after),
        "{after}/s after {before}/s: cut once"
    );
}

#[test]
fn the_next_worker_leads_at_the_same_rate_when_the_leader_dies() {
    let mut workers = Workers::new(&[Rate::PerSecond(40.0); 3]);
    let _ = workers.run(&[0, 1, 2], 5 * SECOND, answered);
    assert_eq!(workers.leads, [true, false, false]);
    let _ = workers.run(&[1, 2], 2 * SECOND, answered);
    assert!(workers.leads[1] ^ workers.leads[2]);
    let calls = workers.run(&[1, 2], 10 * SECOND, answered);
    let sum: u32 = calls.iter().sum();
    assert!((390..=410).contains(&sum), "{calls:?}");
}

#[test]
fn random_refusals_are_found_however_often_another_worker_leads() {
    let near = Limit {
        rate: Some(FoundLimit {
            value: 5.0,
            times: 3,
        }),
        ..Limit::NONE
    };
    let known = PaceLimits {
        known: near,
        ..limits(Rate::Auto)
    };
    let mut workers = Workers::within(&[known; 2]);
    let _ = workers.run(&[0], 20 * SECOND, answered);
    assert_eq!(workers.each[0].0.pace().search, Search::Holding);
    // One call in twenty is refused at any pace, and a worker never leads for long enough to see several of them.
    let calls = Cell::new(0_u32);
    let outcome = |_, _| {
        calls.set(calls.get() + 1);
        if calls.get().is_multiple_of(20) {
            CallOutcome::Throttled(None)
        } else {
            CallOutcome::Answered
        }
    };
    let mut started = 0;
    for turn in 0..40 {
        let leads = turn % 2;
        started = workers.run(&[leads], 6 * SECOND, outcome)[leads];
    }
    assert!(started > 500, "{started} calls in the last 6 s");
}

#[test]
fn without_an_answer_of_the_row_no_call_starts() {
    let mut member = Member::new(limits(Rate::Auto), fastrand::Rng::with_seed(1));
    assert!(matches!(member.admit(SECOND), Admission::AfterAnother));
    let _ = member.ask(SECOND, None);
    assert_eq!(member.asks_at(), None, "an answer is on its way");
    member.row_is_away(2 * SECOND);
    assert!(matches!(member.admit(2 * SECOND), Admission::AfterAnother));
    assert_eq!(member.asks_at(), Some(3 * SECOND));
}

#[test]
fn a_refusal_of_chance_holds_only_its_row() {
    let mut workers = Workers::new(&[Rate::Auto]);
    let _ = workers.run(&[0], SECOND, answered);
    let (member, _) = &mut workers.each[0];
    let call = loop {
        workers.now += MILLISECOND;
        if let Admission::Admitted(call) = member.admit(workers.now) {
            break call;
        }
    };
    let refused = CallOutcome::Throttled(None);
    let again = member.call_ended(workers.now, call, refused, Try::AgainAlone, 0.5);
    assert_eq!(again, Some(PaceEvent::RowWaits(Duration::ZERO)));
    assert_eq!(member.cause(), PaceCause::Search);
}

#[test]
fn each_worker_knows_what_changed_the_pace() {
    let mut workers = Workers::new(&[Rate::Auto, Rate::Auto]);
    let causes = |workers: &Workers| [0, 1].map(|who| workers.each[who].0.cause());
    let _ = workers.run(&[0, 1], 2 * SECOND, answered);
    assert_eq!(causes(&workers), [PaceCause::Search; 2]);
    let refused_from = workers.now;
    let _ = workers.run(&[0, 1], 400 * MILLISECOND, |_, began| {
        if began < refused_from {
            CallOutcome::Answered
        } else {
            CallOutcome::Throttled(None)
        }
    });
    assert_eq!(causes(&workers), [PaceCause::Throttled; 2]);
}

/// What a worker asks that wants this many calls.
fn ask(worker: u32, calls: u32, decision: Option<PaceDecision>) -> PaceAsk {
    PaceAsk {
        worker,
        calls,
        unused_for: 200 * MILLISECOND,
        refused: None,
        report: "{}".to_owned(),
        decision,
    }
}

fn decision(rate: f64, epoch: u64, now: Duration) -> PaceDecision {
    PaceDecision {
        rate,
        epoch,
        paused_until: Duration::ZERO,
        alone: false,
        seen: now,
        state: "{}".to_owned(),
    }
}

#[test]
fn the_row_grants_its_rate_and_loses_what_nobody_asked_for() {
    let mut row = MemoryRow::default();
    let mut now = ROW_CLOCK;
    assert!(row.ask(now, &ask(1, 0, None)).lead.is_some());
    row.ask(now, &ask(1, 0, Some(decision(100.0, 1, now))));
    let mut granted = 0;
    for number in 0..1_000 {
        now += 10 * MILLISECOND;
        granted += row.ask(now, &ask(1 + number % 7, 5, None)).calls;
    }
    assert!((1_000..=1_001).contains(&granted), "{granted}");
    now += 60 * SECOND;
    assert_eq!(
        row.ask(now, &ask(1, 500, None)).calls,
        21,
        "of the last 200 ms"
    );
}

#[test]
fn a_decision_of_a_worker_that_leads_no_more_is_not_kept() {
    let mut row = MemoryRow::default();
    row.ask(ROW_CLOCK, &ask(1, 0, None));
    let later = ROW_CLOCK + 2 * SECOND;
    assert!(row.ask(later, &ask(2, 0, None)).lead.is_some());
    let reply = row.ask(later, &ask(1, 0, Some(decision(1_000.0, 9, later))));
    assert_eq!((reply.epoch, reply.lead), (0, None));
    assert!(reply.rate < 1_000.0);
}

#[test]
fn a_refusal_holds_all_until_the_leader_has_read_of_it() {
    let mut row = MemoryRow::default();
    row.ask(ROW_CLOCK, &ask(1, 0, None));
    row.ask(ROW_CLOCK, &ask(1, 0, Some(decision(100.0, 1, ROW_CLOCK))));
    let now = ROW_CLOCK + SECOND / 2;
    let refused = |epoch| PaceAsk {
        refused: Some(epoch),
        ..ask(2, 5, None)
    };
    assert!(row.ask(now, &refused(0)).calls > 0, "of an earlier epoch");
    assert_eq!(row.ask(now, &refused(1)).calls, 0);
    assert_eq!(row.ask(now + MILLISECOND, &ask(3, 5, None)).calls, 0);
    let read = row.ask(now + MILLISECOND, &ask(1, 0, None));
    assert_eq!(read.lead.map(|reports| reports.len()), Some(3));
    let decided = decision(50.0, 2, read.now);
    row.ask(now + 2 * MILLISECOND, &ask(1, 0, Some(decided)));
    assert!(row.ask(now + 50 * MILLISECOND, &ask(3, 5, None)).calls > 0);
}

#[test]
fn after_a_pause_one_call_goes_first() {
    let mut row = MemoryRow::default();
    row.ask(ROW_CLOCK, &ask(1, 0, None));
    let until = ROW_CLOCK + SECOND;
    let alone = PaceDecision {
        paused_until: until,
        alone: true,
        ..decision(100.0, 1, ROW_CLOCK)
    };
    row.ask(ROW_CLOCK, &ask(1, 0, Some(alone)));
    assert_eq!(row.ask(ROW_CLOCK + SECOND / 2, &ask(2, 5, None)).calls, 0);
    assert_eq!(row.ask(until, &ask(2, 5, None)).calls, 1);
    assert_eq!(row.ask(until + MILLISECOND, &ask(3, 5, None)).calls, 0);
    let lost = until + 6 * SECOND;
    assert_eq!(
        row.ask(lost, &ask(3, 5, None)).calls,
        1,
        "the first was lost"
    );
}

#[test]
fn the_leader_counts_a_call_that_is_out_once_others_have_ended() {
    let mut row = MemoryRow::default();
    let start = row.ask(ROW_CLOCK, &ask(1, 0, None));
    let mut leader = Leader::new(limits(Rate::Auto), &start);
    // One call is out all the time.
    let mut paused_until = |at: Duration, ended: &[(Try, Ended)]| {
        let ended = ended.iter().map(|(tried, how)| ReportedCall {
            ago: 0,
            took: 20_000,
            epoch: leader.decision().epoch,
            tried: *tried,
            how: *how,
        });
        let report = WorkerReport {
            out: 1,
            ended: ended.collect(),
            ..WorkerReport::default()
        };
        let now = ROW_CLOCK + at;
        let _ = leader.step(now, &[(now, report)], || 0.5);
        leader.decision().paused_until
    };
    let answered = (Try::First, Ended::Answered);
    let busy_or_away = (Try::First, Ended::BusyOrAway);
    let of_its_row = (Try::AgainAlone, Ended::Refused(None));
    assert_eq!(paused_until(SECOND, &[answered; 3]), Duration::ZERO);
    let first = paused_until(2 * SECOND, &[busy_or_away]);
    assert!(first > ROW_CLOCK + 2 * SECOND, "right after a good answer");
    let again = paused_until(4 * SECOND, &[of_its_row, busy_or_away]);
    assert!(again > ROW_CLOCK + 4 * SECOND, "another call is still out");
}
