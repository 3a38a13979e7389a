//! The output and the files beside it: checked before the first call, so that no paid answer lacks a place.
//!
//! An output is checked only here, but twice: when the run starts, before it may wait for its input, and when it holds the
//! ledger, so that no other run can write the output any more. [`Target`] makes the checks themselves.

use std::path::{Path, PathBuf};

use super::super::files::{
    NamedFile, SummaryFile, check_name, naming_the_other_run, refuse_clashes, rejects_beside,
};
use super::super::lock_wait::LockWait;
use super::super::open_input::OpenInput;
use super::disk_space;
use super::ledger::PreparedLedger;
use super::run_wide_files::RunWideFiles;
use crate::base::directory::directory_of;
use crate::base::error::Result;
use crate::config::{LedgerChoice, LedgerConfig, OutputConfig};
use crate::input::Input;
use crate::layout::Format;
use crate::ledger::{LedgerLocation, Reuse, ledger_in};
use crate::output::{Document, OutputFile, Replace, RowFiles, Target};

/// The output's place, checked when the run starts.
pub(super) struct OutputPlace {
    config: OutputConfig,
    /// `None` is standard output.
    pub(super) target: Option<Target>,
}

impl OutputPlace {
    /// Checks the output as far as possible before the run has locked it. The input is not read yet: nobody should wait
    /// for a pipe only to be told that the output exists.
    ///
    /// # Errors
    /// Exit code 2: it is the input, exists and may not be replaced, or cannot be made there. Exit code 75: another run is
    /// writing it.
    pub(super) fn check(
        config: OutputConfig,
        input: &Input,
        ledger: &LedgerConfig,
    ) -> Result<Self> {
        if let (Some(output), Some(input)) = (&config.path, NamedFile::input(input)) {
            // Before anything else: no message may suggest overwriting the input.
            refuse_clashes(&[input, NamedFile::output(output)])?;
        }
        let target = |path: &PathBuf| {
            let mut output = path.clone();
            let target = Target::new(path, |real| {
                real.clone_into(&mut output);
                if config.overwrite {
                    Replace::Whole
                } else {
                    replaceable(real, input, ledger)
                }
            });
            target.map_err(|error| naming_the_other_run(error, &output))
        };
        let target = config.path.as_ref().map(target).transpose()?;
        Ok(Self { config, target })
    }
}

/// Whether a file may be a ledger with answers.
fn has_answers(ledger: &Path) -> bool {
    ledger.metadata().is_ok_and(|file| file.len() > 0)
}

/// What may be replaced at the output's path: what a run may have left that its ledger knows. The ledger has the last word, once
/// the run has locked the output; see [`PreparedLedger::replaceable`].
fn replaceable(output: &Path, input: &Input, ledger: &LedgerConfig) -> Replace {
    let folder = directory_of(output);
    let may_know = match &ledger.choice {
        LedgerChoice::Named(LedgerLocation::File(path)) => has_answers(path),
        LedgerChoice::Named(_) => true,
        LedgerChoice::Folder => { [false, true] }
            .into_iter()
            .any(|sandbox| has_answers(&ledger_in(folder, sandbox))),
        LedgerChoice::Nowhere => false,
    };
    match input {
        _ if ledger.reuse == Reuse::Retry => Replace::Whole,
        _ if !may_know => Replace::Nothing,
        Input::File(_) => Replace::Whole,
        // The ledger would refuse to replace a finished output, but only after waiting for these rows.
        Input::Stdin => Replace::Partial,
    }
}

/// The files that a run writes, named and not opened yet.
#[derive(Clone)]
pub(super) struct OutputFiles {
    /// `None` is standard output.
    output: Option<Target>,
    rejects: Option<PathBuf>,
    changes: Option<PathBuf>,
    summary: Option<PathBuf>,
    report: Option<PathBuf>,
    /// Those that exist may be replaced.
    overwrite: bool,
    /// The format of the rows.
    format: Format,
}

/// The files that a run writes, open.
pub(super) struct OpenFiles {
    pub(super) output: Option<Target>,
    pub(super) rows: RowFiles,
    pub(super) summary: Option<SummaryFile>,
    pub(super) report: Option<Document>,
}

impl OutputFiles {
    /// Names the files. The rejects are named after the output and the input's format.
    ///
    /// # Errors
    /// Exit code 2: the rejects cannot have that name.
    pub(super) fn new(
        place: OutputPlace,
        summary: Option<PathBuf>,
        format: Format,
    ) -> Result<Self> {
        let OutputPlace { config, target } = place;
        // Next to `/dev/null` there is no place for files.
        let is_file = target.as_ref().is_some_and(|target| !target.is_special());
        let rejects = match (config.rejects, config.path) {
            (Some(path), _) => Some(path),
            (None, Some(output)) if is_file => Some(rejects_beside(&output, format.extension())?),
            (None, _) => None,
        };
        Ok(Self {
            output: target,
            rejects,
            changes: config.changes,
            summary,
            report: config.report,
            overwrite: config.overwrite,
            format,
        })
    }

    /// The file by which a stopped run is known when it is continued; `None` where it writes to standard output alone.
    pub(super) fn identifying_file(&self) -> Option<&Path> {
        let output = self.output.as_ref().map(Target::path);
        output.or(self.changes.as_deref())
    }

