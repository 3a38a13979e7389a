//! The output of a run: the lock by which one run alone writes it, and how a run left it, so that
//! only that is replaced without `--overwrite` when the same command continues.
//!
//! The kernel holds the lock: a process that dies leaves none behind. It is on a file of its own,
//! which names its holder: another run that finds it taken can then say which process has it,
//! since when, and on which machine, as several may share a disk.
//!
//! A file is recorded as a keyed hash of its path, its size and when it was last modified; the run
//! as a keyed hash of its input's path. The input's content is not recorded: it may be edited,
//! sorted or grow.

use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use jiff::Timestamp;
use rusqlite::params;

use super::database::{Database, hex};
use super::fault::DbFault;
use super::key::{PathHash, hash_of_path};
use crate::base::error::{Error, Result};
use crate::base::private_file::{self, FileId, ForeignFile, directory_of, with_suffix};

/// The longest name of a holder, in bytes.
const MAX_HOLDER_BYTES: u64 = 200;

/// The file that is locked while an output is written.
pub(crate) fn lock_of(output: &Path) -> PathBuf {
    with_suffix(output, ".lock")
}

/// The lock of an output, for as long as this is kept.
#[derive(Debug)]
pub(crate) struct OutputLock {
    file: File,
    path: PathBuf,
}

impl OutputLock {
    /// Takes the lock of an output.
    ///
    /// # Errors
    /// Exit code 75: another run has it. Exit code 2: its file cannot be made.
    pub(crate) fn take(output: &Path) -> Result<Self> {
        let path = lock_of(output);
        let cannot = |e| cannot_lock(&path, e);
        loop {
            let file = private_file::append(&path, private_file::OWNER, false).map_err(cannot)?;
            let locked = file.try_lock();
            let mut other = String::new();
            // A run that has just taken the lock may not have written its name yet, and a power
            // cut may leave bytes of zero in its place.
            let read = (&file).take(MAX_HOLDER_BYTES).read_to_string(&mut other);
            let other = other.trim_matches(|c: char| c == '\0' || c.is_whitespace());
            if let Err(TryLockError::WouldBlock) = locked {
                let other = Some(other).filter(|other| !other.is_empty());
                let other = other.unwrap_or("just started");
                let output = output.display();
                return Err(
                    Error::busy(format!("another run ({other}) is writing `{output}`"))
                        .hint("run the same command again when it has ended"),
                );
            }
            if read.is_err() || !is_holder(other) {
                return Err(cannot(io::Error::other(ForeignFile::CONTENT)));
            }
            // The run that held it may have removed the file after it was opened here and before
            // it was locked.
            let locked = file.metadata().map_err(cannot)?;
            if FileId::at(&path) != Some(FileId::of(&locked)) {
                continue;
            }
            // From here on the file is removed with the lock, also if nothing can be written to it.
            let mut lock = Self { file, path };
            lock.write_holder()
                .map_err(|e| cannot_lock(&lock.path, e))?;
            return Ok(lock);
        }
    }

    fn write_holder(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all(this_process().as_bytes())
    }
}

fn cannot_lock(path: &Path, error: io::Error) -> Error {
    let not_ours = private_file::is_foreign_file(&error);
    let cannot = Error::usage(format!("cannot write `{}`", path.display()))
        .because(error)
        .about(path);
    match private_file::not_writable(path) {
        _ if not_ours => cannot.hint(private_file::HINT),
        Some(why) => cannot
            .detail(why)
            .hint("run it as a user who may write there, or name an output in another place"),
        None => cannot,
    }
}

impl Drop for OutputLock {
    fn drop(&mut self) {
        // The lock itself ends when the file is closed, after this. A name that stays behind is
        // harmless: it is the kernel's lock that counts.
        let _ = fs::remove_file(&self.path);
    }
}

/// `process 12 on db1 since 2026-11-22T18:30:05Z`, for this process and now.
fn this_process() -> String {
    let host = host().map(|host| format!(" on {host}")).unwrap_or_default();
    let since = Timestamp::now().strftime("%FT%TZ");
    format!("process {}{host} since {since}", std::process::id())
}

/// Whether a text names a process like this, or is the start of what does.
fn is_holder(text: &str) -> bool {
    if "process ".starts_with(text) {
        return true;
    }
    let (_, named) = text.split_once("process ").unwrap_or_default();
    let id = named.split(' ').next().unwrap_or_default();
    id.parse::<u32>().is_ok()
}

