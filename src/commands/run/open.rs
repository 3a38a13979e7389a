//! The second of the three values of a run: its ledger is open, its rows are counted, and its outputs are ready. Each refusal
//! that can be known comes before an output is made, and no call is made here.
//!
//! Before its rows run, it announces what is about to happen.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use super::count::{Counting, FirstCount, calls_left, ledger_notices, paid_in, unused_answers};
use super::plan::{
    PartState, ReadInput, ReadParts, RunBase, RunPart, RunParts, RunPlan, real_input,
};
use crate::analysis::PastVerdicts;
use crate::base::error::{Error, Result};
use crate::base::private_file::{self, Readers};
use crate::base::text::{display, printable, quoted};
use crate::commands::files::{LockWait, Targets, full_disk, is_newer, refuse_outdated};
use crate::commands::inputs::{path_of, read_past};
use crate::commands::text::SummaryFile;
use crate::config::{PaceConfig, RunConfig};
use crate::input::{Input, ReaderSettings};
use crate::ledger::{
    LedgerSettings, Lookup, OpenLedger, OutputState, RememberedLimit, Reuse, RunEnd, ServerWait,
    make_directory,
};
use crate::observe::{
    self, MetricsFile, RunIdentity, counted, day, most, only_of_others, report_preparing, tell,
    tell_error,
};
use crate::output::{Document, Replace, RowFiles, Target, partial_of};
use crate::pace::{Gate, PaceLimits, Rate};
use crate::service::{Client, proxy_for};
use crate::telemetry::pace::FoundLimit;

/// A run that is ready to start.
pub(super) struct OpenedRun {
    pub(super) base: RunBase,
    /// Which run it is.
    pub(super) identity: RunIdentity,
    pub(super) parts: OpenParts,
    pub(super) client: Client,
    pub(super) gate: Gate,
    /// Where rows are looked up. It is closed before the ledger, because the last to close the ledger merges its log.
    pub(super) lookup: Lookup,
    /// `None` with `--no-ledger`.
    pub(super) ledger: Option<OpenLedger>,
    /// Says whether a ledger's server is waited for.
    pub(super) server_wait: ServerWait,
    /// The counts of the first pass; `None` for a stream.
    pub(super) count: Option<FirstCount>,
    pub(super) metrics: Option<MetricsFile>,
    pub(super) summary: Option<SummaryFile>,
    pub(super) report: Option<Document>,
    warnings: Vec<String>,
}

/// The parts of a run whose outputs are ready.
pub(super) type OpenParts = RunParts<PartState<OpenPart>>;

/// An input, and where its rows go.
pub(super) struct OpenPart {
    pub(super) input: ReadInput,
    pub(super) outputs: PartOutputs,
}

/// Where the rows of a part go.
pub(super) enum PartOutputs {
    /// The files of the only part are open.
    Open(Box<RowFiles>),
    /// Those of one of several parts are opened when its rows run.
    Later(Box<Targets>),
}

impl OpenParts {
    /// The size in bytes of the inputs whose rows are to run, where it is known.
    pub(super) fn size(&self) -> Option<u64> {
        self.to_run().map(|part| part.input.opened.size).sum()
    }
}

