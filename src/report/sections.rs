//! The content of a page, section by section.
//!
//! Values of a column that the user named are the only ones of rows that get into a page: they are escaped, cut, and shown
//! with their counts, so that a share of three rows is not taken for a trend.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use maud::{Markup, html};

use super::chart::{has, histogram, legend, score, section, share_cells, shares, stack, swatch};
use crate::analysis::{
    Bars, DecisionCounts, Drift, DriftTally, PairingCounts, RowTally, TopValues, WhatIf,
};
use crate::base::numbers::{Decimal, percent_of};
use crate::base::text::{column, printable};
use crate::observe::{ReportedRun, count, counted, facts, headline, threshold_rows};
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
    /// The comparison with earlier verdicts, if there is one.
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
    /// With the verdicts that the rows had before, or that the ledger had.
    Own,
    /// Those of another file.
    File {
        /// Its name.
        name: String,
        /// How many rows were found in it.
        pairing: PairingCounts,
    },
}

/// A section: the id of its heading, its title, and its content.
type Section = (&'static str, &'static str, Markup);

/// All sections that have something to say.
pub(super) fn sections(report: &PageContent) -> Markup {
    let (tally, run) = (&report.tally, report.run.as_ref());
    let what_if = tally.what_if.as_ref();
    let comparison = report.comparison.as_ref();
    let drift = comparison.map(|with| drift(with, &tally.drift));
    let first = [
        Some(verdicts(report)),
        scores(tally),
        what_if.and_then(thresholds),
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
        html! { div { dt { (swatch(class)) (done) } dd { b { (count(number)) } span { (percent_of(number, all)) } } } }
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
            p.note { (counted(tally.undecided, "row")) " " (has(tally.undecided)) " a score and no decision." }
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
        Decision::ALL.map(|decision| percent_of(tally.decisions.of(Some(decision)), all));
    let rest = match tally.without_verdict() {
        0 => "every row has a verdict".to_owned(),
        without => format!("{} {} no verdict", counted(without, "row"), has(without)),
    };
    let all = counted(all, "row");
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
    // The picture shows all thresholds, with some room to their right.
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
                (counted(others, "row")) " " (has(others)) " another decision than the thresholds of this page give (" (words)
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

/// What other thresholds would do: the table of `decide --what-if`.
fn thresholds(what_if: &WhatIf) -> Option<Section> {
    if what_if.scores() == 0 {
        return None;
    }
    let content = html! {
        p { "Rows with a score that each threshold would approve or block. What neither takes is left for review." }
        table.numbers {
            thead { tr { th scope="col" { "Threshold" } th scope="col" { "would approve" } th scope="col" { "would block" } } }
            tbody {
                @for row in threshold_rows(what_if) {
                    tr.now[row.today.is_some()] {
                        th scope="row" { (row.threshold) @if let Some(today) = row.today { small { (today) } } }
                        td { (row.approved) } td { (row.blocked) }
                    }
                }
            }
        }
    };
    Some(("what-if", "What other thresholds would do", content))
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
        p { (counted(without, "row")) " of " (count(all)) " (" (percent_of(without, all)) ") " (has(without)) " no verdict." }
        @if failed.is_some() {
            table.numbers {
                thead { tr { th scope="col" { "Reason" } th scope="col" { "Rows" } th scope="col" { "Of all" } } }
                tbody {
                    @for (reason, number) in reasons {
                        tr { th scope="row" { (reason) } td { (count(*number)) } td { (percent_of(*number, all)) } }
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
                "Compared with " (with) ": " (count(changed)) " of " (count(compared)) " decisions changed (" (percent_of(changed, compared)) ")."
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
                            (count(same)) " (" (percent_of(same, tally.scores)) ") stayed."
                        }
                    }
                }
            }
        }
    };
    ("drift", "What has changed", content)
}

/// How many rows were paired, and how many were not.
fn pairs(pairing: &PairingCounts) -> Markup {
    let [new, gone] = [pairing.new, pairing.gone].map(count);
    html! {
        p.note {
            "Rows are paired by the column " i { (column(&pairing.key)) } ": " (counted(pairing.paired, "row")) " in both files, " (new) " only in this one, " (gone) " only in the earlier one."
            @if pairing.ambiguous > 0 {
                " " (counted(pairing.ambiguous, "row")) " not compared: several rows of the earlier file match, with different verdicts."
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
                            td.same[now == before].moved[now != before && cell > 0] { (count(cell)) small { (percent_of(cell, drift.compared)) } }
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
            p.note { "The column has more than 10,000 different values: the first ones in the file are told apart, and all later ones count as other values." }
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
        @if any_few { p.note { "Shares of fewer than " (counted(FEW, "row")) " are pale: a few rows more or less would change them a lot." } }
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

/// The label of the last line.
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
