//! A run that is over, as people read it: a line for each number that is not zero, the most important first.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use super::numbers::{
    answers, count, counted, day, named, parts, per_time, rate, share_of, time, times,
};
use super::progress::{MIXED_UP, verdicts};
use super::snapshot::{REFUSED_AT_ANY, limit, limit_in_flight};
use super::summary::{FileState, FileSummary, LedgerLeft, RunSummary};
use crate::analysis::CountedRows;
use crate::base::text::{printable, shown};
use crate::drift::Drift;
use crate::telemetry::counts::Counts;
use crate::telemetry::event::CancelReason;
use crate::telemetry::pace::Hint;
use crate::telemetry::part::RowCounts;
use crate::verdict::{Decision, Reason};

/// What is counted and shown with a fixed sentence: the number, what it counts, and what is said about it.
type CountLine = (fn(&Counts) -> u64, &'static str, &'static str);

/// Rows that cost nothing. Nobody pays for the answers of a stand-in.
const REHEARSED: CountLine = (|c| c.known, "row", "taken from the ledger");
const WITHOUT_CALLS: [CountLine; 3] = [
    (
        |c| c.known,
        "row",
        "already paid for, taken from the ledger",
    ),
    (
        |c| c.duplicates,
        "row",
        "reused the answer of an identical row",
    ),
    (
        |c| c.dropped,
        "row",
        "sent without an invalid phone number or email address",
    ),
];

/// Calls that may have cost more than they brought.
const DOUBTFUL: [CountLine; 4] = [
    (
        |c| c.calls.taken_over + c.calls.repeats_of_killed_starts(),
        "row",
        "at most may have been billed twice: an earlier start, or another run, ended without their answers",
    ),
    (
        |c| c.calls.resent,
        "row",
        "may have been billed twice: sent again because no answer came",
    ),
    (
        |c| c.calls.unknown_outcome - c.calls.resent,
        "call",
        "may have been billed without an answer",
    ),
    (
        |c| c.calls.billed_without_verdict,
        "call",
        "got an answer without a verdict and will probably be billed",
    ),
];

fn count_line((number, thing, words): CountLine, counts: &Counts) -> Option<String> {
    let number = number(counts);
    (number > 0).then(|| format!("{} {words}", counted(number, thing)))
}