impl RunPlan {
    /// Opens the ledger, counts the rows, and opens the outputs.
    ///
    /// # Errors
    /// Exit code 2: a file exists and may not be replaced, or cannot be made, or the inputs are not as they must be. Exit
    /// code 3: the disk is full. Exit code 75: another run uses one of the files. No output is replaced then.
    pub(super) fn open(self) -> Result<OpenedRun> {
        let (config, mut parts, mut warnings) = (&self.base.config, self.parts, self.warnings);
        parts.make_directory()?;
        let (mut ledger, mut lookup) = open_ledger(self.ledger.as_ref(), config, &self.wait)?;
        let mut counting = Counting {
            config: &config.count,
            show: 0,
            lookup: &mut lookup,
        };
        report_preparing(|| "counting its rows, before the first call".to_owned());
        let count = counting.before_paying(&mut parts, &self.account, ledger.as_mut())?;
        if count.is_some() {
            warnings.extend(unused_answers(&mut parts, &config.count, &self.account));
        }
        let baseline = Baseline::read(&parts, config, ledger.as_ref())?;
        warnings.extend(baseline.warning);
        let tariff = self.identity.tariff.as_ref();
        let identity = RunIdentity {
            expected: count.as_ref().map(|count| count.expected(tariff)),
            ..self.identity
        };
        let metrics = config.watch.metrics.as_deref();
        let metrics = metrics.map(|path| metrics_file(path, identity.clone()));
        let metrics = metrics.transpose()?;
        let mut outputs = Outputs {
            config,
            changes: baseline.changes.as_deref(),
            ledger: ledger.as_mut(),
        };
        let (parts, summary, report) = outputs.open(parts, baseline.past, &self.wait)?;
        Ok(OpenedRun {
            identity,
            parts,
            client: self.client,
            gate: gate(config.pace, self.base.concurrency, ledger.as_ref()),
            base: self.base,
            lookup,
            ledger,
            server_wait: self
                .ledger
                .map(|settings| settings.wait)
                .unwrap_or_default(),
            count,
            metrics,
            summary,
            report,
            warnings,
        })
    }
}

/// Opens the ledger, if the run keeps one, and look-ups in it.
///
/// # Errors
/// Exit code 75: another program uses the ledger. Exit code 2: it cannot be used or made. Exit code 3: the disk is full.
fn open_ledger(
    settings: Option<&LedgerSettings>,
    config: &RunConfig,
    wait: &LockWait,
) -> Result<(Option<OpenLedger>, Lookup)> {
    let Some(settings) = settings else {
        return Ok((None, Lookup::without_ledger()));
    };
    let server = settings.wait.clone();
    report_preparing(move || match server.why() {
        Some(why) => format!("waiting for the ledger's server for {why}"),
        None => "opening its ledger".to_owned(),
    });
    let of_user = settings.location.file();
    if let Some(file) = of_user.filter(|_| config.count.ledger.named.is_none()) {
        make_directory(file)?;
    }
    let ledger = wait.until_free(|| OpenLedger::open(settings));
    let ledger = ledger.map_err(full_disk)?;
    let lookup = ledger.lookup()?;
    Ok((Some(ledger), lookup))
}

/// When calls may start: first near the limit that an earlier run found.
fn gate(pace: PaceConfig, concurrency: NonZeroUsize, ledger: Option<&OpenLedger>) -> Gate {
    let remembered = ledger.and_then(|ledger| ledger.facts.remembered_limit);
    let limits = PaceLimits {
        rate: pace.rate,
        in_flight: concurrency,
        remembered: remembered.map_or(FoundLimit::default(), |remembered| remembered.limit),
        max_wait: pace.max_wait,
    };
    Gate::new(limits, fastrand::Rng::new())
}

/// The file of metrics.
///
/// # Errors
/// Exit code 2: there is a file that rescore did not write.
pub(super) fn metrics_file(path: &Path, identity: RunIdentity) -> Result<MetricsFile> {
    MetricsFile::new(path.to_owned(), identity).map_err(|error| {
        let cannot = Error::usage(format!("cannot write the metrics to `{}`", display(path)));
        private_file::cannot_make(path, cannot.because(error))
    })
}

/// What the decisions of a run are compared with, if they are compared by a key.
struct Baseline {
    /// The verdicts of the output that the run replaces.
    past: Option<PastVerdicts>,
    /// Where changed rows go, if they are still to be written.
    changes: Option<PathBuf>,
    warning: Option<String>,
}

