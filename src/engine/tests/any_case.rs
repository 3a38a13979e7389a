//! Properties of the dispatcher: for any script of the service, any equal rows, window, pace and batches, and a stop at any
//! time, order, invariants and limits hold, and equal rows get equal verdicts.

use std::collections::{BTreeSet, HashMap};

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::claims::Shared;
use super::harness::*;
use crate::telemetry::event::{AfterCallKind, Origin};
use crate::verdict::Resolution;

/// One user's part of a generated case; no script means that the user's rows are invalid.
type Script = Option<Vec<Step>>;

#[derive(Debug, Clone)]
struct Case {
    scripts: Vec<Script>,
    /// The user of each row, as the number of the first row with the same request.
    users: Vec<u64>,
    first_is_good: bool,
    latency: u64,
    concurrency: usize,
    rate: Rate,
    window_rows: usize,
    window_bytes: usize,
    batch_sizes: Vec<usize>,
    read_delay: u64,
    write_delay: u64,
    cancel: Option<u64>,
}

fn step() -> impl Strategy<Value = Step> {
    let brings = prop_oneof![
        4 => Just(ScriptedResult::Verdict),
        3 => Just(ScriptedResult::Status(500)),
        1 => Just(ScriptedResult::TimedOut),
        1 => Just(ScriptedResult::Useless),
        1 => Just(ScriptedResult::Status(422)),
        1 => Just(ScriptedResult::RetryAfter(429, "1")),
        1 => Just(ScriptedResult::Status(429)),
        1 => Just(ScriptedResult::Status(403)),
    ];
    (brings, 0..300_u64).prop_map(|(brings, latency)| brings.after(latency))
}

/// A user's script, and how far back the row with the same request is; 0 for none.
fn row() -> impl Strategy<Value = (Script, usize)> {
    let script = prop::collection::vec(step(), 0..5);
    let back = prop_oneof![3 => Just(0), 1 => 1..8_usize, 1 => 1..80_usize];
    (prop::option::weighted(0.9, script), back)
}

prop_compose! {
    fn case()(
        rows in prop::collection::vec(row(), 0..120),
        first_is_good in prop::bool::weighted(0.8),
        latency in 0..300_u64,
        concurrency in 1..=16_usize,
        rate in prop_oneof![3 => Just(Rate::Unlimited), 1 => Just(Rate::PerSecond(50.0))],
        window_rows in 1..=64_usize,
        window_bytes in prop_oneof![1..500_usize, Just(usize::MAX / 2)],
        batch_sizes in prop::collection::vec(1..40_usize, 1..4),
        read_delay in prop_oneof![Just(0), 1..50_u64],
        write_delay in prop_oneof![Just(0), 1..50_u64],
        cancel in prop::option::of(0..4_000_u64),
    ) -> Case {
        Case {
            users: users(rows.iter().map(|(_, back)| *back)),
            scripts: rows.into_iter().map(|(script, _)| script).collect(),
            first_is_good,
            latency,
            concurrency,
            rate,
            window_rows,
            window_bytes,
            batch_sizes,
            read_delay,
            write_delay,
            cancel,
        }
    }
}

fn users(back: impl Iterator<Item = usize>) -> Vec<u64> {
    let mut users = Vec::new();
    for (row, back) in back.enumerate() {
        let same = row.checked_sub(back).filter(|_| back > 0);
        users.push(same.map_or(row as u64 + 1, |same| users[same]));
    }
    users
}

impl Case {
    /// The service, and the rows that are invalid.
    fn service(&self) -> (Scripted, Vec<u64>) {
        let mut service = Scripted::new(ScriptedResult::Verdict.after(self.latency));
        let mut invalid = Vec::new();
        for (row, user) in (1..).zip(&self.users) {
            match &self.scripts[usize::try_from(*user).unwrap() - 1] {
                Some(script) if row == *user => service = service.row(row, script.iter().copied()),
                Some(_) => {}
                None => invalid.push(row),
            }
        }
        (service, invalid)
    }

    fn user(&self, row: RowNumber) -> u64 {
        self.users[usize::try_from(row.get()).unwrap() - 1]
    }
}

const RETRIES: u32 = 4;
/// The longest call or delay of a generated case.
const LONGEST: Duration = Duration::from_millis(300);

