//! The load that a service was found to accept, with the time, as ledgers keep it; and when it is worth storing.

use std::time::{Duration, SystemTime};

use super::clock::{millis, time};
use super::database::{Damaged, TableRow};
use crate::telemetry::pace::Limit;

/// How long a limit is used. After that the plan, the quota or the service itself may have changed, and searching for the
/// limit again takes a minute. It is long enough for jobs that rest at weekends.
const USED: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A limit that changes by more than this share is stored immediately and not only when the run ends: that may be days from now, or
/// never if the run is killed. A smaller change is of little use to the next run, which
/// searches on its own.
const NOTABLE: f64 = 0.1;

/// A limit that an earlier run found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct KnownLimit {
    /// The limit.
    pub(crate) limit: Limit,
    /// When the service last showed it.
    pub(crate) found: SystemTime,
}

impl KnownLimit {
    /// Whether it may be used. A time in the future comes from a clock that was wrong, so the age is not known.
    pub(super) fn is_recent(&self, now: SystemTime) -> bool {
        let age = now.duration_since(self.found);
        age.is_ok_and(|age| age < USED)
    }

    /// That of an account, from its columns `limits` and `limits_at`.
    pub(super) fn of_row(row: &TableRow, column: usize) -> Result<Option<Self>, Damaged> {
        let (limit, found) = (row.optional::<String>(column)?, row.optional(column + 1)?);
        let Some((limit, found)) = limit.zip(found) else {
            return Ok(None);
        };
        Ok(Some(Self {
            limit: serde_json::from_str(&limit).map_err(|_| Damaged)?,
            found: time(found),
        }))
    }
}

/// What a run has found, and what of it is stored.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LimitRecorder {
    latest: Option<KnownLimit>,
    stored: Option<Limit>,
}

impl LimitRecorder {
    /// The service has shown another limit, or that there is none any more.
    pub(super) const fn set(&mut self, latest: KnownLimit) {
        self.latest = Some(latest);
    }

    /// The statement that stores for an account what is to be stored now, if anything is.
    pub(super) fn statement(&mut self, account: i64, at_end: bool) -> String {
        let Some(KnownLimit { limit, found }) = self.take(at_end) else {
            return String::new();
        };
        let found = millis(found);
        match serde_json::to_string(&limit) {
            Ok(limits) if limit != Limit::NONE => format!(
                "UPDATE accounts SET limits = '{limits}', limits_at = {found} WHERE id = {account};"
            ),
            _ => format!("UPDATE accounts SET limits = NULL WHERE id = {account};"),
        }
    }

    /// What is to be stored now; at the end of a run, whatever has changed.
    fn take(&mut self, at_end: bool) -> Option<KnownLimit> {
        let latest = self.latest?;
        let is_worth_it = match self.stored {
            None => true,
            Some(stored) if at_end => stored != latest.limit,
            Some(stored) => is_far(latest.limit, stored),
        };
        self.stored = is_worth_it.then_some(latest.limit).or(self.stored);
        is_worth_it.then_some(latest)
    }
}

fn is_far(one: Limit, other: Limit) -> bool {
    let far = |one: Option<f64>, other: Option<f64>| match (one, other) {
        (Some(one), Some(other)) => (one - other).abs() > other * NOTABLE,
        (one, other) => one.is_some() != other.is_some(),
    };
    let in_flight = |limit: Limit| limit.in_flight.map(f64::from);
    far(one.rate, other.rate) || far(in_flight(one), in_flight(other))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn found(rate: f64) -> KnownLimit {
        KnownLimit {
            limit: Limit {
                rate: Some(rate),
                in_flight: None,
            },
            found: SystemTime::now(),
        }
    }

    #[test]
    fn a_limit_is_stored_if_it_is_far_from_the_stored_one_and_at_the_end() {
        let mut recorder = LimitRecorder::default();
        assert_eq!(recorder.take(true), None);
        for (rate, at_end, stored) in [
            (50.0, false, true),
            (54.0, false, false),
            (56.0, false, true),
            (56.1, false, false),
            (56.1, true, true),
            (56.1, true, false),
        ] {
            recorder.set(found(rate));
            assert_eq!(recorder.take(at_end).is_some(), stored, "{rate}");
        }
    }

    #[test]
    fn a_limit_is_used_for_a_week() {
        let limit = found(50.0);
        let days = |days: u64| Duration::from_secs(days * 24 * 60 * 60);
        assert!(limit.is_recent(limit.found + days(6)));
        assert!(!limit.is_recent(limit.found + days(7)));
        assert!(!limit.is_recent(limit.found - days(1)));
    }
}
