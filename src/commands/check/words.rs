//! The result for people.

use super::super::open_input::bytes_ignored;
use super::counts::CheckedRows;
use super::estimate::{LATENCY, RateSource, TimeEstimate};
use super::outlook::{FileOutlook, LedgerOutlook, Outlook, RowsOfKind};
use super::remedies::remedy_for;
use crate::base::elapsed::time;
use crate::base::error::{printable, quoted, shown};
use crate::base::own_file::not_writable;
use crate::config::InputLimits;
use crate::fields::usual_length;
use crate::observe::{count, counted, day, only_of_others, per_time};

/// The result, without a line end after the last line.
pub(super) fn text(outlook: &Outlook) -> String {
    let mut lines = match outlook.only_file() {
        Some(file) => one_file(file),
        None => files(outlook),
    };
    lines.push(String::new());
    lines.extend(aligned(&table(outlook)));
    lines.extend(remarks(outlook));
    lines.join("\n")
}

/// The only input, with its columns.
fn one_file(file: &FileOutlook) -> Vec<String> {
    let mut first = format!("{}: {}", file.name, counted(file.rows.read, "row"));
    if let Some(part) = file.selection.words() {
        first += &format!(", {part}");
    }
    let mut lines = vec![first];
    lines.extend(columns(file, "  "));
    lines
}

/// A line for each input. Most have the columns of the one before, which are not repeated.
fn files(outlook: &Outlook) -> Vec<String> {
    let mut lines = vec![format!(
        "{}: {}",
        counted(outlook.files.len() as u64, "file"),
        counted(outlook.total(|rows| rows.read), "row")
    )];
    let mut shown = Vec::new();
    for file in &outlook.files {
        let rejected = file.rows.rejected();
        let was_read = !file.finished && file.error.is_none();
        let facts = [
            file.finished.then(|| "finished".to_owned()),
            (was_read || file.rows.read > 0).then(|| counted(file.rows.read, "row")),
            (rejected > 0).then(|| format!("{} cannot be sent", count(rejected))),
            file.error.is_some().then(|| "cannot be used".to_owned()),
        ];
        let facts: Vec<_> = facts.into_iter().flatten().collect();
        lines.push(format!("  {}: {}", file.name, facts.join(", ")));
        let columns: Vec<_> = columns(file, "    ").collect();
        if !columns.is_empty() && columns != shown {
            lines.extend(columns.iter().cloned());
            shown = columns;
        }
    }
    lines
}

/// Which column is which field, and which are replaced.
fn columns(file: &FileOutlook, indent: &str) -> impl Iterator<Item = String> {
    let mapping =
        (!file.mapping.is_empty()).then(|| format!("{indent}{}", printable(&file.mapping)));
    let names: Vec<_> = file.replaced.iter().map(|name| quoted(name)).collect();
    let replaced =
        (!names.is_empty()).then(|| format!("{indent}replacing {} of the input", names.join(", ")));
    mapping.into_iter().chain(replaced)
}

/// A line of the table: what is counted, the number, and a remark.
struct CountLine {
    label: String,
    number: u64,
    remark: String,
    /// What follows on lines of its own.
    below: Option<&'static str>,
}

impl CountLine {
    fn new(label: &str, number: u64, remark: impl Into<String>) -> Self {
        Self {
            label: label.to_owned(),
            number,
            remark: remark.into(),
            below: None,
        }
    }
}

