//! The result for people.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::super::open_input::bytes_ignored;
use super::result::{CallTime, CheckResult, CheckedFile, CheckedLedger, NamedRows};
use crate::base::elapsed::time;
use crate::base::error::{printable, quoted, shown};
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

/// A line for each input. Most have the columns of the one before, which are not repeated.
fn inputs(result: &CheckResult) -> Vec<String> {
    let (mut lines, mut shown, mut indent) = (Vec::new(), Vec::new(), "");
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
        let mut columns = vec![printable(&file.mapping)];
        if !file.replaced.is_empty() {
            let names: Vec<_> = file.replaced.iter().map(|name| quoted(name)).collect();
            columns.push(format!("replacing {} of the input", names.join(", ")));
        }
        if !file.mapping.is_empty() && columns != shown {
            lines.extend(columns.iter().map(|line| format!("{indent}  {line}")));
            shown = columns;
        }
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
    for (reason, (rows, named, remark)) in by_kind(result, |file| &file.unsendable) {
        let help = match named.options.unwrap_or_default() {
            [] => String::new(),
            options => format!("; may help: `{}`", options.join("`, `")),
        };
        lines.push((format!("  {reason}"), rows, remark + &help));
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
    if result.calls > 0 {
        lines.push(how_long(&result.time));
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
    let unsendable = result.total.rows.unsendable;
    if let Some(path) = &result.rejects {
        let rows = counted(unsendable, "row");
        lines.push(format!("rejects: {rows} in `{}`", shown(Path::new(path))));
    } else if unsendable > 0 && result.run_writes_rejects {
        lines.push("`rescore run` writes the rows that cannot be sent to its rejects".into());
    } else if unsendable > 0 && result.files.len() == 1 {
        let why = "so that you can fix them";
        lines.push(format!(
            "`--rejects FILE` writes the rows that cannot be sent, {why}"
        ));
    }
    lines
}

fn how_long(estimate: &CallTime) -> String {
    let time = |seconds: Option<f64>| {
        let seconds = seconds.unwrap_or_default();
        time(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    };
    let of_all = time(estimate.seconds);
    match (estimate.calls_per_second.map(per_time), estimate.from) {
        (Some(rate), Some("rate")) => format!("time: at least {of_all} at {rate}"),
        (Some(rate), _) => format!("time: about {of_all} at {rate}, as an earlier run found"),
        (None, _) => format!(
            "time: {} to {} if each call takes 100 ms; the run finds the pace",
            time(estimate.seconds_at_least),
            time(estimate.seconds_at_most),
        ),
    }
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
    }
    for (field, (rows, _, remark)) in by_kind(result, |file| &file.unusual_lengths) {
        if let Some(usual) = usual_length(field) {
            warnings.push(format!(
                "unusual length of `{field}` in {} (usual: {} to {} characters), sent all the same: {remark}",
                counted(rows, "row"),
                usual.start(),
                usual.end(),
            ));
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

/// Rows of all inputs by their kind, such as the reason why they cannot be sent: how many there are, those of the first input
/// that has some, and which these are: `row 7`, `rows 7, 9`, `rows 7, 9, 12, …`, with the input's name if there are several.
fn by_kind<'a, K: Ord + Copy + 'a>(
    result: &'a CheckResult,
    kinds: impl Fn(&'a CheckedFile) -> &'a BTreeMap<K, NamedRows>,
) -> BTreeMap<K, (u64, &'a NamedRows, String)> {
    let mut all = BTreeMap::new();
    for file in &result.files {
        for (kind, named) in kinds(file) {
            let place = match result.files.len() {
                1 => String::new(),
                _ => format!("`{}`: ", file.name),
            };
            all.entry(*kind).or_insert((0, named, place)).0 += named.rows;
        }
    }
    for (rows, NamedRows { first, .. }, remark) in all.values_mut() {
        let numbers: Vec<_> = first.iter().map(u64::to_string).collect();
        *remark += if numbers.len() == 1 { "row " } else { "rows " };
        *remark += &numbers.join(", ");
        if *rows > numbers.len() as u64 {
            *remark += ", …";
        }
    }
    all
}
