//! A file that appears complete or not at all, perhaps compressed, and standard output in its place.
//!
//! It is written as `NAME.partial` beside its target, and gets its final name only when everything is on disk and no other
//! program has changed it. Only a file that was there when the run started may be replaced. Rows, rejects, changes and
//! reports are all written this way. This file must not know what a row looks like.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::write::GzEncoder;
use tokio::time::Instant;

use crate::analysis::PastVerdicts;
use crate::base::error::{Error, Result};
use crate::base::meter::{FileHashes, Meter, Metered};
use crate::base::private_file::{self, FileId, Readers, directory_of};
use crate::layout::Compression;

/// A file that is complete except for its name: its final path and its metadata.
pub(crate) type DurableFile = (PathBuf, Metadata);

/// Why writing to an output failed.
#[derive(Debug)]
pub enum WriteError {
    /// Nobody reads standard output any more, which is not an error.
    Closed,
    /// Anything else.
    Failed(Error),
}

/// An open output.
pub struct OutputFile {
    to: Destination,
    /// Counts and hashes the bytes written.
    meter: Meter,
    name: String,
    /// Complete rows that are not in the file yet. The header waits here for the first row: until then the file is empty.
    pub(super) buffer: Vec<u8>,
    /// The number of rows in the buffer.
    buffered_rows: u64,
    /// The number of rows in the file.
    pub(super) rows: u64,
    /// The number of bytes of complete rows in the file, before compression.
    complete_bytes: u64,
    /// If it gets no rows, it is not made, and one from an earlier run is removed: its rows would be mistaken for this run's.
    needs_rows: bool,
    /// An incomplete file is removed: its content costs nothing to write again.
    removes_incomplete: bool,
}

enum Destination {
    Stream(Metered<Box<dyn Write + Send>>),
    Partial(Box<PartialFile>),
    /// It has ended and left this file.
    Ended(Option<PathBuf>),
}

struct PartialFile {
    compressor: Compressor,
    path: PathBuf,
    target: PathBuf,
    /// The file that it replaces.
    old: Option<OldFile>,
    /// The permissions under its final name.
    mode: u32,
    /// It is complete.
    is_durable: bool,
}

impl OutputFile {
    /// Standard output.
    pub(crate) fn stdout() -> Self {
        Self::direct(io::stdout(), "standard output".to_owned())
    }

    /// Any writer, for tests and benchmarks.
    pub fn stream(writer: impl Write + Send + 'static) -> Self {
        Self::direct(writer, "the output".to_owned())
    }

    /// A writer with this name in messages.
    pub(super) fn direct(writer: impl Write + Send + 'static, name: String) -> Self {
        let meter = Meter::default();
        let stream = meter.clone().over(Box::new(writer) as _);
        Self::new(Destination::Stream(stream), meter, name)
    }

    /// A partial file, open for appending, that becomes the target and replaces `old`. It is compressed as the target's
    /// name says.
    pub(super) fn partial(
        file: File,
        path: PathBuf,
        target: &Path,
        old: Option<OldFile>,
        mode: u32,
    ) -> io::Result<Self> {
        let name = format!("`{}`", path.display());
        let meter = Meter::default();
        let partial = PartialFile {
            compressor: Compressor::new(meter.clone().over(file), target)?,
            path,
            target: target.to_owned(),
            old,
            mode,
            is_durable: false,
        };
        let to = Destination::Partial(Box::new(partial));
        Ok(Self::new(to, meter, name))
    }

    const fn new(to: Destination, meter: Meter, name: String) -> Self {
        Self {
            to,
            meter,
            name,
            buffer: Vec::new(),
            buffered_rows: 0,
            rows: 0,
            complete_bytes: 0,
            needs_rows: false,
            removes_incomplete: false,
        }
    }

    /// The buffer, for one row.
    pub(super) const fn row(&mut self) -> &mut Vec<u8> {
        self.buffered_rows += 1;
        &mut self.buffer
    }

