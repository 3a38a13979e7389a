//! `rescore ledger`: shows what is in a ledger, removes old answers, and forgets people.
//!
//! The result goes to standard output. It has only numbers and times, and no data about people.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::BytesMut;
use serde_json::{Value, json};

use super::files::LockWait;
use super::text::print;
use crate::base::error::{Error, Exit, Result};
use crate::base::money::Money;
use crate::base::numbers::time;
use crate::base::text::printable;
use crate::config::{AdminConfig, AdminTask};
use crate::fields::UserRequest;
use crate::input::{Compose, Reader, ReaderSettings};
use crate::ledger::{
    self, LEDGER_VERSION, LedgerAdmin, LedgerLocation, Per, PeriodSpending, RememberedLimit,
    Removal, StoredAccount,
};
use crate::observe::{count, counted, moment, most, one_line, tell, utc_seconds};
use crate::row_state::RowState;
use crate::service::{Plan, write_body};

/// Carries out the task and prints its result.
///
/// # Errors
/// Exit code 2: the file is not a usable ledger, or a file of users cannot be read; the ledger is as it was. Exit code 3: it
/// cannot be written, or what is in it cannot be printed. Exit code 75: another process is using it.
pub(crate) fn execute(config: AdminConfig) -> Result<Exit> {
    let wait = LockWait::new(config.wait_lock, true);
    let of_user = || ledger::default_file(false).map(LedgerLocation::File);
    let ledger = &config.ledger.map_or_else(of_user, Ok)?;
    let changes_nothing = matches!(config.task, AdminTask::Stats(_));
    let mut exit = Exit::Complete;
    let (text, object) = match config.task {
        AdminTask::Init => init(ledger)?,
        AdminTask::Stats(per) => stats(ledger, per)?,
        AdminTask::Copy(to) => copy(ledger, &to, &wait)?,
        AdminTask::Prune { older_than, yes } => prune(ledger, older_than, yes, &wait)?,
        AdminTask::Forget { users, list, yes } => {
            let (done, removed) = forget(ledger, *users, list.map(|it| *it), yes, &wait)?;
            if removed == 0 {
                exit = Exit::SomeFailed;
            }
            done
        }
    };
    let printed = print(&if config.json { one_line(&object) } else { text });
    // What was done stays done, even if it cannot be printed.
    if changes_nothing {
        printed?;
    }
    Ok(exit)
}

/// What a command has done: for people, and for programs.
type Done = (String, Value);

/// Makes a ledger, unless it is there.
fn init(ledger: &LedgerLocation) -> Result<Done> {
    let (made, ledger) = (ledger::init(ledger)?, ledger.to_display());
    let words = if made {
        "made the ledger"
    } else {
        "the ledger is there already"
    };
    Ok((
        format!("{ledger}: {words}"),
        json!({"type": "ledger_init", "version": 1, "ledger": ledger, "made": made}),
    ))
}

/// Copies what another ledger lacks.
fn copy(from: &LedgerLocation, to: &LedgerLocation, wait: &LockWait) -> Result<Done> {
    let copied = wait.until_free(|| ledger::copy(from, to))?;
    let (from, to) = (from.to_display(), to.to_display());
    Ok((
        format!(
            "copied {} from `{from}` to `{to}`, which has {} now",
            counted(copied.added, "answer"),
            count(copied.answers),
        ),
        json!({
            "type": "ledger_copy", "version": 1, "from": from,
            "to": to,
            "added": copied.added,
            "answers": copied.answers,
        }),
    ))
}

/// Removes answers that are older.
fn prune(
    ledger: &LedgerLocation,
    older_than: Duration,
    yes: bool,
    wait: &LockWait,
) -> Result<Done> {
    let before = SystemTime::now()
        .checked_sub(older_than)
        .unwrap_or(UNIX_EPOCH);
    let mut admin = wait.until_free(|| LedgerAdmin::open(ledger))?;
    let removed = admin.prune(before, |removal| approve(removal, ledger, yes))?;
    let ledger = ledger.to_display();
    Ok((
        format!(
            "{ledger}: removed {} from before {}{}, {} left\n{} before, {} now",
            counted(removed.answers, "answer"),
            moment(before),
            cost(&removed),
            count(removed.left),
            counted(removed.bytes_before, "byte"),
            count(removed.bytes_after),
        ),
        json!({
            "type": "ledger_prune", "version": 1, "ledger": ledger,
            "before": utc_seconds(before),
            "removed": removed.answers,
            "cost": removed.cost,
            "left": removed.left,
            "bytes_before": removed.bytes_before,
            "bytes": removed.bytes_after,
        }),
    ))
}

