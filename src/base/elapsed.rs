//! Durations as people read them, on a terminal and on paper.

use std::time::Duration;

/// A time, with two units at most.
#[must_use]
pub(crate) fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 if time.as_millis() < 10 => format!("{:.1} ms", time.as_secs_f64() * 1e3),
        0 => format!("{} ms", time.as_millis()),
        1..10 => format!("{:.1} s", time.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// Thousandths are as exact as anyone needs: of seconds, percent, or calls a second.
#[must_use]
pub(crate) fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

/// Times for programs: seconds, as numbers.
pub(crate) mod seconds {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::rounded;

    /// For a time that is known.
    pub(crate) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        rounded(time.as_secs_f64()).serialize(to)
    }

    /// For a time that may not be known.
    #[allow(clippy::ref_option, reason = "what serde passes")]
    pub(crate) fn serialize_some<S: Serializer>(
        time: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(|time| rounded(time.as_secs_f64())).serialize(to)
    }

    /// What [`serialize`] has written.
    pub(crate) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_two_units_at_most() {
        for (millis, expected) in [
            (1, "1.0 ms"),
            (120, "120 ms"),
            (1_500, "1.5 s"),
            (59_000, "59 s"),
            (61_000, "1 min 1 s"),
            (3_660_000, "1 h 1 min"),
        ] {
            assert_eq!(time(Duration::from_millis(millis)), expected);
        }
    }
}
