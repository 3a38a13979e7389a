//! The second phase: says what is about to happen, before the first call.

use std::time::Duration;

use super::super::open_input::{InputFacts, bytes_ignored};
use super::ledger::PreparedLedger;
use super::parts::PlannedParts;
use super::prepare::{CallParts, Context, PreparedRun};
use super::run_files::PreparedFiles;
use crate::base::error::{printable, quoted, shown};
use crate::layout::Format;
use crate::ledger::{EarlierAnswers, KnownLimit, LackingAnswers, LedgerFacts, PreviousRun};
use crate::observe::{self, counted, day, moment, most, only_of_others, tell};
use crate::pace::Rate;
use crate::telemetry::pace::Limit;

/// For a run to a stream that has no ledger.
const NO_LEDGER: &str = "rescore: no ledger: paid answers are not kept, and a run that stops has to start over (`--ledger FILE` keeps them)";

/// A run that started longer ago may be another night's. A run that takes days causes a warning as well, which does no harm.
const OLD: Duration = Duration::from_secs(24 * 60 * 60);

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
        if files.has_rows() {
            tell_limit(ledger, calls.gate.limit());
            tell_earlier_run(ledger);
        }
    }
    let is_kept = context.is_sandbox() || ledger.facts.place.is_some();
    if !context.watch.quiet && files.go_to_stream() && !is_kept {
        tell(NO_LEDGER);
    }
    let of_ledger = thrown_away(ledger).or_else(|| aged(ledger));
    let of_ledger = of_ledger
        .into_iter()
        .chain(unfinished(ledger))
        .chain(lacking(ledger))
        .chain(elsewhere(ledger));
    let of_input = files.ignored_at_start().then(|| bytes_ignored("the input"));
    for warning in warnings.iter().cloned().chain(of_input).chain(of_ledger) {
        observe::warn(&printable(&warning));
    }
    if let PreparedFiles::Parts(parts) = files {
        for error in parts.unusable() {
            observe::tell_error(error);
        }
    }
}

fn introduce(context: &Context, calls: &CallParts, files: &PreparedFiles) {
    let what = match files {
        PreparedFiles::One(file) => file.input.selection.of(&file.input.name()),
        PreparedFiles::Parts(parts) => {
            if parts.skipped() > 0 {
                tell(&format!(
                    "rescore: skipping {} that an earlier run has finished",
                    counted(parts.skipped(), "file")
                ));
            }
            match parts.to_run().count() {
                0 => return tell("rescore: nothing to send"),
                number => counted(number as u64, "file"),
            }
        }
    };
    let service = if context.is_sandbox() {
        "the built-in sandbox".to_owned()
    } else {
        context.endpoint.to_string()
    };
    tell(&format!(
        "rescore: sending {what} to {service}; up to {} at a time, {}",
        counted(calls.concurrency.get() as u64, "call"),
        pace(calls.pace.rate)
    ));
    match files {
        PreparedFiles::One(file) => tell_columns(&file.input, file.layout.format),
        PreparedFiles::Parts(parts) => tell_all_columns(parts),
    }
}

/// Says which columns of several inputs are used: once, if they are the same in all.
fn tell_all_columns(parts: &PlannedParts) {
    let mut told: Vec<(&InputFacts, Format)> = Vec::new();
    for part in parts.to_run() {
        let (facts, format) = (&part.facts, part.format);
        let same = |(told, as_format): &(&InputFacts, Format)| {
            told.mapping == facts.mapping && told.replaced == facts.replaced && *as_format == format
        };
        let is_empty = facts.mapping.is_empty() && facts.replaced.is_empty();
        if is_empty || told.iter().any(same) {
            continue;
        }
        if !told.is_empty() {
            tell(&format!("         from {} on:", facts.name()));
        }
        tell_columns(facts, format);
        told.push((facts, format));
    }
}

/// Says which columns of an input are used, and which are replaced.
fn tell_columns(input: &InputFacts, format: Format) {
    if !input.mapping.is_empty() {
        tell(&format!("         {}", printable(&input.mapping)));
    }
    if !input.replaced.is_empty() {
        let names: Vec<_> = input.replaced.iter().map(|name| quoted(name)).collect();
        let columns = match format {
            Format::Delimited { .. } => "columns",
            Format::Jsonl => "members",
        };
        tell(&format!(
            "         replacing the {columns} {} of the input",
            names.join(", ")
        ));
    }
}