    /// Fails when any two of the files that the run reads or writes would be one, and then when a name does not fit.
    pub(super) fn refuse_clashes(&self, input: &Input, run: &RunWideFiles) -> Result<()> {
        let mut files = Vec::from_iter(NamedFile::input(input));
        files.extend(run.read());
        let output = self.output.as_ref().map(Target::path);
        files.extend(output.map(NamedFile::output));
        let rejects = self.rejects.as_deref();
        files.extend(rejects.map(|path| NamedFile::partial("rejects", path)));
        let changes = self.changes.as_deref();
        files.extend(changes.map(|path| NamedFile::partial("changes", path)));
        let report = self.report.as_deref();
        files.extend(report.map(|path| NamedFile::partial("report", path)));
        files.extend(run.written());
        refuse_clashes(&files)?;
        self.check_names()?;
        // Checked again once the run holds its ledger, which a run that is refused now does not create.
        match &self.output {
            Some(output) => { rejects.into_iter().chain(changes) }
                .try_for_each(|path| output.refuse_existing_beside(path)),
            None => Ok(()),
        }
    }

    /// Fails when the name of a file for rows says another format than they have: programs go by the name.
    fn check_names(&self) -> Result<()> {
        let output = self.output.as_ref().filter(|output| !output.is_special());
        [
            ("--output", output.map(Target::path)),
            ("--rejects", self.rejects.as_deref()),
            ("--changes", self.changes.as_deref()),
        ]
        .into_iter()
        .filter_map(|(flag, path)| Some((flag, path?)))
        .try_for_each(|(flag, path)| check_name(flag, path, self.format))
    }

    /// Checks the files again and opens them; `real_input` is the input's path with links followed. Only those
    /// who can read the input may read them, as its rows are in all of them.
    ///
    /// # Errors
    /// Exit code 2: a file exists and may not be replaced, or cannot be made. Exit code 3: the disk is full. Exit code 75:
    /// another run is writing one of them. Nothing is replaced then.
    pub(super) fn open(
        &self,
        ledger: &mut PreparedLedger,
        real_input: Option<&Path>,
        input: &OpenInput,
        wait: &LockWait<'_>,
    ) -> Result<OpenFiles> {
        let size = input.facts.size_of_rows();
        wait.until_free(|| {
            let files = self.clone();
            files.open_now(ledger, real_input, input.mode, size)
        })
    }

    /// As [`Self::open`]; `mode` and `size` are the input's too.
    fn open_now(
        self,
        ledger: &mut PreparedLedger,
        input: Option<&Path>,
        mode: u32,
        size: Option<u64>,
    ) -> Result<OpenFiles> {
        // Reading the input may have taken long, and another run may have started and ended meanwhile.
        let mut check = |target: Target| {
            let replace = if self.overwrite || target.is_special() {
                Replace::Whole
            } else {
                ledger.replaceable(target.path(), input)?
            };
            target.again(replace)
        };
        let output = self.output.map(&mut check).transpose()?;
        let mut further = |path: Option<PathBuf>| {
            let target = path.map(|path| Target::new(&path, |_| Replace::Whole));
            target.transpose()?.map(&mut check).transpose()
        };
        let targets = RowTargets {
            output,
            rejects: further(self.rejects)?,
            changes: further(self.changes)?,
        };
        let report = further(self.report)?;
        let summary = { self.summary }.map(|path| SummaryFile::create(&path, mode));
        let summary = summary.transpose()?;
        let rows = targets.open(mode, ledger.uses_earlier_answers(), size)?;
        let report = report.map(|target| target.open(targets.beside(mode)).map(Document::new));
        let report = report.transpose().map_err(disk_space::at_the_start)?;
        Ok(OpenFiles {
            output: targets.output,
            rows,
            summary,
            report,
        })
    }
}

/// The places of an output and of the files beside it, each of which may be made or replaced.
pub(super) struct RowTargets {
    /// `None` is standard output.
    pub(super) output: Option<Target>,
    pub(super) rejects: Option<Target>,
    pub(super) changes: Option<Target>,
}

impl RowTargets {
    /// Opens the files; `mode` and `size` are the input's. `uses_earlier_answers`: rows whose answers are in the ledger
    /// are written first.
    ///
    /// # Errors
    /// Exit code 2: one cannot be made. Exit code 3: the disk is full. Nothing is replaced then.
    pub(super) fn open(
        &self,
        mode: u32,
        uses_earlier_answers: bool,
        size: Option<u64>,
    ) -> Result<RowFiles> {
        disk_space::for_the_next_rows(self.output.as_ref(), uses_earlier_answers, size)?;
        let open = |target: &Target, mode| target.open(mode).map_err(disk_space::at_the_start);
        let beside = |target: &Option<Target>| {
            let target = target.as_ref();
            target
                .map(|target| open(target, self.beside(mode)))
                .transpose()
        };
        let output = match &self.output {
            Some(target) => open(target, mode)?,
            None => OutputFile::stdout()?,
        };
        Ok(RowFiles::new(
            output,
            beside(&self.rejects)?,
            beside(&self.changes)?,
        ))
    }

    /// Next to an output whose mode was narrowed by hand, the other files are as narrow.
    fn beside(&self, mode: u32) -> u32 {
        mode & self.output.as_ref().and_then(Target::mode).unwrap_or(mode)
    }
}
