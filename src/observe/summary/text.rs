//! The summary for people.

use std::time::{Duration, UNIX_EPOCH};

use super::call_lines::call_lines;
use super::drift_table::drift_table;
use super::files::file_lines;
use super::kept_ledger::LedgerLeft;
use super::ledger_line::ledger_line;
use super::run_summary::RunSummary;
use crate::base::error::shown;
use crate::observe::numbers::{answers, count, counted, day, parts, rate, time};
use crate::observe::run_counts::speed;
use crate::observe::undecided::undecided;
use crate::telemetry::event::CancelReason;

impl RunSummary<'_> {
    /// The lines for people.
    #[must_use]
    pub(crate) fn text(&self) -> String {
        let stats = self.stats;
        let mut lines = vec![headline(self)];
        if self.sandbox {
            lines.push("sandbox: the scores come from a stand-in, not from the service".to_owned());
        }
        lines.extend(parts(&[
            ("approve", stats.approved),
            ("review", stats.reviewed),
            ("block", stats.blocked),
        ]));
        let words = undecided(&stats.unknown_levels, self.identity.rule.level_place());
        lines.extend(words.map(|why| format!("undecided {}: {why}", count(stats.undecided))));
        lines.extend(drift_table(
            &stats.drift,
            self.changes.as_ref().map(|file| file.path.as_path()),
        ));
        lines.extend(reasons(self).map(|why| format!("failed {}: {why}", count(stats.failures()))));
        lines.extend(accepted(self));
        lines.extend(without_calls(self));
        lines.extend(call_lines(self));
        lines.extend(lost_answers(self));
        lines.extend(ledger_answers(self));
        lines.extend(match self.files {
            Some(files) => file_lines(files),
            None => output(self),
        });
        let ledger = self.ledger.kept();
        lines.extend(ledger.and_then(|ledger| ledger_line(ledger, self)));
        lines.extend(not_kept(self));
        format!("rescore: {}", lines.join("\n         "))
    }

    /// The only line of a quiet run: none if every row has a verdict and a decision, and no paid answer may be lost.
    pub(crate) fn warning(&self) -> Option<String> {
        let stats = self.stats;
        let rows = counted(stats.resolved(), "row");
        let failed = reasons(self).map(|why| {
            let failed = count(stats.failures());
            format!("{failed} of {rows} failed: {why}")
        });
        let undecided =
            undecided(&stats.unknown_levels, self.identity.rule.level_place()).map(|why| {
                let undecided = count(stats.undecided);
                format!("{undecided} of {rows} have no decision: {why}")
            });
        let skipped = (stats.skipped_with_rejects > 0).then(|| {
            let files = counted(stats.skipped_with_rejects, "file");
            format!("{files} with rows without a verdict, finished before this start")
        });
        let lost = lost_answers(self);
        let words = [failed, undecided, skipped, lost];
        let words: Vec<_> = words.into_iter().flatten().collect();
        let (code, applied) = (
            self.accepted.exit(stats).code(),
            self.accepted.applied(stats),
        );
        let end = match (stats.cancelled, applied) {
            // An error follows, and says why.
            (Some(_), _) => String::new(),
            (None, None) => format!(" (finished with exit code {code})"),
            (None, Some(accepted)) => {
                format!(
                    " (finished with exit code {code}, as `--accept-failures {accepted}` allows)"
                )
            }
        };
        (!words.is_empty()).then(|| format!("{}{end}", words.join("; ")))
    }
}

/// How many rows are done, and how the run ended.
fn headline(run: &RunSummary<'_>) -> String {
    let stopped = run.stats.cancelled.map(stopped_by);
    let stopped = stopped.map(|by| format!("stopped early ({by}): "));
    let speed = speed(run.stats, run.elapsed);
    let speed = speed.map(|speed| format!(", {} rows/s", rate(speed)));
    format!(
        "{}{} in {}{}",
        stopped.unwrap_or_default(),
        counted(run.stats.resolved(), "row"),
        time(run.elapsed),
        speed.unwrap_or_default()
    )
}

const fn stopped_by(reason: CancelReason) -> &'static str {
    match reason {
        CancelReason::Interrupted => "interrupted",
        CancelReason::Terminated => "terminated",
        CancelReason::HungUp => "hung up",
        CancelReason::Refused => "refused by the service",
        CancelReason::Unavailable => "service unavailable",
        CancelReason::MaxWait => "`--max-wait`",
        CancelReason::Input => "invalid input",
        CancelReason::InputChanged => "the input has changed",
        CancelReason::Ledger => "ledger error",
        CancelReason::NoVerdicts => "no verdicts",
        CancelReason::NoDecisions => "no decisions",
        CancelReason::MaxCalls => "`--max-calls`",
        CancelReason::MaxCost => "`--max-cost`",
        CancelReason::MaxFailures => "`--max-failures`",
        CancelReason::Output => "output error",
        CancelReason::OutputClosed => "standard output was closed",
        CancelReason::Internal => "internal error",
    }
}

