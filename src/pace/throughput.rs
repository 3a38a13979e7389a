//! What the service accepted between two refusals.
//!
//! That is the one measure of a limit that holds however it is counted: when a bucket or a window has just refused, it is
//! empty, and what it accepts until it refuses again is no more than what came in. Time is told.

use std::time::Duration;

use super::types::Call;

/// Counts calls since the service last refused.
#[derive(Debug, Default)]
pub(super) struct Throughput {
    since: Count,
    /// Where the count before that began, what it came to, and how long all calls paused in it.
    before: Option<PreviousCount>,
}

/// A count that is over.
#[derive(Debug, Clone, Copy)]
struct PreviousCount {
    from: Duration,
    calls: u64,
    paused: Duration,
}

/// What the service accepted over a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measurement {
    /// Calls a second.
    pub(super) rate: f64,
    /// The same, of the time without pauses. Of a bucket that overflowed in a pause the first is too low; of one that filled
    /// up in it the second is too high.
    pub(super) without_pauses: f64,
    /// How many calls that were.
    pub(super) calls: u64,
}

impl Measurement {
    /// The likeliest of the two: where pauses were short the one with them, which is never too high.
    pub(super) fn likeliest(self) -> f64 {
        if self.has_long_pauses() {
            f64::midpoint(self.rate, self.without_pauses)
        } else {
            self.rate
        }
    }

    /// Whether pauses make the two so different that neither is certain.
    pub(super) fn has_long_pauses(self) -> bool {
        self.without_pauses * SHORT_PAUSES > self.rate
    }
}

/// Where a count begins.
#[derive(Debug, Default)]
struct Count {
    at: Duration,
    /// The first call that counts.
    call: u64,
    /// Refused since then.
    refused: u64,
    /// How long all calls have paused since then.
    paused: Duration,
    /// When the first accepted one began.
    opened: Option<Duration>,
}

/// The share of a measurement that is tried: a measurement is a little high by what a bucket had saved up, or by chance.
pub(super) const SPARE: f64 = 0.95;
/// Pauses are short when all the rest is so much of the time.
const SHORT_PAUSES: f64 = 0.8;
/// In less time than that, chance says more than the limit.
const SHORTEST: Duration = Duration::from_millis(500);
/// Two windows of a minute, the longest that is common, and a little. A limit of longer ago may be another one by now.
const LONGEST: Duration = Duration::from_secs(150);

impl Throughput {
    /// A call was accepted.
    pub(super) fn accepted(&mut self, call: Call) {
        if call.number >= self.since.call {
            self.since.opened.get_or_insert(call.began);
        }
    }

    /// A call was refused.
    pub(super) const fn refused(&mut self, call: Call) {
        if call.number >= self.since.call {
            self.since.refused += 1;
        }
    }

    /// All calls pause for so long.
    pub(super) fn paused(&mut self, length: Duration) {
        self.since.paused += length;
    }

    /// A call was refused for the pace, and the count starts again: from `back`, where the service says that it accepts
    /// nothing before. Calls a second that it accepted since the last such refusal, or since the start.
    pub(super) fn at_refusal(
        &mut self,
        call: Call,
        back: Option<(Duration, u64)>,
    ) -> Option<Measurement> {
        let Count {
            at,
            call: first,
            refused,
            paused,
            opened,
        } = self.since;
        let accepted = call.number.saturating_sub(first).saturating_sub(refused);
        self.before = Some(PreviousCount {
            from: opened.unwrap_or(at),
            calls: accepted,
            paused,
        });
        self.since = match back {
            Some((at, call)) => Count {
                at,
                call,
                refused: 0,
                paused: Duration::ZERO,
                opened: None,
            },
            None => Count {
                at: call.began,
                call: call.number,
                refused: 1,
                paused: Duration::ZERO,
                opened: None,
            },
        };
        self.over(at, self.since.at)
    }

    /// The single call after a pause was refused as well: nothing more came in. Calls a second before, since it last accepted some after
    /// none.
    pub(super) fn still_refused(&mut self, call: Call) -> Option<Measurement> {
        self.since = Count {
            at: call.began,
            call: call.number,
            refused: 1,
            paused: Duration::ZERO,
            opened: None,
        };
        self.over(self.before?.from, call.began)
    }

    fn over(&self, from: Duration, until: Duration) -> Option<Measurement> {
        let PreviousCount { calls, paused, .. } = self.before?;
        let length = until.saturating_sub(from);
        if calls == 0 || !(SHORTEST..=LONGEST).contains(&length) {
            return None;
        }
        #[allow(clippy::cast_precision_loss, reason = "a rate is no exact number")]
        let over = |time: Duration| calls as f64 / time.max(SHORTEST / 10).as_secs_f64();
        Some(Measurement {
            rate: over(length),
            without_pauses: over(length.saturating_sub(paused)),
            calls,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::float_cmp)]
mod tests {
    use super::*;

    fn call(number: u64, milliseconds: u64) -> Call {
        Call {
            began: Duration::from_millis(milliseconds),
            number,
            level: 1,
            probe: false,
        }
    }

    fn rate(measured: Option<Measurement>) -> Option<f64> {
        measured.map(|measured| measured.rate)
    }

    #[test]
    fn a_rate_is_what_was_accepted_from_one_refusal_to_the_next() {
        let mut throughput = Throughput::default();
        throughput.refused(call(100, 1_000));
        assert_eq!(
            rate(throughput.at_refusal(call(100, 1_000), None)),
            Some(99.0)
        );
        // Out with the refused one.
        throughput.refused(call(101, 1_010));
        throughput.refused(call(102, 1_020));
        throughput.paused(Duration::from_secs(1));
        let measured = throughput.at_refusal(call(183, 3_000), None).unwrap();
        assert_eq!(
            (measured.rate, measured.without_pauses, measured.calls),
            (40.0, 80.0, 80)
        );
        assert!(measured.has_long_pauses());
        assert_eq!(measured.likeliest(), 60.0);
        assert_eq!(
            throughput.at_refusal(call(185, 3_100), None),
            None,
            "too short"
        );
    }

    #[test]
    fn what_is_refused_after_the_pause_as_well_counts_as_time() {
        let mut throughput = Throughput::default();
        throughput.accepted(call(1, 0));
        throughput.at_refusal(call(400, 1_000), None);
        assert_eq!(
            rate(throughput.still_refused(call(401, 4_000))),
            Some(100.0)
        );
        assert_eq!(rate(throughput.still_refused(call(402, 8_000))), Some(50.0));
        assert_eq!(
            throughput.still_refused(call(403, 800_000)),
            None,
            "too long ago"
        );
    }
}
