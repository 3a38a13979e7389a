//! Runs the command, from its config to its result.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::super::files::{InputFile, OutputDirectory, check_name, is_finished, rejects_beside};
use super::super::interrupt::Interrupts;
use super::super::open_input::OpenInput;
use super::estimate::TimeEstimate;
use super::inputs::{CheckedInputs, LookedUpLedger};
use super::known::RequestLookup;
use super::outlook::{FileOutlook, LedgerOutlook, Outlook};
use super::pass::{Pass, closed};
use super::progress::PassProgress;
use super::remedies::RemedyContext;
use super::requests;
use super::words::{self, text};
use crate::base::error::{Error, Exit, Result, printable};
use crate::base::stdout::print;
use crate::config::{CheckConfig, OutputToCome, RunToCome};
use crate::input::ReaderSettings;
use crate::ledger::{KnownLimit, LedgerAccount, LedgerSettings, ServerWait, preview};
use crate::observe::{Style, tell_error, warn};
use crate::output::{RejectsWriter, Replace, Target};
use crate::service::{Account, read_kept};

/// Checks the inputs, and prints what a run over them would do.
///
/// # Errors
/// Exit code 2: the input, the ledger or the rejects cannot be used. Exit code 3: a file cannot be written.
pub(crate) fn execute(mut config: CheckConfig) -> Result<Exit> {
    let inputs = CheckedInputs::find(std::mem::take(&mut config.inputs), &config)?;
    let ledger = { config.ledger.as_ref() }.map(|ledger| inputs.ledger(ledger, &config.run));
    inputs.refuse_clashes(&config, ledger.as_ref())?;
    let interrupts = Interrupts::listen()?;
    let KnownAnswers {
        requests,
        limit,
        ledger,
    } = KnownAnswers::open(ledger, &config)?;
    let progress = PassProgress::new(config.style, inputs.size());
    let mut pass = Pass::new(requests, progress, config.run.judges_first_rows);
    let (files, rejects) = match inputs {
        CheckedInputs::One(only) => one_file(&config, &only, &interrupts, &mut pass)?,
        CheckedInputs::Several(inputs, directory) => {
            let files = several_files(&config, inputs, directory.as_ref(), &mut pass)?;
            (files, None)
        }
    };
    let calls = pass.calls();
    let mut written = rejects.map(RejectsWriter::commit).unwrap_or_default();
    if let Some(error) = written.error.take() {
        return Err(closed(*error));
    }
    let outlook = Outlook {
        files,
        calls,
        ledger,
        tariff: config.tariff,
        time: TimeEstimate::new(calls, config.run.rate, config.run.concurrency, limit),
        limits: config.run.limits,
        existing_output: existing_output(&config.run),
        rejects: written.rejects,
        run_writes_rejects: config.run.output.is_some(),
    };
    print(&if config.json {
        outlook.json()
    } else {
        text(&outlook)
    })?;
    // On a terminal, both streams are read as one text.
    for warning in words::warnings(&outlook) {
        warn(&printable(&warning));
    }
    Ok(outlook.exit())
}

/// The output, if it is there and the run is not asked to replace it.
fn existing_output(run: &RunToCome) -> Option<PathBuf> {
    match &run.output {
        Some(OutputToCome::File(path)) if !run.overwrites && !run.retries => {
            path.is_file().then(|| path.clone())
        }
        _ => None,
    }
}

/// Reads the only input, and leaves its rejects to be committed.
fn one_file(
    config: &CheckConfig,
    settings: &ReaderSettings,
    interrupts: &Interrupts,
    pass: &mut Pass,
) -> Result<(Vec<FileOutlook>, Option<RejectsWriter>)> {
    let path = config.rejects.as_deref();
    let replace = if config.overwrite {
        Replace::Whole
    } else {
        Replace::Nothing
    };
    let target = path.map(|path| Target::new(path, |_| replace));
    let target = target.transpose()?;
    let compose = requests::marked(config.plan);
    let input = OpenInput::open(settings.clone(), compose, config.style != Style::Off)?;
    let format = input.layout.format;
    path.map_or(Ok(()), |path| check_name("--rejects", path, format))?;
    let open = |target: &Target| RejectsWriter::open(target, input.mode, &input.layout);
    let partial = target.as_ref().and_then(Target::partial);
    let rejects = interrupts.opening(partial, || target.as_ref().map(open).transpose())?;
    let passed = pass.file(input.reader, rejects)?;
    if let Some(error) = passed.broken {
        return Err(error);
    }
    let remedies = RemedyContext::new(settings, format);
    let file = FileOutlook::of(&input.facts, remedies, passed.rows);
    Ok((vec![file], passed.rejects))
}

