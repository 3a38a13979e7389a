//! What has changed since an earlier run: decisions and scores.

use maud::{Markup, html};

use super::chart::section;
use super::model::{Comparison, PageContent, PairingCounts};
use super::words::{count, rows, share};
use crate::analysis::DriftTally;
use crate::base::text::column;
use crate::drift::Drift;
use crate::verdict::Decision;

pub(super) fn of(report: &PageContent) -> Option<Markup> {
    let comparison = report.comparison.as_ref()?;
    let drift = &report.tally.drift;
    Some(section(
        report.sandbox,
        "drift",
        "What has changed",
        &html! {
            p.lead { (sentence(comparison, &drift.decisions)) }
            @if let Comparison::File { pairing, .. } = comparison {
                (pairs(pairing))
            }
            @if drift.decisions.compared > 0 {
                div.columns {
                    div { (matrix(&drift.decisions)) }
                    @if drift.scores > 0 { div { (changes(drift)) } }
                }
            }
        },
    ))
}

fn sentence(comparison: &Comparison, drift: &Drift) -> String {
    let with = match comparison {
        Comparison::Own => "their earlier verdicts",
        Comparison::File { name, .. } => name,
    };
    match drift.compared {
        0 => format!("No row has a decision both now and in {with}."),
        compared => format!(
            "Compared with {with}: {} of {} decisions changed ({}).",
            count(drift.changed),
            count(compared),
            share(drift.changed, compared)
        ),
    }
}

/// How rows were paired, and those that were not.
fn pairs(pairing: &PairingCounts) -> Markup {
    let PairingCounts {
        key,
        paired,
        new,
        gone,
        ambiguous,
    } = pairing;
    html! {
        p.note {
            "Rows are paired by the column " i { (column(key)) } ": " (rows(*paired)) " in both files, " (count(*new)) " only in this one, " (count(*gone)) " only in the earlier one."
            @if *ambiguous > 0 {
                " " (rows(*ambiguous)) " not compared: several rows of the earlier file match, with different verdicts."
            }
        }
    }
}

fn matrix(drift: &Drift) -> Markup {
    let compared = drift.compared;
    html! {
        h3 { "Decisions" }
        table.matrix {
            thead { tr { th scope="col" { "before ↓ now →" } @for now in Decision::ALL { th scope="col" { (now.word()) } } } }
            tbody {
                @for (before, cells) in drift.rows() {
                    tr {
                        th scope="row" { (before.word()) }
                        @for (now, cell) in Decision::ALL.into_iter().zip(cells) {
                            td.same[now == before].moved[now != before && cell > 0] { (count(cell)) small { (share(cell, compared)) } }
                        }
                    }
                }
            }
        }
    }
}

fn changes(drift: &DriftTally) -> Markup {
    let same = drift.scores - drift.rose - drift.fell;
    html! {
        h3 { "Changes of score" }
        p {
            "Of " (count(drift.scores)) " scores, " (count(drift.rose)) " rose (riskier), " (count(drift.fell)) " fell, and "
            (count(same)) " (" (share(same, drift.scores)) ") stayed."
        }
    }
}
