//! The controller against services as they may be, in virtual time: no sockets, no waiting.
//!
//! `cargo test --release --lib simulator::table -- --ignored --nocapture` prints the table; [`table::Settings`] says how
//! to have less of it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::similar_names,
    clippy::too_many_lines,
    reason = "what it simulates is small, and a simulation that breaks must end"
)]

mod baselines;
mod cases;
mod demands;
mod hidden;
mod host;
mod limit_req;
mod models;
mod ours;
mod pacers;
mod rows;
mod short;
mod table;
mod world;
mod wrapped;

use crate::telemetry::event::Limit;
use baselines::{Aimd, FixedRate};
use cases::{Case, changing, steady, troubled, uneven};
use demands::demands;
use ours::{ours, ours_near};
use pacers::Pacer;
use world::{Plan, Seen, simulate};

impl Case {
    fn run(&self, pacer: impl Fn() -> Box<dyn Pacer>, seed: u64) -> Seen {
        let mut pacers: Vec<_> = (0..self.programs).map(|_| pacer()).collect();
        let plan = Plan {
            seconds: self.minutes * 60,
            seed,
            noisy: self.noisy,
            rows: self.rows.map_or(0, |(rows, _)| rows),
        };
        simulate(&mut pacers, &mut *(self.model)(), plan)
    }

    /// In at most so many minutes, with at most so many calls in flight.
    fn within(mut self, minutes: usize, ceiling: usize) -> Self {
        // What changes must be over.
        let least = self.change.as_ref().map_or(0, |change| change.to / 60 + 10);
        self.minutes = self.minutes.min(minutes.max(least));
        self.search = self.search.min(self.minutes * 60 / 2);
        self.ceiling = self.ceiling.min(ceiling);
        self
    }

    fn share_of(&self, seen: &Seen) -> f64 {
        seen.share(self.search, self.minutes * 60)
    }

    /// The mean time of a call that waits for no other, if calls do.
    fn unloaded(&self) -> Option<f64> {
        (self.model)().unloaded()
    }

    fn shown(&self, seen: &Seen) -> String {
        let seconds = |found: Option<usize>| {
            found.map_or("never".to_owned(), |seconds| format!("{seconds} s"))
        };
        let recovery = self
            .change
            .as_ref()
            .map(|change| format!(" {}", seconds(seen.recovery(change.to))))
            .unwrap_or_default();
        format!(
            "{:.1} % {} {} {}{recovery}",
            self.share_of(seen) * 100.0,
            seen.refused,
            seen.most_in_flight,
            seconds(seen.recovery(0)),
        )
    }

    /// What was expected and not seen.
    fn missed(&self, seen: &Seen) -> Option<String> {
        let mut missed = Vec::new();
        let mut expect = |holds: bool, what: String| {
            if !holds {
                missed.push(what);
            }
        };
        let share = self.share_of(seen);
        expect(
            share >= self.share,
            format!("share {share:.3} < {}", self.share),
        );
        // Growing too far is refused as often as calls are out.
        let grown = if self.refused == 0 {
            0
        } else {
            seen.at_first_refusal as u32
        };
        let most = self.refused.saturating_mul(self.programs as u32).max(grown);
        expect(
            seen.refused <= most,
            format!("refused {} > {most}", seen.refused),
        );
        let of_calls = seen.refused_share();
        expect(
            of_calls <= self.refused_share,
            format!("refused {of_calls:.3} of calls"),
        );
        let at_first = seen.share(0, 75.min(self.minutes * 60));
        expect(
            at_first >= self.at_first,
            format!("share of the first 75 s {at_first:.3} < {}", self.at_first),
        );
        let worst = seen.worst_minute();
        expect(
            worst >= self.each_minute,
            format!("worst minute {worst:.3} < {}", self.each_minute),
        );
        if let Some(alone) = self.unloaded() {
            let times = seen.mean_latency(self.search) / alone;
            expect(times <= self.latency, format!("latency times {times:.2}"));
        }
        if let Some((rows, seconds)) = self.rows {
            let after = seen.rows_after.map(|after| after.as_secs_f64());
            expect(
                after.is_some_and(|after| after <= seconds),
                format!("{rows} rows after {after:.1?} s, not {seconds}"),
            );
        }
        if let Some(change) = &self.change {
            let share = seen.share(change.from, change.to);
            expect(
                share.is_nan() || share >= change.share,
                format!("share {share:.3} < {} while changed", change.share),
            );
            let recovery = seen.recovery(change.to);
            expect(
                recovery.is_some_and(|seconds| seconds <= change.recovery),
                format!("recovery {recovery:?}"),
            );
        }
        (!missed.is_empty()).then(|| missed.join(", "))
    }
}