/// Reads one input after the other. One that cannot be used is no reason not to look at the others, as in a run.
fn several_files(
    config: &CheckConfig,
    inputs: Vec<InputFile>,
    directory: Option<&OutputDirectory>,
    pass: &mut Pass,
) -> Result<Vec<FileOutlook>> {
    let again = config.run.overwrites || config.run.retries;
    let mut files = Vec::with_capacity(inputs.len());
    for input in inputs {
        let output = directory.map(|directory| directory.output_of(&input));
        if let (Some(directory), Some(output)) = (directory.filter(|_| !again), &output)
            && is_finished(output)
        {
            let file = FileOutlook::unread(&input.settings);
            let outdated = directory.refuse_outdated(&input, output, false).err();
            files.push(match outdated {
                Some(error) => broken(file, &error),
                None => file.finished(),
            });
            continue;
        }
        let settings = input.settings;
        let compose = requests::marked(config.plan);
        let opened = OpenInput::open(settings.clone(), compose, config.style != Style::Off);
        let opened = opened.and_then(|opened| {
            if let (Some(directory), Some(output)) = (directory, &output)
                && !config.run.overwrites
            {
                let rejects = rejects_beside(output, opened.layout.format.extension())?;
                directory.refuse_left_rejects(output, &rejects)?;
            }
            Ok(opened)
        });
        let (file, error) = match opened {
            Ok(input) => {
                let passed = pass.file(input.reader, None)?;
                let remedies = RemedyContext::new(&settings, input.layout.format);
                let file = FileOutlook::of(&input.facts, remedies, passed.rows);
                (file, passed.broken)
            }
            Err(error) => (FileOutlook::unread(&settings), Some(error)),
        };
        files.push(match error {
            Some(error) => broken(file, &error),
            None => file,
        });
    }
    Ok(files)
}

/// Reports why a file cannot be used.
fn broken(file: FileOutlook, error: &Error) -> FileOutlook {
    tell_error(error);
    file.broken(error)
}

/// What is known of the requests before the pass.
struct KnownAnswers {
    requests: RequestLookup,
    limit: Option<KnownLimit>,
    ledger: Option<LedgerOutlook>,
}

impl KnownAnswers {
    /// Opens the ledger, if there is one to look at. One that does not exist yet has no answers.
    ///
    /// # Errors
    /// Exit code 2: it cannot be used.
    fn open(ledger: Option<LookedUpLedger>, config: &CheckConfig) -> Result<Self> {
        let nothing = |ledger| Self {
            requests: RequestLookup::without_ledger(),
            limit: None,
            ledger,
        };
        let (Some(ledger), Some(options)) = (ledger, &config.ledger) else {
            return Ok(nothing(None));
        };
        let shown = ledger.location.path().unwrap_or_default();
        let none_yet = |path| {
            nothing(Some(LedgerOutlook {
                ledger: path,
                sandbox: false,
                endpoint: None,
                exists: false,
                continues: false,
                others: Vec::new(),
            }))
        };
        if ledger.in_new_directory {
            return Ok(none_yet(shown));
        }
        let columns = options.captured.clone();
        let preview = preview(&LedgerSettings {
            location: ledger.location,
            output: ledger.output,
            input: ledger.input,
            account: options.account.as_ref().map(|account| LedgerAccount {
                endpoint: account.endpoint.clone(),
                service_id: account.service_id.clone(),
            }),
            reuse: options.reuse,
            read: Arc::new(move |body| read_kept(body, &columns)),
            in_flight: NonZeroUsize::MIN,
            longest_call: Duration::ZERO,
            wait: ServerWait::default(),
        })?;
        let Some((lookup, found)) = preview else {
            return Ok(none_yet(shown));
        };
        Ok(Self {
            requests: RequestLookup::over(lookup, found.hasher),
            limit: found.facts.known_limit,
            ledger: Some(LedgerOutlook {
                ledger: shown,
                sandbox: found.endpoint == Some(Account::of_sandbox().endpoint),
                endpoint: found.endpoint,
                exists: true,
                continues: found.facts.run.continues,
                others: found.facts.other_accounts,
            }),
        })
    }
}
