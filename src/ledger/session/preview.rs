//! What a run that starts now would find in a ledger: read without a lock, beside runs that use it, and without changing
//! anything.
//!
//! A shared ledger is seen as the run to the given output would see it, which may continue a stopped run. A run's own
//! ledger is seen as the next run to that output would: one that continues a stopped run, or that retries the failed rows of
//! a finished run.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rusqlite::Connection;

use super::plan::{RunContext, RunPlan};
use crate::base::error::{Result, shown};
use crate::ledger::access::{cannot_open, existing, is_not_made_yet, several_accounts};
use crate::ledger::clock::{LedgerClock, millis};
use crate::ledger::db::connect::{Connect, Mode};
use crate::ledger::db::contexts::LedgerContext;
use crate::ledger::db::request_reader::ReadScope;
use crate::ledger::db::runs::{PreviousRun, RunRecord};
use crate::ledger::db::schema::LedgerInfo;
use crate::ledger::db::{answers, contexts, header, limits, schema};
use crate::ledger::file::{LedgerKind, output_of};
use crate::ledger::ledger_preview::{LedgerPreview, PreviewedRun};
use crate::ledger::lookup::Lookup;
use crate::ledger::request_key::RequestHasher;
use crate::ledger::settings::{PreviewSettings, Reuse};
use crate::raw_json::Pointer;

/// The account that is looked for.
struct FoundAccount {
    hasher: RequestHasher,
    /// `None` if the ledger has nothing of it.
    context: Option<i64>,
    endpoint: Option<String>,
    others: Vec<String>,
}

/// Opens a ledger; `None` if there is none yet, and the first run would make it.
///
/// # Errors
/// Exit code 2: its directory is missing, or it is not a ledger, of another version, damaged, or has answers of several accounts and none
/// was named.
pub(crate) fn preview(settings: &PreviewSettings<'_>) -> Result<Option<LedgerPreview>> {
    let path = settings.ledger;
    if is_not_made_yet(path) {
        return Ok(None);
    }
    let real = existing(path)?;
    let own = header::check(&real)? == Some(LedgerKind::Own);
    let unreadable = |error| cannot_open(path, &error);
    let connection = Connect::to(Mode::Inspect).open(&real).map_err(unreadable)?;
    schema::check_soundness(&connection, &real).map_err(unreadable)?;
    let info = LedgerInfo::read(&connection).map_err(unreadable)?;
    let contexts = contexts::all(&connection, info.checksums()).map_err(unreadable)?;
    let mut answered = HashSet::new();
    for context in &contexts {
        if answers::any_of(&connection, context.id).map_err(unreadable)? {
            answered.insert(context.id);
        }
    }
    let account = FoundAccount::of(settings, path, &info, (contexts, &answered))?;

    let now = SystemTime::now();
    let known_limit = account
        .context
        .map(|context| limits::known(&connection, info.checksums(), context, now));
    let known_limit = known_limit.transpose().map_err(unreadable)?.flatten();
    let outputs: Vec<_> = if own {
        { [path, &real].into_iter() }
            .filter_map(output_of)
            .collect()
    } else {
        settings.output.map(Path::to_owned).into_iter().collect()
    };
    let own = own && !outputs.is_empty();
    let (plan, run) = plan(
        &connection,
        &info,
        &account.hasher,
        (&outputs, own),
        settings,
        now,
    )
    .map_err(unreadable)?;
    let scope = ReadScope {
        checksums: info.checksums(),
        latest: Arc::default(),
        hasher: account.hasher.clone(),
        run: plan.run,
        ages: matches!(plan.reuse, Reuse::Recent(_)),
        clock: LedgerClock::at(millis(now)),
        fields: settings.captured.iter().map(Pointer::to_string).collect(),
    };
    Ok(Some(LedgerPreview {
        lookup: Lookup::inspect(&real, &scope)?,
        hasher: account.hasher,
        endpoint: account.endpoint,
        known_limit,
        run,
        others: account.others,
    }))
}

impl FoundAccount {
    fn of(
        settings: &PreviewSettings<'_>,
        path: &Path,
        info: &LedgerInfo,
        (mut contexts, answered): (Vec<LedgerContext>, &HashSet<i64>),
    ) -> Result<Self> {
        let is_answered = |it: &LedgerContext| answered.contains(&it.id);
        let Some(account) = settings.account else {
            if contexts.len() > 1 {
                contexts.retain(is_answered);
            }
            if contexts.len() > 1 {
                return Err(several_accounts(
                    &shown(path),
                    contexts.iter().map(|it| it.endpoint.as_str()),
                ));
            }
            let only = contexts.pop();
            return Ok(Self {
                context: only.as_ref().map(|it| it.id),
                endpoint: only.as_ref().map(|it| it.endpoint.clone()),
                hasher: only.map_or_else(RequestHasher::of_pass, |it| it.hasher),
                others: Vec::new(),
            });
        };
        let hasher = RequestHasher::new(&info.secret, account.endpoint, account.service_id);
        let context = { contexts.iter() }
            .find(|it| it.hasher.context() == hasher.context())
            .map(|it| it.id);
        let others = match context {
            Some(_) => Vec::new(),
            None => { contexts.into_iter().filter(is_answered) }
                .map(|it| it.endpoint)
                .collect(),
        };
        Ok(Self {
            hasher,
            context,
            endpoint: context.map(|_| account.endpoint.to_owned()),
            others,
        })
    }
}

/// The plan of the run to come to one of these outputs; `own`: the ledger is its own.
fn plan(
    connection: &Connection,
    info: &LedgerInfo,
    hasher: &RequestHasher,
    (outputs, own): (&[PathBuf], bool),
    settings: &PreviewSettings<'_>,
    now: SystemTime,
) -> rusqlite::Result<(RunPlan, PreviewedRun)> {
    let mut found = None;
    for output in outputs {
        let name = hasher.run(Some(output));
        if found.is_none() {
            found = RunRecord::find(connection, info.checksums(), name)?;
        }
    }
    let is_finished = matches!(found, Some((_, PreviousRun::Finished { .. })));
    let run = match found {
        Some(_) if !is_finished => PreviewedRun::Continued,
        Some(_) if own => PreviewedRun::Retry,
        // Another run to the output of a finished one uses the answers that every run uses.
        _ => PreviewedRun::New,
    };
    let reuse = match settings.freshness {
        _ if is_finished && (own || settings.resumes_finished) => Reuse::Retry,
        Some(freshness) => Reuse::Recent(freshness),
        None => Reuse::All,
    };
    let context = RunContext {
        // A new run is not recorded here.
        name: hasher.run(None),
        found,
        reuse,
        own,
        any: answers::any(connection)?,
    };
    Ok((RunPlan::make(connection, &context, now)?, run))
}
