//! What is checked: the inputs, and the ledger of the run to come.

use std::path::{Path, PathBuf};

use super::super::files::{InputFile, NamedFile, OutputDirectory, find_inputs, refuse_clashes};
use crate::base::directory::directory_of;
use crate::base::error::{Error, Result};
use crate::config::{CheckConfig, CheckLedger, OutputToCome, RunToCome};
use crate::input::{Input, ReaderSettings};
use crate::ledger::{LedgerLocation, ledger_in};
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
    pub(super) location: LedgerLocation,
    /// It is in a directory that the run makes.
    pub(super) in_new_directory: bool,
    /// What the run to come writes, with links followed, and reads: by these, a stopped run is recognised.
    pub(super) output: Option<PathBuf>,
    pub(super) input: Option<PathBuf>,
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

    /// The ledger that the run to come has: the one that is named, or that of the output's folder.
    pub(super) fn ledger(&self, ledger: &CheckLedger, run: &RunToCome) -> LookedUpLedger {
        let output = self.output(run);
        let (folder, is_made) = match (self, &output) {
            (Self::Several(_, Some(_)), Some(directory)) => (&**directory, !directory.exists()),
            (_, Some(file)) => (directory_of(file), false),
            (_, None) => (Path::new("."), false),
        };
        let input = match self {
            Self::One(settings) => match &settings.file.input {
                Input::File(path) => path.canonicalize().ok(),
                Input::Stdin => None,
            },
            Self::Several(..) => None,
        };
        let named = ledger.ledger.clone();
        LookedUpLedger {
            in_new_directory: is_made && named.is_none(),
            location: named
                .unwrap_or_else(|| LedgerLocation::File(ledger_in(folder, ledger.sandbox))),
            output,
            input,
        }
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
        match ledger.map(|ledger| &ledger.location) {
            Some(LedgerLocation::File(path)) => {
                refuse_clashes(&[NamedFile::ledger(path), rejects()])
            }
            _ => Ok(()),
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
