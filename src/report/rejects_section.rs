//! Rows without a verdict, by reason.

use maud::{Markup, html};

use super::model::PageContent;
use super::section::Section;
use super::words::{count, rows, share};

pub(super) fn section(report: &PageContent) -> Option<Markup> {
    let (all, without) = (report.tally.rows(), report.tally.without_verdict());
    let failed = report.run.as_ref().map(|run| &run.failed);
    if without == 0 && failed.is_none_or(|failed| failed.rows == 0) {
        return None;
    }
    let place = Section {
        id: "rejects",
        title: "Rows without a verdict".to_owned(),
        sandbox: report.sandbox,
        is_wide: false,
    };
    Some(place.with(&html! {
        p { (rows(without)) " of " (count(all)) " (" (share(without, all)) ") " (if without == 1 { "has" } else { "have" }) " no verdict." }
        @match failed {
            Some(failed) => {
                table.numbers {
                    thead { tr { th scope="col" { "Reason" } th scope="col" { "Rows" } th scope="col" { "Of all" } } }
                    tbody {
                        @for (reason, number) in sorted(&failed.reasons) {
                            tr { th scope="row" { (reason) } td { (count(number)) } td { (share(number, all)) } }
                        }
                    }
                }
            }
            None => { p.note { "The reasons are in the rejects file of the run and in its summary: " code { "--run summary.json" } " shows them here." } }
        }
    }))
}

/// The most frequent reason first.
fn sorted(reasons: &std::collections::BTreeMap<String, u64>) -> Vec<(&str, u64)> {
    let mut sorted: Vec<_> = { reasons.iter() }
        .map(|(reason, number)| (reason.as_str(), *number))
        .collect();
    sorted.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    sorted
}
