//! Runs the command, from its config to its result.

use super::super::files::{NamedFile, check_name, find_inputs, refuse_clashes};
use super::super::interrupt::Interrupts;
use super::super::open_input::OpenInput;
use super::estimate::TimeEstimate;
use super::known::RequestLookup;
use super::outlook::{FileOutlook, LedgerOutlook, Outlook};
use super::pass::{Pass, closed};
use super::progress::PassProgress;
use super::remedies::RemedyContext;
use super::requests;
use super::words::{self, text};
use crate::base::error::{Error, Exit, Result, printable};
use crate::base::stdout::print;
use crate::config::{CheckConfig, CheckLedger};
use crate::input::{Input, ReaderSettings};
use crate::ledger::{
    KnownLimit, NamedLedger, PreviewAccount, PreviewSettings, PreviewedRun, preview,
};
use crate::observe::{Style, count, tell_error, warn};
use crate::output::{RejectsWriter, Replace, Target};
use crate::service::Account;

/// Checks the inputs, and prints what a run over them would do.
///
/// # Errors
/// Exit code 2: the input, the ledger or the rejects cannot be used. Exit code 3: a file cannot be written.
pub(crate) fn execute(mut config: CheckConfig) -> Result<Exit> {
    let inputs = match std::mem::take(&mut config.inputs) {
        // The only one may be a stream.
        inputs if matches!(&inputs[..], [only] if only.file.input == Input::Stdin) => inputs,
        inputs => {
            let found = find_inputs(inputs)?.into_iter();
            found.map(|input| input.settings).collect()
        }
    };
    refuse_one_file(&config, &inputs)?;
    let interrupts = Interrupts::listen()?;
    let KnownAnswers {
        requests,
        limit,
        ledger,
    } = KnownAnswers::open(config.ledger.as_ref(), config.dedupe)?;
    let progress = PassProgress::new(config.style, size(&inputs));
    let mut pass = Pass::new(requests, progress);
    let (files, rejects) = if let [only] = &inputs[..] {
        one_file(&config, only, &interrupts, &mut pass)?
    } else {
        refuse_options_of_one_file(&config, &inputs)?;
        (several_files(&config, inputs, &mut pass)?, None)
    };
    let calls = pass.calls()?;
    let written = rejects.map(RejectsWriter::commit).transpose();
    let written = written.map_err(|unfinished| closed(unfinished.error))?;
    let outlook = Outlook {
        files,
        calls,
        ledger,
        tariff: config.tariff,
        time: TimeEstimate::new(calls, config.rate, limit),
        rejects: written.and_then(|written| written.rejects),
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
    inputs: Vec<ReaderSettings>,
    pass: &mut Pass,
) -> Result<Vec<FileOutlook>> {
    let mut files = Vec::with_capacity(inputs.len());
    for settings in inputs {
        let compose = requests::marked(config.plan);
        let opened = OpenInput::open(settings.clone(), compose, config.style != Style::Off);
        let (file, broken) = match opened {
            Ok(input) => {
                let passed = pass.file(input.reader, None)?;
                let remedies = RemedyContext::new(&settings, input.layout.format);
                let file = FileOutlook::of(&input.facts, remedies, passed.rows);
                (file, passed.broken)
            }
            Err(error) => (FileOutlook::unread(&settings), Some(error)),
        };
        files.push(match broken {
            Some(error) => {
                tell_error(&error);
                file.broken(&error)
            }
            None => file,
        });
    }
    Ok(files)
}

/// The size of all inputs, for the progress; `None` if one of them is a stream.
fn size(inputs: &[ReaderSettings]) -> Option<u64> {
    let size = |input: &ReaderSettings| match &input.file.input {
        Input::File(path) => path.metadata().ok().map(|file| file.len()),
        Input::Stdin => None,
    };
    inputs.iter().map(size).sum()
}

/// Fails if one of several inputs would have to be the only one, as in a run with `--output-dir`.
fn refuse_options_of_one_file(config: &CheckConfig, inputs: &[ReaderSettings]) -> Result<()> {
    let selection = inputs.first().map(|input| input.selection);
    let selection = selection.unwrap_or_default();
    let given = [
        ("--rejects", config.rejects.is_some()),
        ("--limit", selection.limit.is_some()),
        ("--sample", selection.sample.is_some()),
        ("--no-dedupe", !config.dedupe),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(Error::usage(format!(
            "`{option}` is for one input, and there are {}",
            count(inputs.len() as u64)
        ))
        .hint("check them one by one, or leave out the option")),
        None => Ok(()),
    }
}

/// Fails if the rejects would replace the input or the ledger.
fn refuse_one_file(config: &CheckConfig, inputs: &[ReaderSettings]) -> Result<()> {
    let Some(rejects) = &config.rejects else {
        return Ok(());
    };
    let rejects = || NamedFile::partial("rejects", rejects);
    for input in inputs {
        if let Input::File(path) = &input.file.input {
            refuse_clashes(&[NamedFile::input(path), rejects()])?;
        }
    }
    match &config.ledger {
        Some(CheckLedger {
            ledger: NamedLedger::File(path),
            ..
        }) => refuse_clashes(&[NamedFile::ledger(path), rejects()]),
        _ => Ok(()),
    }
}

/// What is known of the requests before the pass.
struct KnownAnswers {
    requests: RequestLookup,
    limit: Option<KnownLimit>,
    ledger: Option<LedgerOutlook>,
}

impl KnownAnswers {
    /// Opens the ledger, if one is named. One that does not exist yet has no answers.
    ///
    /// # Errors
    /// Exit code 2: it cannot be used.
    fn open(ledger: Option<&CheckLedger>, dedupe: bool) -> Result<Self> {
        let Some(CheckLedger {
            ledger,
            account,
            freshness,
            captured,
        }) = ledger
        else {
            return Ok(Self {
                requests: RequestLookup::without_ledger(dedupe),
                limit: None,
                ledger: None,
            });
        };
        let preview = preview(&PreviewSettings {
            ledger,
            account: account.as_ref().map(|account| PreviewAccount {
                endpoint: &account.endpoint,
                service_id: &account.service_id,
            }),
            freshness: *freshness,
            captured,
        })?;
        let Some(preview) = preview else {
            return Ok(Self {
                requests: RequestLookup::without_ledger(dedupe),
                limit: None,
                ledger: Some(LedgerOutlook {
                    ledger: ledger.clone(),
                    sandbox: false,
                    endpoint: None,
                    run: PreviewedRun::First,
                    others: Vec::new(),
                }),
            });
        };
        Ok(Self {
            requests: RequestLookup::over(preview.lookup, preview.hasher, dedupe),
            limit: preview.known_limit,
            ledger: Some(LedgerOutlook {
                ledger: ledger.clone(),
                sandbox: preview.endpoint == Some(Account::of_sandbox().endpoint),
                endpoint: preview.endpoint,
                run: preview.run,
                others: preview.others,
            }),
        })
    }
}