    /// Writes the buffer to the file.
    pub(super) fn write_out(&mut self) -> Result<(), WriteError> {
        let written = match &mut self.to {
            Destination::Stream(to) => to.write_all(&self.buffer).and_then(|()| to.flush()),
            Destination::Partial(partial) => partial.compressor.write(&self.buffer),
            Destination::Ended(_) => Ok(()),
        };
        written.map_err(|e| self.failed(e))?;
        self.complete_bytes += self.buffer.len() as u64;
        self.buffer.clear();
        self.rows += self.buffered_rows;
        self.buffered_rows = 0;
        Ok(())
    }

    fn failed(&self, error: io::Error) -> WriteError {
        let is_stream = matches!(self.to, Destination::Stream(_));
        if is_stream && error.kind() == io::ErrorKind::BrokenPipe {
            return WriteError::Closed;
        }
        let is_changed = is_changed(&error);
        let mut cannot = Error::stopped(format!("cannot write {}", self.name)).because(error);
        if is_changed {
            cannot = cannot.hint("find the program that did it, then run the same command again");
        }
        WriteError::Failed(match &self.to {
            Destination::Partial(partial) => cannot.about(&partial.path),
            _ => cannot,
        })
    }

    /// Completes the file durably under its partial name, and returns its state, unless no file will be made.
    ///
    /// # Errors
    /// It cannot be written, or another program has changed it.
    pub(super) fn make_durable(&mut self) -> Result<Option<DurableFile>, WriteError> {
        if self.needs_rows && self.rows + self.buffered_rows == 0 {
            return Ok(None);
        }
        self.write_out()?;
        let Destination::Partial(partial) = &mut self.to else {
            return Ok(None);
        };
        match partial.make_durable() {
            Ok(state) => Ok(Some((partial.target.clone(), state))),
            Err(e) => Err(self.failed(e)),
        }
    }

    /// Gives a durable file its final name. Making the name durable is up to [`sync_names`].
    ///
    /// # Errors
    /// It cannot get it. Then the complete file is left under its partial name.
    pub(super) fn commit(&mut self) -> Result<(), WriteError> {
        let Destination::Partial(partial) = &self.to else {
            self.meter.end();
            return Ok(());
        };
        let named = if partial.is_durable {
            partial.check().map_err(|e| self.failed(e))?;
            partial.rename().map(|()| Some(partial.target.clone()))
        } else {
            partial.remove();
            partial.remove_old().map(|()| None)
        };
        let named = named.map_err(WriteError::Failed)?;
        if named.is_some() {
            self.meter.end();
        }
        self.to = Destination::Ended(named);
        Ok(())
    }

    /// Makes the rows so far durable, under the partial name. A file without rows is removed.
    ///
    /// # Errors
    /// It cannot be written, or another program has changed it.
    pub(super) fn keep_partial(&mut self) -> Result<(), WriteError> {
        if self.rows > 0 {
            self.make_durable()?;
        }
        self.give_up();
        Ok(())
    }

    /// Leaves the file under its partial name, without its last, incomplete row. A file without rows is removed, and one
    /// that another program has changed is left as it is.
    pub(super) fn give_up(&mut self) {
        if self.rows == 0 && !self.is_durable() {
            self.discard();
        }
        let Destination::Partial(partial) = &mut self.to else {
            return;
        };
        let checked = partial.check();
        if checked
            .as_ref()
            .is_ok_and(|state| state.len() > self.complete_bytes)
        {
            partial.compressor.truncate(self.complete_bytes);
        }
        let is_changed = checked.is_err_and(|e| is_changed(&e));
        let left = (!is_changed).then(|| partial.path.clone());
        self.to = Destination::Ended(left);
    }

    /// Removes the partial file, unless another program has changed it.
    pub(super) fn discard(&mut self) {
        if let Destination::Partial(partial) = &self.to {
            partial.remove();
            self.to = Destination::Ended(None);
        }
    }