/// Checks a case. What is paid for is known, with a ledger or without one; but with one the clock runs on while the disk works,
/// so nothing that depends on time can be checked.
async fn check(mut case: Case, keeps: bool) -> TestCaseResult {
    if case.first_is_good
        && let Some(first) = case.scripts.first_mut()
    {
        *first = Some(vec![ScriptedResult::Verdict.after(case.latency)]);
    }
    let (service, invalid) = case.service();
    let log = Log::default();
    let shared = Shared::new();
    let ledger = shared.open();
    let keys = ledger.facts.hasher.clone();
    let (_running, writer) = keeps.then(|| ledger.start().unwrap()).unzip();
    let engine = Fixture::new(service).build_with(|it| {
        it.concurrency = case.concurrency;
        it.rate = case.rate;
        it.retries = RETRIES;
        if let Some(writer) = writer {
            it.ledger = writer;
        }
        it.events = log.stream();
    });
    let mut rows = asked(case.users.len() as u64, &invalid);
    for (asked, user) in rows.iter_mut().zip(&case.users) {
        if let RowState::Waiting { body, key, .. } = asked {
            *body = Scripted::body(*user);
            *key = keys.key(body);
        }
    }
    // Of the rows that make no call, every other one is not asked for.
    for row in rows.iter_mut().skip(1).step_by(2) {
        if matches!(row, RowState::Invalid(_)) {
            *row = RowState::Passed;
        }
    }
    let around = Surroundings {
        read_delay: Duration::from_millis(case.read_delay),
        write_delay: Duration::from_millis(case.write_delay),
        window: WindowSize {
            rows: case.window_rows,
            bytes: case.window_bytes,
        },
        ..Surroundings::of(batches(rows, &case.batch_sizes))
    };
    let interrupt = async {
        match case.cancel {
            Some(after) => sleep(Duration::from_millis(after)).await,
            None => std::future::pending().await,
        }
    };
    let ran = run_with(&engine, around, interrupt).await;
    let events = log.events();
    check_rows(&case, &ran, &invalid)?;
    check_calls(&case, &engine, &events)?;
    check_equal(&case, &events)?;
    check_failures(&case, &ran, &events)?;
    if keeps {
        return Ok(());
    }
    check_window(&case, &events, &ran)?;
    check_stop(&engine, &events, &ran)
}

fn check_rows(case: &Case, ran: &RunEnd, invalid: &[u64]) -> TestCaseResult {
    let rows = ran.rows();
    prop_assert!(rows.is_sorted_by(|a, b| a < b), "order: {:?}", rows);
    for row in &ran.written {
        let number = row.number.get();
        let is_passed = matches!(row.state, RowState::Passed);
        prop_assert_eq!(is_passed, number % 2 == 0 && invalid.contains(&number));
        if is_passed {
            continue;
        }
        let RowState::Done { verdict, .. } = &row.state else {
            prop_assert!(false, "row {} has no verdict", row.number);
            continue;
        };
        if let Verdict::Scored(answer, _) = verdict {
            let expected = format!("t-{}", case.user(row.number));
            prop_assert_eq!(answer.transaction_id.as_str(), expected);
        }
        let says_invalid =
            matches!(verdict, Verdict::Failed(failure) if failure.reason == Reason::MissingName);
        prop_assert_eq!(says_invalid, invalid.contains(&number));
    }
    if ran.stop.is_none() {
        let all: Vec<_> = (1..=case.scripts.len() as u64).collect();
        prop_assert_eq!(rows, all);
    }
    Ok(())
}

/// A run stops only after enough failures. They count when the calls end: with a ledger, some rows may not have their verdict
/// yet when the drain ends, as the paused clock jumps to that end while the disk works.
fn check_failures(case: &Case, ran: &RunEnd, events: &[(Duration, Event)]) -> TestCaseResult {
    let Some(stop) = &ran.stop else {
        return Ok(());
    };
    if stop.reason != CancelReason::Interrupted && case.first_is_good {
        let given_up = |event: &Event| {
            matches!(
                event,
                Event::CallFailed {
                    next: AfterCallKind::GiveUp,
                    ..
                }
            )
        };
        let failures = events.iter().filter(|(_, event)| given_up(event)).count();
        prop_assert!(failures >= 2, "{:?} after {} failures", stop, failures);
        prop_assert!(
            stop.reason == CancelReason::Refused || failures >= 9,
            "{:?}",
            stop
        );
    }
    Ok(())
}

fn check_calls(
    case: &Case,
    engine: &Engine<Scripted>,
    events: &[(Duration, Event)],
) -> TestCaseResult {
    let (mut in_flight, mut refused, mut verdict_came) = (0, 0, false);
    let mut allowed = vec![1 + u64::from(RETRIES); case.scripts.len() + 1];
    for (_, event) in events {
        match event {
            Event::CallBegan { row, .. } => {
                in_flight += 1;
                prop_assert!(in_flight <= case.concurrency);
                let allowed = &mut allowed[usize::try_from(row.get()).unwrap()];
                prop_assert!(*allowed > 0, "row {} is called too often", row);
                *allowed -= 1;
                // A service that refuses the probe twice may refuse just this row, so another one is tried beside it.
                let probes = 1 + refused / 2;
                prop_assert!(
                    verdict_came || in_flight <= probes,
                    "there is more than the probe"
                );
            }
            Event::CallAnswered(_) => (in_flight, verdict_came) = (in_flight - 1, true),
            Event::CallFailed { .. } | Event::CallAbandoned { .. } => in_flight -= 1,
            Event::Throttled { call, .. } => {
                (in_flight, refused) = (in_flight - 1, refused + 1);
                allowed[usize::try_from(call.row.get()).unwrap()] += 1;
            }
            _ => {}
        }
    }
    let called = engine.service().rows();
    let valid = |row: &u64| case.scripts[usize::try_from(*row - 1).unwrap()].is_some();
    prop_assert!(called.iter().all(valid), "an invalid row is called");
    Ok(())
}

