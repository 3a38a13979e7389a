//! What is in a ledger, for people: read while runs may be using it, and without changing anything.
//!
//! It must not know how it is shown.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rusqlite::Connection;

use crate::base::error::Result;
use crate::ledger::access::{cannot_open, existing};
use crate::ledger::clock::{millis, time};
use crate::ledger::contents::{AGES, EndpointStats, LedgerStats};
use crate::ledger::db::checksum::Checksums;
use crate::ledger::db::connect::{Connect, Mode};
use crate::ledger::db::limits;
use crate::ledger::db::schema::{self, LedgerInfo};
use crate::ledger::db::{answers, contexts};
use crate::ledger::file;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The answers of one context while they are counted, with times in milliseconds since 1970.
#[derive(Default)]
struct ContextCounts {
    answers: u64,
    span: Option<(i64, i64)>,
    younger: [u64; AGES.len()],
}

/// Reads what is in a ledger.
///
/// # Errors
/// Exit code 2: it is missing, not a ledger, of another version, damaged, or in use by another program.
pub fn read_stats(path: &Path) -> Result<LedgerStats> {
    let real = existing(path)?;
    Connect::to(Mode::Inspect)
        .open(&real)
        .and_then(|connection| read(&connection, &real))
        .map_err(|error| cannot_open(path, &error))
}

fn read(connection: &Connection, path: &Path) -> rusqlite::Result<LedgerStats> {
    // One state of it from here on, whatever is written meanwhile.
    let connection = connection.unchecked_transaction()?;
    let version = schema::version(&connection)?;
    let info = LedgerInfo::read(&connection)?;
    let counts = count(&connection, info.checksums())?;
    let endpoints = by_endpoint(&connection, info.checksums(), &counts)?;
    Ok(LedgerStats {
        bytes: file::bytes(path),
        version,
        created: time(info.created),
        answers: counts.values().map(|count| count.answers).sum(),
        endpoints,
    })
}

/// One pass over all answers: no index would help.
fn count(
    connection: &Connection,
    checksums: Checksums,
) -> rusqlite::Result<HashMap<i64, ContextCounts>> {
    let now = SystemTime::now();
    let since = AGES.map(|days| millis(now.checked_sub(DAY * days).unwrap_or(now)));
    let mut counts: HashMap<i64, ContextCounts> = HashMap::new();
    answers::for_each(connection, checksums, |context, at| {
        let count = counts.entry(context).or_default();
        count.answers += 1;
        let (first, last) = count.span.unwrap_or((at, at));
        count.span = Some((first.min(at), last.max(at)));
        for (younger, since) in count.younger.iter_mut().zip(since) {
            *younger += u64::from(at >= since);
        }
    })?;
    Ok(counts)
}

fn by_endpoint(
    connection: &Connection,
    checksums: Checksums,
    counts: &HashMap<i64, ContextCounts>,
) -> rusqlite::Result<Vec<EndpointStats>> {
    let limits: HashMap<_, _> = limits::all(connection, checksums)?.into_iter().collect();
    let mut endpoints: BTreeMap<String, EndpointStats> = BTreeMap::new();
    for (context, endpoint) in contexts::endpoints(connection)? {
        let stats = endpoints
            .entry(endpoint)
            .or_insert_with_key(|endpoint| EndpointStats {
                endpoint: endpoint.clone(),
                ..EndpointStats::default()
            });
        stats.ids += 1;
        stats.limits.extend(limits.get(&context));
        let counts = counts.get(&context);
        if let Some((counts, span)) = counts.and_then(|counts| Some((counts, counts.span?))) {
            stats.add(counts.answers, span, counts.younger);
        }
    }
    Ok(endpoints.into_values().collect())
}
