//! What a reader sees first, the verdicts in one sentence and three numbers, and why rows have none.

use maud::{Markup, html};

use super::chart::{STACK, section, shares, swatch};
use super::model::PageContent;
use super::run::RunFacts;
use super::words::{count, done, has, rows, share};
use crate::analysis::RowTally;
use crate::verdict::Decision;

pub(super) fn verdicts(report: &PageContent) -> Markup {
    let tally = &report.tally;
    let all = tally.rows();
    section(
        report.sandbox,
        "verdicts",
        "Verdicts",
        &html! {
            p.headline { (sentence(tally)) }
            @if all > 0 {
                dl.tiles {
                    @for (decision, class) in STACK {
                        @if let Some(decision) = decision {
                            div {
                                dt { (swatch(class)) (done(decision)) }
                                dd { b { (count(tally.decisions.of(Some(decision)))) } span { (share(tally.decisions.of(Some(decision)), all)) } }
                            }
                        }
                    }
                }
                (shares(&tally.decisions, 18))
            }
            @if report.redecided {
                p.note { "The decisions in the file are not those of the run: they were made again since." }
            }
            @if tally.undecided > 0 {
                p.note { (rows(tally.undecided)) " " (has(tally.undecided)) " a score and no decision." }
            }
        },
    )
}

/// Rows without a verdict, by reason.
pub(super) fn rejects(report: &PageContent) -> Option<Markup> {
    let (all, without) = (report.tally.rows(), report.tally.without_verdict());
    let failed = report.run.as_ref().map(RunFacts::failed);
    if without == 0 && failed.as_ref().is_none_or(Vec::is_empty) {
        return None;
    }
    Some(section(
        report.sandbox,
        "rejects",
        "Rows without a verdict",
        &html! {
            p { (rows(without)) " of " (count(all)) " (" (share(without, all)) ") " (has(without)) " no verdict." }
            @match failed {
                Some(failed) => {
                    table.numbers {
                        thead { tr { th scope="col" { "Reason" } th scope="col" { "Rows" } th scope="col" { "Of all" } } }
                        tbody {
                            @for (reason, number) in failed {
                                tr { th scope="row" { (reason) } td { (count(number)) } td { (share(number, all)) } }
                            }
                        }
                    }
                }
                None => { p.note { "The reasons are in the rejects file of the run and in its summary: " code { "--run summary.json" } " shows them here." } }
            }
        },
    ))
}

/// The verdicts in one sentence.
fn sentence(tally: &RowTally) -> String {
    let all = tally.rows();
    if all == 0 {
        return "The file has no rows.".to_owned();
    }
    let part = |decision| share(tally.decisions.of(Some(decision)), all);
    let without = tally.without_verdict();
    let rest = match without {
        0 => "every row has a verdict".to_owned(),
        without => format!("{} {} no verdict", rows(without), has(without)),
    };
    format!(
        "Of {}, {} are approved, {} need a review and {} are blocked; {rest}.",
        rows(all),
        part(Decision::Approve),
        part(Decision::Review),
        part(Decision::Block),
    )
}
