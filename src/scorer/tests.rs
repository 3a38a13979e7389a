//! Tests of one row's way: what is sent again and how often, what stops the run, who waits for whom. A scripted
//! service on a paused clock.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use futures::future::{join, join_all};

use super::*;
use tokio::time::Instant;

use crate::pace::{Bounds, GiveUpAfter, Rate};
use crate::service::scripted::{Brings, Made, Scripted, Step};
use crate::telemetry::event::{Hint, Limit};
use crate::telemetry::stats::Stats;

const GOOD: Step = Brings::Verdict.at_once();
const SICK: Step = Brings::Status(500).at_once();
const KEY_REFUSED: Step = Brings::Status(401).at_once();

/// Settings of a scorer as far as these tests vary them.
struct Limits {
    concurrency: usize,
    retries: u32,
    resends: u32,
}

const LIMITS: Limits = Limits {
    concurrency: 1,
    retries: 4,
    resends: 1,
};

fn scorer(limits: &Limits, service: Scripted) -> Scorer<Scripted> {
    Scorer {
        service,
        gate: Gate::new(
            Bounds {
                rate: Rate::Unlimited,
                in_flight: limits.concurrency.try_into().unwrap(),
                known: Limit::NONE,
                outage: Patience::DEFAULT.outage,
            },
            fastrand::Rng::with_seed(7),
        ),
        patience: Patience::DEFAULT,
        retries: RetryPolicy::new(limits.retries, limits.resends),
        outage: Outage::default(),
        fuse: RefCell::new(Fuse::default()),
        calls: CallBudget::new(None),
        failures: FailureBudget::default(),
        keeper: None,
        keys: Keyring::default(),
        transactions: RefCell::default(),
        absent: RefCell::default(),
        policy: DecisionPolicy::default(),
        columns: Box::default(),
        host: "scripted.test".to_owned(),
        events: Events::new(Vec::new()),
    }
}

impl Scorer<Scripted> {
    async fn fate(&self, row: u64) -> Fate {
        let mut number = RowNumber::FIRST;
        while number.get() < row {
            number = number.next();
        }
        match self.gate.permit().await {
            Ok(permit) => self.score(number, Scripted::body(row), None, permit).await,
            Err(Closed) => Fate::LEFT,
        }
    }

    fn stats(&self) -> Stats {
        self.events.with_stats(Clone::clone)
    }

    fn calls(&self, row: u64) -> Vec<Made> {
        let made = self.service.made().into_iter();
        made.filter(|made| made.row == row).collect()
    }
}

impl Fate {
    /// The score's transaction or the failure's reason; `-` for a row that is left. A stop follows after a `!`.
    fn outline(&self) -> String {
        let verdict = match &self.verdict {
            Some(Verdict::Scored(answer, _)) => answer.transaction_id.as_str(),
            Some(Verdict::Failed(failure)) => failure.reason.word(),
            None => "-",
        };
        let stop = self.stop.as_ref().map(|(reason, error)| {
            let (reason, code) = (reason.word(), error.exit().code());
            format!(" ! {reason} {code}")
        });
        verdict.to_owned() + &stop.unwrap_or_default()
    }
}

