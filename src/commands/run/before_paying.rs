//! The checks before anything is paid: whether the inputs fulfil the limits, and whether the run would pay again for answers
//! that another ledger has, or that it does not use because it keeps none. How rows are counted is not known here.

use std::collections::BTreeMap;

use super::files::{Files, RunPart};
use super::first_pass::{Counting, FirstCount};
use super::ledger::{PreparedLedger, look_up_in_run};
use crate::base::error::{Error, Result};
use crate::base::money::Tariff;
use crate::base::numbers::Tolerance;
use crate::base::text::display;
use crate::commands::inputs::open_users;
use crate::config::{InputLimits, LedgerConfig, RunConfig};
use crate::input::ReaderSettings;
use crate::layout::{ID_COLUMN, Layout};
use crate::ledger::{LedgerSettings, Lookup, OutputState, preview};
use crate::observe::{self, Expected, counted};
use crate::row_state::{Row, RowState, earlier_verdict, look_up};
use crate::sandbox::ID_PREFIX;
use crate::selection::Selection;
use crate::service::{Account, Plan};
use crate::verdict::most_frequent;

/// Counts all rows of a run's inputs, and checks them against the limits. `is_first` means that nothing was ever paid for.
///
/// # Errors
/// Exit code 2: the only input cannot be used. The ledger cannot be read.
pub(crate) fn count(
    files: &mut Files,
    counting: &Counting<'_>,
    limits: InputLimits,
    is_first: bool,
) -> Result<(FirstCount, Result<()>)> {
    let count = counting.pass(files, false)?;
    // A part says nothing about the export.
    let takes_part = files.selection != Selection::default();
    let matters = limits != InputLimits::default() || count.total.rows.read == 0;
    let whole = if takes_part && matters {
        Some(counting.pass(files, true)?)
    } else {
        None
    };
    let whole = whole.as_ref().unwrap_or(&count);
    let fits = refuse_broken(whole, files, counting.plan, limits, is_first);
    Ok((count, fits))
}

/// Fails unless the inputs fulfil the limits: a broken export must neither be scored in part nor replace yesterday's output.
///
/// # Errors
/// Exit code 2: they are not.
fn refuse_broken(
    whole: &FirstCount,
    files: &Files,
    plan: Plan,
    limits: InputLimits,
    is_first: bool,
) -> Result<()> {
    let rows = whole.total.rows;
    // A share is of the rows that would be sent.
    let chosen = rows.read - rows.passed;
    let exceeded = |most: &Tolerance, number| !most.covers(number, chosen);
    let (invalid, new) = (limits.max_invalid, limits.max_new);
    let invalid = invalid.filter(|most| exceeded(most, rows.unsendable));
    let new = new.filter(|most| !is_first && exceeded(most, whole.total.unknown()));
    let of_them = |number| {
        let (number, all) = (observe::count(number), counted(chosen, "row"));
        format!("{number} of the {all} of {}", name_of(whole))
    };
    let error = if let Some(most) = invalid {
        let mut reasons = BTreeMap::new();
        for (reason, counted) in whole.files.iter().flat_map(|file| &file.unsendable) {
            *reasons.entry(*reason).or_default() += counted.rows;
        }
        let of_them = of_them(rows.unsendable);
        Error::usage(format!(
            "{of_them} cannot be sent, more than `--max-invalid {most}` allows"
        ))
        .detail(format!("most frequent: {}", most_frequent(&reasons)))
        .hint("`rescore check` names these rows; `--max-invalid` sets how many are allowed")
    } else if let Some(error) = too_few(whole, files, plan, limits.min_rows) {
        error
    } else if let Some(most) = new {
        let of_them = of_them(whole.total.unknown());
        Error::usage(format!(
            "{of_them} are new to the ledger, more than `--max-new {most}` allows"
        ))
        .hint("check that no column has gone or changed its form; `rescore check --show 3` prints what would be sent")
    } else {
        return Ok(());
    };
    Err(error.detail("nothing was sent"))
}

