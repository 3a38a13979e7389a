//! The JSON about a run: which run it is, and when it is over, its counts and its files in one object. A report reads that object
//! again. The text for people is in `summary_text`.
//!
//! The reference documents every key. An unknown value is null, never absent.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

use super::numbers::{one_line, path, some_path, utc_seconds};
use super::sample::{sample_json, sample_size};
use crate::analysis::SampleSize;
use crate::base::error::{Error, Exit};
use crate::base::meter::FileHashes;
use crate::base::money::{Money, Tariff};
use crate::base::numbers::Tolerance;
use crate::base::stderr::say;
use crate::base::text::quoted;
use crate::raw_json::Pointer;
use crate::selection::Selection;
use crate::telemetry::counts::{Counts, RowCounts};
use crate::telemetry::event::CancelReason;
use crate::verdict::{Decision, DecisionPolicy};

/// The version of this JSON. Within one version, keys are only added.
const VERSION: u8 = 1;

/// Which run it is, and how it decides.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RunIdentity {
    /// Of the object's keys.
    pub(crate) version: u8,
    /// Of the program.
    pub(crate) rescore_version: &'static str,
    /// The output's name, which is the same every night.
    pub(crate) job: String,
    /// The profile of the settings file.
    pub(crate) profile: Option<String>,
    /// When the command started.
    #[serde(serialize_with = "in_utc")]
    pub(crate) start_time: SystemTime,
    /// The stand-in answers, not the service.
    pub(crate) sandbox: bool,
    /// The service's address, if it is known.
    pub(crate) endpoint: Option<String>,
    /// Which column is which field, in words, if it is the same in all inputs.
    pub(crate) mapping: Option<String>,
    /// The rule for decisions.
    #[serde(flatten)]
    pub(crate) rule: DecisionRule,
    /// The counts of the first pass over the inputs; null for a stream.
    pub(crate) expected: Option<Expected>,
    /// The price of calls, if the user gave it.
    #[serde(skip)]
    pub(crate) tariff: Option<Tariff>,
    /// The options that were given, without secrets; null if they are not known.
    #[serde(skip)]
    pub(crate) options: Value,
}

/// The rows of a run by what they need, counted before its first call.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Expected {
    /// All rows.
    pub(crate) rows: u64,
    /// Rows whose answer is in the ledger.
    pub(crate) known: u64,
    /// Rows that cannot be sent.
    pub(crate) unsendable: u64,
    /// Calls without retries.
    pub(crate) calls: u64,
    /// There may be fewer calls: the rows were too many to find all that repeat one.
    pub(crate) calls_at_most: bool,
    /// The cost of the calls, if the user gave the price of one.
    pub(crate) cost: Option<Money>,
    /// The different requests of a sample, whether they are paid for or not.
    pub(crate) sampled_requests: Option<u64>,
    /// The calls for all rows, where the sample may grow up to these.
    pub(crate) calls_of_all: Option<u64>,
}

/// How decisions are made, for programs: by thresholds with all their digits, or by levels and their place in an answer; both
/// are null if it is not known.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct DecisionRule {
    thresholds: Value,
    levels: Value,
}

impl RunIdentity {
    /// A run of this job that starts now; nothing else is known of it.
    pub(crate) fn new(job: String) -> Self {
        Self {
            version: VERSION,
            rescore_version: env!("CARGO_PKG_VERSION"),
            job,
            profile: None,
            start_time: SystemTime::now(),
            sandbox: false,
            endpoint: None,
            mapping: None,
            rule: DecisionRule::default(),
            expected: None,
            tariff: None,
            options: Value::Null,
        }
    }
}

fn in_utc<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&utc_seconds(*time))
}

