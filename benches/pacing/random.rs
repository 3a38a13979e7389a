//! Services that refuse some first tries at random, whatever the pace; a second try is accepted.
//!
//! Several of them run at a time, so that all is done in minutes; what is possible is measured with as many.

use std::ops::Range;
use std::time::Duration;

use crate::behaviour::{Behaviour, Refusal, Refuses};
use crate::counts::Counts;
use crate::program::{Done, Program, all_done};
use crate::server::Server;
use crate::table::Line;

const LATENCY: Duration = Duration::from_millis(20);
/// More than can be asked in the time of a run, or nearly so.
const ROWS: u32 = 400_000;
/// Seconds of a run that shows what is possible.
const POSSIBLE: Range<usize> = 2..7;
/// The pace must have been found after a minute; the next 20 seconds are measured.
const FOUND: usize = 60;
const MEASURED: usize = 20;
/// With `--rate unlimited` nothing has to be found.
const NOTHING_TO_FIND: usize = 10;
/// The worst stretch is looked for from here on, and once more from when the pace must have been found; it is so long.
const STARTED: usize = 10;
const STRETCH: usize = 10;
/// Seconds that all is quiet after a refusal whose pause is kept: the second that is asked for, and one call that goes
/// first. The same as in the simulator.
const QUIET: f64 = 1.1;

const UNLIMITED: &[&str] = &["--rate", "unlimited"];

const AIM: &str = "≥ 0.5, never < 0.1";

/// What is run.
struct Runs {
    /// One run for each share that is refused.
    shares: &'static [f64],
    refusal: Refusal,
    options: &'static [&'static str],
    /// The second from which on they are measured.
    from: usize,
}

pub(crate) fn retry_after_1(program: &Program) {
    Runs::found(&[0.03, 0.0625, 0.1, 0.25], busy(1)).measure(program);
}

pub(crate) fn retry_after_0_low(program: &Program) {
    Runs::found(&[0.03, 0.0625], busy(0)).measure(program);
}

pub(crate) fn retry_after_0_high(program: &Program) {
    Runs::found(&[0.1, 0.25], busy(0)).measure(program);
}

pub(crate) fn no_hint_low(program: &Program) {
    Runs::found(&[0.03, 0.0625], Refusal::NO_HINT).measure(program);
}

pub(crate) fn no_hint_high(program: &Program) {
    Runs::found(&[0.1, 0.25], Refusal::NO_HINT).measure(program);
}

pub(crate) fn unlimited(program: &Program) {
    for refusal in [busy(1), Refusal::NO_HINT] {
        let runs = Runs {
            options: UNLIMITED,
            from: NOTHING_TO_FIND,
            ..Runs::found(&[0.0625], refusal)
        };
        runs.measure(program);
    }
}

const fn busy(seconds: u32) -> Refusal {
    Refusal {
        status: 503,
        retry_after: Some(seconds),
    }
}

impl Runs {
    /// Runs that find the pace by themselves.
    const fn found(shares: &'static [f64], refusal: Refusal) -> Self {
        Self {
            shares,
            refusal,
            options: &[],
            from: FOUND,
        }
    }

    fn measure(&self, program: &Program) {
        let unpaced = unpaced(program, self.shares.len());
        let input = program.users(ROWS);
        let start = |share: &f64| {
            let server = Server::start(Behaviour {
                refuses: Refuses::Share(*share),
                refusal: self.refusal,
                ..Behaviour::accepting(LATENCY)
            });
            let run = program.start(&input, &server.url, self.options);
            (server, run)
        };
        let (servers, runs): (Vec<_>, Vec<_>) = self.shares.iter().map(start).unzip();
        let time = Duration::from_secs((self.from + MEASURED + 1) as u64);
        let done = all_done(runs, time);
        for ((share, server), done) in self.shares.iter().zip(servers).zip(done) {
            let possible = possible(unpaced, *share, self.refusal);
            self.line(*share, possible, &server.counts(), &done);
        }
    }

    fn line(&self, share: f64, possible: f64, counts: &Counts, done: &Done) {
        // A run that was done sooner is measured in its last seconds.
        let end = if done.interrupted {
            self.from + MEASURED
        } else {
            usize::try_from(done.time.as_secs()).unwrap()
        };
        let rate = counts.rate(end.saturating_sub(MEASURED)..end);
        let worst = |from| match counts.worst(STRETCH, from..end) {
            Some((second, worst)) => {
                let share = worst / possible;
                format!("worst 10 s from second {from}: {worst:.1}/s = {share:.3}, at {second}")
            }
            None => format!("no 10 s from second {from}"),
        };
        let mut seconds = vec![STARTED, self.from];
        seconds.dedup();
        let worst = seconds
            .into_iter()
            .map(worst)
            .collect::<Vec<_>>()
            .join("; ");
        let (percent, refused) = (share * 100.0, words(self.refusal));
        let options: String = self
            .options
            .iter()
            .map(|option| format!(" {option}"))
            .collect();
        Line {
            service: &format!("{percent} % of first tries refused, {refused}{options}"),
            rows: ROWS,
            seen: format!("{rate:.1}/s"),
            share: Some(rate / possible),
            refusals: counts.refusals(),
            aim: AIM,
            more: format!("possible {possible:.1}/s; {worst}; {}", done.ending()),
        }
        .print();
    }
}

/// What one run gets of so many at a time that are not paced, from a service that accepts everything.
fn unpaced(program: &Program, runs: usize) -> f64 {
    let input = program.users(ROWS);
    let start = |_| {
        let server = Server::start(Behaviour::accepting(LATENCY));
        let run = program.start(&input, &server.url, UNLIMITED);
        (server, run)
    };
    let (servers, runs): (Vec<_>, Vec<_>) = (0..runs).map(start).unzip();
    all_done(runs, Duration::from_secs(POSSIBLE.end as u64 + 1));
    let rates = servers.iter().map(|server| server.counts().rate(POSSIBLE));
    rates.sum::<f64>() / f64::from(u32::try_from(servers.len()).unwrap())
}

/// What pausing as asked allows; where no pause is asked for, each refusal costs one call more.
fn possible(unpaced: f64, share: f64, refusal: Refusal) -> f64 {
    match refusal.retry_after {
        Some(1..) => 1.0 / (1.0 / unpaced + share * QUIET),
        Some(0) | None => unpaced / (1.0 + share),
    }
}

fn words(refusal: Refusal) -> String {
    let hint = refusal.retry_after.map_or("no hint".to_owned(), |seconds| {
        format!("Retry-After {seconds}")
    });
    format!("{}, {hint}", refusal.status)
}
