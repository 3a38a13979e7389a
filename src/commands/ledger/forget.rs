//! `rescore ledger forget`: removing all answers about users.

use std::fmt::Write as _;
use std::path::Path;

use bytes::BytesMut;

use super::super::lock_wait::LockWait;
use crate::base::error::{Error, Exit, Result, printable, shown};
use crate::config::ForgetTarget;
use crate::fields::UserRequest;
use crate::input::{Compose, Reader, ReaderSettings};
use crate::ledger::{CleanupResult, Forget, ForgetCounts};
use crate::observe::{count, counted, tell};
use crate::service::{Plan, write_body};

/// The result of forgetting.
pub(super) struct ForgetResult {
    /// What is printed.
    pub(super) text: String,
    /// How the command ends.
    pub(super) exit: Result<Exit>,
}

/// Removes all answers about the target.
pub(super) fn forget(
    ledger: &Path,
    target: ForgetTarget,
    wait: &LockWait<'_>,
) -> Result<ForgetResult> {
    let mut forget = wait.until_free(|| Forget::open(ledger))?;
    let summary = match target {
        ForgetTarget::Everybody => RemovalSummary {
            forgotten: forget.remove_all()?,
            about: String::new(),
            remarks: Vec::new(),
        },
        ForgetTarget::User(user) => one(&mut forget, &user)?,
        ForgetTarget::Users(users) => many(&mut forget, *users)?,
    };
    let result = forget.finish()?;
    let text = summary.describe(ledger, result);
    let ForgetCounts { answers, failed } = summary.forgotten;
    let exit = if !result.is_without_trace() {
        Err(Error::stopped(format!(
            "bytes of what was forgotten may still be in the files of `{}`, as another program is using them",
            shown(ledger)
        ))
        .hint("run this again when the other program is done"))
    } else if answers > 0 || failed > 0 {
        Ok(Exit::Complete)
    } else {
        Ok(Exit::SomeFailed)
    };
    Ok(ForgetResult { text, exit })
}

/// What was removed.
struct RemovalSummary {
    forgotten: ForgetCounts,
    /// The users concerned, with a space in front; empty for everybody.
    about: String,
    /// What else a person should know.
    remarks: Vec<String>,
}

impl RemovalSummary {
    fn describe(&self, ledger: &Path, result: CleanupResult) -> String {
        let (ledger, about) = (shown(ledger), &self.about);
        let ForgetCounts { answers, failed } = self.forgotten;
        let mut text = if answers == 0 {
            format!("{ledger}: no answers{about} were stored")
        } else {
            format!(
                "{ledger}: forgot {}{about}, {} left",
                counted(answers, "answer"),
                count(result.answers),
            )
        };
        if failed > 0 {
            let _ = write!(
                text,
                "\nalso forgot that the service had failed for {}",
                counted(failed, "request")
            );
        }
        for remark in &self.remarks {
            text.push('\n');
            text.push_str(remark);
        }
        text
    }
}

fn one(forget: &mut Forget, user: &UserRequest<'_>) -> Result<RemovalSummary> {
    let mut bodies = BytesMut::new();
    write_bodies(user, &mut bodies);
    forget.mark(&each(&bodies))?;
    Ok(RemovalSummary {
        forgotten: forget.remove_marked()?,
        about: " about this user".to_owned(),
        remarks: Vec::new(),
    })
}

/// Reads the whole file before anything is removed: one that is broken in the middle changes nothing.
fn many(forget: &mut Forget, users: ReaderSettings) -> Result<RemovalSummary> {
    let (mut reader, opened) = Reader::open(users, Compose::new(write_bodies))?;
    // An empty file has no columns.
    if !opened.mapping.is_empty() {
        tell(&format!("rescore ledger: {}", printable(&opened.mapping)));
    }
    let (mut known, mut unknown, mut invalid) = (0, 0, 0);
    while let Some(batch) = reader.next_batch()? {
        for row in batch.rows {
            match row.request {
                Ok(bodies) if forget.mark(&each(&bodies))? > 0 => known += 1,
                Ok(_) => unknown += 1,
                Err(_) => invalid += 1,
            }
        }
    }
    let mut remarks = Vec::new();
    if known > 0 && unknown > 0 {
        remarks.push(format!(
            "{} had no answer in the ledger",
            counted(unknown, "row")
        ));
    }
    if invalid > 0 {
        remarks.push(format!(
            "{} without a valid request, which no run can have sent",
            counted(invalid, "row")
        ));
    }
    Ok(RemovalSummary {
        forgotten: forget.remove_marked()?,
        about: match known {
            0 => " about these users".to_owned(),
            known => format!(" about the users in {}", counted(known, "row")),
        },
        remarks,
    })
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
