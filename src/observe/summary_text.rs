//! A run that is over, as people read it: a line for each number that is not zero, the most important first. A report shows
//! the same numbers.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use super::numbers::{answers, count, counted, day, named, parts, per_time, rate, verdicts};
use super::progress::MIXED_UP;
use super::sample::{is_known, sample_lines};
use super::snapshot::{REFUSED_AT_ANY, limit, limit_in_flight};
use super::summary::{FileState, FileSummary, LedgerLeft, RunSummary, SizedFile};
use crate::analysis::{CountedRows, Drift, SampleSize};
use crate::base::money::Tariff;
use crate::base::numbers::{AGED_DAYS, percent_of, time};
use crate::base::text::{display, printable};
use crate::telemetry::counts::{Cost, Counts};
use crate::telemetry::event::CancelReason;
use crate::telemetry::pace::Hint;
use crate::verdict::{Decision, Reason};

/// How many rows are done, and how the run ended.
pub(crate) fn headline(counts: &Counts) -> String {
    let mut words = match (counts.cancelled, counts.limited) {
        (Some(reason), _) => format!("stopped early ({}): ", reason.words()),
        (None, Some(reason)) => format!("finished without calls ({}): ", reason.words()),
        (None, None) => String::new(),
    };
    words += &counted(counts.rows.resolved, "row");
    let _ = write!(words, " in {}", time(counts.elapsed));
    if let Some(speed) = counts.rows_per_second {
        let _ = write!(words, ", {} rows/s", rate(speed));
    }
    words
}

/// The numbers that a report shows too: rows without a call, calls, costs, and calls that may have been billed for nothing.
/// Each number has its words; zeros are left out.
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
    add(equal, "row", " reused the answer of an identical request");
    add(counts.passed, "row", " passed on without a call");
    let without = " sent without an invalid phone number or email address";
    add(counts.dropped, "row", without);
    let retries = match calls.retries {
        0 => String::new(),
        1 => ", 1 of them a retry".to_owned(),
        retries => format!(", {} of them retries", count(retries)),
    };
    add(calls.sent, "call", &retries);
    let twice = " may have been billed twice: sent again because no answer came";
    add(calls.maybe_billed_twice, "row", twice);
    let unanswered = calls.unknown_outcome.saturating_sub(calls.resent);
    add(
        unanswered,
        "call",
        " may have been billed without an answer",
    );
    let why = " got an answer without a verdict and will probably be billed";
    add(calls.billed_without_verdict, "call", why);
    let cost = counts.cost.as_ref();
    facts.extend(cost.map(|cost| cost_words(cost, counts, sandbox)));
    facts
}

/// The money spent now, and the cost of all verdicts if that differs. In a sandbox it is the money that the service would charge.
fn cost_words(cost: &Cost, counts: &Counts, sandbox: bool) -> (String, String) {
    let billed = counted(counts.calls.billed(), "answer");
    let [spent, costs] = if sandbox {
        ["would have been spent for", "would have cost"]
    } else {
        ["for", "cost"]
    };
    let mut words = format!("{spent} {billed} now");
    let verdicts = counted(counts.scored(), "verdict");
    let all = cost.tariff.display(cost.verdicts);
    if cost.verdicts != cost.spent || cost.unpriced > 0 {
        let _ = write!(words, "; the {verdicts} in this file {costs} {all}");
    }
    if cost.unpriced > 0 {
        let unpriced = counted(cost.unpriced, "answer");
        let _ = write!(words, ", without {unpriced} of unknown price");
    }
    (cost.tariff.display(cost.spent), words)
}