impl Baseline {
    /// Reads the verdicts of the output that would be replaced. Warns if their key does not tell all rows apart, or if the
    /// changes are complete already.
    ///
    /// # Errors
    /// Exit code 2: the output cannot be read, or is not a scored file with this column.
    fn read(parts: &ReadParts, config: &RunConfig, ledger: Option<&OpenLedger>) -> Result<Self> {
        let mut baseline = Self {
            past: None,
            changes: config.count.files.changes.clone(),
            warning: None,
        };
        let output = parts.written().filter(|path| path.is_file());
        let key = config.count.files.changes_key.as_ref();
        let (Some(key), Some(output), Some(only)) = (key, output, parts.only()) else {
            return Ok(baseline);
        };
        let has_written = |path: &Path| ledger.is_some_and(|it| it.facts.run.has_written(path));
        let written = baseline.changes.take_if(|changes| {
            let is_newer = is_newer(path_of(&only.input), &output);
            has_written(changes) && has_written(&output) && !is_newer
        });
        // A start that was killed at its very end has replaced the output, with the changes beside it.
        if let Some(changes) = written {
            baseline.past = Some(PastVerdicts::default());
            let (changes, output) = (display(&changes), display(&output));
            baseline.warning = Some(format!(
                "`{changes}` stays as it is: an earlier start of this run has completed it and `{output}`"
            ));
            return Ok(baseline);
        }
        let mut file = only.input.file.clone();
        file.input = Input::File(output);
        let thresholds = config.policy.thresholds();
        let (past, name) = read_past(&file, only.input.columns.prefix(), key, thresholds)?;
        let keys = past.ambiguous_keys();
        baseline.past = Some(past);
        baseline.warning = (keys > 0).then(|| {
            let (values, key) = (counted(keys, "value"), quoted(key));
            format!("{name} has {values} of {key} in several rows with different verdicts: rows with these are not compared")
        });
        Ok(baseline)
    }
}

/// Opens the outputs of the parts, once the ledger is known.
struct Outputs<'a> {
    config: &'a RunConfig,
    /// Where changed rows go.
    changes: Option<&'a Path>,
    ledger: Option<&'a mut OpenLedger>,
}

