//! Files: what a run reads, and what it writes where.

mod columns;
mod csv_rows;
mod encodings;
mod existing;
mod first_pass;
mod full_disk;
mod input;
mod jsonl_rows;
mod names;
mod odd_data;
mod only;
mod output;
mod overwrite;
mod own_files;
mod phones;
mod reasons;
mod spoilt_files;
mod streams;
mod wrong_files;

use crate::support::process::{Arguments, Done, Place};
use crate::support::server::Server;

const HEADER: &str = "name,email,ip,user_agent";

/// Scores `csv` as `users.csv` to `scored.csv`, with further arguments.
fn score<K>(csv: impl AsRef<[u8]>, server: &Server, arguments: impl Arguments<K>) -> (Place, Done) {
    let place = Place::with("users.csv", csv);
    let done = place.score(server, arguments);
    (place, done)
}