impl RunSummary<'_> {
    /// What follows a round of a sample that grows until enough is known.
    fn next_round(&self, size: &SampleSize, tariff: Option<&Tariff>) -> Option<String> {
        let (counts, precision) = (&self.counts, self.part?.precision?);
        if is_known(size, &counts.decisions, precision) {
            let expected = self.identity.expected.as_ref()?;
            let rest = expected.calls_of_all?.saturating_sub(expected.calls);
            let cost = tariff.map(|tariff| format!(" (about {})", tariff.display_for(rest)));
            let (rest, cost) = (counted(rest, "call"), cost.unwrap_or_default());
            return Some(format!(
                "review and block are known to {precision}: the other rows need {rest}{cost}"
            ));
        }
        let goes_on = counts.cancelled.is_none() && counts.limited.is_none();
        goes_on.then(|| format!("not known to {precision} yet: the next round takes twice as many"))
    }

    /// The lines for people.
    pub(crate) fn text(&self) -> String {
        let (counts, sandbox) = (&self.counts, self.identity.sandbox);
        let mut lines = vec![headline(counts)];
        if sandbox {
            let billed = self.sandbox_billed.filter(|billed| *billed > 0);
            let billed = billed.map(|calls| format!(", which billed {}", counted(calls, "call")));
            lines.push(format!(
                "sandbox: the scores come from a stand-in{}, not from the service",
                billed.unwrap_or_default()
            ));
        }
        lines.extend(verdicts(&counts.decisions, 0, 0));
        let tariff = counts.cost.as_ref().map(|cost| &cost.tariff);
        let sample = self.sample_size();
        if let Some(size) = sample {
            lines.extend(sample_lines(&size, &counts.decisions, tariff));
            lines.extend(self.next_round(&size, tariff));
        }
        let undecided = count(counts.undecided.rows);
        let why = self.undecided();
        lines.extend(why.map(|why| format!("undecided {undecided}: {why}")));
        let changes = path_of(self.changes.as_ref());
        let drift = counts.drift.iter();
        lines.extend(drift.flat_map(|drift| drift_lines(drift, changes)));
        let failed = count(counts.failed.rows);
        let why = self.reasons();
        lines.extend(why.map(|why| format!("failed {failed}: {why}")));
        if let Some(most) = counts.accepted(self.accepted) {
            lines.push(format!(
                "accepted by `--accept-failures {most}`: the exit code is 0"
            ));
        }
        let facts = facts(counts, sandbox).into_iter();
        lines.extend(facts.map(|(number, words)| format!("{number} {words}")));
        let is_fresh = self.options.get("fresh") == Some(&true.into());
        lines.extend(of_ledger_and_service(counts, is_fresh));
        lines.extend(self.lost_answers());
        lines.extend(match self.files {
            Some(files) => file_lines(files),
            None => self.where_rows_are(),
        });
        lines.extend(self.next_run());
        format!("rescore: {}", lines.join("\n         "))
    }

    /// The only line of a quiet run: none if every row has a verdict and a decision, or few enough have none, no budget was used up,
    /// and no paid answer may be lost.
    pub(crate) fn warning(&self) -> Option<String> {
        let (counts, code) = (&self.counts, self.exit_code);
        let rows = counted(counts.rows.resolved, "row");
        let (failed, undecided) = (count(counts.failed.rows), count(counts.undecided.rows));
        let skipped = counted(counts.state.skipped_with_rejects, "file");
        let skipped = (counts.state.skipped_with_rejects > 0)
            .then(|| format!("{skipped} with rows without a verdict, finished before this start"));
        let is_accepted = counts.accepted(self.accepted).is_some();
        let limited = counts
            .limited
            .map(|reason| format!("{}: continued without calls", reason.words()));
        let failures = self.reasons().filter(|_| !is_accepted);
        let no_decision = self.undecided();
        let words = [
            limited,
            failures.map(|why| format!("{failed} of {rows} failed: {why}")),
            no_decision.map(|why| format!("{undecided} of {rows} have no decision: {why}")),
            skipped,
            self.lost_answers(),
        ];
        let words: Vec<_> = words.into_iter().flatten().collect();
        // After a stop an error follows, and says why.
        let end = match counts.cancelled {
            None => format!(" (finished with exit code {code})"),
            Some(_) => String::new(),
        };
        (!words.is_empty()).then(|| words.join("; ") + &end)
    }

    /// Where the level of rows without a decision should be, and which rows they are.
    fn undecided(&self) -> Option<String> {
        undecided(&self.counts.undecided, self.identity.rule.level_place())
    }

    /// Why rows failed, and which file has them.
    fn reasons(&self) -> Option<String> {
        let place = path_of(self.rejects.as_ref()).map(|path| format!("; see {}", display(path)));
        Some(parts(&self.counts.failed.reasons)? + &place.unwrap_or_default())
    }

    /// Paid answers that may not be on disk. Without a ledger none of the answers is kept, and that has a line of its own.
    fn lost_answers(&self) -> Option<String> {
        let is_kept = !matches!(self.ledger, LedgerLeft::Nothing | LedgerLeft::Gone);
        let lost = Some(self.counts.calls.lost).filter(|lost| *lost > 0 && is_kept)?;
        let answers = answers(lost, self.identity.sandbox);
        Some(format!(
            "{answers} may be lost: not confirmed to be on disk"
        ))
    }

    /// Where the rows are, and what to do with them before another run.
    fn where_rows_are(&self) -> Vec<String> {
        let counts = &self.counts;
        let Some(path) = path_of(self.output.as_ref()).map(display) else {
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
        let lines = [format!("{path} has the {rows}")];
        lines.into_iter().chain(before).collect()
    }

    /// Which answers are kept, and what the next run does.
    fn next_run(&self) -> Option<String> {
        let (counts, calls) = (&self.counts, &self.counts.calls);
        let (stopped, is_part) = (counts.cancelled, self.part.is_some());
        let of_this_run = answers(calls.answered, self.identity.sandbox);
        let path = match &self.ledger {
            LedgerLeft::Damaged(path) => {
                let path = display(path);
                return Some(format!("{path} is damaged: no run can continue with it"));
            }
            LedgerLeft::Kept(path) => display(path),
            _ if calls.answered == 0 => return None,
            LedgerLeft::Gone if stopped.is_some() => {
                return Some(format!(
                    "the ledger with up to {of_this_run} of this run was removed or moved: if it is moved back, the same command continues; otherwise another run makes the same calls again"
                ));
            }
            LedgerLeft::Nothing if stopped.is_some() || is_part => {
                return Some(format!(
                    "no ledger keeps the {of_this_run} of this run: another run makes the same calls again (without `--no-ledger` they are kept)"
                ));
            }
            LedgerLeft::Gone | LedgerLeft::Nothing => return None,
        };
        let paid = if self.identity.sandbox { "" } else { "paid " };
        let kept = (calls.answered + counts.known > 0)
            .then(|| format!("the {paid}answers are kept in {path}"));
        let reasons = &counts.failed.reasons;
        let next = if stopped.is_none() && is_part {
            "the same command without `--limit` or `--sample` pays for none of these rows again"
        } else if let (None, Some(limit)) = (stopped, counts.limited) {
            if limit.is_of_hours() {
                "the same command asks for the missing answers"
            } else {
                "once there is room in the budget, the same command asks for the missing answers"
            }
        } else if stopped.or(counts.state.file_failed).is_some() {
            // A file that could not be used may be fixed.
            match stopped {
                // To standard output each start has the whole budget.
                Some(CancelReason::MaxCalls | CancelReason::MaxCost) if self.output.is_some() => {
                    "once there is room in the budget, the same command continues from there"
                }
                _ => "the same command continues from there",
            }
        } else if counts.failed.rows > 0 && self.options.get("retry-failed").is_some() {
            return kept;
        } else if reasons.contains_key(&Reason::NoAnswer)
            || reasons.contains_key(&Reason::BadAnswer)
        {
            "`--retry-failed` sends only the rows without a verdict; some may be billed a second time"
        } else if counts.failed.rows + counts.state.skipped_with_rejects > 0 {
            "`--retry-failed` sends only the rows without a verdict"
        } else if counts.undecided.rows > 0 {
            "`--retry-failed` with all levels listed, or another pointer, decides without a call"
        } else {
            return kept;
        };
        Some(kept.map_or_else(|| next.to_owned(), |kept| format!("{kept}; {next}")))
    }
}

