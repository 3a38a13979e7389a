//! The run's ledger, whichever it is: opened before any file is touched, ended with the run.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::lock_wait::LockWait;
use super::disk_space::{self, HowFar};
use super::lookup::LookupStage;
use super::unfinished_files::UnfinishedFiles;
use crate::base::error::{Error, Exit, Result, shown};
use crate::config::{LedgerChoice, LedgerConfig};
use crate::input::Input;
use crate::ledger::{
    ClosedLedger, EarlierAnswers, FinishedRun, KnownLimit, LackingAnswers, LedgerLocation,
    LedgerSettings, LedgerWriter, OpenLedger, OutputLock, OutputState, PreviousRun, Removal,
    RequestKey, Reuse, RunningLedger,
};
use crate::observe::{KeptLedger, counted, same_command};
use crate::output::{Replace, Sealed};
use crate::raw_json::Pointer;
use crate::service::Account;
use crate::telemetry::event::CancelReason;
use crate::telemetry::stats::Stats;

/// How long closing the ledger may take when a service manager waits: all that ends a run takes less than 30 s together.
const LAST_COMMIT: Duration = Duration::from_millis(1_500);
/// How long it may take otherwise: a large log is merged into the database first. Ctrl-C stops it.
const CLOSING: Duration = Duration::from_secs(60);

/// The answers of earlier runs before this one starts, or nothing where none are stored.
pub(super) struct PreparedLedger {
    ledger: Option<OpenLedger>,
    dedupe: bool,
    /// Which answers are used.
    reuse: Reuse,
    /// The answers are the stand-in's, which cost nothing.
    sandbox: bool,
    /// Held as long as the run lasts, whichever ledger it has; `None` where rows go to a stream.
    lock: Option<OutputLock>,
}

/// The answers of a run that has started, or nothing where none are stored.
pub(super) struct RunLedger {
    ledger: Option<RunningLedger>,
    fresh: bool,
    /// It stayed after a run that finished its files and whose answers are still of use.
    was_left: bool,
    /// Released when the ledger is closed.
    _lock: Option<OutputLock>,
}

/// Which answers are stored and used, once the output is known.
pub(super) struct LedgerPlan {
    /// Where they are; `None` stores none.
    pub(super) location: Option<LedgerLocation>,
    reuse: Reuse,
    dedupe: bool,
    /// The output that no other run may write; `None` for a stream.
    output: Option<PathBuf>,
    /// Its lock, once it is taken.
    lock: Option<OutputLock>,
}

/// What a ledger of the run's own would be beside.
#[derive(Debug, Clone, Copy)]
pub(super) enum LedgerPlace<'a> {
    /// The output is a stream: there is no place.
    Nowhere,
    /// The output, a file.
    BesideFile(&'a Path),
    /// The directory of the outputs.
    BesideDirectory {
        /// The directory.
        directory: &'a Path,
        /// Finished outputs are replaced, too.
        overwrite: bool,
    },
}

impl LedgerPlan {
    /// Finds the location. An output that is a stream has no ledger of its own; to ask equal rows once, answers are then kept
    /// only as long as the run lasts.
    ///
    /// # Errors
    /// Exit code 2: answers that are not kept cannot be used again.
    pub(super) fn new(config: &LedgerConfig, output: LedgerPlace<'_>) -> Result<Self> {
        let LedgerConfig {
            choice,
            reuse,
            dedupe,
        } = config;
        let (reuse, dedupe) = (*reuse, *dedupe);
        let (place, reuse) = match output {
            LedgerPlace::Nowhere => (None, reuse),
            LedgerPlace::BesideFile(file) => (Some(file), reuse),
            LedgerPlace::BesideDirectory {
                directory,
                overwrite,
            } => {
                // Further files continue a finished run that left rows without a verdict: what is paid for stays.
                let continues = reuse == Reuse::All && !overwrite;
                let reuse = if continues { Reuse::Continue } else { reuse };
                (Some(directory), reuse)
            }
        };
        let kept = match (choice, place) {
            (LedgerChoice::Shared(path), _) => Some(LedgerLocation::Shared(path.clone())),
            (LedgerChoice::Own, Some(output)) => Some(LedgerLocation::Beside(output.to_owned())),
            (LedgerChoice::Own, None) | (LedgerChoice::Nowhere, _) => None,
        };
        let option = match reuse {
            Reuse::All | Reuse::Continue => None,
            Reuse::Retry => Some("--retry-failed"),
            Reuse::Nothing => Some("--fresh"),
            Reuse::Younger(_) => Some("--max-age"),
        };
        if let (None, Some(option)) = (&kept, option) {
            return Err(Error::usage(format!(
                "`{option}` needs a ledger, and rows to a stream have none of their own"
            ))
            .hint("name one with `--ledger FILE`"));
        }
        Ok(Self {
            location: kept.or_else(|| dedupe.then_some(LedgerLocation::Scratch)),
            reuse,
            dedupe,
            output: place.map(Path::to_owned),
            lock: None,
        })
    }

