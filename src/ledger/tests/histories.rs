//! Random histories of several runs on one ledger, and what a model says must be found.

use std::collections::{HashMap, HashSet};
use std::fs;

use proptest::prelude::*;

use super::support::*;
use crate::telemetry::event::PassedOver;

/// Something that a run does, or that happens to it.
#[derive(Debug, Clone)]
enum Step {
    /// A call brings an answer with this score, or fails.
    Keep(usize, Vec<(u64, Option<u64>)>),
    Claim(usize, Vec<u64>),
    End(usize, u64, Unanswered),
    LookUp(usize, Vec<u64>),
    /// It is killed, and the same command is started.
    Kill(usize),
    /// It stands still for longer than its lease, or the clock was ahead when it renewed that.
    LoseLease(usize, bool),
}

/// Few, so that they meet.
const REQUESTS: u64 = 40;
const RUNS: usize = 3;

fn step() -> impl Strategy<Value = Step> {
    let (run, request) = (0..RUNS, 0..REQUESTS);
    let requests = || prop::collection::vec(0..REQUESTS, 1..20);
    let results = prop::collection::vec(
        (request.clone(), prop::option::weighted(0.8, 0..1_000_u64)),
        1..20,
    );
    prop_oneof![
        4 => (run.clone(), results).prop_map(|(run, results)| Step::Keep(run, results)),
        4 => (run.clone(), requests()).prop_map(|(run, requests)| Step::Claim(run, requests)),
        2 => (run.clone(), request, end()).prop_map(|(run, request, end)| Step::End(run, request, end)),
        2 => (run.clone(), requests()).prop_map(|(run, requests)| Step::LookUp(run, requests)),
        1 => (run.clone(), any::<bool>()).prop_map(|(run, ahead)| Step::LoseLease(run, ahead)),
        1 => run.prop_map(Step::Kill),
    ]
}

fn end() -> impl Strategy<Value = Unanswered> {
    use Unanswered::{Again, MaybeBilled, NotBilled, NotMade};
    prop::sample::select(vec![Again, MaybeBilled, NotBilled, NotMade])
}

/// What a ledger must hold: of each request the latest answer, or else that it failed; which run
/// claims it; which requests are abandoned; and how many calls each run may have made.
#[derive(Default)]
struct Model {
    stored: HashMap<u64, Option<u64>>,
    claims: HashMap<u64, usize>,
    abandoned: HashSet<u64>,
    calls: [u64; RUNS],
    has_lost_lease: [bool; RUNS],
}

impl Model {
    /// A run gets a request. True if another run had abandoned it.
    fn claim(&mut self, run: usize, request: u64) -> bool {
        let holder = self.claims.insert(request, run);
        if holder == Some(run) {
            return false;
        }
        if holder.is_some() {
            self.abandoned.insert(request);
        }
        self.calls[run] += 1;
        self.abandoned.contains(&request)
    }

    /// Whether another run holds a request.
    fn is_taken(&self, run: usize, request: u64) -> bool {
        let holder = self.claims.get(&request);
        holder.is_some_and(|holder| *holder != run && !self.has_lost_lease[*holder])
    }

    /// How many abandoned requests a run finds that was killed and starts again.
    fn abandoned_for(&self, run: usize) -> u64 {
        let is_gone = |holder: usize| holder == run || self.has_lost_lease[holder];
        let claims = self.claims.iter().filter(|(_, holder)| is_gone(**holder));
        let gone: HashSet<_> = claims.map(|(request, _)| *request).collect();
        (&gone | &self.abandoned).len() as u64
    }