fn path_of(file: Option<&SizedFile>) -> Option<&Path> {
    file?.path.as_deref()
}

/// Rows that were asked again, how the service held calls back, the limits that were found, and answers that are old or may
/// not be the service's own.
fn of_ledger_and_service(counts: &Counts, is_fresh: bool) -> Vec<String> {
    let (mut lines, mut held) = (Vec::new(), Vec::new());
    let (calls, pace) = (&counts.calls, counts.pace.as_ref());
    let too_old = if is_fresh {
        "--fresh"
    } else {
        "answer too old"
    };
    let again = parts([
        (too_old, counts.ledger_answers_too_old),
        ("failed before", counts.ledger_failures_retried),
        ("answer damaged", counts.ledger_answers_damaged),
    ]);
    lines.extend(again.map(|why| format!("asked again: {why}")));
    if calls.throttled > 0 {
        let throttled = counted(calls.throttled, "call");
        let share = percent_of(calls.throttled, calls.sent);
        held.push(format!(
            "the service throttled {throttled} ({share} of all)"
        ));
    }
    if !counts.paused.is_zero() {
        held.push(format!("paused for {} in total", time(counts.paused)));
    }
    lines.extend((!held.is_empty()).then(|| held.join("; ")));
    if let Some(pace) = pace {
        let asked = pace.asked_for().map(per_time);
        lines.extend(pace.limit.map(limit));
        lines.extend(asked.map(|rate| format!("the service's headers ask for about {rate}")));
        if pace.headers == Hint::Disbelieved {
            lines.push("the service's RateLimit headers were ignored: it accepted more calls than they allow".to_owned());
        }
        lines.extend(pace.limit_in_flight.map(limit_in_flight));
        lines.extend(pace.refused_at_any.map(|_| REFUSED_AT_ANY.to_owned()));
    }
    if counts.outages > 0 {
        let (outages, long) = (counted(counts.outages, "outage"), time(counts.down));
        lines.push(format!("the service had {outages}, {long} in total"));
    }
    if calls.repeated_transaction_ids > 0 {
        let answers = counted(calls.repeated_transaction_ids, "answer");
        lines.push(format!(
            "{answers} had the transaction id of a different user: {MIXED_UP}"
        ));
    }
    if let Some(oldest) = counts.state.oldest_answer {
        let oldest = Duration::from_millis(u64::try_from(oldest).unwrap_or_default());
        let used = counted(counts.ledger_answers_aged, "answer");
        let oldest = day(UNIX_EPOCH + oldest);
        lines.push(match counts.limited {
            None => format!("used {used} older than {AGED_DAYS} days, the oldest arrived {oldest} (`--max-age {AGED_DAYS}d` asks again)"),
            Some(_) => format!("used {used} that should be asked for again, the oldest arrived {oldest}"),
        });
    }
    lines
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
        let _ = write!(sum, "; see {}", display(path));
    }
    parts(moves).into_iter().chain([sum]).collect()
}