impl DecisionRule {
    /// The rule of this policy; `captured` are the fields of answers that it may use.
    pub(crate) fn of(policy: &DecisionPolicy, captured: &[Pointer]) -> Self {
        match policy {
            DecisionPolicy::Score(thresholds) => Self {
                thresholds: json!({
                    "approve_max": thresholds.approve_max().text(),
                    "review_max": thresholds.review_max().text(),
                }),
                levels: Value::Null,
            },
            DecisionPolicy::Level { levels, field } => Self {
                thresholds: Value::Null,
                levels: json!({
                    "place": captured.get(*field).map(ToString::to_string),
                    "approve": levels.listed(Decision::Approve).collect::<Vec<_>>(),
                    "review": levels.listed(Decision::Review).collect::<Vec<_>>(),
                    "block": levels.listed(Decision::Block).collect::<Vec<_>>(),
                }),
            },
        }
    }

    /// Where in an answer the level is, if levels decide.
    pub(super) fn level_place(&self) -> Option<&str> {
        self.levels.get("place")?.as_str()
    }
}

/// A run that is over.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "summary")]
pub(crate) struct RunSummary<'a> {
    /// Which run it was.
    #[serde(flatten)]
    pub(crate) identity: &'a RunIdentity,
    /// When it ended, in UTC.
    pub(crate) end_time: String,
    /// How the process exits.
    pub(crate) exit_code: u8,
    /// Whether it exits as after a success although rows have failed.
    pub(crate) failures_accepted: bool,
    /// The error that ended it early, if there is one. Details and hints are left out: they may quote the input.
    pub(crate) error: Option<Value>,
    /// The input.
    pub(crate) input: SizedFile,
    /// The rows that the run took, if it left others out.
    pub(crate) part: Option<Selection>,
    /// What the sample that it took says about all rows.
    pub(crate) sample: Option<Value>,
    /// What was counted.
    #[serde(flatten)]
    pub(crate) counts: Counts,
    /// The output, or its partial file after an early stop; of several files the directory; `None` for standard output.
    pub(crate) output: Option<SizedFile>,
    /// The rejects, if there are any.
    pub(crate) rejects: Option<SizedFile>,
    /// The rows whose decision changed, if the run was asked for them.
    pub(crate) changes: Option<SizedFile>,
    /// The hashes of these files; of several files each has its own.
    pub(crate) blake3: FileHashes,
    /// The options that were given.
    pub(crate) options: &'a Value,
    /// The state of the ledger.
    pub(crate) ledger: LedgerLeft,
    /// The result of each of several files; `None` for a run of one file.
    pub(crate) files: Option<&'a [FileSummary]>,
    /// How many failed rows are accepted.
    #[serde(skip)]
    pub(crate) accepted: Option<Tolerance>,
    /// Calls that the stand-in billed.
    #[serde(skip)]
    pub(crate) sandbox_billed: Option<u64>,
    /// The output was removed or moved during the run.
    #[serde(skip)]
    pub(crate) output_is_gone: bool,
}

impl<'a> RunSummary<'a> {
    /// The summary of a run that ends now, without its files.
    pub(crate) fn new(identity: &'a RunIdentity, counts: Counts, exit: Exit) -> Self {
        Self {
            identity,
            end_time: utc_seconds(SystemTime::now()),
            exit_code: exit.code(),
            failures_accepted: exit == Exit::Complete && counts.exit() != Exit::Complete,
            error: None,
            input: SizedFile::default(),
            part: None,
            sample: None,
            counts,
            output: None,
            rejects: None,
            changes: None,
            blake3: FileHashes::default(),
            options: &identity.options,
            ledger: LedgerLeft::Nothing,
            files: None,
            accepted: None,
            sandbox_billed: None,
            output_is_gone: false,
        }
    }

    /// The size of the sample that it took, if it took one.
    pub(super) fn sample_size(&self) -> Option<SampleSize> {
        let requests = self.identity.expected.as_ref()?.sampled_requests;
        sample_size(self.part, requests, &self.counts)
    }

    /// The summary with what its sample says about all rows.
    pub(crate) fn with_sample(mut self) -> Self {
        let tariff = self.counts.cost.as_ref().map(|cost| &cost.tariff);
        let object = |size| sample_json(&size, &self.counts.decisions, tariff);
        self.sample = self.sample_size().map(object);
        self
    }

    /// Says the object for programs.
    pub(crate) fn say_line(&self) {
        say(&one_line(self));
    }
}

