//! `rescore ledger stats`: what is in a ledger.

use std::fmt::Write as _;
use std::path::Path;

use crate::base::error::{Result, printable, shown};
use crate::ledger::{AGES, EndpointStats, KnownLimit, read_stats};
use crate::observe::{count, counted, moment, most};

/// What is in a ledger, as text.
pub(super) fn stats(ledger: &Path) -> Result<String> {
    let stats = read_stats(ledger)?;
    let mut text = format!(
        "{}: ledger version {}, created {}\n{}, {}",
        shown(ledger),
        stats.version,
        moment(stats.created),
        counted(stats.answers, "answer"),
        counted(stats.bytes, "byte"),
    );
    if let Some(each) = stats.bytes.checked_div(stats.answers) {
        let _ = write!(text, ", {} per answer", count(each));
    }
    for endpoint in &stats.endpoints {
        text.push_str(&about(endpoint));
    }
    Ok(text)
}

fn about(stats: &EndpointStats) -> String {
    let EndpointStats {
        endpoint,
        ids,
        answers,
        span,
        younger,
        limits,
    } = stats;
    let mut text = format!(
        "\n\n{}\n  {}",
        printable(endpoint),
        counted(*answers, "answer")
    );
    if *ids > 1 {
        let _ = write!(text, " for {ids} service IDs");
    }
    if let Some((first, last)) = span {
        let _ = write!(text, ", from {} to {}", moment(*first), moment(*last));
        let ages: Vec<_> = AGES
            .iter()
            .zip(younger)
            .map(|(days, younger)| format!("{days} d: {}", count(*younger)))
            .collect();
        let _ = write!(text, "\n  younger than {}", ages.join(", "));
    }
    for KnownLimit { limit, found } in limits {
        let _ = write!(text, "\n  limit found {}: {}", moment(*found), most(*limit));
    }
    text
}
