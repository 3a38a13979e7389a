//! Disk space: whether there is enough for a run to start, and what to do where a disk is full. The ledger keeps space for its
//! own answers; this file knows only the output.

use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use crate::base::directory::directory_of;
use crate::base::error::{Error, Result, shown};
use crate::base::rlimit::max_file_size;
use crate::observe::count;
use crate::output::Target;

/// The least space that an output needs to start or continue: the usual size of the rows of one group of answers.
const LEAST: u64 = 64 * 1024;
/// The most space that is asked for, however long the input is.
const MOST: u64 = 1_000_000;

/// Fails when there is no space for the next rows of an output: what is paid for must have a place. `size` is the size of
/// the input, where it is known; `continues` says that rows of an earlier run are written again first. Nothing is known about
/// pipes and devices.
pub(super) fn for_the_next_rows(
    output: Option<&Target>,
    continues: bool,
    size: Option<u64>,
) -> Result<()> {
    let (file, name) = match output.map(Target::partial) {
        Some(Some(partial)) => {
            let name = format!("`{}`", shown(&partial));
            (partial, name)
        }
        Some(None) => return Ok(()),
        None => match behind_stdout() {
            Some(file) => (file, "standard output".to_owned()),
            None => return Ok(()),
        },
    };
    let metadata = file.metadata().ok().filter(|_| output.is_some());
    let old = metadata.map_or(0, |metadata| metadata.len());
    // How much smaller compressed rows are is not known.
    let ends = output.and_then(|target| target.path().extension());
    let size = size.filter(|_| !ends.is_some_and(|end| end == "gz" || end == "zst"));
    let next = size.unwrap_or(0).saturating_sub(old).clamp(LEAST, MOST);
    let is_limited = || max_file_size().is_some_and(|limit| old + next > limit);
    let enough = if continues && old > 0 && is_limited() {
        Err(io::Error::new(ErrorKind::FileTooLarge, "file too large"))
    } else {
        fill(directory_of(&file), next)
    };
    enough.map_err(|e| {
        let cannot = Error::stopped(format!("cannot write {name}"));
        at_the_start(cannot.because(e).about(&file))
    })
}

/// The file that standard output goes to, if it is a file and the system says which.
fn behind_stdout() -> Option<PathBuf> {
    let file = Path::new("/proc/self/fd/1").canonicalize().ok()?;
    file.is_file().then_some(file)
}

/// Fills this much of a disk for a moment, in a file without a name. Only a full disk is a reason not to start: where such
/// a file cannot be made at all, an output may still be.
fn fill(directory: &Path, bytes: u64) -> io::Result<()> {
    let filled = tempfile::tempfile_in(directory).and_then(|mut file| {
        io::copy(&mut io::repeat(0).take(bytes), &mut file)?;
        // Some file systems report a full disk only now.
        file.sync_data()
    });
    match filled {
        Err(e) if matches!(e.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => Err(e),
        _ => Ok(()),
    }
}

/// An error of a run that could not start; where a disk is full, with the space that it needs at least.
pub(super) fn at_the_start(error: Error) -> Error {
    with_the_way_out(error, "the run needs at least 1 MB more in")
}

/// An error of a run that stopped; where a disk is full, with which disk that is.
pub(super) fn at_the_end(error: Error) -> Error {
    with_the_way_out(error, "there is no space left in")
}

/// An error of the answers that are kept only for the run, with the directory, which the user did not name.
pub(super) fn in_temporary(error: Error) -> Error {
    let error = error.detail(format!(
        "so that identical rows need one call, the run keeps answers in `{}` while it lasts",
        shown(&std::env::temp_dir())
    ));
    if error.comes_from(ErrorKind::FileTooLarge) {
        return limited(error);
    }
    error.hint("free space there, or name another directory with the variable `TMPDIR`")
}

fn with_the_way_out(error: Error, what: &str) -> Error {
    if error.comes_from(ErrorKind::FileTooLarge) {
        return limited(error);
    }
    let Some(file) = error.file().filter(|_| error.is_disk_full()) else {
        return error;
    };
    let detail = format!("{what} `{}`", shown(directory_of(file)));
    let has_hint = error.hint_text().is_some();
    let error = error.detail(detail);
    if has_hint {
        return error;
    }
    error.hint("free space there; then run the same command again")
}

/// The error of a file that may not grow any more, with what limits it.
fn limited(error: Error) -> Error {
    match max_file_size() {
        Some(limit) => error
            .detail(format!(
                "this process may write files of up to {} bytes",
                count(limit)
            ))
            .hint("raise the file size limit (`ulimit -f`)"),
        None => error.detail("the file system allows no file of that size"),
    }
}
