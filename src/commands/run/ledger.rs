//! The run's ledger: which one it is, open before the run starts, while its rows run, and its end.
//!
//! The end has two steps: what the summary must know, and the run's last act.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::super::files::UnfinishedFiles;
use super::super::lock_wait::LockWait;
use super::super::lookup::LookupStage;
use super::disk_space;
use crate::base::error::{Error, Result, shown};
use crate::config::LedgerConfig;
use crate::ledger::{
    LedgerAccount, LedgerFacts, LedgerLocation, LedgerSettings, LedgerWriter, OpenLedger,
    OutputLock, OutputState, Reuse, RunEnd, RunningLedger, ServerWait, lock_of,
};
use crate::observe::{KeptLedger, LedgerLeft, counted};
use crate::output::{Replace, Sealed, partial_of};
use crate::raw_json::Pointer;
use crate::service::{Account, read_kept};
use crate::telemetry::event::CancelReason;
use crate::telemetry::stats::Stats;

/// Which answers are stored and used, once the output is known.
pub(super) struct LedgerPlan {
    location: LedgerLocation,
    reuse: Reuse,
    /// The output that no other run may write; `None` for a stream.
    output: Option<PathBuf>,
    /// Its lock, once it is taken.
    lock: Option<OutputLock>,
}

/// How many calls there can be at a time, and how long each can take.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallShape {
    pub(super) in_flight: NonZeroUsize,
    pub(super) longest: Duration,
    /// How long the run waits for whatever is away.
    pub(super) outage: Duration,
}

impl LedgerPlan {
    /// Finds the ledger of a run that writes to this file or directory, in this folder: the folder's, unless another one is
    /// named.
    pub(super) fn new(
        config: &LedgerConfig,
        (folder, output): (&Path, Option<&Path>),
        sandbox: bool,
    ) -> Self {
        Self {
            location: config.location(folder, sandbox),
            reuse: config.reuse,
            output: output.map(Path::to_owned),
            lock: None,
        }
    }

    /// Where answers are stored, for people.
    pub(super) fn shown(&self) -> Option<PathBuf> {
        self.location.path()
    }

    /// The path of the lock of the output.
    pub(super) fn lock_path(&self) -> Option<PathBuf> {
        self.output.as_deref().map(lock_of)
    }

    /// The path of the file that answers are stored in, if it is a file.
    pub(super) fn file(&self) -> Option<PathBuf> {
        match &self.location {
            LedgerLocation::File(path) => Some(path.clone()),
            LedgerLocation::Server(_) | LedgerLocation::Temporary => None,
        }
    }

    /// Takes the output's lock before the input is opened, if the run may wait for it: all that follows then finds what the
    /// other run has left. A run that does not wait takes it later, so that it blocks no other run while it waits for its
    /// input.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub(super) fn lock_early(&mut self, wait: &LockWait<'_>) -> Result<()> {
        if wait.may_wait() {
            wait.until_free(|| self.lock())?;
        }
        Ok(())
    }

    fn lock(&mut self) -> Result<()> {
        if let (None, Some(output)) = (&self.lock, &self.output) {
            let lock = OutputLock::take(output).map_err(disk_space::at_the_start)?;
            self.lock = Some(lock);
        }
        Ok(())
    }

    /// Opens the ledger for a run of this account from `input` to `output`, which writes these further fields of answers.
    ///
    /// # Errors
    /// Exit code 75: another run writes the output, or another program uses the ledger. Exit code 2: the ledger cannot be used
    /// or made. Exit code 3: the disk is full.
    pub(super) fn open(
        mut self,
        account: Account,
        (input, output): (Option<&Path>, Option<&Path>),
        captured: &[Pointer],
        calls: CallShape,
        wait: &LockWait<'_>,
    ) -> Result<PreparedLedger> {
        wait.until_free(|| self.lock())?;
        let columns = captured.to_vec();
        let is_temporary = self.location.path().is_none();
        let settings = LedgerSettings {
            location: self.location,
            reuse: self.reuse,
            output: output.map(Path::to_owned),
            input: input.map(Path::to_owned),
            account: Some(LedgerAccount {
                endpoint: account.endpoint,
                service_id: account.service_id,
            }),
            read: Arc::new(move |body| read_kept(body, &columns)),
            in_flight: calls.in_flight,
            longest_call: calls.longest,
            wait: ServerWait::new(calls.outage),
        };
        let opened = wait.until_free(|| OpenLedger::open(&settings));
        let (ledger, facts) = opened.map_err(|error| {
            if is_temporary {
                disk_space::in_temporary(error)
            } else {
                disk_space::at_the_start(error)
            }
        })?;
        Ok(PreparedLedger {
            ledger,
            facts,
            reuse: self.reuse,
            sandbox: account.sandbox,
            server_wait: settings.wait,
            lock: self.lock,
        })
    }
}