/// The inputs in words.
fn name_of(count: &FirstCount) -> String {
    match &*count.files {
        [only] => format!("`{}`", only.name),
        files => format!("the {} inputs", files.len()),
    }
}

/// The refusal of inputs with fewer rows than this, all together, or of one with fewer than this share of the output that it
/// would replace.
fn too_few(
    whole: &FirstCount,
    files: &Files,
    plan: Plan,
    least: Option<Tolerance>,
) -> Option<Error> {
    let complete = "check that the export is complete, or lower `--min-rows`";
    if let Some(Tolerance::Rows(least)) = least {
        let rows = whole.total.rows.read;
        let has = if whole.files.len() == 1 {
            "has"
        } else {
            "have"
        };
        let (name, number) = (name_of(whole), counted(rows, "row"));
        let words = format!("{name} {has} {number}, fewer than `--min-rows {least}`");
        return (rows < least).then(|| Error::usage(words).hint(complete));
    }
    for (part, file) in files.parts.iter().zip(&whole.files) {
        let rows = file.counts.rows.read;
        let Some(output) = part.replaced().filter(|_| rows == 0 || least.is_some()) else {
            continue;
        };
        let old = rows_of(&part.input.all_rows_of(output), plan);
        let of_output = format!("the {} in `{}`", observe::count(old), display(output));
        let (why, hint) = match least {
            Some(Tolerance::Percent(least)) => {
                let may_lack = Tolerance::Percent(100.0 - least);
                if may_lack.covers(old.saturating_sub(rows), old) {
                    continue;
                }
                (format!("fewer than {least}% of {of_output}"), complete)
            }
            _ if old == 0 => continue,
            _ => (
                format!("and would replace {of_output}"),
                "check that the export is complete; `--min-rows 0` says that it may be empty",
            ),
        };
        let rows = counted(rows, "row");
        return Some(Error::usage(format!("`{}` has {rows}, {why}", file.name)).hint(hint));
    }
    None
}

/// How many rows a file has that is read in this way; none if it cannot be read so.
fn rows_of(reading: &ReaderSettings, plan: Plan) -> u64 {
    let Ok((mut reader, _)) = open_users(reading, plan) else {
        return 0;
    };
    let batches = std::iter::from_fn(|| reader.next_batch().ok().flatten());
    batches.map(|batch| batch.rows.len() as u64).sum()
}

/// The first pass of a run, `None` where an input is a stream, which can be read only once; and a warning, if the run keeps no
/// answers and there are some.
///
/// # Errors
/// Exit code 2: the inputs are not as they must be, or another ledger has paid for their rows. Or one of them cannot be read.
pub(super) fn before_paying(
    files: &mut Files,
    config: &RunConfig,
    account: &Account,
    mut ledger: Option<&mut PreparedLedger>,
) -> Result<(Option<FirstCount>, Option<String>)> {
    let counting = Counting {
        plan: config.plan,
        keep_going: config.budget.keep_going,
        show: 0,
        lookup: &|| look_up_in_run(ledger.as_deref()),
    };
    let is_first = ledger.as_ref().is_none_or(|it| it.open.facts.is_new());
    let mut all = files.parts.iter();
    let count = if all.all(|part| part.to_run().is_none() || part.is_file()) {
        let (count, fits) = count(files, &counting, config.limits, is_first)?;
        fits?;
        Some(count)
    } else {
        None
    };
    if let Some(ledger) = ledger.as_mut().filter(|it| it.pays_again_by_mistake()) {
        for part in files.parts.iter().filter(|part| part.to_run().is_some()) {
            refuse_unknown_verdicts(part, config.plan, ledger)?;
        }
    }
    let unused = match count {
        Some(_) => unused_answers(files, config, account),
        None => None,
    };
    Ok((count, unused))
}