    /// Whether the result of a look-up is right.
    fn is_right(&self, request: u64, found: &LookupResult) -> bool {
        match self.stored.get(&request) {
            None => found.result.is_none(),
            Some(None) => matches!(found.result, Some(KnownResult::Failure(_))),
            Some(digits) => score(found) == *digits,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn what_was_stored_is_found_and_what_is_claimed_is_called_for_by_one_run(
        steps in prop::collection::vec(step(), 1..60)
    ) {
        for ledger in ledgers() {
            play(&ledger.path, &steps)?;
        }
    }
}

/// Plays a history into a new ledger, and checks what is found.
fn play(path: &Path, steps: &[Step]) -> Result<(), TestCaseError> {
    let start = |run: usize| Run::start(path, &format!("{run}.csv"), Reuse::All).unwrap();
    let mut runs: Vec<_> = (0..RUNS).map(start).collect();
    let mut model = Model::default();
    for step in steps.iter().cloned() {
        if let Step::Keep(run, _) | Step::Claim(run, _) = step {
            model.has_lost_lease[run] = false;
        }
        match step {
            Step::Keep(run, mut results) => {
                // No two calls for one request are out at a time.
                results.sort_unstable();
                results.dedup_by_key(|(request, _)| *request);
                // Nor is what is paid for called for.
                results.retain(|(request, _)| !matches!(model.stored.get(request), Some(Some(_))));
                let result = |(request, score): &(u64, Option<u64>)| {
                    (*request, score.map_or_else(failure, answer))
                };
                runs[run].keep(&results.iter().map(result).collect::<Vec<_>>());
                for (request, score) in results {
                    // A result ends what others have abandoned.
                    if !model.is_taken(run, request) {
                        model.claims.remove(&request);
                    }
                    model.abandoned.remove(&request);
                    let stored = model.stored.entry(request).or_default();
                    // A failure does not replace an answer that was paid for.
                    *stored = score.or(*stored);
                }
            }
            Step::Claim(run, mut requests) => {
                requests.sort_unstable();
                requests.dedup();
                for (request, result) in requests.iter().zip(runs[run].claim(&requests)) {
                    let is_taken = model.is_taken(run, *request);
                    match result {
                        ClaimResult::Stored(found) => {
                            prop_assert!(model.stored.contains_key(request));
                            prop_assert!(model.is_right(*request, &found));
                        }
                        ClaimResult::Taken => prop_assert!(is_taken),
                        ClaimResult::Granted { taken_over } => {
                            prop_assert!(!model.stored.contains_key(request) && !is_taken);
                            prop_assert_eq!(taken_over, model.claim(run, *request));
                        }
                        ClaimResult::Free => prop_assert!(false, "all of them are claimed"),
                    }
                }
            }
            Step::End(run, request, end) => {
                // A call is made for what is claimed.
                if model.claims.get(&request) != Some(&run) {
                    continue;
                }
                runs[run].end_call(request, end);
                model.has_lost_lease[run] = false;
                match end {
                    Unanswered::NotMade => model.calls[run] -= 1,
                    Unanswered::Again => model.calls[run] += 1,
                    Unanswered::NotBilled | Unanswered::MaybeBilled => {}
                }
                if end != Unanswered::Again {
                    model.claims.remove(&request);
                }
                if end == Unanswered::MaybeBilled {
                    model.abandoned.insert(request);
                } else if end != Unanswered::NotMade {
                    model.abandoned.remove(&request);
                }
            }
            Step::LookUp(run, requests) => {
                for (request, found) in requests.iter().zip(runs[run].look_up(&requests)) {
                    prop_assert!(model.is_right(*request, &found), "{request}: {found:?}");
                }
            }
            Step::Kill(run) => {
                runs[run] = start(run);
                let found = &runs[run].facts.run;
                let counts = (found.abandoned, found.spending.earlier);
                prop_assert_eq!(counts, (model.abandoned_for(run), model.calls[run]));
                let Model {
                    claims, abandoned, ..
                } = &mut model;
                abandoned.extend(claims.extract_if(|_, holder| *holder == run).map(|it| it.0));
                model.has_lost_lease[run] = false;
            }
            Step::LoseLease(run, clock_was_ahead) => {
                runs[run].lose_lease(clock_was_ahead);
                model.has_lost_lease[run] = true;
            }
        }
    }
    Ok(())
}

#[test]
fn many_answers_are_found_in_any_order_through_merges_and_the_latest_of_each() {
    for ledger in ledgers() {
        check_many_answers(&ledger.path);
    }
}

fn check_many_answers(path: &Path) {
    const ANSWERS: u64 = 3_000;
    let mut run = Run::start(path, "a.csv", Reuse::All).unwrap();
    let all: Vec<_> = (0..ANSWERS).collect();
    // Calls end in nearly the order of the rows.
    let mut ended = all.clone();
    ended.chunks_mut(40).for_each(<[_]>::reverse);
    for chunk in ended.chunks(48) {
        run.keep_answers(chunk);
    }
    let mut random = all.clone();
    fastrand::Rng::with_seed(7).shuffle(&mut random);
    for order in [&all, &random] {
        let found = run.look_up(order);
        let mut found = order.iter().zip(&found);
        assert!(found.all(|(request, found)| score(found) == Some(*request)));
    }
    run.leave(ANSWERS);
    run.end(RunEnd::Finished { failed: 0 });
    drop(run);

    // Another one asks about some of them again, and is killed half-way.
    let fresh = |until: u64| {
        let mut run = Run::start(path, "b.csv", Reuse::Nothing).unwrap();
        let again: Vec<_> = (0..ANSWERS)
            .step_by(7)
            .take_while(|it| *it < until)
            .collect();
        for (request, result) in again.iter().zip(run.claim(&again)) {
            if let ClaimResult::Granted { .. } = result {
                run.keep(&[(*request, answer(request + ANSWERS))]);
            }
        }
        run
    };
    drop(fresh(ANSWERS / 2));
    let run = fresh(ANSWERS);
    assert!(run.facts.run.continues);
    let found = run.look_up(&all);
    for (request, found) in all.iter().zip(&found) {
        let old = found.old.as_ref();
        let old = old.and_then(|old| old.answer.score.digits().parse().ok());
        assert_eq!(old, Some(*request), "the score before the run");
        let is_new = *request % 7 == 0;
        assert_eq!(score(found), is_new.then_some(request + ANSWERS));
        assert_eq!(found.passed_over, (!is_new).then_some(PassedOver::TooOld));
    }
    drop(run);
    // A run that comes later gets the latest.
    let run = Run::start(path, "c.csv", Reuse::All).unwrap();
    let found = (run.facts.answers, run.facts.has_usable);
    assert_eq!(found, (ANSWERS + ANSWERS.div_ceil(7), true));
    for (request, found) in all.iter().zip(run.look_up(&all)) {
        let more = if *request % 7 == 0 { ANSWERS } else { 0 };
        assert_eq!(score(&found), Some(request + more));
    }
}

#[test]
fn the_first_free_requests_are_claimed_and_no_more_than_asked_for() {
    for ledger in ledgers() {
        let start = |name| Run::start(&ledger.path, name, Reuse::All).unwrap();
        let (mut other, mut run) = (start("a.csv"), start("b.csv"));
        other.keep_answers(&[1]);
        other.claim(&[2]);
        let group = Group {
            claims: [1, 2, 3, 4, 5].map(|request| run.key(request)).to_vec(),
            max_claims: 2,
            ..Group::default()
        };
        let results = run.write(&group).unwrap();
        assert!(matches!(&results[0], ClaimResult::Stored(found) if score(found) == Some(1)));
        let granted = ClaimResult::Granted { taken_over: false };
        let expected = [
            ClaimResult::Taken,
            granted.clone(),
            granted,
            ClaimResult::Free,
        ];
        assert_eq!(results[1..], expected);
    }
}

#[test]
fn failures_are_kept_until_a_run_retries_them() {
    for ledger in ledgers() {
        check_failures(&ledger.path);
    }
}

fn check_failures(path: &Path) {
    let mut run = Run::start(path, "a.csv", Reuse::All).unwrap();
    run.keep(&[(1, failure()), (2, answer(2))]);
    drop(run);
    for reuse in [Reuse::All, recent(Duration::from_secs(60))] {
        let mut run = Run::start(path, "b.csv", reuse).unwrap();
        let [found] = &run.claim(&[1])[..] else {
            panic!("one")
        };
        assert!(
            matches!(found, ClaimResult::Stored(found) if matches!(found.result, Some(KnownResult::Failure(_))))
        );
    }
    let mut retry = Run::start(path, "b.csv", Reuse::Retry).unwrap();
    assert_eq!(retry.look_up(&[1])[0].passed_over, Some(PassedOver::Failed));
    assert_eq!(
        retry.claim(&[1]),
        [ClaimResult::Granted { taken_over: false }]
    );
    assert_eq!(score(&retry.look_up(&[2])[0]), Some(2));
    retry.keep(&[(1, failure())]);
    drop(retry);
    // It has failed again, and the retry continues where it was stopped.
    let retry = Run::start(path, "b.csv", Reuse::Retry).unwrap();
    assert!(matches!(
        retry.look_up(&[1])[0].result,
        Some(KnownResult::Failure(_))
    ));
}

#[test]
fn a_stopped_run_keeps_what_it_uses_and_counts_calls_on() {
    let reuses = [
        Reuse::All,
        recent(Duration::from_secs(60)),
        Reuse::Recent {
            least: Duration::from_secs(60),
            most: Duration::from_secs(90),
        },
        Reuse::Nothing,
        Reuse::Retry,
    ];
    for (ledger, reuse) in ledgers()
        .iter()
        .flat_map(|ledger| reuses.map(|reuse| (ledger, reuse)))
    {
        let start = |input: &str, reuse_now| {
            // Two starts have two times.
            std::thread::sleep(Duration::from_millis(2));
            Run::start_with(&LedgerSettings {
                input: Some(ledger.path.with_file_name(input)),
                ..settings(&ledger.path, &format!("{reuse:?}.csv"), reuse_now)
            })
            .unwrap()
        };
        let (mut killed, mut abandoned) = (start("in.csv", reuse), Vec::new());
        killed.claim(&[1, 2, 3, 4]);
        // One had no answer, and may have been billed; another one is called for again.
        killed.end_call(4, Unanswered::MaybeBilled);
        killed.end_call(3, Unanswered::Again);
        let scope = |run: &Run| {
            let scope = &run.facts.run.scope;
            let used = (scope.not_before, scope.spread);
            (used, scope.failures_from, scope.started)
        };
        for _ in 0..2 {
            let next = start("in.csv", reuse);
            let run = &next.facts.run;
            assert!(run.continues && !killed.facts.run.continues);
            assert_eq!(scope(&next), scope(&killed));
            assert_eq!(run.spending.earlier, 4 + 1);
            abandoned.push(run.abandoned);
        }
        let other = start("other.csv", reuse);
        assert!(!other.facts.run.continues);
        abandoned.push(other.facts.run.abandoned);
        assert_eq!(abandoned, [4, 4, 4]);
        let mut before = start("in.csv", reuse);
        // Failed rows of a run are asked about again, and its answers are not.
        for reuse_now in [reuse, Reuse::Retry] {
            before.leave(5);
            before.end(RunEnd::Finished { failed: 4 });
            let next = start("in.csv", reuse_now);
            let run = &next.facts.run;
            assert_eq!(run.previous, Some(RunEnd::Finished { failed: 4 }));
            assert!(!run.continues && run.spending.earlier == 0);
            if reuse_now == Reuse::Retry {
                assert_eq!(scope(&next).0, scope(&before).0);
                assert!(scope(&next).1 > scope(&before).1);
            }
            before = next;
        }
    }
}

/// How many answers a ledger has whose file may be damaged, each for its own request; `None` if it
/// is refused.
fn answers_in(path: &Path, answers: u64) -> Option<usize> {
    let run = Run::start(path, "b.csv", Reuse::All)
        .inspect_err(|e| assert_eq!(e.exit().code(), 2))
        .ok()?;
    let all: Vec<_> = (0..answers).collect();
    let keys: Vec<_> = all.iter().map(|request| run.key(*request)).collect();
    let found = run.ledger.lookup().ok()?.look_up(&keys).ok()?;
    let scores = found.iter().map(score);
    let found = all.iter().zip(scores).filter_map(|(request, score)| {
        assert!(score.is_none_or(|score| score == *request), "{request}");
        score
    });
    Some(found.count())
}

#[test]
fn a_file_that_is_damaged_or_cut_is_refused_or_gives_each_request_its_own_answer() {
    const ANSWERS: u64 = 300;
    let directory = tempfile::tempdir().unwrap();
    let (path, copy) = (
        directory.path().join("a.ledger"),
        directory.path().join("b.ledger"),
    );
    let mut run = Run::start(&path, "a.csv", Reuse::All).unwrap();
    for request in 0..ANSWERS {
        run.keep_answers(&[request]);
    }
    run.leave(ANSWERS);
    drop(run);
    let whole = fs::read(&path).unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let answers_of = |bytes: &[u8]| {
        fs::write(&copy, bytes).unwrap();
        let answers = answers_in(&copy, ANSWERS);
        let is_left = fs::read(&copy).unwrap() == bytes;
        assert!(answers.is_some() || is_left, "left as it is");
        fs::remove_file(&copy).unwrap();
        answers
    };
    assert_eq!(answers_of(&whole), Some(300));
    let flipped: Vec<_> = (0..60)
        .map(|_| {
            let mut bytes = whole.clone();
            bytes[random.usize(..whole.len())] ^= 1 << random.u32(..8);
            answers_of(&bytes)
        })
        .collect();
    let kept: Vec<_> = flipped.iter().flatten().collect();
    assert!(kept.iter().all(|it| **it >= 299), "one bit, one answer");
    assert!(!kept.is_empty() && kept.len() < 60 && kept.contains(&&299));
    let lengths = (0..30).map(|_| random.usize(1..whole.len()));
    for length in lengths.chain([100, 4_096, 8_192]) {
        assert_eq!(answers_of(&whole[..length]), None, "{length}");
    }
}

#[test]
fn what_a_start_distrusts_is_gone_for_all_runs_and_what_others_have_stored_stays() {
    for ledger in ledgers() {
        check_distrust(&ledger.path);
    }
}

fn check_distrust(path: &Path) {
    // So many that some are merged.
    const ANSWERS: u64 = 1_500;
    let mut old = Run::start(path, "a.csv", Reuse::All).unwrap();
    for chunk in (0..ANSWERS).collect::<Vec<_>>().chunks(48) {
        old.keep_answers(chunk);
    }
    let (old_failure, new) = (ANSWERS, ANSWERS + 1..ANSWERS + 9);
    old.keep(&[(old_failure, failure())]);
    let mut beside = Run::start(path, "b.csv", Reuse::All).unwrap();
    assert_eq!(score(&beside.look_up(&[1])[0]), Some(1));

    // All have one answer, of which the last is stored while they are distrusted; two requests
    // were answered before.
    let mut fresh = Run::start(path, "c.csv", Reuse::Nothing).unwrap();
    let asked: Vec<_> = [1, ANSWERS - 1].into_iter().chain(new.clone()).collect();
    let mixed_up: Vec<_> = asked
        .iter()
        .map(|request| (*request, answer(9_999)))
        .collect();
    fresh.keep(&mixed_up[1..]);
    let found = beside.look_up(&asked);
    assert!(found[1..].iter().all(|found| score(found) == Some(9_999)));
    fresh.distrust(&asked, &mixed_up[..1]);
    fresh.keep(&[(old_failure, failure())]);
    fresh.distrust(&[old_failure, old_failure + 1], &[]);
    let stored_after = ANSWERS + 20;
    fresh.keep_answers(&[stored_after]);

    let again = Run::start(path, "d.csv", Reuse::All).unwrap();
    for run in [&beside, &again] {
        let found = run.look_up(&asked);
        let scores: Vec<_> = found.iter().map(score).collect();
        assert_eq!(scores[..2], [Some(1), Some(ANSWERS - 1)]);
        assert_eq!(scores[2..], [None; 8]);
        assert!(found.iter().all(|found| found.passed_over.is_none()));
        let kept = run.look_up(&[old_failure, stored_after]);
        assert!(matches!(kept[0].result, Some(KnownResult::Failure(_))));
        assert_eq!(score(&kept[1]), Some(stored_after));
    }
    // They can be asked and answered again.
    let granted = beside.claim(&new.clone().collect::<Vec<_>>());
    assert!(
        granted
            .iter()
            .all(|it| matches!(it, ClaimResult::Granted { .. }))
    );
    beside.keep_answers(&[ANSWERS + 3]);
    assert_eq!(score(&again.look_up(&[ANSWERS + 3])[0]), Some(ANSWERS + 3));
}

#[test]
fn a_new_file_goes_with_a_run_that_does_not_start_unless_another_one_has() {
    let directory = crate::engine::directory();
    let path = directory.path().join("l");
    let open = || OpenLedger::open(&settings(&path, "a.csv", Reuse::All)).unwrap();
    drop(open());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    let refused = open();
    let mut other = Run::start(&path, "b.csv", Reuse::All).unwrap();
    drop(refused);
    other.keep_answers(&[1]);
    assert_eq!(score(&other.look_up(&[1])[0]), Some(1));
}
