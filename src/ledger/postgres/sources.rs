//! Where answers come from: who was asked, and the additional fields that the answers were stored with.
//!
//! An answer that lacks a field is asked for again. So new answers are stored with the fields that any run asked for lately,
//! as in a ledger in a file.

use std::collections::{BTreeSet, HashMap};

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::fault::ServerFault;
use super::schema::NOW;
use super::secret_file::{HashingSecret, SealedContext, name_of};
use super::server::{Lane, Server};
use crate::ledger::db::captures::LackingAnswers;
use crate::ledger::kept_fields::{KeptFields, REMEMBERED};
use crate::ledger::request_key::RequestHasher;
use crate::raw_json::Pointer;

/// Answers that are looked at before a run to see whether they lack fields: well below a second.
const LOOKED_AT: i64 = 100_000;

/// Finds the number of an account, which is added where it is new.
///
/// # Errors
/// The server is away, or the user may not write.
pub(super) fn context(
    server: &Server,
    secret: &HashingSecret,
    hasher: &RequestHasher,
    endpoint: &str,
) -> Result<i32, ServerFault> {
    const ADD: &str = "INSERT INTO rescore.contexts (name, sealed, endpoint) VALUES ($1, $2, $3)
        ON CONFLICT DO NOTHING";
    if let Some(known) = find_context(server, hasher)? {
        return Ok(known);
    }
    let sealed = secret.seal(hasher);
    let (name, bytes) = (Uuid::from_bytes(sealed.name), sealed.bytes.as_slice());
    let params: [_; 3] = [
        (&name as _, Type::UUID),
        (&bytes as _, Type::BYTEA),
        (&endpoint as _, Type::TEXT),
    ];
    server.query(Lane::Durable, ADD, &params)?;
    Ok(find_context(server, hasher)?.unwrap_or_default())
}

/// As [`context`], with the addresses of all others that have answers if it is new.
///
/// # Errors
/// As [`context`].
pub(super) fn context_or_others(
    server: &Server,
    secret: &HashingSecret,
    (hasher, endpoint): (&RequestHasher, &str),
) -> Result<(i32, Vec<String>), ServerFault> {
    let known = contexts(server)?;
    let context = context(server, secret, hasher, endpoint)?;
    let others = if known.iter().any(|it| it.id == context) {
        Vec::new()
    } else {
        answered(server, known)?
    };
    Ok((context, others.into_iter().map(|it| it.endpoint).collect()))
}

/// Those of these accounts that have answers: a run whose key was refused leaves one without. Where there are more answers
/// than can be looked at in a second, it cannot be told, and all are returned.
///
/// # Errors
/// The server is away.
pub(super) fn answered(
    server: &Server,
    mut contexts: Vec<ServerContext>,
) -> Result<Vec<ServerContext>, ServerFault> {
    const COUNT: &str =
        "SELECT f.context, count(*) FROM (SELECT source FROM rescore.answers LIMIT $1) AS a
        JOIN rescore.captured_fields f ON f.id = a.source GROUP BY f.context";
    let rows = server.query(Lane::Quick, COUNT, &[(&LOOKED_AT as _, Type::INT8)])?;
    let counts: HashMap<i32, i64> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    if counts.values().sum::<i64>() < LOOKED_AT {
        contexts.retain(|it| counts.contains_key(&it.id));
    }
    Ok(contexts)
}

/// The number of an account, if it was ever asked.
///
/// # Errors
/// The server is away, or the user may not look.
pub(super) fn find_context(
    server: &Server,
    hasher: &RequestHasher,
) -> Result<Option<i32>, ServerFault> {
    const FIND: &str = "SELECT id FROM rescore.contexts WHERE name = $1";
    let name = Uuid::from_bytes(name_of(hasher));
    let rows = server.query(Lane::Durable, FIND, &[(&name, Type::UUID)])?;
    Ok(rows.first().map(|row| row.get(0)))
}

/// An account that was asked.
pub(super) struct ServerContext {
    pub(super) id: i32,
    pub(super) endpoint: String,
    sealed: SealedContext,
}

