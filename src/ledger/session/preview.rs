//! What a run that starts now would find in a ledger: read without a lock, beside runs that use it, and without changing
//! anything.
//!
//! A shared ledger is seen as a new run would see it. A run's own ledger is seen as the next run to that output would: one
//! that continues a stopped run, or that retries the failed rows of a finished run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rusqlite::Connection;

use super::plan::{RunContext, RunPlan};
use crate::base::error::{Error, Result, shown};
use crate::ledger::access::{cannot_open, existing, is_not_made_yet};
use crate::ledger::db::connect::{Connect, Mode};
use crate::ledger::db::contexts::LedgerContext;
use crate::ledger::db::request_reader::ReadScope;
use crate::ledger::db::runs::{PreviousRun, RunRecord};
use crate::ledger::db::schema::LedgerInfo;
use crate::ledger::db::{answers, contexts, header, limits, schema};
use crate::ledger::file::{LedgerKind, output_of};
use crate::ledger::known_limit::KnownLimit;
use crate::ledger::lookup::Lookup;
use crate::ledger::request_key::RequestHasher;
use crate::ledger::settings::{PreviewSettings, Reuse};
use crate::raw_json::Pointer;

/// What a run would find in a ledger.
pub(crate) struct LedgerPreview {
    /// Finds answers.
    pub(crate) lookup: Lookup,
    /// Makes the keys that they are found by.
    pub(crate) hasher: RequestHasher,
    /// The address whose answers are found; `None` if there are answers of none.
    pub(crate) endpoint: Option<String>,
    /// The limit that an earlier run found.
    pub(crate) known_limit: Option<KnownLimit>,
    /// Which run would use it.
    pub(crate) run: PreviewedRun,
    /// The addresses whose answers the ledger has instead, if it has none of the given account.
    pub(crate) others: Vec<String>,
}

/// Which run would use a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PreviewedRun {
    /// The one that makes it.
    First,
    /// Any new one.
    New,
    /// The one that was stopped and continues.
    Continued,
    /// One that retries what failed in the finished one.
    Retry,
}

/// The account that is looked for.
struct FoundAccount {
    hasher: RequestHasher,
    /// `None` if the ledger has nothing of it.
    context: Option<i64>,
    endpoint: Option<String>,
    others: Vec<String>,
}

impl LedgerPreview {
    /// Opens a ledger; `None` if there is none yet, and the first run would make it.
    ///
    /// # Errors
    /// Exit code 2: its directory is missing, or it is not a ledger, of another version, damaged, or has answers of several accounts and none
    /// was named.
    pub(crate) fn open(settings: &PreviewSettings<'_>) -> Result<Option<Self>> {
        let path = settings.path;
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
        let account = FoundAccount::of(settings, &info, contexts)?;

        let now = SystemTime::now();
        let known_limit = account
            .context
            .map(|context| limits::known(&connection, info.checksums(), context, now));
        let known_limit = known_limit.transpose().map_err(unreadable)?.flatten();
        let outputs = [path, &real].map(|path| output_of(path).filter(|_| own));
        let outputs: Vec<_> = outputs.into_iter().flatten().collect();
        let (plan, run) = plan(&connection, &info, &account.hasher, &outputs, settings, now)
            .map_err(unreadable)?;
        let scope = ReadScope {
            checksums: info.checksums(),
            latest: Arc::default(),
            hasher: account.hasher.clone(),
            run: plan.run,
            ages: matches!(plan.reuse, Reuse::Younger(_)),
            fields: settings.captured.iter().map(Pointer::to_string).collect(),
        };
        Ok(Some(Self {
            lookup: Lookup::inspect(&real, &scope)?,
            hasher: account.hasher,
            endpoint: account.endpoint,
            known_limit,
            run,
            others: account.others,
        }))
    }
}

impl FoundAccount {
    fn of(
        settings: &PreviewSettings<'_>,
        info: &LedgerInfo,
        mut contexts: Vec<LedgerContext>,
    ) -> Result<Self> {
        let Some(account) = settings.account else {
            if contexts.len() > 1 {
                return Err(several(settings.path, &contexts));
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
            None => contexts.into_iter().map(|it| it.endpoint).collect(),
        };
        Ok(Self {
            hasher,
            context,
            endpoint: context.map(|_| account.endpoint.to_owned()),
            others,
        })
    }
}

/// The plan of the run to come.
fn plan(
    connection: &Connection,
    info: &LedgerInfo,
    hasher: &RequestHasher,
    outputs: &[PathBuf],
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
    let run = match found {
        None => PreviewedRun::New,
        Some((_, PreviousRun::Finished { .. })) => PreviewedRun::Retry,
        Some(_) => PreviewedRun::Continued,
    };
    let reuse = match (run, settings.max_age) {
        (PreviewedRun::Retry, _) => Reuse::Retry,
        (_, Some(age)) => Reuse::Younger(age),
        (_, None) => Reuse::All,
    };
    let context = RunContext {
        // A new run is not recorded here.
        name: hasher.run(None),
        found,
        reuse,
        own: !outputs.is_empty(),
        any: answers::any(connection)?,
    };
    Ok((RunPlan::make(connection, &context, now)?, run))
}

/// The error for a ledger with the answers of several accounts, of which none was named.
fn several(path: &Path, contexts: &[LedgerContext]) -> Error {
    let error = Error::usage(format!(
        "`{}` has answers of several services or service ids, and none was named",
        shown(path)
    ));
    let mut endpoints: Vec<_> = contexts.iter().map(|it| it.endpoint.as_str()).collect();
    endpoints.sort_unstable();
    endpoints.dedup();
    endpoints
        .into_iter()
        .fold(error, |error, endpoint| error.detail(endpoint.to_owned()))
        .hint("name one as in `run`, with `--base-url URL` and `--service-id ID`")
}
