//! The files of a run while it is prepared, whether it has one input or several: where they are ([`FilesPlace`]), then what
//! was read of the inputs ([`CheckedFiles`]), then ready to run ([`PreparedFiles`]).

use std::path::{Path, PathBuf};
use std::slice::from_ref;
use std::sync::Arc;

use super::super::files::SummaryFile;
use super::super::input_check::InputCheck;
use super::super::lock_wait::LockWait;
use super::super::open_input::{InputFacts, OpenInput};
use super::bodies::bodies;
use super::file::{OpenFile, real_path};
use super::ledger::PreparedLedger;
use super::output_files::{OutputFiles, OutputPlace};
use super::parts::{CheckedParts, PartsPlace, PlannedParts};
use super::run_wide_files::RunWideFiles;
use crate::base::directory::directory_of;
use crate::base::error::Result;
use crate::config::{FilesConfig, InputLimits, LedgerConfig, WatchConfig};
use crate::input::ReaderSettings;
use crate::layout::Format;
use crate::ledger::Reuse;
use crate::output::Document;
use crate::service::Plan;

/// Where the files of a run are, checked without reading an input.
pub(super) enum FilesPlace {
    /// One input to one output.
    One(Box<ReaderSettings>, OutputPlace),
    /// Several inputs, each to a file in a directory.
    Parts(PartsPlace),
}

/// The files of a run whose inputs were read up to their first rows.
pub(super) enum CheckedFiles {
    /// The input is open.
    One(Box<OpenInput>, Box<InputCheck>, OutputFiles),
    /// Each input is opened again when its turn comes.
    Parts(CheckedParts),
}

/// The files of a run that is ready to start.
pub(super) enum PreparedFiles {
    /// One input to one output, open.
    One(Box<OpenFile>),
    /// Several inputs, each opened when its turn comes.
    Parts(PlannedParts),
}

/// The files of a run that is ready to start, with those that it writes once.
pub(super) struct ReadyFiles {
    pub(super) files: PreparedFiles,
    /// Where the summary goes as JSON.
    pub(super) summary: Option<SummaryFile>,
    /// Where the report goes.
    pub(super) report: Option<Document>,
}

/// How inputs are opened and read up to their first rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpeningSettings<'a> {
    pub(super) plan: Plan,
    /// What the inputs must be like.
    pub(super) limits: InputLimits,
    /// Whether words for people are shown.
    pub(super) shows_text: bool,
    /// Which answers of earlier runs are used.
    pub(super) reuse: Reuse,
    /// Where the summary goes.
    pub(super) summary: Option<&'a Path>,
}

impl<'a> OpeningSettings<'a> {
    /// How the inputs of a run with these settings are read.
    pub(super) fn of(
        plan: Plan,
        limits: InputLimits,
        ledger: &LedgerConfig,
        watch: &'a WatchConfig,
    ) -> Self {
        Self {
            plan,
            limits,
            shows_text: watch.shows_text(),
            reuse: ledger.reuse,
            summary: watch.summary.as_deref(),
        }
    }
}

impl FilesPlace {
    /// Checks the places as far as possible before the run has locked them.
    ///
    /// # Errors
    /// Exit code 2: a file cannot be there, or may not be replaced.
    pub(super) fn check(files: FilesConfig, ledger: &LedgerConfig) -> Result<Self> {
        Ok(match files {
            FilesConfig::One(one) => {
                let output = OutputPlace::check(one.output, &one.input.file.input, ledger)?;
                Self::One(Box::new(one.input), output)
            }
            FilesConfig::Parts(parts) => Self::Parts(PartsPlace::check(parts)?),
        })
    }

    /// The folder that the run writes to, and its file or directory; `None` is a stream.
    pub(super) fn written(&self) -> (&Path, Option<&Path>) {
        match self {
            Self::One(_, output) => match &output.target {
                Some(target) if !target.is_special() => {
                    (directory_of(target.path()), Some(target.path()))
                }
                _ => (Path::new("."), None),
            },
            Self::Parts(parts) => (parts.directory(), Some(parts.directory())),
        }
    }