impl RunSummary<'_> {
    /// The lines for people.
    pub(crate) fn text(&self) -> String {
        let counts = &self.counts;
        let line = |line| count_line(line, counts);
        let mut lines = vec![self.headline()];
        let [known, others @ ..] = WITHOUT_CALLS;
        let known = if self.identity.sandbox {
            lines.push("sandbox: the scores come from a stand-in, not from the service".to_owned());
            REHEARSED
        } else {
            known
        };
        lines.extend(verdicts(RowCounts {
            undecided: 0,
            failed: 0,
            ..RowCounts::of(counts)
        }));
        let undecided = count(counts.undecided.rows);
        lines.extend({ self.undecided() }.map(|why| format!("undecided {undecided}: {why}")));
        let changes = { self.changes.as_ref() }.and_then(|file| file.path.as_deref());
        lines.extend({ counts.drift.iter() }.flat_map(|drift| drift_lines(drift, changes)));
        let failed = count(counts.failures());
        lines.extend({ self.reasons() }.map(|why| format!("failed {failed}: {why}")));
        lines.extend(
            { counts.accepted(self.accepted) }
                .map(|most| format!("accepted by `--accept-failures {most}`: the exit code is 0")),
        );
        lines.extend([known].into_iter().chain(others).filter_map(line));
        lines.extend(asked_again(counts));
        lines.extend((counts.calls.of_all_starts() > 0).then(|| self.calls()));
        lines.extend(self.cost());
        lines.extend(of_the_service(counts));
        lines.extend(DOUBTFUL.into_iter().filter_map(line));
        lines.extend(self.lost_answers());
        lines.extend(aged(counts));
        lines.extend(match self.files {
            Some(files) => file_lines(files),
            None => self.where_rows_are(),
        });
        lines.extend(self.next_start());
        lines.extend(self.not_kept());
        format!("rescore: {}", lines.join("\n         "))
    }

    /// The only line of a quiet run: none if every row has a verdict and a decision, and no paid answer may be lost.
    pub(crate) fn warning(&self) -> Option<String> {
        let counts = &self.counts;
        let rows = counted(counts.resolved(), "row");
        let failed = count(counts.failures());
        let undecided = count(counts.undecided.rows);
        let skipped = (counts.skipped_with_rejects > 0).then(|| {
            let files = counted(counts.skipped_with_rejects, "file");
            format!("{files} with rows without a verdict, finished before this start")
        });
        let words = [
            { self.reasons() }.map(|why| format!("{failed} of {rows} failed: {why}")),
            { self.undecided() }
                .map(|why| format!("{undecided} of {rows} have no decision: {why}")),
            skipped,
            self.lost_answers(),
        ];
        let words: Vec<_> = words.into_iter().flatten().collect();
        let code = self.exit_code;
        let end = match (counts.cancelled, counts.accepted(self.accepted)) {
            // An error follows, and says why.
            (Some(_), _) => String::new(),
            (None, None) => format!(" (finished with exit code {code})"),
            (None, Some(most)) => {
                format!(" (finished with exit code {code}, as `--accept-failures {most}` allows)")
            }
        };
        (!words.is_empty()).then(|| format!("{}{end}", words.join("; ")))
    }

    /// How many rows are done, and how the run ended.
    fn headline(&self) -> String {
        let counts = &self.counts;
        let stopped = { counts.cancelled }.map(|by| format!("stopped early ({}): ", by.words()));
        let speed = { counts.rows_per_second }.map(|speed| format!(", {} rows/s", rate(speed)));
        format!(
            "{}{} in {}{}",
            stopped.unwrap_or_default(),
            counted(counts.resolved(), "row"),
            time(counts.elapsed),
            speed.unwrap_or_default()
        )
    }

    /// Where the level of rows without a decision should be, and which rows they are.
    fn undecided(&self) -> Option<String> {
        undecided(&self.counts.undecided, self.identity.rule.level_place())
    }

    /// Why rows failed, and where they are.
    fn reasons(&self) -> Option<String> {
        let reasons = parts(&self.counts.failed.reasons)?;
        let rejects = { self.rejects.as_ref() }.and_then(|file| file.path.as_deref());
        let place = rejects.map(|path| format!("; see {}", shown(path)));
        Some(reasons + &place.unwrap_or_default())
    }

    fn calls(&self) -> String {
        let calls = &self.counts.calls;
        let mut words = counted(calls.sent, "call");
        if let Some(billed) = self.sandbox_billed.filter(|billed| *billed > 0) {
            let _ = write!(words, " ({} billed by the stand-in)", count(billed));
        }
        if calls.sent_before > 0 {
            // Of a start that was killed, a bound is known.
            let all = count(calls.of_all_starts());
            let _ = write!(words, ", at most {all} in all starts of this run");
        }
        words
            + &match calls.retries {
                0 => String::new(),
                1 => ", 1 of them a retry".to_owned(),
                retries => format!(", {} of them retries", count(retries)),
            }
    }

    /// What was spent, on what, and what was saved: by this start, by all starts of the run, and by earlier runs. A stand-in
    /// sends no bill, so in the sandbox all amounts are what the service would have charged.
    fn cost(&self) -> Vec<String> {
        let Some(cost) = &self.counts.cost else {
            return Vec::new();
        };
        let calls = &self.counts.calls;
        let (would_have, paid_for) = if self.identity.sandbox {
            ("would have ", "would have been paid for")
        } else {
            ("", "paid for")
        };
        let (billed, maybe) = (calls.billed(), calls.maybe_billed());
        let mut spent = format!("{would_have}spent {}", cost.shown(cost.spent));
        if billed > 0 {
            let price = cost.shown(cost.price);
            let _ = write!(spent, ": {} at {price}", counted(billed, "answer"));
        }
        if maybe > 0 {
            let _ = write!(
                spent,
                "; at most {}, with {} that may have been billed",
                cost.shown(cost.spent_at_most),
                counted(maybe, "call")
            );
        }
        let all = (calls.sent_before > 0).then(|| {
            let (calls, most) = (
                counted(calls.of_all_starts(), "call"),
                cost.all_starts_at_most,
            );
            format!(
                "all starts of this run: {calls}, at most {}",
                cost.shown(most)
            )
        });
        let for_rows = |rows, what: String, amount, more| {
            let amount = cost.shown(amount);
            (rows > 0).then(|| format!("{what} {amount}: {}{more}", counted(rows, "row")))
        };
        let (known, equal) = (self.counts.known, self.counts.duplicates);
        let earlier = for_rows(known, format!("{paid_for} earlier"), cost.paid_earlier, "");
        let saved = format!("{would_have}saved");
        let saved = for_rows(equal, saved, cost.saved, " repeated another one");
        [Some(spent), all, earlier, saved]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Paid answers that may not be on disk.
    fn lost_answers(&self) -> Option<String> {
        let lost = self.counts.calls.lost;
        // Without a ledger none of the answers is kept, and that has a line of its own.
        (lost > 0 && self.not_kept().is_none()).then(|| {
            let answers = answers(lost, self.identity.sandbox);
            format!("{answers} may be lost: not confirmed to be on disk")
        })
    }

    /// Where the rows are, and what to do with them before another run.
    fn where_rows_are(&self) -> Vec<String> {
        let counts = &self.counts;
        let Some(path) = { self.output.as_ref() }.and_then(|file| file.path.as_deref()) else {
            let gone = "the output was removed or moved during the run".to_owned();
            return self.output_is_gone.then_some(gone).into_iter().collect();
        };
        let path = shown(path);
        if counts.cancelled.is_none() {
            let rows = self.part.and_then(|part| part.words());
            let rows = rows.map(|rows| format!(": {rows}"));
            return vec![format!("wrote {path}{}", rows.unwrap_or_default())];
        }
        // If only the renaming failed, no row is unfinished.
        let others = if counts.all_rows_are_written() {
            ""
        } else {
            "; unfinished rows are not in it"
        };
        let rows = counted(counts.rows.written, "finished row");
        let mut lines = vec![format!("{path} has the {rows}{others}")];
        if self.ledger == LedgerLeft::Nothing {
            lines.push(
                "before another run, move it and the files beside it away, or give `--overwrite`"
                    .to_owned(),
            );
        }
        lines
    }

    /// What stays in the ledger, and what the next run will do with it; `None` if nothing does.
    fn next_start(&self) -> Option<String> {
        let counts = &self.counts;
        let path = match &self.ledger {
            LedgerLeft::Nothing | LedgerLeft::Gone => return None,
            LedgerLeft::Damaged(path) => {
                let path = shown(path);
                return Some(format!("{path} is damaged: no run can continue with it"));
            }
            LedgerLeft::Kept(path) => shown(path),
        };
        let paid = if self.identity.sandbox { "" } else { "paid " };
        let kept = (counts.calls.answered + counts.known > 0)
            .then(|| format!("the {paid}answers are kept in {path}"));
        let failures = counts.failures() + counts.skipped_with_rejects;
        let next = match (counts.cancelled, self.part) {
            (None, Some(_)) => Some(
                "the same command without `--limit` or `--sample` pays for none of these rows again"
                    .to_owned(),
            ),
            // A file that could not be used may be fixed.
            (stopped, _) if stopped.or(counts.file_failed).is_some() => {
                let budget = [Some(CancelReason::MaxCalls), Some(CancelReason::MaxCost)];
                // To standard output each start has the whole budget.
                let once = if budget.contains(&stopped) && self.output.is_some() {
                    "once the limit is raised, "
                } else {
                    ""
                };
                Some(format!("{once}the same command continues from there"))
            }
            _ if failures > 0 => {
                let may_be_billed = [Reason::NoAnswer, Reason::BadAnswer];
                let reasons = &counts.failed.reasons;
                let again = if may_be_billed.iter().any(|it| reasons.contains_key(it)) {
                    ", some of which may be billed a second time"
                } else {
                    ""
                };
                Some(format!(
                    "`--retry-failed` sends only the rows without a verdict{again}"
                ))
            }
            _ if counts.undecided.rows > 0 => Some(
                "`--retry-failed` with all levels listed, or another pointer, decides without a call"
                    .to_owned(),
            ),
            _ => None,
        };
        let said: Vec<_> = kept.into_iter().chain(next).collect();
        (!said.is_empty()).then(|| said.join("; "))
    }

    /// What is paid for again when a run stops without a ledger, or may be lost with its ledger.
    fn not_kept(&self) -> Option<String> {
        let counts = &self.counts;
        let (answered, is_stopped) = (counts.calls.answered, counts.cancelled.is_some());
        let of_this_run = answers(answered, self.identity.sandbox);
        match self.ledger {
            _ if answered == 0 => return None,
            LedgerLeft::Gone if is_stopped => {
                return Some(format!(
                    "the ledger with up to {of_this_run} of this run was removed or moved: if it is moved back, the same command continues; otherwise another run makes the same calls again"
                ));
            }
            LedgerLeft::Nothing if is_stopped || self.part.is_some() => {}
            _ => return None,
        }
        Some(format!(
            "no ledger keeps the {of_this_run} of this run: another run makes the same calls again (without `--no-ledger` they are kept)"
        ))
    }
}

