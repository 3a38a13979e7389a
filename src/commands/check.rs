//! `rescore check`: what a run would do and cost, in words. It is the first pass of a run without the second one: the same files,
//! the same ledger, the same look-up of each row. Nothing is sent, and nothing is written.
//!
//! Its result has every number as programs get it, and the same in words. The reference documents every key. A value that is
//! not known is null, never absent.

use std::path::Path;

use serde::Serialize;

use super::inputs::{no_rows, none_chosen, refuse_stream};
use super::run::{
    CountedFile, Counting, Files, FirstCount, ShownRequest, Turn, count as first_count, look_up_in,
};
use super::signals::Interrupts;
use super::text::print;
use crate::analysis::CountedRows;
use crate::base::error::{Error, Exit, Result};
use crate::base::money::{Money, Tariff};
use crate::base::own_file::directory_of;
use crate::base::text::{printable, shown};
use crate::config::CheckConfig;
use crate::ledger::{LedgerFacts, LedgerSettings, Lookup, Spending, preview};
use crate::observe::{count, counted, only_of_others, tell_error, warn};
use crate::raw_json::escape_unsafe;
use crate::service::Account;
use crate::verdict::Reason;

/// Checks the inputs, and prints what a run over them would do.
///
/// # Errors
/// Exit code 2: the input or the ledger cannot be used. Exit code 3: standard output cannot be written.
pub(crate) fn execute(config: &CheckConfig) -> Result<Exit> {
    let mut files = Files::find(config.files.clone(), config.ledger.reuse)?;
    let account = config.account.as_ref();
    let settings = files.ledger_settings(&config.ledger, account, &config.captured)?;
    // Its thread lives as long as the process; there are no files to remove.
    drop(Interrupts::listen()?);
    let mut inputs = files.parts.iter().map(|part| &part.input);
    let stream = inputs.find_map(|input| refuse_stream(config.limits, input).err());
    let ledger = look_at(settings.as_ref(), config)?;
    let facts = ledger.as_ref().and_then(|ledger| ledger.facts.as_ref());
    let counting = Counting {
        plan: config.plan,
        keep_going: config.keep_going,
        show: config.show,
        lookup: &|| match &settings {
            Some(settings) if facts.is_some() => look_up_in(settings),
            _ => Ok(Lookup::nowhere()),
        },
    };
    files.read(config.plan)?;
    let is_first = facts.is_none_or(LedgerFacts::is_new);
    let (count, fits) = first_count(&mut files, &counting, config.limits, is_first)?;
    for part in &files.parts {
        if let Turn::Unusable(error) = &part.turn {
            tell_error(error);
        }
    }
    let spending = facts.map_or_else(Spending::default, |facts| facts.run.spending.clone());
    let limits = config.call_limits.iter();
    let exit = match count.total.rows.unsendable {
        _ if count.files.iter().any(|file| file.error.is_some()) => Exit::Usage,
        0 => Exit::Complete,
        _ => Exit::SomeFailed,
    };
    let result = CheckResult {
        r#type: "check",
        version: 1,
        exit_code: exit.code(),
        calls_left: limits.map(|limit| limit.left(&spending)).min(),
        cost: { config.tariff.clone() }.map(|tariff| CallCost::new(tariff, count.calls)),
        count,
        ledger,
        account: config.account.clone(),
        sends_nothing: stream.or(fits.err()),
    };
    print(&if config.json {
        result.json()
    } else {
        result.text()
    })?;
    // On a terminal, both streams are read as one text.
    for warning in result.warnings() {
        warn(&printable(&warning));
    }
    Ok(exit)
}

/// The ledger that a run would use, if it keeps one, and what it would learn of it.
///
/// # Errors
/// Exit code 2: it cannot be used.
fn look_at(
    settings: Option<&LedgerSettings>,
    config: &CheckConfig,
) -> Result<Option<CheckedLedger>> {
    let Some(settings) = settings else {
        return Ok(None);
    };
    // The user's first run makes the directory of the ledger.
    let is_missing = |file: &Path| !directory_of(file).exists();
    let is_made = config.ledger.named.is_none() && settings.location.file().is_some_and(is_missing);
    let found = if is_made { None } else { preview(settings)? };
    let facts = found.map(|(_, facts)| facts);
    Ok(Some(CheckedLedger {
        path: shown(settings.location.path()),
        endpoint: { facts.as_ref() }.and_then(|facts| facts.endpoint.clone()),
        facts,
    }))
}

