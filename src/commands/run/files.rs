//! The files of a run, which is a list of parts, an input and its output each; one file is a list of one. First the inputs are
//! found and the places of the outputs are checked; then the inputs are read up to their first rows; at last, when the ledger
//! is known, it is decided which files may be replaced, and the outputs are opened. One of several parts is opened only when its
//! rows are to run.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::ledger::{PreparedLedger, ledger_account, reading};
use crate::analysis::PastVerdicts;
use crate::base::error::{Error, Result};
use crate::base::money::Money;
use crate::base::private_file::Readers;
use crate::base::text::{display, quoted};
use crate::commands::files::LockWait;
use crate::commands::files::{
    NamedFile, Targets, check_name, is_finished, is_newer, output_directory, refuse_clashes,
    refuse_outdated, rejects_beside, rejects_of,
};
use crate::commands::inputs::{find_inputs, name_of, open_users, path_of, read_past};
use crate::commands::text::SummaryFile;
use crate::config::{FilesConfig, LedgerConfig};
use crate::input::{Input, Opened, Reader, ReaderSettings, refuse_missing};
use crate::ledger::{self, LedgerSettings, OutputState, Reuse, ServerWait};
use crate::observe::counted;
use crate::output::{Document, Replace, RowFiles, Target, partial_of};
use crate::raw_json::Pointer;
use crate::selection::Selection;
use crate::service::{Account, ApiKeys, Plan};
use crate::verdict::Thresholds;

/// The files of a run, or of the run that a check is about.
pub(crate) struct Files {
    pub(crate) parts: Vec<RunPart>,
    /// The directory of several outputs.
    pub(crate) directory: Option<PathBuf>,
    /// The only output; `None` is standard output, or a directory.
    target: Option<Target>,
    config: FilesConfig,
    /// One of several inputs is also read if its output is complete.
    again: bool,
    /// Which rows of each input run.
    pub(super) selection: Selection,
    /// Where the summary and the report go, once they are open.
    pub(super) summary: Option<SummaryFile>,
    pub(super) report: Option<Document>,
}

/// An input, its output, and its state.
pub(crate) struct RunPart {
    pub(crate) input: ReaderSettings,
    /// `None` is standard output.
    pub(crate) output: Option<PathBuf>,
    /// Where its rows without a verdict go or are, if anywhere.
    pub(super) rejects: Option<PathBuf>,
    pub(crate) state: PartState,
}

/// What happens to an input in this run.
pub(crate) enum PartState {
    /// It was not looked at yet, or it is done.
    None,
    /// Its rows run.
    Run(Box<OpenPart>),
    /// An earlier run has finished it.
    Skip,
    /// It cannot be used.
    Unusable(Error),
}

/// An input whose rows are to run, and its output.
pub(crate) struct OpenPart {
    /// The input as it was found before the first call.
    pub(super) opened: Opened,
    /// The only input stays open, as it may be a stream; one of several is opened again when its rows run.
    reader: Option<Reader>,
    plan: Plan,
    /// The size of a file and when it was modified, before its rows were counted.
    counted: Option<(u64, SystemTime)>,
    /// The verdicts of the output that is replaced, if they are compared by a key.
    pub(super) past: Option<PastVerdicts>,
    /// None until the ledger has said what may be replaced.
    targets: Targets,
    /// The files that are written; `None` until they are open.
    files: Option<RowFiles>,
}

impl RunPart {
    /// Its rows, if they run.
    pub(super) fn to_run(&self) -> Option<&OpenPart> {
        match &self.state {
            PartState::Run(part) => Some(part),
            _ => None,
        }
    }

    /// Whether its input can be read more than once.
    pub(super) fn is_file(&self) -> bool {
        self.input.file.input.path().is_some_and(Path::is_file)
    }

    /// The output that is there, if its rows run and would replace it.
    pub(super) fn replaced(&self) -> Option<&Path> {
        let output = self.to_run().and(self.output.as_deref());
        output.filter(|output| output.is_file())
    }

