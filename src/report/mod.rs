//! Makes a page of numbers: one HTML file for the people who decide, which opens anywhere.
//!
//! [`page()`] makes it of a [`PageContent`]. The file has no script and loads nothing: pictures are inline SVG, and a policy in
//! the file forbids everything else. Nothing here knows where the numbers come from, and no value of a row gets into the
//! page but those of the columns that the user named.

mod chart;
mod page;
mod sections;

#[cfg(test)]
mod example;

pub(crate) use page::page;
pub(crate) use sections::{Comparison, PageContent, ShownThresholds};
