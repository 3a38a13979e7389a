//! What a run finds out before it pays: the first pass over its inputs counts the rows, those that are paid for, and the calls to
//! make; and the run is refused if the inputs do not keep the user's limits. `check` prints the counts, and `run` tells them before
//! its first call. Nothing is sent or written here.

use std::collections::{BTreeMap, HashSet};

use foldhash::fast::RandomState;
use serde::Serialize;

use super::plan::{InputRows, PartState, ReadInput, ReadPart, ReadParts};
use super::unknown_verdicts::refuse_unknown_verdicts;
use crate::analysis::CountedRows;
use crate::base::error::{Error, Result};
use crate::base::money::Tariff;
use crate::base::numbers::Tolerance;
use crate::base::text::display;
use crate::commands::files::refuse_outdated;
use crate::commands::inputs::{open_users, path_of, read_ahead};
use crate::config::{CountConfig, InputLimits, LedgerConfig};
use crate::fields::{Finding, Noticed};
use crate::input::ReaderSettings;
use crate::ledger::{
    Budget, KnownResult, LedgerFacts, Lookup, OpenLedger, Reuse, Spending, preview,
};
use crate::observe::{Expected, count, counted};
use crate::row::RowNumber;
use crate::row_state::{RowBatch, RowState, look_up};
use crate::selection::Selection;
use crate::service::{Account, Plan};
use crate::telemetry::event::PassedOver;
use crate::verdict::{Reason, most_frequent};

/// How many requests are told apart, in at most 64 MiB while the table grows. Every row beyond them counts as a call, even if
/// it repeats an earlier row.
const MAX_DISTINCT_REQUESTS: usize = if cfg!(test) { 1_000 } else { 3_600_000 };

/// Counts the rows of a run.
pub(crate) struct Counting<'a> {
    pub(crate) config: &'a CountConfig,
    /// How many of the first requests are to be shown.
    pub(crate) show: usize,
    pub(crate) lookup: &'a mut Lookup,
}