/// How many of the first rows of a kind are named: enough to look at, few enough to read.
const NAMED: usize = 3;

/// What a run would do and cost.
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
    /// Who would ask, if that is known.
    #[serde(skip)]
    account: Option<Account>,
    /// Why the run would send nothing.
    #[serde(skip)]
    sends_nothing: Option<Error>,
}

/// What the calls cost.
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
    /// What a run would learn of it; `None` if there is none yet.
    #[serde(skip)]
    facts: Option<LedgerFacts>,
}

/// `row 7`, `rows 7, 9`, `rows 7, 9, 12, …`.
fn named(counted: &CountedRows) -> String {
    let first = counted.first.iter().take(NAMED);
    let numbers: Vec<_> = first.map(u64::to_string).collect();
    let word = if counted.rows == 1 { "row" } else { "rows" };
    let are_more = counted.rows > numbers.len() as u64;
    let more = if are_more { ", …" } else { "" };
    format!("{word} {}{more}", numbers.join(", "))
}

/// How many rows an input has, and why some cannot be sent.
fn line(file: &CountedFile) -> String {
    let rows = &file.counts.rows;
    let is_read = rows.read > 0 || !file.finished && file.error.is_none();
    let facts = [
        file.finished.then(|| "finished".to_owned()),
        is_read.then(|| counted(rows.read, "row")),
        file.part.clone(),
        (rows.unsendable > 0).then(|| format!("{} cannot be sent", count(rows.unsendable))),
        file.error.is_some().then(|| "cannot be used".to_owned()),
    ];
    let facts: Vec<_> = facts.into_iter().flatten().collect();
    format!("{}: {}", file.name, facts.join(", "))
}

impl CallCost {
    fn new(tariff: Tariff, calls: u64) -> Self {
        Self {
            expected: tariff.price.of(calls),
            tariff,
        }
    }
}

/// What is counted, the number, and a remark.
type TableLine = (String, u64, String);

impl CheckResult {
    /// The object for programs, on one line.
    fn json(&self) -> String {
        // It fails only on map keys that are not strings, and there are none.
        escape_unsafe(&serde_json::to_string(self).unwrap_or_default())
    }

    /// The result for people, without a line end after the last line.
    fn text(&self) -> String {
        let mut lines = self.inputs();
        lines.push(String::new());
        lines.extend(aligned(&self.table()));
        lines.push(String::new());
        lines.extend(self.requests());
        if let Some(CallCost { tariff, .. }) = &self.cost {
            let (all, one) = (tariff.shown_for(self.count.calls), tariff.shown_for(1));
            lines.push(format!(
                "cost: {all} at {one} a call; retries may cost more"
            ));
        }
        lines.join("\n").trim_end().to_owned()
    }

    /// The first requests as they would go out, if the user wants to see them. The key stays where it is.
    fn requests(&self) -> Vec<String> {
        let (mut lines, requests) = (Vec::new(), &self.count.requests);
        if let (Some(_), Some(account)) = (requests.first(), &self.account) {
            lines.push(format!("POST {}", account.endpoint));
            lines.push("authorization: Bearer …".to_owned());
            lines.push(format!("x-service-id: {}", account.service_id));
            lines.push("content-type: application/json".to_owned());
        }
        let bodies = requests
            .iter()
            .map(|ShownRequest { row, body }| format!("row {row}: {body}"));
        lines.extend(bodies);
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.iter().map(|line| printable(line)).collect()
    }