    /// Whether it is complete.
    fn is_durable(&self) -> bool {
        matches!(&self.to, Destination::Partial(partial) if partial.is_durable)
    }

    /// The file that is left, once it has ended.
    fn left(&self) -> Option<&PathBuf> {
        match &self.to {
            Destination::Ended(left) => left.as_ref(),
            _ => None,
        }
    }
}

impl Drop for OutputFile {
    /// A file that was opened and stayed empty, for instance because another one could not be opened, must not be in the
    /// way of the next run.
    fn drop(&mut self) {
        if self.complete_bytes == 0 || self.removes_incomplete && !self.is_durable() {
            self.discard();
        }
    }
}

impl PartialFile {
    fn make_durable(&mut self) -> io::Result<Metadata> {
        self.compressor.end()?;
        self.compressor.file().inner.sync_all()?;
        let state = self.check()?;
        self.is_durable = true;
        Ok(state)
    }

    /// Fails if the path no longer leads to this file, because it was moved away and another one was put there, or if the
    /// file does not have exactly the bytes that were written.
    fn check(&self) -> io::Result<Metadata> {
        let Metered { inner: file, meter } = self.compressor.file();
        check_path(file, &self.path)?;
        let (state, written) = (file.metadata()?, meter.count());
        if state.len() != written {
            return Err(io::Error::other(Changed::Length(state.len(), written)));
        }
        Ok(state)
    }

    /// Gives the complete file its final name.
    fn rename(&self) -> Result<()> {
        let [partial, target] = [&self.path, &self.target].map(|path| path.display());
        match give_name(&self.path, &self.target, self.old) {
            Ok(()) => {
                // If the old file was read-only, the owner's write permission is removed.
                let _ = private_file::set_mode(&self.compressor.file().inner, self.mode);
                Ok(())
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(Error::stopped(format!(
                "`{target}` appeared after the run started and is not replaced; the complete output is in `{partial}`"
            ))
            .hint("rename one of them")),
            Err(e) => {
                let what = format!("`{partial}` is complete, but cannot be renamed to `{target}`");
                let hint = "rename it once that is possible";
                Err(Error::stopped(what).because(e).hint(hint))
            }
        }
        .map_err(|error| error.about(&self.path))
    }

    fn remove(&self) {
        if self.check().is_ok() {
            // If it cannot be removed, nothing is lost.
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Removes the file that was there when the run started, if it is still there.
    fn remove_old(&self) -> Result<()> {
        if !OldFile::still_at(self.old, &self.target) {
            return Ok(());
        }
        match fs::remove_file(&self.target) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                let what = format!("cannot remove the old `{}`", self.target.display());
                Err(Error::stopped(what).because(e))
            }
            _ => Ok(()),
        }
    }
}

/// A file that may be compressed.
pub(super) enum Compressor {
    Plain(Metered<File>),
    Gzip(GzEncoder<Metered<File>>, Instant),
    Zstd(zstd::Encoder<'static, Metered<File>>, Instant),
}

/// How long rows may stay in a compressor: a killed program loses them, but every flush makes the compression worse.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

impl Compressor {
    /// Chosen by the file extension. The levels are the libraries' defaults, as for `gzip` and `zstd`.
    fn new(file: Metered<File>, path: &Path) -> io::Result<Self> {
        let now = Instant::now();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(match Compression::split_name(&name).1 {
            Some(Compression::Gzip) => {
                Self::Gzip(GzEncoder::new(file, flate2::Compression::default()), now)
            }
            Some(Compression::Zstd) => {
                let level = zstd::DEFAULT_COMPRESSION_LEVEL;
                Self::Zstd(zstd::Encoder::new(file, level)?, now)
            }
            None => Self::Plain(file),
        })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (encoder, flushed): (&mut dyn Write, _) = match self {
            Self::Plain(file) => return file.write_all(bytes),
            Self::Gzip(encoder, flushed) => (encoder, flushed),
            Self::Zstd(encoder, flushed) => (encoder, flushed),
        };
        encoder.write_all(bytes)?;
        if flushed.elapsed() >= FLUSH_INTERVAL {
            encoder.flush()?;
            *flushed = Instant::now();
        }
        Ok(())
    }