impl Counting<'_> {
    /// The first pass of a run; `None` where an input is a stream, which can be read only once.
    ///
    /// # Errors
    /// Exit code 2: the inputs are not as they must be, or another ledger has paid for their rows. Or one of them cannot be
    /// read.
    pub(super) fn before_paying(
        &mut self,
        parts: &mut ReadParts,
        account: &Account,
        ledger: Option<&mut OpenLedger>,
    ) -> Result<Option<FirstCount>> {
        let mut counted = None;
        if parts.to_run().all(ReadInput::is_file) {
            let facts = ledger.as_ref().map(|ledger| &ledger.facts);
            let (count, fits) = self.count(parts, facts)?;
            fits?;
            counted = Some(count);
        }
        // `--fresh` asks for answers that are paid for again, and in the sandbox nothing is paid for.
        let pays_again_by_mistake = !account.sandbox && self.config.ledger.reuse != Reuse::Nothing;
        if let Some(ledger) = ledger.filter(|_| pays_again_by_mistake) {
            for part in parts.all.iter().filter(|part| part.to_run().is_some()) {
                refuse_unknown_verdicts(part, self.config.plan, ledger, self.lookup)?;
            }
        }
        Ok(counted)
    }

    /// Counts all rows of the parts, and checks them against the limits, which are the second result. `facts` are those of the
    /// ledger.
    ///
    /// # Errors
    /// Exit code 2: the only input cannot be used. The ledger cannot be read.
    pub(crate) fn count(
        &mut self,
        parts: &mut ReadParts,
        facts: Option<&LedgerFacts>,
    ) -> Result<(FirstCount, Result<()>)> {
        let mut count = self.pass(parts, false)?;
        let limits = self.config.limits;
        let matters = limits != InputLimits::default() || count.total.rows.read == 0;
        // The limits are about the whole export.
        let selection = parts.selection();
        let is_part = !selection.is_everything();
        let whole = if is_part && (matters || selection.precision.is_some()) {
            Some(self.pass(parts, true)?)
        } else {
            None
        };
        if selection.precision.is_some() {
            count.calls_of_all = whole.as_ref().map(|whole| whole.calls);
        }
        let whole = whole.as_ref().unwrap_or(&count);
        let is_first_run = facts.is_none_or(LedgerFacts::is_new);
        let fits = refuse_broken(whole, parts, self.config, is_first_run);
        Ok((count, fits))
    }

    /// Counts the rows of all inputs, or only those that a run takes. An input that cannot be used is marked, unless it is the
    /// only one.
    ///
    /// # Errors
    /// Exit code 2: the only input cannot be used. The ledger cannot be read.
    pub(super) fn pass(&mut self, parts: &mut ReadParts, is_whole: bool) -> Result<FirstCount> {
        let is_only = parts.only().is_some();
        let mut pass = FirstPass::default();
        if !is_whole && parts.selection().share().is_some() {
            pass.result.sampled_requests = Some(0);
        }
        let mut has_broken = false;
        for part in &mut parts.all {
            let mut file = CountedFile::of(&part.input);
            if let Err(error) = self.part(part, &mut pass, &mut file, is_whole) {
                file.error = Some(error.in_a_line());
                if !is_only {
                    has_broken |= part.to_run().is_some();
                    part.state = PartState::Unusable(error);
                } else if !self.config.budget.keep_going {
                    return Err(error);
                }
            }
            pass.result.total.add(&file.counts);
            pass.result.files.push(file);
        }
        // No row of an input that breaks is sent, not even those before.
        if has_broken {
            return self.pass(parts, is_whole);
        }
        let FirstPass {
            sampled,
            mut result,
            ..
        } = pass;
        let requests = result.calls + sampled.len() as u64;
        result.sampled_requests = result.sampled_requests.map(|_| requests);
        Ok(result)
    }

    /// Counts the rows of an input, if they are to run. A stream is used up.
    ///
    /// # Errors
    /// It cannot be used, or not to its end. The ledger cannot be read.
    fn part(
        &mut self,
        part: &mut ReadPart,
        pass: &mut FirstPass,
        file: &mut CountedFile,
        is_whole: bool,
    ) -> Result<()> {
        let input = match &mut part.state {
            PartState::Run(input) => input,
            PartState::Unusable(error) => {
                file.error = Some(error.in_a_line());
                return Ok(());
            }
            PartState::Finished { .. } => {
                file.finished = true;
                let output = part.output.as_deref();
                let refuse = |output| refuse_outdated(path_of(&part.input), output, false);
                return output.map_or(Ok(()), refuse);
            }
        };
        file.mapping.clone_from(&input.opened.mapping);
        if let InputRows::Stream(reader) = &mut input.rows {
            while let Some(batch) = reader.next_batch()? {
                self.batch(batch, pass, file)?;
            }
            return Ok(());
        }
        let mut reading = part.input.clone();
        reading.notes_quality = true;
        reading.refuses_cut = !self.config.budget.keep_going;
        if is_whole {
            reading.selection = Selection::default();
        }
        let (reader, _) = open_users(&reading, self.config.plan)?;
        for batch in read_ahead(reader)? {
            self.batch(batch?, pass, file)?;
        }
        Ok(())
    }

    /// Counts some rows of an input.
    ///
    /// # Errors
    /// The ledger cannot be read.
    fn batch(
        &mut self,
        mut batch: RowBatch,
        pass: &mut FirstPass,
        file: &mut CountedFile,
    ) -> Result<()> {
        look_up(self.lookup, &mut batch.rows)?;
        file.quality.extend(batch.quality);
        let FirstPass {
            calls,
            sampled,
            result,
        } = pass;
        let counts = &mut file.counts;
        counts.rows.noticed += batch.noticed;
        for row in &batch.rows {
            counts.rows.read += 1;
            if let Some(failure) = row.state.failure() {
                counts.rows.unsendable += 1;
                let named = file.unsendable.entry(failure.reason).or_default();
                named.count(row.number);
                if failure.reason.is_about_cells() {
                    let broken = &mut file.broken_cells;
                    broken.get_or_insert_with(|| failure.message.clone());
                }
            }
            counts.rows.passed += u64::from(matches!(row.state, RowState::Passed));
            let RowState::Waiting { key, found, body } = &row.state else {
                continue;
            };
            if result.requests.len() < self.show {
                let body = String::from_utf8_lossy(body).into_owned();
                let row = row.number;
                result.requests.push(ShownRequest { row, body });
            }
            counts.rows.sendable += 1;
            match found.passed_over {
                Some(PassedOver::Damaged) => result.ledger_answers_damaged += 1,
                Some(PassedOver::TooOld) => result.ledger_answers_too_old += 1,
                Some(PassedOver::Failed) | None => {}
            }
            counts.again += u64::from(found.passed_over.is_some());
            match found.result {
                Some(KnownResult::Answer(_)) => {
                    counts.known += 1;
                    if result.sampled_requests.is_some() && sampled.len() < MAX_DISTINCT_REQUESTS {
                        sampled.insert(key.fingerprint());
                    }
                }
                Some(KnownResult::Failure(_)) => counts.failed_before += 1,
                None if calls.contains(&key.fingerprint()) => result.duplicates += 1,
                None => {
                    result.calls += 1;
                    result.new_calls += u64::from(found.old.is_none());
                    if calls.len() < MAX_DISTINCT_REQUESTS {
                        calls.insert(key.fingerprint());
                    } else {
                        result.calls_at_most = true;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Fails unless the inputs keep the limits: a broken export must neither be scored in part nor replace yesterday's output.
///
/// # Errors
/// Exit code 2: they do not.
fn refuse_broken(
    whole: &FirstCount,
    parts: &ReadParts,
    config: &CountConfig,
    is_first_run: bool,
) -> Result<()> {
    let limits = config.limits;
    let rows = whole.total.rows;
    // A share is of the rows that would be sent.
    let chosen = rows.read - rows.passed;
    let exceeds = |number, most: &Tolerance| !most.covers(number, chosen);
    let number_of_all = |number| {
        let (number, all) = (count(number), counted(chosen, "row"));
        format!("{number} of the {all} of {}", name_of(whole))
    };
    let invalid = limits.max_invalid;
    let invalid = invalid.filter(|most| exceeds(rows.unsendable, most));
    let too_many_invalid = invalid.map(|most| {
        let mut reasons = BTreeMap::new();
        for (reason, counted) in whole.files.iter().flat_map(|file| &file.unsendable) {
            *reasons.entry(*reason).or_default() += counted.rows;
        }
        Error::usage(format!(
            "{} cannot be sent, more than `--max-invalid {most}` allows",
            number_of_all(rows.unsendable)
        ))
        .detail(format!("most frequent: {}", most_frequent(&reasons)))
        .hint("`rescore check` names these rows; `--max-invalid` sets how many are allowed")
    });
    let new = limits.max_new.filter(|_| !is_first_run);
    let new = new.filter(|most| exceeds(whole.total.unknown(), most));
    let too_many_new = new.map(|most| {
        Error::usage(format!(
            "{} are new to the ledger, more than `--max-new {most}` allows",
            number_of_all(whole.total.unknown())
        ))
        .hint("check that no column has gone or changed its form; `rescore check --show 3` prints what would be sent")
    });
    let too_few = || too_few(whole, parts, config.plan, limits.min_rows);
    match too_many_invalid.or_else(too_few).or(too_many_new) {
        Some(error) => Err(error.detail("nothing was sent")),
        None => Ok(()),
    }
}

/// The inputs in words.
fn name_of(count: &FirstCount) -> String {
    match &*count.files {
        [only] => format!("`{}`", only.name),
        files => format!("the {} inputs", files.len()),
    }
}

/// The refusal of inputs with fewer rows than this together, or of one input with fewer than this share of the output that it
/// would replace.
fn too_few(
    whole: &FirstCount,
    parts: &ReadParts,
    plan: Plan,
    min_rows: Option<Tolerance>,
) -> Option<Error> {
    let complete = "check that the export is complete, or lower `--min-rows`";
    if let Some(Tolerance::Rows(least)) = min_rows {
        let rows = whole.total.rows.read;
        let has = if whole.files.len() == 1 {
            "has"
        } else {
            "have"
        };
        let (name, number) = (name_of(whole), counted(rows, "row"));
        let words = format!("{name} {has} {number}, fewer than `--min-rows {least}`");
        return (rows < least).then(|| Error::usage(words).hint(complete));
    }
    for (part, file) in parts.all.iter().zip(&whole.files) {
        let rows = file.counts.rows.read;
        let Some(output) = part.replaced().filter(|_| rows == 0 || min_rows.is_some()) else {
            continue;
        };
        let old = rows_of(&part.input.all_rows_of(output), plan);
        let of_output = format!("the {} in `{}`", count(old), display(output));
        let (why, hint) = match min_rows {
            Some(Tolerance::Percent(least)) => {
                let may_lack = Tolerance::Percent(100.0 - least);
                if may_lack.covers(old.saturating_sub(rows), old) {
                    continue;
                }
                (format!("fewer than {least}% of {of_output}"), complete)
            }
            _ if old == 0 => continue,
            _ => (
                format!("and would replace {of_output}"),
                "check that the export is complete; `--min-rows 0` allows an empty one",
            ),
        };
        let rows = counted(rows, "row");
        return Some(Error::usage(format!("`{}` has {rows}, {why}", file.name)).hint(hint));
    }
    None
}

/// How many rows a file has if it is read in this way; 0 if it cannot be.
fn rows_of(reading: &ReaderSettings, plan: Plan) -> u64 {
    let Ok((mut reader, _)) = open_users(reading, plan) else {
        return 0;
    };
    let batches = std::iter::from_fn(|| reader.next_batch().ok().flatten());
    batches.map(|batch| batch.rows.len() as u64).sum()
}

/// The warning of a run without a ledger: how many of its rows have an answer in the ledger that it would use otherwise.
pub(super) fn unused_answers(
    parts: &mut ReadParts,
    config: &CountConfig,
    account: &Account,
) -> Option<String> {
    if config.ledger.is_kept || account.sandbox {
        return None;
    }
    let usual = LedgerConfig {
        is_kept: true,
        ..config.ledger.clone()
    };
    let location = usual.location(false).ok()??;
    let settings = parts.ledger_settings(config, location, Some(account));
    let (mut lookup, _) = preview(&settings).ok()??;
    let mut counting = Counting {
        config,
        show: 0,
        lookup: &mut lookup,
    };
    let known = counting.pass(parts, false).ok()?.total.known;
    (known > 0).then(|| {
        let (rows, ledger) = (counted(known, "row"), settings.location.to_display());
        format!("`--no-ledger` pays again for {rows} whose answers are in the ledger `{ledger}`")
    })
}

/// A pass over one input after the other.
#[derive(Default)]
struct FirstPass {
    /// The fingerprints of the requests that would be sent. Two of ten million share one with a chance below one in 300,000, and
    /// the count would then be too low by one call.
    calls: HashSet<i64, RandomState>,
    /// Those of a sample that are paid for; beyond [`MAX_DISTINCT_REQUESTS`] too few, so that the sample does not seem surer than it is.
    sampled: HashSet<i64, RandomState>,
    /// The counts so far.
    result: FirstCount,
}

/// A request as a run would send it.
#[derive(Debug, Serialize)]
pub(crate) struct ShownRequest {
    pub(crate) row: RowNumber,
    pub(crate) body: String,
}

/// The counts of all inputs of a run.
#[derive(Debug, Default, Serialize)]
pub(crate) struct FirstCount {
    /// The inputs; there is at least one.
    pub(crate) files: Vec<CountedFile>,
    /// The rows of all of them.
    #[serde(flatten)]
    pub(crate) total: PassCounts,
    /// The different requests of a sample, whether they are paid for or not.
    #[serde(skip)]
    sampled_requests: Option<u64>,
    /// Rows that repeat an earlier one.
    pub(crate) duplicates: u64,
    /// Calls without retries.
    pub(crate) calls: u64,
    /// Calls for all rows, where the sample may grow up to these.
    #[serde(skip)]
    calls_of_all: Option<u64>,
    /// Of the calls of this run, those for requests without any answer.
    #[serde(skip)]
    pub(super) new_calls: u64,
    /// There may be fewer calls: there were too many rows to find each that repeats an earlier one.
    pub(crate) calls_at_most: bool,
    pub(crate) ledger_answers_damaged: u64,
    pub(crate) ledger_answers_too_old: u64,
    /// The first requests, if the user wants to see them.
    pub(crate) requests: Vec<ShownRequest>,
}

/// An input and its counts.
#[derive(Debug, Default, Serialize)]
pub(crate) struct CountedFile {
    /// Its path; `None` is standard input.
    input: Option<String>,
    /// Why it cannot be used, or not to its end.
    pub(crate) error: Option<String>,
    /// Its output is there: a run skips it, and it was not read.
    pub(crate) finished: bool,
    /// Which column is which field, as one line.
    pub(crate) mapping: String,
    #[serde(flatten)]
    pub(crate) counts: PassCounts,
    /// Rows that cannot be sent.
    pub(crate) unsendable: BTreeMap<Reason, CountedRows>,
    /// Why the cells of a row cannot be told apart, for the first such row.
    #[serde(skip)]
    broken_cells: Option<Box<str>>,
    /// Odd values in the other rows.
    quality: Vec<Finding>,
    /// Its name for people.
    #[serde(skip)]
    pub(crate) name: String,
    /// Which of its rows a run would take, in words, if not all.
    #[serde(skip)]
    pub(crate) selection: Option<String>,
}

/// The rows of an input, or of all inputs.
#[derive(Debug, Default, Clone, Copy, Serialize)]
pub(crate) struct PassCounts {
    pub(crate) rows: PassedRows,
    /// Rows whose answer is paid for.
    pub(crate) known: u64,
    /// Rows that have failed although their call was or may have been billed, and would not be sent again.
    pub(crate) failed_before: u64,
    /// Rows that were asked for before, and are to be asked for again.
    #[serde(skip)]
    again: u64,
}

/// How many rows there are, and how many of them can be sent.
#[derive(Debug, Default, Clone, Copy, Serialize)]
pub(crate) struct PassedRows {
    pub(crate) read: u64,
    pub(crate) sendable: u64,
    pub(crate) unsendable: u64,
    /// Rows that are not to be sent.
    pub(crate) passed: u64,
    #[serde(flatten)]
    pub(crate) noticed: Noticed,
}

impl PassCounts {
    /// Adds the rows of an input.
    fn add(&mut self, file: &Self) {
        self.rows.read += file.rows.read;
        self.rows.sendable += file.rows.sendable;
        self.rows.unsendable += file.rows.unsendable;
        self.rows.passed += file.rows.passed;
        self.rows.noticed += file.rows.noticed;
        self.known += file.known;
        self.failed_before += file.failed_before;
        self.again += file.again;
    }

    /// Rows that nobody was asked about.
    pub(super) const fn unknown(&self) -> u64 {
        self.rows.sendable - self.known - self.failed_before - self.again
    }
}

impl CountedFile {
    /// An input that was not read yet.
    fn of(settings: &ReaderSettings) -> Self {
        let input = &settings.file.input;
        Self {
            name: input.display(),
            input: input.path().map(|path| path.to_string_lossy().into()),
            selection: settings.selection.words(),
            ..Self::default()
        }
    }
}

/// How many calls these limits leave; `None` if there are no limits.
pub(crate) fn calls_left(limits: &[Budget], facts: Option<&LedgerFacts>) -> Option<u64> {
    let spending = facts.map_or_else(Spending::default, |facts| facts.run.spending.clone());
    limits.iter().map(|limit| limit.left(&spending)).min()
}

/// What people should know of the ledger before the first call: that it is new, and that a run continues.
pub(crate) fn ledger_notices(
    path: &str,
    facts: Option<&LedgerFacts>,
) -> impl Iterator<Item = String> {
    let is_new = facts.is_none_or(|facts| !facts.existed);
    let continues = facts.is_some_and(|facts| facts.run.continues);
    let notices = [
        is_new.then(|| format!("a new ledger, `{path}`")),
        continues.then(|| "continuing the unfinished run".to_owned()),
    ];
    notices.into_iter().flatten()
}

/// ``paid for already in `rescore.ledger` ``. Nobody pays for the answers of the sandbox.
pub(crate) fn paid_in(path: &str, is_sandbox: bool) -> String {
    let paid = if is_sandbox { "known" } else { "paid for" };
    format!("{paid} already in `{path}`")
}

impl FirstCount {
    /// The counts for progress and summary.
    pub(super) fn expected(&self, tariff: Option<&Tariff>) -> Expected {
        let total = &self.total;
        Expected {
            rows: total.rows.read,
            known: total.known,
            unsendable: total.rows.unsendable,
            calls: self.calls,
            calls_at_most: self.calls_at_most,
            cost: tariff.map(|tariff| tariff.price.of(self.calls)),
            sampled_requests: self.sampled_requests,
            calls_of_all: self.calls_of_all,
        }
    }

    /// The counts in words: `2,700 rows: 193 calls to make (about 0.77 EUR)`, then the rows that need no call or are special.
    /// `left` is the number of calls that the budgets leave.
    pub(crate) fn in_words(
        &self,
        paid: &str,
        tariff: Option<&Tariff>,
        left: Option<u64>,
    ) -> Vec<String> {
        let (total, rows, noticed) = (&self.total, &self.total.rows, &self.total.rows.noticed);
        let (too_old, shortened) = (self.ledger_answers_too_old, noticed.addresses_shortened);
        let at_most = if self.calls_at_most { "at most " } else { "" };
        let mut calls = format!(
            "{}: {at_most}{} to make",
            counted(rows.read, "row"),
            counted(self.calls, "call")
        );
        if let Some(tariff) = tariff {
            calls += &format!(" (about {})", tariff.display_for(self.calls));
        }
        if let Some(most) = self.calls_of_all {
            let cost = tariff.map(|tariff| format!(" (about {})", tariff.display_for(most)));
            calls += &format!(
                " in this round, at most {}{} in all rounds",
                count(most),
                cost.unwrap_or_default()
            );
        }
        if let Some(left) = left.filter(|left| *left < self.calls) {
            calls += &format!(" (the budget leaves {})", count(left));
        }
        let others = [
            (total.known, paid),
            (too_old, "have an answer that is too old"),
            (total.failed_before, "failed before"),
            (self.duplicates, "repeat another row"),
            (rows.passed, "passed on"),
            (rows.unsendable, "cannot be sent"),
            (noticed.dropped, "are sent without an invalid value"),
            (shortened, "are sent with a shortened IP address"),
        ];
        let others = others.into_iter().filter(|(rows, _)| *rows > 0);
        let others = others.map(|(rows, what)| format!("{} {what}", count(rows)));
        [calls].into_iter().chain(others).collect()
    }

    /// What is odd about the rows of each input, in words.
    pub(crate) fn oddities(&self) -> impl Iterator<Item = String> {
        self.files.iter().flat_map(|file| {
            let rows = &file.counts.rows;
            let broken = file.broken_cells.iter();
            let broken = broken.filter(|_| rows.unsendable == rows.read);
            let broken = broken.map(|why| format!("no row can be sent: {why}"));
            let words = broken.chain(file.quality.iter().map(|found| found.words.clone()));
            words.map(|words| format!("{}: {words}", file.name))
        })
    }
}