/// What the ledger has of rows that were asked again all the same.
fn asked_again(counts: &Counts) -> Option<String> {
    let why = parts([
        ("answer too old", counts.ledger_answers_too_old),
        ("failed before", counts.ledger_failures_retried),
        ("answer damaged", counts.ledger_answers_damaged),
    ])?;
    Some(format!("asked again although the ledger knows them: {why}"))
}

/// How the service held calls back, the limits that were found, and whether its answers are its own.
fn of_the_service(counts: &Counts) -> impl Iterator<Item = String> {
    let calls = &counts.calls;
    let throttled = (calls.throttled > 0).then(|| {
        let share = share_of(calls.throttled, calls.sent);
        let share = share.map(|share| format!(" ({share} of all)"));
        let number = counted(calls.throttled, "call");
        format!(
            "the service throttled {number}{}",
            share.unwrap_or_default()
        )
    });
    let paused =
        (!counts.paused.is_zero()).then(|| format!("paused for {} in total", time(counts.paused)));
    let held: Vec<_> = throttled.into_iter().chain(paused).collect();
    let (pace, repeated) = (counts.pace, calls.repeated_transaction_ids);
    let headers = pace.map(|pace| pace.headers);
    [
        (!held.is_empty()).then(|| held.join("; ")),
        pace.and_then(|pace| pace.limit).map(limit),
        { pace.and_then(|pace| pace.asked_for()) }
            .map(|rate| format!("the service's headers ask for about {}", per_time(rate))),
        (headers == Some(Hint::Disbelieved)).then(|| DISBELIEVED.to_owned()),
        { pace.and_then(|pace| pace.limit_in_flight) }.map(limit_in_flight),
        { pace.and_then(|pace| pace.refused_at_any) }.map(|_| REFUSED_AT_ANY.to_owned()),
        (counts.outages > 0).then(|| {
            let (often, long) = (times(counts.outages), time(counts.down));
            format!("the service was down {often}, for {long} in total")
        }),
        (repeated > 0).then(|| {
            let answers = counted(repeated, "answer");
            format!("{answers} had the transaction id of a different user: {MIXED_UP}")
        }),
    ]
    .into_iter()
    .flatten()
}

