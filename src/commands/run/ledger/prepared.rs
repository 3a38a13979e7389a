//! The run's ledger before the run starts: open, while nothing in it has changed. It knows what may be replaced, and what
//! earlier runs left.

use std::path::{Path, PathBuf};

use tokio::sync::watch;

use super::super::lookup::LookupStage;
use super::running::RunLedger;
use crate::base::error::{Error, Result, quoted, shown};
use crate::ledger::{
    EarlierAnswers, FieldsToKeep, LackingAnswers, LedgerFacts, LedgerWriter, OpenLedger,
    OutputLock, OutputState, PreviousRun, Reuse,
};
use crate::observe::{counted, same_command};
use crate::output::{Replace, partial_of};
use crate::raw_json::Pointer;

/// The answers of earlier runs before this one starts, or nothing where none are stored.
pub(in crate::commands::run) struct PreparedLedger {
    pub(super) ledger: Option<OpenLedger>,
    /// What was learned of it when it was opened.
    pub(in crate::commands::run) facts: LedgerFacts,
    pub(super) dedupe: bool,
    /// Which answers are used.
    pub(super) reuse: Reuse,
    /// The answers are the stand-in's, which cost nothing.
    pub(super) sandbox: bool,
    /// Held as long as the run lasts, whichever ledger it has; `None` where rows go to a stream.
    pub(super) lock: Option<OutputLock>,
}

/// What a run that is ended immediately leaves in its ledger.
pub(in crate::commands::run) struct LedgerLastWords {
    /// Where it is, for people.
    place: PathBuf,
    sandbox: bool,
    fresh: bool,
}

impl LedgerLastWords {
    /// The words; `None` if it has been removed.
    pub(in crate::commands::run) fn say(&self) -> Option<String> {
        self.place.exists().then(|| {
            format!(
                "`{}` has the {}answers that reached the disk; {} continues from there",
                shown(&self.place),
                if self.sandbox { "" } else { "paid " },
                same_command(self.fresh)
            )
        })
    }
}

impl PreparedLedger {
    /// What may be replaced at a file's path without `--overwrite`: what the run over this input left there that this one
    /// continues; `None` is an input without a path.
    ///
    /// # Errors
    /// Exit code 2: there is a file that is not what that run left, or the ledger cannot be read.
    pub(in crate::commands::run) fn replaceable(
        &self,
        file: &Path,
        input: Option<&Path>,
    ) -> Result<Replace> {
        let LedgerFacts {
            existed,
            is_own,
            continues,
            ..
        } = self.facts;
        if !existed {
            return Ok(Replace::Nothing);
        }
        let was_finished = self.was_finished();
        let is_new = was_finished && !continues;
        if is_new && file.exists() {
            return Err(finished(file, &self.facts));
        }
        // Where runs share a ledger, a run to another output may have made it: it says nothing of this file.
        if is_new || (!is_own && !continues) {
            return Ok(Replace::Nothing);
        }
        let state = self.output_state(file, input)?;
        if !is_own && !was_finished && state != OutputState::AsLeft {
            return Ok(Replace::Partial);
        }
        let (shown, partial) = (file.display(), partial_of(file));
        let run = if was_finished {
            "finished"
        } else {
            "unfinished"
        };
        let why = match state {
            OutputState::Absent => return Ok(Replace::Partial),
            OutputState::AsLeft => return Ok(Replace::Whole),
            OutputState::Changed if self.output_state(&partial, input)? == OutputState::AsLeft => {
                format!(
                    "`{shown}` appeared during the {run} run, whose complete file is `{}`",
                    partial.display()
                )
            }
            OutputState::Changed => format!("`{shown}` has changed since the {run} run left it"),
            OutputState::OfOtherInput => {
                format!("`{shown}` was written by a run with another input")
            }
            OutputState::Foreign => format!("`{shown}` is not from the {run} run"),
        };
        Err(Error::usage(why).hint("move it away, or replace it with `--overwrite`"))
    }

    /// How a file relates to the run over this input that this one continues.
    ///
    /// # Errors
    /// Exit code 2: the ledger cannot be read.
    pub(in crate::commands::run) fn output_state(
        &self,
        file: &Path,
        input: Option<&Path>,
    ) -> Result<OutputState> {
        match &self.ledger {
            Some(ledger) if self.facts.existed => ledger.output_state(file, input),
            _ => Ok(OutputState::Foreign),
        }
    }

    /// What may be replaced of one of several outputs that has not got its name yet.
    pub(in crate::commands::run) fn replaceable_partials(&self) -> Replace {
        let facts = &self.facts;
        let is_ours = facts.continues || (facts.is_own && !self.was_finished());
        if facts.existed && is_ours {
            Replace::Partial
        } else {
            Replace::Nothing
        }
    }

    /// The ledger of a run in which no rows run: it stays as it is.
    pub(in crate::commands::run) fn without_a_run(self) -> RunLedger {
        RunLedger::new(None, self.is_fresh(), self.was_left(), self.lock)
    }