    /// Takes the output's lock before the input is opened, if the run may wait for it: all that follows then finds what the
    /// other run has left. A run that does not wait takes it later, so that one that waits for its input is in nobody's
    /// way.
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
            self.lock = Some(OutputLock::take(output)?);
        }
        Ok(())
    }
}

/// The path of an input that is a file, with links followed. The path of a pipe, such as `/dev/fd/63`, is another one each
/// time.
pub(super) fn path_of(input: &Input) -> Option<PathBuf> {
    match input {
        Input::File(path) if path.is_file() => path.canonicalize().ok(),
        Input::File(_) | Input::Stdin => None,
    }
}

impl LedgerPlan {
    /// Opens the ledger for a run of this account to `output`.
    ///
    /// # Errors
    /// Exit code 75: another run writes the output, or uses the ledger. Exit code 2: the ledger cannot be used or made. Exit
    /// code 3: the disk is full.
    pub(super) fn open(
        mut self,
        account: Account,
        output: Option<&Path>,
        captured: &[Pointer],
        in_flight: NonZeroUsize,
        wait: &LockWait<'_>,
    ) -> Result<PreparedLedger> {
        wait.until_free(|| self.lock())?;
        let Self {
            location,
            reuse,
            dedupe,
            output: _,
            lock,
        } = self;
        let Account {
            endpoint,
            service_id,
            sandbox,
        } = account;
        let open = |location| {
            let settings = LedgerSettings {
                location,
                reuse,
                output: output.map(Path::to_owned),
                endpoint,
                service_id,
                captured: captured.to_vec(),
                in_flight,
            };
            // Another program may be rewriting it.
            wait.until_free(|| OpenLedger::open_with(settings.clone(), lock.clone()))
        };
        let scratch = location == Some(LedgerLocation::Scratch);
        let ledger = location.map(open).transpose();
        let ledger = ledger.map_err(|error| {
            if scratch {
                disk_space::in_temporary(error)
            } else {
                disk_space::at_the_start(error)
            }
        })?;
        Ok(PreparedLedger {
            ledger,
            dedupe,
            reuse,
            sandbox,
            lock,
        })
    }
}

impl PreparedLedger {
    /// What may be replaced at a file's path without `--overwrite`: what the run over this input left there that this one
    /// continues; `None` is an input without a path.
    ///
    /// # Errors
    /// Exit code 2: there is a file that is not what that run left, or the ledger cannot be read.
    pub(super) fn replaceable(&self, file: &Path, input: Option<&Path>) -> Result<Replace> {
        let Some(ledger) = self.ledger.as_ref().filter(|ledger| ledger.existed()) else {
            return Ok(Replace::Nothing);
        };
        let is_new =
            matches!(ledger.previous_run(), PreviousRun::Finished { .. }) && !ledger.continues();
        if is_new && file.exists() {
            return Err(finished(file, ledger));
        }
        // Where runs share a ledger, a run to another output may have made it: it says nothing of this file.
        if is_new || (!ledger.is_own() && !ledger.continues()) {
            return Ok(Replace::Nothing);
        }
        let retries = matches!(ledger.previous_run(), PreviousRun::Finished { .. });
        let state = ledger.output_state(file, input)?;
        if !ledger.is_own() && !retries && state != OutputState::AsLeft {
            return Ok(Replace::Partial);
        }
        let shown = file.display();
        let run = if retries { "finished" } else { "unfinished" };
        let why = match state {
            OutputState::Absent => return Ok(Replace::Partial),
            OutputState::AsLeft => return Ok(Replace::Whole),
            OutputState::Changed => format!("`{shown}` has changed since the {run} run left it"),
            OutputState::OfOtherInput => {
                format!("`{shown}` was written by a run with another input")
            }
            OutputState::Foreign => format!("`{shown}` is not from the {run} run"),
        };
        Err(Error::usage(why).hint("move it away, or replace it with `--overwrite`"))
    }

    /// How a file relates to the run over this input that this one continues.
    ///
    /// # Errors
    /// Exit code 2: the ledger cannot be read.
    pub(super) fn output_state(&self, file: &Path, input: Option<&Path>) -> Result<OutputState> {
        match self.ledger.as_ref().filter(|ledger| ledger.existed()) {
            Some(ledger) => ledger.output_state(file, input),
            None => Ok(OutputState::Foreign),
        }
    }

