//! The table of limits: the load that a service was found to accept, so that the next run starts near it and need not
//! search for it again.
//!
//! A limit belongs to an address and a service ID, as answers do; the flags of a run make no difference to it. It says
//! nothing about any user.

use std::time::{Duration, SystemTime};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::checksum::Checksums;
use crate::ledger::clock::{millis, time};
use crate::ledger::known_limit::KnownLimit;
use crate::telemetry::pace::{FoundLimit, Limit};

/// How long a limit is used. After that the plan, the quota or the service itself may have changed, and searching for the
/// limit again takes a minute. It is long enough for jobs that rest at weekends.
const USED: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A limit that changes by more than this share, or is no longer doubtful, is stored immediately and not only when the run
/// ends: that may be days from now, or never if the run is killed. A smaller change is of little use to the next run, which
/// searches on its own.
const NOTABLE: f64 = 0.1;

/// The limit of a row; `None` where it is damaged: a wrong limit could hold up a run indefinitely.
fn of_row(row: &Row<'_>, checksums: Checksums) -> rusqlite::Result<Option<KnownLimit>> {
    let (context, at) = (row.get("context")?, row.get("at")?);
    let found = |value, times| {
        let (value, times): (Option<f64>, Option<u32>) = (row.get(value)?, row.get(times)?);
        let found = value.zip(times);
        Ok::<_, rusqlite::Error>(found.map(|(value, times)| FoundLimit { value, times }))
    };
    let limit = Limit {
        rate: found("rate", "rate_times")?,
        in_flight: found("in_flight", "in_flight_times")?,
    };
    let sound = checksum(checksums, context, limit, at) == row.get::<_, i64>("checksum")?;
    Ok(sound.then(|| KnownLimit {
        limit,
        found: time(at),
    }))
}

fn checksum(checksums: Checksums, context: i64, limit: Limit, at: i64) -> i64 {
    let found = |found: Option<FoundLimit>| {
        found.map_or([ValueRef::Null; 2], |FoundLimit { value, times }| {
            [ValueRef::Real(value), ValueRef::Integer(times.into())]
        })
    };
    let ([rate, rate_times], [in_flight, in_flight_times]) =
        (found(limit.rate), found(limit.in_flight));
    let values = [
        ValueRef::Integer(context),
        rate,
        rate_times,
        in_flight,
        in_flight_times,
        ValueRef::Integer(at),
    ];
    checksums.of("limits", values)
}

/// The limit of a context, unless it is too old to be used.
pub(crate) fn known(
    connection: &Connection,
    checksums: Checksums,
    context: i64,
    now: SystemTime,
) -> rusqlite::Result<Option<KnownLimit>> {
    const QUERY: &str = "SELECT * FROM limits WHERE context = ?";
    let known = connection
        .query_row(QUERY, [context], |row| of_row(row, checksums))
        .optional()?
        .flatten();
    // A time in the future comes from a clock that was wrong, so the age is not known.
    Ok(known.filter(|known| {
        let age = now.duration_since(known.found);
        age.is_ok_and(|age| age < USED)
    }))
}

/// The limit of each context, however old.
pub(crate) fn all(
    connection: &Connection,
    checksums: Checksums,
) -> rusqlite::Result<Vec<(i64, KnownLimit)>> {
    let mut statement = connection.prepare("SELECT * FROM limits")?;
    let mut rows = statement.query([])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let context = row.get("context")?;
        all.extend(of_row(row, checksums)?.map(|known| (context, known)));
    }
    Ok(all)
}

/// Stores the limit that a run finds for its context.
#[derive(Clone, Copy)]
pub(super) struct LimitRecorder {
    context: i64,
    checksums: Checksums,
    latest: Option<KnownLimit>,
    stored: Option<Limit>,
}

impl LimitRecorder {
    pub(super) const fn new(context: i64, checksums: Checksums) -> Self {
        Self {
            context,
            checksums,
            latest: None,
            stored: None,
        }
    }

