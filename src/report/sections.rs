//! What is on a page, and its sections in their order.
//!
//! Values of a column that the user named are the only ones of rows that get into a page: they are escaped, cut, and shown
//! with their counts, so that a share of three rows is not taken for a trend.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use maud::{Markup, html};

use super::chart::{
    has, histogram, legend, rows, score, section, share, share_cells, shares, stack, swatch,
};
use crate::analysis::{
    Bars, DecisionCounts, Drift, DriftTally, PairingCounts, RowTally, ThresholdStep, TopValues,
    WhatIf,
};
use crate::base::numbers::Decimal;
use crate::base::text::{column, printable};
use crate::observe::{ReportedRun, count, facts, headline};
use crate::verdict::Decision;

/// Everything that is on a page.
#[derive(Debug)]
pub(crate) struct PageContent {
    /// The name of the file that it is about.
    pub(crate) file: String,
    /// The hash of that file, if it was read.
    pub(crate) hash: Option<String>,
    /// When the page was made, in local time.
    pub(crate) made: String,
    /// The stand-in made the scores up.
    pub(crate) sandbox: bool,
    /// The counts of the rows.
    pub(crate) tally: RowTally,
    /// What the verdicts are compared with, if with anything.
    pub(crate) comparison: Option<Comparison>,
    /// Columns, and the decisions by their most frequent values.
    pub(crate) groups: Vec<(String, TopValues)>,
    /// How the run went that wrote the file, if that is known.
    pub(crate) run: Option<ReportedRun>,
    /// The decisions are not those that the run made.
    pub(crate) redecided: bool,
}

/// What verdicts are compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// Those that the rows themselves had before, or that the run knew.
    Own,
    /// Those of another file.
    File {
        /// Its name.
        name: String,
        /// How many rows were found in it.
        pairing: PairingCounts,
    },
}

/// The place of a section's heading, its title, and what is in it.
type Section = (&'static str, &'static str, Markup);

/// All sections that have something to say.
pub(super) fn sections(report: &PageContent) -> Markup {
    let (tally, run) = (&report.tally, report.run.as_ref());
    let what_if = tally.what_if.as_ref();
    let drift = { report.comparison.as_ref() }.map(|with| drift(with, &tally.drift));
    let first = [
        Some(verdicts(report)),
        scores(tally),
        what_if.and_then(|what_if| thresholds(what_if, tally.rows())),
        rejects(tally, run),
        drift,
    ];
    html! {
        @for (id, title, content) in first.into_iter().flatten() {
            (section(report.sandbox, id, title, &content))
        }
        @for (number, (name, values)) in (1..).zip(&report.groups) {
            @let title = format!("Decisions by {}", column(name));
            (section(report.sandbox, &format!("by-{number}"), &title, &decisions_by(name, values, tally)))
        }
        @if let Some(run) = run {
            (section(report.sandbox, "run", "The run", &about_run(run)))
        }
    }
}

/// What a reader sees first: the verdicts in one sentence and three numbers.
fn verdicts(report: &PageContent) -> Section {
    let tally = &report.tally;
    let all = tally.rows();
    let tile = |decision, class, done: &str| {
        let number = tally.decisions.of(Some(decision));
        html! { div { dt { (swatch(class)) (done) } dd { b { (count(number)) } span { (share(number, all)) } } } }
    };
    let content = html! {
        p.headline { (sentence(tally)) }
        @if all > 0 {
            dl.tiles {
                (tile(Decision::Approve, "approve", "approved"))
                (tile(Decision::Review, "review", "to review"))
                (tile(Decision::Block, "block", "blocked"))
            }
            (shares(&tally.decisions, 18))
        }
        @if report.redecided {
            p.note { "The decisions in the file are not those of the run: they were made again since." }
        }
        @if tally.undecided > 0 {
            p.note { (rows(tally.undecided)) " " (has(tally.undecided)) " a score and no decision." }
        }
    };
    ("verdicts", "Verdicts", content)
}

