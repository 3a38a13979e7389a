//! What has changed since an earlier run: decisions, scores, and the rows whose scores changed most.

use maud::{Markup, html};

use super::chart::Section;
use super::model::{Comparison, PageContent, PairingCounts};
use super::words::{count, rows, share, signed, two_decimals};
use crate::analysis::{DriftTally, Mover};
use crate::base::error::column;
use crate::drift::Drift;
use crate::verdict::Decision;

pub(super) fn section(report: &PageContent) -> Option<Markup> {
    let comparison = report.comparison.as_ref()?;
    let drift = &report.tally.drift;
    let place = Section {
        id: "drift",
        title: "What has changed".to_owned(),
        sandbox: report.sandbox,
        is_wide: true,
    };
    Some(place.with(&html! {
        p.lead { (sentence(comparison, &drift.decisions)) }
        @if let Comparison::File { pairing, .. } = comparison {
            (pairs(pairing))
        }
        @if drift.decisions.compared() > 0 {
            div.columns {
                div {
                    (matrix(&drift.decisions))
                    @if drift.rose + drift.fell > 0 { (changes(drift)) }
                }
                @if drift.scores > 0 { div { (movers(&drift.movers)) } }
            }
        }
    }))
}

fn sentence(comparison: &Comparison, drift: &Drift) -> String {
    let with = match comparison {
        Comparison::Own => "their earlier verdicts",
        Comparison::File { name, .. } => name,
    };
    match drift.compared() {
        0 => format!("No row has a decision both now and in {with}."),
        compared => format!(
            "Compared with {with}: {} of {} decisions changed ({}).",
            count(drift.changed()),
            count(compared),
            share(drift.changed(), compared)
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
    let compared = drift.compared();
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

fn movers(movers: &[Mover]) -> Markup {
    html! {
        h3 { "Largest changes of score" }
        @if movers.is_empty() {
            p { "No score changed." }
        } @else {
            table.numbers.movers {
                thead { tr { th scope="col" { "Row" } th scope="col" { "Before" } th scope="col" { "Now" } th scope="col" { "Change" } th.words scope="col" { "Decision" } } }
                tbody {
                    @for mover in movers {
                        tr {
                            th scope="row" { (count(mover.row.get())) }
                            td { (two_decimals(mover.score_before)) } td { (two_decimals(mover.score_now)) } td { (signed(mover.change())) }
                            td.words {
                                @if mover.decision_before == mover.decision_now { (mover.decision_now.word()) }
                                @else { (mover.decision_before.word()) " → " b { (mover.decision_now.word()) } }
                            }
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
