//! A run from top to bottom: its plan, the files that it opens, its rows, and its end. A run that cannot start writes tonight's
//! failure over yesterday's success, for those who watch it.
//!
//! Only a file of the same kind is replaced: a mistyped `--summary users.csv` must not cost anybody their users. Nothing is
//! written while another run holds the output: these files may be that run's own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::open::metrics_file;
use super::plan::RunPlan;
use crate::base::error::{Error, Exit, Result};
use crate::base::private_file::Readers;
use crate::commands::signals::{RecordFailure, StopSignals, spawn};
use crate::commands::status::real_name;
use crate::commands::text::SummaryFile;
use crate::config::{RunConfig, WatchConfig};
use crate::engine::Deadline;
use crate::ledger::{host, status_directory};
use crate::observe::{
    DecisionRule, LogLine, Measured, RunIdentity, RunSummary, counted, end_log, ended_by,
    report_summary, start_reports,
};
use crate::telemetry::counts::Counts;

/// The name of a job that writes to standard output.
const NAMELESS_JOB: &str = "rescore";

/// Runs, and reports how it went.
///
/// # Errors
/// Whatever kept the run from starting. What ended it early has been reported, and is in the exit code.
pub(crate) fn execute(config: RunConfig) -> Result<Exit> {
    let identity = identity_of(&config);
    let (failed, watch) = (identity.clone(), config.watch.clone());
    let output = config.count.files.name().map(Path::to_owned);
    if let Some(directory) = status_directory() {
        let input = match &*config.count.files.inputs {
            [only] => only.file.input.display(),
            several => counted(several.len() as u64, "input"),
        };
        let output = output.as_deref().map(real_name);
        start_reports(directory, &identity, host(), input, output);
    }
    let record: RecordFailure = Arc::new(move |error| {
        write_failure(&failed, &watch, output.as_deref(), error);
        // The error is the last line. It would not help to know that the log lacks lines.
        let _ = end_log(LogLine::Error(error.log_words()));
    });
    run(config, &identity, &record).inspect_err(|error| record(error))
}

/// Runs once, or, where a sample grows until enough is known, once for each of its rounds. Each round continues the run, and
/// takes the answers of the rounds before from the ledger.
fn run(mut config: RunConfig, identity: &RunIdentity, record: &RecordFailure) -> Result<Exit> {
    // Before anything is waited for: another run may last for hours, and the header or the key may never come.
    let signals = StopSignals::start(true)?;
    let budget = &config.count.budget;
    if let Some(deadline) = Deadline::new(budget.until, budget.max_time) {
        let signals = signals.clone();
        spawn("hours", move || end_at(&deadline, &signals))?;
    }
    loop {
        let plan = RunPlan::new(config.clone(), identity.clone(), signals.clone(), record)?;
        let opened = plan.open()?;
        opened.announce();
        let ended = opened.run()?;
        let next = ended.next_round();
        let exit = ended.finish();
        let Some(rows) = next else {
            signals.run_is_over();
            return Ok(exit);
        };
        if let Some(signal) = signals.next_round() {
            return Ok(Exit::Interrupted(signal));
        }
        for input in &mut config.count.files.inputs {
            input.selection = rows;
        }
    }
}

/// How often the clocks are read. One long sleep would not notice that a clock is set, or that the machine was asleep.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Ends each round of the run from its deadline on.
fn end_at(deadline: &Deadline, signals: &StopSignals) -> ! {
    loop {
        if let Some(stop) = deadline.reached() {
            signals.hours_are_over(stop);
        }
        #[allow(
            clippy::disallowed_methods,
            reason = "it is not the thread that makes calls"
        )]
        std::thread::sleep(LOOK_INTERVAL);
    }
}

/// The identity of the run that starts now, as far as it is known without its files.
fn identity_of(config: &RunConfig) -> RunIdentity {
    let service = config.service.real();
    // The name of the output is the same every night.
    let job = config.count.files.name().and_then(Path::file_name);
    let job = job.map(|name| name.to_string_lossy().into_owned());
    RunIdentity {
        profile: config.profile.clone(),
        sandbox: service.is_none(),
        endpoint: service.map(|service| service.endpoint.to_string()),
        rule: DecisionRule::of(&config.policy, &config.count.captured),
        tariff: config.count.budget.price.clone(),
        options: config.options.clone(),
        ..RunIdentity::new(job.unwrap_or_else(|| NAMELESS_JOB.to_owned()))
    }
}

/// Records that the run could not start. A file that cannot be written is left out: the error itself is what matters.
fn write_failure(
    identity: &RunIdentity,
    watch: &WatchConfig,
    output: Option<&Path>,
    error: &Error,
) {
    let exit = error.exit();
    let counts = Counts::not_started().as_of(Duration::ZERO, identity.tariff.as_ref());
    let summary = RunSummary {
        error: Some(ended_by(error)),
        ..RunSummary::new(identity, counts.clone(), exit)
    };
    report_summary(&error.in_a_line(), &summary);
    if exit == Exit::Busy {
        return;
    }
    // No record takes the name of a file that the next start writes, and a pipe would wait for a reader.
    let is_free = |path: &&PathBuf| {
        let is_taken = [output, error.file()].contains(&Some(path.as_path()));
        !is_taken && (!path.exists() || path.is_file())
    };
    if let Some(path) = watch.summary.as_ref().filter(is_free)
        && let Ok(file) = SummaryFile::create(path, Readers::EVERYBODY)
    {
        file.write(&summary);
    }
    if let Some(path) = watch.metrics.as_ref().filter(is_free)
        && let Ok(file) = metrics_file(path, identity.clone())
    {
        let _ = file.write(&counts, &Measured::default(), Some(exit));
    }
}
