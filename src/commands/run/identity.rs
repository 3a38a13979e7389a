//! Which run it is, from its config, and which file it has read: for progress and the summary.

use std::time::SystemTime;

use super::super::open_input::InputFacts;
use super::metrics;
use crate::config::{RunConfig, UnconfiguredRun};
use crate::input::Input;
use crate::observe::{DecisionRule, ReadFile, RunIdentity};
use crate::telemetry::stats::Stats;

/// The identity of the run that starts now.
pub(super) fn of(config: &RunConfig) -> RunIdentity {
    RunIdentity {
        job: metrics::job(config),
        profile: config.watch.profile.clone(),
        start: SystemTime::now(),
        rule: DecisionRule::of(&config.policy, &config.captured),
    }
}

/// The identity of a run whose settings are wrong.
pub(super) fn of_unconfigured(run: &UnconfiguredRun) -> RunIdentity {
    RunIdentity {
        job: metrics::job_name(run.job.clone(), run.output.as_deref()),
        profile: run.profile.clone(),
        start: SystemTime::now(),
        rule: DecisionRule::UNKNOWN,
    }
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
