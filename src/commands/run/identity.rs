//! Which run it is, from its config, and which file it has read: for progress, summary, metrics and log.

use std::path::Path;
use std::time::SystemTime;

use super::super::open_input::InputFacts;
use crate::config::RunConfig;
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

/// The job's name: `--job`, or the output's name.
pub(super) fn job(config: &RunConfig) -> String {
    let output = config.files.output().and_then(Path::file_name);
    let named = config.watch.job.clone();
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