impl Outputs<'_> {
    /// Decides which files may be replaced, and opens the summary, and the files of the only part. Only those who can read all
    /// inputs may read the summary.
    ///
    /// # Errors
    /// Exit code 2: a file exists and may not be replaced, or cannot be made. Exit code 3: the disk is full. Exit code 75:
    /// another run is writing one of them. Nothing is replaced then, but the summary may have been emptied.
    fn open(
        &mut self,
        parts: ReadParts,
        past: Option<PastVerdicts>,
        wait: &LockWait,
    ) -> Result<(OpenParts, Option<SummaryFile>, Option<Document>)> {
        let readers = parts.to_run().map(|input| input.opened.readers);
        let readers = readers.fold(Readers::EVERYBODY, Readers::and);
        let (summary, only) = wait.until_free(|| {
            let only = parts.only().and_then(|only| Some((only, only.to_run()?)));
            let targets =
                only.map(|(only, read)| self.targets(&only.input, only.output.as_deref(), read));
            let targets = targets.transpose()?;
            let summary = self.config.watch.summary.as_deref();
            let summary = summary.map(|path| SummaryFile::create(path, readers));
            let summary = summary.transpose()?;
            let open = |targets: Targets| -> Result<_> {
                let files = targets.open(readers)?;
                Ok((files, targets.open_report(readers)?))
            };
            Ok((summary, targets.map(open).transpose()?))
        })?;
        let (files, report) = only.unzip();
        let mut files = files.map(|mut files| {
            files.past = past;
            Box::new(files)
        });
        let parts = parts.advance(|input, output, state| {
            Ok(match state {
                PartState::Run(read) => {
                    let outputs = match files.take() {
                        Some(files) => PartOutputs::Open(files),
                        None => PartOutputs::Later(self.targets(input, output, &read)?.into()),
                    };
                    let input = *read;
                    PartState::Run(Box::new(OpenPart { input, outputs }))
                }
                PartState::Finished { rejects } => {
                    self.refuse_outdated(input, output)?;
                    PartState::Finished { rejects }
                }
                PartState::Unusable(error) => PartState::Unusable(error),
            })
        })?;
        Ok((parts, summary, report.flatten()))
    }

    /// Fails if the output of a finished part is not that of its input.
    ///
    /// # Errors
    /// Exit code 2: it is not, or the ledger cannot be read.
    fn refuse_outdated(&mut self, input: &ReaderSettings, output: Option<&Path>) -> Result<()> {
        let Some(output) = output else {
            return Ok(());
        };
        let real_input = real_input(input);
        let ledger = self.ledger.as_mut();
        let state = ledger.map(|ledger| ledger.output_state(output, real_input.as_deref()));
        let is_of_other = state.transpose()? == Some(OutputState::OfOtherInput);
        refuse_outdated(path_of(input), output, is_of_other)
    }

    /// Where the rows of a part go.
    ///
    /// # Errors
    /// Exit code 2: a file there belongs to another input or may not be replaced, or the ledger cannot be read.
    fn targets(
        &mut self,
        input: &ReaderSettings,
        output: Option<&Path>,
        read: &ReadInput,
    ) -> Result<Targets> {
        let real_input = real_input(input);
        let input = real_input.as_deref();
        Ok(Targets {
            output: self.target(output, input)?,
            rejects: self.target(read.rejects.as_deref(), input)?,
            changes: self.target(self.changes, input)?,
            report: self.target(self.config.count.files.report.as_deref(), input)?,
        })
    }

    /// Where a file goes, if it is written, and what it replaces there.
    ///
    /// # Errors
    /// As [`Self::targets`].
    fn target(&mut self, path: Option<&Path>, input: Option<&Path>) -> Result<Option<Target>> {
        let Some(path) = path else {
            return Ok(None);
        };
        // Reading the input may have taken long, and another run may have started and ended meanwhile.
        let target = Target::new(path, Replace::Whole)?;
        let replace = if self.config.count.files.overwrite || target.is_special() {
            Replace::Whole
        } else {
            self.replaceable(target.path(), input)?
        };
        Target::new(path, replace).map(Some)
    }

    /// What may be replaced at a file's path without `--overwrite`: only what the run over this input left there, if this run
    /// continues it. `input` is `None` for a stream.
    ///
    /// # Errors
    /// Exit code 2: there is a file that is not what that run left, or the ledger cannot be read.
    fn replaceable(&mut self, file: &Path, input: Option<&Path>) -> Result<Replace> {
        let Some(ledger) = self.ledger.as_mut() else {
            return Ok(Replace::Nothing);
        };
        let (facts, reuse) = (&ledger.facts, self.config.count.ledger.reuse);
        let run = match facts.run.previous {
            Some(RunEnd::Stopped) if facts.run.continues => "unfinished",
            Some(RunEnd::Stopped) if facts.run.same_input && !file.exists() => {
                return Ok(Replace::Partial);
            }
            // Only with the same account and the same file are the failed rows the ones that are retried.
            Some(RunEnd::Finished { .. })
                if reuse == Reuse::Retry && facts.other_accounts.is_empty() && input.is_some() =>
            {
                "finished"
            }
            Some(RunEnd::Finished { failed }) if reuse != Reuse::Retry && file.exists() => {
                return Err(self.finished(file, failed));
            }
            // In a directory a run over some of the files may be finished while another one was stopped.
            Some(RunEnd::Finished { .. }) if !file.exists() => return Ok(Replace::Partial),
            _ => return Ok(Replace::Nothing),
        };
        let shown = file.display();
        let why = match ledger.output_state(file, input)? {
            OutputState::Absent => return Ok(Replace::Partial),
            OutputState::AsLeft => return Ok(Replace::Whole),
            OutputState::OfOtherInput => {
                format!("`{shown}` was written by a run with another input")
            }
            // It gets its name before the end of the run is recorded, for which a full disk may have no space.
            OutputState::Changed if run == "unfinished" && !partial_of(file).exists() => {
                format!(
                    "`{shown}` is not as the unfinished run left it, or that run completed it and could not record so in the ledger"
                )
            }
            OutputState::Changed => format!("`{shown}` is not as the {run} run left it"),
        };
        Err(Error::usage(why).hint(
            "move it away, or replace it with `--overwrite`: paid answers are not paid for again",
        ))
    }

    /// The refusal to replace the output of a finished run.
    fn finished(&self, file: &Path, failed: u64) -> Error {
        let reuse = self.config.count.ledger.reuse;
        let is_rehearsal = self.config.service.real().is_none();
        let paid = if is_rehearsal { "scored" } else { "paid for" };
        let error = Error::usage(format!(
            "`{}` already exists: an earlier run finished it, and its rows are {paid}",
            file.display()
        ));
        let error = match (reuse, failed) {
            // `--retry-failed` goes with neither `--fresh` nor `--max-age`.
            (Reuse::All, 1..) => error.detail(format!(
                "rows without a verdict: {failed}; `--retry-failed` asks again for those"
            )),
            _ => error,
        };
        error.hint(match reuse {
            Reuse::Nothing => "`--overwrite` replaces it, and asks again about every row",
            _ => "`--overwrite` replaces it, and makes calls only for rows whose answer is not in the ledger or too old",
        })
    }
}

