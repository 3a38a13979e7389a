//! How long answers took: quantiles of a run of any length in a few kilobytes.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Latencies above an hour are counted as an hour: no timeout is that long.
const HIGHEST_MICROS: u64 = 3_600_000_000;

/// The latency of every answered call, in microseconds.
#[derive(Debug, Clone)]
pub(super) struct Latencies(Option<Histogram<u32>>);

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

    /// The latency that this share of the answers did not exceed; `None` before the first.
    pub(super) fn quantile(&self, share: f64) -> Option<Duration> {
        let histogram = self.0.as_ref().filter(|answers| !answers.is_empty())?;
        Some(Duration::from_micros(histogram.value_at_quantile(share)))
    }
}