    /// The path of its input with links followed; `None` for a stream. The path of a pipe, such as `/dev/fd/63`, is another
    /// one each time.
    pub(super) fn real_input(&self) -> Option<PathBuf> {
        let path = self.input.file.input.path();
        path.filter(|path| path.is_file())?.canonicalize().ok()
    }
}

impl Files {
    /// Finds the inputs, and where their outputs go.
    ///
    /// # Errors
    /// Exit code 2: an input is not a name, or would be overwritten by its output.
    pub(crate) fn find(config: FilesConfig, reuse: Reuse) -> Result<Self> {
        let inputs = find_inputs(&config.inputs)?;
        if let [only] = &*inputs {
            refuse_missing(&only.file.input)?;
        }
        let directory = config.directory.as_deref();
        let directory = directory.map(output_directory).transpose()?;
        let selection = inputs
            .first()
            .map(|input| input.selection)
            .unwrap_or_default();
        let mut parts = Vec::with_capacity(inputs.len());
        for input in inputs {
            let output = match &directory {
                Some(directory) => Some(directory.join(name_of(&input))),
                None => config.output.clone(),
            };
            // Before anything else: no message may suggest overwriting the input.
            refuse_clashes(&input.file.input, &[("output", output.as_deref())])?;
            parts.push(RunPart {
                input,
                output,
                rejects: None,
                state: PartState::None,
            });
        }
        let output = config.output.as_deref();
        Ok(Self {
            parts,
            directory,
            target: output.and_then(|output| Target::new(output, Replace::Whole).ok()),
            again: config.overwrite || reuse == Reuse::Retry,
            selection,
            config,
            summary: None,
            report: None,
        })
    }

    /// Checks where the only output goes, before its input is read. When the run holds its ledger, it is also known whether what
    /// is there may be replaced.
    ///
    /// # Errors
    /// Exit code 2: there can be no file there, or several inputs have one output. Exit code 75: another run is writing it.
    pub(super) fn check_output(&self) -> Result<()> {
        if self.only().is_none() && self.directory.is_none() {
            return Err(
                Error::usage("several inputs need a directory for their outputs")
                    .hint("name one with `--output-dir DIR`"),
            );
        }
        let Some(output) = &self.config.output else {
            return Ok(());
        };
        // It cannot be known whether a stream has the rows that are there.
        let mut inputs = self.parts.iter().map(|part| &part.input.file.input);
        let replace = match inputs.next() {
            Some(Input::Stdin) if !self.config.overwrite => Replace::Partial,
            _ => Replace::Whole,
        };
        Target::new(output, replace).map(drop)
    }

    /// The file or directory that no other run may write; `None` is a stream.
    pub(super) fn written(&self) -> Option<&Path> {
        let file = self.target.as_ref().filter(|target| !target.is_special());
        self.directory.as_deref().or(file.map(Target::path))
    }

    /// The settings of the ledger of a run of this account, if it keeps one. The run is known by what it writes, or by the
    /// changes beside a stream.
    ///
    /// # Errors
    /// Exit code 2: no ledger is named, and the user's cannot be used.
    pub(crate) fn ledger_settings(
        &self,
        config: &LedgerConfig,
        account: Option<&Account>,
        captured: &[Pointer],
    ) -> Result<Option<LedgerSettings>> {
        let location = config.location(account.is_some_and(|account| account.sandbox))?;
        Ok(location.map(|location| LedgerSettings {
            location,
            reuse: config.reuse,
            output: self
                .written()
                .or(self.config.changes.as_deref())
                .map(Into::into),
            input: self.only().and_then(RunPart::real_input),
            account: account.map(ledger_account),
            read: reading(captured, ApiKeys::default()),
            in_flight: NonZeroUsize::MIN,
            longest_call: Duration::ZERO,
            wait: ServerWait::default(),
            limits: Vec::new(),
            price: Money::default(),
        }))
    }

