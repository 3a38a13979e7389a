//! The result: every number of a check, as programs get it. The reference documents every key. Keys may be added, but
//! existing ones never change. A value that is not known is null, never absent.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::base::error::Error;
use crate::base::money::{Currency, Money, Price, Tariff};
use crate::fields::Field;
use crate::input::{Input, ReaderSettings};
use crate::ledger::{KnownLimit, LedgerFacts};
use crate::pace::Rate;
use crate::raw_json::escape_unsafe;
use crate::row::RowNumber;
use crate::verdict::Reason;

/// How many of the first rows of a kind are named: enough to look at, few enough to read.
const NAMED: usize = 3;
/// What a run would do and cost.
#[derive(Default, Serialize)]
pub(super) struct CheckResult {
    pub(super) r#type: &'static str,
    pub(super) version: u8,
    pub(super) exit_code: u8,
    /// The inputs; there is at least one.
    pub(super) files: Vec<CheckedFile>,
    /// The rows of all of them.
    #[serde(flatten)]
    pub(super) total: CheckCounts,
    pub(super) duplicates: u64,
    pub(super) calls: u64,
    pub(super) cost: Option<CallCost>,
    pub(super) time: CallTime,
    pub(super) ledger: Option<CheckedLedger>,
    pub(super) ledger_answers_damaged: u64,
    pub(super) ledger_answers_too_old: u64,
    /// Where the rows are that cannot be sent.
    pub(super) rejects: Option<String>,
    /// Why the run would send nothing, by `--min-rows` or `--max-invalid`.
    #[serde(skip)]
    pub(super) sends_nothing: Option<Error>,
}

/// How many rows there are of a kind, and which are the first.
#[derive(Debug, Default, Serialize)]
pub(super) struct NamedRows {
    pub(super) rows: u64,
    /// The numbers of the first ones.
    pub(super) first: Vec<u64>,
    /// The options that would help, if they cannot be sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) options: Option<&'static [&'static str]>,
}

impl NamedRows {
    /// Counts one more row.
    pub(super) fn add(&mut self, row: RowNumber) {
        self.rows += 1;
        if self.first.len() < NAMED {
            self.first.push(row.get());
        }
    }
}

/// The rows of an input, or of all inputs.
#[derive(Debug, Default, Clone, Copy, Serialize)]
pub(super) struct CheckCounts {
    pub(super) rows: CheckedRows,
    /// Rows whose answer is paid for.
    pub(super) known: u64,
    /// Rows that have failed although their call was or may have been billed, and would not be sent again.
    pub(super) failed_before: u64,
}

/// How many rows there are, and how many of them can be sent.
#[derive(Debug, Default, Clone, Copy, Serialize)]
pub(super) struct CheckedRows {
    pub(super) read: u64,
    pub(super) sendable: u64,
    pub(super) unsendable: u64,
}

impl CheckCounts {
    /// Adds the rows of an input.
    pub(super) const fn add(&mut self, file: &Self) {
        self.rows.read += file.rows.read;
        self.rows.sendable += file.rows.sendable;
        self.rows.unsendable += file.rows.unsendable;
        self.known += file.known;
        self.failed_before += file.failed_before;
    }
}

/// An input, and what was counted in it.
#[derive(Debug, Default, Serialize)]
pub(super) struct CheckedFile {
    /// Its path; `None` is standard input.
    pub(super) input: Option<String>,
    /// Why it cannot be used, or not to its end.
    pub(super) error: Option<String>,
    /// Its output is there: a run skips it, and it was not read.
    pub(super) finished: bool,
    /// Which column is which field, as one line.
    pub(super) mapping: String,
    #[serde(flatten)]
    pub(super) counts: CheckCounts,
    /// Rows that cannot be sent.
    pub(super) unsendable: BTreeMap<Reason, NamedRows>,
    /// The reason for which a run would refuse the file: its first rows all fail for it.
    pub(super) run_refuses: Option<Reason>,
    /// Rows with values of unusual lengths.
    #[serde(serialize_with = "by_name")]
    pub(super) unusual_lengths: BTreeMap<Field, NamedRows>,
    /// Its name for people.
    #[serde(skip)]
    pub(super) name: String,
    /// Which of its rows a run would take, in words, if not all.
    #[serde(skip)]
    pub(super) part: Option<String>,
    /// Bytes behind the compressed data are ignored.
    #[serde(skip)]
    pub(super) ignores_bytes: bool,
}