impl OpenedRun {
    /// Announces the input, the service and what the ledger knows, then warns.
    pub(super) fn announce(&self) {
        let (files, parts) = (&self.base.config.count.files, &self.parts);
        if self.base.config.watch.shows_text() {
            self.introduce();
            if let Some(first) = parts.to_run().next() {
                self.tell_limit();
                self.tell_count();
                // It refuses nothing, so a quiet nightly job is not told.
                for oddity in self.count.iter().flat_map(FirstCount::oddities) {
                    tell(&printable(&format!("         warning: {oddity}")));
                }
                let is_compared =
                    matches!(&first.outputs, PartOutputs::Open(files) if files.past.is_some());
                if let Some(key) = files.changes_key.as_deref().filter(|_| !is_compared) {
                    let key = quoted(key);
                    tell(&format!(
                        "rescore: there is no output to compare with by {key}"
                    ));
                }
            }
        }
        let of_ledger = self.ledger.iter().flat_map(ledger_warnings);
        for warning in self.warnings.iter().cloned().chain(of_ledger) {
            observe::warn(&printable(&warning));
        }
        for part in &parts.all {
            if let PartState::Unusable(error) = &part.state {
                tell_error(error);
            }
        }
    }

    fn introduce(&self) {
        let (base, parts) = (&self.base, &self.parts);
        let is_finished = |part: &&RunPart<_>| matches!(part.state, PartState::Finished { .. });
        let finished = parts.all.iter().filter(is_finished).count() as u64;
        if finished > 0 {
            let finished = counted(finished, "file");
            tell(&format!(
                "rescore: skipping {finished} that an earlier run has finished"
            ));
        }
        let rows = match (parts.to_run().count(), parts.only()) {
            (0, _) => return tell("rescore: nothing to send"),
            (_, Some(only)) => parts.selection().of(&only.input.file.input.display()),
            (number, None) => counted(number as u64, "file"),
        };
        let endpoint = self.client.endpoint();
        let service = match base.stand_in {
            Some(_) => "the built-in sandbox".to_owned(),
            None => endpoint.to_string(),
        };
        let proxy = proxy_for(endpoint);
        let proxy = proxy.map(|proxy| format!(" through the proxy {}", quoted(&proxy)));
        tell(&format!(
            "rescore: sending {rows} to {service}{}; up to {} at a time, {}",
            proxy.unwrap_or_default(),
            counted(base.concurrency.get() as u64, "call"),
            pace_in_words(base.config.pace.rate)
        ));
        for only in parts.all.iter().take(1).flat_map(|part| &part.input.only) {
            tell(&printable(&format!("         only rows where {only}")));
        }
        self.tell_columns();
    }