const DISBELIEVED: &str =
    "the service's RateLimit headers were ignored: it accepted more calls than they allow";

/// Answers that are so old that people should know.
fn aged(counts: &Counts) -> Option<String> {
    let oldest = u64::try_from(counts.oldest_answer?).unwrap_or_default();
    let oldest = day(UNIX_EPOCH + Duration::from_millis(oldest));
    let (number, are) = match counts.ledger_answers_aged {
        1 => ("1 answer used".to_owned(), "is"),
        number => (format!("{} answers used", count(number)), "are"),
    };
    Some(format!(
        "{number} {are} older than 30 days, the oldest arrived {oldest} (`--max-age 30d` asks again)"
    ))
}

/// `the level at `/a` is in no list in rows 3, 4, 5, 6, 7 and 2 more`; `None` if every row has a decision.
pub(super) fn undecided(undecided: &CountedRows, place: Option<&str>) -> Option<String> {
    let place = place.map(|place| format!(" at `{place}`"));
    let (rows, place) = (named(undecided)?, place.unwrap_or_default());
    Some(format!("the level{place} is in no list in {rows}"))
}

/// Earlier decisions compared with those now: which have changed, and how many; nothing if nothing was compared.
pub(super) fn drift_lines(drift: &Drift, changes: Option<&Path>) -> Vec<String> {
    if drift.compared == 0 {
        return Vec::new();
    }
    let moves = drift.rows().flat_map(|(before, now)| {
        let all = Decision::ALL.into_iter().zip(now);
        let others = all.filter(move |(now, _)| *now != before);
        others.map(move |(now, rows)| (format!("{} → {}", before.word(), now.word()), rows))
    });
    let all = counted(drift.compared, "decision");
    let mut sum = format!("{} of {all} changed", count(drift.changed));
    if let Some(path) = changes.filter(|_| drift.changed > 0) {
        let _ = write!(sum, "; see {}", shown(path));
    }
    parts(moves).into_iter().chain([sum]).collect()
}