/// The counts for progress and summary.
pub(super) fn expected(count: Option<&FirstCount>, tariff: Option<&Tariff>) -> Option<Expected> {
    let count = count?;
    let total = &count.total;
    Some(Expected {
        rows: total.rows.read,
        known: total.known,
        unsendable: total.rows.unsendable,
        calls: count.calls,
        calls_at_most: count.calls_at_most,
        cost: tariff.map(|tariff| tariff.price.of(count.calls)),
    })
}

/// Fails if the ledger knows none of the verdicts in an input, or in the output that it would replace, unless a run with this
/// ledger wrote the file: then the answers were pruned since.
///
/// # Errors
/// Exit code 2: one of them has. Or the ledger cannot be read.
fn refuse_unknown_verdicts(part: &RunPart, plan: Plan, ledger: &mut PreparedLedger) -> Result<()> {
    let input = part.is_file().then(|| part.input.clone());
    let output = part.replaced().map(|output| part.input.all_rows_of(output));
    for reading in input.iter().chain(&output) {
        let verdicts = unknown_verdicts(reading, plan, ledger)?;
        let Some(file) = reading.file.input.path().filter(|_| verdicts > 0) else {
            continue;
        };
        let state = ledger.open.output_state(file, None)?;
        if !matches!(state, OutputState::AsLeft | OutputState::OfOtherInput) {
            let (file, verdicts) = (display(file), counted(verdicts, "verdict"));
            let place = display(&ledger.open.facts.place);
            return Err(Error::usage(format!(
                "`{file}` has {verdicts}, but the ledger `{place}` has none of them"
            ))
            .detail("`--fresh` would pay for all of them again")
            .hint("name the ledger that has them with `--ledger FILE` or `RESCORE_LEDGER`"));
        }
    }
    Ok(())
}

/// How many rows of a file have a verdict, if the ledger knows none of them; otherwise, or if the file cannot be read, 0.
fn unknown_verdicts(reading: &ReaderSettings, plan: Plan, ledger: &PreparedLedger) -> Result<u64> {
    let Ok((mut reader, opened)) = open_users(reading, plan) else {
        return Ok(0);
    };
    let mut lookup = ledger.open.lookup()?;
    let mut verdicts = 0;
    while let Ok(Some(mut batch)) = reader.next_batch() {
        look_up(&mut lookup, &mut batch.rows)?;
        for row in &batch.rows {
            let RowState::Waiting { found, .. } = &row.state else {
                continue;
            };
            // Usually one of the first rows decides.
            if opened.replaced.is_empty() || found.known.is_some() || found.passed_over.is_some() {
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

/// The warning of a run without a ledger: for how many of its rows the ledger that it would have otherwise has an answer.
fn unused_answers(files: &mut Files, config: &RunConfig, account: &Account) -> Option<String> {
    if config.ledger.is_kept || account.sandbox {
        return None;
    }
    let usual = LedgerConfig {
        is_kept: true,
        ..config.ledger.clone()
    };
    let settings = files.ledger_settings(&usual, Some(account), &config.captured);
    let settings = settings.ok()??;
    let counting = Counting {
        plan: config.plan,
        keep_going: config.budget.keep_going,
        show: 0,
        lookup: &|| look_up_in(&settings),
    };
    let known = counting.pass(files, false).ok()?.total.known;
    (known > 0).then(|| {
        let (rows, ledger) = (counted(known, "row"), display(settings.location.path()));
        format!("`--no-ledger` pays again for {rows} whose answers are in the ledger `{ledger}`")
    })
}

/// Looks rows up in a ledger without opening it for a run; in none, if it does not exist.
///
/// # Errors
/// Exit code 2: it cannot be used.
pub(crate) fn look_up_in(settings: &LedgerSettings) -> Result<Lookup> {
    let found = preview(settings)?;
    Ok(found.map_or_else(Lookup::nowhere, |(lookup, _)| lookup))
}
