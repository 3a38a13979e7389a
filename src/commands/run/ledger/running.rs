//! The run's ledger while rows run, and its end, in two steps: what the summary must know, and the run's last act.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::disk_space::{self, InputProgress};
use super::super::unfinished_files::UnfinishedFiles;
use crate::base::error::{Error, Exit, Result};
use crate::ledger::{
    ClosedLedger, FinishedRun, OutputLock, Removal, RunEnd, RunningLedger, SettledLedger,
};
use crate::observe::{KeptKind, KeptLedger, LedgerLeft};
use crate::output::{Sealed, partial_of};
use crate::telemetry::event::CancelReason;
use crate::telemetry::stats::Stats;

/// How long closing the ledger may take when a service manager waits: all that ends a run takes less than 30 s together.
const LAST_COMMIT: Duration = Duration::from_millis(1_500);
/// How long it may take otherwise: a large log is merged into the database first. Ctrl-C stops it.
const CLOSING: Duration = Duration::from_secs(60);

/// The answers of a run that has started, or nothing where none are stored.
pub(in crate::commands::run) struct RunLedger {
    ledger: Option<RunningLedger>,
    fresh: bool,
    /// It stayed after a run that finished its files and whose answers are still of use.
    was_left: bool,
    /// Released at the end of the run.
    lock: Option<OutputLock>,
}

impl RunLedger {
    /// The ledger of a run that has started, with the lock of its output. `fresh`: the run has started over. `was_left`:
    /// it stayed after a finished run.
    pub(super) const fn new(
        ledger: Option<RunningLedger>,
        fresh: bool,
        was_left: bool,
        lock: Option<OutputLock>,
    ) -> Self {
        Self {
            ledger,
            fresh,
            was_left,
            lock,
        }
    }

    /// What records how the run over this input is about to leave its files.
    pub(in crate::commands::run) fn recorder(
        &self,
        input: Option<PathBuf>,
    ) -> impl Fn(&[Sealed]) + use<> {
        let outputs = self.ledger.as_ref().and_then(RunningLedger::outputs);
        move |files| {
            let Some(outputs) = &outputs else {
                return;
            };
            // They keep these names if another program has put a file at their path.
            let partials = { files.iter() }.map(|(path, state)| (partial_of(path), state.clone()));
            let files: Vec<_> = files.iter().cloned().chain(partials).collect();
            // If this fails, the same command will refuse to replace them. That is better than failing the run here.
            let _ = outputs.record(&files, input.as_deref());
        }
    }

    /// What ended the run early; where a disk is full, with the space that is needed and where.
    pub(in crate::commands::run) fn explain(
        &self,
        error: Error,
        progress: InputProgress,
        stats: &Stats,
    ) -> Error {
        let ledger = self.ledger.as_ref();
        if stats.cancelled != Some(CancelReason::Ledger) {
            return disk_space::for_the_rest(error, progress);
        }
        if ledger.is_some_and(RunningLedger::is_scratch) {
            return disk_space::in_temporary(error);
        }
        disk_space::for_the_answers(error, progress, stats)
    }

    /// What to record of how a run has ended.
    pub(in crate::commands::run) fn end(stats: &Stats, beside: UnfinishedFiles) -> RunEnd {
        if beside.any_partial || !stats.has_all_usable_rows() {
            return RunEnd::Stopped;
        }
        if stats.file_failed.is_some() {
            return RunEnd::WithoutSomeInputs;
        }
        let files = stats.skipped_with_rejects + beside.rejects;
        let failed = stats.failed_calls();
        RunEnd::Finished(FinishedRun {
            failed: failed + files,
            unsent: stats.failures() - failed,
        })
    }

    /// When the run's own ledger is removed.
    fn removal(&self, stats: &Stats, rows_stay: bool, beside: UnfinishedFiles) -> Removal {
        if self.was_left || beside.any() {
            // Other outputs of the directory need the answers.
            Removal::Never
        } else if stats.exit() == Exit::Complete && stats.is_finished() {
            Removal::WhenUsed(match stats.skipped {
                0 => stats.known + stats.answered,
                // Their answers are in it, and were used before.
                _ => u64::MAX,
            })
        } else if rows_stay {
            // Without a ledger the next run would refuse to replace them.
            Removal::Never
        } else {
            Removal::WhenEmpty
        }
    }

    /// Has everything in the ledger be durable, after its writer has gone. `rows_stay` when there is an output, whole or not.
    pub(in crate::commands::run) fn settle(
        self,
        stats: &Stats,
        rows_stay: bool,
        beside: UnfinishedFiles,
    ) -> LedgerEnd {
        let removal = self.removal(stats, rows_stay, beside);
        let Some(ledger) = self.ledger else {
            return LedgerEnd {
                left: LedgerLeft::Nothing,
                last_act: LastAct {
                    ledger: None,
                    _lock: self.lock,
                },
            };
        };
        let patience = if stats.terminated {
            LAST_COMMIT
        } else {
            CLOSING
        };
        let path = ledger.path().map(Path::to_owned);
        let kind = if ledger.is_own() {
            KeptKind::Own
        } else {
            KeptKind::Shared
        };
        let damaged = stats.cancelled == Some(CancelReason::Ledger) && ledger.is_damaged();
        let fresh = self.fresh;
        let kept = |answers| {
            let is_there = |path: &PathBuf| path.symlink_metadata().is_ok();
            path.filter(is_there).map(|path| KeptLedger {
                path,
                answers,
                kind,
                fresh,
                damaged,
            })
        };
        let settled = ledger.settle(removal, patience);
        LedgerEnd {
            left: match settled.left() {
                ClosedLedger::Kept(answers) => {
                    kept(answers).map_or(LedgerLeft::Gone, LedgerLeft::Kept)
                }
                ClosedLedger::Gone => LedgerLeft::Gone,
                ClosedLedger::Removed => LedgerLeft::Nothing,
            },
            last_act: LastAct {
                ledger: Some(settled),
                _lock: self.lock,
            },
        }
    }
}

/// A ledger in which everything is durable, but for how the run has ended.
pub(in crate::commands::run) struct LedgerEnd {
    /// What is left of it.
    pub(in crate::commands::run) left: LedgerLeft,
    pub(in crate::commands::run) last_act: LastAct,
}

/// What makes a run finished, once all its files are written. The same command continues a run that is killed before, and
/// makes no call for a row that has its verdict.
pub(in crate::commands::run) struct LastAct {
    ledger: Option<SettledLedger>,
    /// Released last.
    _lock: Option<OutputLock>,
}

impl LastAct {
    /// Ends the run in its ledger.
    ///
    /// # Errors
    /// The ledger should be removed and cannot be.
    pub(in crate::commands::run) fn finish(self) -> Result<()> {
        self.ledger.map_or(Ok(()), SettledLedger::finish)
    }
}