fn table(outlook: &Outlook) -> Vec<CountLine> {
    let sendable = outlook.total(CheckedRows::sendable);
    let mut lines = vec![
        CountLine::new("can be sent", sendable, ""),
        CountLine::new("cannot be sent", outlook.total(CheckedRows::rejected), ""),
    ];
    for (reason, found) in outlook.by_kind(|rows| &rows.unsendable) {
        let remedy = remedy_for(reason, found.file.remedies);
        lines.push(CountLine {
            label: format!("  {reason}"),
            number: found.rows,
            remark: rows(outlook, &found),
            below: remedy.map(|remedy| remedy.words),
        });
    }
    if let Some(ledger) = &outlook.ledger {
        let label = if ledger.sandbox {
            "known already"
        } else {
            "paid for already"
        };
        let known = outlook.total(|rows| rows.known);
        lines.push(CountLine::new(label, known, answers(ledger)));
    }
    let failed_before = outlook.total(|rows| rows.failed_before);
    if failed_before > 0 {
        let remark = "were or may have been billed; `--retry-failed` asks again";
        lines.push(CountLine::new("failed already", failed_before, remark));
    }
    let too_old = outlook.total(|rows| rows.too_old);
    if too_old > 0 {
        let remark = "have an answer that is older than the run asks for";
        lines.push(CountLine::new("asked again", too_old, remark));
    }
    let remark = "repeat an earlier row";
    lines.push(CountLine::new("duplicates", outlook.duplicates(), remark));
    lines.push(CountLine::new("calls to make", outlook.calls, ""));
    lines
}

/// Which answers are paid for, and when they are used.
fn answers(ledger: &LedgerOutlook) -> String {
    let LedgerOutlook {
        ledger,
        endpoint,
        exists,
        continues,
        ..
    } = ledger;
    let of = match endpoint {
        Some(endpoint) => format!(" of {}", printable(endpoint)),
        None => String::new(),
    };
    if !exists {
        return format!("`{}` does not exist yet", shown(ledger));
    }
    let when = if *continues {
        ", for the unfinished run"
    } else {
        ""
    };
    format!("answers{of} in `{}`{when}", shown(ledger))
}

fn aligned(lines: &[CountLine]) -> Vec<String> {
    let widest = |width: fn(&CountLine) -> usize| lines.iter().map(width).max().unwrap_or(0);
    let label = widest(|line| line.label.len());
    let number = widest(|line| count(line.number).len());
    let mut text = Vec::new();
    for line in lines {
        let (name, remark) = (&line.label, &line.remark);
        let shown = format!("{name:label$}  {:>number$}  {remark}", count(line.number));
        text.push(shown.trim_end().to_owned());
        let below = line.below.unwrap_or_default().lines();
        text.extend(below.map(|below| format!("    {below}")));
    }
    text
}

/// What follows the table.
fn remarks(outlook: &Outlook) -> Vec<String> {
    let rejected = outlook.total(CheckedRows::rejected);
    let mut lines = vec![String::new()];
    if let Some(tariff) = &outlook.tariff {
        lines.push(format!(
            "cost: {} at {} a call; retries may cost more",
            tariff.shown_for(outlook.calls),
            tariff.shown_for(1)
        ));
    }
    if outlook.calls > 0 {
        lines.push(format!("time: {}", how_long(outlook.time)));
    }
    for file in &outlook.files {
        let Some(reason) = file.rows.refused else {
            continue;
        };
        let which = match outlook.only_file() {
            Some(_) => "this file",
            None => &format!("`{}`", file.name),
        };
        lines.push(format!(
            "`rescore run` refuses {which}: its first rows all fail for the same reason,\n`{reason}` (`--give-up-after never` continues anyway)"
        ));
    }
    match outlook.rejects() {
        Some(file) => lines.push(format!(
            "rejects: {} in `{}`",
            counted(rejected, "row"),
            shown(file)
        )),
        None if rejected == 0 => {}
        None if outlook.run_writes_rejects => {
            lines.push("`rescore run` writes the rows that cannot be sent to its rejects".into());
        }
        None if outlook.only_file().is_some() => lines.push(
            "`--rejects FILE` writes the rows that cannot be sent, so that you can fix them".into(),
        ),
        None => {}
    }
    if lines.len() == 1 {
        lines.clear();
    }
    lines
}

fn how_long(estimate: TimeEstimate) -> String {
    match estimate {
        TimeEstimate::AtRate {
            rate,
            time: takes,
            from: RateSource::Option,
        } => format!("at least {} at {}", time(takes), per_time(rate)),
        TimeEstimate::AtRate {
            rate,
            time: takes,
            from: RateSource::Ledger(found),
        } => format!(
            "about {} at {}, the limit found {}",
            time(takes),
            per_time(rate),
            day(found)
        ),
        TimeEstimate::Between {
            least,
            in_flight,
            most,
        } => format!(
            "not known before the first call\n      {} ({} at a time) to {} (one by one) if each takes {}",
            time(least),
            count(in_flight),
            time(most),
            time(LATENCY)
        ),
    }
}

