//! The first of the three values of a run, its plan: the arguments are checked, the output is locked, and the inputs are read up
//! to their first rows. Only the log is written here, and what is in the ledger is not known yet.
//!
//! A run is a list of parts, an input and its output each; one file is a list of one. `check` finds and reads the same parts.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::base::error::{Error, Result};
use crate::base::private_file;
use crate::base::secret::Secret;
use crate::base::text::display;
use crate::commands::files::{
    LockWait, check_name, full_disk, is_finished, output_directory, refuse_clashes, rejects_beside,
    rejects_of,
};
use crate::commands::inputs::{find_inputs, name_of, open_users, path_of, refuse_stream};
use crate::commands::signals::{RecordFailure, StopSignals};
use crate::config::{CountConfig, DEFAULT_CONCURRENCY, FilesConfig, RunConfig};
use crate::input::{Input, Opened, Reader, ReaderSettings, refuse_missing};
use crate::ledger::{
    LedgerAccount, LedgerLocation, LedgerSettings, OutputLock, ReadAnswer, Reuse, ServerWait,
    lock_of,
};
use crate::observe::{LogLine, RunIdentity, log_line, report_preparing, start_log};
use crate::output::{Replace, Target, partial_of};
use crate::raw_json::Pointer;
use crate::sandbox::{Sandbox, SandboxPlan, SandboxSettings};
use crate::selection::Selection;
use crate::service::{
    Account, ApiKeys, Client, ClientSettings, Endpoint, KeyFile, KeySource, Plan, SANDBOX_ID,
    Service as _, ServiceId, read_kept,
};

/// The parts of a run, or of the run that a check is about. `S` is what is known of each.
pub(crate) struct RunParts<S> {
    pub(crate) all: Vec<RunPart<S>>,
    /// The directory of several outputs.
    pub(crate) directory: Option<PathBuf>,
}

/// An input and its output.
pub(crate) struct RunPart<S> {
    pub(crate) input: ReaderSettings,
    /// `None` is standard output.
    pub(crate) output: Option<PathBuf>,
    pub(crate) state: S,
}

/// What the run does with a part.
pub(crate) enum PartState<R> {
    /// It runs the rows.
    Run(Box<R>),
    /// It skips the part, which an earlier run has finished, perhaps with these rejects.
    Finished { rejects: Option<PathBuf> },
    /// It cannot use the part.
    Unusable(Error),
}

/// Parts whose inputs have been read up to their first rows.
pub(crate) type ReadParts = RunParts<PartState<ReadInput>>;

/// One of them.
pub(super) type ReadPart = RunPart<PartState<ReadInput>>;

/// An input that has been read up to its first rows.
pub(crate) struct ReadInput {
    pub(super) opened: Opened,
    pub(super) rows: InputRows,
    /// Where rows without a verdict go, if anywhere.
    pub(super) rejects: Option<PathBuf>,
}

/// Where the rows of an input come from.
pub(super) enum InputRows {
    /// A file, which is opened again each time that its rows are read, as long as it is not modified.
    File(FileVersion),
    /// A stream, which stays open because it can be read only once.
    Stream(Box<Reader>),
}

/// The size of a file, and when it was modified.
type FileVersion = (u64, SystemTime);

/// The version of the file at this path; `None` if it is not a regular file.
fn file_version(path: &Path) -> Option<FileVersion> {
    let metadata = path.metadata().ok().filter(Metadata::is_file)?;
    Some((metadata.len(), metadata.modified().ok()?))
}

/// The path of an input with links followed; `None` for a stream. The path of a pipe, such as `/dev/fd/63`, is another one each
/// time.
pub(super) fn real_input(input: &ReaderSettings) -> Option<PathBuf> {
    let path = input.file.input.path();
    path.filter(|path| path.is_file())?.canonicalize().ok()
}

impl<R> RunPart<PartState<R>> {
    /// Its input, if its rows run.
    pub(super) fn to_run(&self) -> Option<&R> {
        match &self.state {
            PartState::Run(part) => Some(part),
            _ => None,
        }
    }

