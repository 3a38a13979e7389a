//! The building blocks of the page: how numbers are written on it, its sections and their pictures.
//!
//! Pictures are drawn here and not by a plotting library, because they must be readable at any size without a script, on a
//! phone and on paper: everything is placed in percent, so that bars stretch and text does not. Libraries draw for one
//! size, which makes the text of a phone's picture too small; and they bring their own colours, where these follow the
//! reader's colour scheme.

use maud::{Markup, html};

use crate::analysis::{Bars, DecisionCounts, ThresholdPair};
use crate::observe::counted;
use crate::verdict::Decision;

/// A score with three decimals at most, and without zeros at its end.
pub(super) fn score(score: f64) -> String {
    let text = format!("{score:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    let text = if text == "-0" { "0" } else { text };
    text.replace('-', "\u{2212}")
}

/// The verb for this number of rows.
pub(super) const fn has(rows: u64) -> &'static str {
    if rows == 1 { "has" } else { "have" }
}

/// A section of the page; `id` is the place of its heading. In a rehearsal it says that its scores are made up.
pub(super) fn section(sandbox: bool, id: &str, title: &str, content: &Markup) -> Markup {
    html! {
        section class=(id) aria-labelledby=(id) {
            h2 #(id) { (title) @if sandbox { " " span.badge { "sandbox: made-up scores" } } }
            (content)
        }
    }
}

/// The decisions with the names of their colours and patterns, in the order in which they are stacked.
pub(super) const STACK: [(Option<Decision>, &str); 4] = [
    (Some(Decision::Approve), "approve"),
    (Some(Decision::Review), "review"),
    (Some(Decision::Block), "block"),
    (None, "none"),
];

/// The ones that a page shows; `has_none` says that some rows have no decision.
pub(super) fn stack(has_none: bool) -> impl Iterator<Item = (Option<Decision>, &'static str)> {
    STACK
        .into_iter()
        .filter(move |(decision, _)| decision.is_some() || has_none)
}

/// A share of the width.
pub(super) fn percent(share: f64) -> String {
    format!("{:.3}%", share * 100.0)
}

/// A part of the whole, from 0 to 1.
pub(super) fn part(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// Round numbers from `from` to `to`, at most `most` of them and two at least.
pub(super) fn ticks(from: f64, to: f64, most: u32) -> Vec<f64> {
    let range = to - from;
    let steps = (-3..15).flat_map(|power| [1.0, 2.0, 5.0].map(|step| step * 10_f64.powi(power)));
    // Half a thousandth of a step forgives rounding.
    let first = |step: f64| (from / step - 5e-4).ceil();
    let last = |step: f64| (to / step + 5e-4).floor();
    let fits = |step: &f64| last(*step) - first(*step) + 1.0 <= f64::from(most);
    let step = steps.clone().find(fits).unwrap_or(range);
    let mut ticks = Vec::new();
    let mut at = first(step);
    while at <= last(step) && ticks.len() < 100 {
        ticks.push(at * step);
        at += 1.0;
    }
    ticks
}

/// The colours' patterns, once for all pictures of a page.
pub(super) fn patterns() -> Markup {
    html! {
        svg.defs width="0" height="0" aria-hidden="true" focusable="false" {
            defs {
                pattern #fill-review width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                    rect.c-review width="5" height="5" {}
                    rect.hatch width="1.5" height="5" {}
                }
                pattern #fill-block width="5" height="5" patternUnits="userSpaceOnUse" {
                    rect.c-block width="5" height="5" {}
                    circle.hatch cx="2.5" cy="2.5" r="1" {}
                }
            }
        }
    }
}

/// A sample of a colour and its pattern.
pub(super) fn swatch(class: &str) -> Markup {
    html! { svg.swatch width="14" height="14" aria-hidden="true" { rect class=(class) width="14" height="14" rx="2" {} } }
}

/// The legend of pictures that show decisions.
pub(super) fn legend(has_none: bool) -> Markup {
    html! {
        ul.legend {
            @for (decision, class) in stack(has_none) {
                li { (swatch(class)) (decision.map_or("no decision", Decision::word)) }
            }
        }
    }
}

