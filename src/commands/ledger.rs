//! `rescore ledger`: what is in a ledger, what goes, and what was left.
//!
//! What was asked for is said on standard output. Nobody's data is: numbers and times are all that is known here.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::BytesMut;

use crate::base::error::{Error, Exit, Result, printable, shown};
use crate::base::say::say;
use crate::config::{CareConfig, Forgotten, Task};
use crate::fields::UserRequest;
use crate::input::{Reader, ReaderSettings};
use crate::ledger::{AGES, Care, Cleaned, KnownLimit, Service, survey};
use crate::observe::{count, counted, moment, most};
use crate::service::{Plan, write_body};

/// Does it, and says what came of it.
///
/// # Errors
/// Exit code 2: what is named is no ledger that could be used, or a file of users cannot be read; it is as it was. Exit
/// code 3: traces of what was forgotten may be left.
pub(crate) fn execute(config: CareConfig) -> Result<Exit> {
    let CareConfig { ledger, task } = config;
    match task {
        Task::Stats => stats(&ledger),
        Task::Prune { than } => prune(&ledger, than),
        Task::Forget(whom) => forget(&ledger, whom),
    }
}

fn stats(ledger: &Path) -> Result<Exit> {
    let survey = survey(ledger)?;
    let mut text = format!(
        "{}: a ledger of version {}, begun {}\n{}, {}",
        shown(ledger),
        survey.version,
        moment(survey.begun),
        counted(survey.answers, "answer"),
        counted(survey.bytes, "byte"),
    );
    if let Some(each) = survey.bytes.checked_div(survey.answers) {
        let _ = write!(text, ", {} an answer", count(each));
    }
    for service in &survey.services {
        text.push_str(&of_service(service));
    }
    tell(&text);
    Ok(Exit::Complete)
}

fn of_service(service: &Service) -> String {
    let Service {
        endpoint,
        ids,
        answers,
        span,
        younger,
        limits,
        failed_over,
    } = service;
    let mut text = format!(
        "\n\n{}\n  {}",
        printable(endpoint),
        counted(*answers, "answer")
    );
    if *ids > 1 {
        let _ = write!(text, " for {ids} service ids");
    }
    if let Some((first, last)) = span {
        let _ = write!(text, ", from {} to {}", moment(*first), moment(*last));
        let ages: Vec<_> = AGES
            .iter()
            .zip(younger)
            .map(|(days, younger)| format!("{days} d: {}", count(*younger)))
            .collect();
        let _ = write!(text, "\n  younger than {}", ages.join(", "));
    }
    for KnownLimit { limit, found } in limits {
        let _ = write!(text, "\n  limit found {}: {}", moment(*found), most(*limit));
    }
    if *failed_over > 0 {
        let _ = write!(
            text,
            "\n  {} over which it failed; they are asked again",
            counted(*failed_over, "user")
        );
    }
    text
}

fn prune(ledger: &Path, than: Duration) -> Result<Exit> {
    let before = SystemTime::now().checked_sub(than).unwrap_or(UNIX_EPOCH);
    let mut care = Care::open(ledger)?;
    let bytes = care.bytes();
    let removed = care.prune(before)?;
    let cleaned = care.finish(removed > 0)?;
    let mut text = format!(
        "{}: removed {} from before {}, {} {}\n{} before, {} now",
        shown(ledger),
        counted(removed, "answer"),
        moment(before),
        count(cleaned.answers),
        if cleaned.answers == 1 {
            "stays"
        } else {
            "stay"
        },
        counted(bytes, "byte"),
        count(cleaned.bytes),
    );
    if removed > 0 && !cleaned.is_without_trace() {
        text.push_str(
            "\nanother program is using it: the space is for new answers, and is given back when this is run again later",
        );
    }
    tell(&text);
    Ok(Exit::Complete)
}

