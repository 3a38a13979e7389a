//! The whole page: its head, its sections, and what no section says.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::chart::patterns;
use super::sections::{PageContent, sections};
use crate::base::text::printable;
use crate::observe::{ReportedRun, counted, in_words};

/// Nothing may be loaded, sent or run: the styles in the file are all that there is.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The styles: colours for both schemes, the layout from 380 pixels up, and paper.
const STYLE: &str = include_str!("style.css");

/// The page as HTML.
pub(crate) fn page(report: &PageContent) -> String {
    let file = printable(&report.file);
    let html = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                meta name="generator" content=(concat!("rescore ", env!("CARGO_PKG_VERSION")));
                title { "Risk verdicts for " (file) }
                // Ours, and without anything to escape.
                style { (PreEscaped(STYLE)) }
            }
            body {
                (patterns())
                (header(report, &file))
                main {
                    (sections(report))
                }
                footer {
                    "Made by rescore " (env!("CARGO_PKG_VERSION")) " on " (report.made) ". "
                    "This file loads nothing and sends nothing."
                    @if !report.groups.is_empty() { " The only user data in it are the values of the columns by which decisions are shown." }
                }
            }
        }
    };
    html.into_string()
}

fn header(report: &PageContent, file: &str) -> Markup {
    let run = report.run.as_ref();
    html! {
        header {
            @if report.sandbox {
                p.sandbox role="note" { b { "A rehearsal." } " The built-in stand-in made up all scores: nothing here is about real users." }
            }
            h1 { "Risk verdicts for " span.file { (file) } }
            @if let Some(part) = run.and_then(|run| run.part?.words()) {
                p.part role="note" {
                    b { "A part." } " The run took only " (part) " of its input"
                    @if run.and_then(ReportedRun::sample).is_none() { ": nothing here is about the others" }
                    "."
                }
            }
            p.meta {
                @match run.and_then(ReportedRun::answered) {
                    Some(answered) => { span { "answered " (printable(&answered)) } }
                    None => { span { "page made " (report.made) } }
                }
                @if let Some(known @ 1..) = run.map(|run| run.counts.known) { span { (counted(known, "row")) " answered before" } }
                @match &report.tally.what_if {
                    // Others, which the file does not name, have decided.
                    Some(what_if) if what_if.decided_otherwise() > 0 => {}
                    Some(what_if) => {
                        span {
                            (in_words(what_if.today())) ", block above"
                            @if report.thresholds.are_read { " (read from the rows)" }
                        }
                    }
                    None => { span { "decided by level" } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example;

    /// The text of a section, between its heading and the next one's.
    fn section<'a>(page: &'a str, id: &str) -> &'a str {
        let (_, rest) = page
            .split_once(&format!("aria-labelledby=\"{id}\""))
            .unwrap_or_default();
        rest.split("</section>").next().unwrap_or_default()
    }

    #[test]
    fn a_page_of_a_rehearsal_says_so_in_every_section() {
        let page = page(&example::everything());
        let sections: Vec<_> = page.split("<section").skip(1).collect();
        assert_eq!(sections.len(), 7);
        for section in sections {
            assert!(section.contains("sandbox: made-up scores"), "{section}");
        }
        assert!(page.contains("A rehearsal."));
        let mut real = example::everything();
        real.sandbox = false;
        let page = super::page(&real);
        assert!(!page.contains("made-up") && !page.contains("rehearsal"));
    }

    #[test]
    fn a_page_can_run_and_load_nothing() {
        let page = page(&example::everything());
        assert!(page.contains(&format!(
            r#"<meta http-equiv="Content-Security-Policy" content="{POLICY}">"#
        )));
        for never in [
            "<script", "<img", "<link", "<iframe", "<object", "src=", "href=", "http://",
            "https://", "@import", "onload", "<base", "<form",
        ] {
            assert!(!page.contains(never), "{never}");
        }
        // The styles name parts of the page itself and nothing else.
        let urls = page.matches("url(").count();
        assert_eq!(urls, page.matches("url(#fill-").count());
    }

    #[test]
    fn a_value_of_a_row_cannot_break_out_of_the_page() {
        let mut report = example::everything();
        report.file = example::HOSTILE.to_owned();
        report.groups[0].0 = example::HOSTILE.to_owned();
        let page = page(&report);
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
        assert!(!page.contains('\u{1b}') && !page.contains('\u{202e}'));
    }

    #[test]
    fn the_page_has_no_hash_and_no_command_line() {
        let page = page(&example::everything());
        for gone in ["BLAKE3", "--map", "--rate", "/home/jo", "invalid_ip</th>"] {
            assert!(!page.contains(gone), "{gone}");
        }
        assert!(
            page.contains("answered on 2026-11-22 from 14:58 to 14:59 UTC"),
            "{page}"
        );
    }

    #[test]
    fn the_page_has_the_numbers_of_the_summary_and_of_the_rows() {
        let page = page(&example::everything());
        let plain = |id| section(&page, id);
        let verdicts = plain("verdicts");
        assert!(
            verdicts.contains("Of 995 rows with a verdict, "),
            "{verdicts}"
        );
        assert!(verdicts.contains("5 rows have no verdict."), "{verdicts}");
        let rejects = plain("rejects");
        assert!(
            rejects.contains(
                "The IP address is not valid<small>invalid_ip</small></th><td>4</td><td>0.4%</td>"
            ),
            "{rejects}"
        );
        let run = plain("run");
        for fact in [
            "1,000 rows in 1 min 5 s, 15.3 rows/s",
            "<dt>calls, 4 of them retries</dt><dd>990</dd>",
            "<dt>would have been spent for 985 answers now; the 995 verdicts in this file would have cost 3.972 EUR</dt><dd>3.96 EUR</dd>",
        ] {
            assert!(run.contains(fact), "{fact} {run}");
        }
        let drift = plain("drift");
        assert!(drift.contains("Compared with last-month.csv: "), "{drift}");
        assert!(drift.contains("12 only in the earlier one"), "{drift}");
    }
}
