//! The line of the summary about a ledger that stays: what the next run will do with it.

use super::kept_ledger::KeptLedger;
use super::run_summary::RunSummary;
use crate::base::error::shown;
use crate::telemetry::event::CancelReason;
use crate::telemetry::stats::Stats;
use crate::verdict::Reason;

/// What stays for the next run, and what that run will do with it; `None` if nothing does.
pub(super) fn ledger_line(ledger: &KeptLedger, run: &RunSummary<'_>) -> Option<String> {
    let stats = run.stats;
    let path = shown(&ledger.path);
    if ledger.damaged {
        return Some(format!("{path} is damaged: no run can continue with it"));
    }
    let paid = if run.sandbox { "" } else { "paid " };
    let kept =
        (stats.answered + stats.known > 0).then(|| format!("the {paid}answers are kept in {path}"));
    let failures = stats.failures() + stats.skipped_with_rejects;
    let next = match (stats.cancelled, run.part) {
        (None, Some(part)) => {
            let options: Vec<_> = part.options().collect();
            Some(format!(
                "the same command without {} pays for none of these rows again",
                options.join(" and ")
            ))
        }
        (stopped, _) if stopped.or(stats.file_failed).is_some() => {
            // A file that could not be used may be fixed.
            Some(format!(
                "{}the same command continues from there",
                once(run)
            ))
        }
        _ if failures > 0 => Some(format!(
            "`--retry-failed` sends only the rows without a verdict{}",
            billed_again(stats)
        )),
        _ if stats.undecided > 0 => Some(
            "`--retry-failed` with all levels listed, or another pointer, decides without a call"
                .to_owned(),
        ),
        _ => None,
    };
    let said: Vec<_> = kept.into_iter().chain(next).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// What has to be changed first, as the same rows would stop the run again. What the service failed on does not.
fn once(run: &RunSummary<'_>) -> &'static str {
    let stats = run.stats;
    // To standard output each start has the whole budget.
    let has_own_budget = run.output.is_none() && !run.output_is_gone;
    let has_invalid = || { stats.newly_failed.keys() }.any(|reason| !reason.is_of_call());
    match stats.cancelled {
        Some(CancelReason::MaxFailures) if has_invalid() => {
            "once rows are fixed or `--max-failures` is raised, "
        }
        Some(CancelReason::MaxCalls | CancelReason::MaxCost) if has_own_budget => "",
        Some(CancelReason::MaxCalls) => "once `--max-calls` is raised, ",
        Some(CancelReason::MaxCost) => "once `--max-cost` is raised, ",
        _ => "",
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