    /// The service has shown another limit, or that there is none any more. What does not look like a limit is not stored.
    pub(super) fn set(&mut self, latest: KnownLimit) {
        self.latest = Some(KnownLimit {
            limit: latest.limit.seen_as_limit(),
            ..latest
        });
    }

    /// Stores it together with answers, which needs no sync of its own, where it differs much from the stored one.
    pub(super) fn record(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.record_if(connection, |latest, stored| {
            stored.is_none_or(|stored| is_far(latest, stored))
        })
    }

    /// Stores it as it is at the end.
    pub(super) fn record_last(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.record_if(connection, |latest, stored| stored != Some(latest))
    }

    fn record_if(
        &mut self,
        connection: &Connection,
        worth: impl FnOnce(Limit, Option<Limit>) -> bool,
    ) -> rusqlite::Result<()> {
        let Some(KnownLimit { limit, found }) = self
            .latest
            .filter(|latest| worth(latest.limit, self.stored))
        else {
            return Ok(());
        };
        self.stored = Some(limit);
        if limit == Limit::NONE {
            return connection
                .execute("DELETE FROM limits WHERE context = ?", [self.context])
                .map(drop);
        }
        let at = millis(found);
        let checksum = checksum(self.checksums, self.context, limit, at);
        let value = |found: Option<FoundLimit>| found.map(|found| found.value);
        let times = |found: Option<FoundLimit>| found.map(|found| found.times);
        let values = params![
            self.context,
            value(limit.rate),
            times(limit.rate),
            value(limit.in_flight),
            times(limit.in_flight),
            at,
            checksum
        ];
        connection
            .execute(
                "INSERT OR REPLACE INTO limits VALUES (?, ?, ?, ?, ?, ?, ?)",
                values,
            )
            .map(drop)
    }
}

/// Removes limits that were last shown before this time.
pub(crate) fn remove_before(connection: &Connection, before: i64) -> rusqlite::Result<()> {
    connection
        .execute("DELETE FROM limits WHERE at < ?", [before])
        .map(drop)
}

