//! A run that is over, as people read it: a line for each number that is not zero, the most important first. A report shows
//! the same numbers.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use super::numbers::{
    answers, count, counted, day, named, parts, per_time, rate, share_of, time, times, verdicts,
};
use super::progress::MIXED_UP;
use super::snapshot::{REFUSED_AT_ANY, limit, limit_in_flight};
use super::summary::{FileState, FileSummary, LedgerLeft, RunSummary, SizedFile};
use crate::analysis::CountedRows;
use crate::base::text::{printable, shown};
use crate::drift::Drift;
use crate::telemetry::counts::{Cost, Counts};
use crate::telemetry::event::CancelReason;
use crate::telemetry::pace::{Hint, Pace};
use crate::verdict::{Decision, Reason};

/// How many rows are done, and how the run ended.
pub(crate) fn headline(counts: &Counts) -> String {
    let mut words = match counts.cancelled {
        Some(reason) => format!("stopped early ({}): ", reason.words()),
        None => String::new(),
    };
    words += &counted(counts.rows.resolved, "row");
    let _ = write!(words, " in {}", time(counts.elapsed));
    if let Some(speed) = counts.rows_per_second {
        let _ = write!(words, ", {} rows/s", rate(speed));
    }
    words
}

/// What a report shows as well: rows without a call, the calls, what was spent and saved, and what may have been billed for
/// nothing. Each number comes with what it is the number of; what is zero is left out.
pub(crate) fn facts(counts: &Counts, sandbox: bool) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let mut add = |number, thing, words: &str| {
        let s = if number == 1 { "" } else { "s" };
        facts.extend((number > 0).then(|| (count(number), format!("{thing}{s}{words}"))));
    };
    let paid = if sandbox { "" } else { "already paid for, " };
    add(
        counts.known,
        "row",
        &format!(" {paid}taken from the ledger"),
    );
    let (equal, calls) = (counts.duplicates, &counts.calls);
    add(equal, "row", " reused the answer of an identical row");
    let without = " sent without an invalid phone number or email address";
    add(counts.dropped, "row", without);
    let retries = match calls.retries {
        0 => String::new(),
        1 => ", 1 of them a retry".to_owned(),
        retries => format!(", {} of them retries", count(retries)),
    };
    add(calls.sent, "call", &retries);
    // Of a start that was killed, a bound is known.
    let all = if calls.sent_before > 0 {
        calls.of_all_starts()
    } else {
        0
    };
    add(all, "call", " at most in all starts of this run");
    let of_others = calls.taken_over + calls.repeats_of_killed_starts();
    let twice = "may have been billed twice";
    let why =
        format!(" at most {twice}: an earlier start, or another run, ended without their answers");
    add(of_others, "row", &why);
    let why = format!(" {twice}: sent again because no answer came");
    add(calls.resent, "row", &why);
    let unanswered = calls.unknown_outcome.saturating_sub(calls.resent);
    add(
        unanswered,
        "call",
        " may have been billed without an answer",
    );
    let why = " got an answer without a verdict and will probably be billed";
    add(calls.billed_without_verdict, "call", why);
    facts.extend({ counts.cost.iter() }.flat_map(|cost| amounts(cost, counts, sandbox)));
    facts
}

/// What was spent and saved. A stand-in sends no bill, so in a rehearsal it is what the service would have charged.
fn amounts(cost: &Cost, counts: &Counts, sandbox: bool) -> impl Iterator<Item = (String, String)> {
    let (calls, known, equal) = (&counts.calls, counts.known, counts.duplicates);
    let would = if sandbox { "would have been " } else { "" };
    let (maybe, price) = (calls.maybe_billed(), cost.shown(cost.price));
    let billed = format!("spent: {} at {price}", counted(calls.billed(), "answer"));
    let with = format!(
        "spent at most, with {} that may have been billed",
        counted(maybe, "call")
    );
    let of_all_starts = "spent at most in all starts of this run".to_owned();
    let earlier = format!("paid for earlier: {}", counted(known, "row"));
    let saved = format!("saved: {} repeated another one", counted(equal, "row"));
    [
        (true, cost.spent, billed),
        (maybe > 0, cost.spent_at_most, with),
        (
            calls.sent_before > 0,
            cost.all_starts_at_most,
            of_all_starts,
        ),
        (known > 0, cost.paid_earlier, earlier),
        (equal > 0, cost.saved, saved),
    ]
    .into_iter()
    .filter(|(is_shown, ..)| *is_shown)
    .map(move |(_, amount, words)| (cost.shown(amount), format!("{would}{words}")))
}

