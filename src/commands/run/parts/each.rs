//! Lets the rows of several inputs run, one input after the other.

use std::path::PathBuf;

use super::super::super::lookup::LookupStage;
use super::super::super::open_input::bytes_ignored;
use super::super::file::OpenFile;
use super::super::file_driver::FileDriver;
use super::super::threads::WhenBroken;
use super::ended::PartsEnd;
use super::plan::{PartPlan, PlannedPart, PlannedParts};
use crate::base::error::{Error, Exit, Result, shown};
use crate::observe::tell_error;
use crate::telemetry::event::{CancelReason, Event};
use crate::telemetry::hub::Events;
use crate::telemetry::row_counts::RowCounts;
use crate::telemetry::stats::Stats;

impl PlannedParts {
    /// Counts the inputs whose rows do not run.
    pub(in crate::commands::run) fn emit_known(&self, events: &Events) {
        for part in &self.parts {
            match &part.plan {
                PartPlan::Run(_) => {}
                PartPlan::Skip { rejects } => events.emit(Event::FileSkipped {
                    has_rejects: rejects.is_some(),
                }),
                PartPlan::Unusable(error) => {
                    events.emit(Event::FileFailed(reason_of(error)));
                }
            }
        }
    }

    /// The end of a run that has no rows to run.
    pub(in crate::commands::run) fn into_end(self) -> PartsEnd {
        let mut end = PartsEnd::new(self.directory, None);
        for part in self.parts {
            end.add_unrun(part);
        }
        end
    }
}

/// Lets the rows of each input run, until the last one or a stop. Then the stage for look-ups is closed.
///
/// # Errors
/// A thread cannot be started.
pub(in crate::commands::run) fn run_each(
    driver: &mut FileDriver<'_>,
    parts: PlannedParts,
    lookup: LookupStage,
) -> Result<PartsEnd> {
    let size = parts.size();
    let mut turns = Turns {
        driver,
        lookup: Some(lookup),
        end: PartsEnd::new(parts.directory, size),
        fail_fast: parts.fail_fast,
        before: 0,
    };
    for (file, part) in (1..).zip(parts.parts) {
        turns.next(file, part)?;
    }
    Ok(turns.end)
}

/// The inputs in their turns.
struct Turns<'a, 'b> {
    driver: &'a mut FileDriver<'b>,
    /// `None` once the run is stopping.
    lookup: Option<LookupStage>,
    end: PartsEnd,
    fail_fast: bool,
    /// The bytes of the inputs whose turns are over.
    before: u64,
}

impl Turns<'_, '_> {
    fn next(&mut self, file: u64, part: PlannedPart) -> Result<()> {
        let PlannedPart {
            input,
            output,
            plan,
        } = part;
        let (to_run, lookup) = match (plan, self.lookup.take()) {
            (PartPlan::Run(to_run), Some(lookup)) => (to_run, lookup),
            (plan, lookup) => {
                self.lookup = lookup;
                self.end.add_unrun(PlannedPart {
                    input,
                    output,
                    plan,
                });
                return Ok(());
            }
        };
        self.driver.start_file(file, self.before);
        self.before += to_run.facts.size.unwrap_or_default();
        match to_run.open() {
            Ok(open) => self.run(input, open, lookup),
            Err(error) => {
                self.lookup = Some(lookup);
                self.cannot_open(input, error);
                Ok(())
            }
        }
    }

    fn run(&mut self, input: PathBuf, open: OpenFile, lookup: LookupStage) -> Result<()> {
        let earlier = self.driver.stats(RowCounts::of);
        let when_broken = if self.fail_fast {
            WhenBroken::StopRun
        } else {
            WhenBroken::EndFile
        };
        let (mut ended, lookup) = self.driver.run(open, lookup, when_broken)?;
        let rows = self.driver.stats(RowCounts::of).since(earlier);
        let has_all_rows = self.driver.stats(Stats::has_all_rows);
        let error = ended.rows.error.take();
        let name = shown(&input);
        if has_all_rows && rows.resolved == 0 {
            self.end.warnings.push(format!("`{name}` has no rows"));
        }
        if ended.input.ignored.any() {
            self.end.warnings.push(bytes_ignored(&format!("`{name}`")));
        }
        let stopped = self.driver.stats(|stats| stats.cancelled);
        let of_file = error.as_ref().filter(|_| stopped.is_none_or(is_of_file));
        self.end.add_run(input, ended, rows, has_all_rows, of_file);
        match (error, stopped) {
            (error, Some(_)) => self.end.error = error,
            (Some(error), None) => self.file_failed(&error),
            (None, None) => {}
        }
        self.lookup = lookup.filter(|_| stopped.is_none());
        Ok(())
    }

    /// The turn of an input has come, and it cannot be used, or its output cannot be made.
    fn cannot_open(&mut self, input: PathBuf, error: Error) {
        let reason = match reason_of(&error) {
            // The next output would not have a place either.
            _ if error.is_disk_full() => Some(CancelReason::Output),
            reason if self.fail_fast => Some(reason),
            _ => None,
        };
        self.end.add_failed(input, &error);
        match reason {
            Some(reason) => {
                self.driver.emit(Event::CancelBegan(reason));
                self.end.error = Some(error);
                self.lookup = None;
            }
            None => self.file_failed(&error),
        }
    }

    /// The run continues without this input, or without its end.
    fn file_failed(&self, error: &Error) {
        self.driver.emit(Event::FileFailed(reason_of(error)));
        tell_error(error);
    }
}

/// Whether a run that stops for this reason stops because of an input.
const fn is_of_file(reason: CancelReason) -> bool {
    matches!(reason, CancelReason::Input | CancelReason::InputChanged)
}

/// Why an input cannot be used.
fn reason_of(error: &Error) -> CancelReason {
    match error.exit() {
        Exit::Stopped => CancelReason::InputChanged,
        _ => CancelReason::Input,
    }
}
