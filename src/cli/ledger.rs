//! The arguments of `rescore ledger`.
//!
//! No message repeats what was typed about a user: somebody else may read it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};

use super::values::{self, Map, Set};
use crate::base::encoding::TextEncoding;
use crate::base::error::{Error, Result};
use crate::config::{AdminConfig, AdminTask};
use crate::fields::{Assignments, InvalidPhone, PhoneRegion, PhoneRules};
use crate::input::{FileSettings, FormatChoice, Input, ReaderSettings};
use crate::layout::AddedColumns;
use crate::ledger::{self, LedgerLocation};
use crate::selection::Selection;

#[derive(Debug, Subcommand)]
pub(super) enum LedgerCommand {
    /// Make a ledger in a PostgreSQL database, which runs on several machines can share
    Init(InitArgs),
    /// Show what is in a ledger
    Stats(StatsArgs),
    /// Remove old answers
    Prune(PruneArgs),
    /// Remove all answers about the users of a file, leaving no trace in the ledger
    Forget(Box<ForgetArgs>),
}

#[derive(Debug, Args)]
pub(super) struct InitArgs {
    /// Its address, as `postgresql://USER@HOST/DATABASE`
    #[arg(env = "RESCORE_LEDGER", value_hint = clap::ValueHint::Url)]
    url: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct StatsArgs {
    /// The ledger
    #[arg(default_value = ledger::NAME)]
    ledger: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct PruneArgs {
    /// The ledger
    #[arg(default_value = ledger::NAME)]
    ledger: PathBuf,
    /// Remove answers that are older than this, such as `400d`
    #[arg(long, value_name = "TIME", value_parser = values::age)]
    older_than: Duration,
    /// Also remove answers of the last day, which runs that need them pay for again
    #[arg(long)]
    yes: bool,
    /// Wait up to this long for a run that is using the ledger, such as `10m`
    #[arg(long, value_name = "TIME", value_parser = values::patience)]
    wait_lock: Option<Duration>,
}

#[derive(Debug, Args)]
#[allow(clippy::doc_markdown, reason = "these comments are the help's text")]
pub(super) struct ForgetArgs {
    /// Forget the users of this file, read like the input of `run`; `-` is standard input, so that no personal data
    /// need be an argument
    users: PathBuf,
    /// The ledger
    #[arg(long, value_name = "FILE", value_parser = values::file(), default_value = ledger::NAME)]
    ledger: PathBuf,
    /// Take a field from this column, as in `run` (repeatable)
    #[arg(long, value_name = "FIELD=COLUMN", value_delimiter = '\n', value_parser = values::map)]
    map: Vec<Map>,
    /// Use the same value for a field in every row, as in `run` (repeatable)
    #[arg(long, value_name = "FIELD=VALUE", value_delimiter = '\n', value_parser = values::set)]
    set: Vec<Set>,
    /// Read phone numbers that are not international as dialled in this region, as in `run`
    #[arg(long, value_name = "CODE", value_parser = values::phone_region)]
    phone_region: Option<PhoneRegion>,
    /// Take the region of such phone numbers from this column, as in `run`
    #[arg(long, value_name = "COLUMN", value_parser = values::column_name)]
    phone_region_column: Option<String>,
    /// Encoding of the file, as in `run`
    #[arg(long, value_parser = values::encoding)]
    encoding: Option<TextEncoding>,
    /// The file has no header, and `--map` takes column numbers, as in `run`
    #[arg(long)]
    no_header: bool,
    /// Wait up to this long for a run that is using the ledger, such as `10m`
    #[arg(long, value_name = "TIME", value_parser = values::patience)]
    wait_lock: Option<Duration>,
}

/// What is younger is hardly meant to be removed.
const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl LedgerCommand {
    pub(super) fn into_config(self) -> Result<AdminConfig> {
        let (wait_lock, task) = match self {
            Self::Init(init) => (None, AdminTask::Init(LedgerLocation::named(&init.url)?)),
            Self::Stats(stats) => {
                let ledger = LedgerLocation::named(&stats.ledger)?;
                (None, AdminTask::Stats(ledger))
            }
            Self::Prune(PruneArgs {
                ledger,
                older_than,
                yes,
                wait_lock,
            }) => {
                if older_than < A_DAY && !yes {
                    return Err(Error::usage(
                        "answers of the last day would be removed, and runs that need them would pay for them again",
                    )
                    .hint("give `--older-than 1d` or more, or add `--yes`"));
                }
                let ledger = LedgerLocation::named(&ledger)?;
                (wait_lock, AdminTask::Prune { ledger, older_than })
            }
            Self::Forget(forget) => {
                let users = Box::new(users(&forget)?);
                let ledger = LedgerLocation::named(&forget.ledger)?;
                (forget.wait_lock, AdminTask::Forget { ledger, users })
            }
        };
        Ok(AdminConfig { wait_lock, task })
    }
}

/// How the file of users is read.
fn users(arguments: &ForgetArgs) -> Result<ReaderSettings> {
    let mut assignments = Assignments::default();
    for Map(field, template) in arguments.map.clone() {
        assignments.map(field, template)?;
    }
    for Set(field, value) in arguments.set.clone() {
        assignments.set(field, value)?;
    }
    assignments.set_region_column(arguments.phone_region_column.clone());
    Ok(ReaderSettings {
        file: FileSettings {
            input: if arguments.users == Path::new("-") {
                Input::Stdin
            } else {
                Input::File(arguments.users.clone())
            },
            format: FormatChoice::Detect,
            encoding: arguments.encoding.unwrap_or_default(),
            delimiter: None,
            no_header: arguments.no_header,
        },
        assignments,
        phones: PhoneRules {
            region: arguments.phone_region,
            // A run that rejects such a row has no answer for it; one that drops the number does.
            invalid: InvalidPhone::Drop,
        },
        // Nothing is written, so there are no columns of ours.
        columns: AddedColumns::none(),
        // A row that cannot have been sent does no harm here.
        judges_first_rows: false,
        selection: Selection::default(),
        scored: None,
    })
}
