//! The ledger of a run: which one it is, open before the run starts, while its rows run, and its end, which has two steps:
//! what the summary must know, and the run's last act. It also has the words for a disk that is full.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::super::lock_wait::LockWait;
use super::super::lookup::LookupStage;
use crate::base::error::{Error, Result, shown};
use crate::base::own_file::directory_of;
use crate::ledger::{
    LedgerAccount, LedgerFacts, LedgerLocation, LedgerSettings, LedgerWriter, OpenLedger,
    OutputLock, OutputState, ReadAnswer, Reuse, RunEnd, RunningLedger, ServerWait,
};
use crate::observe::LedgerLeft;
use crate::output::{Replace, Sealed, partial_of};
use crate::raw_json::Pointer;
use crate::service::{Account, ApiKeys, read_kept};
use crate::telemetry::counts::Counts;
use crate::telemetry::event::CancelReason;

/// Reads answers in the ledger with these fields, unless one of these keys is in what is read.
pub(super) fn reading(captured: &[Pointer], keys: ApiKeys) -> ReadAnswer {
    let columns = captured.to_vec();
    Arc::new(move |body| read_kept(body, &columns, &keys))
}

/// Whose answers these are.
pub(in crate::commands) fn ledger_account(account: &Account) -> LedgerAccount {
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
    ledger: OpenLedger,
    /// What was learned of it when it was opened.
    pub(super) facts: LedgerFacts,
    reuse: Reuse,
    /// The answers are the stand-in's, which cost nothing.
    sandbox: bool,
    /// Says whether a ledger's server is waited for.
    pub(super) server_wait: ServerWait,
    /// Held as long as the run lasts; `None` where rows go to a stream.
    lock: Option<OutputLock>,
}

impl PreparedLedger {
    /// Opens the ledger for a run of this account.
    ///
    /// # Errors
    /// Exit code 75: another program uses the ledger. Exit code 2: it cannot be used or made. Exit code 3: the disk is full.
    pub(super) fn open(
        mut settings: LedgerSettings,
        account: &Account,
        lock: Option<OutputLock>,
        wait: &LockWait,
    ) -> Result<Self> {
        settings.account = Some(ledger_account(account));
        let opened = wait.until_free(|| OpenLedger::open(&settings));
        let (ledger, facts) = opened.map_err(|error| match settings.location {
            LedgerLocation::Temporary => in_temporary(error),
            _ => full_disk(error),
        })?;
        Ok(Self {
            ledger,
            facts,
            reuse: settings.reuse,
            sandbox: account.sandbox,
            server_wait: settings.wait,
            lock,
        })
    }

    /// What may be replaced at a file's path without `--overwrite`: what the run over this input left there that this one
    /// continues; `None` is an input without a path.
    ///
    /// # Errors
    /// Exit code 2: there is a file that is not what that run left, or the ledger cannot be read.
    pub(super) fn replaceable(&mut self, file: &Path, input: Option<&Path>) -> Result<Replace> {
        let run = &self.facts.run;
        let run = match run.previous {
            Some(RunEnd::Stopped) if run.continues => "unfinished",
            Some(RunEnd::Stopped) if run.same_input && !file.exists() => {
                return Ok(Replace::Partial);
            }
            // Failed rows are asked about again, and not all of them at another address.
            Some(RunEnd::Finished { .. })
                if self.reuse == Reuse::Retry && self.facts.other_accounts.is_empty() =>
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
        let why = match self.output_state(file, input)? {
            OutputState::Absent => return Ok(Replace::Partial),
            OutputState::AsLeft => return Ok(Replace::Whole),
            OutputState::OfOtherInput => {
                format!("`{shown}` was written by a run with another input")
            }
            OutputState::Changed => format!("`{shown}` is not as the {run} run left it"),
        };
        Err(Error::usage(why).hint(
            "move it away, or replace it with `--overwrite`: what is paid for is not paid for again",
        ))
    }

    /// The refusal to replace what a finished run left.
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

    /// How a file relates to the run over this input that this one continues.
    ///
    /// # Errors
    /// Exit code 2: the ledger cannot be read.
    pub(super) fn output_state(
        &mut self,
        file: &Path,
        input: Option<&Path>,
    ) -> Result<OutputState> {
        self.ledger.output_state(file, input)
    }

    /// The ledger of a run in which no rows run: it stays as it is.
    pub(super) fn without_a_run(self) -> RunLedger {
        RunLedger {
            ledger: None,
            lock: self.lock,
        }
    }

    /// What is said of it when the run is ended immediately; `None` where no answers stay.
    pub(super) fn last_words(&self) -> Option<String> {
        let place = self.facts.place.as_deref()?;
        Some(format!(
            "`{}` has the {}answers that reached the disk; the same command continues from there",
            shown(place),
            if self.sandbox { "" } else { "paid " },
        ))
    }

    /// The stage that looks rows up in it.
    ///
    /// # Errors
    /// Exit code 2: it cannot be opened for reading.
    pub(super) fn lookup_stage(&self) -> Result<LookupStage> {
        Ok(LookupStage::new(
            self.ledger.hasher(),
            self.ledger.lookup()?,
        ))
    }

    /// Starts the run and what makes its answers durable.
    ///
    /// # Errors
    /// Exit code 2 or 3: the ledger cannot be written.
    pub(super) fn start(self) -> Result<(RunLedger, LedgerWriter)> {
        let (ledger, writer) = self.ledger.start()?;
        let running = RunLedger {
            ledger: Some(ledger),
            lock: self.lock,
        };
        Ok((running, writer))
    }
}

/// How long closing the ledger may take when a service manager waits: all that ends a run takes less than 30 s together.
const LAST_COMMIT: Duration = Duration::from_millis(1_500);
/// How long it may take otherwise: a large log is merged into the database first. Ctrl-C stops it.
const CLOSING: Duration = Duration::from_secs(60);

/// The ledger of a run that has started, with the lock of its output.
pub(super) struct RunLedger {
    /// `None` where no rows run.
    ledger: Option<RunningLedger>,
    /// Released at the end of the run.
    lock: Option<OutputLock>,
}

impl RunLedger {
    /// What records how the run over this input is about to leave its files.
    pub(super) fn recorder(&self, input: Option<PathBuf>) -> impl Fn(&[Sealed]) + use<> {
        let record = self.ledger.as_ref().map(RunningLedger::recorder);
        move |files| {
            let Some(record) = &record else {
                return;
            };
            // They keep these names if another program has put a file at their path.
            let partials = { files.iter() }.map(|(path, state)| (partial_of(path), state.clone()));
            let files: Vec<_> = files.iter().cloned().chain(partials).collect();
            // If this fails, the same command will refuse to replace them. That is better than failing the run here.
            let _ = record(&files, input.as_deref());
        }
    }

