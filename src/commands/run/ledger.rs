//! The ledger of a run: which one it is, open before the run starts, while its rows run, and its end, which has two steps:
//! one before the summary, and the run's last act.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::base::error::{Error, Result};
use crate::base::text::display;
use crate::commands::files::{LockWait, full_disk};
use crate::ledger::{
    CallLimit, LedgerAccount, LedgerSettings, Lookup, OpenLedger, OutputLock, OutputState,
    ReadAnswer, Reuse, RunEnd, RunningLedger,
};
use crate::observe::LedgerLeft;
use crate::output::{DurableFile, Replace, partial_of};
use crate::raw_json::Pointer;
use crate::service::{Account, ApiKeys, read_kept};
use crate::telemetry::counts::Counts;
use crate::telemetry::event::{CancelReason, InputEnd};

/// Reads these fields of answers in the ledger, unless an answer contains one of these keys.
pub(super) fn reading(captured: &[Pointer], keys: ApiKeys) -> ReadAnswer {
    let columns = captured.to_vec();
    Arc::new(move |body| read_kept(body, &columns, &keys))
}

/// The account that paid for the answers.
pub(super) fn ledger_account(account: &Account) -> LedgerAccount {
    LedgerAccount {
        endpoint: account.endpoint.clone(),
        service_id: account.service_id.clone(),
    }
}

/// Takes the lock of an output, so that no other run writes it.
///
/// # Errors
/// Exit code 75: another run does. Exit code 2 or 3: the lock's file cannot be made.
pub(super) fn lock_output(output: Option<&Path>, wait: &LockWait) -> Result<Option<OutputLock>> {
    let take = || output.map(OutputLock::take).transpose().map_err(full_disk);
    wait.until_free(take)
}

/// The ledger before the run starts: open, while nothing in it has changed.
pub(super) struct PreparedLedger {
    pub(super) open: OpenLedger,
    reuse: Reuse,
    /// The answers are the stand-in's, which cost nothing.
    sandbox: bool,
}

impl PreparedLedger {
    /// Opens the ledger for a run of this account.
    ///
    /// # Errors
    /// Exit code 75: another program uses the ledger. Exit code 2: it cannot be used or made. Exit code 3: the disk is full.
    pub(super) fn open(settings: &LedgerSettings, sandbox: bool, wait: &LockWait) -> Result<Self> {
        let opened = wait.until_free(|| OpenLedger::open(settings));
        Ok(Self {
            open: opened.map_err(full_disk)?,
            reuse: settings.reuse,
            sandbox,
        })
    }

    /// What may be replaced at a file's path without `--overwrite`: only what the run over this input left there, if this run
    /// continues it. `input` is `None` for a stream.
    ///
    /// # Errors
    /// Exit code 2: there is a file that is not what that run left, or the ledger cannot be read.
    pub(super) fn replaceable(&mut self, file: &Path, input: Option<&Path>) -> Result<Replace> {
        let facts = &self.open.facts;
        let run = &facts.run;
        let run = match run.previous {
            Some(RunEnd::Stopped) if run.continues => "unfinished",
            Some(RunEnd::Stopped) if run.same_input && !file.exists() => {
                return Ok(Replace::Partial);
            }
            // Only with the same account and the same file are the failed rows the ones that are retried.
            Some(RunEnd::Finished { .. })
                if self.reuse == Reuse::Retry
                    && facts.other_accounts.is_empty()
                    && input.is_some() =>
            {
                "finished"
            }
            Some(RunEnd::Finished { failed }) if self.reuse != Reuse::Retry && file.exists() => {
                return Err(self.finished(file, failed));
            }
            // In a directory a run over some of the files may be finished while another one was stopped.
            Some(RunEnd::Finished { .. }) if !file.exists() => return Ok(Replace::Partial),
            _ => return Ok(Replace::Nothing),
        };
        let shown = file.display();
        let why = match self.open.output_state(file, input)? {
            OutputState::Absent => return Ok(Replace::Partial),
            OutputState::AsLeft => return Ok(Replace::Whole),
            OutputState::OfOtherInput => {
                format!("`{shown}` was written by a run with another input")
            }
            // It is named before the end of the run is recorded, for which a full disk may have no space.
            OutputState::Changed if run == "unfinished" && !partial_of(file).exists() => {
                format!(
                    "`{shown}` is not as the unfinished run left it, or that run completed it and could not record so in the ledger"
                )
            }
            OutputState::Changed => format!("`{shown}` is not as the {run} run left it"),
        };
        Err(Error::usage(why).hint(
            "move it away, or replace it with `--overwrite`: paid answers are not paid for again",
        ))
    }