impl CheckedFile {
    /// An input that was not read yet.
    pub(super) fn of(settings: &ReaderSettings) -> Self {
        let input = &settings.file.input;
        Self {
            name: input.shown(),
            input: match input {
                Input::File(path) => Some(path.to_string_lossy().into_owned()),
                Input::Stdin => None,
            },
            part: settings.selection.words(),
            ..Self::default()
        }
    }
}

fn by_name<S: Serializer>(
    rows: &BTreeMap<Field, NamedRows>,
    to: S,
) -> std::result::Result<S::Ok, S::Error> {
    to.collect_map(rows.iter().map(|(field, rows)| (field.to_string(), rows)))
}

/// What the calls cost.
#[derive(Serialize)]
pub(super) struct CallCost {
    price: Price,
    currency: Option<Currency>,
    expected: Money,
    #[serde(skip)]
    pub(super) tariff: Tariff,
}

/// The ledger whose answers were looked up.
#[derive(Serialize)]
pub(super) struct CheckedLedger {
    pub(super) path: String,
    /// Whose answers they are; `None` if it has none of the account.
    pub(super) endpoint: Option<String>,
    /// What a run would learn of it; `None` if there is none yet.
    #[serde(skip)]
    pub(super) facts: Option<LedgerFacts>,
}

/// How long the calls take at a rate that is given, or that an earlier run found. Nobody knows it otherwise.
#[derive(Serialize, Default)]
pub(super) struct CallTime {
    pub(super) calls_per_second: Option<f64>,
    pub(super) from: Option<&'static str>,
    pub(super) seconds: Option<f64>,
}

impl CheckResult {
    /// The object for programs, on one line.
    pub(super) fn json(&self) -> String {
        // It fails only on map keys that are not strings, and there are none.
        escape_unsafe(&serde_json::to_string(self).unwrap_or_default())
    }
}

impl CallCost {
    pub(super) fn new(tariff: Tariff, calls: u64) -> Self {
        Self {
            price: tariff.price,
            currency: tariff.currency.clone(),
            expected: tariff.price.of(calls),
            tariff,
        }
    }
}

impl CallTime {
    /// The time of so many calls at this rate, if the ledger knows this limit.
    pub(super) fn new(calls: u64, rate: Rate, known: Option<&KnownLimit>) -> Self {
        let found = known.and_then(|known| Some((known.limit.rate?, "ledger")));
        let (asked, found) = match rate {
            Rate::PerSecond(rate) => (Some((rate, "rate")), found),
            Rate::Auto => (None, found),
            Rate::Share(share) => (None, found.map(|(rate, from)| (rate * share, from))),
            Rate::Unlimited => (None, None),
        };
        let slower = asked.into_iter().chain(found);
        let slower = slower.min_by(|(a, _), (b, _)| a.total_cmp(b));
        #[allow(clippy::cast_precision_loss, reason = "an estimate")]
        let seconds = slower.map(|(rate, _)| (calls as f64 / rate * 1_000.0).round() / 1_000.0);
        Self {
            calls_per_second: slower.map(|(rate, _)| rate),
            from: slower.map(|(_, from)| from),
            seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::telemetry::pace::Limit;

    const fn known(rate: f64) -> KnownLimit {
        KnownLimit {
            limit: Limit {
                rate: Some(rate),
                in_flight: None,
            },
            found: SystemTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn the_slower_of_the_option_and_the_found_limit_counts() {
        let limit = known(50.0);
        for (rate, limit, expected) in [
            (Rate::PerSecond(10.0), None, Some((100.0, "rate"))),
            (Rate::PerSecond(10.0), Some(&limit), Some((100.0, "rate"))),
            (Rate::PerSecond(100.0), Some(&limit), Some((20.0, "ledger"))),
            (Rate::Auto, Some(&limit), Some((20.0, "ledger"))),
            (Rate::Share(0.5), Some(&limit), Some((40.0, "ledger"))),
            (Rate::Auto, None, None),
            (Rate::Unlimited, Some(&limit), None),
        ] {
            let time = CallTime::new(1_000, rate, limit);
            assert_eq!(time.seconds.zip(time.from), expected, "{rate:?}");
        }
    }
}