    /// The only part, unless its output is in a directory. If it cannot be used, that ends the run, which otherwise continues
    /// with the other parts.
    pub(crate) fn only(&self) -> Option<&RunPart> {
        match &*self.parts {
            [only] if self.directory.is_none() => Some(only),
            _ => None,
        }
    }

    /// Opens the inputs and reads them up to their first rows. Those whose output is complete are skipped, unless the run asks
    /// for them again.
    ///
    /// # Errors
    /// Exit code 2: the only input cannot be used, or two outputs would have one name.
    pub(crate) fn read(&mut self, plan: Plan) -> Result<()> {
        let (mut parts, is_only) = (Vec::with_capacity(self.parts.len()), self.only().is_some());
        for mut part in std::mem::take(&mut self.parts) {
            part.state = match self.look_at(&mut part, plan, is_only) {
                Err(error) if is_only => return Err(error),
                Err(error) => PartState::Unusable(error),
                Ok(state) => state,
            };
            parts.push(part);
        }
        self.parts = parts;
        self.refuse_equal_names()
    }

    /// Opens an input and reads it up to its first rows, or finds that it is finished.
    ///
    /// # Errors
    /// Exit code 2: it cannot be used.
    fn look_at(&self, part: &mut RunPart, plan: Plan, is_only: bool) -> Result<PartState> {
        if let Some(output) = &part.output
            && self.directory.is_some()
            && !self.again
            && is_finished(output)
        {
            part.rejects = rejects_of(output);
            return Ok(PartState::Skip);
        }
        let path = path_of(&part.input);
        if !is_only && path.metadata().is_ok_and(|there| !there.is_file()) {
            // A pipe can be read only once.
            let path = display(path);
            return Err(Error::usage(format!(
                "cannot read `{path}`: one of several inputs must be a regular file"
            )));
        }
        let counted = state_of(path);
        let (reader, opened) = open_users(&part.input, plan)?;
        // Next to `/dev/null` there is no place for files.
        let is_special = self.target.as_ref().is_some_and(Target::is_special);
        part.rejects = match (&self.config.rejects, &part.output) {
            (None, Some(output)) if !is_special => {
                let extension = opened.layout.format.extension();
                Some(rejects_beside(output, extension)?)
            }
            (named, _) => named.clone(),
        };
        Ok(PartState::Run(Box::new(OpenPart {
            opened,
            reader: Some(reader).filter(|_| is_only),
            plan,
            counted,
            past: None,
            targets: Targets::default(),
            files: None,
        })))
    }

    /// Fails when two files of parts would have one name, or have it until they are complete: an output may also be called as
    /// the rejects of another one.
    fn refuse_equal_names(&self) -> Result<()> {
        let mut names = HashMap::new();
        for part in self.parts.iter().filter(|_| self.directory.is_some()) {
            let input = path_of(&part.input);
            for file in part.output.iter().chain(&part.rejects) {
                for name in [file.clone(), partial_of(file)] {
                    let Some(other) = names.insert(name, input) else {
                        continue;
                    };
                    return Err(Error::usage(format!(
                        "`{}` would be written for `{}` and for `{}`",
                        display(file),
                        display(other),
                        display(input)
                    ))
                    .hint("rename one of them, or score them one after the other, each with its own `--output-dir DIR`"));
                }
            }
        }
        Ok(())
    }

