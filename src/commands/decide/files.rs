//! The files that are written: checked before the input is read, opened when it is known to be a scored file.

use std::path::PathBuf;

use super::super::files::{
    NamedFile, SummaryFile, check_name, naming_the_other_run, refuse_clashes,
};
use crate::base::error::Result;
use crate::config::DecideOutput;
use crate::input::Input;
use crate::layout::Format;
use crate::output::{OutputFile, Replace, RowFiles, Target};

/// The files, named and checked.
pub(super) struct DecideFiles {
    /// `None` is standard output.
    output: Option<Target>,
    changes: Option<Target>,
    summary: Option<PathBuf>,
}

/// The files, open.
pub(super) struct OpenDecideFiles {
    pub(super) rows: RowFiles,
    pub(super) summary: Option<SummaryFile>,
}

impl DecideFiles {
    /// Checks the files.
    ///
    /// # Errors
    /// Exit code 2: two of them are one file, or one exists and may not be replaced, or cannot be made there.
    pub(super) fn check(config: DecideOutput, input: &Input) -> Result<Self> {
        let DecideOutput {
            path,
            changes,
            summary,
            overwrite,
        } = config;
        let mut files = Vec::from_iter(NamedFile::input(input));
        files.extend(path.as_deref().map(NamedFile::output));
        files.extend(
            changes
                .as_deref()
                .map(|path| NamedFile::partial("changes", path)),
        );
        files.extend(
            summary
                .as_deref()
                .map(|path| NamedFile::new("summary", path)),
        );
        refuse_clashes(&files)?;
        let replace = if overwrite {
            Replace::Whole
        } else {
            Replace::Nothing
        };
        let target = |path: PathBuf| {
            let mut real = path.clone();
            let target = Target::new(&path, |followed| {
                followed.clone_into(&mut real);
                replace
            });
            target.map_err(|error| naming_the_other_run(error, &real))
        };
        Ok(Self {
            output: path.map(target).transpose()?,
            changes: changes.map(target).transpose()?,
            summary,
        })
    }

    /// The files that are there under another name until they are complete.
    pub(super) fn partial(&self) -> Vec<PathBuf> {
        let files = [&self.output, &self.changes].into_iter().flatten();
        files.filter_map(Target::partial).collect()
    }

    /// Opens the files for rows of this format. Only those who can read the input may read them.
    ///
    /// # Errors
    /// Exit code 2: a file has the name of another format, or cannot be made. Exit code 3: the disk is full.
    pub(super) fn open(self, format: Format, mode: u32) -> Result<OpenDecideFiles> {
        let (output, changes) = (self.output.as_ref(), self.changes.as_ref());
        for (flag, target) in [("--output", output), ("--changes", changes)] {
            if let Some(target) = target.filter(|target| !target.is_special()) {
                check_name(flag, target.path(), format)?;
            }
        }
        let summary = self.summary.map(|path| SummaryFile::create(&path, mode));
        // Next to an output whose mode was narrowed by hand, the changes are as narrow.
        let beside = mode & output.and_then(Target::mode).unwrap_or(mode);
        let open = |target: &Target| {
            let opened = target.open(mode);
            opened.map_err(|error| naming_the_other_run(error, target.path()))
        };
        let output = output.map_or_else(OutputFile::stdout, open)?;
        let changes = changes.map(|target| target.open(beside)).transpose()?;
        Ok(OpenDecideFiles {
            rows: RowFiles::new(output, None, changes),
            summary: summary.transpose()?,
        })
    }
}