/// Why rows failed, and where they are.
fn reasons(run: &RunSummary<'_>) -> Option<String> {
    let failed = run.stats.failed.iter();
    let reasons: Vec<_> = failed
        .map(|(reason, rows)| format!("{reason} {}", count(*rows)))
        .collect();
    let place = match &run.rejects {
        Some(file) => format!("; see {}", shown(&file.path)),
        None => String::new(),
    };
    (!reasons.is_empty()).then(|| reasons.join(", ") + &place)
}

/// Whether so few rows failed that the exit code is 0, if the user accepts some.
fn accepted(run: &RunSummary<'_>) -> Option<String> {
    let stats = run.stats;
    if stats.cancelled.is_some() || (stats.failures() == 0 && stats.skipped_with_rejects == 0) {
        return None;
    }
    let most = run.accepted.0?;
    if !stats.skipped_are_decided() {
        return Some(format!(
            "`--accept-failures {most}` accepts no failures from before this start"
        ));
    }
    Some(match (run.accepted.applied(stats), stats.undecided) {
        (Some(_), _) => format!("accepted by `--accept-failures {most}`: the exit code is 0"),
        (None, 0) => format!("more than `--accept-failures {most}` accepts"),
        (None, _) => "not accepted, as rows have no decision".to_owned(),
    })
}

/// Rows that cost nothing.
fn without_calls(run: &RunSummary<'_>) -> Vec<String> {
    let (known, duplicates) = (run.stats.known, run.stats.duplicates);
    let mut lines = Vec::new();
    if known > 0 {
        let paid = if run.sandbox {
            ""
        } else {
            "already paid for, "
        };
        lines.push(format!(
            "{} {paid}taken from the ledger",
            counted(known, "row")
        ));
    }
    if duplicates > 0 {
        lines.push(format!(
            "{} reused the answer of an identical row",
            counted(duplicates, "row")
        ));
    }
    if run.stats.dropped > 0 {
        lines.push(format!(
            "{} with an invalid phone number or email address, which is dropped",
            counted(run.stats.dropped, "row")
        ));
    }
    lines
}

/// Paid answers that may not be on disk.
fn lost_answers(run: &RunSummary<'_>) -> Option<String> {
    let lost = run.stats.lost;
    // Without a ledger none of the answers is kept, and that has a line of its own.
    (lost > 0 && not_kept(run).is_none()).then(|| {
        format!(
            "{} may be lost: not confirmed to be on disk",
            answers(lost, run.sandbox)
        )
    })
}

/// Answers in the ledger that were not used, or are old.
fn ledger_answers(run: &RunSummary<'_>) -> Vec<String> {
    let stats = run.stats;
    let mut lines = Vec::new();
    for (rows, what) in [
        (stats.damaged_answers, "a damaged answer in the ledger"),
        (stats.too_old_answers, "answers older than the run uses"),
        (stats.retried_failures, "an earlier failure in the ledger"),
    ] {
        if rows > 0 {
            lines.push(format!("{} had only {what}", counted(rows, "row")));
        }
    }
    if let Some(oldest) = stats.oldest_answer {
        let oldest = UNIX_EPOCH + Duration::from_millis(u64::try_from(oldest).unwrap_or_default());
        lines.push(format!(
            "{} used {} than 30 days, the oldest arrived {} (`--max-age 30d` asks again)",
            counted(stats.aged_answers, "answer"),
            if stats.aged_answers == 1 {
                "is older"
            } else {
                "are older"
            },
            day(oldest)
        ));
    }
    lines
}

/// Where the rows are, and what to do with them before another run.
fn output(run: &RunSummary<'_>) -> Vec<String> {
    let stats = run.stats;
    let Some(file) = &run.output else {
        let gone = "the output was removed or moved during the run".to_owned();
        return run.output_is_gone.then_some(gone).into_iter().collect();
    };
    let path = shown(&file.path);
    if stats.cancelled.is_none() {
        let rows = run.part.and_then(|part| part.words());
        let rows = rows.map(|rows| format!(": {rows}"));
        return vec![format!("wrote {path}{}", rows.unwrap_or_default())];
    }
    // If only the renaming failed, no row is unfinished.
    let others = if stats.all_rows_are_written() {
        ""
    } else {
        "; unfinished rows are not in it"
    };
    let rows = counted(stats.written, "finished row");
    let mut lines = vec![format!("{path} has the {rows}{others}")];
    if matches!(run.ledger, LedgerLeft::Nothing) {
        // The next run refuses to replace any of these files: following this advice must not lead to another refusal.
        let mut files = vec!["it".to_owned()];
        let sides = [&run.rejects, &run.changes].into_iter().flatten();
        files.extend(sides.map(|file| shown(&file.path)));
        lines.push(format!(
            "before another run, move {} away or give `--overwrite`",
            files.join(" and ")
        ));
    }
    lines
}