/// More lines would hide the rest of the summary. The JSON has all files.
const FILE_LINES: usize = 20;

/// How many files ended in which state, and the files that matter most.
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
    let all = counted(files.len() as u64, "file");
    let mut lines = vec![format!("{all}: {}", parts(states).unwrap_or_default())];
    let mut telling: Vec<_> = files.iter().collect();
    telling.retain(|file| {
        file.state < FileState::Left || file.state == FileState::Finished || file.rejects.is_some()
    });
    // A stable sort: files with the same trouble stay in their order.
    telling.sort_by_key(|file| (file.state, file.rows.failed == 0));
    let more = telling.len().saturating_sub(FILE_LINES) as u64;
    lines.extend(telling.into_iter().take(FILE_LINES).map(file_line));
    lines.extend((more > 0).then(|| format!("  and {}", counted(more, "more file"))));
    lines
}

/// `  part-00000.csv: 9 rows: approve 8, failed 1; see scored/part-00000.rejects.csv`.
fn file_line(file: &FileSummary) -> String {
    let name = Path::new(file.input.file_name().unwrap_or(file.input.as_os_str()));
    let rows = counted(file.rows.resolved, "row");
    let verdicts = verdicts(&file.rows.decisions, file.rows.undecided, file.rows.failed);
    let verdicts = verdicts.map_or_else(String::new, |words| format!(": {words}"));
    let mut line = match file.state {
        FileState::Failed => "failed".to_owned(),
        FileState::Skipped => "skipped, some rows have no verdict".to_owned(),
        FileState::Finished => format!("{rows}{verdicts}"),
        FileState::Partial | FileState::Left => format!("stopped after {rows}{verdicts}"),
    };
    if let Some(error) = &file.error {
        let _ = write!(line, "; {}", printable(error));
    }
    if let Some(path) = &file.rejects {
        let _ = write!(line, "; see {}", display(path));
    }
    format!("  {}: {line}", display(name))
}
