//! Runs the command, from its config to its result.

use super::super::files::{NamedFile, check_name, refuse_clashes};
use super::super::interrupt::Interrupts;
use super::super::open_input::{OpenInput, bytes_ignored};
use super::estimate::TimeEstimate;
use super::known::RequestLookup;
use super::outlook::{LedgerOutlook, Outlook};
use super::pass::{Pass, PassEnd, closed};
use super::progress::PassProgress;
use super::remedies::RemedyContext;
use super::requests;
use super::words::{self, text};
use crate::base::error::{Exit, Result, printable};
use crate::base::stdout::print;
use crate::config::{CheckConfig, CheckLedger};
use crate::input::Input;
use crate::ledger::{
    KnownLimit, NamedLedger, PreviewAccount, PreviewSettings, PreviewedRun, preview,
};
use crate::observe::{Style, warn};
use crate::output::{RejectsWriter, Replace, Target};
use crate::service::Account;

/// Checks a file, and prints what a run over it would do.
///
/// # Errors
/// Exit code 2: the input, the ledger or the rejects cannot be used. Exit code 3: a file cannot be written.
pub(crate) fn execute(config: CheckConfig) -> Result<Exit> {
    refuse_one_file(&config)?;
    let interrupts = Interrupts::listen()?;
    let rejects = config.rejects.as_deref();
    let replace = if config.overwrite {
        Replace::Whole
    } else {
        Replace::Nothing
    };
    let target = rejects.map(|path| Target::new(path, |_| replace));
    let target = target.transpose()?;
    let settings = config.input.clone();
    let compose = requests::marked(config.plan);
    let input = OpenInput::open(config.input, compose, config.style != Style::Off)?;
    if let Some(path) = rejects {
        check_name("--rejects", path, input.layout.format)?;
    }
    let KnownAnswers {
        requests,
        limit,
        ledger,
    } = KnownAnswers::open(config.ledger.as_ref(), config.dedupe)?;
    let open = |target: &Target| RejectsWriter::open(target, input.mode, &input.layout);
    let partial = target.as_ref().and_then(Target::partial);
    let rejects = interrupts.opening(partial, || target.as_ref().map(open).transpose())?;
    let pass = Pass {
        requests,
        rejects,
        progress: PassProgress::new(config.style, input.facts.size),
    };
    let PassEnd { counts, rejects } = pass.run(input.reader)?;
    let written = rejects.map(RejectsWriter::commit).transpose();
    let written = written.map_err(|unfinished| closed(unfinished.error))?;
    let outlook = Outlook {
        name: input.facts.name(),
        selection: input.facts.selection,
        path: match &input.facts.source {
            Input::File(path) => Some(path.clone()),
            Input::Stdin => None,
        },
        mapping: input.facts.mapping.clone(),
        replaced: input.facts.replaced.clone(),
        time: TimeEstimate::new(counts.calls, config.rate, limit),
        counts,
        remedies: RemedyContext::new(&settings, input.layout.format),
        ledger,
        tariff: config.tariff,
        rejects: written.and_then(|written| written.rejects),
    };
    let ignored = input.facts.ignored.any();
    let ignored = ignored.then(|| bytes_ignored("the input"));
    print(&if config.json {
        outlook.json()
    } else {
        text(&outlook)
    })?;
    // On a terminal, both streams are read as one text.
    for warning in ignored.into_iter().chain(words::warnings(&outlook)) {
        warn(&printable(&warning));
    }
    Ok(outlook.exit())
}

/// Fails if the rejects would replace the input or the ledger.
fn refuse_one_file(config: &CheckConfig) -> Result<()> {
    let Some(rejects) = &config.rejects else {
        return Ok(());
    };
    let rejects = || NamedFile::partial("rejects", rejects);
    if let Input::File(path) = &config.input.file.input {
        refuse_clashes(&[NamedFile::input(path), rejects()])?;
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
