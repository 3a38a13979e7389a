//! The first moment of a run's files: the inputs are found and read up to their first rows, and the places of the outputs are
//! checked. A run is a list of parts, an input and its output each; one file is a list of one. Nothing is made here, and the
//! ledger is not known yet.

use std::path::{Path, PathBuf};

use bytes::BytesMut;

use super::super::files::{
    InputFile, NamedFile, OutputDirectory, WrittenNames, check_name, find_inputs, is_finished,
    naming_the_other_run, refuse_clashes, rejects_beside, rejects_of,
};
use super::super::open_input::{InputFacts, OpenInput};
use super::input_check::refuse_broken;
use super::ledger::WrittenPlace;
use crate::base::directory::directory_of;
use crate::base::error::{Error, Result, shown};
use crate::config::{FilesConfig, InputLimits, LedgerChoice, LedgerConfig};
use crate::fields::UserRequest;
use crate::input::{Compose, Input, Reader, ReaderSettings, is_checked_for_long};
use crate::layout::{Format, Layout};
use crate::ledger::{LedgerLocation, Reuse, ledger_in};
use crate::observe::tell;
use crate::output::{Replace, Target};
use crate::service::{self, Plan};

/// The files of a run before it has its ledger.
pub(super) struct CheckedFiles {
    pub(super) parts: Vec<CheckedPart>,
    /// The directory of several outputs.
    pub(super) directory: Option<OutputDirectory>,
    /// The only output; `None` is standard output, or a directory.
    target: Option<Target>,
    pub(super) config: FilesConfig,
}

/// An input, and where its rows go.
pub(super) struct CheckedPart {
    pub(super) input: InputFile,
    /// `None` is standard output.
    pub(super) output: Option<PathBuf>,
    pub(super) found: Found,
}

/// What is known of an input.
pub(super) enum Found {
    /// It was not opened: not yet, or because its output is complete and the run does not ask for it again.
    Unread,
    /// It is a file of users.
    Users(Box<UsersFile>),
    /// It cannot be used.
    Unusable(Error),
}

/// An input that is a file of users.
pub(super) struct UsersFile {
    pub(super) facts: InputFacts,
    pub(super) layout: Layout,
    /// Who may read and write it, as a file's permission bits.
    pub(super) mode: u32,
    /// The only input stays open, as it may be a stream; one of several is opened again when its turn comes.
    pub(super) reader: Option<Reader>,
    /// Where its rows without a verdict go, if anywhere.
    pub(super) rejects: Option<PathBuf>,
}

/// How inputs are read up to their first rows.
pub(super) struct FirstRead {
    pub(super) plan: Plan,
    /// What the inputs must be like.
    pub(super) limits: InputLimits,
    /// Which answers of earlier runs are used.
    pub(super) reuse: Reuse,
    pub(super) shows_text: bool,
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
        let directory = { config.directory.as_ref() }
            .map(|path| OutputDirectory::check(path, &inputs))
            .transpose()?;
        let target = config.only_input().zip(config.output.as_deref());
        let target = target
            .map(|(input, output)| only_target(&input.file.input, output, &config, ledger))
            .transpose()?;
        let parts = inputs.into_iter().map(|input| CheckedPart {
            output: match &directory {
                Some(directory) => Some(directory.output_of(&input)),
                None => config.output.clone(),
            },
            input,
            found: Found::Unread,
        });
        Ok(Self {
            parts: parts.collect(),
            directory,
            target,
            config,
        })
    }

    /// Where the run writes.
    pub(super) fn written(&self) -> WrittenPlace<'_> {
        match (&self.directory, &self.target) {
            (Some(directory), _) => WrittenPlace::Directory(&directory.path),
            (None, Some(target)) if !target.is_special() => WrittenPlace::File(target.path()),
            _ => WrittenPlace::Stream,
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
    /// Exit code 2: an input cannot be used and that ends the run, or an output's name is wrong.
    pub(super) fn read(mut self, reading: &FirstRead) -> Result<Self> {
        let inputs = self.parts.iter().map(|part| part.input.settings.clone());
        let inputs: Vec<_> = inputs.collect();
        refuse_broken(reading.limits, &inputs, reading.shows_text)?;
        let mut sources = inputs.iter().map(|input| &input.file.input);
        if reading.shows_text && sources.any(is_checked_for_long) {
            let them = if inputs.len() > 1 { "inputs" } else { "input" };
            tell(&format!(
                "rescore: checking the compressed {them} before anything is sent"
            ));
        }
        let again = self.config.overwrite || reading.reuse == Reuse::Retry;
        let mut names = WrittenNames::default();
        let mut parts = std::mem::take(&mut self.parts);
        for part in &mut parts {
            part.found = match self.users(part, again, reading.plan) {
                Err(error) if self.stops_at_broken() => return Err(error),
                found => found.unwrap_or_else(Found::Unusable),
            };
            if self.directory.is_some() {
                { part.output.iter() }
                    .chain(part.found.rejects())
                    .try_for_each(|file| names.add(file, &part.input))?;
            }
        }
        self.parts = parts;
        Ok(self)
    }

    /// Opens an input and reads it up to its first rows. `again`: also one of several whose output is complete.
    fn users(&self, part: &CheckedPart, again: bool, plan: Plan) -> Result<Found> {
        let CheckedPart { input, output, .. } = part;
        let is_one_of_several = self.directory.is_some();
        if is_one_of_several && !again && output.as_deref().is_some_and(is_finished) {
            return Ok(Found::Unread);
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
        if !is_one_of_several {
            self.check_names(rejects.as_deref(), format)?;
        }
        Ok(Found::Users(Box::new(UsersFile {
            reader: (!is_one_of_several).then_some(opened.reader),
            facts: opened.facts,
            layout: opened.layout,
            mode: opened.mode,
            rejects,
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
    /// Exit code 2: they would, or a file beside the output exists and may not be replaced.
    pub(super) fn refuse_clashes(&self, read: &[NamedFile], written: &[NamedFile]) -> Result<()> {
        let FilesConfig {
            changes, report, ..
        } = &self.config;
        for part in &self.parts {
            let left = || part.output.as_deref().and_then(rejects_of);
            let rejects = part.found.rejects().cloned().or_else(left);
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
            // Checked again once the run holds its ledger, which a run that is refused now does not create.
            if let Some(output) = &self.target {
                { rejects.iter().chain(changes) }
                    .try_for_each(|path| output.refuse_existing_beside(path))?;
            }
        }
        Ok(())
    }

    /// The inputs that were opened.
    pub(super) fn opened(&self) -> impl Iterator<Item = &UsersFile> {
        self.parts.iter().filter_map(|part| match &part.found {
            Found::Users(users) => Some(&**users),
            _ => None,
        })
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

impl Found {
    /// Where rows without a verdict go, where that is known.
    fn rejects(&self) -> Option<&PathBuf> {
        match self {
            Self::Users(users) => users.rejects.as_ref(),
            _ => None,
        }
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

/// The path of an input that is a file, with links followed. The path of a pipe, such as `/dev/fd/63`, is another one each
/// time.
pub(super) fn real_path(input: &Input) -> Option<PathBuf> {
    match input {
        Input::File(path) if path.is_file() => path.canonicalize().ok(),
        Input::File(_) | Input::Stdin => None,
    }
}

/// Makes the bodies of requests for this plan.
pub(super) fn bodies(plan: Plan) -> Compose {
    Compose::new(move |request: &UserRequest<'_>, to: &mut BytesMut| {
        service::write_body(request, plan, to);
    })
}
