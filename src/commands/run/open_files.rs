//! The second moment of a run's files: the ledger has said what is to be done with each part, and what is written is open. One
//! of several parts is opened only when its turn comes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::files::{OutputDirectory, SummaryFile, rejects_of};
use super::super::lock_wait::LockWait;
use super::checked_files::CheckedFiles;
use super::ledger::PreparedLedger;
use super::part::{PartToRun, RunPart, Targets, Turn};
use super::threads::WhenBroken;
use crate::base::error::{Result, shown};
use crate::ledger::OutputState;
use crate::output::{Document, Replace, Target};
use crate::selection::Selection;

/// The files of a run that is ready to start.
pub(super) struct OpenFiles {
    pub(super) parts: Vec<RunPart>,
    /// The directory of several outputs.
    pub(super) directory: Option<PathBuf>,
    /// What follows when an input can be read no further.
    pub(super) when_broken: WhenBroken,
    /// Where the summary goes as JSON.
    pub(super) summary: Option<SummaryFile>,
    /// Where the report goes.
    pub(super) report: Option<Document>,
}

/// The permission bits of a file that restricts nobody.
const EVERYBODY: u32 = 0o666;

impl CheckedFiles {
    /// Decides what is to be done with each part, and opens what is written. Only those who can read all inputs may read the
    /// summary.
    ///
    /// # Errors
    /// Exit code 2: a file exists and may not be replaced, or cannot be made. Exit code 3: the disk is full. Exit code 75:
    /// another run is writing one of them. Nothing is replaced then, but the summary may have been emptied.
    pub(super) fn open(
        mut self,
        summary: Option<&Path>,
        ledger: &mut PreparedLedger,
        wait: &LockWait<'_>,
    ) -> Result<OpenFiles> {
        let to_run = self.parts.iter().filter_map(RunPart::to_run);
        let mode = to_run.fold(EVERYBODY, |all, part| all & part.mode);
        let (targets, summary, mut open, report) = wait.until_free(|| {
            let targets = self.all_targets(ledger)?;
            let summary = { summary.map(|path| SummaryFile::create(path, mode)) }.transpose()?;
            let (mut open, mut report) = (None, None);
            if self.directory.is_none()
                && let Some(Ok(Some(only))) = targets.first()
                && let Some(part) = self.parts.first().and_then(RunPart::to_run)
            {
                open = Some(only.open(part.mode, &part.facts)?);
                report = only.open_report(part.mode)?;
            }
            Ok((targets, summary, open, report))
        })?;
        for (part, targets) in self.parts.iter_mut().zip(targets) {
            match (&mut part.turn, targets) {
                (_, Err(error)) => part.turn = Turn::Unusable(error),
                (Turn::Run(to_run), Ok(Some(targets))) => {
                    to_run.targets = targets;
                    to_run.open = open.take();
                }
                (Turn::Run(_), Ok(None)) => {
                    let rejects = part.output.as_deref().and_then(rejects_of);
                    part.turn = Turn::Skip { rejects };
                }
                (Turn::Skip { .. } | Turn::Unusable(_), Ok(_)) => {}
            }
        }
        Ok(OpenFiles {
            when_broken: if self.stops_at_broken() {
                WhenBroken::StopRun
            } else {
                WhenBroken::EndFile
            },
            parts: self.parts,
            directory: self.directory.map(|directory| directory.path),
            summary,
            report,
        })
    }

    /// Where each part is written; nothing for one that does not run.
    ///
    /// # Errors
    /// A part cannot be used, and that ends the run.
    fn all_targets(&self, ledger: &mut PreparedLedger) -> Result<Vec<Result<Option<Targets>>>> {
        let parts = self
            .parts
            .iter()
            .map(|part| match self.targets(part, ledger) {
                Err(error) if self.stops_at_broken() => Err(error),
                targets => Ok(targets),
            });
        parts.collect()
    }

    fn targets(&self, part: &RunPart, ledger: &mut PreparedLedger) -> Result<Option<Targets>> {
        let input = part.real_input();
        let of_part = match &self.directory {
            Some(directory) => {
                let replace = self.may_replace(part, directory, input.as_deref(), ledger)?;
                let Some(replace) = replace else {
                    return Ok(None);
                };
                Some(replace)
            }
            None => None,
        };
        let mut target = |path: Option<&PathBuf>| {
            let Some(path) = path else {
                return Ok(None);
            };
            let target = Target::new(path, |_| Replace::Whole)?;
            // Reading the input may have taken long, and another run may have started and ended meanwhile.
            let replace = match of_part {
                Some(replace) => replace,
                None if self.config.overwrite || target.is_special() => Replace::Whole,
                None => ledger.replaceable(target.path(), input.as_deref())?,
            };
            target.again(replace).map(Some)
        };
        Ok(Some(Targets {
            output: target(part.output.as_ref())?,
            rejects: target(part.turn.rejects())?,
            changes: target(self.config.changes.as_ref())?,
            report: target(self.config.report.as_ref())?,
            continues: ledger.uses_earlier_answers(),
        }))
    }

    /// What may be replaced of one of several outputs; `None` if its rows do not run.
    ///
    /// # Errors
    /// Exit code 2: what is there does not belong to this input, or the ledger cannot be read.
    fn may_replace(
        &self,
        part: &RunPart,
        directory: &OutputDirectory,
        real_input: Option<&Path>,
        ledger: &mut PreparedLedger,
    ) -> Result<Option<Replace>> {
        let Some(output) = &part.output else {
            return Ok(None);
        };
        let state = ledger.output_state(output, real_input)?;
        let is_there = output.symlink_metadata().is_ok();
        let replace = match &part.turn {
            Turn::Unusable(_) => return Ok(None),
            Turn::Run(_) if self.config.overwrite => return Ok(Some(Replace::Whole)),
            Turn::Run(_) if !is_there => ledger.replaceable_partials(),
            // The rows without a verdict are sent again, or the run was killed before the rejects had their name.
            Turn::Run(_) if state == OutputState::AsLeft => Replace::Whole,
            Turn::Run(_) | Turn::Skip { .. } => {
                let is_of_other_input = state == OutputState::OfOtherInput;
                directory.refuse_outdated(&part.input, output, is_of_other_input)?;
                return Ok(None);
            }
        };
        if let Some(rejects) = part.turn.rejects() {
            directory.refuse_left_rejects(output, rejects)?;
        }
        Ok(Some(replace))
    }
}

impl OpenFiles {
    /// The inputs whose rows are to run.
    pub(super) fn to_run(&self) -> impl Iterator<Item = &PartToRun> {
        self.parts.iter().filter_map(RunPart::to_run)
    }

    /// The size in bytes of the inputs whose rows are to run, where it is known.
    pub(super) fn size(&self) -> Option<u64> {
        self.to_run().map(|part| part.facts.size).sum()
    }

    /// Which rows of each input run.
    pub(super) fn selection(&self) -> Selection {
        let first = self.to_run().next();
        first.map_or_else(Selection::default, |part| part.facts.selection)
    }

    /// The names of several inputs, in their order; none where there is only one output.
    pub(super) fn names(&self) -> Vec<Arc<str>> {
        let several = self.parts.iter().filter(|_| self.directory.is_some());
        several.map(|part| shown(&part.input.path).into()).collect()
    }
}