    /// Writes what the compressor still holds. Nothing may be written afterwards.
    fn end(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Gzip(encoder, _) => encoder.try_finish(),
            Self::Zstd(encoder, _) => encoder.do_finish(),
        }
    }

    /// Cuts off the end of a file that is not compressed.
    fn truncate(&mut self, length: u64) {
        if let Self::Plain(file) = self {
            // On a failing disk this may fail, too. Then the file ends within a row.
            let _ = file.inner.set_len(length);
        }
    }

    /// The file.
    fn file(&self) -> &Metered<File> {
        match self {
            Self::Plain(file) => file,
            Self::Gzip(encoder, _) => encoder.get_ref(),
            Self::Zstd(encoder, _) => encoder.get_ref(),
        }
    }
}

/// What another program did to a partial file.
#[derive(Debug, Clone, Copy, thiserror::Error)]
enum Changed {
    #[error("another file has taken its place")]
    Replaced,
    #[error("another program has changed it: it has {0} bytes, and {1} were written")]
    Length(u64, u64),
}

fn is_changed(error: &io::Error) -> bool {
    let inner = error.get_ref();
    inner.is_some_and(<dyn std::error::Error + Send + Sync>::is::<Changed>)
}

/// Fails if the path does not lead to this open file.
pub(super) fn check_path(file: &File, path: &Path) -> io::Result<()> {
    if FileId::of(&file.metadata()?) == FileId::of(&fs::symlink_metadata(path)?) {
        Ok(())
    } else {
        Err(io::Error::other(Changed::Replaced))
    }
}

/// The output and the files with some of its rows.
pub struct RowFiles {
    pub(super) output: OutputFile,
    /// For rows without a verdict.
    pub(super) rejects: Option<OutputFile>,
    /// For rows whose decision changed. If there are none it has only a header, which is a result, too.
    pub(super) changes: Option<OutputFile>,
    /// The earlier verdicts with which those of the rows are compared, instead of those in the rows and in the ledger.
    pub(crate) past: Option<PastVerdicts>,
}

/// The files that are left when a run has ended.
#[derive(Debug, Default)]
pub struct Written {
    /// The output, complete or partial.
    pub(crate) output: Option<PathBuf>,
    /// The rejects, if there are any.
    pub(crate) rejects: Option<PathBuf>,
    /// The rows whose decision changed, with `--changes`.
    pub(crate) changes: Option<PathBuf>,
    /// The hashes of complete files and streams.
    pub(crate) hashes: Box<FileHashes>,
    /// A directory that could not be synced: the files in it are complete, but a power cut may undo their renaming.
    pub(crate) unsynced: Option<PathBuf>,
    /// Why the files could not be completed.
    pub error: Option<Box<WriteError>>,
}

impl RowFiles {
    /// Open files without rows.
    pub fn new(
        output: OutputFile,
        mut rejects: Option<OutputFile>,
        changes: Option<OutputFile>,
    ) -> Self {
        if let Some(rejects) = &mut rejects {
            rejects.needs_rows = true;
        }
        Self {
            output,
            rejects,
            changes,
            past: None,
        }
    }

    fn all(&mut self) -> impl Iterator<Item = &mut OutputFile> {
        let beside = self.rejects.iter_mut().chain(&mut self.changes);
        std::iter::once(&mut self.output).chain(beside)
    }

    /// Writes the rows beside the output to their files.
    pub(super) fn write_out_beside(&mut self) -> Result<(), WriteError> {
        let mut beside = self.all().skip(1).filter(|file| file.buffered_rows > 0);
        beside.try_for_each(OutputFile::write_out)
    }

    /// Completes a run that reached the end of its input: everything is on disk, and every file gets its final name. Before
    /// the renaming, when all files are complete, `note` gets their state.
    pub fn commit(mut self, note: impl FnOnce(&[DurableFile])) -> Written {
        let ended = self.complete(note);
        self.ended(ended)
    }