    /// Each input, and which of its rows cannot be sent. Most have the columns of the one before, which are not repeated.
    fn inputs(&self) -> Vec<String> {
        let (mut lines, mut shown, mut indent) = (Vec::new(), "", "");
        if self.count.files.len() > 1 {
            let files = counted(self.count.files.len() as u64, "file");
            let rows = counted(self.count.total.rows.read, "row");
            lines.push(format!("{files}: {rows}"));
            indent = "  ";
        }
        for file in &self.count.files {
            lines.push(format!("{indent}{}", line(file)));
            if !file.mapping.is_empty() && file.mapping != shown {
                lines.push(format!("{indent}  {}", printable(&file.mapping)));
                shown = &file.mapping;
            }
            let reasons = file.unsendable.iter().map(|(reason, rows)| {
                let help = help(*reason).map(|options| format!("; may help: {options}"));
                let remark = named(rows) + &help.unwrap_or_default();
                (reason.to_string(), rows.rows, remark)
            });
            let reasons = aligned(&reasons.collect::<Vec<_>>());
            lines.extend(reasons.iter().map(|line| format!("{indent}  {line}")));
        }
        lines
    }

    fn table(&self) -> Vec<TableLine> {
        let (count, total, rows) = (&self.count, &self.count.total, &self.count.total.rows);
        let (known, remark) = match &self.ledger {
            Some(ledger) if ledger.endpoint == Some(Account::of_sandbox().endpoint) => {
                ("known already", ledger.remark())
            }
            Some(ledger) => ("paid for already", ledger.remark()),
            None => ("", String::new()),
        };
        let dropped = "of these are sent without an invalid phone number or email address";
        let shortened = "of these are sent with one of several addresses, or without its port";
        let failed = "were or may have been billed; `--retry-failed` asks again";
        let too_old = "have an answer that is older than the run asks for";
        let at_most = if count.calls_at_most { "at most" } else { "" };
        // Some are shown in any case, and the others if there are any.
        let lines = [
            (true, "can be sent", rows.sendable, ""),
            (false, "values dropped", rows.noticed.dropped, dropped),
            (
                false,
                "addresses shortened",
                rows.noticed.addresses_shortened,
                shortened,
            ),
            (true, "cannot be sent", rows.unsendable, ""),
            (
                false,
                "passed on",
                rows.passed,
                "are not chosen by `--only`, and stay as they are",
            ),
            (self.ledger.is_some(), known, total.known, &*remark),
            (false, "failed already", total.failed_before, failed),
            (false, "asked again", count.ledger_answers_too_old, too_old),
            (
                true,
                "duplicates",
                count.duplicates,
                "repeat an earlier row",
            ),
            (true, "calls to make", count.calls, at_most),
            (
                self.calls_left.is_some(),
                "calls left",
                self.calls_left.unwrap_or(0),
                "in the budget",
            ),
        ];
        { lines.into_iter() }
            .filter(|(always, _, number, _)| *always || *number > 0)
            .map(|(_, label, number, remark)| (label.to_owned(), number, remark.to_owned()))
            .collect()
    }

    /// What a person should know besides the numbers.
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

impl CheckedLedger {
    /// Where the answers are.
    fn remark(&self) -> String {
        let Some(facts) = &self.facts else {
            return format!("`{}` does not exist yet", self.path);
        };
        let of = self.endpoint.as_deref().map(printable);
        let of = of.map(|endpoint| format!(" of {endpoint}"));
        let when = if facts.run.continues {
            ", for the unfinished run"
        } else {
            ""
        };
        format!("answers{} in `{}`{when}", of.unwrap_or_default(), self.path)
    }
}

fn aligned(lines: &[TableLine]) -> Vec<String> {
    let widest = |width: fn(&TableLine) -> usize| lines.iter().map(width).max().unwrap_or(0);
    let label = widest(|(label, ..)| label.len());
    let number = widest(|(_, number, _)| count(*number).len());
    let line = |(name, rows, remark): &TableLine| {
        let line = format!("{name:label$}  {:>number$}  {remark}", count(*rows));
        line.trim_end().to_owned()
    };
    lines.iter().map(line).collect()
}

/// The options that may help rows that fail for this reason, where it is not the rows that have to be changed.
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