impl ServerContext {
    /// What makes its keys; `None` if it was sealed with another secret.
    pub(super) fn hasher(&self, secret: &HashingSecret) -> Option<RequestHasher> {
        secret.open(&self.sealed)
    }
}

/// All accounts that were ever asked.
///
/// # Errors
/// The server is away, or the user may not look.
pub(super) fn contexts(server: &Server) -> Result<Vec<ServerContext>, ServerFault> {
    const ALL: &str =
        "SELECT id, name, sealed, endpoint FROM rescore.contexts ORDER BY endpoint, id";
    let rows = server.query(Lane::Quick, ALL, &[])?;
    let context = |row: &Row| {
        Some(ServerContext {
            id: row.get(0),
            sealed: SealedContext {
                name: row.get::<_, Uuid>(1).into_bytes(),
                bytes: row.get::<_, &[u8]>(2).try_into().ok()?,
            },
            endpoint: row.get(3),
        })
    };
    Ok(rows.iter().filter_map(context).collect())
}

/// The fields that answers are stored with, by the numbers of their sources.
pub(super) type FieldSources = KeptFields<i32>;

/// Remembers the fields that a run asks for, and finds those that other runs asked for.
///
/// # Errors
/// The server is away, or the user may not write.
pub(super) fn fields(server: &Server, requested: &[Pointer]) -> Result<FieldSources, ServerFault> {
    const ALL: &str = "SELECT pointer FROM rescore.fields ORDER BY pointer";
    const FORGET: &str = "DELETE FROM rescore.fields WHERE pointer NOT IN
        (SELECT pointer FROM rescore.fields ORDER BY requested DESC, pointer LIMIT $1)";
    if !requested.is_empty() {
        let remember = format!(
            "INSERT INTO rescore.fields SELECT p, {NOW} FROM unnest($1::text[]) AS p ORDER BY p
            ON CONFLICT (pointer) DO UPDATE SET requested = greatest(fields.requested, excluded.requested)"
        );
        let texts: Vec<_> = requested.iter().map(Pointer::to_string).collect();
        server.query(Lane::Quick, &remember, &[(&texts, Type::TEXT_ARRAY)])?;
        server.query(Lane::Quick, FORGET, &[(&i64::from(REMEMBERED), Type::INT8)])?;
    }
    let fields = FieldSources::new(requested.to_vec());
    let rows = server.query(Lane::Quick, ALL, &[])?;
    fields.learn(readable(rows.iter().map(|row| row.get(0)).collect()));
    Ok(fields)
}

/// Fields that runs have asked for. What this program cannot read, another version has.
pub(super) fn readable(pointers: Vec<&str>) -> Vec<Pointer> {
    let pointers = pointers.into_iter().map(Pointer::parse);
    pointers.filter_map(Result::ok).collect()
}

/// The number of an account with a list of fields, which is added where it is new.
///
/// # Errors
/// The server is away, or the user may not write.
pub(super) fn source(server: &Server, context: i32, fields: &[String]) -> Result<i32, ServerFault> {
    const ADD: &str = "INSERT INTO rescore.captured_fields (context, pointers) VALUES ($1, $2)
        ON CONFLICT DO NOTHING";
    const FIND: &str =
        "SELECT id FROM rescore.captured_fields WHERE context = $1 AND pointers = $2";
    let pointers = serde_json::Value::from(fields).to_string();
    let params: [_; 2] = [(&context as _, Type::INT4), (&pointers as _, Type::TEXT)];
    let find = || {
        let rows = server.query(Lane::Durable, FIND, &params)?;
        Ok(rows.first().map(|row| row.get(0)))
    };
    if let Some(known) = find()? {
        return Ok(known);
    }
    server.query(Lane::Durable, ADD, &params)?;
    Ok(find()?.unwrap_or_default())
}