    fn complete(
        &mut self,
        note: impl FnOnce(&[DurableFile]),
    ) -> Result<Option<PathBuf>, WriteError> {
        let durable = self
            .all()
            .filter_map(|file| file.make_durable().transpose());
        note(&durable.collect::<Result<Vec<_>, _>>()?);
        // The changes first: they compare with the output that is replaced, and cannot be made again once that is gone. The rejects
        // last: if only they had their final name, the run would look complete.
        let first = self.changes.iter_mut().chain([&mut self.output]);
        first
            .chain(&mut self.rejects)
            .try_for_each(OutputFile::commit)?;
        sync_names(self.all().filter_map(|file| file.left().cloned()))
    }

    /// Ends a run that was stopped: complete rows stay in the partial file; a file without rows is removed.
    pub(crate) fn keep_partial(mut self) -> Written {
        let kept = match self.output.rows {
            0 => Ok(()),
            _ => self.all().try_for_each(OutputFile::keep_partial),
        };
        self.ended(kept.map(|()| None))
    }

    /// Ends a run whose output cannot be written: nothing is retried, and the rows in it stay.
    pub(crate) fn give_up(self) -> Written {
        self.ended(Ok(None))
    }

    /// Ends all files, and says which are left. After an error, the remaining files keep their partial names.
    fn ended(mut self, ended: Result<Option<PathBuf>, WriteError>) -> Written {
        self.all().for_each(OutputFile::give_up);
        let left = |file: &OutputFile| file.left().cloned();
        let hash = |file: &Option<OutputFile>| file.as_ref()?.meter.hash();
        let (unsynced, error) = match ended {
            Ok(unsynced) => (unsynced, None),
            Err(error) => (None, Some(Box::new(error))),
        };
        Written {
            output: left(&self.output),
            rejects: self.rejects.as_ref().and_then(left),
            changes: self.changes.as_ref().and_then(left),
            hashes: Box::new(FileHashes {
                input: None,
                output: self.output.meter.hash(),
                rejects: hash(&self.rejects),
                changes: hash(&self.changes),
            }),
            unsynced,
            error,
        }
    }

    /// Removes the partial files, whose rows cost nothing to write again.
    pub(crate) fn discard(mut self) {
        self.all().for_each(OutputFile::discard);
    }
}

/// A text that is written as a whole, such as a report. It is opened before it is known what will be in it, so that a run
/// fails before its first call and not after its last.
pub(crate) struct Document(OutputFile);

impl Document {
    /// In this file.
    pub(crate) const fn new(mut file: OutputFile) -> Self {
        file.removes_incomplete = true;
        Self(file)
    }

    /// Writes all of it, and gives the file its name; before that, `note` gets its state. If that fails, no file is left, unless it
    /// only cannot get its name: then the error says where the complete file is.
    ///
    /// # Errors
    /// Exit code 3: it cannot be written.
    pub(crate) fn complete(
        self,
        text: &str,
        note: impl FnOnce(&[DurableFile]),
    ) -> Result<Option<PathBuf>> {
        let Self(mut file) = self;
        file.buffer.extend_from_slice(text.as_bytes());
        if let Some(durable) = file.make_durable().map_err(error_of)? {
            note(&[durable]);
        }
        file.commit().map_err(error_of)?;
        // If it fails, the file is there, and only a power cut may undo that.
        let _ = sync_names(file.left().cloned().into_iter());
        Ok(file.left().cloned())
    }
}

fn error_of(error: WriteError) -> Error {
    match error {
        WriteError::Closed => Error::stopped("standard output was closed"),
        WriteError::Failed(error) => error,
    }
}

/// A file that was at an output's path when the run started, and that the run may replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OldFile {
    identity: FileId,
    /// Who could read it.
    pub(super) readers: Readers,
}