/// Bytes that are written within a second or two.
const BYTES_PER_SECOND: u64 = 64 * 1024 * 1024;

/// Refuses to remove many answers without `--yes`: answers that are removed by mistake are paid for again. Warns if the removal
/// takes long.
fn approve(removal: &Removal, ledger: &LedgerLocation, yes: bool) -> Result<()> {
    if removal.is_many() && !yes {
        let words = format!(
            "{} of {} answers in `{}` would be removed{}",
            count(removal.answers),
            count(removal.answers + removal.left),
            ledger.to_display(),
            cost(removal)
        );
        return Err(Error::usage(words).hint("add `--yes` if that is meant"));
    }
    let space = removal.space_needed();
    if space > BYTES_PER_SECOND {
        tell(&format!(
            "rescore ledger: the ledger is rewritten, which takes up to {} bytes of free space and about {}",
            count(space),
            time(Duration::from_secs(space / BYTES_PER_SECOND)),
        ));
    }
    Ok(())
}

/// What was paid for these answers, as words behind a comma; nothing if no price is stored.
fn cost(removal: &Removal) -> String {
    match removal.cost {
        Money { billionths: 0 } => String::new(),
        cost => format!(", which cost {cost}"),
    }
}

/// Lists what is in a ledger, and what was spent.
fn stats(ledger: &LedgerLocation, per: Per) -> Result<Done> {
    let mut admin = LedgerAdmin::look(ledger)?;
    let (stats, ledger) = (admin.stats()?, ledger.to_display());
    let mut text = format!(
        "{ledger}: ledger version {LEDGER_VERSION}, created {}\n{}, {}",
        moment(stats.created),
        counted(stats.answers, "answer"),
        counted(stats.bytes, "byte"),
    );
    if let Some(each) = stats.bytes.checked_div(stats.answers) {
        let _ = write!(text, ", {} per answer", count(each));
    }
    let mut accounts = Vec::new();
    for account in &stats.accounts {
        let spent = admin.spent(account, per)?;
        text.push_str(&about(account));
        text.push_str(&table(&spent));
        accounts.push(json!({
            "address": account.address,
            "answers": account.answers,
            "first": account.span.map(|(first, _)| utc_seconds(first)),
            "last": account.span.map(|(_, last)| utc_seconds(last)),
            "limit": account.limit.map(|found| found.limit),
            "limit_found": account.limit.map(|found| utc_seconds(found.found)),
            "spending": spent,
        }));
    }
    let object = json!({
        "type": "ledger_stats", "version": 1, "ledger": ledger,
        "ledger_version": LEDGER_VERSION,
        "created": utc_seconds(stats.created),
        "answers": stats.answers,
        "bytes": stats.bytes,
        "accounts": accounts,
    });
    Ok((text, object))
}

/// A table of what was spent with an account. Each line starts with a line end.
fn table(spent: &[PeriodSpending]) -> String {
    if spent.is_empty() {
        return String::new();
    }
    let line = |[period, calls, answers, price, cost, at_most]: [&str; 6]| {
        format!("\n  {period:<10} {calls:>11} {answers:>11} {price:>11} {cost:>14} {at_most:>14}")
    };
    let mut text = line(["UTC", "calls", "answers", "price", "cost", "at most"]);
    for of in spent {
        let [calls, answers] = [of.calls, of.answers].map(count);
        let [price, cost, at_most] = [of.price, of.cost, of.cost_at_most]
            .map(|amount| amount.map_or_else(|| "-".to_owned(), |amount| amount.to_string()));
        text += &line([&of.period, &calls, &answers, &price, &cost, &at_most]);
    }
    text
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
    if let Some(RememberedLimit { limit, found }) = stats.limit {
        let _ = write!(text, "\n  limit found {}: {}", moment(found), most(limit));
    }
    text
}

