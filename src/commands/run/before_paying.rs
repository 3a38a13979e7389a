//! What a run looks at before anything is paid: how many rows and calls there are, whether the inputs are as they must be, and
//! whether it would pay again for what is paid for, as the ledger that paid is another user's, on another machine or on a disk
//! that is not mounted, or as the run keeps none.

use std::path::Path;

use super::super::files::refuse_outdated;
use super::super::first_pass::{CountedFile, FirstCount, FirstPass, rows_of};
use super::super::inputs::{open_users, path_of};
use super::files::{Files, RunPart, Turn};
use super::ledger::{PreparedLedger, ledger_account};
use crate::base::error::{Error, Result};
use crate::base::money::Tariff;
use crate::base::numbers::Tolerance;
use crate::base::text::shown;
use crate::config::{InputLimits, LedgerConfig, RunConfig};
use crate::input::ReaderSettings;
use crate::ledger::{LedgerSettings, Lookup, OutputState, preview};
use crate::observe::{Expected, counted};
use crate::selection::Selection;
use crate::service::{Account, Plan};

/// How the rows of a run are counted.
pub(in crate::commands) struct Counting {
    pub(in crate::commands) plan: Plan,
    pub(in crate::commands) limits: InputLimits,
    /// What cannot be read to its end is counted as far as it can.
    pub(in crate::commands) keep_going: bool,
    /// Nothing was ever paid for.
    pub(in crate::commands) is_first: bool,
    /// How many of the first requests are to be shown.
    pub(in crate::commands) show: u64,
}

/// Counts all rows of a run's inputs, and says why nothing may be sent, if they are not as they must be. An input that cannot be
/// used is marked, unless it is the only one.
///
/// # Errors
/// Exit code 2: the only input cannot be used. The ledger cannot be read.
pub(in crate::commands) fn count(
    files: &mut Files,
    counting: &Counting,
    mut lookup: impl FnMut() -> Result<Lookup>,
) -> Result<(FirstCount, Result<()>)> {
    let count = pass(files, counting, &mut lookup, false)?;
    let (limits, first) = (counting.limits, files.parts.first());
    let chooses = first.is_some_and(|part| part.input.selection != Selection::default());
    // A part says nothing about the export.
    let whole = if chooses && limits != InputLimits::default() {
        Some(pass(files, counting, &mut lookup, true)?)
    } else {
        None
    };
    let whole = whole.as_ref().unwrap_or(&count);
    let is_share = matches!(limits.min_rows, Some(Tolerance::Percent(_)));
    let matters = is_share || limits.min_rows.is_none() && whole.total.rows.read == 0;
    let replaced = { files.only() }.and_then(|only| Some((only.output.as_deref()?, &only.input)));
    let replaced = replaced.filter(|(output, _)| matters && output.is_file());
    let replaced = replaced.map(|(output, input)| (output, rows_of(output, input, counting.plan)));
    let fits = whole.refuse_broken(limits, replaced, counting.is_first);
    Ok((count, fits))
}

/// A pass over the inputs, or over those of their rows that a run takes.
fn pass(
    files: &mut Files,
    counting: &Counting,
    lookup: &mut impl FnMut() -> Result<Lookup>,
    is_whole: bool,
) -> Result<FirstCount> {
    let (mut first, is_only) = (
        FirstPass::new(lookup()?, counting.show),
        files.only().is_some(),
    );
    let mut has_broken = false;
    for part in &mut files.parts {
        let mut file = CountedFile::of(&part.input);
        let read = match (&part.turn, &part.output) {
            (Turn::Run(_), _) => count_part(part, &mut first, &mut file, counting, is_whole),
            (Turn::Skip, Some(output)) => {
                file.finished = true;
                refuse_outdated(path_of(&part.input), output, false)
            }
            (Turn::Unusable(error), _) => {
                file.error = Some(error.in_a_line());
                Ok(())
            }
            _ => Ok(()),
        };
        match read {
            Err(error) if is_only && !counting.keep_going => return Err(error),
            Err(error) => {
                file.error = Some(error.in_a_line());
                if !is_only {
                    has_broken |= matches!(part.turn, Turn::Run(_));
                    part.turn = Turn::Unusable(error);
                }
            }
            Ok(()) => {}
        }
        first.add(file);
    }
    // What was counted of an input before it broke is not sent.
    if has_broken {
        return pass(files, counting, lookup, is_whole);
    }
    Ok(first.result)
}

