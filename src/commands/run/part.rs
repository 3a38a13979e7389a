//! A part of a run, an input and its output, in all its moments: read up to its first rows, then with its place in the outputs,
//! then open. Which other parts there are is not known here.

use std::path::PathBuf;

use bytes::BytesMut;

use super::super::files::InputFile;
use super::super::open_input::{InputFacts, OpenInput};
use super::disk_space;
use crate::base::error::{Error, Result};
use crate::fields::UserRequest;
use crate::input::{Compose, Input, Reader};
use crate::layout::Layout;
use crate::output::{Document, OutputFile, RowFiles, Target};
use crate::service::{self, Plan};

/// An input, and what is to be done with it.
pub(super) struct RunPart {
    pub(super) input: InputFile,
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

/// An input whose rows are to run: a file of users.
pub(super) struct PartToRun {
    /// What was found out about it before the first call.
    pub(super) facts: InputFacts,
    pub(super) layout: Layout,
    /// Who may read and write it, as a file's permission bits.
    pub(super) mode: u32,
    /// The only input stays open, as it may be a stream; one of several is opened again when its turn comes.
    pub(super) reader: Option<Reader>,
    /// Where its rows without a verdict go, if anywhere.
    pub(super) rejects: Option<PathBuf>,
    pub(super) plan: Plan,
    /// None until the ledger has said what may be replaced.
    pub(super) targets: Targets,
    /// The files that are written; `None` until they are open.
    pub(super) open: Option<RowFiles>,
}

/// The places of an output and of the files beside it, each of which may be made or replaced.
#[derive(Default)]
pub(super) struct Targets {
    /// `None` is standard output.
    pub(super) output: Option<Target>,
    pub(super) rejects: Option<Target>,
    pub(super) changes: Option<Target>,
    pub(super) report: Option<Target>,
    /// Rows of an earlier run are written again first.
    pub(super) continues: bool,
}

/// An input and its output, open.
pub(super) struct OpenPart {
    pub(super) input: OpenInput,
    pub(super) files: RowFiles,
    pub(super) writes_stdout: bool,
}

impl Turn {
    /// Where rows without a verdict go, or are.
    pub(super) const fn rejects(&self) -> Option<&PathBuf> {
        match self {
            Self::Run(part) => part.rejects.as_ref(),
            Self::Skip { rejects } => rejects.as_ref(),
            Self::Unusable(_) => None,
        }
    }
}

impl RunPart {
    /// Its rows, if they run.
    pub(super) fn to_run(&self) -> Option<&PartToRun> {
        match &self.turn {
            Turn::Run(part) => Some(part),
            _ => None,
        }
    }

    /// The path of its input with links followed; `None` for a stream. The path of a pipe, such as `/dev/fd/63`, is another
    /// one each time.
    pub(super) fn real_input(&self) -> Option<PathBuf> {
        real_path(&self.input.settings.file.input)
    }
}

impl PartToRun {
    /// Opens what is not open yet: the input again, and its files.
    ///
    /// # Errors
    /// Exit code 2: it cannot be used, or its output cannot be made. Exit code 3: the disk is full.
    pub(super) fn open(self, input: InputFile) -> Result<OpenPart> {
        let input = match self.reader {
            Some(reader) => OpenInput {
                reader,
                layout: self.layout,
                mode: self.mode,
                facts: self.facts,
            },
            None => OpenInput::open(input.settings, bodies(self.plan))?,
        };
        let files = match self.open {
            Some(open) => open,
            None => self.targets.open(input.mode, &input.facts)?,
        };
        Ok(OpenPart {
            input,
            files,
            writes_stdout: self.targets.output.is_none(),
        })
    }
}

impl Targets {
    /// Opens the files for rows. Only those who can read the input may read them.
    ///
    /// # Errors
    /// Exit code 2: one cannot be made. Exit code 3: the disk is full. Nothing is replaced then.
    pub(super) fn open(&self, mode: u32, input: &InputFacts) -> Result<RowFiles> {
        let size = input.size_of_rows();
        disk_space::for_the_next_rows(self.output.as_ref(), self.continues, size)?;
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
        let (rejects, changes) = (beside(&self.rejects)?, beside(&self.changes)?);
        Ok(RowFiles::new(output, rejects, changes))
    }

    /// Opens the report, if there is one.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub(super) fn open_report(&self, mode: u32) -> Result<Option<Document>> {
        let report = self.report.as_ref();
        let report = report.map(|target| target.open(self.beside(mode)).map(Document::new));
        report.transpose().map_err(disk_space::at_the_start)
    }

    /// Next to an output whose mode was narrowed by hand, the other files are as narrow.
    fn beside(&self, mode: u32) -> u32 {
        mode & self.output.as_ref().and_then(Target::mode).unwrap_or(mode)
    }
}

/// The path of an input that is a file, with links followed; `None` for a stream.
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
