//! Which run it is, from its config, and which file it has read: for progress, summary, metrics and log.

use std::path::Path;
use std::time::SystemTime;

use super::super::open_input::InputFacts;
use crate::config::{RunConfig, UnconfiguredRun};
use crate::input::Input;
use crate::observe::{DecisionRule, ReadFile, RunIdentity};
use crate::telemetry::stats::Stats;

/// What a job is called that writes to standard output and has no name.
const NAMELESS: &str = "rescore";

/// The identity of the run that starts now.
pub(super) fn of(config: &RunConfig) -> RunIdentity {
    RunIdentity {
        job: job(config),
        profile: config.watch.profile.clone(),
        start: SystemTime::now(),
        rule: DecisionRule::of(&config.policy, &config.captured),
    }
}

/// The identity of a run whose settings are wrong.
pub(super) fn of_unconfigured(run: &UnconfiguredRun) -> RunIdentity {
    RunIdentity {
        job: job_name(run.job.clone(), run.output.as_deref()),
        profile: run.profile.clone(),
        start: SystemTime::now(),
        rule: DecisionRule::UNKNOWN,
    }
}

/// The job's name: `--job`, or the output's name.
pub(super) fn job(config: &RunConfig) -> String {
    job_name(config.watch.job.clone(), config.files.output())
}

/// The job's name, by what was given for it and for the output.
fn job_name(named: Option<String>, output: Option<&Path>) -> String {
    let output = output.and_then(Path::file_name);
    named
        .or_else(|| output.map(|name| name.to_string_lossy().into_owned()))
        .unwrap_or_else(|| NAMELESS.to_owned())
}

/// The input, before it is opened.
pub(super) fn named(input: &Input) -> ReadFile {
    let path = match input {
        Input::File(path) => Some(path.clone()),
        Input::Stdin => None,
    };
    ReadFile { path, bytes: None }
}

/// The input, after it was read.
pub(super) fn read(input: &InputFacts, stats: &Stats) -> ReadFile {
    ReadFile {
        bytes: input.size.or(Some(stats.position)),
        ..named(&input.source)
    }
}