fn forget(ledger: &Path, whom: Forgotten) -> Result<Exit> {
    let mut care = Care::open(ledger)?;
    let done = match whom {
        Forgotten::Everybody => Done {
            forgotten: care.forget_all()?,
            failures: 0,
            about: String::new(),
            further: Vec::new(),
        },
        Forgotten::User(user) => one(&mut care, &user)?,
        Forgotten::Users(users) => many(&mut care, *users)?,
    };
    // Also when there was nothing to forget: an earlier try may have left something.
    let cleaned = care.finish(true)?;
    done.tell(ledger, cleaned);
    if !cleaned.is_without_trace() {
        return Err(Error::stopped(format!(
            "bytes of what was forgotten may still be in the files of `{}`, as another program is using them",
            ledger.display()
        ))
        .hint("run it again when that is done"));
    }
    Ok(if done.forgotten > 0 || done.failures > 0 {
        Exit::Complete
    } else {
        Exit::SomeFailed
    })
}

/// What came of forgetting.
struct Done {
    forgotten: u64,
    /// Requests that the service had failed over.
    failures: u64,
    /// Whom about, with a space before it; empty for everybody.
    about: String,
    /// What else a person should know.
    further: Vec<String>,
}

impl Done {
    fn tell(&self, ledger: &Path, cleaned: Cleaned) {
        let (ledger, about) = (shown(ledger), &self.about);
        let mut text = if self.forgotten == 0 {
            let nothing = if self.failures == 0 {
                ", and nothing was removed"
            } else {
                ""
            };
            format!("{ledger}: no answer{about} was stored{nothing}")
        } else {
            format!(
                "{ledger}: forgot {}{about}, {} {}",
                counted(self.forgotten, "answer"),
                count(cleaned.answers),
                if cleaned.answers == 1 {
                    "stays"
                } else {
                    "stay"
                }
            )
        };
        if self.failures > 0 {
            let failures = counted(self.failures, "request");
            let _ = write!(
                text,
                "\nforgot as well that the service had failed over {failures}"
            );
        }
        for line in &self.further {
            text.push('\n');
            text.push_str(line);
        }
        tell(&text);
    }
}

fn one(care: &mut Care, user: &UserRequest<'_>) -> Result<Done> {
    let mut bodies = BytesMut::new();
    write_bodies(user, &mut bodies);
    care.note(&each(&bodies))?;
    let (forgotten, failures) = care.forget()?;
    Ok(Done {
        forgotten,
        failures,
        about: " about this user".to_owned(),
        further: Vec::new(),
    })
}

/// Reads the whole file before anything goes: one that is broken in the middle changes nothing.
fn many(care: &mut Care, users: ReaderSettings) -> Result<Done> {
    let (mut reader, opened) = Reader::open(users, Box::new(write_bodies))?;
    // An empty file has no columns.
    if !opened.mapping.is_empty() {
        say(&format!("rescore ledger: {}", printable(&opened.mapping)));
    }
    let (mut known, mut unknown, mut broken) = (0, 0, 0);
    while let Some(batch) = reader.next_batch()? {
        for row in batch.rows {
            match row.request {
                Ok(bodies) if care.note(&each(&bodies))? > 0 => known += 1,
                Ok(_) => unknown += 1,
                Err(_) => broken += 1,
            }
        }
    }
    let mut further = Vec::new();
    if known > 0 && unknown > 0 {
        further.push(format!("{} had no answer in it", counted(unknown, "row")));
    }
    if broken > 0 {
        further.push(format!(
            "{} without a sound request, which no run can have asked",
            counted(broken, "row")
        ));
    }
    let (forgotten, failures) = care.forget()?;
    Ok(Done {
        forgotten,
        failures,
        about: match known {
            0 => " about these users".to_owned(),
            known => format!(" about the users of {}", counted(known, "row")),
        },
        further,
    })
}

/// Writes whatever a run can have sent for a user, each with a line end behind it: JSON has none of its own.
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

/// What was asked for. That nobody can read it must not undo it.
fn tell(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
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
