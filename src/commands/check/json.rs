//! The result for programs.
//!
//! The reference documents every key. Keys may be added, but existing ones never change. A value that is not known is null,
//! never absent.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::counts::{CheckedRows, NamedRows};
use super::estimate::{RateSource, TimeEstimate};
use super::outlook::{FileOutlook, Outlook};
use super::remedies::remedy_for;
use crate::base::error::shown;
use crate::base::money::{Currency, Money, Price};
use crate::raw_json::escape_unsafe;
use crate::verdict::Reason;

#[derive(Debug, Serialize)]
struct CheckJson<'a> {
    r#type: &'static str,
    version: u8,
    exit_code: u8,
    files: Vec<CheckedFileJson<'a>>,
    rows: CountedRowsJson,
    known: u64,
    failed_before: u64,
    duplicates: u64,
    calls: u64,
    cost: Option<CallCostJson<'a>>,
    time: TimeJson,
    ledger: Option<LookedUpLedgerJson<'a>>,
    ledger_answers_damaged: u64,
    ledger_answers_too_old: u64,
    rejects: Option<Cow<'a, str>>,
}

#[derive(Debug, Serialize)]
struct CheckedFileJson<'a> {
    input: Option<Cow<'a, str>>,
    error: Option<&'a str>,
    finished: bool,
    mapping: &'a str,
    rows: CountedRowsJson,
    unsendable: BTreeMap<Reason, UnsendableJson<'a>>,
    run_refuses: Option<Reason>,
    known: u64,
    failed_before: u64,
    unusual_lengths: BTreeMap<String, TallyJson<'a>>,
}

#[derive(Debug, Serialize)]
struct CountedRowsJson {
    read: u64,
    sendable: u64,
    unsendable: u64,
}

#[derive(Debug, Serialize)]
struct UnsendableJson<'a> {
    rows: u64,
    first: &'a [u64],
    options: &'static [&'static str],
}

#[derive(Debug, Serialize)]
struct TallyJson<'a> {
    rows: u64,
    first: &'a [u64],
}

#[derive(Debug, Serialize)]
struct CallCostJson<'a> {
    price: Price,
    currency: Option<&'a Currency>,
    expected: Money,
}

#[derive(Debug, Serialize)]
struct TimeJson {
    calls_per_second: Option<f64>,
    from: Option<&'static str>,
    seconds: Option<f64>,
    seconds_at_least: Option<f64>,
    seconds_at_most: Option<f64>,
}

#[derive(Debug, Serialize)]
struct LookedUpLedgerJson<'a> {
    path: Cow<'a, str>,
    endpoint: Option<&'a str>,
}

impl Outlook {
    /// The object for programs, on one line.
    pub(super) fn json(&self) -> String {
        // It fails only on map keys that are not strings, and there are none.
        let line = serde_json::to_string(&CheckJson::new(self)).unwrap_or_default();
        escape_unsafe(&line)
    }
}

impl<'a> CheckJson<'a> {
    fn new(outlook: &'a Outlook) -> Self {
        Self {
            r#type: "check",
            version: 1,
            exit_code: outlook.exit().code(),
            files: outlook.files.iter().map(CheckedFileJson::new).collect(),
            rows: CountedRowsJson {
                read: outlook.total(|rows| rows.read),
                sendable: outlook.total(CheckedRows::sendable),
                unsendable: outlook.total(CheckedRows::rejected),
            },
            known: outlook.total(|rows| rows.known),
            failed_before: outlook.total(|rows| rows.failed_before),
            duplicates: outlook.duplicates(),
            calls: outlook.calls,
            cost: outlook.tariff.as_ref().map(|tariff| CallCostJson {
                price: tariff.price,
                currency: tariff.currency.as_ref(),
                expected: tariff.price.of(outlook.calls),
            }),
            time: TimeJson::new(outlook.time),
            ledger: outlook.ledger.as_ref().map(|ledger| LookedUpLedgerJson {
                path: shown(&ledger.ledger).into(),
                endpoint: ledger.endpoint.as_deref(),
            }),
            ledger_answers_damaged: outlook.total(|rows| rows.damaged),
            ledger_answers_too_old: outlook.total(|rows| rows.too_old),
            rejects: outlook.rejects().map(Path::to_string_lossy),
        }
    }
}

impl<'a> CheckedFileJson<'a> {
    fn new(file: &'a FileOutlook) -> Self {
        let rows = &file.rows;
        let unsendable = rows.unsendable.iter().map(|(reason, tally)| {
            let remedy = remedy_for(*reason, file.remedies);
            let json = UnsendableJson {
                rows: tally.rows,
                first: &tally.first,
                options: remedy.map_or(&[], |remedy| remedy.options),
            };
            (*reason, json)
        });
        let unusual = rows.unusual.iter().map(|(field, tally)| {
            let NamedRows { rows, first } = tally;
            (field.to_string(), TallyJson { rows: *rows, first })
        });
        Self {
            input: file.path.as_deref().map(Path::to_string_lossy),
            error: file.error.as_deref(),
            finished: file.finished,
            mapping: &file.mapping,
            rows: CountedRowsJson {
                read: rows.read,
                sendable: rows.sendable(),
                unsendable: rows.rejected(),
            },
            unsendable: unsendable.collect(),
            run_refuses: rows.refused,
            known: rows.known,
            failed_before: rows.failed_before,
            unusual_lengths: unusual.collect(),
        }
    }
}

impl TimeJson {
    fn new(estimate: TimeEstimate) -> Self {
        let seconds = |time: Duration| (time.as_secs_f64() * 1000.0).round() / 1000.0;
        match estimate {
            TimeEstimate::AtRate { rate, time, from } => Self {
                calls_per_second: Some(rate),
                from: Some(match from {
                    RateSource::Option => "rate",
                    RateSource::Ledger(_) => "ledger",
                }),
                seconds: Some(seconds(time)),
                seconds_at_least: None,
                seconds_at_most: None,
            },
            TimeEstimate::Between { least, most, .. } => Self {
                calls_per_second: None,
                from: None,
                seconds: None,
                seconds_at_least: Some(seconds(least)),
                seconds_at_most: Some(seconds(most)),
            },
        }
    }
}