fn is_far(one: Limit, other: Limit) -> bool {
    let far = |one: Option<FoundLimit>, other: Option<FoundLimit>| match (one, other) {
        (Some(one), Some(other)) => {
            (one.value - other.value).abs() > other.value * NOTABLE
                || one.is_doubtful() != other.is_doubtful()
        }
        (one, other) => one.is_some() != other.is_some(),
    };
    far(one.rate, other.rate) || far(one.in_flight, other.in_flight)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::connect::{Connect, Mode};
    use super::*;
    use crate::ledger::file::LedgerKind;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    const CONTEXT: i64 = 1;
    const CHECKSUMS: Checksums = Checksums::new([7; 32]);

    fn ledger() -> (tempfile::TempDir, Connection) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("answers.ledger");
        std::fs::write(&path, "").unwrap();
        let connection = Connect::to(Mode::Create(LedgerKind::Shared))
            .open(&path)
            .unwrap();
        (place, connection)
    }

    fn limit(rate: f64, in_flight: u32) -> Limit {
        seen(3, rate, in_flight)
    }

    /// A limit that was seen this many times.
    fn seen(times: u32, rate: f64, in_flight: u32) -> Limit {
        // 0 stands for no limit.
        let found = |value| (value > 0.0).then_some(FoundLimit { value, times });
        Limit {
            rate: found(rate),
            in_flight: found(in_flight.into()),
        }
    }

    /// A time that a ledger can store.
    fn now() -> SystemTime {
        time(millis(SystemTime::now()))
    }

    #[test]
    fn a_limit_is_used_for_a_week_and_for_its_own_service_only() {
        let (_place, connection) = ledger();
        let mut recorder = LimitRecorder::new(CONTEXT, CHECKSUMS);
        recorder.record_last(&connection).unwrap();
        assert_eq!(known(&connection, CHECKSUMS, CONTEXT, now()).unwrap(), None);
        for limit in [limit(48.5, 0), limit(0.0, 20), limit(0.75, 3)] {
            let found = KnownLimit {
                limit,
                found: now(),
            };
            recorder.set(found);
            recorder.record_last(&connection).unwrap();
            let known = |context, days: u32| {
                let now = found.found + DAY * days;
                known(&connection, CHECKSUMS, context, now).unwrap()
            };
            assert_eq!(known(CONTEXT, 0), Some(found));
            assert_eq!(known(CONTEXT, 6), Some(found));
            assert_eq!(known(CONTEXT, 7), None);
            assert_eq!(known(CONTEXT + 1, 0), None);
            // People can still see it.
            assert_eq!(all(&connection, CHECKSUMS).unwrap(), [(CONTEXT, found)]);
        }
        let yesterday = now() - DAY;
        assert_eq!(
            known(&connection, CHECKSUMS, CONTEXT, yesterday).unwrap(),
            None
        );
    }

    #[test]
    fn a_large_change_is_stored_immediately_and_a_small_one_at_the_end() {
        let (_place, connection) = ledger();
        let mut recorder = LimitRecorder::new(CONTEXT, CHECKSUMS);
        let stored = || {
            let known = known(&connection, CHECKSUMS, CONTEXT, now()).unwrap();
            known.map_or(Limit::NONE, |known| known.limit)
        };
        for (latest, expected) in [
            (limit(40.0, 0), limit(40.0, 0)),
            (limit(43.9, 0), limit(40.0, 0)),
            (limit(36.1, 0), limit(40.0, 0)),
            // Small steps add up.
            (limit(44.1, 0), limit(44.1, 0)),
            (limit(44.1, 20), limit(44.1, 20)),
            (limit(44.1, 22), limit(44.1, 20)),
            (limit(0.0, 17), limit(0.0, 17)),
            (Limit::NONE, Limit::NONE),
            (limit(9.0, 0), limit(9.0, 0)),
            (limit(9.5, 0), limit(9.0, 0)),
        ] {
            recorder.set(KnownLimit {
                limit: latest,
                found: now(),
            });
            recorder.record(&connection).unwrap();
            assert_eq!(stored(), expected, "{latest:?}");
        }
        recorder.record_last(&connection).unwrap();
        assert_eq!(stored(), limit(9.5, 0));
        // When a service drops its limit, the next run does not keep to it.
        let mut next = LimitRecorder::new(CONTEXT, CHECKSUMS);
        next.set(KnownLimit {
            limit: Limit::NONE,
            found: now(),
        });
        next.record(&connection).unwrap();
        assert_eq!(stored(), Limit::NONE);
    }

    #[test]
    fn what_was_seen_once_is_never_stored_and_what_was_seen_often_is_stored_immediately() {
        let (_place, connection) = ledger();
        let mut recorder = LimitRecorder::new(CONTEXT, CHECKSUMS);
        let stored = || {
            let known = known(&connection, CHECKSUMS, CONTEXT, now()).unwrap();
            known.map_or(Limit::NONE, |known| known.limit)
        };
        let mixed = Limit {
            rate: limit(50.0, 0).rate,
            in_flight: seen(1, 0.0, 4).in_flight,
        };
        for (latest, expected) in [
            (seen(1, 40.0, 9), Limit::NONE),
            (seen(2, 40.0, 9), seen(2, 40.0, 9)),
            // The same limit, but no longer doubtful.
            (seen(3, 40.0, 9), seen(3, 40.0, 9)),
            (seen(4, 40.0, 9), seen(3, 40.0, 9)),
            (mixed, limit(50.0, 0)),
            // It is disproved; what was seen once instead may be a coincidence.
            (seen(1, 20.0, 0), Limit::NONE),
        ] {
            recorder.set(KnownLimit {
                limit: latest,
                found: now(),
            });
            recorder.record(&connection).unwrap();
            assert_eq!(stored(), expected, "{latest:?}");
        }
    }
}
