//! The first pass over the inputs of a run: how many rows there are, how many are paid for, and how many calls are to be made,
//! before anything is paid. `check` prints it, and `run` says it before its first call. Nothing is sent or written here, and
//! whether a run may start is not known here.

use std::collections::{BTreeMap, HashSet};

use foldhash::fast::RandomState;
use serde::Serialize;

use super::files::{Files, PartState, RunPart};
use crate::analysis::CountedRows;
use crate::base::error::Result;
use crate::base::money::Tariff;
use crate::commands::files::refuse_outdated;
use crate::commands::inputs::{open_users, path_of, read_ahead};
use crate::fields::{Finding, Noticed};
use crate::input::{Opened, Reader, ReaderSettings};
use crate::ledger::{KnownResult, LedgerFacts, Lookup};
use crate::observe::{count, counted};
use crate::row::RowNumber;
use crate::row_state::{RowBatch, RowState, look_up};
use crate::selection::Selection;
use crate::service::Plan;
use crate::telemetry::event::PassedOver;
use crate::verdict::Reason;

/// How many requests are told apart, in at most 64 MiB while the table grows. Each later row counts as a call, even if it
/// repeats an earlier one.
const MOST_DISTINCT: usize = if cfg!(test) { 1_000 } else { 3_600_000 };

/// How the rows of a run are counted.
pub(crate) struct Counting<'a> {
    pub(crate) plan: Plan,
    /// What cannot be read to its end is counted as far as it can.
    pub(crate) keep_going: bool,
    /// How many of the first requests are to be shown.
    pub(crate) show: u64,
    /// Looks rows up in the ledger as it is now.
    pub(crate) lookup: &'a dyn Fn() -> Result<Lookup>,
}

impl Counting<'_> {
    /// Counts the rows of all inputs, or those of their rows that a run takes. An input that cannot be used is marked, unless it
    /// is the only one.
    ///
    /// # Errors
    /// Exit code 2: the only input cannot be used. The ledger cannot be read.
    pub(super) fn pass(&self, files: &mut Files, is_whole: bool) -> Result<FirstCount> {
        let is_only = files.only().is_some();
        let mut pass = FirstPass {
            lookup: (self.lookup)()?,
            show: self.show,
            calls: HashSet::default(),
            result: FirstCount::default(),
        };
        let mut has_broken = false;
        for part in &mut files.parts {
            let mut file = CountedFile::of(&part.input);
            if let Err(error) = self.part(part, &mut pass, &mut file, is_whole) {
                file.error = Some(error.in_a_line());
                if !is_only {
                    has_broken |= matches!(part.state, PartState::Run(_));
                    part.state = PartState::Unusable(error);
                } else if !self.keep_going {
                    return Err(error);
                }
            }
            pass.result.total.add(&file.counts);
            pass.result.files.push(file);
        }
        // The rows of an input that breaks are not sent, not even those before.
        if has_broken {
            return self.pass(files, is_whole);
        }
        Ok(pass.result)
    }

    /// Counts the rows of an input, if they are to run. One that can be read only once is used up.
    ///
    /// # Errors
    /// It cannot be used, or not to its end. The ledger cannot be read.
    fn part(
        &self,
        part: &mut RunPart,
        pass: &mut FirstPass,
        file: &mut CountedFile,
        is_whole: bool,
    ) -> Result<()> {
        let is_file = part.is_file();
        match (&mut part.state, &part.output) {
            (PartState::Run(_), _) if is_file => {
                let mut reading = part.input.clone();
                reading.notes_quality = true;
                reading.refuses_cut = !self.keep_going;
                if is_whole {
                    reading.selection = Selection::default();
                }
                let (reader, opened) = open_users(&reading, self.plan)?;
                pass.part(reader, &opened, file)
            }
            (PartState::Run(open), _) => match open.take_reader() {
                Some(reader) => pass.part(reader, &open.opened, file),
                None => Ok(()),
            },
            (PartState::Skip, Some(output)) => {
                file.finished = true;
                refuse_outdated(path_of(&part.input), output, false)
            }
            (PartState::Unusable(error), _) => {
                file.error = Some(error.in_a_line());
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// A pass over one input after the other.
struct FirstPass {
    lookup: Lookup,
    /// The fingerprints of the requests that would be sent. Two of ten million share one with a chance below one in 300,000, and
    /// the count would then be too low by one call.
    calls: HashSet<i64, RandomState>,
    /// How many more requests are to be shown.
    show: u64,
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
    /// Rows that repeat an earlier one.
    pub(crate) duplicates: u64,
    /// Calls without retries.
    pub(crate) calls: u64,
    /// Of these, calls for requests without any answer.
    #[serde(skip)]
    pub(super) new_calls: u64,
    /// There may be fewer calls: the rows were too many to find all that repeat one.
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
    /// What is wrong with the cells of the first row in which they cannot be told apart.
    #[serde(skip)]
    broken_cells: Option<Box<str>>,
    /// Odd values in the other rows.
    quality: Vec<Finding>,
    /// Its name for people.
    #[serde(skip)]
    pub(crate) name: String,
    /// Which of its rows a run would take, in words, if not all.
    #[serde(skip)]
    pub(crate) part: Option<String>,
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
            part: settings.selection.words(),
            ..Self::default()
        }
    }
}

impl FirstPass {
    /// Counts the rows of an input.
    ///
    /// # Errors
    /// The input or the ledger cannot be read to its end.
    fn part(&mut self, reader: Reader, opened: &Opened, file: &mut CountedFile) -> Result<()> {
        file.mapping.clone_from(&opened.mapping);
        for batch in read_ahead(reader)? {
            self.count(file, batch?)?;
        }
        Ok(())
    }

    /// Counts some rows of an input.
    ///
    /// # Errors
    /// The ledger cannot be read.
    fn count(&mut self, file: &mut CountedFile, mut batch: RowBatch) -> Result<()> {
        look_up(&mut self.lookup, &mut batch.rows)?;
        file.quality.extend(batch.quality);
        let (counts, result) = (&mut file.counts, &mut self.result);
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
            if self.show > 0 {
                self.show -= 1;
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
            match found.known {
                Some(KnownResult::Answer(_)) => counts.known += 1,
                Some(KnownResult::Failure(_)) => counts.failed_before += 1,
                None if self.calls.contains(&key.fingerprint()) => result.duplicates += 1,
                None => {
                    result.calls += 1;
                    result.new_calls += u64::from(found.old.is_none());
                    if self.calls.len() < MOST_DISTINCT {
                        self.calls.insert(key.fingerprint());
                    } else {
                        result.calls_at_most = true;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Which ledger it is, and which run continues, where people should see it.
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
    /// The counts in words: `2,700 rows: 193 calls to make (about 0.77 EUR)`, then the rows that need no call or are special.
    /// `left` is the number of calls that the budgets leave.
    pub(crate) fn parts(
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

    /// What is odd about each input's rows, in words.
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
