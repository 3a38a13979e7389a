//! The first pass over the inputs of a run: how many rows there are, what is paid for already, which calls are to be made, and
//! whether the files are as they must be, before anything is paid. `check` prints it, and `run` says it before its first call.
//! Nothing is sent or written here.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use foldhash::fast::RandomState;
use serde::Serialize;

use super::inputs::{open_users, read_ahead};
use crate::analysis::CountedRows;
use crate::base::error::{Error, Result};
use crate::base::numbers::Tolerance;
use crate::base::text::shown;
use crate::config::InputLimits;
use crate::fields::{Finding, Noticed};
use crate::input::{Opened, Reader, ReaderSettings};
use crate::layout::ID_COLUMN;
use crate::ledger::{KnownOutcome, Lookup};
use crate::observe::{count, counted};
use crate::row::RowNumber;
use crate::row_state::{Row, RowBatch, RowState, earlier_verdict, look_up};
use crate::sandbox::ID_PREFIX;
use crate::service::Plan;
use crate::telemetry::event::PassedOver;
use crate::verdict::{Reason, most_frequent};

/// How many requests are told apart, in at most 64 MiB while the table grows. What comes after that is counted as a call, also
/// where it repeats an earlier row.
const MOST_DISTINCT: usize = if cfg!(test) { 1_000 } else { 3_600_000 };

/// A pass over one input after the other.
pub(super) struct FirstPass {
    lookup: Lookup,
    /// The fingerprints of the requests that would be sent. Two of ten million share one with a chance below one in 300,000, and
    /// the count would then be too low by one call.
    calls: HashSet<i64, RandomState>,
    /// How many more requests are to be shown.
    show: u64,
    /// What was counted so far.
    pub(super) result: FirstCount,
}

/// A request as a run would send it.
#[derive(Debug, Serialize)]
pub(super) struct ShownRequest {
    pub(super) row: RowNumber,
    pub(super) body: String,
}

/// What a run would do with the rows of all its inputs.
#[derive(Debug, Default, Serialize)]
pub(super) struct FirstCount {
    /// The inputs; there is at least one.
    pub(super) files: Vec<CountedFile>,
    /// The rows of all of them.
    #[serde(flatten)]
    pub(super) total: PassCounts,
    /// Rows that repeat an earlier one.
    pub(super) duplicates: u64,
    /// Calls without retries.
    pub(super) calls: u64,
    /// Of these, calls for requests without any answer.
    #[serde(skip)]
    pub(super) new_calls: u64,
    /// There may be fewer calls: the rows were too many to find all that repeat one.
    pub(super) calls_at_most: bool,
    pub(super) ledger_answers_damaged: u64,
    pub(super) ledger_answers_too_old: u64,
    /// The first requests, if the user wants to see them.
    pub(super) requests: Vec<ShownRequest>,
}

/// An input, and what was counted in it.
#[derive(Debug, Default, Serialize)]
pub(super) struct CountedFile {
    /// Its path; `None` is standard input.
    input: Option<String>,
    /// Why it cannot be used, or not to its end.
    pub(super) error: Option<String>,
    /// Its output is there: a run skips it, and it was not read.
    pub(super) finished: bool,
    /// Which column is which field, as one line.
    pub(super) mapping: String,
    #[serde(flatten)]
    pub(super) counts: PassCounts,
    /// Rows that cannot be sent.
    pub(super) unsendable: BTreeMap<Reason, CountedRows>,
    /// What is odd about the values of the others.
    quality: Vec<Finding>,
    /// Its name for people.
    #[serde(skip)]
    pub(super) name: String,
    /// Which of its rows a run would take, in words, if not all.
    #[serde(skip)]
    pub(super) part: Option<String>,
}

