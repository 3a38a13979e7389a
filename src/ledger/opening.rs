//! What a run finds in a ledger when it opens it, wherever that is. No database is opened here.

use std::path::PathBuf;

use super::account::{self, FoundAccount};
use super::clock::time;
use super::database::Database;
use super::key::RequestHasher;
use super::known_limit::KnownLimit;
use super::outcome::Scope;
use super::run::RunPlan;
use super::settings::{LedgerSettings, Reuse};
use crate::base::error::{Error, Result};

/// Answers older than this are said to be old, unless a setting says how old they may be: 30 days, in milliseconds.
const AGED: i64 = 30 * 24 * 60 * 60 * 1_000;

/// What is known of a ledger that is open for a run.
pub(crate) struct LedgerFacts {
    /// Whether the ledger was there when it was opened.
    pub(crate) existed: bool,
    /// Where it is, for people; `None` for one that is gone with the run.
    pub(crate) place: Option<PathBuf>,
    /// What is known of the run.
    pub(crate) run: RunPlan,
    /// Answers of this address and service ID that the run may use.
    pub(crate) usable: u64,
    /// Those that are too old for it.
    pub(crate) too_old: u64,
    /// The limit that an earlier run found, unless that was too long ago.
    pub(crate) known_limit: Option<KnownLimit>,
    /// The addresses whose answers it has, if it has none of this address and service ID.
    pub(crate) other_accounts: Vec<String>,
}

/// What a run of some settings finds.
pub(crate) struct Opening {
    /// Makes the keys that answers are found by.
    pub(crate) hasher: RequestHasher,
    /// The row of the account, where there is one.
    pub(super) account: i64,
    /// The address whose answers are found; `None` if there are answers of none.
    pub(crate) endpoint: Option<String>,
    /// What the run knows.
    pub(crate) facts: LedgerFacts,
    /// What of the stored answers is of use to the run.
    pub(super) scope: Scope,
}

impl Opening {
    /// As [`Self::read`], for a run that starts: its account is added where it is missing.
    ///
    /// # Errors
    /// As there; and the ledger cannot be written.
    pub(super) fn of_run<D: Database>(
        database: &mut D,
        secret: &[u8; 32],
        settings: &LedgerSettings,
        place: String,
        error: impl Fn(D::Fault) -> Error,
    ) -> Result<Self> {
        if let Some(account) = &settings.account {
            account::add(database, secret, account).map_err(&error)?;
        }
        Self::read(database, secret, settings, place, error)
    }

    /// Reads what a run of these settings finds, with its files in this place. `error` makes an error of a fault.
    ///
    /// # Errors
    /// The ledger cannot be read. Exit code 2: it has answers of several accounts, and none was named.
    pub(super) fn read<D: Database>(
        database: &mut D,
        secret: &[u8; 32],
        settings: &LedgerSettings,
        place: String,
        error: impl Fn(D::Fault) -> Error,
    ) -> Result<Self> {
        let accounts = account::accounts(database).map_err(&error)?;
        let ledger = settings.location.shown();
        let found = FoundAccount::of(settings.account.as_ref(), accounts, secret, &ledger)?;
        let run = RunPlan::read(database, secret, settings, place).map_err(&error)?;
        let recent = recent(database, run.not_before).map_err(&error)?;
        let answers = { found.stored.as_ref() }.map_or(0, |account| account.answers);
        let limit = found.stored.as_ref().and_then(|account| account.limit);
        let scope = Scope {
            not_before: run.not_before,
            failures_from: run.failures_from,
            started: run.started,
            aged_before: match settings.reuse {
                Reuse::Recent(_) => i64::MIN,
                _ => run.now.saturating_sub(AGED),
            },
            read: settings.read.clone(),
        };
        Ok(Self {
            hasher: found.hasher,
            account: found.stored.map_or(0, |account| account.id),
            endpoint: found.endpoint,
            facts: LedgerFacts {
                existed: true,
                place: settings.location.path(),
                usable: answers.min(recent),
                too_old: answers.saturating_sub(recent),
                known_limit: limit.filter(|limit| limit.is_recent(time(run.now))),
                other_accounts: found.others,
                run,
            },
            scope,
        })
    }
}

/// How many answers of all accounts arrived since then, or some more where places are empty: they are in the order in which they
/// arrived, so that the first of them is found by halves.
fn recent<D: Database>(database: &mut D, not_before: i64) -> Result<u64, D::Fault> {
    if not_before == i64::MIN {
        return Ok(u64::MAX);
    }
    let mut number = |query: &str| {
        let rows = database.read(query)?;
        let number = rows.first().map(|row| row.get::<i64>(0)).transpose()?;
        Ok::<_, D::Fault>(number.unwrap_or(0))
    };
    let last = number("SELECT seq FROM answers ORDER BY seq DESC LIMIT 1")?;
    let (mut first, mut behind) = (0, last.saturating_add(1));
    while first < behind {
        let middle = first + (behind - first) / 2;
        let at = format!("SELECT at FROM answers WHERE seq >= {middle} ORDER BY seq LIMIT 1");
        if number(&at)? < not_before {
            first = middle + 1;
        } else {
            behind = middle;
        }
    }
    Ok(last.saturating_sub(first).saturating_add(1).cast_unsigned())
}
