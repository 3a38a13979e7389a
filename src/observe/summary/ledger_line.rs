//! The line of the summary about a ledger that stays: what the next run will do with it.

use super::kept_ledger::{KeptKind, KeptLedger};
use super::run_summary::RunSummary;
use crate::base::error::shown;
use crate::observe::numbers::answers;
use crate::observe::words::same_command;
use crate::selection::Selection;
use crate::telemetry::event::CancelReason;
use crate::telemetry::stats::Stats;
use crate::verdict::Reason;

/// What stays for the next run, and what that run will do with it.
pub(super) fn ledger_line(ledger: &KeptLedger, run: &RunSummary<'_>) -> String {
    let (stats, sandbox) = (run.stats, run.sandbox);
    let path = shown(&ledger.path);
    if ledger.damaged {
        return format!("{path} is damaged: no run can continue with it");
    }
    let has = match ledger.answers {
        Some(0) => None,
        Some(number) => Some(answers(number, sandbox)),
        None if sandbox => Some("the answers".to_owned()),
        None => Some("the paid answers".to_owned()),
    };
    let has = has.map(|answers| format!("{path} has {answers}"));
    let then = |what: String| match &has {
        Some(has) => format!("{has}; {what}"),
        None => what,
    };
    // Otherwise the same rows would stop it again. What the service failed on does not.
    let has_invalid = || { stats.newly_failed.keys() }.any(|reason| !reason.is_of_call());
    let once = match stats.cancelled {
        Some(CancelReason::MaxFailures) if has_invalid() => {
            "once rows are fixed or `--max-failures` is raised, "
        }
        Some(CancelReason::MaxInvalid) => "once rows are fixed or `--max-invalid` is raised, ",
        Some(CancelReason::MinRows) => "once the input is complete or `--min-rows` is lowered, ",
        _ => "",
    };
    let same = same_command(ledger.fresh);
    if let (None, Some(part)) = (stats.cancelled, run.part) {
        return then(continues(ledger, part, run));
    }
    // A file that could not be used may be fixed.
    let stopped = stats.cancelled.or(stats.file_failed);
    let failures = stats.failures() + stats.skipped_with_rejects;
    match (stopped, ledger.kind == KeptKind::Own, failures) {
        (Some(_), _, _) => then(format!("{once}{same} continues from there")),
        (None, _, 0) if stats.unknown_levels.are_all_absent() => then("`--retry-failed` with another pointer in `--decide-by` sends the rows again whose answers were stored without it".to_owned()),
        (None, _, 0) if stats.undecided > 0 => then("`--retry-failed` with all levels listed decides without a call".to_owned()),
        (None, false, 0) => format!("the answers are kept in {path}"),
        (None, true, 0) => format!(
            "{}, also for other rows or another account; `--retry-failed` uses them, the next new run to this output replaces them",
            has.unwrap_or(path)
        ),
        (None, _, _) => then(format!(
            "`--retry-failed` sends only the rows without a verdict{}",
            billed_again(stats)
        )),
    }
}

/// What sending the rows again that have no verdict may cost.
fn billed_again(stats: &Stats) -> &'static str {
    let may_be_billed = [Reason::NoAnswer, Reason::BadAnswer];
    if may_be_billed.iter().any(|it| stats.failed.contains_key(it)) {
        ", some of which may be billed a second time"
    } else {
        ""
    }
}

/// How a run continues with the rows that were left out.
fn continues(ledger: &KeptLedger, part: Selection, run: &RunSummary<'_>) -> String {
    let fresh = ledger.fresh.then_some("`--fresh`");
    let options: Vec<_> = part.options().chain(fresh).collect();
    // Nobody should wait for standard input only to be told that the output exists, and a shared ledger is not opened
    // before.
    let is_refused = ledger.kind == KeptKind::Shared && run.from_stdin;
    let overwrite = if is_refused && run.output.is_some() {
        " and with `--overwrite`"
    } else {
        ""
    };
    format!(
        "the same command without {}{overwrite} continues and pays for none of these rows again",
        options.join(" and ")
    )
}
