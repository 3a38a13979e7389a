//! The load that the service was found to accept, so that the next run starts near it.

use std::time::{Duration, SystemTime};

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::fault::ServerFault;
use super::schema::NOW;
use super::server::{Lane, Server};
use crate::ledger::clock::time;
use crate::ledger::known_limit::KnownLimit;
use crate::telemetry::pace::{FoundLimit, Limit};

/// How long a limit is used: as in a file.
const USED: Duration = Duration::from_secs(7 * 24 * 60 * 60);

const ALL: &str =
    "SELECT context, rate, rate_times, in_flight, in_flight_times, at FROM rescore.limits";

fn of(row: &Row) -> (i32, KnownLimit) {
    let found = |value, times| {
        let (value, times): (Option<f64>, Option<i32>) = (row.get(value), row.get(times));
        let times = times.and_then(|times| u32::try_from(times).ok());
        value
            .zip(times)
            .map(|(value, times)| FoundLimit { value, times })
    };
    let limit = Limit {
        rate: found(1, 2),
        in_flight: found(3, 4),
    };
    let found = time(row.get(5));
    (row.get(0), KnownLimit { limit, found })
}

/// The limit of an account, unless it is too old to be used.
///
/// # Errors
/// The server is away, or the user may not look.
pub(super) fn known(
    server: &Server,
    context: i32,
    now: SystemTime,
) -> Result<Option<KnownLimit>, ServerFault> {
    let statement = format!("{ALL} WHERE context = $1");
    let rows = server.query(Lane::Quick, &statement, &[(&context, Type::INT4)])?;
    let known = rows.first().map(|row| of(row).1);
    Ok(known.filter(|known| {
        let age = now.duration_since(known.found);
        age.unwrap_or_default() < USED
    }))
}

/// The limit of each account, however old.
///
/// # Errors
/// The server is away, or the user may not look.
pub(super) fn all(server: &Server) -> Result<Vec<(i32, KnownLimit)>, ServerFault> {
    Ok(server
        .query(Lane::Quick, ALL, &[])?
        .iter()
        .map(of)
        .collect())
}

/// Stores the limit of an account, or that there is none any more.
///
/// # Errors
/// The server is away.
pub(super) fn store(server: &Server, context: i32, limit: Limit) -> Result<(), ServerFault> {
    const FORGET: &str = "DELETE FROM rescore.limits WHERE context = $1";
    if limit == Limit::NONE {
        let sent = server.query(Lane::Quick, FORGET, &[(&context, Type::INT4)]);
        return sent.map(drop);
    }
    let store = format!(
        "INSERT INTO rescore.limits (context, rate, rate_times, in_flight, in_flight_times, at)
        VALUES ($1, $2, $3, $4, $5, {NOW})
        ON CONFLICT (context) DO UPDATE SET rate = excluded.rate, rate_times = excluded.rate_times,
            in_flight = excluded.in_flight, in_flight_times = excluded.in_flight_times, at = excluded.at"
    );
    let value = |found: Option<FoundLimit>| found.map(|found| found.value);
    let times = |found: Option<FoundLimit>| {
        found.map(|found| i32::try_from(found.times).unwrap_or(i32::MAX))
    };
    let (rate, rate_times) = (value(limit.rate), times(limit.rate));
    let (in_flight, in_flight_times) = (value(limit.in_flight), times(limit.in_flight));
    let params: [_; 5] = [
        (&context as _, Type::INT4),
        (&rate as _, Type::FLOAT8),
        (&rate_times as _, Type::INT4),
        (&in_flight as _, Type::FLOAT8),
        (&in_flight_times as _, Type::INT4),
    ];
    server.query(Lane::Quick, &store, &params).map(drop)
}