/// Counts the rows of an input. One that can be read only once is used up.
fn count_part(
    part: &mut RunPart,
    pass: &mut FirstPass,
    file: &mut CountedFile,
    counting: &Counting,
    is_whole: bool,
) -> Result<()> {
    if part.is_file() {
        let mut reading = part.input.clone();
        reading.notes_quality = true;
        reading.refuses_cut = !counting.keep_going;
        if is_whole {
            reading.selection = Selection::default();
        }
        let (reader, opened) = open_users(&reading, counting.plan)?;
        return pass.part(reader, &opened, file);
    }
    match &mut part.turn {
        Turn::Run(open) => match open.take_reader() {
            Some(reader) => pass.part(reader, &open.opened, file),
            None => Ok(()),
        },
        _ => Ok(()),
    }
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
        limits: config.limits,
        keep_going: config.budget.keep_going,
        is_first: ledger.as_ref().is_none_or(|it| it.open.facts.is_new()),
        show: 0,
    };
    let mut all = files.parts.iter();
    let count = if all.all(|part| part.to_run().is_none() || part.is_file()) {
        let (count, fits) = count(files, &counting, || match &ledger {
            Some(ledger) => ledger.open.lookup(),
            None => Ok(Lookup::nowhere()),
        })?;
        fits?;
        Some(count)
    } else {
        None
    };
    if let Some(ledger) = { ledger.as_mut() }.filter(|it| it.pays_again_by_mistake()) {
        refuse_unknown_verdicts(files, count.as_ref(), config.plan, ledger)?;
    }
    let unused = count
        .as_ref()
        .and_then(|_| unused_answers(files, config, account, &counting));
    Ok((count, unused))
}

/// What progress and summary say of what was counted.
pub(super) fn expected(count: &FirstCount, tariff: Option<&Tariff>) -> Expected {
    let total = &count.total;
    Expected {
        rows: total.rows.read,
        known: total.known,
        unsendable: total.rows.unsendable,
        calls: count.calls,
        calls_at_most: count.calls_at_most,
        cost: tariff.map(|tariff| tariff.price.of(count.calls)),
    }
}

/// Fails if an input of a run, or an output that it would replace, has verdicts that the ledger did not pay for.
///
/// # Errors
/// Exit code 2: one of them has. Or the ledger cannot be read.
fn refuse_unknown_verdicts(
    files: &Files,
    count: Option<&FirstCount>,
    plan: Plan,
    ledger: &mut PreparedLedger,
) -> Result<()> {
    for (index, part) in files.parts.iter().enumerate() {
        if part.to_run().is_none() {
            continue;
        }
        let counts = count.and_then(|count| Some(count.files.get(index)?.counts));
        let input = part.input.file.input.path().zip(counts);
        if let Some((input, counts)) = input.filter(|(_, counts)| !counts.any_in_ledger()) {
            refuse_verdicts(input, counts.verdicts, ledger)?;
        }
        if let Some(output) = part.output.as_deref().filter(|output| output.is_file()) {
            let verdicts = unknown_verdicts(output, &part.input, plan, ledger)?;
            refuse_verdicts(output, verdicts, ledger)?;
        }
    }
    Ok(())
}

/// Fails if this file has verdicts, of which the ledger knows none, unless a run with this ledger wrote it: then its answers were
/// pruned since.
fn refuse_verdicts(file: &Path, verdicts: u64, ledger: &mut PreparedLedger) -> Result<()> {
    if verdicts == 0 {
        return Ok(());
    }
    let state = ledger.open.output_state(file, None)?;
    if matches!(state, OutputState::AsLeft | OutputState::OfOtherInput) {
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

/// How many rows of an output have a verdict; none if the ledger knows something about one of its rows. `reading` is how the
/// input is read, whose columns it has. What cannot be read so has no verdicts of ours.
fn unknown_verdicts(
    output: &Path,
    reading: &ReaderSettings,
    plan: Plan,
    ledger: &PreparedLedger,
) -> Result<u64> {
    let all_rows = reading.all_rows_of(output);
    let Ok((mut reader, opened)) = open_users(&all_rows, plan) else {
        return Ok(0);
    };
    let mut pass = FirstPass::new(ledger.open.lookup()?, 0);
    let mut file = CountedFile::of(&all_rows);
    while let Ok(Some(batch)) = reader.next_batch() {
        pass.count(&opened, &mut file, batch)?;
        // Usually the first rows say it.
        if opened.replaced.is_empty() || file.counts.any_in_ledger() {
            return Ok(0);
        }
    }
    Ok(file.counts.verdicts)
}

/// The warning of a run without a ledger: for how many of its rows the ledger that it would have otherwise has an answer.
fn unused_answers(
    files: &mut Files,
    config: &RunConfig,
    account: &Account,
    counting: &Counting,
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
    let (lookup, facts) = preview(&settings).ok()??;
    let mut lookup = Some(lookup);
    let mut lookup = || Ok(lookup.take().unwrap_or_else(Lookup::nowhere));
    let known = pass(files, counting, &mut lookup, false).ok()?.total.known;
    (known > 0).then(|| {
        let (rows, ledger) = (counted(known, "row"), shown(&facts.place));
        format!("`--no-ledger` pays again for {rows} whose answers are in the ledger `{ledger}`")
    })
}
