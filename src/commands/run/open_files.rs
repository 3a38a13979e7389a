//! The second moment of a run's files: the ledger has said what is to be done with each part, and what is written is open. One
//! of several parts is opened only when its turn comes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::files::{OutputDirectory, SummaryFile, rejects_of};
use super::super::lock_wait::LockWait;
use super::super::open_input::OpenInput;
use super::checked_files::{CheckedFiles, CheckedPart, Found, UsersFile, bodies, real_path};
use super::disk_space;
use super::ledger::PreparedLedger;
use super::threads::WhenBroken;
use crate::base::error::{Error, Result, shown};
use crate::input::ReaderSettings;
use crate::ledger::OutputState;
use crate::output::{Document, Replace, Sides, Sink, Target};
use crate::selection::Selection;
use crate::service::Plan;

/// The files of a run that is ready to start.
pub(super) struct OpenFiles {
    pub(super) parts: Vec<Part>,
    /// The directory of several outputs.
    pub(super) directory: Option<PathBuf>,
    /// What follows when an input can be read no further.
    pub(super) when_broken: WhenBroken,
    /// Where the summary goes as JSON.
    pub(super) summary: Option<SummaryFile>,
    /// Where the report goes.
    pub(super) report: Option<Document>,
}

/// An input, and what is to be done with it.
pub(super) struct Part {
    pub(super) input: PathBuf,
    /// `None` is standard output.
    pub(super) output: Option<PathBuf>,
    pub(super) turn: Turn,
}

/// What is to be done with an input.
pub(super) enum Turn {
    /// Its rows run.
    Run(Box<PartToRun>),
    /// An earlier run has finished it.
    Skip {
        /// The rows without a verdict, if there are any.
        rejects: Option<PathBuf>,
    },
    /// It cannot be used.
    Unusable(Error),
}

/// An input whose rows are to run.
pub(super) struct PartToRun {
    /// What was found out about it before the first call.
    pub(super) users: UsersFile,
    /// Its path with links followed; `None` for a stream.
    pub(super) real_input: Option<PathBuf>,
    settings: ReaderSettings,
    plan: Plan,
    targets: Targets,
    /// Rows of an earlier run are written again first.
    continues: bool,
    /// `None` until its turn comes.
    open: Option<(Sink, Sides)>,
}

/// An input and its output, open.
pub(super) struct OpenPart {
    pub(super) input: OpenInput,
    pub(super) sink: Sink,
    pub(super) sides: Sides,
    pub(super) writes_stdout: bool,
}

/// The places of an output and of the files beside it, each of which may be made or replaced.
struct Targets {
    /// `None` is standard output.
    output: Option<Target>,
    rejects: Option<Target>,
    changes: Option<Target>,
    report: Option<Target>,
}

/// The permission bits of a file that restricts nobody.
const EVERYBODY: u32 = 0o666;

impl CheckedFiles {
    /// Decides what is to be done with each part, and opens what is written. Only those who can read all inputs may read it.
    ///
    /// # Errors
    /// Exit code 2: a file exists and may not be replaced, or cannot be made. Exit code 3: the disk is full. Exit code 75:
    /// another run is writing one of them. Nothing is replaced then, but the summary may have been emptied.
    pub(super) fn open(
        self,
        plan: Plan,
        summary: Option<&Path>,
        ledger: &mut PreparedLedger,
        wait: &LockWait<'_>,
    ) -> Result<OpenFiles> {
        let mode = { self.opened() }.fold(EVERYBODY, |all, users| all & users.mode);
        let continues = ledger.uses_earlier_answers();
        let (targets, summary, mut open, report) = wait.until_free(|| {
            let targets = self.all_targets(ledger)?;
            let summary = summary
                .map(|path| SummaryFile::create(path, mode))
                .transpose()?;
            let (mut open, mut report) = (None, None);
            if self.directory.is_none()
                && let Some(Ok(Some(only))) = targets.first()
            {
                let size = { self.opened().next() }.and_then(|users| users.facts.size_of_rows());
                open = Some(only.open(mode, continues, size)?);
                report = only.open_report(mode)?;
            }
            Ok((targets, summary, open, report))
        })?;
        let when_broken = if self.stops_at_broken() {
            WhenBroken::StopRun
        } else {
            WhenBroken::EndFile
        };
        let parts = self.parts.into_iter().zip(targets);
        let parts = parts.map(|(part, targets)| Part {
            turn: match (part.found, targets) {
                (Found::Unusable(error), _) | (_, Err(error)) => Turn::Unusable(error),
                (Found::Users(users), Ok(Some(targets))) => Turn::Run(Box::new(PartToRun {
                    users: *users,
                    real_input: real_path(&part.input.settings.file.input),
                    settings: part.input.settings,
                    plan,
                    targets,
                    continues,
                    open: open.take(),
                })),
                (Found::Users(_) | Found::Unread, Ok(_)) => Turn::Skip {
                    rejects: part.output.as_deref().and_then(rejects_of),
                },
            },
            input: part.input.path,
            output: part.output,
        });
        Ok(OpenFiles {
            parts: parts.collect(),
            directory: self.directory.map(|directory| directory.path),
            when_broken,
            summary,
            report,
        })
    }

    /// Where each part is written; nothing for one that is skipped, or that cannot be used.
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

