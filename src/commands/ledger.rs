//! `rescore ledger`: what is in a ledger, removing what is old, and forgetting people.
//!
//! The result goes to standard output. It contains no data about people: only numbers and times are known here.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::BytesMut;

use super::files::LockWait;
use super::text::print;
use crate::base::error::{Exit, Result};
use crate::base::text::printable;
use crate::config::{AdminConfig, AdminTask};
use crate::fields::UserRequest;
use crate::input::{Compose, Reader, ReaderSettings};
use crate::ledger::{self, KnownLimit, LEDGER_VERSION, LedgerAdmin, LedgerLocation, StoredAccount};
use crate::observe::{count, counted, moment, most, tell};
use crate::row_state::RowState;
use crate::service::{Plan, write_body};

/// Runs it and prints its result.
///
/// # Errors
/// Exit code 2: the file is not a usable ledger, or a file of users cannot be read; the ledger is as it was. Exit code 3: it
/// cannot be written, or what is in it cannot be printed. Exit code 75: another process is using it.
pub(crate) fn execute(config: AdminConfig) -> Result<Exit> {
    let wait = LockWait::new(config.wait_lock, true);
    let of_user = || ledger::default_file(false).map(LedgerLocation::File);
    let ledger = &config.ledger.map_or_else(of_user, Ok)?;
    match config.task {
        AdminTask::Init => {
            let made = if ledger::init(ledger)? {
                "made the ledger"
            } else {
                "the ledger is there already"
            };
            Ok(done(&format!("{}: {made}", ledger.shown())))
        }
        AdminTask::Stats => print(&stats(ledger)?),
        AdminTask::Prune { older_than } => Ok(done(&prune(ledger, older_than, &wait)?)),
        AdminTask::Forget(users) => forget(ledger, *users, &wait),
    }
}

/// Prints what was done. A failure to print it undoes nothing.
fn done(text: &str) -> Exit {
    let _ = print(text);
    Exit::Complete
}

/// Removes answers that are older; the result as text.
fn prune(ledger: &LedgerLocation, older_than: Duration, wait: &LockWait) -> Result<String> {
    let before = SystemTime::now()
        .checked_sub(older_than)
        .unwrap_or(UNIX_EPOCH);
    let mut admin = wait.until_free(|| LedgerAdmin::open(ledger))?;
    let bytes = admin.stats()?.bytes;
    let removed = admin.prune(before)?;
    admin.rewrite()?;
    let left = admin.stats()?;
    Ok(format!(
        "{}: removed {} from before {}, {} left\n{} before, {} now",
        ledger.shown(),
        counted(removed, "answer"),
        moment(before),
        count(left.answers),
        counted(bytes, "byte"),
        count(left.bytes),
    ))
}

/// What is in a ledger, as text.
fn stats(ledger: &LedgerLocation) -> Result<String> {
    let stats = LedgerAdmin::look(ledger)?.stats()?;
    let mut text = format!(
        "{}: ledger version {}, created {}\n{}, {}",
        ledger.shown(),
        LEDGER_VERSION,
        moment(stats.created),
        counted(stats.answers, "answer"),
        counted(stats.bytes, "byte"),
    );
    if let Some(each) = stats.bytes.checked_div(stats.answers) {
        let _ = write!(text, ", {} per answer", count(each));
    }
    for account in &stats.accounts {
        text.push_str(&about(account));
    }
    Ok(text)
}

fn about(stats: &StoredAccount) -> String {
    let mut text = format!(
        "\n\n{}\n  {}",
        printable(&stats.address),
        counted(stats.answers, "answer")
    );
    if let Some((first, last)) = stats.span {
        let _ = write!(text, ", from {} to {}", moment(first), moment(last));
    }
    if let Some(KnownLimit { limit, found }) = stats.limit {
        let _ = write!(text, "\n  limit found {}: {}", moment(found), most(limit));
    }
    text
}

/// Removes all answers about the users of a file. The whole file is read before
/// anything is removed: one that is broken in the middle changes nothing.
fn forget(ledger: &LedgerLocation, users: ReaderSettings, wait: &LockWait) -> Result<Exit> {
    let mut admin = wait.until_free(|| LedgerAdmin::open(ledger))?;
    let accounts = admin.stats()?.accounts;
    let (mut reader, opened) = Reader::open(users, Compose::new(write_bodies))?;
    // An empty file has no columns.
    if !opened.mapping.is_empty() {
        tell(&format!("rescore ledger: {}", printable(&opened.mapping)));
    }
    let (mut keys, mut rows, mut invalid) = (Vec::new(), 0_u64, 0_u64);
    while let Some(batch) = reader.next_batch()? {
        for row in batch.rows {
            let RowState::Asked(bodies) = row.state else {
                invalid += 1;
                continue;
            };
            rows += 1;
            for account in &accounts {
                keys.extend(each(&bodies).map(|body| account.hasher.key(body)));
            }
        }
    }
    let removed = admin.forget(&keys)?;
    let left = admin.stats()?.answers;
    // Also when nothing was removed: an earlier attempt may have left traces.
    admin.rewrite()?;
    let ledger = ledger.shown();
    let mut text = if removed == 0 {
        format!("{ledger}: no answers about these users were stored")
    } else {
        format!(
            "{ledger}: forgot {} about the users in {}, {} left",
            counted(removed, "answer"),
            counted(rows, "row"),
            count(left),
        )
    };
    if invalid > 0 {
        text.push_str(&format!(
            "\n{} without a valid request, which no run can have sent",
            counted(invalid, "row")
        ));
    }
    let done = done(&text);
    Ok(if removed > 0 { done } else { Exit::SomeFailed })
}

/// Writes everything that a run can have sent for a user, each with a line end behind it: JSON has none of its own.
fn write_bodies(user: &UserRequest<'_>, to: &mut BytesMut) {
    for plan in Plan::EVERY {
        write_body(user, plan, to);
        to.extend_from_slice(b"\n");
    }
}

fn each(bodies: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    bodies
        .split(|byte| *byte == b'\n')
        .filter(|body| !body.is_empty())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    #[test]
    fn every_body_that_a_run_can_have_sent_is_looked_for() {
        let user = UserRequest {
            name: Cow::Borrowed("Jane\\nDoe"),
            email: None,
            phone: Some(Cow::Borrowed("+15550100199")),
            ip: Cow::Borrowed("::1"),
            user_agent: Cow::Borrowed("curl/8"),
        };
        let mut bodies = BytesMut::new();
        write_bodies(&user, &mut bodies);
        let bodies: Vec<_> = each(&bodies).collect();
        assert_eq!(bodies.len(), 5);
        for (vpn_check, advanced) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut body = BytesMut::new();
            let plan = Plan::Paid {
                vpn_check,
                advanced,
            };
            write_body(&user, plan, &mut body);
            assert!(bodies.contains(&&*body));
        }
        let mut body = BytesMut::new();
        write_body(&user, Plan::Free, &mut body);
        assert!(bodies.contains(&&*body));
    }
}