/// Asserts what becomes of rows 1, 2, 3 … that are scored one after the other.
async fn assert_fates(scorer: &Scorer<Scripted>, expected: &[&str]) {
    let mut fates = Vec::new();
    for row in 1..=expected.len() as u64 {
        fates.push(scorer.fate(row).await.outline());
    }
    assert_eq!(fates, expected);
    assert_eq!(scorer.stats().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn headers_that_say_with_every_answer_that_nothing_is_left_hold_a_run_up_once() {
    let service = Scripted::new(GOOD)
        .with_header("ratelimit-remaining", "0")
        .with_header("ratelimit-reset", "60");
    let (scorer, began) = (scorer(&LIMITS, service), Instant::now());
    for row in 1..=50 {
        assert_eq!(scorer.fate(row).await.outline(), format!("t-{row}"));
    }
    let took = began.elapsed().as_secs();
    assert!((80..=81).contains(&took), "{took} s");
    let pace = scorer.stats().pace.unwrap();
    assert_eq!((pace.headers, pace.rate), (Hint::Disbelieved, None));
}

#[tokio::test(start_paused = true)]
async fn a_service_that_recovers_gives_its_verdict() {
    let scorer = scorer(&LIMITS, Scripted::new(GOOD).row(1, [SICK, SICK]));
    assert_fates(&scorer, &["t-1"]).await;
    assert_eq!(scorer.service.rows(), [1, 1, 1]);
    let stats = scorer.stats();
    assert_eq!((stats.calls, stats.retries, stats.answered), (3, 2, 1));
    assert_eq!((stats.maybe_billed_twice, stats.unknown_outcome), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_row_has_its_retries_and_no_more() {
    let scorer = scorer(&LIMITS, Scripted::new(SICK).row(1, [GOOD]));
    assert_fates(&scorer, &["t-1", "server_error"]).await;
    assert_eq!(scorer.calls(2).len(), 5);
}

#[tokio::test(start_paused = true)]
async fn throttles_use_up_no_attempts() {
    let limits = Limits {
        retries: 0,
        ..LIMITS
    };
    let throttles = [Brings::RetryAfter(503, "5").at_once(); 10];
    let scorer = scorer(&limits, Scripted::new(GOOD).row(1, throttles));
    assert_fates(&scorer, &["t-1"]).await;
    let calls = scorer.calls(1);
    assert_eq!(calls.len(), 11);
    for pair in calls.windows(2) {
        let pause = pair[1].began.saturating_sub(pair[0].began).as_secs_f64();
        assert!((5.0..=5.51).contains(&pause), "{pause}");
    }
    assert_eq!(scorer.stats().throttled, 10);
}

#[tokio::test(start_paused = true)]
async fn a_throttle_pauses_everybody() {
    let limits = Limits {
        concurrency: 8,
        ..LIMITS
    };
    for throttle in [
        Brings::RetryAfter(503, "30"),
        Brings::RetryAfter(429, "30"),
        Brings::RetryAfter(403, "30"),
    ] {
        let service = Scripted::new(GOOD)
            .row(2, [throttle.after(10)])
            .row(3, [SICK]);
        let scorer = scorer(&limits, service);
        scorer.fate(1).await;
        // Row 3 is in back-off when the pause begins, the others have not begun yet.
        let later = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            join_all((4..=9).map(|row| scorer.fate(row))).await
        };
        tokio::join!(scorer.fate(2), scorer.fate(3), later);
        let calls = scorer.service.made();
        assert_eq!(calls.len(), 11);
        for call in &calls[3..] {
            assert!(call.began >= Duration::from_secs(30), "{call:?}");
            // Twice the pause at most: then others go slowly at first.
            assert!(call.began <= Duration::from_secs(60), "{call:?}");
        }
        assert_eq!((scorer.stats().throttled, scorer.stats().retries), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_have_been_billed_is_sent_again_once_at_most() {
    let silence = [Brings::TimedOut.after(30_000); 2];
    let service = || {
        Scripted::new(GOOD)
            .row(2, silence)
            .row(3, [silence[0], SICK])
    };
    let once = scorer(&LIMITS, service());
    assert_fates(&once, &["t-1", "no_answer", "t-3"]).await;
    assert_eq!(once.service.rows(), [1, 2, 2, 3, 3, 3]);
    let stats = once.stats();
    assert_eq!((stats.maybe_billed_twice, stats.unknown_outcome), (2, 3));

    let limits = Limits {
        resends: 0,
        ..LIMITS
    };
    let never = scorer(&limits, service());
    assert_fates(&never, &["t-1", "no_answer", "no_answer", "t-4"]).await;
    assert_eq!(never.service.rows(), [1, 2, 3, 4]);
    let stats = never.stats();
    assert_eq!((stats.maybe_billed_twice, stats.unknown_outcome), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn a_paid_answer_without_a_verdict_is_never_asked_for_again() {
    let useless = Brings::Useless.at_once();
    let amid = scorer(&LIMITS, Scripted::new(useless).row(1, [GOOD]));
    assert_fates(&amid, &[&["t-1"], ["bad_answer"; 5].as_slice()].concat()).await;
    assert_eq!(amid.service.rows(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(amid.stats().billed_without_verdict, 5);

    let start = scorer(&LIMITS, Scripted::new(useless));
    let expected = ["bad_answer", "bad_answer", "bad_answer ! no_verdicts 3"];
    assert_fates(&start, &expected).await;
    assert_eq!(start.service.rows(), [1, 2, 3]);

    let page = scorer(&LIMITS, Scripted::new(Brings::Page.at_once()));
    assert_fates(&page, &["bad_answer ! no_verdicts 3"]).await;

    let later = scorer(&LIMITS, Scripted::new(useless).row(1, [GOOD]));
    let fates = until_stopped(&later).await;
    assert_eq!(fates.len(), 1 + 20, "they are all paid for");
    assert_eq!(fates[20].outline(), "bad_answer ! no_verdicts 3");
}

#[tokio::test(start_paused = true)]
async fn a_refused_key_stops_the_run() {
    let refused = [Brings::Status(401).at_once()];
    let scorer = scorer(&LIMITS, Scripted::new(GOOD).row(1, refused).row(3, refused));
    assert_fates(&scorer, &["- ! refused 4", "t-2", "- ! refused 4"]).await;
    assert_eq!(scorer.service.rows(), [1, 2, 3]);
}

/// How often somebody looked for a new key, and how many were found and told.
fn keys(scorer: &Scorer<Scripted>) -> (usize, u64) {
    (scorer.service.looks(), scorer.stats().keys_renewed)
}

#[tokio::test(start_paused = true)]
async fn a_key_that_was_never_good_is_not_looked_for_again() {
    let service = Scripted::new(KEY_REFUSED).row(1, [Brings::Status(422).at_once()]);
    let scorer = scorer(&LIMITS, service.renewals([Renewal::Renewed]));
    assert_fates(&scorer, &["refused", "- ! refused 4"]).await;
    assert_eq!((scorer.service.rows().len(), keys(&scorer)), (2, (0, 0)));
}

#[tokio::test(start_paused = true)]
async fn a_rotated_key_is_renewed_and_uses_up_no_attempt() {
    let limits = Limits {
        retries: 0,
        ..LIMITS
    };
    let service = Scripted::new(GOOD).row(2, [KEY_REFUSED]);
    let scorer = scorer(&limits, service.renewals([Renewal::Renewed]));
    assert_fates(&scorer, &["t-1", "t-2", "t-3"]).await;
    let calls: Vec<_> = scorer
        .service
        .made()
        .iter()
        .map(|m| (m.row, m.key))
        .collect();
    assert_eq!(calls, [(1, 0), (2, 0), (2, 1), (3, 1)]);
    assert_eq!(keys(&scorer), (1, 1));
    let stats = scorer.stats();
    assert_eq!((stats.calls, stats.retries, stats.answered), (4, 0, 3));
    assert_eq!(stats.billed_without_verdict + stats.unknown_outcome, 0);
}

#[tokio::test(start_paused = true)]
async fn of_the_calls_in_flight_with_the_old_key_one_looks_and_all_go_on() {
    let limits = Limits {
        concurrency: 8,
        ..LIMITS
    };
    // Row 9 meets the 401 long after the others, when the new key has brought verdicts.
    let service = (2..=8).fold(Scripted::new(GOOD), |service, row| {
        service.row(row, [Brings::Status(401).after(10)])
    });
    let service = service.row(9, [Brings::Status(401).after(5_000)]);
    let scorer = scorer(&limits, service.renewals([Renewal::Renewed]));
    scorer.fate(1).await;
    let fates = join_all((2..=9).map(|row| scorer.fate(row))).await;
    for (row, fate) in (2..).zip(&fates) {
        assert_eq!(fate.outline(), format!("t-{row}"));
    }
    assert_eq!((keys(&scorer), scorer.stats().in_flight), ((1, 1), 0));
    for row in 2..=9 {
        let keys: Vec<_> = scorer.calls(row).iter().map(|made| made.key).collect();
        assert_eq!(keys, [0, 1], "row {row}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_stayed_stops_the_run_and_is_looked_for_once() {
    let limits = Limits {
        concurrency: 4,
        ..LIMITS
    };
    for renewal in [Renewal::Fixed, Renewal::Kept("it is the same".to_owned())] {
        let service = Scripted::new(KEY_REFUSED).row(1, [GOOD]);
        let scorer = scorer(
            &limits,
            service.renewals([renewal.clone(), Renewal::Renewed]),
        );
        scorer.fate(1).await;
        let fates = join_all((2..=5).map(|row| scorer.fate(row))).await;
        let outlines: Vec<_> = fates.iter().map(Fate::outline).collect();
        assert_eq!(outlines, ["- ! refused 4"; 4]);
        assert_eq!((scorer.service.rows().len(), keys(&scorer)), (5, (1, 0)));
        let report = fates[0].stop.as_ref().unwrap().1.report();
        assert_eq!(
            report.contains("it is the same"),
            renewal != Renewal::Fixed,
            "{report}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_key_must_bring_a_verdict_before_another_is_looked_for() {
    let limits = Limits {
        concurrency: 4,
        ..LIMITS
    };
    // A verdict that was asked for with the old key comes late: it says nothing of the new one.
    let service = Scripted::new(KEY_REFUSED)
        .row(1, [GOOD])
        .row(2, [Brings::Verdict.after(5)])
        .row(3, [1, 10].map(|after| Brings::Status(401).after(after)))
        .row(4, [1, 10].map(|after| Brings::Status(401).after(after)));
    let scorer = scorer(
        &limits,
        service.renewals([Renewal::Renewed, Renewal::Renewed]),
    );
    scorer.fate(1).await;
    let fates = join_all((2..=4).map(|row| scorer.fate(row))).await;
    let outlines: Vec<_> = fates.iter().map(Fate::outline).collect();
    assert_eq!(outlines, ["t-2", "- ! refused 4", "- ! refused 4"]);
    assert_eq!((scorer.service.rows().len(), keys(&scorer)), (6, (1, 1)));
    let report = fates[1].stop.as_ref().unwrap().1.report();
    assert!(
        report.contains("the new one is refused as well"),
        "{report}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_of_days_meets_several_rotations() {
    let rows = (2..=9).step_by(2);
    let service = rows.fold(Scripted::new(GOOD), |service, row| {
        service.row(row, [KEY_REFUSED])
    });
    let scorer = scorer(&LIMITS, service.renewals([const { Renewal::Renewed }; 4]));
    assert_fates(
        &scorer,
        &[
            "t-1", "t-2", "t-3", "t-4", "t-5", "t-6", "t-7", "t-8", "t-9",
        ],
    )
    .await;
    assert_eq!(keys(&scorer), (4, 4));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_stopping_looks_for_no_key() {
    let service = Scripted::new(GOOD).row(2, [Brings::Status(401).after(500)]);
    let scorer = scorer(&LIMITS, service.renewals([Renewal::Renewed]));
    scorer.fate(1).await;
    let close = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        scorer.gate.close();
    };
    let (fate, ()) = join(scorer.fate(2), close).await;
    assert!(fate.verdict.is_none());
    assert_eq!((scorer.service.rows().len(), keys(&scorer)), (2, (0, 0)));
}

#[tokio::test(start_paused = true)]
async fn one_answer_for_different_users_is_told_and_each_is_counted() {
    let cached = [Brings::VerdictOf(2).at_once()];
    let service = Scripted::new(GOOD).row(4, cached).row(5, cached);
    let scorer = scorer(&LIMITS, service);
    assert_fates(&scorer, &["t-1", "t-2", "t-3", "t-2", "t-2", "t-6"]).await;
    assert_eq!(scorer.stats().repeated_transactions, 2);
    assert_eq!(scorer.stats().answered, 6);
}

#[tokio::test(start_paused = true)]
async fn the_same_answer_for_the_same_user_is_nothing_to_tell() {
    let scorer = scorer(&LIMITS, Scripted::new(GOOD));
    scorer.fate(1).await;
    let permit = scorer.gate.permit().await.unwrap();
    let second = RowNumber::FIRST.next();
    let fate = scorer.score(second, Scripted::body(1), None, permit).await;
    assert_eq!(fate.outline(), "t-1");
    assert_eq!(scorer.stats().repeated_transactions, 0);
}

#[tokio::test(start_paused = true)]
async fn a_bare_403_stops_the_start_and_three_in_a_row() {
    let forbidden = Brings::Status(403).at_once();
    let start = scorer(&LIMITS, Scripted::new(forbidden));
    assert_fates(&start, &["- ! refused 4"]).await;

    let service = Scripted::new(forbidden)
        .row(1, [GOOD])
        .row(3, [GOOD])
        .row(6, [Brings::Status(422).at_once()]);
    let amid = scorer(&LIMITS, service);
    let expected = [
        "t-1",
        "forbidden",
        "t-3",
        "forbidden",
        "forbidden",
        "refused",
        "forbidden",
        "forbidden",
        "- ! refused 4",
    ];
    assert_fates(&amid, &expected).await;
    assert_eq!(amid.service.made().len(), expected.len(), "none again");
}

#[tokio::test(start_paused = true)]
async fn the_rows_own_fault_is_never_sent_again_and_stops_only_the_start() {
    let refusing = Scripted::new(Brings::Status(422).at_once()).row(1, [GOOD]);
    let amid = scorer(&LIMITS, refusing);
    assert_fates(&amid, &[&["t-1"], ["refused"; 90].as_slice()].concat()).await;
    assert_eq!(amid.service.made().len(), 91);

    let start = scorer(&LIMITS, Scripted::new(Brings::Status(422).at_once()));
    let expected = ["refused", "refused", "refused ! no_verdicts 3"];
    assert_fates(&start, &expected).await;
    let never = Scorer {
        fuse: RefCell::new(Fuse::new(GiveUpAfter::Never)),
        ..scorer(&LIMITS, Scripted::new(Brings::Status(422).at_once()))
    };
    assert_fates(&never, &["refused"; 90]).await;
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_gone_stops_the_run() {
    let nowhere = Scripted::new(Brings::HostNotFound.at_once());
    let nowhere = scorer(&LIMITS, nowhere);
    assert_fates(&nowhere, &["- ! unavailable 3"]).await;
    assert_eq!(nowhere.service.made().len(), 1, "a wrong address costs one");

    let sick = scorer(&LIMITS, Scripted::new(SICK));
    assert_fates(&sick, &["- ! unavailable 3"]).await;
    assert_eq!(sick.service.made().len(), 5);
}

/// Scores rows until the run stops; what became of them.
async fn until_stopped(scorer: &Scorer<Scripted>) -> Vec<Fate> {
    let mut fates = Vec::new();
    for row in 1.. {
        fates.push(scorer.fate(row).await);
        if fates.last().unwrap().stop.is_some() {
            break;
        }
    }
    fates
}

#[tokio::test(start_paused = true)]
async fn a_service_that_stays_away_is_tried_now_and_then_and_stops_the_run() {
    // Ten that show it. A service that answers, with failures alone, is in the pipeline's tests: it takes several rows at once.
    for (trouble, calls, lost) in [
        (Brings::Status(503).at_once(), 10, 2),
        (Brings::HostNotFound.at_once(), 10, 2),
    ] {
        let began = Instant::now();
        let scorer = scorer(&LIMITS, Scripted::new(trouble).row(1, [GOOD]));
        let fates = until_stopped(&scorer).await;
        assert_eq!(fates.last().unwrap().outline(), "- ! unavailable 3");
        let outage = began.elapsed().as_secs();
        assert!((900..1_000).contains(&outage), "{outage} s");
        // Then at 5, 10, 20, 40 and every 60 seconds.
        assert_eq!(scorer.service.made().len(), 1 + calls + 18);
        assert_eq!(fates.len() - 2, lost, "rows that were given up");
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_comes_back_costs_no_row_anything() {
    let away = [Brings::Status(503).at_once(); 6];
    let limits = Limits {
        retries: 8,
        ..LIMITS
    };
    let service = (2..=5).fold(Scripted::new(GOOD), |service, row| service.row(row, away));
    let scorer = scorer(&limits, service);
    scorer.fate(1).await;
    let fates = join_all((2..=5).map(|row| scorer.fate(row))).await;
    assert!(fates.iter().all(|fate| fate.outline().starts_with("t-")));
    for row in 6..=8 {
        scorer.fate(row).await;
    }
    let stats = scorer.stats();
    assert_eq!((stats.outages, stats.outage), (1, None));
    assert!(
        stats.down >= Duration::from_secs(5 + 10),
        "{:?}",
        stats.down
    );
}

#[tokio::test(start_paused = true)]
async fn a_pause_too_long_to_sit_out_stops_the_run() {
    let began = Instant::now();
    for wait in ["901", "1000000000000", "99999999999999999999999"] {
        let service = Scripted::new(GOOD).row(2, [Brings::RetryAfter(429, wait).at_once()]);
        let scorer = scorer(&LIMITS, service);
        assert_fates(&scorer, &["t-1", "- ! unavailable 3"]).await;
        assert_eq!(scorer.service.rows(), [1, 2]);
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    let longest = [Brings::RetryAfter(429, "900").at_once()];
    let scorer = scorer(&LIMITS, Scripted::new(GOOD).row(1, longest));
    assert_fates(&scorer, &["t-1"]).await;
    assert!(began.elapsed() >= Duration::from_secs(900));
}

#[tokio::test(start_paused = true)]
async fn no_permit_is_held_in_a_back_off() {
    let scorer = scorer(&LIMITS, Scripted::new(GOOD).row(2, [SICK]));
    scorer.fate(1).await;
    let (second, third) = join(scorer.fate(2), scorer.fate(3)).await;
    assert_eq!([second.outline(), third.outline()], ["t-2", "t-3"]);
    assert_eq!(scorer.service.rows(), [1, 2, 3, 2]);
    assert_eq!(scorer.calls(3)[0].began, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_row_that_is_refused_while_others_are_accepted_ends_alone() {
    let limits = Limits {
        concurrency: 8,
        ..LIMITS
    };
    for refusal in [Brings::Status(429), Brings::RetryAfter(429, "1")] {
        let service = Scripted::new(GOOD).row(30, [refusal.at_once(); 50]);
        let scorer = scorer(&limits, service);
        scorer.fate(1).await;
        let fates = join_all((2..=200).map(|row| scorer.fate(row))).await;
        for (row, fate) in (2..).zip(&fates) {
            let expected = if row == 30 {
                "throttled".to_owned()
            } else {
                format!("t-{row}")
            };
            assert_eq!(fate.outline(), expected);
        }
        let calls = scorer.calls(30).len();
        assert!((6..=8).contains(&calls), "{calls}");
        assert_eq!(scorer.gate.limit(), Limit::NONE);
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_only_refuses_stops_the_run_after_a_quarter_of_an_hour() {
    for (refusal, most) in [
        (Brings::RetryAfter(429, "60"), 17),
        // At no rate of our own each row backs off by itself: 15 s on average.
        (Brings::Status(429), 90),
    ] {
        let began = Instant::now();
        let scorer = scorer(&LIMITS, Scripted::new(refusal.at_once()).row(1, [GOOD]));
        assert_eq!(scorer.fate(1).await.outline(), "t-1");
        assert_eq!(scorer.fate(2).await.outline(), "- ! unavailable 3");
        let minutes = began.elapsed().as_secs() / 60;
        assert!((15..=17).contains(&minutes), "{minutes}");
        assert!(scorer.calls(2).len() <= most, "{}", scorer.calls(2).len());
    }
}

#[tokio::test(start_paused = true)]
async fn a_closed_gate_leaves_waiting_rows_at_once() {
    let began = Instant::now();
    for first in [SICK, Brings::RetryAfter(429, "60").at_once()] {
        let scorer = scorer(&LIMITS, Scripted::new(GOOD).row(1, [first]));
        let close = async {
            while scorer.stats().calls == 0 || scorer.stats().in_flight > 0 {
                tokio::task::yield_now().await;
            }
            scorer.gate.close();
        };
        let (fate, ()) = join(scorer.fate(1), close).await;
        assert_eq!(fate.outline(), "-");
        assert_eq!(scorer.fate(2).await.outline(), "-");
        assert_eq!(scorer.service.rows(), [1]);
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_out_when_the_gate_closes_keeps_its_verdict() {
    let scorer = scorer(&LIMITS, Scripted::new(Brings::Verdict.after(500)));
    let close = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        scorer.gate.close();
    };
    let (fate, ()) = join(scorer.fate(1), close).await;
    assert_eq!(fate.outline(), "t-1");
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_call_counts_as_perhaps_billed() {
    let scorer = scorer(&LIMITS, Scripted::new(Brings::Stall.at_once()));
    let fate = tokio::time::timeout(Duration::from_secs(9), scorer.fate(1)).await;
    assert!(fate.is_err());
    let stats = scorer.stats();
    assert_eq!((stats.in_flight, stats.unknown_outcome), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn the_runs_budget_ends_retries() {
    // One row in four is sick, each tried twice: not enough for the service to seem down.
    let limits = Limits {
        retries: 1,
        ..LIMITS
    };
    let sick = (2..=400).step_by(4);
    let service = sick.clone().fold(Scripted::new(GOOD), |service, row| {
        service.row(row, [SICK; 2])
    });
    let scorer = scorer(&limits, service);
    for row in 1..=400 {
        scorer.fate(row).await;
    }
    let tried_again = sick.filter(|row| scorer.calls(*row).len() == 2).count();
    // 50 in store, and a tenth of 300 successes, but for the last rows'.
    assert!((78..=80).contains(&tried_again), "{tried_again}");
}