    /// What may be replaced of one of several outputs that has not got its name yet.
    pub(super) fn replaceable_partials(&self) -> Replace {
        let ledger = self.ledger.as_ref().filter(|ledger| ledger.existed());
        let is_ours = |ledger: &OpenLedger| {
            let is_finished = matches!(ledger.previous_run(), PreviousRun::Finished { .. });
            ledger.continues() || (ledger.is_own() && !is_finished)
        };
        if ledger.is_some_and(is_ours) {
            Replace::Partial
        } else {
            Replace::Nothing
        }
    }

    /// The ledger of a run in which no rows run: it stays as it is.
    pub(super) fn without_a_run(self) -> RunLedger {
        RunLedger {
            ledger: None,
            fresh: self.is_fresh(),
            was_left: self.was_left(),
            _lock: self.lock,
        }
    }

    /// Whether it stayed after a run over files of the directory in which every row has a verdict: for rows without a
    /// decision, which are in no file of their own, or because most of its answers were not used.
    pub(super) fn was_left(&self) -> bool {
        let finished = PreviousRun::Finished { failed: 0 };
        self.reuse == Reuse::Continue && self.is_left_over() && { self.ledger.as_ref() }
            .is_some_and(|ledger| ledger.previous_run() == finished)
    }

    /// Whether it is the run's own, and an earlier run left it.
    pub(super) fn is_left_over(&self) -> bool {
        let ledger = self.ledger.as_ref();
        ledger.is_some_and(|ledger| ledger.existed() && ledger.is_own())
    }

    /// Whether the run sends the failed rows of a finished run again.
    pub(super) const fn retries(&self) -> bool {
        matches!(self.reuse, Reuse::Retry)
    }

    /// What the ledger holds of the run that this one continues.
    pub(super) fn earlier_answers(&self) -> Option<EarlierAnswers> {
        self.ledger.as_ref()?.earlier_answers()
    }

    /// What the ledger holds and will lose to this run's first answer.
    pub(super) fn replaced_answers(&self) -> Option<EarlierAnswers> {
        self.ledger.as_ref()?.replaced_answers()
    }

    /// Answers of earlier runs that lack fields which this one needs.
    pub(super) fn lacking_answers(&self) -> Option<&LackingAnswers> {
        self.ledger.as_ref()?.lacking_answers()
    }

    /// How the run before this one ended.
    pub(super) fn previous_run(&self) -> PreviousRun {
        let ledger = self.ledger.as_ref();
        ledger.map_or(PreviousRun::None, OpenLedger::previous_run)
    }

    /// Whether the stand-in answers, which costs nothing.
    pub(super) const fn is_sandbox(&self) -> bool {
        self.sandbox
    }

    /// The limit that an earlier run found.
    pub(super) fn known_limit(&self) -> Option<KnownLimit> {
        self.ledger.as_ref().and_then(OpenLedger::known_limit)
    }

    /// Requests that the service failed on in earlier runs while it answered others.
    pub(super) fn failing_requests(&self) -> HashSet<RequestKey> {
        let failing = self.ledger.as_ref().map(OpenLedger::failing_requests);
        failing.unwrap_or_default()
    }

    /// The further fields to keep of each answer, those that are written first.
    pub(super) fn fields(&self, captured: Box<[Pointer]>) -> Box<[Pointer]> {
        match &self.ledger {
            Some(ledger) => ledger.fields().into(),
            None => captured,
        }
    }

    /// Whether the run starts over, by `--fresh`.
    const fn is_fresh(&self) -> bool {
        matches!(self.reuse, Reuse::Nothing)
    }

    /// Whether rows of earlier runs are written without a call.
    pub(super) fn continues(&self) -> bool {
        self.ledger.as_ref().is_some_and(OpenLedger::existed) && !self.is_fresh()
    }

    /// Whether answers stay for another run.
    pub(super) fn stays(&self) -> bool {
        self.ledger.as_ref().and_then(OpenLedger::path).is_some()
    }

    /// What stays of a run that is ended immediately; `None` where no answers do.
    pub(super) fn last_words(&self) -> Option<String> {
        let path = self.ledger.as_ref()?.path()?;
        Some(format!(
            "`{}` has the {}answers that reached the disk; {} continues from there",
            shown(path),
            if self.sandbox { "" } else { "paid " },
            same_command(self.is_fresh())
        ))
    }

    /// The stage that looks rows up in it.
    ///
    /// # Errors
    /// Exit code 2: it cannot be opened for reading.
    pub(super) fn lookup_stage(&self) -> Result<LookupStage> {
        match &self.ledger {
            Some(ledger) => LookupStage::new(ledger, self.dedupe),
            None => Ok(LookupStage::default()),
        }
    }