impl OldFile {
    /// The current file at the path.
    pub(super) fn at(path: &Path) -> Option<Self> {
        let metadata = fs::symlink_metadata(path).ok()?;
        Some(Self {
            identity: FileId::of(&metadata),
            readers: Readers::of(&metadata),
        })
    }

    fn still_at(old: Option<Self>, path: &Path) -> bool {
        old.is_some_and(|old| Self::at(path).is_some_and(|now| now.identity == old.identity))
    }
}

/// Gives a complete file its final name. A file that was not there when the run started is not replaced, unless it appears in the
/// moment between a check and the renaming: in place of `old`, or if the file system has neither such a renaming nor hard links.
///
/// # Errors
/// `AlreadyExists`: there is a file that must not be replaced.
fn give_name(partial: &Path, target: &Path, old: Option<OldFile>) -> io::Result<()> {
    if OldFile::still_at(old, target) {
        return fs::rename(partial, target);
    }
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(CWD, partial, CWD, target, RenameFlags::NOREPLACE) {
            // The kernel or the file system does not support it.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            given => return given.map_err(Into::into),
        }
    }
    by_link(partial, target)
}

/// Renames in two steps: adds a second name, which cannot replace anything either, and then removes the first. Without hard
/// links, a check has to do.
fn by_link(partial: &Path, target: &Path) -> io::Result<()> {
    match fs::hard_link(partial, target) {
        Ok(()) => fs::remove_file(partial),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(e),
        Err(_) if fs::symlink_metadata(target).is_ok() => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => fs::rename(partial, target),
    }
}

/// Makes the names of these files durable. Returns a directory that could not be synced, because it may not be read (such
/// as one for uploads only) or because its file system does not do that: its files are complete nevertheless.
///
/// # Errors
/// A disk error.
fn sync_names(files: impl Iterator<Item = PathBuf>) -> Result<Option<PathBuf>, WriteError> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    let mut directories: Vec<_> = files.map(|file| directory_of(&file).to_owned()).collect();
    directories.dedup();
    let mut unsynced = None;
    for directory in directories {
        match File::open(&directory).and_then(|open| open.sync_all()) {
            Ok(()) => {}
            Err(e) if matches!(e.kind(), PermissionDenied | InvalidInput | Unsupported) => {
                unsynced = Some(directory);
            }
            Err(e) => {
                let what = format!("cannot write the names in `{}`", directory.display());
                return Err(WriteError::Failed(Error::stopped(what).because(e)));
            }
        }
    }
    Ok(unsynced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_given_and_only_what_was_there_at_the_start_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let (partial, target) = (
            directory.path().join("x.partial"),
            directory.path().join("x"),
        );
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        let start = || fs::write(&partial, "new").unwrap();
        let in_one_step = |partial: &Path, target: &Path| give_name(partial, target, None);
        for give in [
            &in_one_step as &dyn Fn(&Path, &Path) -> io::Result<()>,
            &by_link,
        ] {
            start();
            give(&partial, &target).unwrap();
            assert_eq!((read(&target).as_str(), partial.exists()), ("new", false));
            start();
            fs::write(&target, "somebody's").unwrap();
            let error = give(&partial, &target).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            let there = (read(&target), read(&partial));
            assert_eq!(there, ("somebody's".to_owned(), "new".to_owned()));
            fs::remove_file(&target).unwrap();
        }
        fs::write(&target, "old").unwrap();
        let old = OldFile::at(&target);
        give_name(&partial, &target, old).unwrap();
        assert_eq!(read(&target), "new");
        // Another file under the name of the old one.
        start();
        assert!(give_name(&partial, &target, old).is_err());
    }

    #[test]
    fn a_directory_that_cannot_be_synced_is_a_disk_that_fails() {
        let directory = tempfile::tempdir().unwrap();
        let sync = |path: &str| sync_names([directory.path().join(path)].into_iter());
        assert_eq!(sync("x").unwrap(), None);
        assert!(sync("nowhere/x").is_err());
    }
}
