//! The result of a check: every number as programs get it, and the same in words. The reference documents every key. A value
//! that is not known is null, never absent.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::analysis::CountedRows;
use crate::base::error::{Error, printable};
use crate::base::money::{Money, Tariff};
use crate::input::ReaderSettings;
use crate::ledger::LedgerFacts;
use crate::observe::{count, counted, only_of_others};
use crate::raw_json::escape_unsafe;
use crate::service::Account;
use crate::verdict::Reason;

/// How many of the first rows of a kind are named: enough to look at, few enough to read.
const NAMED: usize = 3;

/// What a run would do and cost.
#[derive(Default, Serialize)]
pub(super) struct CheckResult {
    r#type: &'static str,
    version: u8,
    pub(super) exit_code: u8,
    /// The inputs; there is at least one.
    pub(super) files: Vec<CheckedFile>,
    /// The rows of all of them.
    #[serde(flatten)]
    pub(super) total: CheckCounts,
    pub(super) duplicates: u64,
    pub(super) calls: u64,
    pub(super) cost: Option<CallCost>,
    pub(super) ledger: Option<CheckedLedger>,
    pub(super) ledger_answers_damaged: u64,
    pub(super) ledger_answers_too_old: u64,
    /// Why the run would send nothing, by `--min-rows` or `--max-invalid`.
    #[serde(skip)]
    pub(super) sends_nothing: Option<Error>,
    /// What a person should know of the inputs.
    #[serde(skip)]
    pub(super) input_warnings: Vec<String>,
}

/// The rows of an input, or of all inputs.
#[derive(Debug, Default, Clone, Copy, Serialize)]
pub(super) struct CheckCounts {
    pub(super) rows: CheckedRows,
    /// Rows whose answer is paid for.
    pub(super) known: u64,
    /// Rows that have failed although their call was or may have been billed, and would not be sent again.
    pub(super) failed_before: u64,
}

/// How many rows there are, and how many of them can be sent.
#[derive(Debug, Default, Clone, Copy, Serialize)]
pub(super) struct CheckedRows {
    pub(super) read: u64,
    pub(super) sendable: u64,
    pub(super) unsendable: u64,
    /// Of those that can be sent, the rows without a phone number or an email address that is invalid.
    pub(super) dropped: u64,
}

/// An input, and what was counted in it.
#[derive(Debug, Default, Serialize)]
pub(super) struct CheckedFile {
    /// Its path; `None` is standard input.
    input: Option<String>,
    /// Why it cannot be used, or not to its end.
    pub(super) error: Option<String>,
    /// Its output is there: a run skips it, and it was not read.
    pub(super) finished: bool,
    /// Which column is which field, as one line.
    pub(super) mapping: String,
    #[serde(flatten)]
    pub(super) counts: CheckCounts,
    /// Rows that cannot be sent.
    pub(super) unsendable: BTreeMap<Reason, CountedRows>,
    /// Its name for people.
    #[serde(skip)]
    pub(super) name: String,
    /// Which of its rows a run would take, in words, if not all.
    #[serde(skip)]
    part: Option<String>,
}

/// What the calls cost.
#[derive(Serialize)]
pub(super) struct CallCost {
    #[serde(flatten)]
    tariff: Tariff,
    expected: Money,
}

/// The ledger whose answers were looked up.
#[derive(Serialize)]
pub(super) struct CheckedLedger {
    pub(super) path: String,
    /// Whose answers they are; `None` if it has none of the account.
    pub(super) endpoint: Option<String>,
    /// What a run would learn of it; `None` if there is none yet.
    #[serde(skip)]
    pub(super) facts: Option<LedgerFacts>,
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
    pub(super) const fn add(&mut self, file: &Self) {
        self.rows.read += file.rows.read;
        self.rows.sendable += file.rows.sendable;
        self.rows.unsendable += file.rows.unsendable;
        self.rows.dropped += file.rows.dropped;
        self.known += file.known;
        self.failed_before += file.failed_before;
    }
}

impl CheckedFile {
    /// An input that was not read yet.
    pub(super) fn of(settings: &ReaderSettings) -> Self {
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
    pub(super) fn new(tariff: Tariff, calls: u64) -> Self {
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
    pub(super) fn new(ledger: Option<CheckedLedger>) -> Self {
        Self {
            r#type: "check",
            version: 1,
            ledger,
            ..Self::default()
        }
    }

    /// The object for programs, on one line.
    pub(super) fn json(&self) -> String {
        // It fails only on map keys that are not strings, and there are none.
        escape_unsafe(&serde_json::to_string(self).unwrap_or_default())
    }

    /// The result for people, without a line end after the last line.
    pub(super) fn text(&self) -> String {
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
        let failed = "were or may have been billed; `--retry-failed` asks again";
        let too_old = "have an answer that is older than the run asks for";
        // Some are shown in any case, and the others if there are any.
        let lines = [
            (true, "can be sent", rows.sendable, ""),
            (false, "values dropped", rows.dropped, dropped),
            (true, "cannot be sent", rows.unsendable, ""),
            (self.ledger.is_some(), known, total.known, &*remark),
            (false, "failed already", total.failed_before, failed),
            (false, "asked again", self.ledger_answers_too_old, too_old),
            (true, "duplicates", self.duplicates, "repeat an earlier row"),
            (true, "calls to make", self.calls, ""),
        ];
        { lines.into_iter() }
            .filter(|(always, _, number, _)| *always || *number > 0)
            .map(|(_, label, number, remark)| (label.to_owned(), number, remark.to_owned()))
            .collect()
    }

    /// What a person should know besides the numbers.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = self.input_warnings.clone();
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
        Reason::NotUtf8 | Reason::Undecodable => Some("`--encoding`"),
        Reason::MissingUserAgent => Some("`--map`, `--default`"),
        Reason::MissingName | Reason::MissingIp | Reason::MissingContact | Reason::WrongType => {
            Some("`--map`")
        }
        _ => None,
    }
}