/// How fast calls start.
fn pace(rate: Rate) -> String {
    match rate {
        Rate::Auto => "pace found automatically".to_owned(),
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
        let first = if start.is_doubtful() {
            ", and checking it first"
        } else {
            ""
        };
        tell(&format!(
            "rescore: the limit found {} was {}: starting near it{first}",
            day(found),
            most(start)
        ));
    }
}

/// Says which run this one continues, and what is paid for.
fn tell_earlier_run(ledger: &PreparedLedger) {
    let Some(EarlierAnswers { answers, started }) = ledger.facts.earlier_answers else {
        return;
    };
    let has = match (answers, ledger.is_sandbox()) {
        (0, _) => String::new(),
        (1, false) => ": 1 answer is paid for".to_owned(),
        (_, false) => format!(": {} are paid for", counted(answers, "answer")),
        (_, true) => format!(": it has {}", counted(answers, "answer")),
    };
    let started = moment(started);
    tell(&if ledger.was_finished() && ledger.is_retry() {
        format!("rescore: retrying the failed rows of the run of {started}{has}")
    } else {
        format!("rescore: continuing the run of {started}{has} (`--fresh` sends every row again)")
    });
}

/// A warning of what is lost by starting over. The answers of a finished run have served their purpose.
fn thrown_away(ledger: &PreparedLedger) -> Option<String> {
    let EarlierAnswers { answers, started } = ledger.facts.replaced_answers?;
    (!ledger.was_finished() && answers > 0).then(|| {
        format!(
            "starting over: the {} of the run of {} are discarded",
            observe::answers(answers, ledger.is_sandbox()),
            moment(started)
        )
    })
}

/// A warning where answers cannot be used because the run needs fields that they were not stored with.
fn lacking(ledger: &PreparedLedger) -> Option<String> {
    if ledger.facts.replaced_answers.is_some() {
        return None;
    }
    let LackingAnswers { answers, fields } = ledger.facts.lacking_answers.as_ref()?;
    let answers = match answers {
        Some(1) => "1 answer in the ledger lacks".to_owned(),
        Some(answers) => format!("{} in the ledger lack", counted(*answers, "answer")),
        None => "answers in the ledger lack".to_owned(),
    };
    let fields: Vec<_> = fields.iter().map(|field| quoted(field)).collect();
    let paid = if ledger.is_sandbox() {
        ""
    } else {
        ", and paid for"
    };
    Some(format!(
        "{answers} {}, which this run needs: rows with such an answer are sent again{paid}",
        fields.join(", ")
    ))
}

/// A warning where the address or the service ID may be mistyped: all rows are paid for again. With `--fresh` that is wanted.
fn elsewhere(ledger: &PreparedLedger) -> Option<String> {
    let LedgerFacts {
        place,
        other_accounts: others,
        ..
    } = &ledger.facts;
    let place = { place.as_deref() }.filter(|_| !others.is_empty() && !ledger.is_fresh())?;
    Some(only_of_others(shown(place), others))
}

/// A warning where failed rows are to be retried, but the run has others left: somebody may expect to pay for few calls.
fn unfinished(ledger: &PreparedLedger) -> Option<String> {
    let facts = &ledger.facts;
    let has_others = facts.previous_run == PreviousRun::Stopped && !facts.only_failed;
    (ledger.is_retry() && has_others).then(|| {
        "the earlier run is not finished: only the rows that it has left are sent, and `--retry-failed` after that sends those \
         that failed"
            .to_owned()
    })
}

/// A warning where this run continues one of another day.
fn aged(ledger: &PreparedLedger) -> Option<String> {
    let EarlierAnswers { answers, started } = ledger.facts.earlier_answers?;
    let is_old = started.elapsed().is_ok_and(|age| age >= OLD);
    (is_old && answers > 0 && ledger.facts.previous_run == PreviousRun::Stopped).then(|| {
        format!(
            "the run of {} is more than a day old: its {} used, unless `--fresh` or `--max-age` is given",
            moment(started),
            match answers {
                1 => "answer is".to_owned(),
                answers => format!("{} are", counted(answers, "answer")),
            }
        )
    })
}
