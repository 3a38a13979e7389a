//! `rescore check`: what a run would do and cost. It is the first pass of a run without the second one: the same files, the same
//! ledger, the same look-up of each row. Nothing is sent, and nothing is written.
//!
//! Its result has every number as JSON, and the same in words. The reference documents every key. A value that is not known is
//! null, never absent.

use std::path::Path;

use serde::Serialize;

use super::inputs::{no_rows, none_chosen, refuse_stream};
use super::run::{
    CountedFile, Counting, FirstCount, PartState, RunParts, calls_left, ledger_notices, paid_in,
};
use super::signals::StopSignals;
use super::text::print;
use crate::base::error::{Error, Exit, Result};
use crate::base::money::{Money, Tariff};
use crate::base::private_file::directory_of;
use crate::base::text::printable;
use crate::config::{CheckConfig, LedgerConfig};
use crate::ledger::{LedgerFacts, LedgerSettings, Lookup, preview};
use crate::observe::{count, counted, named, one_line, only_of_others, tell_error, warn};
use crate::service::Account;
use crate::verdict::Reason;

/// Counts the inputs, and prints what a run would do with them.
///
/// # Errors
/// Exit code 2: the input or the ledger cannot be used. Exit code 3: standard output cannot be written.
pub(crate) fn execute(config: &CheckConfig) -> Result<Exit> {
    let (count, account) = (&config.count, config.account.as_ref());
    let found = RunParts::find(&count.files)?;
    let is_rehearsal = account.is_some_and(|account| account.sandbox);
    let location = count.ledger.location(is_rehearsal)?;
    // Its thread lives as long as the process; there are no files to remove.
    drop(StopSignals::start(false)?);
    let mut inputs = found.all.iter().map(|part| &part.input);
    let stream = inputs.find_map(|input| refuse_stream(count.limits, input).err());
    let settings = location.map(|location| found.ledger_settings(count, location, account));
    let ledger = settings.map(|settings| look_at(&settings, &count.ledger));
    let (ledger, lookup) = ledger.transpose()?.unzip();
    let facts = ledger.as_ref().and_then(|ledger| ledger.facts.as_ref());
    let mut counting = Counting {
        config: count,
        show: config.show,
        lookup: &mut lookup.unwrap_or_else(Lookup::without_ledger),
    };
    let mut parts = found.read(count)?;
    let (count, fits) = counting.count(&mut parts, facts)?;
    for part in &parts.all {
        if let PartState::Unusable(error) = &part.state {
            tell_error(error);
        }
    }
    let exit = match count.total.rows.unsendable {
        _ if count.files.iter().any(|file| file.error.is_some()) => Exit::Usage,
        0 => Exit::Complete,
        _ => Exit::SomeFailed,
    };
    let result = CheckResult {
        r#type: "check",
        version: 1,
        exit_code: exit.code(),
        calls_left: calls_left(&config.count.call_limits, facts),
        cost: config.count.budget.price.clone().map(|tariff| CallCost {
            expected: tariff.price.of(count.calls),
            tariff,
        }),
        count,
        ledger,
        account: config.account.clone(),
        sends_nothing: stream.or(fits.err()),
    };
    print(&if config.json {
        one_line(&result)
    } else {
        result.text()
    })?;
    // Last, as on a terminal both streams are one text.
    for warning in result.warnings() {
        warn(&printable(&warning));
    }
    Ok(exit)
}

/// The ledger that a run would use, and look-ups in it.
///
/// # Errors
/// Exit code 2: it cannot be used.
fn look_at(settings: &LedgerSettings, config: &LedgerConfig) -> Result<(CheckedLedger, Lookup)> {
    // The user's first run makes the directory of the ledger.
    let is_missing = |file: &Path| !directory_of(file).exists();
    let is_made = config.named.is_none() && settings.location.file().is_some_and(is_missing);
    let found = if is_made { None } else { preview(settings)? };
    let (lookup, facts) = found.unzip();
    let endpoint = facts
        .as_ref()
        .and_then(|facts: &LedgerFacts| facts.endpoint.clone());
    let ledger = CheckedLedger {
        path: settings.location.to_display(),
        endpoint,
        facts,
    };
    Ok((ledger, lookup.unwrap_or_else(Lookup::without_ledger)))
}

/// The result of a check.
#[derive(Serialize)]
struct CheckResult {
    r#type: &'static str,
    version: u8,
    exit_code: u8,
    #[serde(flatten)]
    count: FirstCount,
    /// How many calls the budgets leave; `None` if there are none.
    calls_left: Option<u64>,
    cost: Option<CallCost>,
    ledger: Option<CheckedLedger>,
    /// Whose answers a run would ask for, if the user has named an account.
    #[serde(skip)]
    account: Option<Account>,
    /// Why the run would send nothing.
    #[serde(skip)]
    sends_nothing: Option<Error>,
}

/// The cost of the calls.
#[derive(Serialize)]
struct CallCost {
    #[serde(flatten)]
    tariff: Tariff,
    expected: Money,
}

/// The ledger whose answers were looked up.
#[derive(Serialize)]
struct CheckedLedger {
    path: String,
    /// Whose answers they are; `None` if it has none of the account.
    endpoint: Option<String>,
    /// Its facts; `None` if there is no ledger yet.
    #[serde(skip)]
    facts: Option<LedgerFacts>,
}

