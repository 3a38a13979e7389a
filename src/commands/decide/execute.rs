//! Runs the command in one of its two ways.

use super::super::interrupt::Interrupts;
use super::{rewrite, what_if};
use crate::base::error::{Exit, Result};
use crate::config::{DecideConfig, DecideTask};

/// Decides the rows of a scored file again, or counts what other thresholds would do.
///
/// # Errors
/// Exit code 2: the file is not a scored file, or the output cannot be made. Exit code 3: it cannot be written. Nothing is
/// left then.
pub(crate) fn execute(config: DecideConfig) -> Result<Exit> {
    let DecideConfig { file, prefix, task } = config;
    let interrupts = Interrupts::listen()?;
    match task {
        DecideTask::Rewrite(task) => rewrite::rewrite(&file, &prefix, *task, &interrupts),
        DecideTask::WhatIf { today, json } => what_if::what_if(&file, &prefix, &today, json),
    }
}
