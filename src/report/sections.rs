//! The content of a page, section by section.
//!
//! Values of a column that the user named are the only ones of rows that get into a page: they are escaped, cut, and shown
//! with their counts, so that a share of three rows is not taken for a trend.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use maud::{Markup, html};

use super::chart::{curve, has, histogram, legend, score, section, shares, stack, swatch};
use crate::analysis::{
    Bars, DecisionCounts, Drift, DriftTally, PairingCounts, RowTally, TopValues, WhatIf,
    beyond_chance, rounded,
};
use crate::base::numbers::{Decimal, percent_of, time};
use crate::base::text::{column, printable};
use crate::observe::{
    ReportedRun, count, counted, facts, headline, in_words, sample_lines, threshold_cells,
    threshold_lines,
};
use crate::verdict::{Decision, Thresholds};

/// Everything that is on a page.
#[derive(Debug)]
pub(crate) struct PageContent {
    /// The name of the file that it is about.
    pub(crate) file: String,
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
    /// What it shows of thresholds, besides what they would decide.
    pub(crate) thresholds: ShownThresholds,
}

/// What a page shows of thresholds, besides what they would decide.
#[derive(Debug, Default)]
pub(crate) struct ShownThresholds {
    /// The column of the outcomes, if they are known.
    pub(crate) outcome: Option<String>,
    /// The share of the bad rows that is to be caught, in percent.
    pub(crate) catch: Option<f64>,
    /// Thresholds whose decisions are compared with those of the rows.
    pub(crate) candidate: Option<Thresholds>,
    /// Those of today were read from the rows.
    pub(crate) are_read: bool,
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
    let what_if = tally.what_if.as_ref().filter(|_| tally.scored > 0);
    let comparison = report.comparison.as_ref();
    let drift = comparison.map(|with| drift(with, &tally.drift));
    let first = [
        Some(verdicts(report)),
        scores(tally),
        what_if.map(|what_if| thresholds(report, what_if)),
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

/// A table: the heads of its columns, and its rows.
fn table(class: &str, heads: &[&str], rows: &Markup) -> Markup {
    html! {
        table class=(class) {
            thead { tr { @for head in heads { th scope="col" { (head) } } } }
            tbody { (rows) }
        }
    }
}

/// Lines of a text as in a terminal: others are indented below their heads.
fn lines_of(lines: &[String]) -> Markup {
    html! { @for line in lines { span.line.head[!line.starts_with(' ')] { (printable(line.trim())) } } }
}

/// The heads of columns of numbers by decision.
fn with_decisions(first: [&str; 2], has_none: bool) -> Vec<&str> {
    let decisions = stack(has_none).map(|(_, class)| class);
    first.into_iter().chain(decisions).collect()
}

/// How long a review takes, to make hours of their number. Whoever knows better can multiply.
const REVIEW: Duration = Duration::from_secs(5 * 60);

/// What a reader sees first: the verdicts in one sentence and three numbers, what they cost, and how much work they make.
fn verdicts(report: &PageContent) -> Section {
    let (tally, run) = (&report.tally, report.run.as_ref());
    let all = tally.decisions.decided();
    let reviews = tally.decisions.review;
    let load = REVIEW.saturating_mul(u32::try_from(reviews).unwrap_or(u32::MAX));
    let cost = run.and_then(|run| run.counts.cost.as_ref());
    let tariff = run.and_then(ReportedRun::tariff);
    let sample = run.and_then(ReportedRun::sample);
    let sample = sample.map(|size| sample_lines(&size, &tally.decisions, tariff));
    let content = html! {
        p.headline { (sentence(tally)) }
        @if all > 0 {
            dl.tiles {
                @for (decision, class) in stack(false) {
                    @let rows = tally.decisions.of(decision);
                    div { dt { (swatch(class)) (class) } dd { b { (count(rows)) } span { (percent_of(rows, all)) } } }
                }
            }
            (shares(&tally.decisions, 18))
            p.load {
                (counted(reviews, "review")) @if reviews > 0 { " take about " (time(load)) ", at 5 minutes each" } "."
                @if let Some(cost) = cost {
                    " At their prices, the answers come to " (cost.tariff.display(cost.verdicts))
                    @if cost.unpriced > 0 { ", without " (counted(cost.unpriced, "answer")) " of unknown price" }
                    "."
                }
            }
        }
        @if let Some(sample) = sample {
            p.part role="note" { (lines_of(&sample)) }
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
    let (all, without) = (tally.decisions.decided(), tally.without_verdict());
    if tally.rows() == 0 {
        return "The file has no rows.".to_owned();
    }
    let rest = match without {
        0 => String::new(),
        _ => format!("; {} {} no verdict", counted(without, "row"), has(without)),
    };
    if all == 0 {
        return format!("No row is decided{rest}.");
    }
    let [approve, review, block] =
        Decision::ALL.map(|decision| percent_of(tally.decisions.of(Some(decision)), all));
    let rows = counted(all, "row");
    format!(
        "Of {rows} with a verdict, {approve} are approved, {review} need a review and {block} are blocked{rest}."
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
    let today = tally.thresholds();
    let lines = today.map(|today| {
        let (approve, review) = (today.approve_max(), today.review_max());
        vec![line("approve", approve), line("review", review)]
    });
    let lines = lines.unwrap_or_default();
    // The picture shows all thresholds, with some room to their right.
    let least = lines.iter().map(|(at, _)| *at).fold(0.0, f64::min);
    let greatest = lines.iter().map(|(at, _)| at * 1.1).fold(1.0, f64::max);
    let bars = tally.scores.bars(MOST_BARS, least, greatest);
    let has_none = tally.undecided > 0;
    let words = today.map(in_words).unwrap_or_default();
    let label = format!(
        "Histogram of {} scores, with lines at the thresholds ({words}); the numbers are in the table below",
        count(tally.scored),
    );
    let others = tally.what_if.as_ref().map_or(0, WhatIf::decided_otherwise);
    let content = html! {
        p { "How many rows have which score. A higher score is a higher risk; each bar spans " (score(bars.width)) "." }
        (legend(has_none))
        (histogram(&label, &bars, &lines))
        @if others > 0 {
            p.note {
                (counted(others, "row")) " " (has(others)) " another decision than these thresholds give: the file was decided with others, or by level."
            }
        }
        details { summary { "The numbers as a table" } div.scroll tabindex="0" { (score_table(&bars, has_none)) } }
    };
    Some(("scores", "Scores", content))
}

fn score_table(bars: &Bars, has_none: bool) -> Markup {
    let bars_with_rows = bars.counts.iter().enumerate();
    let bars_with_rows = bars_with_rows.filter(|(_, counts)| counts.rows() > 0);
    let rows = html! {
        @for (place, counts) in bars_with_rows {
            tr {
                th scope="row" { (score(bars.edge(place))) " to " (score(bars.edge(place + 1))) }
                td { (count(counts.rows())) }
                @for (decision, _) in stack(has_none) { td { (count(counts.of(decision))) } }
            }
        }
    };
    table(
        "numbers",
        &with_decisions(["Score", "Rows"], has_none),
        &rows,
    )
}

/// What other thresholds would do: what `decide --what-if` says, and what is caught by how many reviews as a picture.
fn thresholds(report: &PageContent, what_if: &WhatIf) -> Section {
    let shown = &report.thresholds;
    let (outcome, candidate) = (shown.outcome.as_deref(), shown.candidate.as_ref());
    let today = what_if.todays_pair();
    let catching = shown.catch.and_then(|percent| what_if.catching(percent));
    let catching = catching
        .as_ref()
        .filter(|pair| pair.thresholds != today.thresholds);
    let mut marked = vec![("today", &today)];
    marked.extend(catching.map(|pair| ("to catch enough", pair)));
    let cells_of = |pair: &_| threshold_cells(pair, outcome.is_some()).into_iter();
    let names = cells_of(&today).map(|(name, ..)| name);
    let heads: Vec<_> = ["threshold"].into_iter().chain(names).collect();
    let rows = html! {
        @for pair in what_if.single() {
            @let is_today = what_if.is_todays(&pair);
            tr.now[is_today] {
                th scope="row" { (pair.thresholds.approve_max()) @if is_today { small { "today" } } }
                @for (_, rows, all) in cells_of(&pair) { td { (count(rows)) small { (percent_of(rows, all)) } } }
            }
        }
    };
    let content = html! {
        div.columns {
            div {
                p { "Rows with a score that each threshold would approve or block. What neither takes is left for review." }
                (table("numbers steps", &heads, &rows))
            }
            div {
                p { (lines_of(&threshold_lines(what_if, outcome, shown.catch, candidate))) }
                @if today.bad.rows() > 0 {
                    h3 { "Bad rows that are caught, by the share of rows to review" }
                    (curve(&what_if.blocking_as_today().collect::<Vec<_>>(), &marked))
                }
            }
        }
    };
    ("what-if", "What other thresholds would do", content)
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
    let rows = html! {
        @for (reason, number) in reasons {
            tr { th scope="row" { (reason.sentence().trim().trim_end_matches('.').replace('`', "")) small { (reason) } } td { (count(*number)) } td { (percent_of(*number, all)) } }
        }
    };
    let content = html! {
        p { (counted(without, "row")) " of " (count(all)) " (" (percent_of(without, all)) ") " (has(without)) " no verdict." }
        @if failed.is_some() {
            (table("numbers", &["Reason", "Rows", "Of all"], &rows))
        } @else {
            p.note { "The reasons are in the rejects file of the run and in its summary: " code { "--run summary.json" } " shows them here." }
        }
    };
    Some(("rejects", "Rows without a verdict", content))
}

/// What has changed since an earlier run: decisions and scores.
fn drift(comparison: &Comparison, tally: &DriftTally) -> Section {
    let (compared, changed) = (tally.decisions.compared, tally.decisions.changed);
    let with = match comparison {
        Comparison::Own => "their earlier verdicts",
        Comparison::File { name, .. } => name,
    };
    let same = tally.scores - tally.rose - tally.fell;
    let mean = |sum: f64| format!("{:.2}", sum / tally.scores as f64);
    let content = html! {
        p.lead {
            @if compared == 0 {
                "No row has a decision both now and in " (with) "."
            } @else {
                "Compared with " (with) ": " (count(changed)) " of " (count(compared)) " decisions changed (" (percent_of(changed, compared)) ")."
            }
        }
        @if let Comparison::File { pairing, .. } = comparison {
            p.note {
                "Rows are paired by the column " i { (column(&pairing.key)) } ": " (counted(pairing.paired, "row")) " in both files, "
                (count(pairing.new)) " only in this one, " (count(pairing.gone)) " only in the earlier one."
                @if pairing.ambiguous > 0 {
                    " " (counted(pairing.ambiguous, "row")) " not compared: several rows of the earlier file match, with different verdicts."
                }
            }
        }
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
                        p { "The average score was " (mean(tally.sums.0)) " and is " (mean(tally.sums.1)) " now." }
                    }
                }
            }
        }
    };
    ("drift", "What has changed", content)
}

fn matrix(drift: &Drift) -> Markup {
    let rows = html! {
        @for (before, cells) in drift.rows() {
            tr {
                th scope="row" { (before.word()) }
                @for (now, cell) in Decision::ALL.into_iter().zip(cells) {
                    td.same[now == before].moved[now != before && cell > 0] { (count(cell)) small { (percent_of(cell, drift.compared)) } }
                }
            }
        }
    };
    let heads = ["before ↓ now →", "approve", "review", "block"];
    html! { h3 { "Decisions" } (table("matrix", &heads, &rows)) }
}

/// Decisions by the values of a column.
fn decisions_by(name: &str, values: &TopValues, tally: &RowTally) -> Markup {
    let all = &tally.decisions;
    let has_none = all.of(None) > 0;
    let line = |name: Markup, counts: &DecisionCounts| {
        html! {
            tr {
                th scope="row" { (name) (shares(counts, 8)) }
                td { b { (count(counts.rows())) } }
                @for decision in Decision::ALL { (group_cell(counts, all, decision)) }
                @if has_none { td { (count(counts.of(None))) } }
            }
        }
    };
    let rows = html! {
        @for (text, counts) in &values.top { (line(value(text), counts)) }
        @if values.other.rows() > 0 { (line(html! { i { (counted(values.other_values as u64, "other value")) } }, &values.other)) }
    };
    let name = column(name);
    html! {
        (legend(has_none))
        div.scroll tabindex="0" { (table("groups", &with_decisions([&name, "rows"], has_none), &rows)) }
        @if values.top.len() > 1 {
            p.note { "A marked share differs from that of all other rows by more than chance; (+12) is 12 rows more than their share would give." }
        }
    }
}

/// The share of a decision in a group, and the number of rows; marked if it differs from all others' beyond chance, with by how
/// many rows.
fn group_cell(counts: &DecisionCounts, all: &DecisionCounts, decision: Decision) -> Markup {
    let of = |counts: &DecisionCounts| (counts.of(Some(decision)), counts.decided());
    let ((number, rows), (all_numbers, all_rows)) = (of(counts), of(all));
    let excess = beyond_chance((number, rows), (all_numbers - number, all_rows - rows));
    html! {
        td.differs[excess.is_some()] {
            (percent_of(number, rows))
            small {
                (count(number))
                @if let Some(excess) = excess { " (" (if excess < 0.0 { "\u{2212}" } else { "+" }) (count(rounded(excess.abs()))) ")" }
            }
        }
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
