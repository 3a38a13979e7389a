//! The arguments of `rescore ledger`.
//!
//! No message repeats what was typed about a user: somebody else may read it.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};

use super::values::{self, Map, Set};
use crate::base::encoding::TextEncoding;
use crate::base::error::{Error, Result};
use crate::config::{AdminConfig, AdminTask, ForgetTarget};
use crate::fields::{Assignments, InvalidPhone, PerField, PhoneRegion, PhoneRules, UserRequest};
use crate::input::{FileSettings, FormatChoice, Input, ReaderSettings};
use crate::layout::{AddedColumns, Existing};
use crate::selection::Selection;
use crate::verdict::{Failure, Reason};

#[derive(Debug, Subcommand)]
pub(super) enum LedgerCommand {
    /// Show what is in a ledger
    Stats(StatsArgs),
    /// Remove old answers
    Prune(PruneArgs),
    /// Remove all answers about a user, the users of a file, or everybody, leaving no trace in the ledger
    Forget(Box<ForgetArgs>),
}

#[derive(Debug, Args)]
pub(super) struct StatsArgs {
    /// The ledger: a file given to `--ledger`, or an OUTPUT.ledger
    file: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct PruneArgs {
    /// The ledger: a file given to `--ledger`, or an OUTPUT.ledger
    file: PathBuf,
    /// Remove answers that are older than this, such as `30d`
    #[arg(long, value_name = "TIME", value_parser = values::age)]
    older_than: Duration,
    /// Wait up to this long for a run that is using the ledger, such as `10m`
    #[arg(long, value_name = "TIME", value_parser = values::patience)]
    wait_lock: Option<Duration>,
}

#[derive(Debug, Args)]
#[allow(clippy::doc_markdown, reason = "these comments are the help's text")]
pub(super) struct ForgetArgs {
    /// The ledger: a file given to `--ledger`, or an OUTPUT.ledger
    file: PathBuf,
    /// Forget the users of this file, read like the input of `run`; `-` is standard input, so that no personal data
    /// need be an argument
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
    /// Take a field from this column of that file, as in `run` (repeatable)
    #[arg(long, value_name = "FIELD=COLUMN", value_delimiter = '\n', value_parser = values::map)]
    map: Vec<Map>,
    /// Use the same value for a field in every row of that file, as in `run` (repeatable)
    #[arg(long, value_name = "FIELD=VALUE", value_delimiter = '\n', value_parser = values::set)]
    set: Vec<Set>,
    /// Read phone numbers that are not international as dialled in this region, as in `run`
    #[arg(long, value_name = "CODE", value_parser = values::phone_region)]
    phone_region: Option<PhoneRegion>,
    /// Take the region of such phone numbers from this column of that file, as in `run`
    #[arg(long, value_name = "COLUMN", value_parser = values::column_name, requires = "users")]
    phone_region_column: Option<String>,
    /// Encoding of that file, as in `run`
    #[arg(long, value_parser = values::encoding, requires = "users")]
    encoding: Option<TextEncoding>,
    /// That file has no header, and `--map` takes column numbers, as in `run`
    #[arg(long, requires = "users")]
    no_header: bool,
    /// Forget everybody
    #[arg(long)]
    all: bool,
    /// Wait up to this long for a run that is using the ledger, such as `10m`
    #[arg(long, value_name = "TIME", value_parser = values::patience)]
    wait_lock: Option<Duration>,