/// The name of this machine, if it has one.
pub(crate) fn host() -> Option<String> {
    let name = rustix::system::uname();
    let name = name.nodename().to_str().ok()?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// A hash of the host and of the identity of the output's directory. Between runs with the same
/// one, the output's lock keeps two from writing it.
pub(super) fn host_id(secret: &[u8; 32], output: Option<&Path>) -> String {
    let id = (host(), output.map(directory_of).and_then(FileId::at));
    hex(&hash_of_path(secret, Path::new(&format!("/{id:?}"))))
}

/// How a file relates to the run that continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputState {
    /// There is no such file.
    Absent,
    /// It is as the run left it.
    AsLeft,
    /// A run over another input left it.
    OfOtherInput,
    /// It has changed since, or does not come from a run.
    Changed,
}

/// How a file was left: its size, and when it was modified in nanoseconds since 1970.
fn state_of(metadata: &Metadata) -> io::Result<String> {
    let modified = metadata.modified()?.duration_since(UNIX_EPOCH);
    let modified = modified.unwrap_or_default().as_nanos();
    Ok(format!("{} {modified}", metadata.len()))
}

/// How a file relates to the run over this input; `None` is an input without a path.
pub(super) fn find(
    database: &mut dyn Database,
    secret: &[u8; 32],
    file: &Path,
    input: Option<&Path>,
) -> std::result::Result<OutputState, DbFault> {
    let state = match fs::metadata(file).and_then(|metadata| state_of(&metadata)) {
        Ok(state) => state,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(OutputState::Absent),
        // Something is there, and cannot be compared.
        Err(_) => return Ok(OutputState::Changed),
    };
    let (path, input) = (hex(&hash(secret, Some(file))), hash(secret, input));
    let query = "SELECT input FROM outputs WHERE path = $1 AND state = $2";
    let mut found = OutputState::Changed;
    for row in database.query(query, params![path, state])? {
        if row.hash(0)? == input {
            return Ok(OutputState::AsLeft);
        }
        found = OutputState::OfOtherInput;
    }
    Ok(found)
}

/// Records how a run over this input is about to leave files. Of earlier records, the state that
/// each file is in now stays: the run may be killed before the new file has its name. On a file
/// system without times of changes, nothing is recorded, and the next run needs `--overwrite`.
///
/// # Errors
/// It cannot be written.
pub(super) fn record(
    database: &mut dyn Database,
    secret: &[u8; 32],
    files: &[(PathBuf, Metadata)],
    input: Option<&Path>,
) -> std::result::Result<(), DbFault> {
    let input = hex(&hash(secret, input));
    database.transaction(true, &mut |database| {
        for (file, metadata) in files {
            let Ok(new) = state_of(metadata) else {
                continue;
            };
            let old = fs::metadata(file).and_then(|metadata| state_of(&metadata));
            let (old, path) = (old.unwrap_or_default(), hex(&hash(secret, Some(file))));
            let forget = "DELETE FROM outputs WHERE path = $1 AND state <> $2";
            database.query(forget, params![path, old])?;
            let record = "INSERT INTO outputs VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
            database.query(record, params![path, new, input])?;
        }
        Ok(())
    })
}

/// A hash of a path, whether or not there is a file yet; of nothing for an input without one.
pub(super) fn hash(secret: &[u8; 32], path: Option<&Path>) -> PathHash {
    let Some(path) = path else {
        return [0; 32];
    };
    match (fs::canonicalize(directory_of(path)), path.file_name()) {
        (Ok(directory), Some(name)) => hash_of_path(secret, &directory.join(name)),
        _ => hash_of_path(secret, path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_names_its_holder_and_ends_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("o");
        let lock = OutputLock::take(&output).unwrap();
        let refused = OutputLock::take(&output).unwrap_err();
        assert_eq!(refused.exit().code(), 75);
        assert!(
            refused
                .report()
                .contains(&format!("process {}", std::process::id())),
            "{}",
            refused.report()
        );
        drop(lock);
        drop(OutputLock::take(&output).unwrap());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_process_is_recognised_by_the_way_it_names_itself() {
        let this = this_process();
        assert!(this.starts_with(&format!("process {}", std::process::id())));
        assert!(this.ends_with('Z') && this.contains(" since 20"), "{this}");
        for (text, expected) in [
            (this.as_str(), true),
            ("`rescore ledger`, process 7 on a since b", true),
            ("process 7", true),
            ("process x", false),
            ("a shopping list", false),
        ] {
            assert_eq!(is_holder(text), expected, "{text}");
        }
        let mut part = this;
        while part.pop().is_some() {
            assert!(is_holder(&part), "{part}");
        }
    }
}
