//! Whether a run that continues or retries an earlier one asks what that one asked. Options such as `--set` and `--vpn-check`
//! change what is sent for every row; then no paid answer is found again.

use super::bodies::bodies;
use super::input_check::size;
use super::ledger::PreparedLedger;
use super::lookup::LookupStage;
use crate::base::error::{Error, Result};
use crate::input::{Reader, ReaderSettings};
use crate::ledger::PreviousRun;
use crate::observe::{count, counted};
use crate::service::Plan;

/// So many rows whose answers are known are enough if they are among twice as many: the others may have failed.
const ENOUGH: u64 = 50;

/// What a run that asks what the earlier one asked would meet.
struct Expected {
    /// So many rows whose answers are known are enough.
    known: u64,
    /// So many others are no reason to doubt.
    sent: u64,
}

impl Expected {
    /// `None` if the run may send any row.
    fn of(ledger: &PreparedLedger) -> Option<Self> {
        let facts = &ledger.facts;
        // Answers that lack a field have a message of their own.
        if facts.lacking_answers.is_some() {
            return None;
        }
        let (earlier, retry) = (facts.earlier_answers, ledger.is_retry());
        match (earlier, facts.previous_run) {
            (Some(earlier), _) if retry => Some(Self {
                known: earlier.answers.div_ceil(2),
                sent: 0,
            }),
            (Some(_), _) => Some(Self { known: 1, sent: 0 }),
            // A shared ledger does not tell which answers the run has used.
            (None, PreviousRun::Finished { failed, unsent }) if retry && !facts.is_own => {
                Some(Self {
                    known: u64::MAX,
                    sent: failed.saturating_mul(2).saturating_add(unsent),
                })
            }
            _ => None,
        }
    }
}

/// Looks up rows before anything is sent. Returns a warning for a run that continues and finds no answer.
///
/// One answer that is found is enough for a run that continues. One that retries is meant to send few rows: half of all
/// answers are enough, or, with a shared ledger, that at most twice as many rows have none as failed, and as many as could
/// not be sent before and are fixed now. Where they are not among the first rows, the others are read as well: new rows may
/// come first. Rows that cannot be sent do not count, and a stream cannot be read twice.
///
/// # Errors
/// Exit code 2: most rows would be sent with `--retry-failed`, or the ledger cannot be read.
pub(super) fn check(
    ledger: &PreparedLedger,
    inputs: &[ReaderSettings],
    plan: Plan,
) -> Result<Option<String>> {
    let Some(expected) = Expected::of(ledger) else {
        return Ok(None);
    };
    // Where a run over several files stopped between two, the next has no answers.
    if inputs.iter().any(|input| size(input).is_none()) || (inputs.len() > 1 && !ledger.is_retry())
    {
        return Ok(None);
    }
    let mut tally = Tally::default();
    let mut lookup = ledger.lookup_stage()?;
    for input in inputs {
        if tally.look_up(input, plan, &mut lookup, expected.known)? {
            return Ok(None);
        }
    }
    // A part of the file may be gone.
    if tally.known * 2 >= tally.rows || tally.rows - tally.known <= expected.sent {
        Ok(None)
    } else if ledger.is_retry() {
        Err(tally.refusal(ledger))
    } else {
        let answers = ledger.facts.earlier_answers.map(|earlier| earlier.answers);
        Ok(Some(tally.warning(answers.unwrap_or_default())))
    }
}

/// Rows that can be sent.
#[derive(Debug, Default)]
struct Tally {
    rows: u64,
    /// Those whose answers are known, or that are known to fail.
    known: u64,
}

impl Tally {
    /// Looks up the rows of an input until enough are known. Returns whether they are.
    fn look_up(
        &mut self,
        input: &ReaderSettings,
        plan: Plan,
        lookup: &mut LookupStage,
        needed: u64,
    ) -> Result<bool> {
        // The run itself reports an input that cannot be read.
        let Ok((mut reader, _)) = Reader::open(input.clone(), bodies(plan)) else {
            return Ok(false);
        };
        while let Ok(Some(batch)) = reader.next_batch() {
            for is_known in lookup.known(&batch.rows)? {
                self.rows += 1;
                self.known += u64::from(is_known);
            }
            if self.known >= needed || (self.known >= ENOUGH && self.known * 2 >= self.rows) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// How many rows have an answer, as the start of a sentence.
    fn found(&self) -> String {
        let rows = counted(self.rows, "row");
        match self.known {
            0 => format!("none of the {rows} that can be sent has an answer under these settings"),
            known => format!(
                "only {} of the {rows} that can be sent have an answer under these settings",
                count(known)
            ),
        }
    }

    fn refusal(&self, ledger: &PreparedLedger) -> Error {
        let again = match (ledger.was_finished(), ledger.facts.is_own) {
            (true, true) => "`--overwrite` instead of `--retry-failed` sends every row again",
            (true, false) => {
                "`--overwrite` instead of `--retry-failed` sends these rows, and uses the answers of the others"
            }
            (false, _) => "`--fresh` instead of `--retry-failed` sends every row again",
        };
        let paid = if ledger.is_sandbox() {
            "sent"
        } else {
            "sent and paid for"
        };
        Error::usage(self.found())
            .detail(format!(
                "`--retry-failed` is for the rows without a verdict, but {} would be {paid}; nothing was sent",
                counted(self.rows - self.known, "row")
            ))
            .hint(format!(
                "use the options of the run that is retried, as `--map`, `--set`, `--vpn-check` and \
                 `--no-dedupe` change which answers are found; fix its failed rows in the input. {again}"
            ))
    }

    fn warning(&self, answers: u64) -> String {
        format!(
            "the earlier run has {}, but {}: options such as `--map`, `--set` and \
             `--vpn-check` change what is sent, and `--max-age` which answers are used",
            counted(answers, "answer"),
            self.found()
        )
    }
}
