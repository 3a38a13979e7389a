//! Whether a run would pay again for verdicts that are there: a file has them, and the ledger knows none of its rows. Then it is
//! not the ledger that paid for them, because another user, another machine or a lost mount has that one.

use std::path::Path;

use super::super::inputs::open_users;
use super::ledger::PreparedLedger;
use super::threads::LookupStage;
use crate::base::error::{Error, Result};
use crate::base::text::shown;
use crate::input::{Input, ReaderSettings};
use crate::layout::ID_COLUMN;
use crate::ledger::OutputState;
use crate::observe::counted;
use crate::row_state::{RowState, earlier_verdict};
use crate::sandbox::ID_PREFIX;
use crate::selection::Selection;
use crate::service::Plan;

/// Fails if this file, the input of a run or an output that it would replace, has verdicts that the ledger does not know.
/// `reading` is how the input is read: an output has its columns.
///
/// # Errors
/// Exit code 2: it has. Or the ledger cannot be read.
pub(super) fn refuse_unknown_verdicts(
    file: &Path,
    reading: &ReaderSettings,
    plan: Plan,
    ledger: &mut PreparedLedger,
) -> Result<()> {
    // A run with this ledger wrote it, and its answers were pruned since.
    let state = ledger.open.output_state(file, None)?;
    if matches!(state, OutputState::AsLeft | OutputState::OfOtherInput) {
        return Ok(());
    }
    let mut all_rows = ReaderSettings {
        selection: Selection::default(),
        only: Vec::new(),
        judges_first_rows: false,
        ..reading.clone()
    };
    all_rows.file.input = Input::File(file.to_owned());
    let verdicts = unknown_verdicts(&all_rows, plan, &mut ledger.lookup_stage()?)?;
    if verdicts == 0 {
        return Ok(());
    }
    let ledger = ledger.facts.place.as_deref().map(shown);
    Err(Error::usage(format!(
        "`{}` has {}, but the ledger `{}` has none of them",
        shown(file),
        counted(verdicts, "verdict"),
        ledger.unwrap_or_default()
    ))
    .detail("`--fresh` would pay for all of them again")
    .hint("name the ledger that has them with `--ledger FILE` or `RESCORE_LEDGER`"))
}

/// How many rows of a file have a verdict; zero if the ledger knows the request of one of them. A file that cannot be read as
/// users has no verdicts of ours.
fn unknown_verdicts(
    all_rows: &ReaderSettings,
    plan: Plan,
    lookup: &mut LookupStage,
) -> Result<u64> {
    let Ok((mut reader, opened)) = open_users(all_rows, plan) else {
        return Ok(0);
    };
    let mut verdicts = 0;
    if opened.replaced.is_empty() {
        return Ok(verdicts);
    }
    while let Ok(Some(mut batch)) = reader.next_batch() {
        batch.rows.retain(|row| {
            let is_asked = matches!(row.state, RowState::Asked(_));
            let id = opened
                .layout
                .value(row.raw.slice(row.raw.value_of(ID_COLUMN)));
            // Nobody has paid for a rehearsal.
            let is_made_up = id.starts_with(ID_PREFIX);
            is_asked && !is_made_up && earlier_verdict(&row.raw, &opened.layout).0.is_some()
        });
        lookup.look_up(&mut batch.rows)?;
        let is_known = batch.rows.iter().any(|row| match &row.state {
            RowState::Waiting { found, .. } => found.known.is_some() || found.passed_over.is_some(),
            _ => false,
        });
        if is_known {
            return Ok(0);
        }
        verdicts += batch.rows.len() as u64;
    }
    Ok(verdicts)
}