    /// The output that its rows would replace.
    pub(super) fn replaced(&self) -> Option<&Path> {
        let output = self.to_run().and(self.output.as_deref());
        output.filter(|output| output.is_file())
    }
}

impl<S> RunParts<S> {
    /// The only part, unless its output is in a directory. If it cannot be used, the run ends. A run with a directory continues
    /// with its other parts.
    pub(crate) fn only(&self) -> Option<&RunPart<S>> {
        match &*self.all {
            [only] if self.directory.is_none() => Some(only),
            _ => None,
        }
    }

    /// The parts in their next state. One that fails is marked, unless it is the only one.
    ///
    /// # Errors
    /// That of the only part.
    pub(super) fn advance<T>(
        self,
        mut next: impl FnMut(&ReaderSettings, Option<&Path>, S) -> Result<PartState<T>>,
    ) -> Result<RunParts<PartState<T>>> {
        let is_only = self.only().is_some();
        let mut all = Vec::with_capacity(self.all.len());
        for part in self.all {
            let state = match next(&part.input, part.output.as_deref(), part.state) {
                Err(error) if is_only => return Err(error),
                next => next.unwrap_or_else(PartState::Unusable),
            };
            all.push(RunPart {
                input: part.input,
                output: part.output,
                state,
            });
        }
        Ok(RunParts {
            all,
            directory: self.directory,
        })
    }

    /// Which rows of each input run.
    pub(super) fn selection(&self) -> Selection {
        let first = self.all.first();
        first.map(|part| part.input.selection).unwrap_or_default()
    }

    /// The names of several inputs, in their order; none where there is only one output.
    pub(super) fn names(&self) -> Vec<String> {
        let parts = self.all.iter().filter(|_| self.directory.is_some());
        parts.map(|part| display(path_of(&part.input))).collect()
    }

    /// The file with links followed, or the directory, that no other run may write; `None` is a stream.
    pub(crate) fn written(&self) -> Option<PathBuf> {
        if let Some(directory) = &self.directory {
            return Some(directory.clone());
        }
        let target = Target::new(self.all.first()?.output.as_deref()?, Replace::Whole).ok()?;
        (!target.is_special()).then(|| target.path().to_owned())
    }

    /// The settings of a ledger for a run of this account, as far as a look at it needs them. The ledger knows the run by what it
    /// writes, or by the changes beside a stream.
    pub(crate) fn ledger_settings(
        &self,
        config: &CountConfig,
        location: LedgerLocation,
        account: Option<&Account>,
    ) -> LedgerSettings {
        let price = config.budget.price.as_ref().map(|tariff| tariff.price);
        LedgerSettings {
            location,
            reuse: config.ledger.reuse,
            output: self.written().or_else(|| config.files.changes.clone()),
            input: self.only().and_then(|only| real_input(&only.input)),
            account: account.map(|account| LedgerAccount {
                endpoint: account.endpoint.clone(),
                service_id: account.service_id.clone(),
            }),
            read: reads(&config.captured, ApiKeys::default()),
            in_flight: NonZeroUsize::MIN,
            longest_call: Duration::ZERO,
            wait: ServerWait::default(),
            budgets: config.call_limits.clone(),
            price: price.unwrap_or_default(),
        }
    }
}

/// Reads these fields of answers in the ledger, unless an answer contains one of these keys.
fn reads(captured: &[Pointer], keys: ApiKeys) -> ReadAnswer {
    let captured = captured.to_vec();
    Arc::new(move |body| read_kept(body, &captured, &keys))
}

impl RunParts<()> {
    /// Finds the inputs, and where their outputs go.
    ///
    /// # Errors
    /// Exit code 2: an input is not a name, or would be overwritten by its output.
    pub(crate) fn find(files: &FilesConfig) -> Result<Self> {
        let inputs = find_inputs(&files.inputs)?;
        if let [only] = &*inputs {
            refuse_missing(&only.file.input)?;
        }
        let directory = files.directory.as_deref().map(output_directory);
        let directory = directory.transpose()?;
        let mut all = Vec::with_capacity(inputs.len());
        for input in inputs {
            let output = match &directory {
                Some(directory) => Some(directory.join(name_of(&input))),
                None => files.output.clone(),
            };
            // Before anything else: no message may suggest overwriting the input.
            refuse_clashes(&input.file.input, &[("output", output.as_deref())])?;
            all.push(RunPart {
                input,
                output,
                state: (),
            });
        }
        Ok(Self { all, directory })
    }

