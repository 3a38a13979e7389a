//! What is in a ledger, for people: read while runs may be using it, and without changing anything.
//!
//! It must not know how it is shown.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::Connection;

use super::care::{self, PATIENCE};
use super::checksum::Checksums;
use super::limits::{self, Known};
use super::{file, millis, poison, sqlite, time};
use crate::base::error::Result;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The ages that answers are counted by, in days.
pub(crate) const AGES: [u32; 3] = [1, 7, 30];

/// What is in a ledger.
#[derive(Debug)]
pub struct Survey {
    /// Bytes of the file and of the log beside it.
    pub(crate) bytes: u64,
    /// The schema's version.
    pub(crate) version: i32,
    /// When it was begun.
    pub(crate) begun: SystemTime,
    /// How many answers there are.
    pub(crate) answers: u64,
    /// What each address was asked, in the order of their names.
    pub(crate) services: Vec<Service>,
}

/// The answers of one address.
#[derive(Debug, PartialEq)]
pub(crate) struct Service {
    /// The address.
    pub(crate) endpoint: String,
    /// How many service ids it was asked with.
    pub(crate) ids: u64,
    /// How many answers there are.
    pub(crate) answers: u64,
    /// When the first and the last of them came; `None` without any.
    pub(crate) span: Option<(SystemTime, SystemTime)>,
    /// How many are younger than each of [`AGES`].
    pub(crate) younger: [u64; AGES.len()],
    /// The limits that runs found, one for each service id at most.
    pub(crate) limits: Vec<Known>,
    /// Over how many requests it failed while it was well.
    pub(crate) failed_over: u64,
}

/// Answers of one context while they are counted, with times in milliseconds since 1970.
#[derive(Default)]
struct Count {
    answers: u64,
    span: Option<(i64, i64)>,
    younger: [u64; AGES.len()],
}

/// Looks through a ledger.
///
/// # Errors
/// Exit code 2: it is missing, no ledger, of a newer version, damaged, or held by another program.
pub fn survey(path: &Path) -> Result<Survey> {
    let real = care::existing(path)?;
    sqlite::open_to_look(&real, PATIENCE)
        .and_then(|connection| look_through(&connection, &real))
        .map_err(|error| care::cannot_open(path, &error))
}

fn look_through(connection: &Connection, path: &Path) -> rusqlite::Result<Survey> {
    // One state of it from here on, whatever is written meanwhile.
    let connection = connection.unchecked_transaction()?;
    let version = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let head = sqlite::head(&connection)?;
    let counts = count(&connection)?;
    let services = by_address(&connection, head.checksums(), &counts)?;
    Ok(Survey {
        bytes: bytes(path),
        version,
        begun: time(head.begun),
        answers: counts.values().map(|count| count.answers).sum(),
        services,
    })
}

/// One pass over the table, which has no order that would help.
fn count(connection: &Connection) -> rusqlite::Result<HashMap<i64, Count>> {
    let now = SystemTime::now();
    let since = AGES.map(|days| millis(now.checked_sub(DAY * days).unwrap_or(now)));
    let mut counts: HashMap<i64, Count> = HashMap::new();
    let mut statement = connection.prepare("SELECT context, at FROM answers")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (context, at): (i64, i64) = (row.get(0)?, row.get(1)?);
        let count = counts.entry(context).or_default();
        count.answers += 1;
        let (first, last) = count.span.unwrap_or((at, at));
        count.span = Some((first.min(at), last.max(at)));
        for (younger, since) in count.younger.iter_mut().zip(since) {
            *younger += u64::from(at >= since);
        }
    }
    Ok(counts)
}

fn by_address(
    connection: &Connection,
    checksums: Checksums,
    counts: &HashMap<i64, Count>,
) -> rusqlite::Result<Vec<Service>> {
    let limits: HashMap<i64, Known> = limits::all(connection, checksums)?.into_iter().collect();
    let failed = poison::counts(connection)?;
    let mut services: BTreeMap<String, Service> = BTreeMap::new();
    let mut statement = connection.prepare("SELECT id, endpoint FROM contexts")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (context, endpoint): (i64, String) = (row.get(0)?, row.get(1)?);
        let service = services
            .entry(endpoint)
            .or_insert_with_key(|endpoint| Service {
                endpoint: endpoint.clone(),
                ids: 0,
                answers: 0,
                span: None,
                younger: [0; AGES.len()],
                limits: Vec::new(),
                failed_over: 0,
            });
        service.ids += 1;
        service.limits.extend(limits.get(&context));
        service.failed_over += failed.get(&context).copied().unwrap_or_default();
        let Some(count) = counts.get(&context) else {
            continue;
        };
        service.answers += count.answers;
        for (sum, younger) in service.younger.iter_mut().zip(count.younger) {
            *sum += younger;
        }
        if let Some((first, last)) = count.span {
            let (first, last) = (time(first), time(last));
            let (earliest, latest) = service.span.unwrap_or((first, last));
            service.span = Some((earliest.min(first), latest.max(last)));
        }
    }
    Ok(services.into_values().collect())
}

/// What a ledger takes on the disk, its log included.
pub(super) fn bytes(path: &Path) -> u64 {
    let length = |path: PathBuf| path.metadata().map_or(0, |metadata| metadata.len());
    length(path.to_owned()) + length(file::log_of(path))
}
