//! The first moment of a run's files: the inputs are found and read up to their first rows, and the places of the outputs are
//! checked. A run is a list of parts, an input and its output each; one file is a list of one. Nothing is made here, and the
//! ledger is not known yet.

use std::path::{Path, PathBuf};

use super::super::files::{
    InputFile, NamedFile, OutputDirectory, WrittenNames, check_name, find_inputs, is_finished,
    naming_the_other_run, refuse_clashes, rejects_beside, rejects_of,
};
use super::super::input_check::refuse_broken;
use super::super::open_input::OpenInput;
use super::part::{PartToRun, RunPart, Targets, Turn, bodies, real_path};
use crate::base::directory::directory_of;
use crate::base::error::{Error, Result, shown};
use crate::config::{FilesConfig, InputLimits, LedgerChoice, LedgerConfig};
use crate::input::{Input, ReaderSettings, is_checked_for_long, refuse_missing};
use crate::layout::Format;
use crate::ledger::{LedgerLocation, Reuse, ledger_in};
use crate::observe::tell;
use crate::output::{Replace, Target};
use crate::service::Plan;

/// The files of a run before it has its ledger.
pub(super) struct CheckedFiles {
    /// Those that are skipped were not opened, as their outputs are complete and the run does not ask for them again.
    pub(super) parts: Vec<RunPart>,
    /// The directory of several outputs.
    pub(super) directory: Option<OutputDirectory>,
    /// The only output; `None` is standard output, or a directory.
    target: Option<Target>,
    /// One of several inputs is also read if its output is complete.
    again: bool,
    pub(super) config: FilesConfig,
}

impl CheckedFiles {
    /// Finds the inputs and checks where the outputs go, as far as possible before the run has locked them. No input is read
    /// yet: nobody should wait for a pipe only to be told that the output exists.
    ///
    /// # Errors
    /// Exit code 2: an input is not a name, or a file cannot be there or may not be replaced. Exit code 75: another run is
    /// writing it.
    pub(super) fn check(config: FilesConfig, ledger: &LedgerConfig) -> Result<Self> {
        let inputs = match &config.directory {
            Some(_) => find_inputs(config.inputs.clone())?,
            None => config.inputs.iter().map(input_file).collect(),
        };
        if let Some(only) = config.only_input() {
            refuse_missing(&only.file.input)?;
        }
        let directory = { config.directory.as_ref() }
            .map(|path| OutputDirectory::check(path, &inputs))
            .transpose()?;
        let target = config.only_input().zip(config.output.as_deref());
        let target = target
            .map(|(input, output)| only_target(&input.file.input, output, &config, ledger))
            .transpose()?;
        let parts = inputs.into_iter().map(|input| RunPart {
            output: match &directory {
                Some(directory) => Some(directory.output_of(&input)),
                None => config.output.clone(),
            },
            input,
            turn: Turn::Skip { rejects: None },
        });
        Ok(Self {
            parts: parts.collect(),
            directory,
            target,
            again: config.overwrite || ledger.reuse == Reuse::Retry,
            config,
        })
    }

    /// The folder that the run writes to, and its file or directory; `None` is a stream.
    pub(super) fn written(&self) -> (&Path, Option<&Path>) {
        match (&self.directory, &self.target) {
            (Some(directory), _) => (&directory.path, Some(&directory.path)),
            (None, Some(target)) if !target.is_special() => {
                (directory_of(target.path()), Some(target.path()))
            }
            _ => (Path::new("."), None),
        }
    }

    /// Whether an input that cannot be used ends the run, or it continues with the others.
    pub(super) const fn stops_at_broken(&self) -> bool {
        self.directory.is_none() || self.config.fail_fast
    }

    /// Reads the inputs up to their first rows, or as far as needed to see that they are as they must be. Those whose output
    /// is complete are skipped, unless the run asks for them again.
    ///
    /// # Errors
    /// Exit code 2: an input cannot be used and that ends the run, or two outputs would have one name.
    pub(super) fn read(
        mut self,
        plan: Plan,
        limits: InputLimits,
        shows_text: bool,
    ) -> Result<Self> {
        let inputs = self.parts.iter().map(|part| part.input.settings.clone());
        let inputs: Vec<_> = inputs.collect();
        refuse_broken(limits, &inputs, shows_text)?;
        let mut sources = inputs.iter().map(|input| &input.file.input);
        if shows_text && sources.any(is_checked_for_long) {
            let them = if inputs.len() > 1 { "inputs" } else { "input" };
            tell(&format!(
                "rescore: checking the compressed {them} before anything is sent"
            ));
        }
        let mut names = WrittenNames::default();
        let mut parts = std::mem::take(&mut self.parts);
        for part in &mut parts {
            part.turn = match self.turn(part, plan) {
                Err(error) if self.stops_at_broken() => return Err(error),
                turn => turn.unwrap_or_else(Turn::Unusable),
            };
            if self.directory.is_some() {
                { part.output.iter() }
                    .chain(part.turn.rejects())
                    .try_for_each(|file| names.add(file, &part.input))?;
            }
        }
        self.parts = parts;
        Ok(self)
    }