impl RunSummary<'_> {
    /// The lines for people.
    pub(crate) fn text(&self) -> String {
        let (counts, sandbox) = (&self.counts, self.identity.sandbox);
        let mut lines = vec![headline(counts)];
        if sandbox {
            let billed = self.sandbox_billed.filter(|billed| *billed > 0);
            let billed = billed.map(|calls| format!("; it billed {}", counted(calls, "call")));
            lines.push(format!(
                "sandbox: the scores come from a stand-in, not from the service{}",
                billed.unwrap_or_default()
            ));
        }
        lines.extend(verdicts(&counts.decisions, 0, 0));
        let undecided = count(counts.undecided.rows);
        lines.extend({ self.undecided() }.map(|why| format!("undecided {undecided}: {why}")));
        let changes = path_of(self.changes.as_ref());
        lines.extend({ counts.drift.iter() }.flat_map(|drift| drift_lines(drift, changes)));
        let failed = count(counts.failed.rows);
        lines.extend({ self.reasons() }.map(|why| format!("failed {failed}: {why}")));
        lines.extend(
            { counts.accepted(self.accepted) }
                .map(|most| format!("accepted by `--accept-failures {most}`: the exit code is 0")),
        );
        let facts = facts(counts, sandbox).into_iter();
        lines.extend(facts.map(|(number, words)| format!("{number} {words}")));
        lines.extend(of_ledger_and_service(counts));
        lines.extend(self.lost_answers());
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
        let (counts, code) = (&self.counts, self.exit_code);
        let rows = counted(counts.rows.resolved, "row");
        let (failed, undecided) = (count(counts.failed.rows), count(counts.undecided.rows));
        let skipped = counted(counts.skipped_with_rejects, "file");
        let skipped = (counts.skipped_with_rejects > 0)
            .then(|| format!("{skipped} with rows without a verdict, finished before this start"));
        let words = [
            { self.reasons() }.map(|why| format!("{failed} of {rows} failed: {why}")),
            { self.undecided() }
                .map(|why| format!("{undecided} of {rows} have no decision: {why}")),
            skipped,
            self.lost_answers(),
        ];
        let words: Vec<_> = words.into_iter().flatten().collect();
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

    /// Where the level of rows without a decision should be, and which rows they are.
    fn undecided(&self) -> Option<String> {
        undecided(&self.counts.undecided, self.identity.rule.level_place())
    }

    /// Why rows failed, and where they are.
    fn reasons(&self) -> Option<String> {
        let place = path_of(self.rejects.as_ref()).map(|path| format!("; see {}", shown(path)));
        Some(parts(&self.counts.failed.reasons)? + &place.unwrap_or_default())
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
        let Some(path) = path_of(self.output.as_ref()).map(shown) else {
            let gone = "the output was removed or moved during the run".to_owned();
            return self.output_is_gone.then_some(gone).into_iter().collect();
        };
        if counts.cancelled.is_none() {
            let rows = self.part.and_then(|part| part.words());
            let rows = rows.map(|rows| format!(": {rows}"));
            return vec![format!("wrote {path}{}", rows.unwrap_or_default())];
        }
        let mut rows = counted(counts.rows.written, "finished row");
        // If only the renaming failed, no row is unfinished.
        if !counts.all_rows_are_written() {
            rows += "; unfinished rows are not in it";
        }
        let before =
            "before another run, move it and the files beside it away, or give `--overwrite`";
        let before = (self.ledger == LedgerLeft::Nothing).then(|| before.to_owned());
        { [format!("{path} has the {rows}")].into_iter().chain(before) }.collect()
    }

    /// What stays in the ledger, and what the next run will do with it; `None` if nothing does.
    fn next_start(&self) -> Option<String> {
        let (counts, stopped) = (&self.counts, self.counts.cancelled);
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
        let has_failed = counts.failed.rows + counts.skipped_with_rejects > 0;
        let next = if stopped.is_none() && self.part.is_some() {
            "the same command without `--limit` or `--sample` pays for none of these rows again"
        } else if stopped.or(counts.file_failed).is_some() {
            // A file that could not be used may be fixed.
            match stopped {
                // To standard output each start has the whole budget.
                Some(CancelReason::MaxCalls | CancelReason::MaxCost) if self.output.is_some() => {
                    "once the limit is raised, the same command continues from there"
                }
                _ => "the same command continues from there",
            }
        } else if has_failed {
            let reasons = &counts.failed.reasons;
            match [Reason::NoAnswer, Reason::BadAnswer].map(|it| reasons.contains_key(&it)) {
                [false, false] => "`--retry-failed` sends only the rows without a verdict",
                _ => {
                    "`--retry-failed` sends only the rows without a verdict, some of which may be billed a second time"
                }
            }
        } else if counts.undecided.rows > 0 {
            "`--retry-failed` with all levels listed, or another pointer, decides without a call"
        } else {
            return kept;
        };
        Some(kept.map_or_else(|| next.to_owned(), |kept| format!("{kept}; {next}")))
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

fn path_of(file: Option<&SizedFile>) -> Option<&Path> {
    file?.path.as_deref()
}

/// What the ledger has of rows that were asked again all the same, how the service held calls back, the limits that were
/// found, and whether answers are the service's own, and new.
fn of_ledger_and_service(counts: &Counts) -> impl Iterator<Item = String> {
    let (calls, pace) = (&counts.calls, counts.pace.as_ref());
    let again = parts([
        ("answer too old", counts.ledger_answers_too_old),
        ("failed before", counts.ledger_failures_retried),
        ("answer damaged", counts.ledger_answers_damaged),
    ]);
    let throttled = (calls.throttled > 0).then(|| {
        let share = share_of(calls.throttled, calls.sent);
        let share = share.map_or_else(String::new, |share| format!(" ({share} of all)"));
        format!(
            "the service throttled {}{share}",
            counted(calls.throttled, "call")
        )
    });
    let paused =
        (!counts.paused.is_zero()).then(|| format!("paused for {} in total", time(counts.paused)));
    let held: Vec<_> = throttled.into_iter().chain(paused).collect();
    let is_disbelieved = pace.is_some_and(|pace| pace.headers == Hint::Disbelieved);
    let aged = counts.oldest_answer.map(|oldest| {
        let oldest = Duration::from_millis(u64::try_from(oldest).unwrap_or_default());
        let are = if counts.ledger_answers_aged == 1 {
            "is"
        } else {
            "are"
        };
        format!(
            "{} used {are} older than 30 days, the oldest arrived {} (`--max-age 30d` asks again)",
            counted(counts.ledger_answers_aged, "answer"),
            day(UNIX_EPOCH + oldest)
        )
    });
    [
        again.map(|why| format!("asked again although the ledger knows them: {why}")),
        (!held.is_empty()).then(|| held.join("; ")),
        { pace.and_then(|pace| pace.limit) }.map(limit),
        { pace.and_then(Pace::asked_for) }
            .map(|rate| format!("the service's headers ask for about {}", per_time(rate))),
        is_disbelieved.then(|| "the service's RateLimit headers were ignored: it accepted more calls than they allow".to_owned()),
        { pace.and_then(|pace| pace.limit_in_flight) }.map(limit_in_flight),
        { pace.and_then(|pace| pace.refused_at_any) }.map(|_| REFUSED_AT_ANY.to_owned()),
        (counts.outages > 0).then(|| {
            let (often, long) = (times(counts.outages), time(counts.down));
            format!("the service was down {often}, for {long} in total")
        }),
        (calls.repeated_transaction_ids > 0).then(|| {
            let answers = counted(calls.repeated_transaction_ids, "answer");
            format!("{answers} had the transaction id of a different user: {MIXED_UP}")
        }),
        aged,
    ]
    .into_iter()
    .flatten()
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
    let verdicts = verdicts(&file.rows.decisions, file.rows.undecided, file.rows.failed)
        .map(|words| format!(": {words}"));
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