    /// What ended the run early, with the way out.
    pub(super) fn explain(&self, error: Error, counts: &Counts) -> Error {
        let is_temporary = { self.ledger.as_ref() }.is_some_and(|ledger| ledger.path().is_none());
        match counts.cancelled {
            Some(CancelReason::Ledger) if is_temporary => in_temporary(error),
            // No run is remembered of rows to a stream.
            Some(CancelReason::MaxCalls | CancelReason::MaxCost)
                if is_temporary || self.lock.is_none() =>
            {
                error.hint("without a ledger, and to standard output, each start writes all rows and has the whole budget")
            }
            _ => full_disk(error),
        }
    }

    /// Has everything in the ledger be durable, after its writer has gone; what is left of it.
    pub(super) fn settle(&self, counts: &Counts) -> LedgerLeft {
        let Some(ledger) = &self.ledger else {
            return LedgerLeft::Nothing;
        };
        ledger.settle(patience(counts));
        match ledger.path() {
            None => LedgerLeft::Nothing,
            Some(_) if ledger.is_gone() => LedgerLeft::Gone,
            Some(path) if counts.cancelled == Some(CancelReason::Ledger) && ledger.is_damaged() => {
                LedgerLeft::Damaged(path.to_owned())
            }
            Some(path) => LedgerLeft::Kept(path.to_owned()),
        }
    }

    /// Makes the run finished, once all its files are written: the last act. The same command continues a run that is killed
    /// before, and makes no call for a row that has its verdict. The lock of the output is released after it.
    pub(super) fn finish(self, counts: &Counts) {
        if let Some(ledger) = self.ledger {
            ledger.finish(patience(counts));
        }
    }
}

/// What to record of how a run has ended.
pub(super) fn run_end(counts: &Counts) -> RunEnd {
    if !counts.has_all_usable_rows() || counts.file_failed.is_some() {
        return RunEnd::Stopped;
    }
    RunEnd::Finished {
        failed: counts.failures() + counts.skipped_with_rejects,
    }
}

/// How long closing the ledger may take.
const fn patience(counts: &Counts) -> Duration {
    if counts.terminated {
        LAST_COMMIT
    } else {
        CLOSING
    }
}

/// The error of the answers that are kept only for the run, with the directory, which the user did not name.
fn in_temporary(error: Error) -> Error {
    let directory = shown(&std::env::temp_dir());
    let error = error.detail(format!(
        "the run keeps answers in `{directory}` while it lasts"
    ));
    if error.comes_from(ErrorKind::FileTooLarge) {
        return full_disk(error);
    }
    error.hint("free space there, or name another directory with the variable `TMPDIR`")
}

/// An error of a run; where a disk is full, with which disk that is.
pub(super) fn full_disk(error: Error) -> Error {
    if error.comes_from(ErrorKind::FileTooLarge) {
        return error.hint("raise the file size limit (`ulimit -f`)");
    }
    let Some(file) = error.file().filter(|_| error.is_disk_full()) else {
        return error;
    };
    let detail = format!("there is no space left in `{}`", shown(directory_of(file)));
    error
        .detail(detail)
        .or_hint("free space there; then run the same command again")
}