/// How many rows an input has, and why some cannot be sent.
fn line(file: &CountedFile) -> String {
    let rows = &file.counts.rows;
    let is_read = rows.read > 0 || !file.finished && file.error.is_none();
    let facts = [
        file.finished.then(|| "finished".to_owned()),
        is_read.then(|| counted(rows.read, "row")),
        file.selection.clone(),
        (rows.unsendable > 0).then(|| format!("{} cannot be sent", count(rows.unsendable))),
        file.error.is_some().then(|| "cannot be used".to_owned()),
    ];
    let facts: Vec<_> = facts.into_iter().flatten().collect();
    format!("{}: {}", file.name, facts.join(", "))
}

impl CheckResult {
    /// The result for people, without a line end after the last line.
    fn text(&self) -> String {
        let mut lines = self.inputs();
        lines.push(String::new());
        let mut paid = String::new();
        if let Some(CheckedLedger { path, facts, .. }) = &self.ledger {
            lines.extend(ledger_notices(path, facts.as_ref()));
            let is_sandbox = self.account.as_ref().is_some_and(|it| it.sandbox);
            paid = paid_in(path, is_sandbox);
        }
        let tariff = self.cost.as_ref().map(|cost| &cost.tariff);
        let parts = self.count.in_words(&paid, tariff, self.calls_left);
        lines.push(parts.join("\n  "));
        lines.extend(self.requests());
        lines.join("\n")
    }

    /// The first requests as they would go out, if the user wants to see them. The key stays where it is.
    fn requests(&self) -> Vec<String> {
        let requests = self.count.requests.iter();
        let bodies = requests.map(|it| format!("row {}: {}", it.row, printable(&it.body)));
        let mut lines: Vec<_> = bodies.collect();
        if lines.is_empty() {
            return lines;
        }
        if let Some(account) = &self.account {
            let [address, id] = [&account.endpoint, &account.service_id].map(|it| printable(it));
            let head = format!(
                "POST {address}\nauthorization: Bearer …\nx-service-id: {id}\ncontent-type: application/json"
            );
            lines.insert(0, head);
        }
        lines.insert(0, String::new());
        lines
    }

    /// Each input, and which of its rows cannot be sent. Its columns are listed only if they differ from those of the input
    /// before.
    fn inputs(&self) -> Vec<String> {
        let (mut lines, mut last_mapping, mut indent) = (Vec::new(), "", "");
        if self.count.files.len() > 1 {
            let files = counted(self.count.files.len() as u64, "file");
            let rows = counted(self.count.total.rows.read, "row");
            lines.push(format!("{files}: {rows}"));
            indent = "  ";
        }
        for file in &self.count.files {
            lines.push(format!("{indent}{}", line(file)));
            if !file.mapping.is_empty() && file.mapping != last_mapping {
                lines.push(format!("{indent}  {}", printable(&file.mapping)));
                last_mapping = &file.mapping;
            }
            for (reason, rows) in &file.unsendable {
                let help = help(*reason).map(|options| format!("; may help: {options}"));
                let (number, named) = (count(rows.rows), named(rows).unwrap_or_default());
                let help = help.unwrap_or_default();
                lines.push(format!("{indent}  {number} {reason}: {named}{help}"));
            }
        }
        lines
    }

    /// Warnings beside the numbers.
    fn warnings(&self) -> Vec<String> {
        let count = &self.count;
        let is_read = |file: &&CountedFile| !file.finished && file.error.is_none();
        let read = count.files.iter().filter(is_read);
        let no_rows = read.filter_map(|file| no_rows(&file.name, file.counts.rows.read));
        let mut warnings: Vec<_> = no_rows.collect();
        warnings.extend(none_chosen(count.total.rows.read, count.total.rows.passed));
        warnings.extend(count.oddities());
        if let Some(error) = &self.sends_nothing {
            warnings.push(format!("`rescore run` sends nothing: {error}"));
        }
        if let Some(CheckedLedger { path, facts, .. }) = &self.ledger
            && let Some(facts) = facts
            && !facts.other_accounts.is_empty()
        {
            warnings.push(only_of_others(path, &facts.other_accounts));
        }
        if count.ledger_answers_damaged > 0 {
            let answers = counted(count.ledger_answers_damaged, "answer");
            warnings.push(format!("{answers} in the ledger cannot be used: damaged"));
        }
        warnings
    }
}

/// The options that may help rows that fail for this reason, unless the rows themselves must change.
const fn help(reason: Reason) -> Option<&'static str> {
    match reason {
        Reason::InvalidPhone => Some("`--phone-region`, `--invalid`"),
        Reason::InvalidEmail => Some("`--invalid`"),
        Reason::StrayQuotes => Some("`--quotes`"),
        Reason::NotUtf8 | Reason::Undecodable => Some("`--encoding`"),
        Reason::MissingUserAgent => Some("`--map`, `--default`"),
        Reason::MissingName | Reason::MissingIp | Reason::MissingContact | Reason::WrongType => {
            Some("`--map`")
        }
        _ => None,
    }
}
