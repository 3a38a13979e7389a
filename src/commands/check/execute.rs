//! Runs the command: finds the inputs and the ledger of the run to come, has them counted, and prints the result.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::super::files::{
    InputFile, NamedFile, OutputDirectory, check_name, find_inputs, is_finished, refuse_clashes,
    rejects_beside,
};
use super::super::input_check::refuse_broken;
use super::super::interrupt::Interrupts;
use super::super::lookup::LookupStage;
use super::super::open_input::OpenInput;
use super::count::{Pass, closed, marked};
use super::result::{CallCost, CallTime, CheckResult, CheckedFile, CheckedLedger};
use super::words;
use crate::base::directory::directory_of;
use crate::base::error::{Error, Exit, Result, printable, shown};
use crate::base::stdout::print;
use crate::config::{CheckConfig, LedgerChoice};
use crate::input::{Input, ReaderSettings};
use crate::ledger::{
    LedgerAccount, LedgerLocation, LedgerSettings, Lookup, LookupResult, RequestHasher, RequestKey,
    Reuse, ServerWait, preview,
};
use crate::observe::{Style, count, tell_error, warn};
use crate::output::{RejectsWriter, Replace, Target};
use crate::service::read_kept;

/// Checks the inputs, and prints what a run over them would do.
///
/// # Errors
/// Exit code 2: the input, the ledger or the rejects cannot be used. Exit code 3: a file cannot be written.
pub(crate) fn execute(mut config: CheckConfig) -> Result<Exit> {
    let inputs = CheckedInputs::find(std::mem::take(&mut config.inputs), &config)?;
    let ledger = inputs.ledger(&config);
    inputs.refuse_clashes(&config, &ledger.location)?;
    let interrupts = Interrupts::listen()?;
    let (lookup, ledger) = look_at(&ledger, &config)?;
    let mut pass = Pass {
        config: &config,
        lookup,
        calls: HashSet::new(),
        result: CheckResult {
            r#type: "check",
            version: 1,
            ledger,
            ..CheckResult::default()
        },
    };
    let rejects = inputs.count(&mut pass, &interrupts)?;
    let mut result = pass.result;
    result.rejects = rejects.map(|path| path.to_string_lossy().into_owned());
    result.calls = pass.calls.len() as u64;
    let tariff = config.tariff.clone();
    result.cost = tariff.map(|tariff| CallCost::new(tariff, result.calls));
    let facts = { result.ledger.as_ref() }.and_then(|ledger| ledger.facts.as_ref());
    let limit = facts.and_then(|facts| facts.known_limit.as_ref());
    result.time = CallTime::new(result.calls, config.rate, limit);
    let exit = match result.total.rows.unsendable {
        _ if result.files.iter().any(|file| file.error.is_some()) => Exit::Usage,
        0 => Exit::Complete,
        _ => Exit::SomeFailed,
    };
    result.exit_code = exit.code();
    print(&if config.json {
        result.json()
    } else {
        words::text(&result)
    })?;
    // On a terminal, both streams are read as one text.
    for warning in words::warnings(&result) {
        warn(&printable(&warning));
    }
    Ok(exit)
}

/// Opens the file for rows that cannot be sent, if one is asked for.
fn open_rejects(
    config: &CheckConfig,
    input: &OpenInput,
    interrupts: &Interrupts,
) -> Result<Option<RejectsWriter>> {
    let Some(path) = &config.rejects else {
        return Ok(None);
    };
    check_name("--rejects", path, input.layout.format)?;
    let target = Target::new(path, |_| Replace::by(config.overwrite))?;
    let open = || RejectsWriter::open(&target, input.mode, &input.layout);
    interrupts.opening(target.partial(), open).map(Some)
}

/// The inputs of a check.
struct CheckedInputs {
    /// A single one may be a stream.
    files: Vec<InputFile>,
    /// The directory of their outputs.
    directory: Option<OutputDirectory>,
}

