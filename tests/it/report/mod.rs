//! `rescore report` and `run --report`: the page, its numbers, what a browser makes of it, and what is refused.

mod in_a_browser;
mod of_a_file;
mod of_a_run;

/// The text of a page's part, one space between elements, with no-break spaces as spaces.
fn text(html: &str) -> String {
    let mut text = String::new();
    for part in html.split('<') {
        let shown = part.split_once('>').map_or(part, |(_, shown)| shown);
        text.push(' ');
        text.push_str(shown);
    }
    let text = text
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&amp;", "&");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The section with this heading's name, as HTML; fails if there is none.
#[track_caller]
fn section<'a>(page: &'a str, id: &str) -> &'a str {
    let start = format!("aria-labelledby=\"{id}\"");
    let (_, rest) = page
        .split_once(&start)
        .unwrap_or_else(|| panic!("there is no section `{id}` in {page}"));
    rest.split("</section>").next().unwrap()
}

/// Its text.
#[track_caller]
fn words(page: &str, id: &str) -> String {
    text(section(page, id))
}

/// Fails unless the text has all of these.
#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
}
