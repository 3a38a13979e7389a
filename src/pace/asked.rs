//! The rate that the service's headers ask for.

use std::time::Duration;

use super::calls::Allowance;

/// What was asked for last.
#[derive(Debug, Default)]
pub(super) struct Asked(Option<(f64, Duration)>);

/// Headers tell whole seconds, and some the time until a bucket is full: over less than this a rate comes out anyhow.
const SHORTEST_SPREAD: Duration = Duration::from_secs(3);
/// Windows up to this are spread evenly when headers tell what is left. Of a day's quota nobody wants a call a minute.
const LONGEST_SPREAD: Duration = Duration::from_secs(5 * 60);

impl Asked {
    /// Takes what an answer's headers said, if it is of use.
    pub(super) fn note(&mut self, now: Duration, allowance: Allowance) {
        let Allowance { calls, lasts } = allowance;
        if !(SHORTEST_SPREAD..=LONGEST_SPREAD).contains(&lasts) {
            return;
        }
        // One a window is left always: headers can be wrong, and only a refusal stops.
        #[allow(clippy::cast_precision_loss, reason = "a rate is no exact number")]
        let rate = calls.max(1) as f64 / lasts.as_secs_f64();
        self.0 = Some((rate, now + lasts));
    }

    /// Calls a second, for as long as they ask for it.
    pub(super) fn rate(&self, now: Duration) -> Option<f64> {
        self.0
            .filter(|(_, until)| now < *until)
            .map(|(rate, _)| rate)
    }
}
