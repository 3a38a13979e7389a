//! The second phase: announces the run before its first call.

use super::files::{Files, PartState};
use super::first_pass::{FirstCount, ledger_notices, paid_in};
use super::ledger::PreparedLedger;
use super::prepare::{PreparedRun, Start};
use crate::base::text::{display, printable, quoted};
use crate::commands::inputs::path_of;
use crate::ledger::KnownLimit;
use crate::observe::{self, counted, day, most, only_of_others, tell};
use crate::pace::Rate;
use crate::service::proxy_for;
use crate::telemetry::pace::Limit;

/// Announces the input, the service and the leftovers of earlier runs, then warns.
pub(super) fn announce(run: &PreparedRun, start: &Start) {
    let (files, ledger) = (&run.files, start.ledger.as_ref());
    if run.config.watch.shows_text() {
        introduce(run);
        if files.to_run().next().is_some() {
            ledger.inspect(|ledger| tell_limit(ledger, start.gate.limit()));
            tell_count(run, start);
            // It refuses nothing, so a quiet nightly job is not told.
            for oddity in start.count.iter().flat_map(FirstCount::oddities) {
                tell(&printable(&format!("         warning: {oddity}")));
            }
        }
        let key = run.config.files.changes_key.as_deref();
        if let (Some(key), Some(None)) = (key, files.to_run().next().map(|part| &part.past)) {
            let key = quoted(key);
            tell(&format!(
                "rescore: there is no output to compare with by {key}"
            ));
        }
    }
    let of_ledger = ledger.map(|ledger| [killed(ledger), elsewhere(ledger)]);
    let of_ledger = of_ledger.into_iter().flatten().flatten();
    for warning in start.warnings.iter().cloned().chain(of_ledger) {
        observe::warn(&printable(&warning));
    }
    for part in &files.parts {
        if let PartState::Unusable(error) = &part.state {
            observe::tell_error(error);
        }
    }
}

fn introduce(run: &PreparedRun) {
    let files = &run.files;
    let parts = files.parts.iter();
    let skipped = parts
        .filter(|part| matches!(part.state, PartState::Skip))
        .count() as u64;
    if skipped > 0 {
        let skipped = counted(skipped, "file");
        tell(&format!(
            "rescore: skipping {skipped} that an earlier run has finished"
        ));
    }
    let what = match (files.to_run().count(), files.only()) {
        (0, _) => return tell("rescore: nothing to send"),
        (_, Some(only)) => files.selection.of(&only.input.file.input.display()),
        (number, None) => counted(number as u64, "file"),
    };
    let service = match run.stand_in {
        Some(_) => "the built-in sandbox".to_owned(),
        None => run.endpoint.to_string(),
    };
    let proxy = proxy_for(&run.endpoint);
    let proxy = proxy.map(|proxy| format!(" through the proxy {}", quoted(&proxy)));
    tell(&format!(
        "rescore: sending {what} to {service}{}; up to {} at a time, {}",
        proxy.unwrap_or_default(),
        counted(run.concurrency.get() as u64, "call"),
        pace(run.config.pace.rate)
    ));
    for only in files.parts.iter().take(1).flat_map(|part| &part.input.only) {
        tell(&printable(&format!("         only rows where {only}")));
    }
    tell_columns(files);
}

/// Says which columns of the inputs are used, and which are replaced: again only where they differ from those before.
fn tell_columns(files: &Files) {
    let mut told = None;
    for part in &files.parts {
        let Some(open) = part.to_run() else {
            continue;
        };
        let columns = (&open.opened.mapping, &open.opened.replaced);
        let before = told.replace(columns);
        // An empty file has no columns.
        if before == Some(columns) || columns.0.is_empty() {
            continue;
        }
        if before.is_some() {
            let name = display(path_of(&part.input));
            tell(&format!("         from {name} on:"));
        }
        tell(&format!("         {}", printable(columns.0)));
        if !columns.1.is_empty() {
            let names: Vec<_> = columns.1.iter().map(|name| quoted(name)).collect();
            let names = names.join(", ");
            tell(&format!(
                "         replacing the columns {names} of the input"
            ));
        }
    }
}

/// How fast calls start.
fn pace(rate: Rate) -> String {
    match rate {
        Rate::Auto => "pace found automatically".to_owned(),
        Rate::Share(share) => format!("{:.0}% of the pace found automatically", share * 100.0),
        Rate::Unlimited => "no rate limit".to_owned(),
        Rate::PerSecond(_) => format!("at most {rate}"),
    }
}

/// Says which limit an earlier run found. `start` is the part of it that calls start near: settings may rule out the rest.
fn tell_limit(ledger: &PreparedLedger, start: Limit) {
    if start != Limit::NONE
        && let Some(KnownLimit { found, .. }) = ledger.open.facts.known_limit
    {
        let (found, most) = (day(found), most(start));
        tell(&format!(
            "rescore: the limit found {found} was {most}: starting near it"
        ));
    }
}

/// Says which ledger it is, which run this one continues, and what the first pass has counted. A name that is mistyped must be
/// seen.
fn tell_count(run: &PreparedRun, start: &Start) {
    let ledger = start.ledger.as_ref();
    let path = ledger
        .map(|ledger| display(&ledger.open.facts.place))
        .unwrap_or_default();
    for notice in ledger
        .iter()
        .flat_map(|it| ledger_notices(&path, Some(&it.open.facts)))
    {
        tell(&format!("rescore: {notice}"));
    }
    let Some(count) = &start.count else {
        return tell("         the rows of a stream cannot be counted before the first call");
    };
    let paid = paid_in(&path, run.stand_in.is_some());
    let left = ledger.and_then(|it| it.calls_left(&run.config.call_limits));
    let parts = count.parts(&paid, run.identity.tariff.as_ref(), left);
    tell(&printable(&format!("         {}", parts.join(", "))));
}

/// A warning of what kills may have cost.
fn killed(ledger: &PreparedLedger) -> Option<String> {
    let left = ledger.open.facts.run.left;
    (left > 0).then(|| {
        format!(
            "killed runs left {} without an answer, which may be billed twice if they are asked again",
            counted(left, "request")
        )
    })
}

/// A warning where the address or the service ID may be mistyped: all rows are paid for again.
fn elsewhere(ledger: &PreparedLedger) -> Option<String> {
    let others = &ledger.open.facts.other_accounts;
    (!others.is_empty()).then(|| only_of_others(display(&ledger.open.facts.place), others))
}
