//! How long answers took: quantiles of a run of any length in a few kilobytes.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Latencies above an hour are counted as an hour: no timeout is that long.
const HIGHEST_MICROS: u64 = 3_600_000_000;

/// The latency of every answered call, in microseconds.
#[derive(Debug, Clone)]
pub(super) struct Latencies(Option<Histogram<u32>>);

/// How many answers took how long.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LatencyCounts {
    /// For each bound, the answers that took no longer.
    pub(crate) up_to: Vec<u64>,
    /// All answers.
    pub(crate) count: u64,
    /// The time of all answers together, exact to two significant figures of each.
    pub(crate) sum: Duration,
}

impl Default for Latencies {
    fn default() -> Self {
        // Two significant figures are what a person reads; three would cost 16 times the memory.
        Self(Histogram::new_with_bounds(1, HIGHEST_MICROS, 2).ok())
    }
}

impl Latencies {
    /// Counts an answer that took this long.
    pub(super) fn record(&mut self, latency: Duration) {
        if let Some(histogram) = &mut self.0 {
            let micros = u64::try_from(latency.as_micros()).unwrap_or(HIGHEST_MICROS);
            histogram.saturating_record(micros);
        }
    }

    /// How many answers took up to each of these times, and all together. `bounds` must rise.
    pub(super) fn up_to(&self, bounds: &[Duration]) -> LatencyCounts {
        let mut counts = LatencyCounts {
            up_to: vec![0; bounds.len()],
            ..LatencyCounts::default()
        };
        for value in self.0.iter().flat_map(|answers| answers.iter_recorded()) {
            let (latency, calls) = (
                Duration::from_micros(value.value_iterated_to()),
                value.count_at_value().into(),
            );
            counts.count += calls;
            counts.sum += latency * value.count_at_value();
            for (bound, count) in bounds.iter().zip(&mut counts.up_to) {
                *count += if latency <= *bound { calls } else { 0 };
            }
        }
        counts
    }

    /// The latency that this share of the answers did not exceed; `None` before the first.
    pub(super) fn quantile(&self, share: f64) -> Option<Duration> {
        let histogram = self.0.as_ref().filter(|answers| !answers.is_empty())?;
        Some(Duration::from_micros(histogram.value_at_quantile(share)))
    }
}
