//! Verdicts that the ledger did not pay for: a run over a file that has some would pay for all of them again, and is refused.
//! This file must not know what the run would do with its rows.

use super::plan::{ReadInput, ReadPart};
use crate::base::error::{Error, Result};
use crate::base::text::display;
use crate::commands::inputs::open_users;
use crate::input::ReaderSettings;
use crate::layout::{ID_COLUMN, Layout};
use crate::ledger::{Lookup, OpenLedger, OutputState};
use crate::observe::counted;
use crate::row_state::{Row, RowState, earlier_verdict, look_up};
use crate::sandbox::ID_PREFIX;
use crate::service::Plan;

/// Fails if the ledger has none of the verdicts in an input, or in the output that it would replace, unless a run with this
/// ledger wrote the file: then the answers were pruned since.
///
/// # Errors
/// Exit code 2: it has none. Or it cannot be read.
pub(super) fn refuse_unknown_verdicts(
    part: &ReadPart,
    plan: Plan,
    ledger: &mut OpenLedger,
    lookup: &mut Lookup,
) -> Result<()> {
    let is_file = part.to_run().is_some_and(ReadInput::is_file);
    let input = is_file.then(|| part.input.clone());
    let output = part.replaced().map(|output| part.input.all_rows_of(output));
    for reading in input.iter().chain(&output) {
        let verdicts = unknown_verdicts(reading, plan, lookup)?;
        let Some(file) = reading.file.input.path().filter(|_| verdicts > 0) else {
            continue;
        };
        let state = ledger.output_state(file, None)?;
        if !matches!(state, OutputState::AsLeft | OutputState::OfOtherInput) {
            let (file, verdicts) = (display(file), counted(verdicts, "verdict"));
            let ledger = ledger.location().to_display();
            return Err(Error::usage(format!(
                "`{file}` has {verdicts}, but the ledger `{ledger}` has none of them"
            ))
            .detail("`--fresh` would pay for all of them again")
            .hint("name the ledger that has them with `--ledger FILE` or `RESCORE_LEDGER`"));
        }
    }
    Ok(())
}

/// How many rows of a file have a verdict, if the ledger has none of them; otherwise, or if the file cannot be read, 0.
fn unknown_verdicts(reading: &ReaderSettings, plan: Plan, lookup: &mut Lookup) -> Result<u64> {
    let Ok((mut reader, opened)) = open_users(reading, plan) else {
        return Ok(0);
    };
    let mut verdicts = 0;
    while let Ok(Some(mut batch)) = reader.next_batch() {
        look_up(lookup, &mut batch.rows)?;
        for row in &batch.rows {
            let RowState::Waiting { found, .. } = &row.state else {
                continue;
            };
            // Usually one of the first rows decides.
            if opened.replaced.is_empty() || found.result.is_some() || found.passed_over.is_some() {
                return Ok(0);
            }
            verdicts += u64::from(has_verdict(row, &opened.layout));
        }
    }
    Ok(verdicts)
}

/// Whether a row has a verdict of an earlier run. Nobody has paid for a rehearsal.
fn has_verdict(row: &Row, layout: &Layout) -> bool {
    let id = layout.value(row.raw.slice(row.raw.value_of(ID_COLUMN)));
    !id.starts_with(ID_PREFIX) && earlier_verdict(&row.raw, layout).0.is_some()
}