/// All of them.
fn all() -> Vec<Case> {
    [steady(), changing(), troubled(), uneven(), demands()].concat()
}

/// Prints the table of all services.
pub(crate) fn print_table() {
    let mut cases = all();
    if std::env::var_os("SIM_HIDDEN").is_some() {
        cases.extend(hidden::hidden());
    }
    table::print(cases, &table::Settings::read());
}

#[test]
#[ignore = "takes minutes; `cargo test --release --lib simulator::table -- --ignored --nocapture`"]
fn table_of_all_services() {
    print_table();
}

#[test]
fn limits_are_found_kept_to_and_hardly_ever_passed() {
    let mut runs = Vec::new();
    for case in all().into_iter().filter(|case| case.quick > 0) {
        let quick = case.quick;
        // What takes long without optimisation is tried once.
        let seeds = if quick == usize::MAX { 2 } else { 1 };
        let case = short::as_reached(case.within(quick, usize::MAX));
        runs.extend((1..=seeds).map(|seed| (case.clone(), seed)));
    }
    let missed = std::sync::Mutex::new(Vec::new());
    // Side by side, as hours of a fast service take a while.
    table::for_each(runs.len(), |place| {
        let (case, seed) = &runs[place];
        let seen = case.run(|| ours(case.ceiling), *seed);
        if let Some(what) = case.missed(&seen) {
            let what = format!("{}, seed {seed}: {what}", case.name);
            missed.lock().unwrap().push(what);
        }
    });
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn who_knows_what_an_earlier_run_found_is_refused_less() {
    const SECONDS: usize = 180;
    println!("refused, full speed after: the first run | the next one, which knows");
    let mut found = 0;
    for case in steady().iter().filter(|case| case.programs == 1) {
        let (mut at_first, mut then_refused) = (0, 0);
        for seed in 1..=3 {
            let night = |known| {
                let mut pacers = [ours_near(case.ceiling, known)];
                let plan = Plan {
                    seconds: SECONDS,
                    seed,
                    noisy: case.noisy,
                    rows: 0,
                };
                let seen = simulate(&mut pacers, &mut *(case.model)(), plan);
                (seen, pacers[0].limit())
            };
            let (first, known) = night(Limit::NONE);
            let (then, _) = night(known);
            let shown = |seen: &Seen| (seen.refused, seen.recovery(0));
            println!(
                "{}, seed {seed}: {:?} | {:?} | {known:?}",
                case.name,
                shown(&first),
                shown(&then)
            );
            // Some services have no limit of their own.
            if known != Limit::NONE {
                at_first += first.refused;
                then_refused += then.refused;
                found += 1;
            }
        }
        let what = format!("{}: {at_first}, then {then_refused}", case.name);
        assert!(then_refused <= at_first, "{what}");
    }
    assert!(found > 20);
}

#[test]
fn a_guessed_rate_and_concurrency_alone_do_worse() {
    println!("ours | 50/s guessed, 16 in flight | AIMD on concurrency");
    for case in steady().iter().chain(&changing()) {
        let own = case.run(|| ours(case.ceiling), 1);
        let fixed = case.run(|| FixedRate::boxed(50.0, 16), 1);
        let aimd = case.run(|| Aimd::boxed(case.ceiling), 1);
        println!(
            "{} | {} | {} | {}",
            case.name,
            case.shown(&own),
            case.shown(&fixed),
            case.shown(&aimd)
        );
        let worse = |other: &Seen| {
            other.refused > 2 * own.refused
                || case.share_of(other) < case.share_of(&own) - 0.05
                || other.most_in_flight > own.most_in_flight
        };
        // A service without a limit of its own cannot tell them apart.
        let is_unlimited = case.refused == 0 || case.name.starts_with("slow");
        // Who grows fast has many in flight when a long window is used up, once.
        let even = is_unlimited || case.name.starts_with("1,200 in 60 s");
        assert!(even || worse(&fixed) && worse(&aimd), "{}", case.name);
    }
}