/// As [`source`], of fields that are read.
///
/// # Errors
/// As [`source`].
pub(super) fn of_fields(
    server: &Server,
    context: i32,
    fields: &[Pointer],
) -> Result<i32, ServerFault> {
    let pointers: Vec<_> = fields.iter().map(Pointer::to_string).collect();
    source(server, context, &pointers)
}

/// Whether there are answers of an account among those that were stored first, a second's worth at most.
///
/// # Errors
/// The server is away.
pub(super) fn has_answers(server: &Server, context: i32) -> Result<bool, ServerFault> {
    const FIND: &str = "SELECT 1 FROM (SELECT source FROM rescore.answers LIMIT $1) AS a
        WHERE a.source IN (SELECT id FROM rescore.captured_fields WHERE context = $2) LIMIT 1";
    let params: [_; 2] = [(&LOOKED_AT as _, Type::INT8), (&context as _, Type::INT4)];
    Ok(!server.query(Lane::Quick, FIND, &params)?.is_empty())
}

/// Looks for answers of an account that are no older and lack fields that a run asks for. Those that were stored first are
/// looked at, a second's worth at most; `None` if none of them does.
///
/// # Errors
/// The server is away.
pub(super) fn lacking(
    server: &Server,
    context: i32,
    requested: &[Pointer],
    not_before: i64,
) -> Result<Option<LackingAnswers>, ServerFault> {
    const LISTS: &str = "SELECT id, pointers FROM rescore.captured_fields WHERE context = $1";
    const COUNT: &str = "SELECT a.source, count(*) FILTER (WHERE a.at >= $1), count(*)
        FROM (SELECT source, at FROM rescore.answers LIMIT $2) AS a GROUP BY a.source";
    let requested: Vec<_> = requested.iter().map(Pointer::to_string).collect();
    let mut lacked = HashMap::new();
    for row in server.query(Lane::Quick, LISTS, &[(&context as _, Type::INT4)])? {
        let list: Vec<String> = serde_json::from_str(row.get(1)).unwrap_or_default();
        let lacks: Vec<_> = { requested.iter() }
            .filter(|field| !list.contains(field))
            .collect();
        if !lacks.is_empty() {
            lacked.insert(row.get::<_, i32>(0), lacks);
        }
    }
    if lacked.is_empty() {
        return Ok(None);
    }
    let params: [_; 2] = [
        (&not_before as _, Type::INT8),
        (&LOOKED_AT as _, Type::INT8),
    ];
    let (mut answers, mut looked_at, mut fields) = (0, 0, BTreeSet::<&String>::new());
    for row in server.query(Lane::Quick, COUNT, &params)? {
        looked_at += row.get::<_, i64>(2);
        let (lacks, of_source) = (lacked.get(&row.get(0)), row.get::<_, i64>(1));
        if let Some(lacks) = lacks.filter(|_| of_source > 0) {
            answers += of_source;
            fields.extend(lacks);
        }
    }
    let is_whole = looked_at < LOOKED_AT;
    let count = u64::try_from(answers).ok().filter(|_| is_whole);
    let of_run = { requested.iter() }.filter(|field| fields.contains(field));
    Ok((answers > 0).then(|| LackingAnswers {
        answers: count,
        fields: of_run.cloned().collect(),
    }))
}

/// The lists of fields that were read, by the numbers of sources.
#[derive(Default)]
pub(super) struct FieldLists(HashMap<i64, Vec<String>>);

impl FieldLists {
    /// The list of a source; empty for one that is not there.
    ///
    /// # Errors
    /// The server is away.
    pub(super) fn of(&mut self, server: &Server, source: i64) -> Result<Vec<String>, ServerFault> {
        const FIND: &str = "SELECT pointers FROM rescore.captured_fields WHERE id = $1";
        if let Some(known) = self.0.get(&source) {
            return Ok(known.clone());
        }
        let rows = server.query(Lane::Quick, FIND, &[(&source, Type::INT8)])?;
        let list = { rows.first() }.and_then(|row| serde_json::from_str(row.get(0)).ok());
        let list: Vec<String> = list.unwrap_or_default();
        self.0.insert(source, list.clone());
        Ok(list)
    }
}