/// A run as a report reads it in the summary. The run's own report is made from its summary too, so that both say the same.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ReportedRun {
    /// The stand-in answered.
    pub(crate) sandbox: bool,
    /// The levels that have decided, in place of thresholds.
    pub(crate) levels: Option<IgnoredAny>,
    /// The rows that the run took, if not all.
    pub(crate) part: Option<Selection>,
    /// What was counted before its first call.
    expected: Option<ReportedCount>,
    /// When it started, in UTC.
    pub(crate) start_time: Option<String>,
    /// When it ended.
    pub(crate) end_time: Option<String>,
    /// Which column is which field, in words.
    pub(crate) mapping: Option<String>,
    /// What was counted.
    #[serde(flatten)]
    pub(crate) counts: Counts,
}

/// What a report reads of the first count.
#[derive(Debug, Clone, Deserialize)]
struct ReportedCount {
    sampled_requests: Option<u64>,
}

impl ReportedRun {
    /// The size of the sample that it took, if it took one.
    pub(crate) fn sample(&self) -> Option<SampleSize> {
        let requests = self.expected.as_ref()?.sampled_requests;
        sample_size(self.part, requests, &self.counts)
    }

    /// What a call cost, if that is known.
    pub(crate) fn tariff(&self) -> Option<&Tariff> {
        Some(&self.counts.cost.as_ref()?.tariff)
    }

    /// When its answers came: `from 2026-11-22 18:20 to 18:25 UTC`.
    pub(crate) fn answered(&self) -> Option<String> {
        let (start, end) = (self.start_time.as_deref()?, self.end_time.as_deref()?);
        let (from, at) = start.get(..16)?.split_once('T')?;
        let (to, until) = end.get(..16)?.split_once('T')?;
        Some(match (from == to, at == until) {
            (true, true) => format!("on {from} at {at} UTC"),
            (true, false) => format!("on {from} from {at} to {until} UTC"),
            _ => format!("from {from} {at} to {to} {until} UTC"),
        })
    }

    /// Reads a summary.
    ///
    /// # Errors
    /// Why it is not one.
    pub(crate) fn parse(json: &str) -> Result<Self, String> {
        let summary: Value =
            serde_json::from_str(json).map_err(|_| "it is not a JSON object".to_owned())?;
        match summary.get("type").and_then(Value::as_str) {
            Some("summary") => {}
            Some(other) => return Err(format!("its type is {}", quoted(other))),
            None => return Err("it has no type".to_owned()),
        }
        let version = summary.get("version").and_then(Value::as_u64);
        let version = version.unwrap_or_default();
        if version != u64::from(VERSION) {
            return Err(format!("it has version {version} and not {VERSION}"));
        }
        let run: Self = serde_json::from_value(summary).map_err(|error| error.to_string())?;
        match run.counts.cancelled {
            Some(CancelReason::NotStarted) => Err("its run could not start".to_owned()),
            _ => Ok(run),
        }
    }
}

/// An error that ends a run, for programs.
pub(crate) fn ended_by(error: &Error) -> Value {
    json!({"message": error.message(), "causes": error.causes()})
}

/// A file that a run has read or written.
#[derive(Debug, Default, Serialize)]
pub(crate) struct SizedFile {
    /// Its name; `None` for standard input.
    #[serde(serialize_with = "some_path")]
    pub(crate) path: Option<PathBuf>,
    /// Its size, or the bytes that were read of standard input; `None` if it is not a regular file.
    pub(crate) bytes: Option<u64>,
}

impl SizedFile {
    /// The file at this path, unless it was removed or moved during the run, perhaps with its directory.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        path.symlink_metadata().ok()?;
        let there = fs::metadata(path).ok().filter(fs::Metadata::is_file);
        Some(Self {
            path: Some(path.to_owned()),
            bytes: there.map(|there| there.len()),
        })
    }
}

/// The state of a ledger at the end of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LedgerLeft {
    /// There was none.
    Nothing,
    /// It was removed or moved during the run.
    Gone,
    /// It is here, but no run can continue with it.
    Damaged(PathBuf),
    /// It is here, and the next run can use it.
    Kept(PathBuf),
}

