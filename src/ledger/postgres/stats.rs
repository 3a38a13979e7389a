//! What is in a ledger on a server, for people.

use std::collections::{BTreeMap, HashMap};

use tokio_postgres::types::Type;

use super::fault::{AtStart, ServerFault};
use super::ledger::ServerLedger;
use super::limits;
use super::schema::VERSION;
use super::server::{COMMAND_PATIENCE, Lane, Server};
use super::sources::contexts;
use crate::base::error::Result;
use crate::ledger::clock::time;
use crate::ledger::contents::{AGES, EndpointStats, LedgerStats};
use crate::ledger::named_ledger::ServerSettings;

/// A day in milliseconds.
const DAY: i64 = 24 * 60 * 60 * 1_000;

/// Reads what is in a ledger.
///
/// # Errors
/// As [`ServerLedger::open`].
pub(in crate::ledger) fn read_stats(settings: &ServerSettings) -> Result<LedgerStats> {
    let ledger = ServerLedger::open(settings, COMMAND_PATIENCE)?;
    read(&ledger).at_start("read", &ledger.server.shown())
}

fn read(ledger: &ServerLedger) -> Result<LedgerStats, ServerFault> {
    let server = &ledger.server;
    let mut counts = count(server, ledger.now)?;
    let limits: HashMap<_, _> = limits::all(server)?.into_iter().collect();
    let mut endpoints: BTreeMap<String, EndpointStats> = BTreeMap::new();
    let mut answers = 0;
    for context in contexts(server)? {
        let stats = endpoints.entry(context.endpoint.clone()).or_default();
        stats.endpoint = context.endpoint;
        stats.ids += 1;
        stats.limits.extend(limits.get(&context.id));
        if let Some(counted) = counts.remove(&context.id) {
            answers += counted.answers;
            stats.add(counted.answers, counted.span, counted.younger);
        }
    }
    Ok(LedgerStats {
        bytes: bytes(server)?,
        version: VERSION,
        created: time(ledger.created),
        answers,
        endpoints: endpoints.into_values().collect(),
    })
}

/// The answers of one account.
struct Counted {
    answers: u64,
    span: (i64, i64),
    younger: [u64; AGES.len()],
}

fn count(server: &Server, now: i64) -> Result<HashMap<i32, Counted>, ServerFault> {
    const COUNT: &str = "SELECT f.context, count(*), min(a.at), max(a.at), count(*) FILTER (WHERE a.at >= $1),
            count(*) FILTER (WHERE a.at >= $2), count(*) FILTER (WHERE a.at >= $3)
        FROM rescore.answers a JOIN rescore.captured_fields f ON f.id = a.source GROUP BY f.context";
    let since = AGES.map(|days| now - i64::from(days) * DAY);
    let params = since.each_ref().map(|since| (since as _, Type::INT8));
    let rows = server.query(Lane::Quick, COUNT, &params)?;
    let number = |count: i64| count.unsigned_abs();
    Ok({ rows.iter() }
        .map(|row| {
            let counted = Counted {
                answers: number(row.get(1)),
                span: (row.get(2), row.get(3)),
                younger: [number(row.get(4)), number(row.get(5)), number(row.get(6))],
            };
            (row.get(0), counted)
        })
        .collect())
}

/// How many answers there are.
pub(super) fn count_all(server: &Server) -> Result<u64, ServerFault> {
    let rows = server.query(Lane::Quick, "SELECT count(*) FROM rescore.answers", &[])?;
    Ok(rows
        .first()
        .map_or(0, |row| row.get::<_, i64>(0).unsigned_abs()))
}

/// The bytes of all tables with their indexes.
pub(super) fn bytes(server: &Server) -> Result<u64, ServerFault> {
    const BYTES: &str =
        "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
        WHERE c.relnamespace = 'rescore'::regnamespace AND c.relkind = 'r'";
    let rows = server.query(Lane::Quick, BYTES, &[])?;
    Ok(rows
        .first()
        .map_or(0, |row| row.get::<_, i64>(0).unsigned_abs()))
}