/// Removes all answers about the users of a file. The whole file is read first, so that a file that breaks off changes nothing.
fn forget(
    ledger: &LedgerLocation,
    users: ReaderSettings,
    list: Option<ReaderSettings>,
    yes: bool,
    wait: &LockWait,
) -> Result<(Done, u64)> {
    let mut admin = wait.until_free(|| LedgerAdmin::open(ledger))?;
    let hashers = admin.hashers()?;
    let compose = match list.map(People::read).transpose()? {
        None => Compose::new(write_bodies),
        Some(people) => Compose::new(move |user, to| {
            if people.has(user) {
                write_bodies(user, to);
            }
        }),
    };
    let (mut reader, opened) = Reader::open(users, compose)?;
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
            rows += u64::from(!bodies.is_empty());
            for hasher in &hashers {
                keys.extend(bodies_in(&bodies).map(|body| hasher.key(body)));
            }
        }
    }
    let removal = admin.forget(&keys, |removal| approve(removal, ledger, yes))?;
    let (ledger, removed) = (ledger.to_display(), removal.answers);
    let mut text = if removed == 0 {
        format!("{ledger}: no answers about these users were stored")
    } else {
        format!(
            "{ledger}: forgot {} about the users in {}{}, {} left",
            counted(removed, "answer"),
            counted(rows, "row"),
            cost(&removal),
            count(removal.left),
        )
    };
    if invalid > 0 {
        text.push_str(&format!(
            "\n{} without a valid request, which no run can have sent",
            counted(invalid, "row")
        ));
    }
    let object = json!({
        "type": "ledger_forget", "version": 1, "ledger": ledger,
        "rows": rows,
        "invalid": invalid,
        "removed": removed,
        "cost": removal.cost,
        "left": removal.left,
    });
    Ok(((text, object), removed))
}

/// A list of people, each with values in some of the fields.
#[derive(Default)]
struct People {
    /// The values of each person, with line ends between them.
    values: HashSet<String>,
    /// Which fields the persons of the list have.
    fields: HashSet<[bool; 5]>,
}

impl People {
    fn read(list: ReaderSettings) -> Result<Self> {
        let name = list.file.input.display();
        let write = |user: &UserRequest<'_>, to: &mut BytesMut| {
            to.extend_from_slice(values_of(user).join("\n").as_bytes());
        };
        let (mut people, mut reader) =
            (Self::default(), Reader::open(list, Compose::new(write))?.0);
        while let Some(batch) = reader.next_batch()? {
            for row in batch.rows {
                let values = match row.state {
                    RowState::Asked(values) => String::from_utf8_lossy(&values).into_owned(),
                    _ => String::new(),
                };
                let mut fields = [false; 5];
                for (has, value) in fields.iter_mut().zip(values.split('\n')) {
                    *has = !value.is_empty();
                }
                if fields == [false; 5] {
                    let row = row.number;
                    let words = format!(
                        "row {row} of `{name}` has no valid value in any field, so nobody was forgotten"
                    );
                    return Err(Error::usage(words));
                }
                people.values.insert(values);
                people.fields.insert(fields);
            }
        }
        Ok(people)
    }

    /// Whether one of them has the values of this user, in the fields that it has.
    fn has(&self, user: &UserRequest<'_>) -> bool {
        self.fields.iter().any(|fields| {
            let values = values_of(user).into_iter().zip(fields);
            let values = values.map(|(value, has)| if *has { value } else { "" });
            self.values.contains(&values.collect::<Vec<_>>().join("\n"))
        })
    }
}

fn values_of<'u>(user: &'u UserRequest<'_>) -> [&'u str; 5] {
    let [email, phone] = [&user.email, &user.phone].map(|it| it.as_deref().unwrap_or_default());
    [&user.name, email, phone, &user.ip, &user.user_agent]
}

/// Writes each body that a run can have sent for a user, and a line end behind it, which no body contains.
fn write_bodies(user: &UserRequest<'_>, to: &mut BytesMut) {
    for plan in Plan::EVERY {
        write_body(user, plan, to);
        to.extend_from_slice(b"\n");
    }
}

fn bodies_in(bodies: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    bodies
        .split(|byte| *byte == b'\n')
        .filter(|body| !body.is_empty())
}

#[cfg(test)]
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
        let bodies: Vec<_> = bodies_in(&bodies).collect();
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
