//! What other runs have left in the directory of the outputs: a run over some of the files may be complete while others are
//! not, which keeps the run to the directory one to continue. It goes by names alone, and opens no file.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use crate::output::PARTIAL;

/// How the names of rejects end.
const REJECTS: [&str; 3] = [".rejects.csv", ".rejects.tsv", ".rejects.jsonl"];

/// Files in the directory of the outputs that this run did not finish.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnfinishedFiles {
    /// An output is not complete. The run that wrote it can be continued.
    pub(super) any_partial: bool,
    /// The files of rows without a verdict, which can be retried.
    pub(super) rejects: u64,
}

impl UnfinishedFiles {
    /// Looks for them beside the finished files of this run: an output may be called as rejects are.
    pub(super) fn find(directory: &Path, ours: &HashSet<&Path>) -> Self {
        let mut found = Self::default();
        // In a directory that cannot be listed there may be anything.
        let Ok(entries) = fs::read_dir(directory) else {
            return Self {
                any_partial: true,
                rejects: 0,
            };
        };
        for entry in entries.flatten() {
            if ours.contains(&*entry.path()) {
                continue;
            }
            let name = entry.file_name();
            let name = name.to_string_lossy();
            found.any_partial |= name.ends_with(PARTIAL);
            found.rejects += u64::from(REJECTS.iter().any(|end| name.ends_with(end)));
        }
        found
    }
}
