//! The summary of a run that could not start.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use serde::Serialize;

use crate::base::error::Error;
use crate::observe::json::VERSION;

/// How a summary starts: only such a file is replaced by a failure.
const START: &[u8] = b"{\"type\":\"summary\"";
/// How many bytes are read to find that out, with room for line ends and indentation.
const START_BYTES: u64 = 64;

/// A run that could not start.
#[derive(Debug)]
pub(crate) struct FailedStart<'a> {
    /// Why.
    pub(crate) error: &'a Error,
}

/// The same for programs.
#[derive(Serialize)]
struct FailedStartJson {
    r#type: &'static str,
    version: u8,
    exit_code: u8,
    stopped: &'static str,
    error: String,
}

impl FailedStart<'_> {
    /// Replaces an earlier summary. Where there is none, none is made: a run that was refused leaves no files.
    ///
    /// # Errors
    /// It cannot be written, or there is something else than a summary.
    pub(crate) fn replace(&self, path: &Path) -> io::Result<()> {
        if !is_summary(path)? {
            return Err(io::Error::other("it holds something else than a summary"));
        }
        let json = FailedStartJson {
            r#type: "summary",
            version: VERSION,
            exit_code: self.error.exit().code(),
            stopped: "not_started",
            error: self.error.to_string(),
        };
        let mut text = serde_json::to_vec(&json)?;
        text.push(b'\n');
        fs::write(path, text)
    }
}

/// Whether there is a summary, or the empty file of one that was not written yet.
fn is_summary(path: &Path) -> io::Result<bool> {
    let there = fs::metadata(path)?;
    if !there.is_file() || there.len() == 0 {
        return Ok(there.is_file());
    }
    let mut start = Vec::new();
    File::open(path)?
        .take(START_BYTES)
        .read_to_end(&mut start)?;
    start.retain(|byte| !byte.is_ascii_whitespace());
    Ok(start.starts_with(START))
}
