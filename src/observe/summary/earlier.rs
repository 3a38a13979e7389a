//! What may be replaced by a summary: an earlier one.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

/// How the summaries of `run` and `decide` start.
const STARTS: [&[u8]; 2] = [b"{\"type\":\"summary\"", b"{\"type\":\"decide\""];
/// How many bytes are read to find that out, with room for line ends and indentation.
const START_BYTES: u64 = 64;

/// Fails if there is a file whose content is not a summary: it may be anything that nobody wants to lose. An empty one has
/// nothing to lose.
///
/// # Errors
/// That, or the file cannot be read.
pub(crate) fn refuse_other_content(path: &Path) -> io::Result<()> {
    let is_empty = match fs::metadata(path) {
        // Reading a pipe would wait for somebody to write.
        Ok(there) => !there.is_file() || there.len() == 0,
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(error),
    };
    if is_empty {
        return Ok(());
    }
    let mut start = Vec::new();
    File::open(path)?
        .take(START_BYTES)
        .read_to_end(&mut start)?;
    start.retain(|byte| !byte.is_ascii_whitespace());
    if STARTS.iter().any(|summary| start.starts_with(summary)) {
        return Ok(());
    }
    Err(io::Error::other("its content is not a summary of rescore"))
}