impl CheckedInputs {
    /// Finds those that are named.
    ///
    /// # Errors
    /// Exit code 2: there are none, or the run to come could not have them.
    fn find(mut named: Vec<ReaderSettings>, config: &CheckConfig) -> Result<Self> {
        let is_stream = matches!(&named[..], [only] if only.file.input == Input::Stdin);
        let files = match named.pop_if(|_| is_stream && config.directory.is_none()) {
            Some(settings) => vec![InputFile {
                settings,
                path: PathBuf::from("-"),
            }],
            None => find_inputs(named)?,
        };
        let directory = { config.directory.as_ref() }
            .map(|path| OutputDirectory::check(path, &files))
            .transpose()?;
        let is_part = |input: &InputFile| !input.settings.selection.is_everything();
        let of_one = config.output.is_some() || config.rejects.is_some();
        if files.len() > 1 && directory.is_none() && (of_one || files.iter().any(is_part)) {
            let number = count(files.len() as u64);
            return Err(Error::usage(format!(
                "`--output`, `--rejects`, `--limit` and `--sample` are for one input, and there are {number}"
            ))
            .hint("check them one by one, or leave out the option"));
        }
        Ok(Self { files, directory })
    }

    /// Counts the rows of all of them. Returns where the rejects are, if any.
    ///
    /// # Errors
    /// As for the command.
    fn count(&self, pass: &mut Pass<'_>, interrupts: &Interrupts) -> Result<Option<PathBuf>> {
        let (config, shows_text) = (pass.config, pass.config.style != Style::Off);
        let settings: Vec<_> = { self.files.iter() }
            .map(|input| input.settings.clone())
            .collect();
        // If an input cannot be read, the pass says so as well.
        pass.result.sends_nothing = refuse_broken(config.limits, &settings, shows_text).err();
        let mut rejects = None;
        for input in &self.files {
            let mut file = CheckedFile::of(&input.settings);
            let broken = match self.open(input, config) {
                Ok(Some(opened)) => {
                    rejects = open_rejects(config, &opened, interrupts)?;
                    pass.file(&input.settings, opened, &mut file, rejects.as_mut())?
                }
                Ok(None) => {
                    file.finished = true;
                    None
                }
                Err(error) => Some(error),
            };
            if let Some(error) = broken {
                // This is no reason not to look at the others, as in a run.
                if self.only().is_some() {
                    return Err(error);
                }
                tell_error(&error);
                let words = error.log_words();
                file.error = Some(words.lines().next().unwrap_or_default().to_owned());
            }
            pass.result.total.add(&file.counts);
            pass.result.files.push(file);
        }
        let mut written = rejects.map(RejectsWriter::commit).unwrap_or_default();
        match written.error.take() {
            Some(error) => Err(closed(*error)),
            None => Ok(written.rejects),
        }
    }

    /// The only input, unless its output is in a directory.
    fn only(&self) -> Option<&ReaderSettings> {
        match (&self.files[..], &self.directory) {
            ([only], None) => Some(&only.settings),
            _ => None,
        }
    }

