//! The second phase: says what is about to happen, before the first call.

use super::ledger::PreparedLedger;
use super::open_files::OpenFiles;
use super::part::{PartToRun, RunPart, Turn};
use super::prepare::{CallParts, Context, PreparedRun};
use crate::base::error::{printable, quoted, shown};
use crate::layout::Format;
use crate::ledger::{KnownLimit, LedgerFacts, RunEnd};
use crate::observe::{self, counted, day, most, only_of_others, tell};
use crate::pace::Rate;
use crate::service::proxy_for;
use crate::telemetry::pace::Limit;

/// Says what is read, who answers and what earlier runs left, then the warnings.
pub(super) fn announce(prepared: &PreparedRun) {
    let PreparedRun {
        context,
        ledger,
        calls,
        files,
        warnings,
        ..
    } = prepared;
    if context.watch.shows_text() {
        introduce(context, calls, files);
        if files.to_run().next().is_some() {
            tell_limit(ledger, calls.gate.limit());
            tell_ledger(ledger);
        }
    }
    let of_ledger = killed(ledger).into_iter().chain(elsewhere(ledger));
    for warning in warnings.iter().cloned().chain(of_ledger) {
        observe::warn(&printable(&warning));
    }
    for part in &files.parts {
        if let Turn::Unusable(error) = &part.turn {
            observe::tell_error(error);
        }
    }
}

fn introduce(context: &Context, calls: &CallParts, files: &OpenFiles) {
    let is_skipped = |part: &&RunPart| matches!(part.turn, Turn::Skip { .. });
    let skipped = files.parts.iter().filter(is_skipped).count();
    if skipped > 0 {
        tell(&format!(
            "rescore: skipping {} that an earlier run has finished",
            counted(skipped as u64, "file")
        ));
    }
    let what = match (files.to_run().next(), files.to_run().count()) {
        (None, _) => return tell("rescore: nothing to send"),
        (Some(only), _) if files.directory.is_none() => {
            let facts = &only.facts;
            facts.selection.of(&facts.name())
        }
        (_, number) => counted(number as u64, "file"),
    };
    let service = if context.is_sandbox() {
        "the built-in sandbox".to_owned()
    } else {
        context.endpoint.to_string()
    };
    let proxy =
        proxy_for(&context.endpoint).map(|proxy| format!(" through the proxy {}", quoted(&proxy)));
    tell(&format!(
        "rescore: sending {what} to {service}{}; up to {} at a time, {}",
        proxy.unwrap_or_default(),
        counted(calls.concurrency.get() as u64, "call"),
        pace(calls.pace.rate)
    ));
    tell_columns(files);
}

/// Says which columns of the inputs are used, and which are replaced: once, if they are the same in all.
fn tell_columns(files: &OpenFiles) {
    let mut told: Vec<&PartToRun> = Vec::new();
    for part in files.to_run() {
        let facts = &part.facts;
        let is_same = |told: &&PartToRun| {
            told.facts.mapping == facts.mapping
                && told.facts.replaced == facts.replaced
                && told.layout.format == part.layout.format
        };
        let is_empty = facts.mapping.is_empty() && facts.replaced.is_empty();
        if is_empty || told.iter().any(is_same) {
            continue;
        }
        if !told.is_empty() {
            tell(&format!("         from {} on:", facts.name()));
        }
        if !facts.mapping.is_empty() {
            tell(&format!("         {}", printable(&facts.mapping)));
        }
        if !facts.replaced.is_empty() {
            let names: Vec<_> = facts.replaced.iter().map(|name| quoted(name)).collect();
            let columns = match part.layout.format {
                Format::Delimited { .. } => "columns",
                Format::Jsonl => "members",
            };
            tell(&format!(
                "         replacing the {columns} {} of the input",
                names.join(", ")
            ));
        }
        told.push(part);
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
