//! The whole page: its head, its sections, and what no section says.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;

use super::chart::patterns;
use super::sections::{PageContent, sections};
use crate::base::text::printable;

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
                    ul { @for fact in provenance(report) { li { (printable(&fact)) } } }
                }
            }
        }
    };
    html.into_string()
}

fn header(report: &PageContent, file: &str) -> Markup {
    html! {
        header {
            @if report.sandbox {
                p.sandbox role="note" { b { "A rehearsal." } " The built-in stand-in made up all scores: nothing here is about real users." }
            }
            h1 { "Risk verdicts for " span.file { (file) } }
            @if let Some(part) = report.run.as_ref().and_then(|run| run.part?.words()) {
                p.part role="note" { b { "A part." } " The run took only " (part) " of its input: nothing here is about the others." }
            }
            p.meta {
                span { (report.made) }
                span { "rescore " (env!("CARGO_PKG_VERSION")) }
                @match &report.tally.thresholds {
                    // Others, which the file does not name, have decided.
                    Some(_) if report.tally.decided_otherwise > 0 => {}
                    Some(today) => {
                        span { "approve up to " (today.approve_max()) ", review up to " (today.review_max()) ", block above" }
                    }
                    None => { span { "decided by level" } }
                }
            }
        }
    }
}

/// What exactly the page is about: hashes of files, and the program and the options of the run.
fn provenance(report: &PageContent) -> Vec<String> {
    let run = report.run.as_ref();
    let hashes = run.and_then(|run| run.blake3.clone()).unwrap_or_default();
    let hashes = [
        (report.file.as_str(), &report.hash),
        ("the run's input", &hashes.input),
        ("its output", &hashes.output),
        ("its rejects", &hashes.rejects),
        ("its changes", &hashes.changes),
    ];
    let hashes = hashes
        .into_iter()
        .filter_map(|(of, hash)| Some(format!("BLAKE3 of {of}: {}", hash.as_ref()?)));
    let options = run
        .and_then(|run| run.options.as_ref())
        .into_iter()
        .flatten();
    let options = options.flat_map(|(name, value)| {
        let values = match value {
            Value::Array(all) => all.iter().collect(),
            one => vec![one],
        };
        values.into_iter().map(move |value| match value.as_str() {
            // Without its directory, which has no place in a page that is passed on.
            Some(path) if path.starts_with('/') => {
                format!(
                    " --{name} …/{}",
                    path.rsplit('/').next().unwrap_or_default()
                )
            }
            Some(text) => format!(" --{name} {text}"),
            None => format!(" --{name}"),
        })
    });
    let version = run.and_then(|run| run.rescore_version.as_ref());
    let program =
        version.map(|version| format!("Run by rescore {version}{}", options.collect::<String>()));
    hashes.chain(program).collect()
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
    fn the_foot_says_what_exactly_ran_and_names_no_directory() {
        let page = page(&example::everything());
        let foot = page.rsplit("<footer>").next().unwrap_or_default();
        let hash = format!("<li>BLAKE3 of scored.csv: {}</li>", "ab".repeat(32));
        let run =
            "<li>Run by rescore 0.0.9 --map ip=&lt;b&gt; --output …/scored.csv --rate 5/s</li>";
        for fact in [&hash, "<li>BLAKE3 of the run's input: cd</li>", run] {
            assert!(foot.contains(fact), "{fact} {foot}");
        }
    }

    #[test]
    fn the_page_has_the_numbers_of_the_summary_and_of_the_rows() {
        let page = page(&example::everything());
        let plain = |id| section(&page, id);
        let verdicts = plain("verdicts");
        assert!(verdicts.contains("Of 1,000 rows, "), "{verdicts}");
        assert!(verdicts.contains("5 rows have no verdict."), "{verdicts}");
        let rejects = plain("rejects");
        assert!(
            rejects.contains("<th scope=\"row\">invalid_ip</th><td>4</td><td>0.4%</td>"),
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