    /// Checks where the only output goes, before its input is read. Whether a file there may be replaced is known only with
    /// the ledger.
    ///
    /// # Errors
    /// Exit code 2: there can be no file there, or several inputs have one output. Exit code 75: another run is writing it.
    fn check_output(&self, overwrite: bool) -> Result<()> {
        let Some(only) = self.only() else {
            return match self.directory {
                Some(_) => Ok(()),
                None => Err(
                    Error::usage("several inputs need a directory for their outputs")
                        .hint("name one with `--output-dir DIR`"),
                ),
            };
        };
        // A stream may lack rows that are there.
        let replace = match only.input.file.input {
            Input::Stdin if !overwrite => Replace::Partial,
            _ => Replace::Whole,
        };
        let output = only.output.as_deref();
        output.map_or(Ok(()), |output| Target::new(output, replace).map(drop))
    }

    /// Reads the inputs up to their first rows. A part whose output is complete is skipped, unless the run asks for it again.
    ///
    /// # Errors
    /// Exit code 2: the only input cannot be used, or two outputs would have one name.
    pub(crate) fn read(self, config: &CountConfig) -> Result<ReadParts> {
        let files = &config.files;
        let is_only = self.only().is_some();
        let skips =
            self.directory.is_some() && !files.overwrite && config.ledger.reuse != Reuse::Retry;
        // Next to `/dev/null` there is no place for files.
        let has_rejects = self.written().is_some();
        let read = |input: &ReaderSettings, output: Option<&Path>, ()| {
            if let Some(output) = output.filter(|output| skips && is_finished(output)) {
                let rejects = rejects_of(output);
                return Ok(PartState::Finished { rejects });
            }
            let (rows, opened) = read_first_rows(input, config.plan, is_only)?;
            let rejects = match (&files.rejects, output) {
                (None, Some(output)) if has_rejects => {
                    Some(rejects_beside(output, opened.layout.format.extension())?)
                }
                (named, _) => named.clone(),
            };
            Ok(PartState::Run(Box::new(ReadInput {
                opened,
                rows,
                rejects,
            })))
        };
        let parts = self.advance(read)?;
        parts.refuse_equal_names()?;
        Ok(parts)
    }
}

/// Opens an input and reads it up to its first rows.
///
/// # Errors
/// Exit code 2: it cannot be used.
fn read_first_rows(
    input: &ReaderSettings,
    plan: Plan,
    is_only: bool,
) -> Result<(InputRows, Opened)> {
    let path = input.file.input.path();
    let version = path.and_then(file_version);
    if let (Some(path), None) = (path, version)
        && !is_only
        && path.exists()
    {
        let path = display(path);
        return Err(Error::usage(format!(
            "cannot read `{path}`: one of several inputs must be a regular file"
        )));
    }
    let (reader, opened) = open_users(input, plan)?;
    let rows = match version {
        Some(version) => InputRows::File(version),
        None => InputRows::Stream(Box::new(reader)),
    };
    Ok((rows, opened))
}

impl ReadInput {
    /// Whether its rows can be read more than once.
    pub(super) fn is_file(&self) -> bool {
        matches!(self.rows, InputRows::File(_))
    }

