//! `rescore check`: what a run would do and cost. It is the run with a caller that counts: the same files, the same ledger, the
//! same look-up of each row. Nothing is sent, and nothing is written.
//!
//! Its result has every number as programs get it, and the same in words. The reference documents every key. A value that is
//! not known is null, never absent.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use serde::Serialize;

use super::files::refuse_outdated;
use super::inputs::{no_rows, none_chosen, path_of, read_ahead};
use super::run::{Files, RunPart, Turn, in_a_line, ledger_account, look_up};
use super::signals::Interrupts;
use super::text::print;
use crate::analysis::CountedRows;
use crate::base::error::{Error, Exit, Result};
use crate::base::money::{Money, Tariff};
use crate::base::own_file::directory_of;
use crate::base::text::{printable, shown};
use crate::config::CheckConfig;
use crate::fields::Noticed;
use crate::input::ReaderSettings;
use crate::ledger::{KnownOutcome, LedgerFacts, LedgerSettings, Lookup, Spending, preview};
use crate::observe::{count, counted, only_of_others, tell_error, warn};
use crate::raw_json::escape_unsafe;
use crate::row_state::{RowBatch, RowState};
use crate::service::Account;
use crate::telemetry::event::PassedOver;
use crate::verdict::Reason;

/// Checks the inputs, and prints what a run over them would do.
///
/// # Errors
/// Exit code 2: the input or the ledger cannot be used. Exit code 3: standard output cannot be written.
pub(crate) fn execute(config: &CheckConfig) -> Result<Exit> {
    let mut files = Files::find(config.files.clone(), config.ledger.reuse)?;
    let is_several = files.only().is_none();
    let is_sandbox = { config.account.as_ref() }.is_some_and(|account| account.sandbox);
    let mut settings = files.ledger_settings(&config.ledger, is_sandbox, &config.captured)?;
    if let Some(settings) = &mut settings {
        settings.account = config.account.as_ref().map(ledger_account);
    }
    // Its thread lives as long as the process; there are no files to remove.
    drop(Interrupts::listen()?);
    let (lookup, ledger) = look_at(settings.as_ref(), config)?;
    let mut pass = Pass {
        lookup,
        calls: HashSet::new(),
        result: CheckResult::new(ledger),
    };
    // If an input cannot be read, the pass says so as well.
    pass.result.sends_nothing = files.refuse_broken(config.limits).err();
    files.read(config.plan)?;
    for part in files.parts {
        let mut file = CheckedFile::of(&part.input);
        if let Err(error) = pass.part(part, &mut file) {
            // This is no reason not to look at the others, as in a run.
            if !is_several {
                return Err(error);
            }
            tell_error(&error);
            file.error = Some(in_a_line(&error));
        }
        pass.result.total.add(&file.counts);
        pass.result.files.push(file);
    }
    let (mut result, calls) = (pass.result, pass.calls.len() as u64);
    result.calls = calls;
    let spending = { result.ledger.as_ref().and_then(|it| it.facts.as_ref()) }
        .map_or_else(Spending::default, |facts| facts.run.spending.clone());
    let limits = config.call_limits.iter();
    result.calls_left = limits.map(|limit| limit.left(&spending)).min();
    result.cost = { config.tariff.clone() }.map(|tariff| CallCost::new(tariff, calls));
    let exit = match result.total.rows.unsendable {
        _ if result.files.iter().any(|file| file.error.is_some()) => Exit::Usage,
        0 => Exit::Complete,
        _ => Exit::SomeFailed,
    };
    result.exit_code = exit.code();
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

/// A pass over one input after the other.
struct Pass {
    lookup: Lookup,
    /// The fingerprints of the requests that would be sent: 16 to 32 bytes for each. Two of ten million share one with a
    /// chance below one in 300,000, and the count would then be too low by one call.
    calls: HashSet<i64>,
    /// What was counted so far.
    result: CheckResult,
}

impl Pass {
    /// Counts the rows of an input, unless its output is finished.
    ///
    /// # Errors
    /// The input or the ledger cannot be read to its end.
    fn part(&mut self, part: RunPart, file: &mut CheckedFile) -> Result<()> {
        let open = match (part.turn, &part.output) {
            (Turn::Run(open), _) => open,
            (Turn::Unusable(error), _) => return Err(error),
            (_, Some(output)) => {
                file.finished = true;
                return refuse_outdated(path_of(&part.input), output, false);
            }
            _ => return Ok(()),
        };
        let (reader, opened) = open.open_input(&part.input)?;
        file.mapping.clone_from(&opened.mapping);
        for batch in read_ahead(reader)? {
            self.count(file, batch?)?;
        }
        let warning = no_rows(&file.name, file.counts.rows.read);
        self.result.input_warnings.extend(warning);
        Ok(())
    }

    fn count(&mut self, file: &mut CheckedFile, mut batch: RowBatch) -> Result<()> {
        look_up(&mut self.lookup, &mut batch.rows)?;
        let counts = &mut file.counts;
        counts.rows.noticed += batch.noticed;
        for row in &batch.rows {
            counts.rows.read += 1;
            if let Some(failure) = row.state.failure() {
                counts.rows.unsendable += 1;
                let named = file.unsendable.entry(failure.reason).or_default();
                named.count(row.number);
            }
            counts.rows.passed += u64::from(matches!(row.state, RowState::Passed));
            let RowState::Waiting { key, found, .. } = &row.state else {
                continue;
            };
            counts.rows.sendable += 1;
            match found.passed_over {
                Some(PassedOver::Damaged) => self.result.ledger_answers_damaged += 1,
                Some(PassedOver::TooOld) => self.result.ledger_answers_too_old += 1,
                Some(PassedOver::Failed) | None => {}
            }
            match found.known {
                Some(KnownOutcome::Answer(_)) => counts.known += 1,
                Some(KnownOutcome::Failure(_)) => counts.failed_before += 1,
                None if self.calls.insert(key.fingerprint()) => {}
                None => self.result.duplicates += 1,
            }
        }
        Ok(())
    }
}

/// Opens the ledger, if there is one to look at: what looks rows up in it, and what a run would learn of it.
///
/// # Errors
/// Exit code 2: it cannot be used.
fn look_at(
    settings: Option<&LedgerSettings>,
    config: &CheckConfig,
) -> Result<(Lookup, Option<CheckedLedger>)> {
    let Some(settings) = settings else {
        return Ok((Lookup::nowhere(), None));
    };
    // The user's first run makes the directory of the ledger.
    let is_missing = |file: &Path| !directory_of(file).exists();
    let is_made = config.ledger.named.is_none() && settings.location.file().is_some_and(is_missing);
    let found = if is_made { None } else { preview(settings)? };
    let (lookup, facts) = found.unzip();
    let ledger = CheckedLedger {
        path: shown(settings.location.path()),
        endpoint: { facts.as_ref() }.and_then(|facts: &LedgerFacts| facts.endpoint.clone()),
        facts,
    };
    Ok((lookup.unwrap_or_else(Lookup::nowhere), Some(ledger)))
}

/// How many of the first rows of a kind are named: enough to look at, few enough to read.
const NAMED: usize = 3;

/// What a run would do and cost.
#[derive(Default, Serialize)]
struct CheckResult {
    r#type: &'static str,
    version: u8,
    exit_code: u8,
    /// The inputs; there is at least one.
    files: Vec<CheckedFile>,
    /// The rows of all of them.
    #[serde(flatten)]
    total: CheckCounts,
    duplicates: u64,
    calls: u64,
    /// How many calls the budgets leave; `None` if there are none.
    calls_left: Option<u64>,
    cost: Option<CallCost>,
    ledger: Option<CheckedLedger>,
    ledger_answers_damaged: u64,
    ledger_answers_too_old: u64,
    /// Why the run would send nothing, by `--min-rows` or `--max-invalid`.
    #[serde(skip)]
    sends_nothing: Option<Error>,
    /// What a person should know of the inputs.
    #[serde(skip)]
    input_warnings: Vec<String>,
}

/// The rows of an input, or of all inputs.
#[derive(Debug, Default, Clone, Copy, Serialize)]
struct CheckCounts {
    rows: CheckedRows,
    /// Rows whose answer is paid for.
    known: u64,
    /// Rows that have failed although their call was or may have been billed, and would not be sent again.
    failed_before: u64,
}

/// How many rows there are, and how many of them can be sent.
#[derive(Debug, Default, Clone, Copy, Serialize)]
struct CheckedRows {
    read: u64,
    sendable: u64,
    unsendable: u64,
    /// Rows that are not to be sent.
    passed: u64,
    #[serde(flatten)]
    noticed: Noticed,
}

/// An input, and what was counted in it.
#[derive(Debug, Default, Serialize)]
struct CheckedFile {
    /// Its path; `None` is standard input.
    input: Option<String>,
    /// Why it cannot be used, or not to its end.
    error: Option<String>,
    /// Its output is there: a run skips it, and it was not read.
    finished: bool,
    /// Which column is which field, as one line.
    mapping: String,
    #[serde(flatten)]
    counts: CheckCounts,
    /// Rows that cannot be sent.
    unsendable: BTreeMap<Reason, CountedRows>,
    /// Its name for people.
    #[serde(skip)]
    name: String,
    /// Which of its rows a run would take, in words, if not all.
    #[serde(skip)]
    part: Option<String>,
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

impl CheckCounts {
    /// Adds the rows of an input.
    fn add(&mut self, file: &Self) {
        self.rows.read += file.rows.read;
        self.rows.sendable += file.rows.sendable;
        self.rows.unsendable += file.rows.unsendable;
        self.rows.passed += file.rows.passed;
        self.rows.noticed += file.rows.noticed;
        self.known += file.known;
        self.failed_before += file.failed_before;
    }
}

impl CheckedFile {
    /// An input that was not read yet.
    fn of(settings: &ReaderSettings) -> Self {
        let input = &settings.file.input;
        Self {
            name: input.shown(),
            input: { input.path() }.map(|path| path.to_string_lossy().into_owned()),
            part: settings.selection.words(),
            ..Self::default()
        }
    }

    /// How many rows it has, and why some cannot be sent.
    fn line(&self) -> String {
        let rows = &self.counts.rows;
        let is_read = rows.read > 0 || !self.finished && self.error.is_none();
        let facts = [
            self.finished.then(|| "finished".to_owned()),
            is_read.then(|| counted(rows.read, "row")),
            self.part.clone(),
            (rows.unsendable > 0).then(|| format!("{} cannot be sent", count(rows.unsendable))),
            self.error.is_some().then(|| "cannot be used".to_owned()),
        ];
        let facts: Vec<_> = facts.into_iter().flatten().collect();
        format!("{}: {}", self.name, facts.join(", "))
    }
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
    /// Nothing was counted yet.
    fn new(ledger: Option<CheckedLedger>) -> Self {
        Self {
            r#type: "check",
            version: 1,
            ledger,
            ..Self::default()
        }
    }

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
        if let Some(CallCost { tariff, .. }) = &self.cost {
            let (all, one) = (tariff.shown_for(self.calls), tariff.shown_for(1));
            lines.push(format!(
                "cost: {all} at {one} a call; retries may cost more"
            ));
        }
        lines.join("\n").trim_end().to_owned()
    }

    /// Each input, and which of its rows cannot be sent. Most have the columns of the one before, which are not repeated.
    fn inputs(&self) -> Vec<String> {
        let (mut lines, mut shown, mut indent) = (Vec::new(), "", "");
        if self.files.len() > 1 {
            let files = counted(self.files.len() as u64, "file");
            let rows = counted(self.total.rows.read, "row");
            lines.push(format!("{files}: {rows}"));
            indent = "  ";
        }
        for file in &self.files {
            lines.push(format!("{indent}{}", file.line()));
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
        let (total, rows) = (&self.total, &self.total.rows);
        let (known, remark) = match &self.ledger {
            Some(ledger) if ledger.endpoint == Some(Account::of_sandbox().endpoint) => {
                ("known already", ledger.remark())
            }
            Some(ledger) => ("paid for already", ledger.remark()),
            None => ("", String::new()),
        };
        let dropped = "of these are sent without an invalid phone number or email address";
        let shortened = "of these are sent with one of several addresses, or without its port";
        let nulls = "cells have a word such as `NULL`, which is taken for a value: `--null NULL` reads it as empty";
        let failed = "were or may have been billed; `--retry-failed` asks again";
        let too_old = "have an answer that is older than the run asks for";
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
            (false, "null words", rows.noticed.null_words, nulls),
            (true, "cannot be sent", rows.unsendable, ""),
            (
                false,
                "passed on",
                rows.passed,
                "are not chosen by `--only`, and stay as they are",
            ),
            (self.ledger.is_some(), known, total.known, &*remark),
            (false, "failed already", total.failed_before, failed),
            (false, "asked again", self.ledger_answers_too_old, too_old),
            (true, "duplicates", self.duplicates, "repeat an earlier row"),
            (true, "calls to make", self.calls, ""),
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
        let mut warnings = self.input_warnings.clone();
        warnings.extend(none_chosen(self.total.rows.read, self.total.rows.passed));
        if let Some(error) = &self.sends_nothing {
            warnings.push(format!("`rescore run` sends nothing: {error}"));
        }
        if let Some(CheckedLedger { path, facts, .. }) = &self.ledger
            && let Some(facts) = facts
            && !facts.other_accounts.is_empty()
        {
            warnings.push(only_of_others(path, &facts.other_accounts));
        }
        if self.ledger_answers_damaged > 0 {
            let answers = counted(self.ledger_answers_damaged, "answer");
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
