//! Where the lines are written: standard error, or the end of a file that may be renamed meanwhile.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;

use super::target::LogTarget;
use crate::base::own_file;
use crate::base::stderr::say_if_room;

/// How a log of ours starts: nothing is ever added to another file.
const START: &[u8] = br#"{"timestamp":""#;
/// Error messages and file names are for its owner alone.
const MODE: u32 = 0o600;

/// Where the lines are written.
#[derive(Debug)]
pub(crate) enum LogSink {
    /// Standard error.
    Stderr,
    /// A file.
    File(LogFile),
}

/// An open log file.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    file: File,
    /// Its last line is not whole.
    is_torn: bool,
}

impl LogSink {
    /// Opens the log. A missing file is created.
    ///
    /// # Errors
    /// It cannot be opened, or it is not a log of ours.
    pub(crate) fn open(target: &LogTarget) -> io::Result<Self> {
        Ok(match target {
            LogTarget::Stderr => Self::Stderr,
            LogTarget::File(path) => Self::File(LogFile::open(path.clone())?),
        })
    }

    /// Opens the file again, which may have been renamed. Returns whether there is one. The old one stays if that fails.
    pub(super) fn reopen(&mut self) -> io::Result<bool> {
        let Self::File(log) = self else {
            return Ok(false);
        };
        *log = LogFile::open(log.path.clone())?;
        Ok(true)
    }

    /// Writes these lines. Returns how many of them could not be written, and perhaps why.
    pub(super) fn write(&mut self, lines: &[u8]) -> (u64, io::Result<()>) {
        match self {
            Self::Stderr => {
                let text = String::from_utf8_lossy(lines);
                let lost = text.lines().filter(|line| !say_if_room(line)).count();
                (lost as u64, Ok(()))
            }
            Self::File(log) => {
                let (rest, written) = log.write(lines);
                (ends(rest), written)
            }
        }
    }
}

impl LogFile {
    /// Opens a file to add lines to it.
    fn open(path: PathBuf) -> io::Result<Self> {
        let mut file = own_file::append(&path, MODE, false)?;
        let mut start = Vec::new();
        (&file).take(START.len() as u64).read_to_end(&mut start)?;
        if !start.is_empty() && start != START {
            return Err(io::Error::other(own_file::NotOurs::Content));
        }
        let mut last = Vec::new();
        if !start.is_empty() {
            file.seek(SeekFrom::End(-1))?;
            file.read_to_end(&mut last)?;
        }
        Ok(Self {
            path,
            file,
            is_torn: !(last.is_empty() || last.ends_with(b"\n")),
        })
    }

    /// Writes these lines. Returns the rest of them, from the first that is not whole.
    fn write<'a>(&mut self, lines: &'a [u8]) -> (&'a [u8], io::Result<()>) {
        // What is left of a line that a full disk or a kill cut off is a line of its own.
        if self.is_torn && !lines.is_empty() {
            if let Err(error) = self.file.write_all(b"\n") {
                return (lines, Err(error));
            }
            self.is_torn = false;
        }
        let mut rest = lines;
        while !rest.is_empty() {
            match self.file.write(rest) {
                Ok(0) => return (rest, Err(io::ErrorKind::WriteZero.into())),
                Ok(written) => {
                    let (done, left) = rest.split_at(written.min(rest.len()));
                    self.is_torn = !done.ends_with(b"\n");
                    rest = left;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let done = lines.len() - rest.len();
                    let whole = lines.iter().take(done).rposition(|byte| *byte == b'\n');
                    self.cut_off(done - whole.map_or(0, |end| end + 1));
                    return (rest, Err(error));
                }
            }
        }
        (rest, Ok(()))
    }

    /// Removes the beginning of a line that was just added, this many bytes, unless another run has added something since.
    fn cut_off(&mut self, bytes: usize) {
        let mut cut = || {
            let end = self.file.stream_position()?;
            if self.file.metadata()?.len() != end {
                return Ok(false);
            }
            self.file.set_len(end.saturating_sub(bytes as u64))?;
            Ok::<_, io::Error>(true)
        };
        // What stays is ended before the next line.
        if bytes > 0 && cut().unwrap_or(false) {
            self.is_torn = false;
        }
    }
}

fn ends(lines: &[u8]) -> u64 {
    lines.split_inclusive(|byte| *byte == b'\n').count() as u64
}