/// The ledger before the run starts: open, while nothing in it has changed.
pub(super) struct PreparedLedger {
    ledger: OpenLedger,
    /// What was learned of it when it was opened.
    pub(super) facts: LedgerFacts,
    /// Which answers are used.
    pub(super) reuse: Reuse,
    /// The answers are the stand-in's, which cost nothing.
    sandbox: bool,
    /// Says whether a ledger's server is waited for.
    pub(super) server_wait: ServerWait,
    /// Held as long as the run lasts; `None` where rows go to a stream.
    lock: Option<OutputLock>,
}

impl PreparedLedger {
    /// What may be replaced at a file's path without `--overwrite`: what the run over this input left there that this one
    /// continues; `None` is an input without a path.
    ///
    /// # Errors
    /// Exit code 2: there is a file that is not what that run left, or the ledger cannot be read.
    pub(super) fn replaceable(&mut self, file: &Path, input: Option<&Path>) -> Result<Replace> {
        let run = match self.facts.run.previous {
            Some(RunEnd::Stopped) if self.facts.run.continues => "unfinished",
            // It has other settings, and its rows are in the ledger.
            Some(RunEnd::Stopped) if self.facts.run.same_input && file.exists() => {
                return Err(Error::usage(format!("`{}` already exists", file.display()))
                    .detail("the unfinished run had another `--fresh`, `--max-age` or `--retry-failed`")
                    .hint("continue it with its own options, or give `--overwrite`: its answers count like all others in the ledger"));
            }
            Some(RunEnd::Stopped) if self.facts.run.same_input => return Ok(Replace::Partial),
            // Failed rows are asked about again, and not all of them at another address.
            Some(RunEnd::Finished { .. })
                if self.reuse == Reuse::Retry && self.facts.other_accounts.is_empty() =>
            {
                "finished"
            }
            Some(RunEnd::Finished { failed }) if self.reuse != Reuse::Retry && file.exists() => {
                return Err(finished(file, failed, self.reuse, self.sandbox));
            }
            _ => return Ok(Replace::Nothing),
        };
        let (state, partial) = (self.output_state(file, input)?, partial_of(file));
        let shown = file.display();
        let why = match state {
            OutputState::Absent => return Ok(Replace::Partial),
            OutputState::AsLeft => return Ok(Replace::Whole),
            OutputState::Changed if self.output_state(&partial, input)? == OutputState::AsLeft => {
                format!(
                    "`{shown}` appeared during the {run} run, whose complete file is `{}`",
                    partial.display()
                )
            }
            OutputState::OfOtherInput => {
                format!("`{shown}` was written by a run with another input")
            }
            OutputState::Changed => format!("`{shown}` is not as the {run} run left it"),
        };
        Err(Error::usage(why).hint(
            "move it away, or replace it with `--overwrite`: what is paid for is not paid for again",
        ))
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

    /// What may be replaced of one of several outputs that has not got its name yet.
    pub(super) fn replaceable_partials(&self) -> Replace {
        if self.facts.run.previous == Some(RunEnd::Stopped) {
            Replace::Partial
        } else {
            Replace::Nothing
        }
    }

    /// The ledger of a run in which no rows run: it stays as it is.
    pub(super) fn without_a_run(self) -> RunLedger {
        RunLedger {
            ledger: None,
            lock: self.lock,
        }
    }

    /// Whether rows are written without a call, as their answers are in the ledger.
    pub(super) const fn uses_earlier_answers(&self) -> bool {
        self.facts.usable > 0
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

/// The refusal to replace what a finished run left.
fn finished(file: &Path, failed: u64, reuse: Reuse, sandbox: bool) -> Error {
    let paid = if sandbox { "scored" } else { "paid for" };
    let error = Error::usage(format!(
        "`{}` already exists: an earlier run finished it, and its rows are {paid}",
        file.display()
    ));
    let calls_for = match reuse {
        Reuse::Nothing => "asks again about every row",
        Reuse::Recent(_) => "makes calls only for rows without a recent answer in the ledger",
        Reuse::All | Reuse::Retry => "makes calls only for what is not in the ledger",
    };
    // `--retry-failed` goes with neither `--fresh` nor `--max-age`.
    if failed == 0 || reuse != Reuse::All {
        return error.hint(format!("`--overwrite` replaces it, and {calls_for}"));
    }
    error
        .detail(format!(
            "{} no verdict: `--retry-failed` asks again for those, and keeps all others",
            match failed {
                1 => "1 row has".to_owned(),
                failed => format!("{} have", counted(failed, "row")),
            }
        ))
        .hint("add `--retry-failed`, or `--overwrite`, which asks again only for rows that cannot have been billed")
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
    pub(super) fn explain(&self, error: Error, stats: &Stats) -> Error {
        let is_temporary = { self.ledger.as_ref() }.is_some_and(|ledger| ledger.path().is_none());
        match stats.cancelled {
            Some(CancelReason::Ledger) if is_temporary => disk_space::in_temporary(error),
            Some(CancelReason::MaxCalls | CancelReason::MaxCost) if is_temporary => error
                .hint("another run needs a higher limit and starts over, as there is no ledger"),
            // No run is remembered of rows to a stream.
            Some(CancelReason::MaxCalls | CancelReason::MaxCost) if self.lock.is_none() => error
                .hint("to standard output each start writes all rows and has the whole budget: the same command makes calls only for rows that are not paid for"),
            _ => disk_space::at_the_end(error),
        }
    }

    /// What to record of how a run has ended.
    pub(super) fn end(stats: &Stats, beside: UnfinishedFiles) -> RunEnd {
        if beside.any_partial || !stats.has_all_usable_rows() || stats.file_failed.is_some() {
            return RunEnd::Stopped;
        }
        RunEnd::Finished {
            failed: stats.failures() + stats.skipped_with_rejects + beside.rejects,
        }
    }

    /// Has everything in the ledger be durable, after its writer has gone; what is left of it.
    pub(super) fn settle(&self, stats: &Stats) -> LedgerLeft {
        let Some(ledger) = &self.ledger else {
            return LedgerLeft::Nothing;
        };
        ledger.settle(patience(stats));
        let damaged = stats.cancelled == Some(CancelReason::Ledger) && ledger.is_damaged();
        match ledger.path() {
            None => LedgerLeft::Nothing,
            Some(_) if ledger.is_gone() => LedgerLeft::Gone,
            Some(path) => LedgerLeft::Kept(KeptLedger {
                path: path.to_owned(),
                damaged,
            }),
        }
    }

    /// Makes the run finished, once all its files are written: the last act. The same command continues a run that is killed
    /// before, and makes no call for a row that has its verdict.
    pub(super) fn finish(self, stats: &Stats) {
        let Self {
            ledger,
            lock: _lock,
        } = self;
        if let Some(ledger) = ledger {
            ledger.finish(patience(stats));
        }
    }
}

/// How long closing the ledger may take.
const fn patience(stats: &Stats) -> Duration {
    if stats.terminated {
        LAST_COMMIT
    } else {
        CLOSING
    }
}
