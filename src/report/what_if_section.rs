//! What other thresholds would do, around those of today.

use maud::{Markup, html};

use super::model::PageContent;
use super::section::{Section, numbers};
use super::words::{count, share};
use crate::analysis::{ThresholdStep, WhatIf};

/// How many thresholds below and above today's the table has: five columns fit on a phone.
const AROUND: usize = 2;

pub(super) fn section(report: &PageContent) -> Option<Markup> {
    let what_if = report.tally.what_if.as_ref()?;
    let scored = what_if.scores();
    if scored == 0 {
        return None;
    }
    let place = Section {
        id: "what-if",
        title: "What other thresholds would do".to_owned(),
        sandbox: report.sandbox,
        is_wide: true,
    };
    Some(place.with(&html! {
        div.columns {
            div { (table(what_if)) }
            div {
                (explanation(scored, report.tally.rows()))
                (numbers("Every threshold in steps of 0.5", &steps(what_if)))
            }
        }
    }))
}

fn explanation(scored: u64, all: u64) -> Markup {
    html! {
        p {
            "Each cell is the share of the " (count(scored)) " scored rows that a person would have to review. "
            "On the left is what would be approved, on top what would be blocked."
            @if scored < all { " The shares at the top of the page are of all " (count(all)) " rows." }
        }
        p.note { "The share to approve depends only on the first threshold, the share to block only on the second." }
    }
}

/// The steps around today's.
fn around<'a>(
    what_if: &'a WhatIf,
    is_today: impl Fn(&ThresholdStep<'a>) -> bool,
) -> Vec<ThresholdStep<'a>> {
    let steps: Vec<_> = what_if.steps().collect();
    let today = steps.iter().position(is_today).unwrap_or(0);
    let shown = 2 * AROUND + 1;
    // At an end of the scale, there are more on the other side.
    let first = today
        .saturating_sub(AROUND)
        .min(steps.len().saturating_sub(shown));
    steps.into_iter().skip(first).take(shown).collect()
}

fn table(what_if: &WhatIf) -> Markup {
    let scored = what_if.scores();
    let approve = around(what_if, |step| step.is_approve_max);
    let review = around(what_if, |step| step.is_review_max);
    html! {
        div.scroll tabindex="0" {
            table.what-if {
                thead {
                    tr {
                        th scope="col" { "approve up to" }
                        @for step in &review {
                            th.now[step.is_review_max] scope="col" {
                                span { "review to" } b { (step.threshold) } small { (share(step.above, scored)) " blocked" }
                            }
                        }
                    }
                }
                tbody {
                    @for first in &approve {
                        tr {
                            th.now[first.is_approve_max] scope="row" { b { (first.threshold) } small { (share(first.up_to, scored)) " approved" } }
                            @for second in &review {
                                (cell(*first, *second, scored))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn cell(first: ThresholdStep<'_>, second: ThresholdStep<'_>, scored: u64) -> Markup {
    if first.threshold > second.threshold {
        return html! { td.never { "–" } };
    }
    let reviewed = second.up_to - first.up_to;
    let is_today = first.is_approve_max && second.is_review_max;
    html! {
        td class=(heat(reviewed, scored)) {
            @if is_today { span.today { "today" } }
            (share(reviewed, scored)) small { (count(reviewed)) }
        }
    }
}

/// The darker, the more there is to review.
const fn heat(reviewed: u64, scored: u64) -> &'static str {
    match reviewed.saturating_mul(100) / scored {
        0..5 => "heat0",
        5..15 => "heat1",
        15..30 => "heat2",
        30..50 => "heat3",
        _ => "heat4",
    }
}

fn steps(what_if: &WhatIf) -> Markup {
    let scored = what_if.scores();
    html! {
        table.numbers {
            thead {
                tr {
                    th scope="col" { "Threshold" }
                    th scope="col" colspan="2" { "Approved up to it" }
                    th scope="col" colspan="2" { "Blocked above it" }
                    th scope="col" { "Today" }
                }
            }
            tbody {
                @for step in what_if.steps() {
                    tr.now[step.is_approve_max || step.is_review_max] {
                        th scope="row" { (step.threshold) }
                        td { (count(step.up_to)) } td { (share(step.up_to, scored)) }
                        td { (count(step.above)) } td { (share(step.above, scored)) }
                        td {
                            @if step.is_approve_max { "approve" }
                            @if step.is_approve_max && step.is_review_max { ", " }
                            @if step.is_review_max { "review" }
                        }
                    }
                }
            }
        }
    }
}
