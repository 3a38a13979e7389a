//! Whether a run would pay again for what is paid for, without its user's knowing: a file has verdicts, and the ledger knows none
//! of its rows, because another user, another machine or a lost mount has the ledger that paid for them; or the user's ledger has
//! answers, and the run keeps none.

use std::path::Path;

use super::super::inputs::open_users;
use super::files::Files;
use super::ledger::{PreparedLedger, ledger_account};
use super::threads::look_up;
use crate::base::error::{Error, Result};
use crate::base::text::shown;
use crate::config::{LedgerConfig, RunConfig};
use crate::input::{Input, ReaderSettings};
use crate::layout::ID_COLUMN;
use crate::ledger::{LedgerSettings, Lookup, OutputState, preview};
use crate::observe::counted;
use crate::row_state::{Row, RowState, earlier_verdict};
use crate::sandbox::ID_PREFIX;
use crate::selection::Selection;
use crate::service::{Account, Plan};

/// Fails if an input of a run, or an output that it would replace, has verdicts that the ledger did not pay for.
///
/// # Errors
/// Exit code 2: one of them has. Or the ledger cannot be read.
pub(super) fn refuse_unknown_verdicts(
    files: &Files,
    plan: Plan,
    ledger: Option<&mut PreparedLedger>,
) -> Result<()> {
    let Some(ledger) = ledger.filter(|ledger| ledger.pays_again_by_mistake()) else {
        return Ok(());
    };
    for part in files.parts.iter().filter(|part| part.to_run().is_some()) {
        let paths = part.input.file.input.path().into_iter();
        let paths = paths.chain(part.output.as_deref());
        for file in paths.filter(|path| path.is_file()) {
            refuse_file(file, &part.input, plan, ledger)?;
        }
    }
    Ok(())
}

/// Fails if this file has such verdicts. `reading` is how the input is read: an output has its columns.
///
/// # Errors
/// As [`refuse_unknown_verdicts`].
fn refuse_file(
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
    let verdicts = unknown_verdicts(&all_rows, plan, &mut ledger.open.lookup()?)?;
    if verdicts == 0 {
        return Ok(());
    }
    Err(Error::usage(format!(
        "`{}` has {}, but the ledger `{}` has none of them",
        shown(file),
        counted(verdicts, "verdict"),
        shown(&ledger.open.facts.place)
    ))
    .detail("`--fresh` would pay for all of them again")
    .hint("name the ledger that has them with `--ledger FILE` or `RESCORE_LEDGER`"))
}

/// The warning of a run without a ledger: for how many of its rows the ledger that it would have otherwise has an answer.
pub(super) fn unused_answers(
    files: &Files,
    config: &RunConfig,
    account: &Account,
) -> Option<String> {
    if config.ledger.is_kept || account.sandbox {
        return None;
    }
    let usual = LedgerConfig {
        is_kept: true,
        ..config.ledger.clone()
    };
    let settings = files.ledger_settings(&usual, false, &config.captured);
    let settings = LedgerSettings {
        account: Some(ledger_account(account)),
        ..settings.ok()??
    };
    let (mut lookup, facts) = preview(&settings).ok()??;
    let mut known = 0;
    for part in files.parts.iter().filter(|part| part.to_run().is_some()) {
        let is_file = part.input.file.input.path().is_some_and(Path::is_file);
        let (mut reader, _) = { is_file }
            .then(|| open_users(&part.input, config.plan))?
            .ok()?;
        while let Ok(Some(mut batch)) = reader.next_batch() {
            look_up(&mut lookup, &mut batch.rows).ok()?;
            known += batch.rows.iter().filter(|row| is_known(row)).count() as u64;
        }
    }
    (known > 0).then(|| {
        let (rows, ledger) = (counted(known, "row"), shown(&facts.place));
        format!("`--no-ledger` pays again for {rows} whose answers are in the ledger `{ledger}`")
    })
}

/// Whether the ledger has something about a row's request, however old.
fn is_known(row: &Row) -> bool {
    match &row.state {
        RowState::Waiting { found, .. } => found.known.is_some() || found.passed_over.is_some(),
        _ => false,
    }
}

/// How many rows of a file have a verdict; zero if the ledger knows the request of one of them. A file that cannot be read as
/// users has no verdicts of ours.
fn unknown_verdicts(all_rows: &ReaderSettings, plan: Plan, lookup: &mut Lookup) -> Result<u64> {
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
        look_up(lookup, &mut batch.rows)?;
        if batch.rows.iter().any(is_known) {
            return Ok(0);
        }
        verdicts += batch.rows.len() as u64;
    }
    Ok(verdicts)
}