/// Whether a request with this result is never sent again.
fn is_for_good(resolution: Resolution) -> bool {
    match resolution {
        Resolution::Scored(_) => true,
        Resolution::Failed(reason) => matches!(
            reason,
            Reason::Refused | Reason::Forbidden | Reason::BadAnswer | Reason::NoAnswer
        ),
    }
}

/// Of equal rows one is called for at a time, and all get its verdict. Nothing that was answered, billed or refused is ever sent
/// again.
fn check_equal(case: &Case, events: &[(Duration, Event)]) -> TestCaseResult {
    let mut asking = HashMap::new();
    let mut open: HashMap<u64, BTreeSet<RowNumber>> = HashMap::new();
    let (mut told, mut answered) = (HashMap::<u64, Vec<_>>::new(), HashMap::new());
    for (_, event) in events {
        match event {
            Event::RowAdmitted(row) => {
                open.entry(case.user(*row)).or_default().insert(*row);
            }
            Event::CallBegan { row, .. } => {
                let user = case.user(*row);
                let by = *asking.entry(user).or_insert(*row);
                prop_assert_eq!(by, *row, "two calls for user {} at a time", user);
                let again = answered.contains_key(&user);
                prop_assert!(!again, "another call for user {}", user);
            }
            Event::RowResolved {
                row,
                resolution,
                origin,
            } => {
                let user = case.user(*row);
                let open = open.entry(user).or_default();
                open.remove(row);
                if asking.get(&user) == Some(row) {
                    asking.remove(&user);
                    prop_assert!(open.is_empty(), "{:?} wait for no call", open);
                    let told = told.remove(&user).unwrap_or_default();
                    let same = told.iter().all(|told| told == resolution);
                    prop_assert!(same, "{:?} for {:?}", told, resolution);
                    if is_for_good(*resolution) {
                        answered.insert(user, *resolution);
                    }
                } else if *origin != Origin::Called {
                    // Either the verdict of a call that is out, which is reported next, or of one that was kept.
                    if asking.contains_key(&user) {
                        told.entry(user).or_default().push(*resolution);
                    } else {
                        prop_assert_eq!(answered.get(&user), Some(resolution));
                    }
                }
            }
            Event::RowPassed(row) | Event::RowLeft(row) => {
                open.entry(case.user(*row)).or_default().remove(row);
            }
            _ => {}
        }
    }
    let open: Vec<_> = open.into_values().flatten().collect();
    prop_assert!(open.is_empty(), "{:?} have no end", open);
    // No row gets its verdict from an equal row that has none.
    prop_assert!(told.is_empty(), "{:?}", told);
    Ok(())
}

fn check_window(case: &Case, events: &[(Duration, Event)], ran: &RunEnd) -> TestCaseResult {
    if case.write_delay == 0 {
        prop_assert!(most_in_window(events) <= case.window_rows);
        if case.window_bytes < 500 {
            // Rows that are ready for the writer may come on top of those that are being scored.
            let most = case.window_bytes.div_ceil(ROW_BYTES);
            prop_assert!(
                most_in_window(events) <= most.max(1) + ran.hand_overs.iter().max().unwrap_or(&0)
            );
        }
    }
    // Rows in the channel and in the writer's hands have left the window.
    let (mut inside, mut hand_overs) = (0, ran.hand_overs.as_slice());
    for (_, event) in events {
        inside = passed(inside, event);
        if matches!(event, Event::RowsWritten { .. }) {
            hand_overs = &hand_overs[1..];
        }
        let handed_over: usize = hand_overs.iter().take(BATCHES + 1).sum();
        prop_assert!(inside <= case.window_rows + handed_over);
    }
    Ok(())
}

fn check_stop(
    engine: &Engine<Scripted>,
    events: &[(Duration, Event)],
    ran: &RunEnd,
) -> TestCaseResult {
    let began = |(_, event): &(Duration, Event)| matches!(event, Event::CancelBegan(_));
    let Some(stopped) = events.iter().position(began) else {
        prop_assert!(ran.stop.is_none());
        return Ok(());
    };
    prop_assert!(ran.stop.is_some());
    let called = events[stopped..]
        .iter()
        .any(|(_, event)| matches!(event, Event::CallBegan { .. } | Event::RowAdmitted(_)));
    prop_assert!(!called, "a call after the stop");
    prop_assert!(
        engine
            .service()
            .made()
            .iter()
            .all(|made| made.ended.is_some()),
        "a call that could have finished was abandoned"
    );
    prop_assert!(ran.elapsed <= events[stopped].0 + 3 * LONGEST);
    Ok(())
}

fn paused() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_happens_order_invariants_and_limits_hold(case in case()) {
        paused().block_on(check(case, false))?;
    }

    #[test]
    fn no_kept_answer_is_ever_paid_for_again(case in case()) {
        paused().block_on(check(case, true))?;
    }
}