/// The verdicts in one sentence.
fn sentence(tally: &RowTally) -> String {
    let all = tally.rows();
    if all == 0 {
        return "The file has no rows.".to_owned();
    }
    let [approve, review, block] =
        Decision::ALL.map(|decision| share(tally.decisions.of(Some(decision)), all));
    let rest = match tally.without_verdict() {
        0 => "every row has a verdict".to_owned(),
        without => format!("{} {} no verdict", rows(without), has(without)),
    };
    let all = rows(all);
    format!(
        "Of {all}, {approve} are approved, {review} need a review and {block} are blocked; {rest}."
    )
}

/// More bars could not be told apart on a phone.
const MOST_BARS: i64 = 50;

/// The histogram of scores, with both thresholds.
fn scores(tally: &RowTally) -> Option<Section> {
    if tally.scored == 0 {
        return None;
    }
    let line = |word: &str, at: &Decimal| {
        let place = at.text().parse().unwrap_or(0.0);
        (place, format!("{word} up to {at}"))
    };
    let lines = tally.thresholds.as_ref().map(|today| {
        vec![
            line("approve", today.approve_max()),
            line("review", today.review_max()),
        ]
    });
    let lines = lines.unwrap_or_default();
    // All thresholds are in the picture, with some room on the right of them.
    let least = lines.iter().map(|(at, _)| *at).fold(0.0, f64::min);
    let greatest = lines.iter().map(|(at, _)| at * 1.1).fold(1.0, f64::max);
    let bars = tally.scores.bars(MOST_BARS, least, greatest);
    let has_none = tally.undecided > 0;
    let words: Vec<_> = lines.iter().map(|(_, words)| words.as_str()).collect();
    let words = words.join(", ");
    let label = format!(
        "Histogram of {} scores, with lines at the thresholds ({words}); the numbers are in the table below",
        count(tally.scored),
    );
    let others = tally.decided_otherwise;
    let content = html! {
        p { "How many rows have which score. A higher score is a higher risk; each bar spans " (score(bars.width)) "." }
        (legend(has_none))
        (histogram(&label, &bars, &lines))
        @if others > 0 {
            p.note {
                (rows(others)) " " (has(others)) " another decision than the thresholds of this page give (" (words)
                "): the file was decided with others, or by level."
            }
        }
        details { summary { "The numbers as a table" } div.scroll tabindex="0" { (score_table(&bars, has_none)) } }
    };
    Some(("scores", "Scores", content))
}

fn score_table(bars: &Bars, has_none: bool) -> Markup {
    html! {
        table.numbers {
            thead {
                tr {
                    th scope="col" { "Score" } th scope="col" { "Rows" }
                    @for (_, class) in stack(has_none) { th scope="col" { (class) } }
                }
            }
            tbody {
                @for (place, counts) in bars.counts.iter().enumerate().filter(|(_, counts)| counts.rows() > 0) {
                    tr {
                        th scope="row" { (score(bars.edge(place))) " to " (score(bars.edge(place + 1))) }
                        td { (count(counts.rows())) }
                        @for (decision, _) in stack(has_none) { td { (count(counts.of(decision))) } }
                    }
                }
            }
        }
    }
}

/// How many thresholds the table has around today's: five columns fit on a phone.
const SHOWN: usize = 5;