/// Shares of rows as one bar across.
pub(super) fn shares(counts: &DecisionCounts, height: u32) -> Markup {
    let rows = counts.rows();
    let mut left = 0.0;
    html! {
        svg.shares width="100%" height=(height) aria-hidden="true" {
            @for (decision, class) in STACK {
                @let width = part(counts.of(decision), rows);
                @if width > 0.0 {
                    rect class=(class) x=(percent(left)) width=(percent(width)) height=(height) {}
                }
                @let () = left += width;
            }
        }
    }
}

/// The share of the height above the bars, for the thresholds' names.
const ABOVE: f64 = 0.18;
/// The height of the tallest bar. The rest is for the numbers of the axis.
const TALLEST: f64 = 0.72;
/// How far down a threshold's name is, and how much farther the next one's.
const NAME: f64 = 0.06;

/// The least height of a bar: a single row must be seen even beside a bar that is a thousand times as tall.
const LEAST: f64 = 0.005;

/// A histogram, each bar with the decisions stacked from the bottom up; `label` says in words what it shows, and `lines` are
/// values with a line and its words, from the top down.
pub(super) fn histogram(label: &str, bars: &Bars, lines: &[(f64, String)]) -> Markup {
    let counts = bars.counts.iter();
    let most = counts.map(DecisionCounts::rows).fold(1, u64::max);
    let (from, to) = (bars.edge(0), bars.edge(bars.counts.len()));
    let across = |value: f64| (value - from) / (to - from);
    html! {
        svg.chart width="100%" role="img" aria-label=(label) {
            @for (_, y) in steps(most) { line.grid x1="0" x2="100%" y1=(percent(y)) y2=(percent(y)) {} }
            (stacks(bars, most))
            // The numbers are at the right end, where there are few rows in most files.
            @for (tick, y) in steps(most) { text.tick x="100%" y=(percent(y)) dy="-4" text-anchor="end" { (counted(tick, "row")) } }
            @for (place, (value, words)) in lines.iter().enumerate() {
                @let x = across(*value);
                @let y = NAME * (1.0 + place_of(place) * 1.2);
                line.threshold x1=(percent(x)) x2=(percent(x)) y1=(percent(y - NAME)) y2=(percent(ABOVE + TALLEST)) {}
                (mark(x, y, "0", words))
            }
            (axis(from, to, ""))
        }
    }
}

/// What share of the bad rows each pair would catch, by the share of all rows that it would review. Some pairs are marked, with
/// their words.
pub(super) fn curve(pairs: &[ThresholdPair], marked: &[(&str, &ThresholdPair)]) -> Markup {
    let reviewed = |pair: &ThresholdPair| part(pair.all.review, pair.all.rows());
    let caught = |pair: &ThresholdPair| part(pair.bad.stopped(), pair.bad.rows());
    let widest = pairs.iter().map(reviewed).fold(0.01, f64::max);
    let x = |pair: &ThresholdPair| reviewed(pair) / widest;
    let y = |pair: &ThresholdPair| ABOVE + TALLEST * (1.0 - caught(pair));
    let label = "Share of the bad rows that are blocked or reviewed, by the share of all rows that are reviewed";
    html! {
        svg.chart.curve width="100%" role="img" aria-label=(label) {
            @for (caught, y) in steps(100) {
                line.grid x1="0" x2="100%" y1=(percent(y)) y2=(percent(y)) {}
                text.tick x="100%" y=(percent(y)) dy="-4" text-anchor="end" { (caught) "%" }
            }
            @for neighbours in pairs.windows(2) {
                @if let [from, to] = neighbours {
                    line.caught x1=(percent(x(from))) y1=(percent(y(from))) x2=(percent(x(to))) y2=(percent(y(to))) {}
                }
            }
            (axis(0.0, widest * 100.0, "%"))
            // The first words are below their point, the others above.
            @for ((why, pair), dy) in marked.iter().zip(["18", "-8"]) {
                circle.here cx=(percent(x(pair))) cy=(percent(y(pair))) r="5" {}
                (mark(x(pair), y(pair), dy, &format!("{why}: approve up to {}", pair.thresholds.approve_max())))
            }
        }
    }
}

