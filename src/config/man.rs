//! `rescore man DIR`.

use std::path::PathBuf;

/// `rescore man DIR`.
#[derive(Debug)]
pub(crate) struct ManConfig {
    /// Where the pages go.
    pub(crate) directory: PathBuf,
    /// The pages.
    pub(crate) pages: Vec<ManPage>,
}

/// A manual page.
#[derive(Debug)]
pub(crate) struct ManPage {
    /// The name of its file.
    pub(crate) file: String,
    /// The page, as `man` reads it.
    pub(crate) text: String,
}