/// What other thresholds would do, around those of today.
fn thresholds(what_if: &WhatIf, all: u64) -> Option<Section> {
    if what_if.scores() == 0 {
        return None;
    }
    let steps: Vec<_> = what_if.steps().collect();
    let around = |is_today: fn(&ThresholdStep<'_>) -> bool| {
        let today = steps.iter().position(is_today).unwrap_or(0);
        // At an end of the scale, there are more on the other side.
        let last = steps.len().saturating_sub(SHOWN);
        { steps.iter().copied() }
            .skip(today.saturating_sub(SHOWN / 2).min(last))
            .take(SHOWN)
    };
    let approve = around(|step| step.is_approve_max);
    let review = around(|step| step.is_review_max);
    let content = html! {
        p {
            "Each cell is the share of rows that a person would have to review. On the left is what would be approved, on top "
            "what would be blocked. As at the top of the page, shares are of all " (rows(all)) "."
        }
        div.scroll tabindex="0" {
            table.what-if {
                thead {
                    tr {
                        th scope="col" { "approve up to" }
                        @for step in review.clone() {
                            th.now[step.is_review_max] scope="col" {
                                span { "review to" } b { (step.threshold) } small { (share(step.above, all)) " blocked" }
                            }
                        }
                    }
                }
                tbody {
                    @for first in approve {
                        tr {
                            th.now[first.is_approve_max] scope="row" { b { (first.threshold) } small { (share(first.up_to, all)) " approved" } }
                            @for second in review.clone() { (threshold_cell(first, second, all)) }
                        }
                    }
                }
            }
        }
    };
    Some(("what-if", "What other thresholds would do", content))
}

fn threshold_cell(first: ThresholdStep<'_>, second: ThresholdStep<'_>, all: u64) -> Markup {
    if first.threshold > second.threshold {
        return html! { td.never { "–" } };
    }
    let reviewed = second.up_to - first.up_to;
    // The darker, the more there is to review.
    let heat = match reviewed.saturating_mul(100) / all {
        0..5 => "heat0",
        5..15 => "heat1",
        15..30 => "heat2",
        30..50 => "heat3",
        _ => "heat4",
    };
    html! {
        td class=(heat) {
            @if first.is_approve_max && second.is_review_max { span.today { "today" } }
            (share(reviewed, all)) small { (count(reviewed)) }
        }
    }
}

/// Rows without a verdict, by reason.
fn rejects(tally: &RowTally, run: Option<&ReportedRun>) -> Option<Section> {
    let (all, without) = (tally.rows(), tally.without_verdict());
    let failed = run.map(|run| &run.counts.failed.reasons);
    if without == 0 && failed.is_none_or(BTreeMap::is_empty) {
        return None;
    }
    let mut reasons: Vec<_> = failed.into_iter().flatten().collect();
    reasons.sort_by_key(|(_, rows)| Reverse(**rows));
    let content = html! {
        p { (rows(without)) " of " (count(all)) " (" (share(without, all)) ") " (has(without)) " no verdict." }
        @if failed.is_some() {
            table.numbers {
                thead { tr { th scope="col" { "Reason" } th scope="col" { "Rows" } th scope="col" { "Of all" } } }
                tbody {
                    @for (reason, number) in reasons {
                        tr { th scope="row" { (reason) } td { (count(*number)) } td { (share(*number, all)) } }
                    }
                }
            }
        } @else {
            p.note { "The reasons are in the rejects file of the run and in its summary: " code { "--run summary.json" } " shows them here." }
        }
    };
    Some(("rejects", "Rows without a verdict", content))
}

/// What has changed since an earlier run: decisions and scores.
fn drift(comparison: &Comparison, tally: &DriftTally) -> Section {
    let Drift {
        compared, changed, ..
    } = tally.decisions;
    let with = match comparison {
        Comparison::Own => "their earlier verdicts",
        Comparison::File { name, .. } => name,
    };
    let same = tally.scores - tally.rose - tally.fell;
    let content = html! {
        p.lead {
            @if compared == 0 {
                "No row has a decision both now and in " (with) "."
            } @else {
                "Compared with " (with) ": " (count(changed)) " of " (count(compared)) " decisions changed (" (share(changed, compared)) ")."
            }
        }
        @if let Comparison::File { pairing, .. } = comparison { (pairs(pairing)) }
        @if compared > 0 {
            div.columns {
                div { (matrix(&tally.decisions)) }
                @if tally.scores > 0 {
                    div {
                        h3 { "Changes of score" }
                        p {
                            "Of " (count(tally.scores)) " scores, " (count(tally.rose)) " rose (riskier), " (count(tally.fell)) " fell, and "
                            (count(same)) " (" (share(same, tally.scores)) ") stayed."
                        }
                    }
                }
            }
        }
    };
    ("drift", "What has changed", content)
}