    /// Fails when any two of the files that the run reads or writes would be one; `others` are those that it reads and writes
    /// once, however many inputs it has.
    ///
    /// # Errors
    /// Exit code 2: they would, or the name of a file does not fit its format.
    pub(super) fn refuse_clashes(&self, others: &[NamedFile<'_>]) -> Result<()> {
        let (changes, report) = (&self.config.changes, &self.config.report);
        for part in &self.parts {
            let mut files = vec![
                ("output", part.output.as_deref()),
                ("rejects", part.rejects.as_deref()),
                ("changes", changes.as_deref()),
                ("report", report.as_deref()),
            ];
            files.extend_from_slice(others);
            refuse_clashes(&part.input.file.input, &files)?;
        }
        if let Some((only, open)) = self.only().and_then(|only| Some((only, only.to_run()?))) {
            let output = self.target.as_ref().filter(|output| !output.is_special());
            for (flag, path) in [
                ("--output", output.map(Target::path)),
                ("--rejects", only.rejects.as_deref()),
                ("--changes", changes.as_deref()),
            ] {
                let format = open.opened.layout.format;
                path.map_or(Ok(()), |path| check_name(flag, path, format))?;
            }
        }
        Ok(())
    }

    /// Makes the directory of several outputs, and that of the user's ledger, if the run uses it.
    ///
    /// # Errors
    /// Exit code 2: one cannot be made.
    pub(super) fn make_directories(&self, of_user: Option<&Path>) -> Result<()> {
        of_user.map_or(Ok(()), ledger::make_directory)?;
        let Some(path) = &self.directory else {
            return Ok(());
        };
        fs::create_dir_all(path).map_err(|error| {
            let cannot = format!("cannot create the directory `{}`", display(path));
            Error::usage(cannot).because(error)
        })
    }

    /// Reads the verdicts of the output that would be replaced, if they are to be compared by a key. Returns a warning if its
    /// rows cannot all be told apart by it, or if the changes are complete already.
    ///
    /// # Errors
    /// Exit code 2: it cannot be read, or is not a scored file with this column.
    pub(super) fn read_replaced(
        &mut self,
        by: Option<&Thresholds>,
        ledger: Option<&PreparedLedger>,
    ) -> Result<Option<String>> {
        let (key, output) = (&self.config.changes_key, self.target.as_ref());
        let output = output.map(Target::path).filter(|path| path.is_file());
        let (Some(key), Some(output), [only]) = (key, output, &mut *self.parts) else {
            return Ok(None);
        };
        let PartState::Run(open) = &mut only.state else {
            return Ok(None);
        };
        let is_written = |path: &Path| ledger.is_some_and(|it| it.open.facts.run.has_written(path));
        let written = self.config.changes.take_if(|changes| {
            is_written(changes) && is_written(output) && !is_newer(path_of(&only.input), output)
        });
        // A start that was killed at its very end has replaced the output, with the changes beside it.
        if let Some(changes) = written {
            open.past = Some(PastVerdicts::default());
            let (changes, output) = (display(&changes), display(output));
            return Ok(Some(format!(
                "`{changes}` stays as it is: an earlier start of this run has completed it and `{output}`"
            )));
        }
        let mut file = only.input.file.clone();
        file.input = Input::File(output.to_owned());
        let (past, name) = read_past(&file, only.input.columns.prefix(), key, by)?;
        let keys = past.ambiguous_keys();
        open.past = Some(past);
        Ok((keys > 0).then(|| {
            let (values, key) = (counted(keys, "value"), quoted(key));
            format!("{name} has {values} of {key} in several rows with different verdicts: rows with these are not compared")
        }))
    }

    /// Decides with the ledger which files may be replaced, and opens the outputs. Only those who can read all inputs may read
    /// the summary.
    ///
    /// # Errors
    /// Exit code 2: a file exists and may not be replaced, or cannot be made. Exit code 3: the disk is full. Exit code 75:
    /// another run is writing one of them. Nothing is replaced then, but the summary may have been emptied.
    pub(super) fn open(
        &mut self,
        mut ledger: Option<&mut PreparedLedger>,
        summary: Option<&Path>,
        wait: &LockWait,
    ) -> Result<()> {
        let readers = self
            .to_run()
            .fold(Readers::EVERYBODY, |all, part| all.and(part.opened.readers));
        let is_only = self.only().is_some();
        let mut parts = std::mem::take(&mut self.parts);
        wait.until_free(|| {
            for part in &mut parts {
                match self.place(part, ledger.as_deref_mut()) {
                    Err(error) if is_only => return Err(error),
                    Err(error) => part.state = PartState::Unusable(error),
                    Ok(()) => {}
                }
            }
            let summary = summary.map(|path| SummaryFile::create(path, readers));
            self.summary = summary.transpose()?;
            if let (true, [RunPart { state, .. }]) = (is_only, &mut *parts)
                && let PartState::Run(only) = state
            {
                only.files = Some(only.targets.open(readers)?);
                self.report = only.targets.open_report(readers)?;
            }
            Ok(())
        })?;
        self.parts = parts;
        Ok(())
    }

    /// Finds where a part is written.
    ///
    /// # Errors
    /// Exit code 2: a file there belongs to another input or may not be replaced, or the ledger cannot be read.
    fn place(&self, part: &mut RunPart, mut ledger: Option<&mut PreparedLedger>) -> Result<()> {
        let input = part.real_input();
        let open = match (&mut part.state, &part.output) {
            (PartState::Run(open), _) => open,
            (PartState::Skip, Some(output)) => {
                let state = ledger.map(|it| it.open.output_state(output, input.as_deref()));
                let is_of_other = state.transpose()? == Some(OutputState::OfOtherInput);
                return refuse_outdated(path_of(&part.input), output, is_of_other);
            }
            _ => return Ok(()),
        };
        // Reading the input may have taken long, and another run may have started and ended meanwhile.
        let mut target = |path: Option<&PathBuf>| {
            let Some(path) = path else {
                return Ok(None);
            };
            let target = Target::new(path, Replace::Whole)?;
            let replace = if self.config.overwrite || target.is_special() {
                Replace::Whole
            } else if let Some(ledger) = ledger.as_deref_mut() {
                ledger.replaceable(target.path(), input.as_deref())?
            } else {
                Replace::Nothing
            };
            Target::new(path, replace).map(Some)
        };
        open.targets = Targets {
            output: target(part.output.as_ref())?,
            rejects: target(part.rejects.as_ref())?,
            changes: target(self.config.changes.as_ref())?,
            report: target(self.config.report.as_ref())?,
        };
        Ok(())
    }

    /// The inputs whose rows are to run.
    pub(super) fn to_run(&self) -> impl Iterator<Item = &OpenPart> {
        self.parts.iter().filter_map(RunPart::to_run)
    }

    /// The size in bytes of the inputs whose rows are to run, where it is known.
    pub(super) fn size(&self) -> Option<u64> {
        self.to_run().map(|part| part.opened.size).sum()
    }

    /// The names of several inputs, in their order; none where there is only one output.
    pub(super) fn names(&self) -> Vec<String> {
        let several = self.parts.iter().filter(|_| self.directory.is_some());
        several.map(|part| display(path_of(&part.input))).collect()
    }
}

impl OpenPart {
    /// What reads the input, if it is open.
    pub(super) fn take_reader(&mut self) -> Option<Reader> {
        self.reader.take()
    }

    /// The input and the files that its rows are written to, opened if they are not open.
    ///
    /// # Errors
    /// Exit code 2: the input cannot be used, or a file cannot be made. Exit code 3: the disk is full.
    pub(super) fn open(self, input: &ReaderSettings) -> Result<(Reader, Opened, RowFiles)> {
        let path = input.file.input.path().filter(|_| self.counted.is_some());
        if let Some(path) = path.filter(|path| state_of(path) != self.counted) {
            let path = display(path);
            let error =
                Error::stopped(format!("`{path}` was modified after its rows were counted"));
            return Err(error.hint("run the same command again when nothing writes to it any more"));
        }
        let (reader, opened) = match self.reader {
            Some(reader) => (reader, self.opened),
            None => open_users(input, self.plan)?,
        };
        let mut files = match self.files {
            Some(files) => files,
            None => self.targets.open(opened.readers)?,
        };
        files.past = self.past;
        Ok((reader, opened, files))
    }
}

/// The size of a file and when it was modified; `None` of what can be read only once.
fn state_of(path: &Path) -> Option<(u64, SystemTime)> {
    let there = path.metadata().ok().filter(Metadata::is_file)?;
    Some((there.len(), there.modified().ok()?))
}
