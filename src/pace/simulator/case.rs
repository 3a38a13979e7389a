//! A service that is tried, what is expected of the controller, and what was missed.

use std::sync::Arc;

use super::models::Model;
use super::pacers::Pacer;
use super::world::{Plan, Seen, simulate};

/// A service to try, and what is expected.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) model: Arc<dyn Fn() -> Box<dyn Model> + Send + Sync>,
    pub(super) programs: usize,
    /// The most calls in flight of each program.
    pub(super) ceiling: usize,
    /// Whether the programs stall now and then.
    pub(super) noisy: bool,
    pub(super) minutes: usize,
    /// Minutes in the everyday tests; with 0 they leave this case out.
    pub(super) quick: usize,
    /// Seconds of the search, before shares count.
    pub(super) search: usize,
    /// The least share of the allowed calls, after the search.
    pub(super) share: f64,
    /// The most refused calls of each program, or as many as were in flight at the first refusal.
    pub(super) refused: u32,
    /// The most refused, as a share of all calls.
    pub(super) refused_share: f64,
    /// The least share of the allowed calls in the first 75 s.
    pub(super) at_first: f64,
    /// The least share of the allowed calls in each minute after the first.
    pub(super) each_minute: f64,
    /// The most mean time of a call, as a multiple of what it takes alone, if calls wait for each other.
    pub(super) latency: f64,
    /// The number of rows that have answers after this many seconds.
    pub(super) rows: Option<(u64, f64)>,
    /// A time for which the service changes.
    pub(super) change: Option<Disturbance>,
}

/// A time for which a service changes: the least share in it, and the most seconds to recover from it.
#[derive(Clone)]
pub(super) struct Disturbance {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) share: f64,
    pub(super) recovery: usize,
}

/// The default ceiling of calls in flight.
pub(super) const IN_FLIGHT: usize = 512;

pub(super) fn case(
    name: impl Into<String>,
    model: impl Fn() -> Box<dyn Model> + Send + Sync + 'static,
) -> Case {
    Case {
        name: name.into(),
        model: Arc::new(model),
        programs: 1,
        ceiling: IN_FLIGHT,
        noisy: false,
        minutes: 30,
        quick: usize::MAX,
        search: 240,
        share: 0.94,
        refused: 30,
        refused_share: 1.0,
        at_first: 0.0,
        each_minute: 0.0,
        latency: f64::INFINITY,
        rows: None,
        change: None,
    }
}

impl Case {
    pub(super) fn run(&self, pacer: impl Fn() -> Box<dyn Pacer>, seed: u64) -> Seen {
        let mut pacers: Vec<_> = (0..self.programs).map(|_| pacer()).collect();
        let plan = Plan {
            seconds: self.minutes * 60,
            seed,
            noisy: self.noisy,
            rows: self.rows.map_or(0, |(rows, _)| rows),
        };
        simulate(&mut pacers, &mut *(self.model)(), plan)
    }

    /// The same with at most this many minutes and calls in flight.
    pub(super) fn within(mut self, minutes: usize, ceiling: usize) -> Self {
        // The change must be over.
        let least = self.change.as_ref().map_or(0, |change| change.to / 60 + 10);
        self.minutes = self.minutes.min(minutes.max(least));
        self.search = self.search.min(self.minutes * 60 / 2);
        self.ceiling = self.ceiling.min(ceiling);
        self
    }

    pub(super) fn share_of(&self, seen: &Seen) -> f64 {
        seen.share(self.search, self.minutes * 60)
    }

    /// The mean time of a call that waits for no other, if calls wait for each other.
    pub(super) fn unloaded(&self) -> Option<f64> {
        (self.model)().unloaded()
    }

    pub(super) fn shown(&self, seen: &Seen) -> String {
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

    /// The expectations that were missed, if any.
    pub(super) fn missed(&self, seen: &Seen) -> Option<String> {
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
        // Growing too far costs as many refusals as there are calls in flight.
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
