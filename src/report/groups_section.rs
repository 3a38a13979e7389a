//! Decisions by the values of a column that the user named.
//!
//! These values are the only ones of rows that get into a page: they are escaped, cut, and shown with their counts, so that
//! a share of three rows is not taken for a trend.

use maud::{Markup, html};

use super::chart::{legend, section, share_cells, shares};
use super::model::{ColumnGroups, PageContent};
use super::words::{count, rows};
use crate::base::text::column;
use crate::drift::DecisionCounts;

/// A share of fewer rows is shown paler: two more or less of 30 change it by 7 points.
const FEW: u64 = 30;

pub(super) fn sections(report: &PageContent) -> Markup {
    html! { @for (place, groups) in report.groups.iter().enumerate() { (of(report, groups, place)) } }
}

fn of(report: &PageContent, groups: &ColumnGroups, place: usize) -> Markup {
    let values = &groups.values;
    let has_none = report.tally.decisions.of(None) > 0;
    let is_few = |counts: &DecisionCounts| counts.rows() < FEW;
    let any_few = values.top.iter().any(|(_, counts)| is_few(counts));
    section(
        report.sandbox,
        IDS.get(place).copied().unwrap_or("by-more"),
        &format!("Decisions by {}", column(&groups.column)),
        &html! {
            @if values.other_values.is_none() {
                p.note { "The column has more than 10,000 different values: those that come first in the file are told apart, and all later ones are counted as other values." }
            }
            (legend(has_none))
            div.scroll tabindex="0" {
                table.groups {
                    thead {
                        tr {
                            th scope="col" { (column(&groups.column)) } th scope="col" { "Rows" }
                            th scope="col" { "approve" } th scope="col" { "review" } th scope="col" { "block" }
                            @if has_none { th scope="col" { "none" } }
                        }
                    }
                    tbody {
                        @for (text, counts) in &values.top {
                            (line(&value(text), counts, has_none, is_few(counts)))
                        }
                        @if values.other.rows() > 0 {
                            (line(&other(values.other_values), &values.other, has_none, is_few(&values.other)))
                        }
                    }
                }
            }
            @if any_few { p.note { "Shares of fewer than " (rows(FEW)) " are pale: a few rows more or less would change them a lot." } }
        },
    )
}

/// One for each section, as headings need names of their own.
const IDS: [&str; 8] = [
    "by-1", "by-2", "by-3", "by-4", "by-5", "by-6", "by-7", "by-8",
];

fn line(name: &Markup, counts: &DecisionCounts, has_none: bool, is_few: bool) -> Markup {
    html! {
        tr.few[is_few] {
            th scope="row" { (name) (shares(counts, 8)) }
            td { b { (count(counts.rows())) } }
            (share_cells(counts, has_none))
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
