//! The second phase: says what is about to happen, before the first call.

use super::super::inputs::path_of;
use super::files::{Files, Turn};
use super::ledger::PreparedLedger;
use super::prepare::{Run, Start};
use crate::base::error::{printable, quoted, shown};
use crate::layout::Format;
use crate::ledger::{KnownLimit, LedgerFacts, RunEnd};
use crate::observe::{self, counted, day, most, only_of_others, tell};
use crate::pace::Rate;
use crate::service::proxy_for;
use crate::telemetry::pace::Limit;

/// Says what is read, who answers and what earlier runs left, then the warnings.
pub(super) fn announce(run: &Run, start: &Start) {
    let (files, ledger) = (&run.files, &start.ledger);
    if run.config.watch.shows_text() {
        introduce(run);
        if files.to_run().next().is_some() {
            tell_limit(ledger, start.gate.limit());
            tell_ledger(ledger);
        }
    }
    let of_ledger = killed(ledger).into_iter().chain(elsewhere(ledger));
    for warning in start.warnings.iter().cloned().chain(of_ledger) {
        observe::warn(&printable(&warning));
    }
    for part in &files.parts {
        if let Turn::Unusable(error) = &part.turn {
            observe::tell_error(error);
        }
    }
}

fn introduce(run: &Run) {
    let files = &run.files;
    let skipped = { files.parts.iter() }.filter(|part| matches!(part.turn, Turn::Skip));
    let skipped = skipped.count() as u64;
    if skipped > 0 {
        let skipped = counted(skipped, "file");
        tell(&format!(
            "rescore: skipping {skipped} that an earlier run has finished"
        ));
    }
    let what = match (files.to_run().count(), files.only()) {
        (0, _) => return tell("rescore: nothing to send"),
        (_, Some(only)) => files.selection().of(&only.input.file.input.shown()),
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
    tell_columns(files);
}

/// Says which columns of the inputs are used, and which are replaced: again only where they differ from those before.
fn tell_columns(files: &Files) {
    let mut told = Vec::new();
    for part in &files.parts {
        let Some(opened) = part.to_run().map(|open| &open.opened) else {
            continue;
        };
        let columns = (&opened.mapping, &opened.replaced);
        let is_nothing = opened.mapping.is_empty() && opened.replaced.is_empty();
        if is_nothing || told.contains(&columns) {
            continue;
        }
        if !told.is_empty() {
            let name = shown(path_of(&part.input));
            tell(&format!("         from {name} on:"));
        }
        if !opened.mapping.is_empty() {
            tell(&format!("         {}", printable(&opened.mapping)));
        }
        if !opened.replaced.is_empty() {
            let names: Vec<_> = opened.replaced.iter().map(|name| quoted(name)).collect();
            let columns = match opened.layout.format {
                Format::Delimited { .. } => "columns",
                Format::Jsonl => "members",
            };
            tell(&format!(
                "         replacing the {columns} {} of the input",
                names.join(", ")
            ));
        }
        told.push(columns);
    }
}

/// How fast calls start.
fn pace(rate: Rate) -> String {
    match rate {
        Rate::Auto => "pace found automatically".to_owned(),
        Rate::Share(share) => format!("{:.0} % of the pace found automatically", share * 100.0),
        Rate::Unlimited => "no rate limit".to_owned(),
        Rate::PerSecond(_) => format!("at most {rate}"),
    }
}

/// Says which limit an earlier run found. `start` is the part of it that calls start near: settings may rule out the rest.
fn tell_limit(ledger: &PreparedLedger, start: Limit) {
    if start == Limit::NONE {
        return;
    }
    if let Some(KnownLimit { found, .. }) = ledger.facts.known_limit {
        tell(&format!(
            "rescore: the limit found {} was {}: starting near it",
            day(found),
            most(start)
        ));
    }
}

/// Says which ledger it is and what it has, and which run this one continues. A name that is mistyped must be seen.
fn tell_ledger(ledger: &PreparedLedger) {
    let facts = &ledger.facts;
    let Some(place) = facts.place.as_deref().map(shown) else {
        return;
    };
    let not_used = match facts.too_old {
        0 => String::new(),
        old => format!(", and {} that it does not use", counted(old, "older one")),
    };
    tell(&match (facts.existed, facts.usable) {
        (false, _) => format!("rescore: a new ledger, `{place}`: nothing is paid for yet"),
        (true, 0) => format!("rescore: the ledger `{place}` has no answers for this run{not_used}"),
        (true, usable) => format!(
            "rescore: the ledger `{place}` has {} for this run{not_used}",
            counted(usable, "answer")
        ),
    });
    if facts.run.continues {
        tell("rescore: continuing the unfinished run");
    } else if facts.run.previous == Some(RunEnd::Stopped) && facts.run.same_input {
        tell(
            "rescore: a new run: the unfinished one had another `--fresh`, `--max-age` or `--retry-failed`; \
             its answers count like all others in the ledger, its calls not in this run's budget",
        );
    }
}

/// A warning of what a kill may have cost.
fn killed(ledger: &PreparedLedger) -> Option<String> {
    let lost = ledger.facts.run.lost_calls;
    (lost > 0).then(|| {
        format!(
            "an earlier start of this run ended without the answers to up to {}, which may be billed twice",
            counted(lost, "call")
        )
    })
}

/// A warning where the address or the service ID may be mistyped: all rows are paid for again.
fn elsewhere(ledger: &PreparedLedger) -> Option<String> {
    let LedgerFacts {
        place,
        other_accounts: others,
        ..
    } = &ledger.facts;
    let place = { place.as_deref() }.filter(|_| !others.is_empty())?;
    Some(only_of_others(shown(place), others))
}