    /// Reads the inputs up to their first rows, or as far as needed to see that they are as they must be.
    ///
    /// # Errors
    /// Exit code 2: an input cannot be read, or is not a file of users, or is broken; or an output's name is wrong.
    pub(super) fn read(self, reading: OpeningSettings<'_>) -> Result<CheckedFiles> {
        let OpeningSettings {
            plan,
            limits,
            shows_text,
            reuse,
            summary,
        } = reading;
        match self {
            Self::One(settings, output) => {
                let mut check = InputCheck::new(limits, from_ref(&*settings), shows_text)?;
                let mut input = OpenInput::open(*settings, bodies(plan), shows_text)?;
                check.hold_back(&mut input.reader)?;
                let format = input.layout.format;
                let files = OutputFiles::new(output, summary.map(Path::to_owned), format)?;
                Ok(CheckedFiles::One(Box::new(input), Box::new(check), files))
            }
            Self::Parts(parts) => {
                InputCheck::new(limits, &parts.settings(), shows_text)?;
                let again = parts.overwrites() || reuse == Reuse::Retry;
                let parts = parts.read(plan, again, shows_text)?;
                Ok(CheckedFiles::Parts(parts))
            }
        }
    }
}

impl CheckedFiles {
    /// Fails when any two of the files that the run reads or writes would be one.
    pub(super) fn refuse_clashes(&self, run: &RunWideFiles) -> Result<()> {
        match self {
            Self::One(input, _, files) => files.refuse_clashes(&input.facts.source, run),
            Self::Parts(parts) => parts.refuse_clashes(run),
        }
    }

    /// The inputs that were opened, with their formats.
    pub(super) fn opened(&self) -> Vec<(&InputFacts, Format)> {
        match self {
            Self::One(input, ..) => vec![(&input.facts, input.layout.format)],
            Self::Parts(parts) => parts.opened().collect(),
        }
    }

    /// The file or directory by which a stopped run is known when it is continued; `None` where it writes to standard output
    /// alone.
    pub(super) fn identifying_file(&self) -> Option<&Path> {
        match self {
            Self::One(.., files) => files.identifying_file(),
            Self::Parts(parts) => Some(parts.directory()),
        }
    }

    /// The input by which a stopped run is known as well; `None` is a stream, or several files.
    pub(super) fn identifying_input(&self) -> Option<PathBuf> {
        match self {
            Self::One(input, ..) => real_path(&input.facts.source),
            Self::Parts(_) => None,
        }
    }

    /// Makes the directory of several outputs, in which their ledger is.
    ///
    /// # Errors
    /// Exit code 2: it cannot be made.
    pub(super) fn make_directory(&self) -> Result<()> {
        match self {
            Self::One(..) => Ok(()),
            Self::Parts(parts) => parts.make_directory(),
        }
    }

    /// Opens what is written, or decides what is to be done with each of several inputs.
    ///
    /// # Errors
    /// Exit code 2: a file exists and may not be replaced, or cannot be made. Exit code 3: the disk is full. Exit
    /// code 75: another run is writing one.
    pub(super) fn open(
        self,
        ledger: &mut PreparedLedger,
        watch: &WatchConfig,
        wait: &LockWait<'_>,
    ) -> Result<ReadyFiles> {
        match self {
            Self::One(input, check, files) => {
                let real_input = real_path(&input.facts.source);
                let files = files.open(ledger, real_input.as_deref(), &input, wait)?;
                Ok(ReadyFiles {
                    files: PreparedFiles::One(Box::new(OpenFile {
                        input: input.facts,
                        real_input,
                        output: files.output,
                        reader: input.reader,
                        check: *check,
                        layout: input.layout,
                        sink: files.sink,
                        sides: files.sides,
                    })),
                    summary: files.summary,
                    report: files.report,
                })
            }
            Self::Parts(parts) => {
                let mode = parts.mode();
                let parts = parts.plan(ledger)?;
                let summary =
                    { watch.summary.as_ref() }.map(|path| SummaryFile::create(path, mode));
                Ok(ReadyFiles {
                    files: PreparedFiles::Parts(parts),
                    summary: summary.transpose()?,
                    report: None,
                })
            }
        }
    }
}

impl PreparedFiles {
    /// Whether any rows are to run.
    pub(super) fn has_rows(&self) -> bool {
        match self {
            Self::One(_) => true,
            Self::Parts(parts) => parts.any_to_run(),
        }
    }

    /// Whether the input is known to have bytes behind its compressed data. Of several inputs each is named at its end.
    pub(super) fn ignored_at_start(&self) -> bool {
        match self {
            Self::One(file) => file.input.ignored_at_start,
            Self::Parts(_) => false,
        }
    }

    /// The size of all inputs, where it is known.
    pub(super) fn size(&self) -> Option<u64> {
        match self {
            Self::One(file) => file.input.size,
            Self::Parts(parts) => parts.size(),
        }
    }

    /// The names of the inputs, where there are several.
    pub(super) fn names(&self) -> Vec<Arc<str>> {
        match self {
            Self::One(_) => Vec::new(),
            Self::Parts(parts) => parts.names(),
        }
    }
}