    /// Looks at the ledger that the run to come has, for the run to its output: by the paths of both, a stopped run is
    /// recognised.
    fn ledger(&self, config: &CheckConfig) -> LedgerSettings {
        let target = |path| Target::new(path, |_| Replace::Whole).ok();
        let file = config
            .output
            .as_deref()
            .filter(|path| *path != Path::new("-"));
        let file = file.and_then(target).filter(|target| !target.is_special());
        let output = match &self.directory {
            Some(directory) => Some(directory.path.clone()),
            None => file.map(|target| target.path().to_owned()),
        };
        let folder = match (&self.directory, &output) {
            (None, Some(file)) => directory_of(file),
            (Some(directory), _) => &directory.path,
            (None, None) => Path::new("."),
        };
        let input = self.only().and_then(|only| match &only.file.input {
            Input::File(path) if path.is_file() => path.canonicalize().ok(),
            Input::File(_) | Input::Stdin => None,
        });
        let is_sandbox = { config.account.as_ref() }.is_some_and(|account| account.sandbox);
        let columns = config.captured.clone();
        LedgerSettings {
            location: config.ledger.location(folder, is_sandbox),
            reuse: config.ledger.reuse,
            input,
            output,
            account: config.account.as_ref().map(|account| LedgerAccount {
                endpoint: account.endpoint.clone(),
                service_id: account.service_id.clone(),
            }),
            read: Arc::new(move |body| read_kept(body, &columns)),
            in_flight: NonZeroUsize::MIN,
            longest_call: Duration::ZERO,
            wait: ServerWait::default(),
        }
    }

    /// Fails if the rejects would replace the input or the ledger.
    fn refuse_clashes(&self, config: &CheckConfig, ledger: &LedgerLocation) -> Result<()> {
        let (Some(input), Some(rejects)) = (self.only(), &config.rejects) else {
            return Ok(());
        };
        let mut files = Vec::from_iter(NamedFile::input(&input.file.input));
        if let LedgerLocation::File(path) = ledger {
            files.push(NamedFile::ledger(path));
        }
        files.push(NamedFile::partial("rejects", rejects));
        refuse_clashes(&files)
    }

    /// Opens an input; `None` is one whose output is there, so that a run skips it.
    ///
    /// # Errors
    /// Exit code 2: the run cannot use it, or refuses what is there of its output.
    fn open(&self, input: &InputFile, config: &CheckConfig) -> Result<Option<OpenInput>> {
        let output = self
            .directory
            .as_ref()
            .map(|directory| (directory, directory.output_of(input)));
        let again = config.overwrite || config.ledger.reuse == Reuse::Retry;
        if let Some((directory, output)) = output
            .as_ref()
            .filter(|(_, path)| !again && is_finished(path))
        {
            directory.refuse_outdated(input, output, false)?;
            return Ok(None);
        }
        let shows_text = config.style != Style::Off;
        let opened = OpenInput::open(input.settings.clone(), marked(config.plan), shows_text)?;
        if let Some((directory, output)) = output.filter(|_| !config.overwrite) {
            let rejects = rejects_beside(&output, opened.layout.format.extension())?;
            directory.refuse_left_rejects(&output, &rejects)?;
        }
        Ok(Some(opened))
    }
}

/// Opens the ledger, if there is one to look at: what looks rows up in it, and what a run would learn of it.
///
/// # Errors
/// Exit code 2: it cannot be used.
fn look_at(
    settings: &LedgerSettings,
    config: &CheckConfig,
) -> Result<(LookupStage, Option<CheckedLedger>)> {
    // The run makes the directory of its outputs, with the ledger.
    let is_made =
        matches!(config.ledger.choice, LedgerChoice::Folder) && { config.directory.as_ref() }
            .is_some_and(|directory| !directory.exists());
    let found = if is_made { None } else { preview(settings)? };
    let (lookup, endpoint, facts) = if let Some((lookup, found)) = found {
        let stage = LookupStage::new(found.hasher.clone(), lookup);
        (stage, found.endpoint.clone(), Some(found))
    } else {
        let stage = LookupStage::new(RequestHasher::of_pass(), Box::new(NoLedger));
        (stage, None, None)
    };
    let ledger = settings.location.path().map(|path| CheckedLedger {
        path: shown(&path),
        endpoint,
        facts,
    });
    Ok((lookup, ledger))
}

/// Look-ups in a ledger that the first run will make, or in none.
struct NoLedger;

impl Lookup for NoLedger {
    fn look_up(&mut self, keys: &[RequestKey]) -> Result<Vec<LookupResult>> {
        Ok(vec![LookupResult::default(); keys.len()])
    }
}
