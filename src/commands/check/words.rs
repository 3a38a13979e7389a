//! The result for people.

use std::path::Path;
use std::time::Duration;

use super::super::open_input::bytes_ignored;
use super::result::{CheckResult, CheckedLedger, NamedRows};
use crate::base::elapsed::time;
use crate::base::error::{printable, shown};
use crate::fields::usual_length;
use crate::input::fix;
use crate::observe::{count, counted, only_of_others, per_time};
use crate::service::Account;

/// The result, without a line end after the last line.
pub(super) fn text(result: &CheckResult) -> String {
    let mut lines = inputs(result);
    lines.push(String::new());
    lines.extend(aligned(&table(result)));
    lines.push(String::new());
    lines.extend(remarks(result));
    lines.join("\n").trim_end().to_owned()
}

/// Each input, and which of its rows cannot be sent. Most have the columns of the one before, which are not repeated.
fn inputs(result: &CheckResult) -> Vec<String> {
    let (mut lines, mut shown, mut indent) = (Vec::new(), String::new(), "");
    if result.files.len() > 1 {
        let files = counted(result.files.len() as u64, "file");
        let rows = counted(result.total.rows.read, "row");
        lines.push(format!("{files}: {rows}"));
        indent = "  ";
    }
    for file in &result.files {
        let rows = &file.counts.rows;
        let is_usable = !file.finished && file.error.is_none();
        let facts = [
            file.finished.then(|| "finished".to_owned()),
            (is_usable || rows.read > 0).then(|| counted(rows.read, "row")),
            file.part.clone(),
            (rows.unsendable > 0).then(|| format!("{} cannot be sent", count(rows.unsendable))),
            file.error.is_some().then(|| "cannot be used".to_owned()),
        ];
        let facts: Vec<_> = facts.into_iter().flatten().collect();
        lines.push(format!("{indent}{}: {}", file.name, facts.join(", ")));
        let mut below = Vec::new();
        if !file.mapping.is_empty() && file.mapping != shown {
            below.push(printable(&file.mapping));
            shown.clone_from(&file.mapping);
        }
        let reasons = { file.unsendable.iter() }.map(|(reason, named)| {
            let help = match named.options.unwrap_or_default() {
                [] => String::new(),
                options => format!("; may help: `{}`", options.join("`, `")),
            };
            (reason.to_string(), named.rows, first_of(named) + &help)
        });
        below.extend(aligned(&reasons.collect::<Vec<_>>()));
        lines.extend(below.iter().map(|line| format!("{indent}  {line}")));
    }
    lines
}

/// What is counted, the number, and a remark.
type TableLine = (String, u64, String);

fn table(result: &CheckResult) -> Vec<TableLine> {
    let total = &result.total;
    let line = |label: &str, number, remark: &str| (label.to_owned(), number, remark.to_owned());
    let mut lines = vec![
        line("can be sent", total.rows.sendable, ""),
        line("cannot be sent", total.rows.unsendable, ""),
    ];
    if total.rows.dropped > 0 {
        let remark = "can be sent without an invalid phone number or email address";
        lines.insert(1, line("dropped values", total.rows.dropped, remark));
    }
    if let Some(ledger) = &result.ledger {
        lines.push(paid_for(ledger, total.known));
    }
    let remark = "were or may have been billed; `--retry-failed` asks again";
    let failed = line("failed already", total.failed_before, remark);
    let remark = "have an answer that is older than the run asks for";
    let too_old = line("asked again", result.ledger_answers_too_old, remark);
    lines.extend([failed, too_old].into_iter().filter(|line| line.1 > 0));
    lines.push(line(
        "duplicates",
        result.duplicates,
        "repeat an earlier row",
    ));
    lines.push(line("calls to make", result.calls, ""));
    lines
}

/// How many rows have an answer, and where that is.
fn paid_for(ledger: &CheckedLedger, known: u64) -> TableLine {
    let label = if ledger.endpoint == Some(Account::of_sandbox().endpoint) {
        "known already"
    } else {
        "paid for already"
    };
    let remark = match (&ledger.facts, &ledger.endpoint) {
        (None, _) => format!("`{}` does not exist yet", ledger.path),
        (Some(facts), endpoint) => {
            let of = endpoint.as_deref().map(printable);
            let of = of
                .map(|endpoint| format!(" of {endpoint}"))
                .unwrap_or_default();
            let of_stopped = ", for the unfinished run";
            let when = if facts.run.continues { of_stopped } else { "" };
            format!("answers{of} in `{}`{when}", ledger.path)
        }
    };
    (label.to_owned(), known, remark)
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

/// What follows the table.
fn remarks(result: &CheckResult) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(cost) = &result.cost {
        let (all, one) = (
            cost.tariff.shown_for(result.calls),
            cost.tariff.shown_for(1),
        );
        lines.push(format!(
            "cost: {all} at {one} a call; retries may cost more"
        ));
    }
    if let (Some(rate), Some(seconds)) = (result.time.calls_per_second, result.time.seconds) {
        let all = time(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
        let from = match result.time.from {
            Some("ledger") => ", the limit that an earlier run found",
            _ => "",
        };
        lines.push(format!("time: at least {all} at {}{from}", per_time(rate)));
    }
    for file in &result.files {
        if let Some(reason) = file.run_refuses {
            lines.push(format!(
                "`rescore run` refuses {}: its first rows all fail for the same reason, `{reason}`\n  {}",
                file.name,
                fix(reason)
            ));
        }
    }
    if let Some(path) = &result.rejects {
        let rows = counted(result.total.rows.unsendable, "row");
        lines.push(format!("rejects: {rows} in `{}`", shown(Path::new(path))));
    }
    lines
}

/// What a person should know besides the numbers.
pub(super) fn warnings(result: &CheckResult) -> Vec<String> {
    let mut warnings = Vec::new();
    for file in &result.files {
        if file.ignores_bytes {
            warnings.push(bytes_ignored(&file.name));
        }
        if file.counts.rows.read == 0 && file.error.is_none() && !file.finished {
            warnings.push(format!("{} has no rows", file.name));
        }
        for (field, named) in &file.unusual_lengths {
            if let Some(usual) = usual_length(*field) {
                warnings.push(format!(
                    "{}: unusual length of `{field}` in {} (usual: {} to {} characters), sent all the same: {}",
                    file.name,
                    counted(named.rows, "row"),
                    usual.start(),
                    usual.end(),
                    first_of(named)
                ));
            }
        }
    }
    if let Some(error) = &result.sends_nothing {
        warnings.push(format!("`rescore run` sends nothing: {error}"));
    }
    if let Some(CheckedLedger { path, facts, .. }) = &result.ledger
        && let Some(facts) = facts
            .as_ref()
            .filter(|facts| !facts.other_accounts.is_empty())
    {
        warnings.push(only_of_others(path, &facts.other_accounts));
    }
    if result.ledger_answers_damaged > 0 {
        let answers = counted(result.ledger_answers_damaged, "answer");
        warnings.push(format!("{answers} in the ledger cannot be used: damaged"));
    }
    warnings
}

/// `row 7`, `rows 7, 9`, `rows 7, 9, 12, …`.
fn first_of(named: &NamedRows) -> String {
    let numbers: Vec<_> = named.first.iter().map(u64::to_string).collect();
    let word = if named.rows == 1 { "row" } else { "rows" };
    let are_more = named.rows > numbers.len() as u64;
    let more = if are_more { ", …" } else { "" };
    format!("{word} {}{more}", numbers.join(", "))
}