    /// Lists the columns of the inputs that are used, and those that are replaced: again only where they differ from those of
    /// the input before.
    fn tell_columns(&self) {
        let mut last = None;
        for part in &self.parts.all {
            let Some(OpenPart { input, .. }) = part.to_run() else {
                continue;
            };
            let (mapping, replaced) = (&input.opened.mapping, &input.opened.replaced);
            let before = last.replace((mapping, replaced));
            // An empty file has no columns.
            if before == Some((mapping, replaced)) || mapping.is_empty() {
                continue;
            }
            if before.is_some() {
                let name = display(path_of(&part.input));
                tell(&format!("         from {name} on:"));
            }
            tell(&format!("         {}", printable(mapping)));
            if !replaced.is_empty() {
                let names: Vec<_> = replaced.iter().map(|name| quoted(name)).collect();
                let names = names.join(", ");
                tell(&format!(
                    "         replacing the columns {names} of the input"
                ));
            }
        }
    }

    /// Tells the limit that an earlier run found, unless the settings rule it out.
    fn tell_limit(&self) {
        let start = self.gate.limit();
        let facts = self.ledger.as_ref().map(|ledger| &ledger.facts);
        if let Some(RememberedLimit { found, .. }) = facts.and_then(|facts| facts.remembered_limit)
            && start != FoundLimit::default()
        {
            let (found, most) = (day(found), most(start));
            tell(&format!(
                "rescore: the limit found {found} was {most}: starting near it"
            ));
        }
    }

    /// Tells which ledger it is, so that a mistyped name is seen, whether the run continues an earlier one, and what the first
    /// pass has counted.
    fn tell_count(&self) {
        let facts = self.ledger.as_ref().map(|ledger| &ledger.facts);
        let path = self
            .ledger
            .as_ref()
            .map(|ledger| ledger.location().to_display());
        let path = path.unwrap_or_default();
        if facts.is_some() {
            for notice in ledger_notices(&path, facts) {
                tell(&format!("rescore: {notice}"));
            }
        }
        let Some(count) = &self.count else {
            return tell("         the rows of a stream cannot be counted before the first call");
        };
        let paid = paid_in(&path, self.base.stand_in.is_some());
        let left = calls_left(&self.base.config.count.call_limits, facts);
        let words = count.in_words(&paid, self.identity.tariff.as_ref(), left);
        tell(&printable(&format!("         {}", words.join(", "))));
    }
}

/// How fast calls start.
fn pace_in_words(rate: Rate) -> String {
    match rate {
        Rate::Auto => "pace found automatically".to_owned(),
        Rate::Share(share) => format!("{:.0}% of the pace found automatically", share * 100.0),
        Rate::Unlimited => "no rate limit".to_owned(),
        Rate::PerSecond(_) => format!("at most {rate}"),
    }
}

/// Warns of what kills may have cost, and where the address or the service ID may be mistyped: then all rows are paid for again.
fn ledger_warnings(ledger: &OpenLedger) -> impl Iterator<Item = String> + use<> {
    let facts = &ledger.facts;
    let killed = (facts.run.abandoned > 0).then(|| {
        format!(
            "killed runs left {} without an answer, which may be billed twice if they are asked again",
            counted(facts.run.abandoned, "request")
        )
    });
    let is_elsewhere = !facts.other_accounts.is_empty();
    let elsewhere =
        is_elsewhere.then(|| only_of_others(ledger.location().to_display(), &facts.other_accounts));
    killed.into_iter().chain(elsewhere)
}