/// The rows of an input, or of all inputs.
#[derive(Debug, Default, Clone, Copy, Serialize)]
pub(super) struct PassCounts {
    pub(super) rows: PassedRows,
    /// Rows whose answer is paid for.
    pub(super) known: u64,
    /// Rows that have failed although their call was or may have been billed, and would not be sent again.
    pub(super) failed_before: u64,
    /// Rows that were asked for before, and are to be asked for again.
    #[serde(skip)]
    pub(super) again: u64,
    /// Rows that have a verdict of an earlier run, which is not made up.
    #[serde(skip)]
    pub(super) verdicts: u64,
}

/// How many rows there are, and how many of them can be sent.
#[derive(Debug, Default, Clone, Copy, Serialize)]
pub(super) struct PassedRows {
    pub(super) read: u64,
    pub(super) sendable: u64,
    pub(super) unsendable: u64,
    /// Rows that are not to be sent.
    pub(super) passed: u64,
    #[serde(flatten)]
    pub(super) noticed: Noticed,
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
        self.verdicts += file.verdicts;
    }

    /// Whether the ledger has something about one of them, however old.
    pub(super) const fn any_in_ledger(&self) -> bool {
        self.known + self.failed_before + self.again > 0
    }

    /// Rows that nobody was asked about.
    const fn unknown(&self) -> u64 {
        self.rows.sendable - self.known - self.failed_before - self.again
    }
}

impl CountedFile {
    /// An input that was not read yet.
    pub(super) fn of(settings: &ReaderSettings) -> Self {
        let input = &settings.file.input;
        Self {
            name: input.shown(),
            input: { input.path() }.map(|path| path.to_string_lossy().into_owned()),
            part: settings.selection.words(),
            ..Self::default()
        }
    }
}

impl FirstPass {
    /// A pass that looks rows up here, and shows this number of requests.
    pub(super) fn new(lookup: Lookup, show: u64) -> Self {
        Self {
            lookup,
            show,
            calls: HashSet::default(),
            result: FirstCount::default(),
        }
    }

    /// Counts the rows of an input.
    ///
    /// # Errors
    /// The input or the ledger cannot be read to its end.
    pub(super) fn part(
        &mut self,
        reader: Reader,
        opened: &Opened,
        file: &mut CountedFile,
    ) -> Result<()> {
        file.mapping.clone_from(&opened.mapping);
        for batch in read_ahead(reader)? {
            self.count(opened, file, batch?)?;
        }
        Ok(())
    }

    /// Adds an input that was counted, or could not be.
    pub(super) fn add(&mut self, file: CountedFile) {
        self.result.total.add(&file.counts);
        self.result.files.push(file);
    }

