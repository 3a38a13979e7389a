//! `rescore ledger stats`: what is in a ledger.

use std::fmt::Write as _;

use crate::base::error::{Result, printable};
use crate::ledger::{KnownLimit, LEDGER_VERSION, LedgerAdmin, LedgerLocation, StoredAccount};
use crate::observe::{count, counted, moment, most};

/// What is in a ledger, as text.
pub(super) fn stats(ledger: &LedgerLocation) -> Result<String> {
    let stats = LedgerAdmin::look(ledger)?.stats()?;
    let mut text = format!(
        "{}: ledger version {}, created {}\n{}, {}",
        ledger.shown(),
        LEDGER_VERSION,
        moment(stats.created),
        counted(stats.answers, "answer"),
        counted(stats.bytes, "byte"),
    );
    if let Some(each) = stats.bytes.checked_div(stats.answers) {
        let _ = write!(text, ", {} per answer", count(each));
    }
    for account in &stats.accounts {
        text.push_str(&about(account));
    }
    Ok(text)
}

fn about(stats: &StoredAccount) -> String {
    let mut text = format!(
        "\n\n{}\n  {}",
        printable(&stats.address),
        counted(stats.answers, "answer")
    );
    if let Some((first, last)) = stats.span {
        let _ = write!(text, ", from {} to {}", moment(first), moment(last));
    }
    if let Some(KnownLimit { limit, found }) = stats.limit {
        let _ = write!(text, "\n  limit found {}: {}", moment(found), most(limit));
    }
    text
}