impl Serialize for LedgerLeft {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Damaged(path) | Self::Kept(path) => json!({"path": path.to_string_lossy()}),
            Self::Nothing | Self::Gone => Value::Null,
        }
        .serialize(to)
    }
}

/// That a ledger has answers, but none that a run with this address and service ID can use.
pub(crate) fn only_of_others(ledger: impl Display, others: &[String]) -> String {
    let mut others = others.to_vec();
    others.sort_unstable();
    others.dedup();
    format!(
        "`{ledger}` has no answers of this address and service id, only of others at {}",
        others.join(", ")
    )
}

/// The result of one of several files.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct FileSummary {
    /// The input.
    #[serde(serialize_with = "path")]
    pub(crate) input: PathBuf,
    /// The output, or its partial file, if there is one.
    #[serde(serialize_with = "some_path")]
    pub(crate) output: Option<PathBuf>,
    /// The rejects, or their partial file, if there are any.
    #[serde(serialize_with = "some_path")]
    pub(crate) rejects: Option<PathBuf>,
    /// How it ended.
    pub(crate) state: FileState,
    /// The hashes of these files.
    pub(crate) blake3: FileHashes,
    /// The results of its rows in this run.
    #[serde(flatten)]
    pub(crate) rows: RowCounts,
    /// Why it could not be used, or not to its end.
    pub(crate) error: Option<String>,
}

/// How a file ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FileState {
    /// It cannot be used: it has no output.
    Failed,
    /// Its output has only the rows up to a stop, or up to where the input breaks.
    Partial,
    /// The run stopped before its turn.
    Left,
    /// Its output has all rows.
    Finished,
    /// An earlier run finished it.
    Skipped,
}

/// Fails if there is a file that is neither empty nor a summary of `run` or `decide`.
///
/// # Errors
/// That, or the file cannot be read.
pub(crate) fn refuse_other_content(path: &Path) -> io::Result<()> {
    let is_summary = |start: &[u8]| {
        let text = start.iter().filter(|byte| !byte.is_ascii_whitespace());
        let text: Vec<_> = text.copied().take(20).collect();
        [r#"{"type":"summary""#, r#"{"type":"decide""#]
            .iter()
            .any(|summary| text.starts_with(summary.as_bytes()))
    };
    earlier_content(path, "a summary", is_summary).map(drop)
}

/// How much of a file that may be replaced is read: enough to recognise it, and all of a file of metrics.
const MAX_START_BYTES: u64 = 64 * 1024;

/// The start of the file at `path` that is to be replaced; empty if there is none, or if it is a pipe or a device.
///
/// # Errors
/// It is not ours, or cannot be read.
pub(super) fn earlier_content(
    path: &Path,
    what: &str,
    is_ours: impl FnOnce(&[u8]) -> bool,
) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    // Reading a pipe would wait for something to be written.
    if fs::metadata(path).is_ok_and(|there| there.is_file()) {
        File::open(path)?
            .take(MAX_START_BYTES)
            .read_to_end(&mut start)?;
    }
    if start.is_empty() || is_ours(&start) {
        return Ok(start);
    }
    let message = format!("its content is not {what} of rescore");
    Err(io::Error::other(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = r#"{"type":"summary","version":1,"stopped":null,"sandbox":true,
        "rows":{"written":1000},"calls":{"sent":990},"later":1}"#;

    #[test]
    fn a_summary_is_read_with_keys_that_are_missing_or_unknown_and_others_are_refused() {
        let read = ReportedRun::parse(EXAMPLE).unwrap();
        let counts = &read.counts;
        assert_eq!((counts.rows.written, counts.calls.sent), (1_000, 990));
        let refused = |summary: &str| ReportedRun::parse(summary).unwrap_err();
        let other = EXAMPLE.replace("\"version\":1", "\"version\":3");
        assert_eq!(refused(&other), "it has version 3 and not 1");
        let not_started = EXAMPLE.replace("\"stopped\":null", "\"stopped\":\"not_started\"");
        assert_eq!(refused(&not_started), "its run could not start");
    }
}