/// What is paid for again when a run stops without a ledger, or may be lost with its ledger.
fn not_kept(run: &RunSummary<'_>) -> Option<String> {
    let stats = run.stats;
    let is_part = stats.cancelled.is_none() && run.part.is_some();
    match run.ledger {
        _ if stats.answered == 0 => return None,
        LedgerLeft::Gone if stats.cancelled.is_some() => {
            return Some(format!(
                "the ledger with up to {} of this run was removed or moved: if it is moved back, the same command continues; otherwise another run makes the same calls again",
                answers(stats.answered, run.sandbox)
            ));
        }
        LedgerLeft::Nothing if stats.cancelled.is_some() || is_part => {}
        _ => return None,
    }
    // At least: if the output failed, some of the rows that it took may have cost no call.
    let unwritten = stats.answered - stats.paid.min(stats.written).min(stats.answered);
    let of_them = match unwritten {
        0 => String::new(),
        _ if run.output_is_gone => String::new(),
        unwritten => format!(", and the output lacks {} of them", count(unwritten)),
    };
    Some(format!(
        "no ledger keeps the {} of this run{of_them}: another run makes the same calls again (without `--no-ledger` they are kept)",
        answers(stats.answered, run.sandbox),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use crate::telemetry::stats::Stats;

    #[test]
    fn a_summary_with_everything_reads_like_this() {
        let stats = example::stats();
        let expected = "\
rescore: stopped early (`--max-calls`): 5 rows in 1 min 40 s, 0.05 rows/s
         approve 1, review 1, block 1
         undecided 1: the level is in no list in row 1
         before ↓ now →  approve  review  block
         approve               0       0      1
         review                0       0      0
         block                 0       0      0
         1 of 1 decision changed; see changes.csv.partial
         failed 1: refused 1; see scored.rejects.csv.partial
         2 rows already paid for, taken from the ledger
         1 row reused the answer of an identical row
         1 row with an invalid phone number or email address, which is dropped
         5 calls, 2 of them retries; latency p50 80 ms, p95 80 ms, p99 80 ms
         spent 0.008 EUR: 2 answers at 0.004 EUR; at most 0.016 EUR, with 2 failed calls that may have been billed
         paid for earlier 0.008 EUR: 2 rows
         saved 0.004 EUR: 1 row repeated another one
         the service throttled 1 call (20.0 % of all); paused for 2.5 s in total
         limit found: about 50.0/s
         the service's headers ask for about 48.0/s
         limit found: 16 calls at a time
         the service throttles some calls at any pace
         the service was down once, for 30 s in total
         waited 1 min 0 s for the service, which failed on each of the last rows
         1 row may have been billed twice: sent again because no answer came
         1 call may have been billed without an answer
         1 call got an answer without a verdict and will probably be billed
         a new API key was read from its file once
         1 answer had the transaction id of a different user: a cache or proxy may be answering for the service
         1 paid answer may be lost: not confirmed to be on disk
         1 row had only a damaged answer in the ledger
         1 row had only answers older than the run uses
         1 row had only an earlier failure in the ledger
         1 answer used is older than 30 days, the oldest arrived on 2023-11-14 (`--max-age 30d` asks again)
         scored.csv.partial has the 5 finished rows; unfinished rows are not in it
         the paid answers are kept in rescore.ledger; once `--max-calls` is raised, the same command continues from there";
        let mut of_one_file = example::everything(&stats);
        of_one_file.files = None;
        assert_eq!(of_one_file.text(), expected);
    }

    #[test]
    fn what_is_zero_is_dropped() {
        let stats = Stats::default();
        let text = example::nothing(&stats).text();
        assert_eq!(text, "rescore: 0 rows in 0.0 ms");
    }

    #[test]
    fn a_quiet_run_has_one_line_if_something_needs_attention() {
        let stats = example::stats();
        let expected = "1 of 5 rows failed: refused 1; see scored.rejects.csv.partial; 1 of 5 rows have no decision: the level is in no list in row 1; 1 paid answer may be lost: not confirmed to be on disk";
        let mut run = example::everything(&stats);
        assert_eq!(run.warning().as_deref(), Some(expected));
        let mut finished = example::stats();
        finished.cancelled = None;
        run.stats = &finished;
        let ended = format!("{expected} (finished with exit code 1)");
        assert_eq!(run.warning(), Some(ended));
        assert_eq!(example::nothing(&Stats::default()).warning(), None);
    }
}
