//! Recognising a SQLite database, as ledgers in files are, without opening it as one.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// What every such file starts with: <https://www.sqlite.org/fileformat2.html#the_database_header>.
pub(crate) const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Whether there is such a file; one that cannot be read counts as none.
#[must_use]
pub(crate) fn is_database(path: &Path) -> bool {
    let mut head = [0; MAGIC.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == *MAGIC
}