/// What a person should know besides the numbers.
pub(super) fn warnings(outlook: &Outlook) -> Vec<String> {
    let mut warnings = Vec::new();
    for file in &outlook.files {
        if file.ignores_bytes {
            let name = match outlook.only_file() {
                Some(_) => "the input",
                None => &format!("`{}`", file.name),
            };
            warnings.push(bytes_ignored(name));
        }
        if file.rows.read == 0 && file.error.is_none() && !file.finished {
            warnings.push(format!("{} has no rows", file.name));
        }
    }
    for (field, found) in outlook.by_kind(|rows| &rows.unusual) {
        if let Some(usual) = usual_length(field) {
            warnings.push(format!(
                "unusual length of `{field}` in {} (usual: {} to {} characters), sent all the same: {}",
                counted(found.rows, "row"),
                usual.start(),
                usual.end(),
                rows(outlook, &found)
            ));
        }
    }
    warnings.extend(refused_by_limits(outlook));
    let continues = { outlook.ledger.as_ref() }.is_some_and(|it| it.continues);
    if let Some(output) = outlook.existing_output.as_ref().filter(|_| !continues) {
        warnings.push(format!(
            "`{}` already exists: `rescore run` replaces it only with `--overwrite`, or if it continues the run that wrote it",
            shown(output)
        ));
    }
    let new = { outlook.ledger.as_ref() }.filter(|it| !it.exists);
    if let Some(ledger) = new.map(|it| &it.ledger)
        && let Some(why) = not_writable(ledger)
    {
        warnings.push(format!(
            "`rescore run` sends nothing: it cannot make the ledger `{}`: {why}",
            shown(ledger)
        ));
    }
    if let Some(ledger) = outlook.ledger.as_ref().filter(|it| !it.others.is_empty()) {
        warnings.push(only_of_others(shown(&ledger.ledger), &ledger.others));
    }
    let damaged = outlook.total(|rows| rows.damaged);
    if damaged > 0 {
        warnings.push(format!(
            "{} in the ledger cannot be used: damaged",
            counted(damaged, "answer")
        ));
    }
    warnings
}

/// Why the run would send nothing, by `--min-rows` and `--max-invalid`.
fn refused_by_limits(outlook: &Outlook) -> Vec<String> {
    // It counts the rows of those as well, which were not read here.
    if outlook.files.iter().any(|file| file.finished) {
        return Vec::new();
    }
    let InputLimits {
        min_rows,
        max_invalid,
    } = outlook.limits;
    let (read, rejected) = (
        outlook.total(|rows| rows.read),
        outlook.total(CheckedRows::rejected),
    );
    let nothing = |why| format!("`rescore run` sends nothing: {why}");
    let few = min_rows.filter(|least| read < least.get());
    let few = few.map(|least| format!("{}, fewer than `--min-rows {least}`", counted(read, "row")));
    let invalid = max_invalid.filter(|most| !most.covers(rejected, read));
    let invalid = invalid.map(|most| {
        format!(
            "{} of {} cannot be sent, more than `--max-invalid {most}` allows",
            count(rejected),
            counted(read, "row")
        )
    });
    few.into_iter().chain(invalid).map(nothing).collect()
}

/// `row 7`, `rows 7, 9`, `rows 7, 9, 12, …`, with the name of the file if there are several.
fn rows(outlook: &Outlook, found: &RowsOfKind<'_>) -> String {
    let numbers: Vec<_> = found.first.first.iter().map(u64::to_string).collect();
    let more = if found.rows > numbers.len() as u64 {
        ", …"
    } else {
        ""
    };
    let rows = if numbers.len() == 1 { "row" } else { "rows" };
    let place = match outlook.only_file() {
        Some(_) => String::new(),
        None => format!("`{}`: ", found.file.name),
    };
    format!("{place}{rows} {}{more}", numbers.join(", "))
}
