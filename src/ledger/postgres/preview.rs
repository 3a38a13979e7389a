//! What a run that starts now would find in a ledger on a server: read without changing anything.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::contact::ServerContact;
use super::fault::AtStart;
use super::ledger::ServerLedger;
use super::lookup::{ServerJudge, ServerLookup};
use super::server::RUN_PATIENCE;
use super::{limits, open, sources};
use crate::base::error::Result;
use crate::ledger::access::several_accounts;
use crate::ledger::clock::LedgerClock;
use crate::ledger::judge::JudgeScope;
use crate::ledger::known_limit::KnownLimit;
use crate::ledger::named_ledger::ServerSettings;
use crate::ledger::request_key::RequestHasher;
use crate::ledger::settings::{PreviewSettings, Reuse};
use crate::raw_json::Pointer;

/// What a run would find in a ledger on a server.
pub(in crate::ledger) struct ServerPreview {
    pub(in crate::ledger) lookup: ServerLookup,
    pub(in crate::ledger) hasher: RequestHasher,
    /// The address whose answers are found; `None` if there are answers of none.
    pub(in crate::ledger) endpoint: Option<String>,
    pub(in crate::ledger) known_limit: Option<KnownLimit>,
    /// Whether the run continues one that was stopped.
    pub(in crate::ledger) continues: bool,
    /// The addresses that it has answers of instead.
    pub(in crate::ledger) others: Vec<String>,
}

/// Opens a ledger as the run to the given output would see it, or to a new one.
///
/// # Errors
/// Exit code 2: it cannot be used, or has answers of several accounts and none was named. Exit code 3: the server does not
/// answer.
pub(in crate::ledger) fn open_preview(
    on: &ServerSettings,
    settings: &PreviewSettings<'_>,
) -> Result<ServerPreview> {
    let ledger = ServerLedger::open(on, RUN_PATIENCE)?;
    let secret = ledger.secret(on)?;
    let (server, now) = (Arc::new(ledger.server), ledger.now);
    let url = server.shown();
    let mut contexts = sources::contexts(&server).at_start("read", &url)?;
    let answered = |contexts| sources::answered(&server, contexts).at_start("read", &url);
    let given = { settings.account }
        .map(|account| RequestHasher::new(secret.bytes(), account.endpoint, account.service_id));
    let context = if let Some(given) = &given {
        let same = contexts.iter().position(|it| {
            let other = it.hasher(&secret);
            other.is_some_and(|other| other.context() == given.context())
        });
        same.map(|at| contexts.swap_remove(at))
    } else {
        if contexts.len() > 1 {
            contexts = answered(contexts)?;
        }
        if contexts.len() > 1 {
            let endpoints = contexts.iter().map(|it| it.endpoint.as_str());
            return Err(several_accounts(&url, endpoints));
        }
        contexts.pop()
    };
    let others = match context {
        Some(_) => Vec::new(),
        None => answered(contexts)?,
    };
    let hasher = given.or_else(|| context.as_ref().and_then(|only| only.hasher(&secret)));
    let hasher = hasher.unwrap_or_else(RequestHasher::of_pass);
    let reuse = settings.freshness.map_or(Reuse::All, Reuse::Recent);
    let plan = open::plan(&server, (&hasher, settings.output), reuse, now);
    let (run, stopped) = plan.at_start("read", &url)?;
    let known_limit = match &context {
        Some(context) => limits::known(&server, context.id, SystemTime::now()),
        None => Ok(None),
    };
    let scope = JudgeScope {
        started: run.started,
        not_before: run.not_before,
        leftover: false,
        ages: settings.freshness.is_some(),
        clock: LedgerClock::at(now),
        fields: settings.captured.iter().map(Pointer::to_string).collect(),
    };
    Ok(ServerPreview {
        hasher,
        endpoint: context.map(|context| context.endpoint),
        known_limit: known_limit.at_start("read", &url)?,
        continues: stopped.is_some(),
        others: others.into_iter().map(|it| it.endpoint).collect(),
        // Nobody waits for a server that is away only to look.
        lookup: ServerLookup::new(
            server,
            Arc::new(ServerContact::new(Duration::ZERO)),
            ServerJudge::new(scope, Arc::default()),
        ),
    })
}