    /// Opens an input and reads it up to its first rows.
    fn turn(&self, part: &RunPart, plan: Plan) -> Result<Turn> {
        let RunPart { input, output, .. } = part;
        let is_one_of_several = self.directory.is_some();
        if is_one_of_several
            && !self.again
            && let Some(output) = output.as_deref().filter(|output| is_finished(output))
        {
            return Ok(Turn::Skip {
                rejects: rejects_of(output),
            });
        }
        if is_one_of_several && input.path.metadata().is_ok_and(|there| !there.is_file()) {
            // What is read from a pipe now could not be read again.
            return Err(Error::usage(format!(
                "cannot read `{}`: one of several inputs must be a regular file",
                shown(&input.path)
            )));
        }
        let opened = OpenInput::open(input.settings.clone(), bodies(plan), false)?;
        let format = opened.layout.format;
        // Next to `/dev/null` there is no place for files.
        let is_special = self.target.as_ref().is_some_and(Target::is_special);
        let rejects = match (&self.config.rejects, output) {
            (None, Some(output)) if !is_special => {
                Some(rejects_beside(output, format.extension())?)
            }
            (named, _) => named.clone(),
        };
        Ok(Turn::Run(Box::new(PartToRun {
            plan,
            reader: (!is_one_of_several).then_some(opened.reader),
            facts: opened.facts,
            layout: opened.layout,
            mode: opened.mode,
            rejects,
            targets: Targets::default(),
            open: None,
        })))
    }

    /// Fails when the name of a file for rows says another format than they have: programs go by the name.
    fn check_names(&self, rejects: Option<&Path>, format: Format) -> Result<()> {
        let output = self.target.as_ref().filter(|output| !output.is_special());
        [
            ("--output", output.map(Target::path)),
            ("--rejects", rejects),
            ("--changes", self.config.changes.as_deref()),
        ]
        .into_iter()
        .filter_map(|(flag, path)| Some((flag, path?)))
        .try_for_each(|(flag, path)| check_name(flag, path, format))
    }

    /// Fails when any two of the files that the run reads or writes would be one; `read` and `written` are those that it reads
    /// and writes once, however many inputs it has.
    ///
    /// # Errors
    /// Exit code 2: they would, the name of a file does not fit its format, or a file beside the output exists and may not be
    /// replaced.
    pub(super) fn refuse_clashes(&self, read: &[NamedFile], written: &[NamedFile]) -> Result<()> {
        let FilesConfig {
            changes, report, ..
        } = &self.config;
        for part in &self.parts {
            let left = || part.output.as_deref().and_then(rejects_of);
            let rejects = part.turn.rejects().cloned().or_else(left);
            let beside = [
                ("rejects", &rejects),
                ("changes", changes),
                ("report", report),
            ];
            let beside = beside
                .into_iter()
                .filter_map(|(what, path)| Some(NamedFile::partial(what, path.as_deref()?)));
            let mut files = Vec::from_iter(NamedFile::input(&part.input.settings.file.input));
            files.extend_from_slice(read);
            files.extend(part.output.as_deref().map(NamedFile::output));
            files.extend(beside);
            files.extend_from_slice(written);
            refuse_clashes(&files)?;
            if let Some(only) = part.to_run().filter(|_| self.directory.is_none()) {
                self.check_names(rejects.as_deref(), only.layout.format)?;
            }
            // Checked again once the run holds its ledger, which a run that is refused now does not create.
            if let Some(output) = &self.target {
                { rejects.iter().chain(changes) }
                    .try_for_each(|path| output.refuse_existing_beside(path))?;
            }
        }
        Ok(())
    }

    /// Makes the directory of several outputs, in which their ledger is.
    ///
    /// # Errors
    /// Exit code 2: it cannot be made.
    pub(super) fn make_directory(&self) -> Result<()> {
        self.directory
            .as_ref()
            .map_or(Ok(()), OutputDirectory::make)
    }

    /// The file or directory by which a stopped run is known when it is continued; `None` where it writes to standard output
    /// alone.
    pub(super) fn identifying_file(&self) -> Option<&Path> {
        match &self.directory {
            Some(directory) => Some(&directory.path),
            None => { self.target.as_ref().map(Target::path) }.or(self.config.changes.as_deref()),
        }
    }

    /// The input by which a stopped run is known as well; `None` is a stream, or several files.
    pub(super) fn identifying_input(&self) -> Option<PathBuf> {
        real_path(&self.config.only_input()?.file.input)
    }
}

/// The only input as one of a list.
fn input_file(settings: &ReaderSettings) -> InputFile {
    InputFile {
        path: match &settings.file.input {
            Input::File(path) => path.clone(),
            Input::Stdin => PathBuf::from("-"),
        },
        settings: settings.clone(),
    }
}

/// The only output. It is checked again when the run holds the ledger, so that no other run can write it any more.
fn only_target(
    input: &Input,
    output: &Path,
    config: &FilesConfig,
    ledger: &LedgerConfig,
) -> Result<Target> {
    if let Some(input) = NamedFile::input(input) {
        // Before anything else: no message may suggest overwriting the input.
        refuse_clashes(&[input, NamedFile::output(output)])?;
    }
    let mut real_output = output.to_owned();
    let target = Target::new(output, |real| {
        real.clone_into(&mut real_output);
        if config.overwrite {
            Replace::Whole
        } else {
            replaceable(real, input, ledger)
        }
    });
    target.map_err(|error| naming_the_other_run(error, &real_output))
}

/// What may be replaced at the output's path: what a run may have left that its ledger knows. The ledger has the last word, once
/// the run has locked the output.
fn replaceable(output: &Path, input: &Input, ledger: &LedgerConfig) -> Replace {
    let has_answers = |ledger: &Path| ledger.metadata().is_ok_and(|file| file.len() > 0);
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