/// How rows were paired, and those that were not.
fn pairs(pairing: &PairingCounts) -> Markup {
    let [new, gone] = [pairing.new, pairing.gone].map(count);
    html! {
        p.note {
            "Rows are paired by the column " i { (column(&pairing.key)) } ": " (rows(pairing.paired)) " in both files, " (new) " only in this one, " (gone) " only in the earlier one."
            @if pairing.ambiguous > 0 {
                " " (rows(pairing.ambiguous)) " not compared: several rows of the earlier file match, with different verdicts."
            }
        }
    }
}

fn matrix(drift: &Drift) -> Markup {
    html! {
        h3 { "Decisions" }
        table.matrix {
            thead { tr { th scope="col" { "before ↓ now →" } @for now in Decision::ALL { th scope="col" { (now.word()) } } } }
            tbody {
                @for (before, cells) in drift.rows() {
                    tr {
                        th scope="row" { (before.word()) }
                        @for (now, cell) in Decision::ALL.into_iter().zip(cells) {
                            td.same[now == before].moved[now != before && cell > 0] { (count(cell)) small { (share(cell, drift.compared)) } }
                        }
                    }
                }
            }
        }
    }
}

/// A share of fewer rows is shown paler: two more or less of 30 change it by 7 points.
const FEW: u64 = 30;

/// Decisions by the values of a column.
fn decisions_by(name: &str, values: &TopValues, tally: &RowTally) -> Markup {
    let has_none = tally.decisions.of(None) > 0;
    let line = |name: Markup, counts: &DecisionCounts| {
        html! {
            tr.few[counts.rows() < FEW] {
                th scope="row" { (name) (shares(counts, 8)) }
                td { b { (count(counts.rows())) } }
                (share_cells(counts, has_none))
            }
        }
    };
    let any_few = values.top.iter().any(|(_, counts)| counts.rows() < FEW);
    html! {
        @if values.other_values.is_none() {
            p.note { "The column has more than 10,000 different values: those that come first in the file are told apart, and all later ones are counted as other values." }
        }
        (legend(has_none))
        div.scroll tabindex="0" {
            table.groups {
                thead {
                    tr {
                        th scope="col" { (column(name)) } th scope="col" { "Rows" }
                        @for (_, class) in stack(has_none) { th scope="col" { (class) } }
                    }
                }
                tbody {
                    @for (text, counts) in &values.top { (line(value(text), counts)) }
                    @if values.other.rows() > 0 { (line(other(values.other_values), &values.other)) }
                }
            }
        }
        @if any_few { p.note { "Shares of fewer than " (rows(FEW)) " are pale: a few rows more or less would change them a lot." } }
    }
}

/// A value as it is shown; control characters are escaped.
fn value(value: &[u8]) -> Markup {
    let text = String::from_utf8_lossy(value);
    match text.trim() {
        "" => html! { i { "(empty)" } },
        text => html! { (column(text)) },
    }
}

/// What the last line is about.
fn other(values: Option<usize>) -> Markup {
    html! { i {
        @match values {
            Some(1) => { "1 other value" }
            Some(values) => { (count(values as u64)) " other values" }
            None => { "other values" }
        }
    } }
}

/// How the run went that wrote the file.
fn about_run(run: &ReportedRun) -> Markup {
    html! {
        p.lead { (headline(&run.counts)) "." }
        dl.facts {
            @for (number, words) in facts(&run.counts, run.sandbox) {
                div { dt { (words) } dd { (printable(&number)) } }
            }
        }
    }
}
