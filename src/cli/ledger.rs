//! The arguments of `rescore ledger`.
//!
//! No message repeats what was typed about a user: another person may read it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};

use super::fields::FieldArgs;
use super::files::FormatArgs;
use super::settings::SettingsArgs;
use crate::base::error::{Error, Result};
use crate::base::numbers::DAY;
use crate::config::values;
use crate::config::{AdminConfig, AdminTask};
use crate::fields::Invalid;
use crate::input::{Input, ReaderSettings};
use crate::layout::AddedColumns;
use crate::ledger::{LedgerLocation, Per};
use crate::selection::Selection;

#[derive(Debug, Subcommand)]
pub(super) enum LedgerCommand {
    /// Make a ledger in a PostgreSQL database, which runs on several machines can share
    Init {
        /// Its address, as `postgresql://USER@HOST/DATABASE`
        #[arg(env = "RESCORE_LEDGER")]
        url: PathBuf,
    },
    /// Show what is in a ledger, and what was spent
    Stats {
        /// The ledger [default: your own]
        #[arg(env = "RESCORE_LEDGER")]
        ledger: Option<PathBuf>,
        /// Show what was spent by month or by day, in UTC
        #[arg(long, value_parser = values::one_of(PERIODS), default_value = "month")]
        by: Per,
        #[command(flatten)]
        settings: SettingsArgs,
    },
    /// Copy a ledger, also while runs use it, or add what another copy of it lacks
    Copy {
        /// The ledger to copy: a file, or the address of a server; also one of the version before
        from: PathBuf,
        /// Where to: a file, which need not exist, or a database where `rescore ledger init` has made a ledger
        to: PathBuf,
        /// Wait up to this long for a run that is using the second ledger, such as `10m`
        #[arg(long, value_name = "TIME", value_parser = values::patience)]
        wait_lock: Option<Duration>,
    },
    /// Remove old answers
    Prune {
        /// The ledger [default: your own]
        #[arg(env = "RESCORE_LEDGER")]
        ledger: Option<PathBuf>,
        /// Remove answers that are older than this, such as `400d`
        #[arg(long, value_name = "TIME", value_parser = values::age)]
        older_than: Duration,
        /// Also remove more than a hundred answers, or more than one in a hundred, or those of the last day
        #[arg(long)]
        yes: bool,
        /// Wait up to this long for a run that is using the ledger, such as `10m`
        #[arg(long, value_name = "TIME", value_parser = values::patience)]
        wait_lock: Option<Duration>,
        #[command(flatten)]
        settings: SettingsArgs,
    },
    /// Remove all answers about the users of a file, leaving no trace in the ledger
    Forget(Box<ForgetArgs>),
}

#[derive(Debug, Args)]
pub(super) struct ForgetArgs {
    /// Forget the users of this file, read like the input of `run`; `-` is standard input, so that no personal data
    /// need be an argument
    users: PathBuf,
    /// The file may have only some of the fields, such as emails: forget those users of this input who have its values
    #[arg(long, value_name = "INPUT", value_parser = values::file())]
    from: Option<PathBuf>,
    /// Also if there are more than a hundred answers about them, or more than one in a hundred of the ledger's
    #[arg(long)]
    yes: bool,
    /// The ledger [default: your own]
    #[arg(long, value_name = "FILE", env = "RESCORE_LEDGER", value_parser = values::file())]
    ledger: Option<PathBuf>,
    #[command(flatten)]
    fields: FieldArgs,
    #[command(flatten)]
    format: FormatArgs,
    /// Wait up to this long for a run that is using the ledger, such as `10m`
    #[arg(long, value_name = "TIME", value_parser = values::patience)]
    wait_lock: Option<Duration>,
    #[command(flatten)]
    settings: SettingsArgs,
}

/// The words of `--by`.
const PERIODS: &[(&str, Per)] = &[("month", Per::Month), ("day", Per::Day)];

impl LedgerCommand {
    pub(super) fn into_config(self, json: bool) -> Result<AdminConfig> {
        let (ledger, wait_lock, task) = match self {
            Self::Init { url } => (Some(url), None, AdminTask::Init),
            Self::Copy {
                from,
                to,
                wait_lock,
            } => {
                let to = LedgerLocation::named(&to)?;
                (Some(from), wait_lock, AdminTask::Copy(to))
            }
            Self::Stats { ledger, by, .. } => (ledger, None, AdminTask::Stats(by)),
            Self::Prune {
                ledger,
                older_than,
                yes,
                wait_lock,
                ..
            } => {
                // What is younger is hardly meant to be removed.
                if older_than < DAY && !yes {
                    return Err(Error::usage(
                        "answers of the last day would be removed, and runs that need them would pay for them again",
                    )
                    .hint("give `--older-than 1d` or more, or add `--yes`"));
                }
                (ledger, wait_lock, AdminTask::Prune { older_than, yes })
            }
            Self::Forget(forget) => {
                let named = users(&forget, &forget.users)?;
                let (users, list) = match &forget.from {
                    None => (named, None),
                    Some(input) => (users(&forget, input)?, Some(Box::new(named.of_list()))),
                };
                let (users, yes) = (Box::new(users), forget.yes);
                let task = AdminTask::Forget { users, list, yes };
                (forget.ledger, forget.wait_lock, task)
            }
        };
        let ledger = ledger.as_deref().map(LedgerLocation::named);
        Ok(AdminConfig {
            ledger: ledger.transpose()?,
            wait_lock,
            json,
            task,
        })
    }
}

/// How the file of users is read.
fn users(arguments: &ForgetArgs, file: &Path) -> Result<ReaderSettings> {
    let mut rules = arguments.fields.rules()?;
    // A run that rejects such a row has no answer for it; one that drops the value does.
    if rules.invalid == Invalid::Reject {
        rules.invalid = Invalid::Drop;
    }
    let input = match file {
        stdin if stdin == Path::new("-") => Input::Stdin,
        file => Input::File(file.to_owned()),
    };
    Ok(ReaderSettings {
        file: arguments.format.file(input)?,
        assignments: arguments.fields.assignments()?,
        rules,
        // Nothing is written, so no columns are added.
        columns: AddedColumns::default(),
        // A row that cannot have been sent does no harm here.
        judges_first_rows: false,
        notes_quality: false,
        refuses_cut: false,
        selection: Selection::default(),
        only: Vec::new(),
        key: None,
        scored: None,
    })
}
