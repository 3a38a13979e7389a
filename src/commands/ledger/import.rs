//! `rescore ledger import`: bringing the answers of a ledger in a file to one on a server.

use std::fmt::Write as _;

use crate::base::error::{Result, shown};
use crate::ledger::{self, ImportCounts, ImportSettings};
use crate::observe::{count, counted};

/// Brings all answers in; the result as text.
pub(super) fn import(settings: &ImportSettings) -> Result<String> {
    let ImportCounts {
        new,
        known,
        of_rows,
        damaged,
    } = ledger::import(settings)?;
    let mut text = format!(
        "{}: brought in {} from {}",
        settings.server.url,
        counted(new, "answer"),
        shown(&settings.file)
    );
    for (number, what) in [
        (known, "were there already, or newer ones"),
        (
            of_rows,
            "belong to rows of one input (`--no-dedupe`) and stay in the file",
        ),
        (damaged, "are damaged and stay in the file"),
    ] {
        if number > 0 {
            let _ = write!(text, "\n{} {what}", count(number));
        }
    }
    Ok(text)
}