    fn targets(&self, part: &CheckedPart, ledger: &mut PreparedLedger) -> Result<Option<Targets>> {
        let input = real_path(&part.input.settings.file.input);
        let of_part = match &self.directory {
            Some(directory) => self.may_replace(part, directory, input.as_deref(), ledger)?,
            None => None,
        };
        let Found::Users(users) = &part.found else {
            return Ok(None);
        };
        if self.directory.is_some() && of_part.is_none() {
            return Ok(None);
        }
        let mut target = |path: &Option<PathBuf>| {
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
            output: target(&part.output)?,
            rejects: target(&users.rejects)?,
            changes: target(&self.config.changes)?,
            report: target(&self.config.report)?,
        }))
    }

    /// What may be replaced of one of several outputs; `None` if it is complete, and its part is skipped.
    ///
    /// # Errors
    /// Exit code 2: what is there does not belong to this input, or the ledger cannot be read.
    fn may_replace(
        &self,
        part: &CheckedPart,
        directory: &OutputDirectory,
        real_input: Option<&Path>,
        ledger: &mut PreparedLedger,
    ) -> Result<Option<Replace>> {
        let CheckedPart { input, found, .. } = part;
        let Some(output) = &part.output else {
            return Ok(None);
        };
        let state = ledger.output_state(output, real_input)?;
        let users = match found {
            Found::Users(users) => Some(users),
            Found::Unread => None,
            Found::Unusable(_) => return Ok(None),
        };
        let is_there = output.symlink_metadata().is_ok();
        let replace = match users {
            Some(_) if self.config.overwrite => return Ok(Some(Replace::Whole)),
            Some(_) if !is_there => ledger.replaceable_partials(),
            // The rows without a verdict are sent again, or the run was killed before the rejects had their name.
            Some(_) if state == OutputState::AsLeft => Replace::Whole,
            _ => {
                let is_of_other_input = state == OutputState::OfOtherInput;
                directory.refuse_outdated(input, output, is_of_other_input)?;
                return Ok(None);
            }
        };
        if let Some(rejects) = users.and_then(|users| users.rejects.as_deref()) {
            directory.refuse_left_rejects(output, rejects)?;
        }
        Ok(Some(replace))
    }
}

impl Targets {
    /// Opens the files for rows; `mode` and `size` are the input's. `continues`: rows whose answers are in the ledger are
    /// written first.
    ///
    /// # Errors
    /// Exit code 2: one cannot be made. Exit code 3: the disk is full. Nothing is replaced then.
    fn open(&self, mode: u32, continues: bool, size: Option<u64>) -> Result<(Sink, Sides)> {
        disk_space::for_the_next_rows(self.output.as_ref(), continues, size)?;
        let open = |target: &Target| {
            let opened = target.open(mode);
            opened.map_err(|error| disk_space::at_the_start(error.about(target.path())))
        };
        let sink = self.output.as_ref().map_or_else(Sink::stdout, open)?;
        let (rejects, changes) = (self.rejects.as_ref(), self.changes.as_ref());
        let sides = Sides::open(rejects, changes, self.beside(mode));
        Ok((sink, sides.map_err(disk_space::at_the_start)?))
    }

    fn open_report(&self, mode: u32) -> Result<Option<Document>> {
        let report = self.report.as_ref();
        let report = report.map(|target| Document::open(target, self.beside(mode)));
        report.transpose().map_err(disk_space::at_the_start)
    }

    /// Next to an output whose mode was narrowed by hand, the other files are as narrow.
    fn beside(&self, mode: u32) -> u32 {
        mode & self.output.as_ref().and_then(Target::mode).unwrap_or(mode)
    }
}

impl PartToRun {
    /// Opens what is not open yet: the input again, and its files.
    ///
    /// # Errors
    /// Exit code 2: it cannot be used, or its output cannot be made. Exit code 3: the disk is full.
    pub(super) fn open(self) -> Result<OpenPart> {
        let UsersFile {
            facts,
            layout,
            mode,
            reader,
            ..
        } = self.users;
        let input = match reader {
            Some(reader) => OpenInput {
                reader,
                layout,
                mode,
                facts,
            },
            None => OpenInput::open(self.settings, bodies(self.plan), false)?,
        };
        let (sink, sides) = match self.open {
            Some(open) => open,
            None => {
                let size = input.facts.size_of_rows();
                self.targets.open(input.mode, self.continues, size)?
            }
        };
        Ok(OpenPart {
            input,
            sink,
            sides,
            writes_stdout: self.targets.output.is_none(),
        })
    }
}

impl OpenFiles {
    /// The inputs whose rows are to run.
    pub(super) fn to_run(&self) -> impl Iterator<Item = &PartToRun> {
        self.parts.iter().filter_map(|part| match &part.turn {
            Turn::Run(part) => Some(&**part),
            _ => None,
        })
    }

    /// The size in bytes of the inputs whose rows are to run, where it is known.
    pub(super) fn size(&self) -> Option<u64> {
        self.to_run().map(|part| part.users.facts.size).sum()
    }

    /// Which rows of each input run.
    pub(super) fn selection(&self) -> Selection {
        let first = self.to_run().next();
        first.map_or_else(Selection::default, |part| part.users.facts.selection)
    }

    /// The names of several inputs, in their order; none where there is only one output.
    pub(super) fn names(&self) -> Vec<Arc<str>> {
        let several = self.parts.iter().filter(|_| self.directory.is_some());
        several.map(|part| shown(&part.input).into()).collect()
    }
}
