//! What lets the rows of one file after the other run: everything that the run has only one of.

use tokio::runtime::Runtime;

use super::super::lookup::LookupStage;
use super::file::{FileEnd, OpenFile};
use super::ledger::RunLedger;
use super::rows::{RowStages, run_rows};
use super::stdout_reader;
use super::threads::{StopChannel, WhenBroken};
use crate::base::error::Result;
use crate::engine::Engine;
use crate::output::Writer;
use crate::service::Client;
use crate::telemetry::event::Event;
use crate::telemetry::stats::Stats;
use crate::verdict::DecisionPolicy;

/// What the rows of every file pass through, one file after the other.
pub(super) struct FileDriver<'a> {
    pub(super) runtime: &'a Runtime,
    pub(super) engine: &'a Engine<Client>,
    pub(super) ledger: &'a RunLedger,
    pub(super) policy: DecisionPolicy,
    /// Rows are counted for a report.
    pub(super) counts: bool,
    pub(super) stops: StopChannel,
}

impl FileDriver<'_> {
    /// Lets the rows of a file run. Returns the stage for the next file, if there may be one.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(super) fn run(
        &mut self,
        file: OpenFile,
        lookup: LookupStage,
        when_broken: WhenBroken,
    ) -> Result<(FileEnd, Option<LookupStage>)> {
        let OpenFile {
            input,
            real_input,
            output,
            reader,
            check,
            layout,
            sink,
            sides,
        } = file;
        if output.is_none() {
            stdout_reader::watch(self.stops.sender.clone())?;
        }
        let writer = Writer::new(layout, self.policy.clone(), sink, sides);
        let stages = RowStages {
            reader,
            check,
            when_broken,
            lookup,
            writer: if self.counts {
                writer.counting()
            } else {
                writer
            },
        };
        let record = self.ledger.recorder(real_input);
        let mut rows = run_rows(self.runtime, self.engine, stages, &mut self.stops, record)?;
        let lookup = rows.lookup.take();
        let ended = FileEnd {
            input,
            output,
            rows,
        };
        Ok((ended, lookup))
    }

    /// The rows of the next of several files come now. `before` is how many bytes the files before it have.
    pub(super) fn start_file(&self, file: u64, before: u64) {
        self.engine.start_file(file, before);
    }

    /// Records that something happened.
    pub(super) fn emit(&self, event: Event) {
        self.engine.events().emit(event);
    }

    /// Reads the statistics.
    pub(super) fn stats<T>(&self, read: impl FnOnce(&Stats) -> T) -> T {
        self.engine.events().with_stats(read)
    }
}