    /// Opens the input at its first row.
    ///
    /// # Errors
    /// Exit code 2: it cannot be used. Exit code 3: it was modified since.
    pub(super) fn open(self, input: &ReaderSettings, plan: Plan) -> Result<(Reader, Opened)> {
        let version = match self.rows {
            InputRows::Stream(reader) => return Ok((*reader, self.opened)),
            InputRows::File(version) => version,
        };
        let path = path_of(input);
        let opened = open_users(input, plan);
        // Once it is open, so that no change before that is missed.
        if file_version(path) != Some(version) {
            let path = display(path);
            let error =
                Error::stopped(format!("`{path}` was modified after its rows were counted"));
            return Err(error.hint("run the same command again when nothing writes to it any more"));
        }
        opened
    }
}

impl ReadParts {
    /// The rejects of a part, if it has any.
    fn rejects(part: &ReadPart) -> Option<&Path> {
        match &part.state {
            PartState::Run(input) => input.rejects.as_deref(),
            PartState::Finished { rejects } => rejects.as_deref(),
            PartState::Unusable(_) => None,
        }
    }

    /// Fails when two files of parts would have one name, or have it until they are complete: an output may also be called as
    /// the rejects of another one.
    fn refuse_equal_names(&self) -> Result<()> {
        let mut names = HashMap::new();
        for part in self.all.iter().filter(|_| self.directory.is_some()) {
            let input = path_of(&part.input);
            for file in part
                .output
                .as_deref()
                .into_iter()
                .chain(Self::rejects(part))
            {
                for name in [file.to_owned(), partial_of(file)] {
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

    /// Fails when any two of the files that the run reads or writes would be one.
    ///
    /// # Errors
    /// Exit code 2: they would, or the name of a file does not fit its format.
    fn refuse_clashes(
        &self,
        config: &RunConfig,
        client: &ClientSettings,
        ledger: Option<&LedgerLocation>,
    ) -> Result<()> {
        let (files, watch) = (&config.count.files, &config.watch);
        let changes = files.changes.as_deref();
        let lock = self.written().as_deref().map(lock_of);
        for part in &self.all {
            let named = [
                ("output", part.output.as_deref()),
                ("rejects", Self::rejects(part)),
                ("changes", changes),
                ("report", files.report.as_deref()),
                ("API key file", client.key.file().map(KeyFile::path)),
                ("certificate authority", client.ca_file.as_deref()),
                ("summary", watch.summary.as_deref()),
                ("metrics", watch.metrics.as_deref()),
                ("log", watch.log.as_deref()),
                ("output's lock", lock.as_deref()),
                ("ledger", ledger.and_then(LedgerLocation::file)),
            ];
            refuse_clashes(&part.input.file.input, &named)?;
        }
        let Some((only, input)) = self.only().and_then(|only| Some((only, only.to_run()?))) else {
            return Ok(());
        };
        let output = self.written();
        for (flag, path) in [
            ("--output", output.as_deref()),
            ("--rejects", Self::rejects(only)),
            ("--changes", changes),
        ] {
            let format = input.opened.layout.format;
            path.map_or(Ok(()), |path| check_name(flag, path, format))?;
        }
        Ok(())
    }

    /// Makes the directory of several outputs.
    ///
    /// # Errors
    /// Exit code 2: it cannot be made.
    pub(super) fn make_directory(&self) -> Result<()> {
        let Some(directory) = &self.directory else {
            return Ok(());
        };
        fs::create_dir_all(directory).map_err(|error| {
            let cannot = format!("cannot create the directory `{}`", display(directory));
            Error::usage(cannot).because(error)
        })
    }

    /// Which column is which field, where it is the same in all inputs that are to run.
    fn common_mapping(&self) -> Option<String> {
        let mut mappings: Vec<_> = self.to_run().map(|input| &input.opened.mapping).collect();
        mappings.dedup();
        match mappings[..] {
            [common] => Some(common.clone()),
            _ => None,
        }
    }
}

impl<R> RunParts<PartState<R>> {
    /// The parts whose rows are to run.
    pub(super) fn to_run(&self) -> impl Iterator<Item = &R> {
        self.all.iter().filter_map(RunPart::to_run)
    }
}

/// What a run has from its plan to its end.
pub(super) struct RunBase {
    pub(super) config: RunConfig,
    /// The built-in stand-in, where it answers instead of the service.
    pub(super) stand_in: Option<Sandbox>,
    /// How many calls there are at a time at most.
    pub(super) concurrency: NonZeroUsize,
    /// Held to the very end; `None` where rows go to a stream.
    pub(super) lock: Option<OutputLock>,
    pub(super) signals: StopSignals,
}

/// A run before its ledger is open.
pub(super) struct RunPlan {
    pub(super) base: RunBase,
    /// Which run it is.
    pub(super) identity: RunIdentity,
    pub(super) parts: ReadParts,
    pub(super) client: Client,
    /// Whose answers it pays for.
    pub(super) account: Account,
    /// `None` with `--no-ledger`.
    pub(super) ledger: Option<LedgerSettings>,
    /// How long it waits for locks.
    pub(super) wait: LockWait,
    /// Warnings before the first call.
    pub(super) warnings: Vec<String>,
}

impl RunPlan {
    /// Checks the arguments, locks the output, and reads the inputs up to their first rows.
    ///
    /// # Errors
    /// Exit code 2: the arguments or the files are not as they must be. Exit code 75: another run writes there.
    pub(super) fn new(
        config: RunConfig,
        identity: RunIdentity,
        signals: StopSignals,
        record: &RecordFailure,
    ) -> Result<Self> {
        // Before anything is opened.
        let (concurrency, few_files) = fit_fd_limit(&config);
        let (client, stand_in) = client_settings(&config)?;
        let key = client.key.read()?;
        let wait = LockWait::new(config.wait_lock, !config.watch.quiet);
        let count = &config.count;
        let found = RunParts::find(&count.files)?;
        wait.until_free(|| found.check_output(count.files.overwrite))?;
        // From here on no other run writes there, however long the input takes.
        let written = found.written();
        let lock = || written.as_deref().map(OutputLock::take).transpose();
        let lock = wait.until_free(|| lock().map_err(full_disk))?;
        signals.output_is_locked(Arc::clone(record));
        for part in &found.all {
            refuse_stream(count.limits, &part.input)?;
        }
        report_preparing(|| "waiting for the first rows of its input".to_owned());
        let parts = found.read(count)?;
        let account = match stand_in {
            Some(_) => Account::of_sandbox(),
            None => Account::of_service(&client.endpoint, &client.service_id),
        };
        let location = count.ledger.location(account.sandbox)?;
        parts.refuse_clashes(&config, &client, location.as_ref())?;
        let readable_key = client.key.file().and_then(KeyFile::warning);
        let identity = RunIdentity {
            mapping: parts.common_mapping(),
            endpoint: Some(client.endpoint.to_string()),
            ..identity
        };
        open_log(&config, &identity, &parts, location.as_ref(), concurrency)?;
        let client = Client::new(client, key)?;
        let ledger = location.map(|location| LedgerSettings {
            read: reads(&count.captured, client.keys()),
            longest_call: client.longest_call(),
            in_flight: concurrency,
            wait: ServerWait::new(config.pace.max_wait),
            ..parts.ledger_settings(count, location, Some(&account))
        });
        let warnings = [readable_key, few_files];
        Ok(Self {
            identity,
            parts,
            client,
            account,
            ledger,
            wait,
            warnings: warnings.into_iter().flatten().collect(),
            base: RunBase {
                config,
                stand_in,
                concurrency,
                lock,
                signals,
            },
        })
    }
}

/// How the service is reached, or the built-in stand-in, which is started.
///
/// # Errors
/// Exit code 3: the stand-in cannot be started.
fn client_settings(config: &RunConfig) -> Result<(ClientSettings, Option<Sandbox>)> {
    if let Some(settings) = config.service.real() {
        return Ok((settings.clone(), None));
    }
    let stand_in = Sandbox::start(SandboxSettings {
        plan: match config.count.plan {
            Plan::Paid { .. } => SandboxPlan::Paid,
            Plan::Free => SandboxPlan::Free,
        },
        ..SandboxSettings::default()
    })
    .map_err(|e| Error::stopped("cannot start the sandbox").because(e))?;
    let settings = ClientSettings {
        endpoint: Endpoint::new(&format!("http://{}", stand_in.address()), false)?,
        key: KeySource::Variable(Secret::new("sandbox")),
        service_id: ServiceId::new(SANDBOX_ID)?,
        timeout: config.timeout,
        ca_file: None,
    };
    Ok((settings, Some(stand_in)))
}

/// Opens the log, if the run keeps one, and logs that the run starts.
///
/// # Errors
/// Exit code 2: it cannot be opened, or rescore did not write it.
fn open_log(
    config: &RunConfig,
    identity: &RunIdentity,
    parts: &ReadParts,
    ledger: Option<&LedgerLocation>,
    concurrency: NonZeroUsize,
) -> Result<()> {
    let Some(path) = config.watch.log.as_deref() else {
        return Ok(());
    };
    start_log(path).map_err(|error| {
        let not_ours = private_file::is_foreign_file(&error);
        let cannot = Error::usage(format!("cannot write the log to `{}`", display(path)));
        match cannot.because(error) {
            cannot if not_ours => {
                cannot.hint("give `--log` another name: rescore adds only to logs of its own")
            }
            cannot => private_file::cannot_make(path, cannot),
        }
    })?;
    let inputs: Vec<_> = parts.all.iter().filter_map(opened_input).collect();
    log_line(LogLine::RunStarted(json!({
        "run": identity,
        "inputs": inputs,
        "output": config.count.files.name().map(text_of),
        "ledger": ledger.map(|it| text_of(it.path())),
        "concurrency": concurrency,
    })));
    Ok(())
}

/// A file's name for programs; JSON escapes it.
fn text_of(path: &Path) -> String {
    path.display().to_string()
}

/// An input, and which of its columns is which field, for the log.
fn opened_input(part: &ReadPart) -> Option<Value> {
    let opened = &part.to_run()?.opened;
    Some(json!({
        "path": part.input.file.input.path().map(text_of),
        "format": opened.layout.format.extension(),
        "bytes": opened.size,
        "mapping": opened.mapping,
    }))
}

/// Descriptors besides those of connections: files, pipes, timers and name look-ups.
const OTHER_DESCRIPTORS: usize = 48;

/// Connections for each call. A call that waits for its connection takes another one that is free sooner, and its own stays
/// idle. With 64 calls to a stand-in that answers within a millisecond there were 100 connections, with 512 there were 770.
const CONNECTIONS_PER_CALL: usize = 2;

/// How many calls in flight the limit on open files has room for, and a warning where that is less than was asked for.
fn fit_fd_limit(config: &RunConfig) -> (NonZeroUsize, Option<String>) {
    let asked = config.pace.concurrency;
    let concurrency = asked.unwrap_or(DEFAULT_CONCURRENCY);
    // The stand-in lives in this process and holds the other end of every connection.
    let ends = if config.service.real().is_none() {
        2
    } else {
        1
    };
    let needed = concurrency.get() * CONNECTIONS_PER_CALL * ends + OTHER_DESCRIPTORS;
    let Some(limit) = raise(needed).filter(|limit| *limit < needed) else {
        return (concurrency, None);
    };
    let room = limit.saturating_sub(OTHER_DESCRIPTORS) / (CONNECTIONS_PER_CALL * ends);
    let room = NonZeroUsize::new(room).unwrap_or(NonZeroUsize::MIN);
    let warning = asked.map(|asked| {
        format!("at most {room} calls in flight instead of {asked}: this process may open only {limit} files (`ulimit -n`)")
    });
    (room, warning)
}

/// Raises the limit towards `needed`, and returns the new limit; `None` if there is none.
fn raise(needed: usize) -> Option<usize> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let (now, needed) = (limit.current?, needed as u64);
    let target = limit.maximum.map_or(needed, |most| most.min(needed));
    let raised = Rlimit {
        current: Some(target),
        maximum: limit.maximum,
    };
    let is_raised = target > now && setrlimit(Resource::Nofile, raised).is_ok();
    usize::try_from(if is_raised { target } else { now }).ok()
}