    /// Starts the run and what makes its answers durable. It comes last, as with `--fresh` the first answer of the run
    /// discards those of earlier runs.
    ///
    /// # Errors
    /// Exit code 2 or 3: the ledger cannot be written.
    pub(super) fn start(self) -> Result<(RunLedger, Option<LedgerWriter>)> {
        let (fresh, was_left) = (self.is_fresh(), self.was_left());
        let (ledger, writer) = self.ledger.map(OpenLedger::start).transpose()?.unzip();
        let ledger = RunLedger {
            ledger,
            fresh,
            was_left,
            _lock: self.lock,
        };
        Ok((ledger, writer))
    }
}

impl RunLedger {
    /// Records how the run over this input is about to leave its files.
    pub(super) fn record(&self, files: &[Sealed], input: Option<&Path>) {
        if let Some(ledger) = self.ledger.as_ref().filter(|ledger| !ledger.is_scratch()) {
            // If this fails, the same command will refuse to replace them. That is better than failing the run here.
            let _ = ledger.record_outputs(files, input);
        }
    }

    /// What ended the run early; where a disk is full, with the space that is needed and where.
    pub(super) fn explain(&self, error: Error, far: HowFar, stats: &Stats) -> Error {
        let ledger = self.ledger.as_ref();
        if stats.cancelled == Some(CancelReason::Ledger)
            && ledger.is_some_and(RunningLedger::is_scratch)
        {
            return disk_space::in_temporary(error);
        }
        disk_space::for_the_rest(error, far)
    }

    /// What to record of a run that reached the end of its input.
    pub(super) fn finished(stats: &Stats, beside: UnfinishedFiles) -> FinishedRun {
        let files = stats.skipped_with_rejects + beside.rejects;
        FinishedRun {
            failed_rows: stats.failures() + files,
            failed_calls: stats.failed_calls() + files,
        }
    }

    /// Closes the ledger, after its writer has gone. `rows_stay` when there is an output, whole or not.
    pub(super) fn close(
        self,
        stats: &Stats,
        rows_stay: bool,
        beside: UnfinishedFiles,
    ) -> LedgerEnd {
        let Some(ledger) = self.ledger else {
            return LedgerEnd::default();
        };
        let patience = if stats.terminated {
            LAST_COMMIT
        } else {
            CLOSING
        };
        let (path, own) = (ledger.path().map(Path::to_owned), ledger.is_own());
        let damaged = stats.cancelled == Some(CancelReason::Ledger) && ledger.is_damaged();
        let removal = if self.was_left || beside.any() {
            // Other outputs of the directory need the answers.
            Removal::Never
        } else if stats.exit() == Exit::Complete && stats.is_finished() {
            Removal::WhenUsed(match stats.skipped {
                0 => stats.known + stats.answered,
                // Their answers are in it, and were used before.
                _ => u64::MAX,
            })
        } else if rows_stay {
            // Without a ledger the next run would refuse to replace it.
            Removal::Never
        } else {
            Removal::WhenEmpty
        };
        match ledger.close(removal, patience) {
            Ok(ClosedLedger::Kept(answers)) => LedgerEnd {
                kept: path.map(|path| KeptLedger {
                    path,
                    answers,
                    own,
                    fresh: self.fresh,
                    damaged,
                }),
                warning: None,
            },
            Ok(ClosedLedger::Removed) => LedgerEnd::default(),
            Err(error) => LedgerEnd {
                kept: None,
                warning: Some(error),
            },
        }
    }
}

/// How a ledger ended.
#[derive(Default)]
pub(super) struct LedgerEnd {
    /// What stays of it.
    pub(super) kept: Option<KeptLedger>,
    /// A warning that it should have been removed and was not.
    pub(super) warning: Option<Error>,
}

/// The refusal to replace what a finished run left, with both ways to continue and what they cost.
fn finished(file: &Path, ledger: &OpenLedger) -> Error {
    let failed = match ledger.previous_run() {
        PreviousRun::Finished { failed } => failed,
        PreviousRun::None | PreviousRun::Stopped => 0,
    };
    let retry = match failed {
        0 => "calls only for rows that were fixed since".to_owned(),
        failed => format!("up to {}", counted(failed, "call")),
    };
    let fresh = match ledger.replaced_answers() {
        Some(EarlierAnswers { answers, .. }) => {
            format!(
                "sends every row again (about {})",
                counted(answers + failed, "call")
            )
        }
        None => "uses the answers in the ledger".to_owned(),
    };
    Error::usage(format!("`{}` already exists", file.display()))
        .detail(format!(
            "`--retry-failed` sends only the rows without a verdict and keeps all others ({retry})"
        ))
        .detail(format!("`--overwrite` starts a new run, which {fresh}"))
        .hint("add one of these two options")
}
