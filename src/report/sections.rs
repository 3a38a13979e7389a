//! The content of a page, section by section.
//!
//! Values of a column that the user named are the only ones of rows that get into a page: they are escaped, cut, and shown
//! with their counts, so that a share of three rows is not taken for a trend.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::time::Duration;

use maud::{Markup, html};

use super::chart::{
    CurvePoint, curve, has, histogram, legend, part, score, section, shares, stack, swatch,
};
use crate::analysis::{
    Bars, DecisionCounts, Drift, DriftTally, PairingCounts, RowTally, SampleSize, ThresholdPair,
    TopValues, WhatIf, compare, rounded,
};
use crate::base::numbers::{Decimal, percent_of, time};
use crate::base::text::{column, printable};
use crate::observe::{
    ONLY_LET_IN, ReportedRun, count, counted, facts, headline, interval, outcome_lines,
    sample_lines, today,
};
use crate::verdict::{Decision, Reason, Thresholds};

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
    let what_if = tally.what_if.as_ref();
    let comparison = report.comparison.as_ref();
    let drift = comparison.map(|with| drift(with, &tally.drift));
    let first = [
        Some(verdicts(report)),
        scores(tally),
        what_if.and_then(|what_if| thresholds(report, what_if)),
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

/// How long a review takes, to make hours of their number. Whoever knows better can multiply.
const REVIEW: Duration = Duration::from_secs(5 * 60);

/// What a reader sees first: the verdicts in one sentence and three numbers, what they cost, and how much work they make.
fn verdicts(report: &PageContent) -> Section {
    let (tally, run) = (&report.tally, report.run.as_ref());
    let all = tally.decisions.decided();
    let tile = |decision, class, done: &str| {
        let number = tally.decisions.of(Some(decision));
        html! { div { dt { (swatch(class)) (done) } dd { b { (count(number)) } span { (percent_of(number, all)) } } } }
    };
    let reviews = tally.decisions.review;
    let load = REVIEW.saturating_mul(u32::try_from(reviews).unwrap_or(u32::MAX));
    let cost = run.and_then(|run| run.counts.cost.as_ref());
    let costs = if report.sandbox {
        "would have cost"
    } else {
        "cost"
    };
    let tariff = run.and_then(ReportedRun::tariff);
    let sample = run.and_then(ReportedRun::sample);
    let sample = sample.map(|size| sample_lines(&size, &tally.decisions, tariff));
    let content = html! {
        p.headline { (sentence(tally)) }
        @if all > 0 {
            dl.tiles {
                (tile(Decision::Approve, "approve", "approved"))
                (tile(Decision::Review, "review", "to review"))
                (tile(Decision::Block, "block", "blocked"))
            }
            (shares(&tally.decisions, 18))
            p.load {
                (counted(reviews, "review")) @if reviews > 0 { " take about " (time(load)) ", at 5 minutes each" } "."
                @if let Some(cost) = cost {
                    " The answers " (costs) " " (cost.tariff.display(cost.verdicts))
                    @if cost.unpriced > 0 { ", without " (counted(cost.unpriced, "answer")) " of unknown price" }
                    "."
                }
            }
        }
        @if let Some(sample) = sample {
            p.part role="note" { @for line in sample { span.line { (line) } } }
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
    let all = tally.decisions.decided();
    let without = tally.without_verdict();
    let without = format!("{} {} no verdict", counted(without, "row"), has(without));
    let [approve, review, block] =
        Decision::ALL.map(|decision| percent_of(tally.decisions.of(Some(decision)), all));
    match (tally.rows(), tally.without_verdict()) {
        (0, _) => "The file has no rows.".to_owned(),
        _ if all == 0 => format!("No row is decided; {without}."),
        (rows, nothing) => {
            let (of, rest) = match nothing {
                0 => (counted(rows, "row"), "every row has a verdict".to_owned()),
                _ => (format!("{} with a verdict", counted(all, "row")), without),
            };
            format!(
                "Of {of}, {approve} are approved, {review} need a review and {block} are blocked; {rest}."
            )
        }
    }
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
    let lines = tally.thresholds().map(|today| {
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
    let others = tally.what_if.as_ref().map_or(0, WhatIf::decided_otherwise);
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

/// What other thresholds would do: the tables of `decide --what-if`, what they would catch, and whom a pair would concern.
fn thresholds(report: &PageContent, what_if: &WhatIf) -> Option<Section> {
    let (shown, total) = (&report.thresholds, what_if.total());
    let all = total.all.rows();
    let in_use = what_if.pair(what_if.today()).filter(|_| all > 0)?;
    let has_outcomes = shown.outcome.is_some();
    let sample = report.run.as_ref().and_then(ReportedRun::sample);
    let cell = |part, whole| threshold_cell(part, whole, sample.as_ref());
    let catching = shown.catch.and_then(|percent| what_if.catching(percent));
    let candidate = shown.candidate.as_ref().and_then(|pair| what_if.pair(pair));
    let is_asked = has_outcomes || candidate.is_some();
    let content = html! {
        div.columns[is_asked] {
            div {
                p { "Rows with a score that each threshold would approve or block. What neither takes is left for review." }
                table.numbers.steps {
                    thead { tr {
                        th scope="col" { "Threshold" } th scope="col" { "would approve" } th scope="col" { "would block" }
                        @if has_outcomes { th scope="col" { "bad above" } th scope="col" { "good above" } }
                    } }
                    tbody {
                        @for step in what_if.steps() {
                            @let today = today(&step);
                            tr.now[today.is_some()] {
                                th scope="row" { (step.threshold) @if let Some(today) = today { small { (today) } } }
                                (cell(step.up_to.all.rows(), all)) (cell(step.above.all.rows(), all))
                                @if has_outcomes { (cell(step.above.bad.rows(), total.bad.rows())) (cell(step.above.good.rows(), total.good.rows())) }
                            }
                        }
                    }
                }
            }
            div {
                @if let Some(column) = &shown.outcome { (outcomes(column, what_if, &in_use, catching.as_ref())) }
                @if let Some(percent) = shown.catch {
                    h3 { "To catch " (percent) "% of the bad rows" }
                    @match &catching {
                        Some(pair) => {
                            p { "With the fewest reviews, and without blocking more rows than today: " (in_words(pair)) "." }
                            (outcome_list(pair))
                            (people(what_if, &in_use, pair))
                        }
                        None => { p { "No thresholds catch as many." } }
                    }
                }
                @if let Some(pair) = &candidate {
                    h3 { "If it were: " (in_words(pair)) }
                    @if has_outcomes { (outcome_list(pair)) }
                    (people(what_if, &in_use, pair))
                }
            }
        }
    };
    Some(("what-if", "What other thresholds would do", content))
}

/// A number of rows with its share, of a sample with the interval of the share.
fn threshold_cell(part: u64, whole: u64, sample: Option<&SampleSize>) -> Markup {
    html! {
        td {
            (count(part)) small { (percent_of(part, whole)) }
            @if let Some(sample) = sample { small { (interval(sample, part, whole)) } }
        }
    }
}

/// `approve up to 2, review up to 5`.
fn in_words(pair: &ThresholdPair<'_>) -> String {
    format!(
        "approve up to {}, review up to {}",
        pair.approve_max, pair.review_max
    )
}

/// What the thresholds in use catch, and what others would, for the reviews that they make.
fn outcomes(
    column: &str,
    what_if: &WhatIf,
    in_use: &ThresholdPair<'_>,
    catching: Option<&ThresholdPair<'_>>,
) -> Markup {
    let total = what_if.total();
    let (all, bad, good) = (total.all.rows(), total.bad.rows(), total.good.rows());
    let point = |pair: &ThresholdPair<'_>| CurvePoint {
        reviewed: part(pair.all.review, all),
        caught: part(pair.caught(), bad),
    };
    let line = what_if
        .pairs()
        .filter(|pair| pair.review_max == in_use.review_max);
    let line: Vec<_> = line.map(|pair| point(&pair)).collect();
    let mark = |pair: &ThresholdPair<'_>, word| {
        (
            point(pair),
            format!("{word}: approve up to {}", pair.approve_max),
        )
    };
    let others = catching.filter(|pair| !pair.is_today);
    let marks: Vec<_> = others
        .map(|pair| mark(pair, "to catch enough"))
        .into_iter()
        .chain([mark(in_use, "today")])
        .collect();
    html! {
        h3 { "What is caught" }
        p {
            "By the column " i { (printable(column)) } ", " (counted(bad, "row")) " turned out to be bad and " (count(good))
            " good; of " (count(all - bad - good)) " nothing is known. Today, with " (in_words(in_use)) ":"
        }
        (outcome_list(in_use))
        p.note.plain { (ONLY_LET_IN) ": what was blocked before is not in these numbers." }
        @if bad > 0 {
            h4 { "Bad rows that are caught, by the share of rows to review" }
            (curve("Share of the bad rows that are blocked or reviewed, by the share of all rows that are reviewed; the numbers are in the table", &line, &marks))
        }
    }
}

fn outcome_list(pair: &ThresholdPair<'_>) -> Markup {
    html! { ul.plain { @for line in outcome_lines(pair) { li { (line) } } } }
}

/// Who would get another decision by these thresholds than the rows have.
fn people(what_if: &WhatIf, in_use: &ThresholdPair<'_>, pair: &ThresholdPair<'_>) -> Markup {
    let thresholds = Thresholds::new(pair.approve_max.clone(), pair.review_max.clone());
    let drift = what_if.changes(&thresholds.unwrap_or_default());
    let moved = drift.rows().flat_map(|(before, cells)| {
        let cells = Decision::ALL.into_iter().zip(cells);
        let moved = cells.filter(move |(now, rows)| *now != before && *rows > 0);
        moved.map(move |(now, rows)| (before, now, rows))
    });
    html! {
        p {
            (count(drift.changed)) " of " (counted(drift.compared, "user")) " would get another decision"
            @if drift.changed > 0 { "; " (counted(pair.all.review, "review")) " in place of " (count(in_use.all.review)) }
            "."
        }
        ul.plain { @for (before, now, rows) in moved { li { b { (count(rows)) } " from " (before.word()) " to " (now.word()) } } }
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
        p { (counted(without, "row")) " of " (count(all)) " (" (percent_of(without, all)) ") " (has(without)) " no verdict." }
        @if failed.is_some() {
            table.numbers {
                thead { tr { th scope="col" { "Reason" } th scope="col" { "Rows" } th scope="col" { "Of all" } } }
                tbody {
                    @for (reason, number) in reasons {
                        tr { th scope="row" { (reason_words(*reason)) small { (reason) } } td { (count(*number)) } td { (percent_of(*number, all)) } }
                    }
                }
            }
        } @else {
            p.note { "The reasons are in the rejects file of the run and in its summary: " code { "--run summary.json" } " shows them here." }
        }
    };
    Some(("rejects", "Rows without a verdict", content))
}

/// A reason in words, without the marks of its documentation.
fn reason_words(reason: Reason) -> String {
    let words = reason.sentence().trim().trim_end_matches('.');
    words.replace('`', "")
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
    let mean = |sum: f64| format!("{:.2}", sum / tally.scores as f64);
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
                        p {
                            "The average score was " (mean(tally.sums.0)) " and is " (mean(tally.sums.1)) " now. "
                            (counted(tally.far, "score")) " (" (percent_of(tally.far, tally.scores)) ") moved by more than 1."
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
    let all = &tally.decisions;
    let has_none = all.of(None) > 0;
    let line = |name: Markup, counts: &DecisionCounts| {
        html! {
            tr.few[counts.rows() < FEW] {
                th scope="row" { (name) (shares(counts, 8)) }
                td { b { (count(counts.rows())) } }
                @for decision in Decision::ALL { (group_cell(counts, all, decision)) }
                @if has_none { td { (count(counts.of(None))) } }
            }
        }
    };
    let any_few = values.top.iter().any(|(_, counts)| counts.rows() < FEW);
    html! {
        (legend(has_none))
        div.scroll tabindex="0" {
            table.groups {
                thead {
                    tr {
                        th scope="col" { (column(name)) } th scope="col" { "rows" }
                        @for (_, class) in stack(has_none) { th scope="col" { (class) } }
                    }
                }
                tbody {
                    @for (text, counts) in &values.top { (line(value(text), counts)) }
                    @if values.other.rows() > 0 { (line(other(values.other_values), &values.other)) }
                }
            }
        }
        @if values.top.len() > 1 {
            p.note { "A marked share differs from that of all other rows by more than chance; (+12) is 12 rows more than their share would give." }
        }
        @if any_few { p.note { "Shares of fewer than " (counted(FEW, "row")) " are pale: a few rows more or less would change them a lot." } }
    }
}

/// The share of a decision in a group, and the number of rows; marked if it differs from all others' beyond chance, with by how
/// many rows.
fn group_cell(counts: &DecisionCounts, all: &DecisionCounts, decision: Decision) -> Markup {
    let of = |counts: &DecisionCounts| (counts.of(Some(decision)), counts.decided());
    let ((number, rows), (all_numbers, all_rows)) = (of(counts), of(all));
    let others = (all_numbers - number, all_rows - rows);
    let excess = number as f64 - rows as f64 * part(others.0, others.1);
    let sign = match compare((number, rows), others) {
        Ordering::Equal => None,
        Ordering::Greater => Some("+"),
        Ordering::Less => Some("\u{2212}"),
    };
    html! {
        td.differs[sign.is_some()] {
            (percent_of(number, rows))
            small { (count(number)) @if let Some(sign) = sign { " (" (sign) (count(rounded(excess.abs()))) ")" } }
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

/// The label of the last line.
fn other(values: usize) -> Markup {
    html! { i { (counted(values as u64, "other value")) } }
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
