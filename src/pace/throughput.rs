//! What the service accepted between two refusals.
//!
//! This measures a limit however it is counted: a bucket or a window that has just refused is empty, so that what it accepts
//! until it refuses again is only what came in since (the delivery rate of BBR). Times are passed in.

use std::time::Duration;

use super::types::Call;
use super::window::LONGEST_WINDOW;

/// Counts calls since the service last refused.
#[derive(Debug, Default)]
pub(super) struct Throughput {
    current: OpenCount,
    previous: Option<PreviousCount>,
}

/// A running count.
#[derive(Debug, Default)]
struct OpenCount {
    from: Duration,
    /// The first call that counts.
    call: u64,
    refused: u64,
    /// When the first accepted one started.
    opened: Option<Duration>,
}

/// A count that is over.
#[derive(Debug, Clone, Copy)]
struct PreviousCount {
    from: Duration,
    calls: u64,
}

/// What the service accepted over a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measurement {
    /// Calls a second, pauses included.
    pub(super) rate: f64,
    /// How many calls it rests on.
    pub(super) calls: u64,
}

/// The share of a measurement that is tried: it is a little high by what a bucket had saved up, or by chance.
pub(super) const SPARE: f64 = 0.95;
/// A cut of the rate that rests on no measurement goes no lower than this, and a refusal at this rate is not put down to the
/// pace: with fewer calls a second nothing could be seen within minutes, and with three a limit of one call in four seconds is
/// far exceeded for long. Below it, no blind cut leaves less than 0.8 of what is sustained.
pub(super) const LEAST_UNMEASURED: f64 = 2.0;
/// Of fewer calls a rate is not measured: chance would decide.
pub(super) const FEWEST_MEASURED: u64 = 10;
/// Less time than this is not measured: chance would decide.
const SHORTEST: Duration = Duration::from_millis(500);

impl OpenCount {
    /// Starts at a call that was refused.
    fn from_refused(call: Call) -> Self {
        Self {
            from: call.began,
            call: call.number,
            refused: 1,
            ..Self::default()
        }
    }
}

impl Throughput {
    /// A call was accepted.
    pub(super) fn accepted(&mut self, call: Call) {
        if call.number >= self.current.call {
            self.current.opened.get_or_insert(call.began);
        }
    }

    /// A call was refused.
    pub(super) const fn refused(&mut self, call: Call) {
        if call.number >= self.current.call {
            self.current.refused += 1;
        }
    }

    /// A call was refused for the pace. Returns what was accepted since the last such refusal, or since the start, and
    /// starts over: at `back`, a time and a call, if the service says that it accepts nothing before.
    pub(super) fn at_refusal(
        &mut self,
        call: Call,
        back: Option<(Duration, u64)>,
    ) -> Option<Measurement> {
        let next = match back {
            Some((from, call)) => OpenCount {
                from,
                call,
                ..OpenCount::default()
            },
            None => OpenCount::from_refused(call),
        };
        let over = std::mem::replace(&mut self.current, next);
        let seen = call.number.saturating_sub(over.call);
        self.previous = Some(PreviousCount {
            from: over.opened.unwrap_or(over.from),
            calls: seen.saturating_sub(over.refused),
        });
        self.measure(over.from, self.current.from)
    }

    /// Whether the count that is over had enough calls for a rate.
    pub(super) fn is_measured_well(&self) -> bool {
        let previous = self.previous.as_ref();
        previous.is_some_and(|previous| previous.calls >= FEWEST_MEASURED)
    }

    /// The single call after a pause was refused as well, so nothing more came in. Returns the rate since the previous count
    /// started to accept calls.
    pub(super) fn still_refused(&mut self, call: Call) -> Option<Measurement> {
        self.current = OpenCount::from_refused(call);
        self.measure(self.previous?.from, call.began)
    }

    fn measure(&self, from: Duration, until: Duration) -> Option<Measurement> {
        let PreviousCount { calls, .. } = self.previous?;
        let length = until.saturating_sub(from);
        // A limit of longer ago than a few windows may have changed.
        if calls == 0 || !(SHORTEST..=LONGEST_WINDOW * 3).contains(&length) {
            return None;
        }
        #[allow(clippy::cast_precision_loss, reason = "a rate need not be exact")]
        let rate = calls as f64 / length.as_secs_f64();
        Some(Measurement { rate, calls })
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
    fn the_rate_is_what_was_accepted_from_one_refusal_to_the_next() {
        let mut throughput = Throughput::default();
        throughput.refused(call(100, 1_000));
        assert_eq!(
            rate(throughput.at_refusal(call(100, 1_000), None)),
            Some(99.0)
        );
        // These were out together with the refused one.
        throughput.refused(call(101, 1_010));
        throughput.refused(call(102, 1_020));
        let measured = throughput.at_refusal(call(183, 3_000), None).unwrap();
        assert_eq!((measured.rate, measured.calls), (40.0, 80));
        assert_eq!(
            throughput.at_refusal(call(185, 3_100), None),
            None,
            "too short"
        );
    }

    #[test]
    fn a_refused_single_call_after_the_pause_makes_the_rate_lower() {
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
