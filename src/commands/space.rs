//! How much space a run needs where a disk is full.

use std::io::ErrorKind;
use std::path::Path;

use crate::error::Error;
use crate::event::CancelReason;
use crate::observe::count;
use crate::output::partial_of;
use crate::stats::Stats;
use crate::system::file_size_limit;

/// A megabyte, as `df` and people count them.
const MEGABYTE: u64 = 1_000_000;

/// An error of a run that could not even begin, with what it needs at least where that file should be.
pub(super) fn at_the_start(error: Error, file: Option<&Path>) -> Error {
    match file.filter(|_| error.is_disk_full()) {
        Some(_) if is_too_large(&error) => limited(error),
        Some(file) => error.detail(format!(
            "the run needs at least 1 MB more in `{}`",
            directory_of(file).display()
        )),
        None => error,
    }
}

/// An error of the answers that are kept for the run alone, with where that is: nobody has named the place.
pub(super) fn in_temporary(error: Error) -> Error {
    let error = error.detail(format!(
        "to ask equal rows once the run keeps answers in `{}` while it lasts",
        std::env::temp_dir().display()
    ));
    if is_too_large(&error) {
        return limited(error);
    }
    error.hint("make space there, or name another directory with the variable `TMPDIR`")
}

fn is_too_large(error: &Error) -> bool {
    error.comes_from(ErrorKind::FileTooLarge)
}

/// An error of a file that may not grow any more, with who says so.
fn limited(error: Error) -> Error {
    match file_size_limit() {
        Some(limit) => error
            .detail(format!(
                "this process may write files of up to {} bytes",
                count(limit)
            ))
            .hint("raise the file size limit (`ulimit -f`)"),
        None => error.detail("the file system takes no file as large as that"),
    }
}

/// An error of a run that stopped, with the space that the rest of it will take, by what it took so far.
pub(super) fn for_the_rest(
    error: Error,
    output: Option<&Path>,
    ledger: Option<&Path>,
    size: Option<u64>,
    stats: &Stats,
) -> Error {
    let full = match stats.cancelled {
        Some(CancelReason::Ledger) => ledger,
        _ => output,
    };
    let Some(full) = full.filter(|_| error.is_disk_full()) else {
        return error;
    };
    if is_too_large(&error) {
        return limited(error);
    }
    let length = |path: &Path| path.metadata().map_or(0, |metadata| metadata.len());
    // Without its log, which does not grow with the run.
    let of_ledger = ledger.map_or(0, length);
    let of_output = output.map_or(0, |output| length(&partial_of(output)));
    // Both, as they are side by side as a rule.
    let taken = of_ledger + of_output;
    let needed = match size {
        Some(size) if stats.position > 0 => {
            let left = u128::from(size.saturating_sub(stats.position));
            let needed = u128::from(taken) * left / u128::from(stats.position);
            u64::try_from(needed).unwrap_or(u64::MAX)
        }
        _ => taken,
    };
    error.detail(format!(
        "the rest needs about {} MB more in `{}`",
        needed / MEGABYTE + 1,
        directory_of(full).display()
    ))
}

fn directory_of(file: &Path) -> &Path {
    file.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}
