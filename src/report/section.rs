//! What all sections of the page have in common.

use maud::{Markup, html};

/// A section of the page. Those of a rehearsal say that their scores are made up.
pub(super) struct Section {
    /// Its place in the page, for the heading.
    pub(super) id: &'static str,
    /// Its heading.
    pub(super) title: String,
    /// The stand-in made the scores up.
    pub(super) sandbox: bool,
    /// Whether it takes the whole width where others stand side by side.
    pub(super) is_wide: bool,
}

impl Section {
    /// The section with its content.
    pub(super) fn with(&self, content: &Markup) -> Markup {
        html! {
            section class=(format!("{} {}", if self.is_wide { "wide" } else { "half" }, self.id)) aria-labelledby=(self.id) {
                h2 #(self.id) { (self.title) @if self.sandbox { " " (badge()) } }
                (content)
            }
        }
    }
}

/// The mark in every section of a rehearsal.
pub(super) fn badge() -> Markup {
    html! { span.badge { "sandbox: made-up scores" } }
}

/// The numbers of a picture as a table that opens.
pub(super) fn numbers(summary: &str, table: &Markup) -> Markup {
    html! { details { summary { (summary) } div.scroll tabindex="0" { (table) } } }
}