    /// The user's name
    #[arg(long, help_heading = USER)]
    name: Option<String>,
    /// The user's email address, if it was sent
    #[arg(long, help_heading = USER)]
    email: Option<String>,
    /// The user's phone number, if it was sent
    #[arg(long, help_heading = USER)]
    phone: Option<String>,
    /// The user's IP address
    #[arg(long, help_heading = USER)]
    ip: Option<String>,
    /// The user agent
    #[arg(long, help_heading = USER)]
    user_agent: Option<String>,
}

const USER: &str = "One user";

/// The longest record of a file of users, as in `run`.
const LONGEST_RECORD: usize = 16 * 1024 * 1024;

impl LedgerCommand {
    pub(super) fn into_config(self) -> Result<AdminConfig> {
        Ok(match self {
            Self::Stats(StatsArgs { file }) => AdminConfig {
                wait_lock: None,
                task: AdminTask::Stats(file),
            },
            Self::Prune(arguments) => AdminConfig {
                wait_lock: arguments.wait_lock,
                task: AdminTask::Prune {
                    ledger: arguments.file,
                    older_than: arguments.older_than,
                },
            },
            Self::Forget(arguments) => AdminConfig {
                wait_lock: arguments.wait_lock,
                task: AdminTask::Forget {
                    ledger: arguments.file.clone(),
                    target: arguments.target()?,
                },
            },
        })
    }
}

impl ForgetArgs {
    fn target(self) -> Result<ForgetTarget> {
        let user = PerField {
            name: self.name.clone(),
            email: self.email.clone(),
            phone: self.phone.clone(),
            ip: self.ip.clone(),
            user_agent: self.user_agent.clone(),
        };
        let fields = user != PerField::default();
        if self.users.is_none() && !(self.map.is_empty() && self.set.is_empty()) {
            return Err(Error::usage("`--map` and `--set` need `--users`"));
        }
        match (fields, &self.users, self.all) {
            (true, None, false) => one(&user, self.phone_region),
            (false, Some(users), false) => {
                let users = many(users, &self)?;
                Ok(ForgetTarget::Users(Box::new(users)))
            }
            (false, None, true) => Ok(ForgetTarget::Everybody),
            (false, None, false) => Err(Error::usage(
                "specify whom to forget: `--users`, the fields of one user, or `--all`",
            )
            .hint("give `--users FILE`, `--all`, or `--name`, `--email`, `--phone`, `--ip` and `--user-agent` as they were sent")),
            _ => Err(Error::usage(
                "`--users`, the fields of one user and `--all` cannot be combined",
            )
            .hint("give one of them")),
        }
    }
}

/// One user, by the rules of a run: a ledger cannot have answers about a user that no run can have sent.
fn one(user: &PerField<Option<String>>, region: Option<PhoneRegion>) -> Result<ForgetTarget> {
    let find = |field| Ok(user.get(field).clone().map(Cow::Owned));
    let phones = PhoneRules {
        region,
        invalid: InvalidPhone::Reject,
    };
    UserRequest::new(find, phones, || None)
        .map(|request| ForgetTarget::User(Box::new(request)))
        .map_err(|failure| refused(&failure))
}

/// The rule that a user breaks, without the value that breaks it.
fn refused(failure: &Failure) -> Error {
    let rule = match failure.reason {
        Reason::InvalidIp => "`--ip` is neither IPv4 nor IPv6",
        Reason::InvalidEmail => "`--email` is not an email address",
        Reason::InvalidPhone => "`--phone` is not an international phone number",
        // These name a field and no value.
        _ => &*failure.message,
    };
    let hint = match failure.reason {
        Reason::InvalidPhone => {
            "give the `--phone-region` of the run, if it had one; leave out `--phone` if it had `--invalid-phone drop`, which does not send it"
        }
        _ => {
            "give the fields as they were sent: name, IP address and user agent, with an email address, a phone number or both"
        }
    };
    Error::usage(format!("no run can have sent this user: {rule}")).hint(hint)
}

/// How the file of users is read.
fn many(users: &Path, arguments: &ForgetArgs) -> Result<ReaderSettings> {
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
            input: if users == Path::new("-") {
                Input::Stdin
            } else {
                Input::File(users.to_owned())
            },
            format: FormatChoice::Detect,
            encoding: arguments.encoding.unwrap_or_default(),
            delimiter: None,
            no_header: arguments.no_header,
            max_record: LONGEST_RECORD,
        },
        assignments,
        phones: PhoneRules {
            region: arguments.phone_region,
            // A run that rejects such a row has no answer for it; one that drops the number does.
            invalid: InvalidPhone::Drop,
        },
        existing: Existing::Replace,
        // Nothing is written, so there are no columns of ours.
        columns: AddedColumns::none(),
        // A row that cannot have been sent does no harm here.
        judges_first_rows: false,
        selection: Selection::default(),
    })
}
