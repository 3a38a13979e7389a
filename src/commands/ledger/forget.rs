//! `rescore ledger forget`: removing all answers about users.

use bytes::BytesMut;

use super::super::lock_wait::LockWait;
use crate::base::error::{Exit, Result, printable};
use crate::fields::UserRequest;
use crate::input::{Compose, Reader, ReaderSettings};
use crate::ledger::{LedgerLocation, administer};
use crate::observe::{count, counted, tell};
use crate::service::{Plan, write_body};

/// Removes all answers about the users of a file: what is printed, and how the command ends. The whole file is read before
/// anything is removed: one that is broken in the middle changes nothing.
pub(super) fn forget(
    ledger: &LedgerLocation,
    users: ReaderSettings,
    wait: &LockWait<'_>,
) -> Result<(String, Exit)> {
    let mut admin = wait.until_free(|| administer(ledger))?;
    let accounts = admin.stats()?.accounts;
    let (mut reader, opened) = Reader::open(users, Compose::new(write_bodies))?;
    // An empty file has no columns.
    if !opened.mapping.is_empty() {
        tell(&format!("rescore ledger: {}", printable(&opened.mapping)));
    }
    let (mut keys, mut rows, mut invalid) = (Vec::new(), 0_u64, 0_u64);
    while let Some(batch) = reader.next_batch()? {
        for row in batch.rows {
            let Ok(bodies) = row.request else {
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
    let exit = if removed > 0 {
        Exit::Complete
    } else {
        Exit::SomeFailed
    };
    Ok((text, exit))
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
            dropped: None,
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