    /// Counts some rows of an input.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(super) fn count(
        &mut self,
        opened: &Opened,
        file: &mut CountedFile,
        mut batch: RowBatch,
    ) -> Result<()> {
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
            counts.verdicts += u64::from(!opened.replaced.is_empty() && has_verdict(row, opened));
            match found.passed_over {
                Some(PassedOver::Damaged) => result.ledger_answers_damaged += 1,
                Some(PassedOver::TooOld) => result.ledger_answers_too_old += 1,
                Some(PassedOver::Failed) | None => {}
            }
            counts.again += u64::from(found.passed_over.is_some());
            match found.known {
                Some(KnownOutcome::Answer(_)) => counts.known += 1,
                Some(KnownOutcome::Failure(_)) => counts.failed_before += 1,
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

/// Whether a row has a verdict of an earlier run. Nobody has paid for a rehearsal.
fn has_verdict(row: &Row, opened: &Opened) -> bool {
    let id = opened
        .layout
        .value(row.raw.slice(row.raw.value_of(ID_COLUMN)));
    !id.starts_with(ID_PREFIX) && earlier_verdict(&row.raw, &opened.layout).0.is_some()
}

impl FirstCount {
    /// What is odd about the values of each input's rows, in words.
    pub(super) fn oddities(&self) -> impl Iterator<Item = String> {
        self.files.iter().flat_map(|file| {
            let words = file.quality.iter().map(|found| &found.words);
            words.map(|words| format!("{}: {words}", file.name))
        })
    }

    /// Fails unless the inputs are as the user says that they must be: a broken export must neither be scored in part nor replace
    /// yesterday's output. `output` is what would be replaced, with its number of rows; `is_first` says that nothing was ever
    /// paid for.
    ///
    /// # Errors
    /// Exit code 2: they are not.
    pub(super) fn refuse_broken(
        &self,
        limits: InputLimits,
        output: Option<(&Path, u64)>,
        is_first: bool,
    ) -> Result<()> {
        let rows = self.total.rows;
        let (name, have) = match &*self.files {
            [only] => (format!("`{}`", only.name), "has"),
            files => (format!("the {} inputs", files.len()), "have"),
        };
        // A share is of the rows that would be sent.
        let chosen = rows.read - rows.passed;
        let (read, of_them) = (counted(rows.read, "row"), counted(chosen, "row"));
        let exceeded = |most: &Tolerance, number| !most.covers(number, chosen);
        let complete = "check that the export is complete, or lower `--min-rows`";
        let invalid = limits
            .max_invalid
            .filter(|most| exceeded(most, rows.unsendable));
        let new =
            { limits.max_new }.filter(|most| !is_first && exceeded(most, self.total.unknown()));
        let error = if let Some(most) = invalid {
            let mut reasons = BTreeMap::new();
            for (reason, counted) in self.files.iter().flat_map(|file| &file.unsendable) {
                *reasons.entry(*reason).or_default() += counted.rows;
            }
            let invalid = count(rows.unsendable);
            Error::usage(format!("{invalid} of the {of_them} of {name} cannot be sent, more than `--max-invalid {most}` allows"))
                .detail(format!("most frequent: {}", most_frequent(&reasons)))
                .hint("`rescore check` names these rows; `--max-invalid` sets how many are allowed")
        } else if let Some(error) = too_few(limits.min_rows, rows.read, output) {
            Error::usage(format!("{name} {have} {read}, {error}")).hint(match limits.min_rows {
                None => {
                    "check that the export is complete; `--min-rows 0` says that it may be empty"
                }
                Some(_) => complete,
            })
        } else if let Some(most) = new {
            let new = count(self.total.unknown());
            Error::usage(format!("{new} of the {of_them} of {name} are new to the ledger, more than `--max-new {most}` allows"))
                .hint("check that no column has gone or changed its form; `rescore check --show 3` prints what would be sent")
        } else {
            return Ok(());
        };
        Err(error.detail("nothing was sent"))
    }
}

/// Why these are too few rows for a run that would replace this output with its number of rows.
fn too_few(least: Option<Tolerance>, rows: u64, output: Option<(&Path, u64)>) -> Option<String> {
    let of_output = |(path, old): (&Path, u64)| format!("the {} in `{}`", count(old), shown(path));
    match (least, output) {
        (Some(Tolerance::Rows(least)), _) => {
            (rows < least).then(|| format!("fewer than `--min-rows {least}`"))
        }
        (Some(Tolerance::Percent(least)), Some(output)) => {
            let may_lack = Tolerance::Percent(100.0 - least);
            let is_enough = may_lack.covers(output.1.saturating_sub(rows), output.1);
            (!is_enough).then(|| format!("fewer than {least}% of {}", of_output(output)))
        }
        (None, Some(output)) if rows == 0 && output.1 > 0 => {
            Some(format!("and would replace {}", of_output(output)))
        }
        _ => None,
    }
}

/// How many rows a file has that is read in this way, whichever of them would be sent; none if it cannot be read so.
pub(super) fn rows_of(path: &Path, reading: &ReaderSettings, plan: Plan) -> u64 {
    let Ok((mut reader, _)) = open_users(&reading.all_rows_of(path), plan) else {
        return 0;
    };
    let batches = std::iter::from_fn(|| reader.next_batch().ok().flatten());
    batches.map(|batch| batch.rows.len() as u64).sum()
}