/// More lines would hide the rest of the summary. The JSON has all files.
const FILE_LINES: usize = 20;

/// How many files ended how, and those that matter most.
fn file_lines(files: &[FileSummary]) -> Vec<String> {
    let states = [
        (FileState::Failed, "failed"),
        (FileState::Partial, "partial"),
        (FileState::Left, "left"),
        (FileState::Finished, "finished"),
        (FileState::Skipped, "skipped"),
    ]
    .map(|(state, word)| {
        let ended = files.iter().filter(|file| file.state == state);
        (word, ended.count() as u64)
    });
    let states = parts(states).unwrap_or_default();
    let mut lines = vec![format!("{}: {states}", counted(files.len() as u64, "file"))];
    let is_telling = |file: &&FileSummary| {
        !matches!(file.state, FileState::Left | FileState::Skipped) || file.rejects.is_some()
    };
    let mut telling: Vec<_> = files.iter().filter(is_telling).collect();
    // A stable sort: files with the same trouble stay in their order.
    telling.sort_by_key(|file| (file.state, file.rows.failed == 0));
    let more = telling.len().saturating_sub(FILE_LINES);
    lines.extend(telling.into_iter().take(FILE_LINES).map(file_line));
    if more > 0 {
        lines.push(format!("  and {}", counted(more as u64, "more file")));
    }
    lines
}

/// `  part-00000.csv: 9 rows: approve 8, failed 1; see scored/part-00000.rejects.csv`.
fn file_line(file: &FileSummary) -> String {
    let name = { file.input.file_name() }.map_or(file.input.as_path(), Path::new);
    let error = { file.error.as_deref() }.map(printable);
    let rows = counted(file.rows.resolved, "row");
    let verdicts = verdicts(file.rows).map(|words| format!(": {words}"));
    let rows = rows + &verdicts.unwrap_or_default();
    let became = match file.state {
        FileState::Failed => {
            let error = error.unwrap_or_default();
            return format!("  {}: failed: {error}", shown(name));
        }
        FileState::Skipped => "skipped, some rows have no verdict".to_owned(),
        FileState::Finished => rows,
        FileState::Partial | FileState::Left => format!("stopped after {rows}"),
    };
    let rejects = { file.rejects.as_deref() }.map(|path| format!("see {}", shown(path)));
    let parts: Vec<_> = [Some(became), error, rejects]
        .into_iter()
        .flatten()
        .collect();
    format!("  {}: {}", shown(name), parts.join("; "))
}