/// Words beside a place, on the side with more room.
fn mark(x: f64, y: f64, dy: &str, words: &str) -> Markup {
    let is_right = x > 0.55;
    html! {
        text.mark x=(percent(x)) y=(percent(y)) dx=(if is_right { "-8" } else { "8" }) dy=(dy)
            text-anchor=(if is_right { "end" } else { "start" }) { (words) }
    }
}

/// The axis below a picture, with its numbers.
fn axis(from: f64, to: f64, unit: &str) -> Markup {
    let bottom = percent(ABOVE + TALLEST);
    html! {
        line.axis x1="0" x2="100%" y1=(bottom) y2=(bottom) {}
        @for tick in ticks(from, to, 11) {
            @let x = (tick - from) / (to - from);
            // At the ends, text must not hang over.
            @let anchor = if x < 0.03 { "start" } else if x > 0.97 { "end" } else { "middle" };
            text.tick x=(percent(x)) y=(bottom) dy="1.35em" text-anchor=(anchor) { (score(tick)) (unit) }
        }
    }
}

fn stacks(bars: &Bars, most: u64) -> Markup {
    let width = part(1, bars.counts.len() as u64);
    html! {
        @for (place, bar) in bars.counts.iter().enumerate() {
            @let mut top = ABOVE + TALLEST;
            @for (decision, class) in STACK {
                @let number = bar.of(decision);
                @if number > 0 {
                    @let height = (part(number, most) * TALLEST).max(LEAST);
                    @let () = top -= height;
                    rect class=(class) x=(percent(width * place_of(place))) width=(percent(width)) y=(percent(top)) height=(percent(height)) {}
                }
            }
        }
        // Bars are set apart by lines as wide as a hair, whatever the width of the page.
        @for place in 1..bars.counts.len() {
            @let x = percent(width * place_of(place));
            line.gap x1=(x) x2=(x) y1=(percent(ABOVE)) y2=(percent(ABOVE + TALLEST)) {}
        }
    }
}

const fn place_of(number: usize) -> f64 {
    number as f64
}

/// The numbers of the lines across, and how far down they are.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole numbers above zero, drawn in pixels"
)]
fn steps(most: u64) -> impl Iterator<Item = (u64, f64)> {
    let top = most as f64;
    let mut whole = ticks(0.0, top, 4);
    whole.retain(|tick| *tick >= 1.0 && tick.fract() == 0.0);
    let height = move |tick| (tick as u64, ABOVE + TALLEST * (1.0 - tick / top));
    whole.into_iter().map(height)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{RowTally, UserOutcome};
    use crate::verdict::Score;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(0.0, 10.0, 11).len(), 11);
        assert_eq!(
            ticks(0.0, 8.4, 11),
            [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
        );
        assert_eq!(
            ticks(-2.5, 2.5, 11),
            [-2.5, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5]
        );
        assert_eq!(ticks(0.0, 12_345.0, 4), [0.0, 5_000.0, 10_000.0]);
    }

    #[test]
    fn a_part_is_never_drawn_as_nothing() {
        let mut tally = RowTally::new(None);
        let mut count = |digits, decision| {
            let score = Score::from_json_number(digits).ok();
            tally.count(score.as_ref(), Some(decision), None, UserOutcome::Unknown);
        };
        for _ in 0..1_000 {
            count("0.5", Decision::Approve);
        }
        count("1.5", Decision::Block);
        let bars = tally.scores.bars(2, 0.5, 1.5);
        let drawn = histogram("x", &bars, &[(1.0, "half".to_owned())]).into_string();
        assert!(
            drawn.contains(
                r#"<rect class="block" x="50.000%" width="50.000%" y="89.500%" height="0.500%">"#
            ),
            "{drawn}"
        );
        assert!(drawn.contains(r#"aria-label="x""#));
    }

    #[test]
    fn scores_have_as_many_decimals_as_they_need() {
        for (number, text) in [
            (1.68, "1.68"),
            (2.0, "2"),
            (-0.0001, "0"),
            (-1.5, "\u{2212}1.5"),
            (10.0, "10"),
            (1.0 - 0.9, "0.1"),
        ] {
            assert_eq!(score(number), text);
        }
    }
}
