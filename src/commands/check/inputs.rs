//! What is checked: the inputs, and the ledger of the run to come.

use std::path::PathBuf;

use super::super::files::{InputFile, NamedFile, OutputDirectory, find_inputs, refuse_clashes};
use crate::base::error::{Error, Result};
use crate::config::{CheckConfig, CheckLedger, OutputToCome, RunToCome};
use crate::input::{Input, ReaderSettings};
use crate::ledger::ledger_of;
use crate::observe::count;
use crate::output::{Replace, Target};

/// The inputs of a check.
pub(super) enum CheckedInputs {
    /// A single one, which may be a stream.
    One(Box<ReaderSettings>),
    /// Files, of which each has its output in the directory.
    Several(Vec<InputFile>, Option<OutputDirectory>),
}

/// The ledger in which answers are looked up.
pub(super) struct LookedUpLedger {
    pub(super) named: PathBuf,
    /// Its answers are used only if its run was stopped: another run to that output sends every row again.
    pub(super) of_unfinished_run: bool,
    /// What the run to come writes, with links followed: by it, a stopped run is recognised.
    pub(super) output: Option<PathBuf>,
    /// The run goes on with one that has finished.
    pub(super) resumes_finished: bool,
}

impl CheckedInputs {
    /// Finds those that are named.
    ///
    /// # Errors
    /// Exit code 2: there are none, or the run to come could not have them.
    pub(super) fn find(mut named: Vec<ReaderSettings>, config: &CheckConfig) -> Result<Self> {
        let directory = match &config.run.output {
            Some(OutputToCome::Directory(path)) => Some(path),
            _ => None,
        };
        let is_stream = matches!(&named[..], [only] if only.file.input == Input::Stdin);
        if is_stream
            && directory.is_none()
            && let Some(only) = named.pop()
        {
            return Ok(Self::One(Box::new(only)));
        }
        let mut found = find_inputs(named)?;
        if let Some(path) = directory {
            let directory = OutputDirectory::check(path, &found)?;
            return Ok(Self::Several(found, Some(directory)));
        }
        if found.len() == 1
            && let Some(only) = found.pop()
        {
            return Ok(Self::One(Box::new(only.settings)));
        }
        refuse_options_of_one_file(config, &found)?;
        Ok(Self::Several(found, None))
    }

    /// The ledger to look at: the one that is named, or the run's own, if there is one.
    pub(super) fn ledger(&self, ledger: &CheckLedger, run: &RunToCome) -> Option<LookedUpLedger> {
        let output = self.output(run);
        let has_directory = matches!(self, Self::Several(_, Some(_)));
        // Without any of these options, files that are finished are skipped, and new ones use its answers.
        let has_further = has_directory && !run.overwrites && ledger.freshness.is_none();
        let resumes_finished = run.retries || has_further;
        if let Some(named) = &ledger.ledger {
            return Some(LookedUpLedger {
                named: named.clone(),
                of_unfinished_run: false,
                output,
                resumes_finished,
            });
        }
        let own = ledger_of(output.as_deref()?);
        let is_there = own.symlink_metadata().is_ok();
        is_there.then_some(LookedUpLedger {
            named: own,
            of_unfinished_run: !run.retries && (run.overwrites || !has_directory),
            output,
            resumes_finished,
        })
    }

    /// What the run to come writes: the output with links followed, as the run does, or the directory of several.
    fn output(&self, run: &RunToCome) -> Option<PathBuf> {
        match (self, &run.output) {
            (Self::Several(_, Some(directory)), _) => Some(directory.path.clone()),
            (_, Some(OutputToCome::File(path))) => {
                let target = Target::new(path, |_| Replace::Whole);
                // Where none can be made, the run says so.
                Some(target.map_or_else(|_| path.clone(), |target| target.path().to_owned()))
            }
            _ => None,
        }
    }

    /// Fails if the rejects would replace the input or the ledger.
    pub(super) fn refuse_clashes(
        &self,
        config: &CheckConfig,
        ledger: Option<&LookedUpLedger>,
    ) -> Result<()> {
        let (Self::One(input), Some(rejects)) = (self, &config.rejects) else {
            return Ok(());
        };
        let rejects = || NamedFile::partial("rejects", rejects);
        if let Some(input) = NamedFile::input(&input.file.input) {
            refuse_clashes(&[input, rejects()])?;
        }
        match ledger.map(|ledger| &ledger.named) {
            Some(path) => refuse_clashes(&[NamedFile::ledger(path), rejects()]),
            None => Ok(()),
        }
    }

    /// The size of all of them, for the progress; `None` if one is a stream.
    pub(super) fn size(&self) -> Option<u64> {
        let size = |input: &ReaderSettings| match &input.file.input {
            Input::File(path) => path.metadata().ok().map(|file| file.len()),
            Input::Stdin => None,
        };
        match self {
            Self::One(only) => size(only),
            Self::Several(inputs, _) => inputs.iter().map(|input| size(&input.settings)).sum(),
        }
    }
}

/// Fails if one of several inputs would have to be the only one, as in a run with `--output-dir`.
fn refuse_options_of_one_file(config: &CheckConfig, inputs: &[InputFile]) -> Result<()> {
    let selection = inputs.first().map(|input| input.settings.selection);
    let selection = selection.unwrap_or_default();
    let given = [
        ("--output", config.run.output.is_some()),
        ("--rejects", config.rejects.is_some()),
        ("--limit", selection.limit.is_some()),
        ("--sample", selection.sample.is_some()),
        ("--no-dedupe", !config.dedupe),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(Error::usage(format!(
            "`{option}` is for one input, and there are {}",
            count(inputs.len() as u64)
        ))
        .hint("check them one by one, or leave out the option")),
        None => Ok(()),
    }
}