    /// Whether it stayed after a run over files of the directory in which every row has a verdict: for rows without a
    /// decision, which are in no file of their own, or because most of its answers were not used.
    pub(in crate::commands::run) fn was_left(&self) -> bool {
        let finished = PreviousRun::Finished {
            failed: 0,
            unsent: 0,
        };
        let previous = self.facts.previous_run;
        self.reuse == Reuse::Continue && self.is_left_over() && previous == finished
    }

    /// Whether it is the run's own, and an earlier run left it.
    pub(in crate::commands::run) const fn is_left_over(&self) -> bool {
        self.facts.existed && self.facts.is_own
    }

    /// The option by which the run has another ledger than its own, or none.
    pub(in crate::commands::run) fn instead_of_own(&self) -> Option<&'static str> {
        match self.facts.place {
            _ if self.facts.is_own => None,
            Some(_) => Some("--ledger"),
            None => Some("--no-ledger"),
        }
    }

    /// Whether the previous run reached the end of its input.
    pub(in crate::commands::run) const fn was_finished(&self) -> bool {
        matches!(self.facts.previous_run, PreviousRun::Finished { .. })
    }

    /// Whether the run sends the failed rows of a finished run again.
    pub(in crate::commands::run) const fn is_retry(&self) -> bool {
        matches!(self.reuse, Reuse::Retry)
    }

    /// Whether the stand-in answers, which costs nothing.
    pub(in crate::commands::run) const fn is_sandbox(&self) -> bool {
        self.sandbox
    }

    /// The further fields to keep of each answer, those that are written first.
    pub(in crate::commands::run) fn fields(&self, captured: &[Pointer]) -> FieldsToKeep {
        match &self.ledger {
            Some(ledger) => ledger.fields(),
            None => watch::channel(captured.to_vec()).1,
        }
    }

    /// Whether the run starts over, by `--fresh`.
    pub(in crate::commands::run) const fn is_fresh(&self) -> bool {
        matches!(self.reuse, Reuse::Nothing)
    }

    /// Whether rows are written without a call, as their answers are in the ledger.
    pub(in crate::commands::run) const fn uses_earlier_answers(&self) -> bool {
        self.facts.existed && !self.is_fresh()
    }

    /// What stays of a run that is ended immediately; `None` where no answers do.
    pub(in crate::commands::run) fn last_words(&self) -> Option<LedgerLastWords> {
        Some(LedgerLastWords {
            place: self.facts.place.clone()?,
            sandbox: self.sandbox,
            fresh: self.is_fresh(),
        })
    }

    /// The stage that looks rows up in it.
    ///
    /// # Errors
    /// Exit code 2: it cannot be opened for reading.
    pub(in crate::commands::run) fn lookup_stage(&self) -> Result<LookupStage> {
        match &self.ledger {
            Some(ledger) => Ok(LookupStage::new(
                ledger.hasher(),
                ledger.lookup()?,
                self.dedupe,
            )),
            None => Ok(LookupStage::default()),
        }
    }

    /// Starts the run and what makes its answers durable. It comes last, as with `--fresh` the first answer of the run
    /// discards those of earlier runs.
    ///
    /// # Errors
    /// Exit code 2 or 3: the ledger cannot be written.
    pub(in crate::commands::run) fn start(self) -> Result<(RunLedger, Option<LedgerWriter>)> {
        let (fresh, was_left) = (self.is_fresh(), self.was_left());
        let (ledger, writer) = self.ledger.map(OpenLedger::start).transpose()?.unzip();
        Ok((RunLedger::new(ledger, fresh, was_left, self.lock), writer))
    }
}

/// The refusal to replace what a finished run left, with both ways to continue and what they cost.
fn finished(file: &Path, facts: &LedgerFacts) -> Error {
    let failed = match facts.previous_run {
        PreviousRun::Finished { failed, .. } => failed,
        PreviousRun::None | PreviousRun::Stopped => 0,
    };
    let retry = match failed {
        0 => "calls only for rows that were fixed since".to_owned(),
        failed => format!("up to {}", counted(failed, "call")),
    };
    let lacking = facts
        .lacking_answers
        .as_ref()
        .map(|LackingAnswers { answers, fields }| {
            let answers = answers.map_or_else(
                || "answers that lack".to_owned(),
                |answers| format!("{} without", counted(answers, "answer")),
            );
            let fields: Vec<_> = fields.iter().map(|field| quoted(field)).collect();
            format!(
                ", and asks again for the rows of {answers} {}",
                fields.join(", ")
            )
        });
    let fresh = match facts.replaced_answers {
        Some(EarlierAnswers { answers, .. }) => {
            format!(
                "sends every row again (about {})",
                counted(answers + failed, "call")
            )
        }
        None if facts.is_own => "sends every row that can be sent".to_owned(),
        None => "uses the answers in the ledger".to_owned(),
    };
    Error::usage(format!("`{}` already exists", file.display()))
        .detail(format!(
            "`--retry-failed` sends only the rows without a verdict and keeps all others ({retry}){}",
            lacking.unwrap_or_default()
        ))
        .detail(format!("`--overwrite` starts a new run, which {fresh}"))
        .hint("add one of these two options")
}
