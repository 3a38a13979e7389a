//! What can be known of the inputs before anything is made: each of them is opened once, to its first rows.

use std::path::{Path, PathBuf};

use super::super::super::files::{
    InputFile, NamedFile, OutputDirectory, WrittenNames, find_inputs, is_finished, refuse_clashes,
    rejects_beside, rejects_of,
};
use super::super::super::open_input::{InputFacts, OpenInput};
use super::super::bodies::bodies;
use super::super::run_wide_files::RunWideFiles;
use crate::base::error::{Error, Result, shown};
use crate::config::PartsConfig;
use crate::input::{ReaderSettings, is_checked_for_long};
use crate::layout::Format;
use crate::observe::tell;
use crate::service::Plan;

/// Where the rows of several inputs go, checked as far as that is possible without reading them.
pub(in crate::commands::run) struct PartsPlace {
    inputs: Vec<InputFile>,
    directory: OutputDirectory,
    overwrite: bool,
    fail_fast: bool,
}

/// Several inputs, each read once up to its first rows.
pub(in crate::commands::run) struct CheckedParts {
    pub(super) parts: Vec<CheckedPart>,
    pub(super) directory: OutputDirectory,
    pub(super) overwrite: bool,
    pub(super) fail_fast: bool,
    pub(super) plan: Plan,
}

/// One of several inputs.
pub(super) struct CheckedPart {
    pub(super) input: InputFile,
    pub(super) output: PathBuf,
    pub(super) found: Found,
}

/// What was found out about an input.
pub(super) enum Found {
    /// Its output is there, and the run does not ask for it again: it was not opened.
    HasOutput,
    /// It is a file of users.
    Users(Box<UsersFile>),
    /// It cannot be used.
    Unusable(Error),
}

/// An input that is a file of users.
pub(super) struct UsersFile {
    pub(super) facts: InputFacts,
    pub(super) format: Format,
    /// Who may read and write it, as a file's permission bits.
    pub(super) mode: u32,
    pub(super) rejects: PathBuf,
}

impl PartsPlace {
    /// Finds the inputs, and checks the directory of their outputs.
    ///
    /// # Errors
    /// Exit code 2: an input is not a name, two have the same one, or the directory cannot be used.
    pub(in crate::commands::run) fn check(config: PartsConfig) -> Result<Self> {
        let inputs = find_inputs(config.inputs)?;
        let directory = OutputDirectory::check(&config.directory, &inputs)?;
        Ok(Self {
            inputs,
            directory,
            overwrite: config.overwrite,
            fail_fast: config.fail_fast,
        })
    }

    /// The directory of the outputs, by which the run is known.
    pub(in crate::commands::run) fn directory(&self) -> &Path {
        &self.directory.path
    }

    /// Whether outputs that exist may be replaced.
    pub(in crate::commands::run) const fn overwrites(&self) -> bool {
        self.overwrite
    }

    /// How the inputs are read.
    pub(in crate::commands::run) fn settings(&self) -> Vec<ReaderSettings> {
        let inputs = self.inputs.iter();
        inputs.map(|input| input.settings.clone()).collect()
    }

    /// Opens each input and reads it up to its first rows. `again`: also those whose output is there.
    ///
    /// # Errors
    /// Exit code 2: two files would have the same name; with `--fail-fast` also an input that cannot be used.
    pub(in crate::commands::run) fn read(
        self,
        plan: Plan,
        again: bool,
        shows_text: bool,
    ) -> Result<CheckedParts> {
        let mut inputs = self.inputs.iter().map(|input| &input.settings.file.input);
        if shows_text && inputs.any(is_checked_for_long) {
            tell("rescore: checking the compressed inputs before anything is sent");
        }
        let mut names = WrittenNames::default();
        let mut parts = Vec::with_capacity(self.inputs.len());
        for input in self.inputs {
            let output = self.directory.output_of(&input);
            let found = if !again && is_finished(&output) {
                Found::HasOutput
            } else {
                users(&input, &output, plan)
                    .map_or_else(Found::Unusable, |users| Found::Users(Box::new(users)))
            };
            let found = match found {
                Found::Unusable(error) if self.fail_fast => return Err(error),
                found => found,
            };
            names.add(&output, &input)?;
            if let Found::Users(users) = &found {
                names.add(&users.rejects, &input)?;
            }
            parts.push(CheckedPart {
                input,
                output,
                found,
            });
        }
        Ok(CheckedParts {
            parts,
            directory: self.directory,
            overwrite: self.overwrite,
            fail_fast: self.fail_fast,
            plan,
        })
    }
}

impl CheckedParts {
    /// The directory of the outputs, by which the run is known.
    pub(in crate::commands::run) fn directory(&self) -> &Path {
        &self.directory.path
    }

    /// Makes the directory of the outputs.
    ///
    /// # Errors
    /// Exit code 2: it cannot be made.
    pub(in crate::commands::run) fn make_directory(&self) -> Result<()> {
        self.directory.make()
    }

    /// The inputs that were opened, with their formats.
    pub(in crate::commands::run) fn opened(&self) -> impl Iterator<Item = (&InputFacts, Format)> {
        self.parts.iter().filter_map(|part| match &part.found {
            Found::Users(users) => Some((&users.facts, users.format)),
            _ => None,
        })
    }

    /// Who may read what is written about all inputs: those who may read each of them.
    pub(in crate::commands::run) fn mode(&self) -> u32 {
        let modes = self.parts.iter().filter_map(|part| match &part.found {
            Found::Users(users) => Some(users.mode),
            _ => None,
        });
        modes.fold(EVERYBODY, |all, mode| all & mode)
    }

    /// Fails when a file that belongs to one input would be one of those that belong to the whole run.
    pub(in crate::commands::run) fn refuse_clashes(&self, run: &RunWideFiles) -> Result<()> {
        for part in &self.parts {
            let mut files = vec![NamedFile::input_at(&part.input.path)];
            files.extend(run.read());
            files.push(NamedFile::output(&part.output));
            let rejects = match &part.found {
                Found::Users(users) => Some(users.rejects.clone()),
                Found::HasOutput | Found::Unusable(_) => rejects_of(&part.output),
            };
            files.extend({ rejects.as_deref() }.map(|path| NamedFile::partial("rejects", path)));
            files.extend(run.written());
            refuse_clashes(&files)?;
        }
        Ok(())
    }
}

/// The permission bits of a file that restricts nobody.
const EVERYBODY: u32 = 0o666;

/// Opens an input and reads it up to its first rows.
fn users(input: &InputFile, output: &Path, plan: Plan) -> Result<UsersFile> {
    let is_other = input.path.metadata().is_ok_and(|there| !there.is_file());
    if is_other {
        // What is read from a pipe now could not be read again.
        return Err(Error::usage(format!(
            "cannot read `{}`: one of several inputs must be a regular file",
            shown(&input.path)
        )));
    }
    let opened = OpenInput::open(input.settings.clone(), bodies(plan), false)?;
    let format = opened.layout.format;
    Ok(UsersFile {
        rejects: rejects_beside(output, format.extension())?,
        facts: opened.facts,
        format,
        mode: opened.mode,
    })
}