    /// Whether answers that it lacks may be paid for a second time without the user's knowing it: with `--fresh` they ask for
    /// that, and nothing is paid for in the sandbox.
    pub(super) fn pays_again_by_mistake(&self) -> bool {
        !self.sandbox && self.reuse != Reuse::Nothing
    }

    /// How many calls these limits leave; `None` if there are none.
    pub(super) fn calls_left(&self, limits: &[CallLimit]) -> Option<u64> {
        let spending = &self.open.facts.run.spending;
        limits.iter().map(|limit| limit.left(spending)).min()
    }

    /// The refusal to replace the output of a finished run.
    fn finished(&self, file: &Path, failed: u64) -> Error {
        let paid = if self.sandbox { "scored" } else { "paid for" };
        let error = Error::usage(format!(
            "`{}` already exists: an earlier run finished it, and its rows are {paid}",
            file.display()
        ));
        let error = match (self.reuse, failed) {
            // `--retry-failed` goes with neither `--fresh` nor `--max-age`.
            (Reuse::All, 1..) => error.detail(format!(
                "rows without a verdict: {failed}; `--retry-failed` asks again for those"
            )),
            _ => error,
        };
        error.hint(match self.reuse {
            Reuse::Nothing => "`--overwrite` replaces it, and asks again about every row",
            _ => "`--overwrite` replaces it, and makes calls only for rows whose answer is not in the ledger or too old",
        })
    }

    /// The sentence about its answers when the run is ended at once.
    pub(super) fn last_words(&self) -> String {
        format!(
            "`{}` has the {}answers that reached the disk; the same command continues from there",
            display(&self.open.facts.place),
            if self.sandbox { "" } else { "paid " },
        )
    }
}

/// Looks rows up in the ledger; without one, in none.
///
/// # Errors
/// It cannot be read.
pub(super) fn look_up_in_run(ledger: Option<&PreparedLedger>) -> Result<Lookup> {
    ledger.map_or_else(|| Ok(Lookup::nowhere()), |ledger| ledger.open.lookup())
}

/// How long closing the ledger may take when a service manager waits: all that ends a run takes less than 30 s together.
const LAST_COMMIT: Duration = Duration::from_millis(1_500);
/// How long it may take otherwise: a large log is merged into the database first. Ctrl-C stops it.
const CLOSING: Duration = Duration::from_secs(60);

/// What records how the run over this input is about to leave its files, if it has a ledger.
pub(super) fn recorder(
    ledger: Option<&RunningLedger>,
    input: Option<PathBuf>,
) -> impl Fn(&[DurableFile]) + use<> {
    let record = ledger.map(RunningLedger::recorder);
    move |files| {
        let Some(record) = &record else {
            return;
        };
        // They keep these names if another program has put a file at their path.
        let partial = |(path, state): &DurableFile| (partial_of(path), state.clone());
        let files: Vec<_> = files
            .iter()
            .cloned()
            .chain(files.iter().map(partial))
            .collect();
        record(&files, input.as_deref());
    }
}

/// What ended the run early, with the way out. Without a ledger, and to a stream, the run is not remembered.
pub(super) fn explain(error: Error, is_remembered: bool, counts: &Counts) -> Error {
    match counts.cancelled {
        Some(CancelReason::MaxCalls | CancelReason::MaxCost) => error.or_hint(if is_remembered {
            "the budget is for all starts of the run: the same command with a higher one, or without it, continues"
        } else {
            "without a ledger, and to standard output, each start writes all rows and has the whole budget"
        }),
        _ => full_disk(error),
    }
}

/// Waits until everything in the ledger is durable, once its writer is gone. Returns its state.
pub(super) fn close(ledger: &RunningLedger, counts: &Counts) -> LedgerLeft {
    ledger.wait_until_stored(patience(counts));
    let path = ledger.path().to_owned();
    if ledger.is_gone() {
        LedgerLeft::Gone
    } else if counts.cancelled == Some(CancelReason::Ledger) && ledger.is_damaged() {
        LedgerLeft::Damaged(path)
    } else {
        LedgerLeft::Kept(path)
    }
}

/// What to record of how a run has ended.
pub(super) fn run_end(counts: &Counts) -> RunEnd {
    let is_part = counts.state.input_end == Some(InputEnd::Part);
    let unended = [counts.cancelled, counts.limited, counts.state.file_failed];
    if is_part || unended.iter().any(Option::is_some) {
        return RunEnd::Stopped;
    }
    RunEnd::Finished {
        failed: counts.failed.rows + counts.state.skipped_with_rejects,
    }
}

/// How long closing the ledger may take.
pub(super) const fn patience(counts: &Counts) -> Duration {
    if counts.state.terminated {
        LAST_COMMIT
    } else {
        CLOSING
    }
}
