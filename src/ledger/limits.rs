//! What a service was found to bear, so that the next run begins near it and need not look for it anew.
//!
//! It stands by the address and the service id, as answers do; which flags users are asked with makes no difference to
//! it. Nothing of a user is in it.

use std::time::{Duration, SystemTime};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::checksum::Checksums;
use super::{millis, time};
use crate::telemetry::pace::{FoundLimit, Limit};

/// How long a limit is believed. A plan, a quota or the service itself may be another one by then, and to look for the
/// limit anew takes a minute. It is as long as that for the sake of jobs that rest at weekends.
const BELIEVED: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A limit that changes by more than this share, or is not doubtful any more, is noted at once, and not just when the run
/// ends: that may be days from now, or a kill. A smaller change is of little use to the next run, which looks further by
/// itself.
const NOTABLE: f64 = 0.1;

/// A limit that an earlier run found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Known {
    /// The limit.
    pub(crate) limit: Limit,
    /// When the service showed it last.
    pub(crate) found: SystemTime,
}

impl Known {
    /// `None` where the row is damaged: a wrong limit could hold a run up for ever.
    fn of(row: &Row<'_>, checksums: Checksums) -> rusqlite::Result<Option<Self>> {
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
        Ok(sound.then(|| Self {
            limit,
            found: time(at),
        }))
    }
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

/// What is known of a context, unless it is too old to be believed.
pub(super) fn known(
    connection: &Connection,
    checksums: Checksums,
    context: i64,
    now: SystemTime,
) -> rusqlite::Result<Option<Known>> {
    const QUERY: &str = "SELECT * FROM limits WHERE context = ?";
    let known = connection
        .query_row(QUERY, [context], |row| Known::of(row, checksums))
        .optional()?
        .flatten();
    // A time in the future comes from a clock that was wrong: then its age is not known.
    Ok(known.filter(|known| {
        let age = now.duration_since(known.found);
        age.is_ok_and(|age| age < BELIEVED)
    }))
}

/// What is known of each context, however old.
pub(super) fn all(
    connection: &Connection,
    checksums: Checksums,
) -> rusqlite::Result<Vec<(i64, Known)>> {
    let mut statement = connection.prepare("SELECT * FROM limits")?;
    let mut rows = statement.query([])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let context = row.get("context")?;
        all.extend(Known::of(row, checksums)?.map(|known| (context, known)));
    }
    Ok(all)
}

/// What a run finds out about its context.
pub(super) struct Finding {
    context: i64,
    checksums: Checksums,
    latest: Option<Known>,
    noted: Option<Limit>,
}

impl Finding {
    pub(super) const fn new(context: i64, checksums: Checksums) -> Self {
        Self {
            context,
            checksums,
            latest: None,
            noted: None,
        }
    }

    /// The service showed another limit, or that there is none any more. What was not seen as a limit is not noted.
    pub(super) fn changed(&mut self, latest: Known) {
        self.latest = Some(Known {
            limit: latest.limit.seen_as_limit(),
            ..latest
        });
    }

    /// Notes it together with answers, which costs no sync of its own, where it is quite another one than noted last.
    pub(super) fn note(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.note_if(connection, |latest, noted| {
            noted.is_none_or(|noted| is_far(latest, noted))
        })
    }

    /// Notes how it is at the end.
    pub(super) fn end(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.note_if(connection, |latest, noted| noted != Some(latest))
    }

    fn note_if(
        &mut self,
        connection: &Connection,
        worth: impl FnOnce(Limit, Option<Limit>) -> bool,
    ) -> rusqlite::Result<()> {
        let Some(Known { limit, found }) =
            self.latest.filter(|latest| worth(latest.limit, self.noted))
        else {
            return Ok(());
        };
        self.noted = Some(limit);
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
    use super::super::file::Kind;
    use super::super::sqlite;
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    const CONTEXT: i64 = 1;
    const CHECKSUMS: Checksums = Checksums::new([7; 32]);

    fn ledger() -> (tempfile::TempDir, Connection) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("answers.ledger");
        std::fs::write(&path, "").unwrap();
        let connection = sqlite::open(&path, Kind::Shared, true).unwrap();
        (place, connection)
    }

    fn limit(rate: f64, in_flight: u32) -> Limit {
        seen(3, rate, in_flight)
    }

    /// A limit that was seen so often.
    fn seen(times: u32, rate: f64, in_flight: u32) -> Limit {
        // Nothing is known by 0.
        let found = |value| (value > 0.0).then_some(FoundLimit { value, times });
        Limit {
            rate: found(rate),
            in_flight: found(in_flight.into()),
        }
    }

    /// A time that a ledger can tell.
    fn now() -> SystemTime {
        time(millis(SystemTime::now()))
    }

    #[test]
    fn a_limit_is_believed_for_a_week_and_by_its_own_service_alone() {
        let (_place, connection) = ledger();
        let mut finding = Finding::new(CONTEXT, CHECKSUMS);
        finding.end(&connection).unwrap();
        assert_eq!(known(&connection, CHECKSUMS, CONTEXT, now()).unwrap(), None);
        for limit in [limit(48.5, 0), limit(0.0, 20), limit(0.75, 3)] {
            let found = Known {
                limit,
                found: now(),
            };
            finding.changed(found);
            finding.end(&connection).unwrap();
            let known = |context, days: u32| {
                let now = found.found + DAY * days;
                known(&connection, CHECKSUMS, context, now).unwrap()
            };
            assert_eq!(known(CONTEXT, 0), Some(found));
            assert_eq!(known(CONTEXT, 6), Some(found));
            assert_eq!(known(CONTEXT, 7), None);
            assert_eq!(known(CONTEXT + 1, 0), None);
            // It is there all the same, for people.
            assert_eq!(all(&connection, CHECKSUMS).unwrap(), [(CONTEXT, found)]);
        }
        let yesterday = now() - DAY;
        assert_eq!(
            known(&connection, CHECKSUMS, CONTEXT, yesterday).unwrap(),
            None
        );
    }

    #[test]
    fn a_change_is_noted_at_once_when_it_is_large_and_at_the_end_when_it_is_small() {
        let (_place, connection) = ledger();
        let mut finding = Finding::new(CONTEXT, CHECKSUMS);
        let noted = || {
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
            finding.changed(Known {
                limit: latest,
                found: now(),
            });
            finding.note(&connection).unwrap();
            assert_eq!(noted(), expected, "{latest:?}");
        }
        finding.end(&connection).unwrap();
        assert_eq!(noted(), limit(9.5, 0));
        // A service whose limit is gone is not held to it by the next run.
        let mut next = Finding::new(CONTEXT, CHECKSUMS);
        next.changed(Known {
            limit: Limit::NONE,
            found: now(),
        });
        next.note(&connection).unwrap();
        assert_eq!(noted(), Limit::NONE);
    }
    #[test]
    fn what_was_seen_once_is_never_noted_and_what_was_seen_often_is_at_once() {
        let (_place, connection) = ledger();
        let mut finding = Finding::new(CONTEXT, CHECKSUMS);
        let noted = || {
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
            // It is sure now, though it is still the same.
            (seen(3, 40.0, 9), seen(3, 40.0, 9)),
            (seen(4, 40.0, 9), seen(3, 40.0, 9)),
            (mixed, limit(50.0, 0)),
            // It is disproved; what was seen once instead may be chance.
            (seen(1, 20.0, 0), Limit::NONE),
        ] {
            finding.changed(Known {
                limit: latest,
                found: now(),
            });
            finding.note(&connection).unwrap();
            assert_eq!(noted(), expected, "{latest:?}");
        }
    }
}
