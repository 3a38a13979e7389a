//! The result for people.

use super::counts::NamedRows;
use super::estimate::{LATENCY, RateSource, TimeEstimate};
use super::outlook::{LedgerOutlook, Outlook};
use super::remedies::remedy_for;
use crate::base::elapsed::time;
use crate::base::error::{printable, quoted, shown};
use crate::fields::usual_length;
use crate::ledger::PreviewedRun;
use crate::observe::{count, counted, day, per_time};

/// The result, without a line end after the last line.
pub(super) fn text(outlook: &Outlook) -> String {
    let mut first = format!("{}: {}", outlook.name, counted(outlook.counts.read, "row"));
    if let Some(part) = outlook.selection.words() {
        first += &format!(", {part}");
    }
    let mut lines = vec![first];
    if !outlook.mapping.is_empty() {
        lines.push(format!("  {}", printable(&outlook.mapping)));
    }
    if !outlook.replaced.is_empty() {
        let names: Vec<_> = outlook.replaced.iter().map(|name| quoted(name)).collect();
        lines.push(format!("  replacing {} of the input", names.join(", ")));
    }
    lines.push(String::new());
    lines.extend(aligned(&table(outlook)));
    lines.extend(remarks(outlook));
    lines.join("\n")
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
    let counts = &outlook.counts;
    let mut lines = vec![
        CountLine::new("can be sent", counts.sendable(), ""),
        CountLine::new("cannot be sent", counts.rejected(), ""),
    ];
    for (reason, tally) in &counts.unsendable {
        let remedy = remedy_for(*reason, outlook.remedies);
        lines.push(CountLine {
            label: format!("  {reason}"),
            number: tally.rows,
            remark: rows(tally),
            below: remedy.map(|remedy| remedy.words),
        });
    }
    if let Some(ledger) = &outlook.ledger {
        let label = if ledger.sandbox {
            "known already"
        } else {
            "paid for already"
        };
        lines.push(CountLine::new(label, counts.known, answers(ledger)));
    }
    if counts.failed_before > 0 {
        let remark = "the run that was stopped failed on them, and does not send them again";
        lines.push(CountLine::new(
            "failed already",
            counts.failed_before,
            remark,
        ));
    }
    let remark = "repeat an earlier row";
    lines.push(CountLine::new("duplicates", counts.duplicates(), remark));
    lines.push(CountLine::new("calls to make", counts.calls, ""));
    lines
}

/// Which answers are paid for, and when they are used.
fn answers(ledger: &LedgerOutlook) -> String {
    let LedgerOutlook {
        ledger,
        endpoint,
        run,
        ..
    } = ledger;
    let of = match endpoint {
        Some(endpoint) => format!(" of {}", printable(endpoint)),
        None => String::new(),
    };
    let when = match run {
        PreviewedRun::First => return "no ledger yet".to_owned(),
        PreviewedRun::New => "",
        PreviewedRun::Continued => ", if the run that was stopped continues",
        PreviewedRun::Retry => {
            ", with `--retry-failed`; another run to that output sends every row again"
        }
    };
    format!("answers{of} in `{ledger}`{when}")
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
    let counts = &outlook.counts;
    let mut lines = vec![String::new()];
    if let Some(tariff) = &outlook.tariff {
        lines.push(format!(
            "cost: {} at {} a call; retries may cost more",
            tariff.shown_for(counts.calls),
            tariff.shown_for(1)
        ));
    }
    if counts.calls > 0 {
        lines.push(format!("time: {}", how_long(outlook.time)));
    }
    if let Some(reason) = counts.refused {
        lines.push(format!(
            "`rescore run` refuses this file: its first rows all fail for the same reason,\n`{reason}` (`--give-up-after never` continues anyway)"
        ));
    }
    match outlook.rejects() {
        Some(file) => lines.push(format!(
            "rejects: {} in `{}`",
            counted(counts.rejected(), "row"),
            shown(file)
        )),
        None if counts.rejected() > 0 => lines.push(
            "`--rejects FILE` writes the rows that cannot be sent, so that you can fix them"
                .to_owned(),
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
    let counts = &outlook.counts;
    let mut warnings = Vec::new();
    if counts.read == 0 {
        warnings.push(format!("{} has no rows", outlook.name));
    }
    for (field, tally) in &counts.unusual {
        if let Some(usual) = usual_length(*field) {
            warnings.push(format!(
                "unusual length of `{field}` in {} (usual: {} to {} characters), sent all the same: {}",
                counted(tally.rows, "row"),
                usual.start(),
                usual.end(),
                rows(tally)
            ));
        }
    }
    let is_first = |ledger: &&LedgerOutlook| ledger.run == PreviewedRun::First;
    if let Some(ledger) = outlook.ledger.as_ref().filter(is_first) {
        // The name may be mistyped.
        warnings.push(format!(
            "the ledger `{}` does not exist yet: the first run creates it",
            ledger.ledger
        ));
    }
    if let Some(ledger) = outlook.ledger.as_ref().filter(|it| !it.others.is_empty()) {
        let mut others = ledger.others.clone();
        others.sort_unstable();
        others.dedup();
        warnings.push(format!(
            "`{}` has no answers of this address and service id, only of others at {}",
            ledger.ledger,
            others.join(", ")
        ));
    }
    for (number, what) in [
        (counts.damaged, "damaged"),
        (counts.from_the_future, "dated in the future"),
    ] {
        if number > 0 {
            warnings.push(format!(
                "{} in the ledger cannot be used: {what}",
                counted(number, "answer")
            ));
        }
    }
    warnings
}

/// `row 7`, `rows 7, 9`, `rows 7, 9, 12, …`.
fn rows(tally: &NamedRows) -> String {
    let numbers: Vec<_> = tally.first.iter().map(u64::to_string).collect();
    let more = if tally.rows > tally.first.len() as u64 {
        ", …"
    } else {
        ""
    };
    let rows = if tally.rows == 1 { "row" } else { "rows" };
    format!("{rows} {}{more}", numbers.join(", "))
}
