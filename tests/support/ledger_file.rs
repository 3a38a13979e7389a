//! Changes to a ledger's file: making it older, or damaging it.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::ValueRef;

/// Opens a ledger, with functions that compute checksums as the program does: a keyed hash over the table's name and, for
/// each value, its type, its length and its bytes.
pub(crate) fn open(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    let secret: [u8; 32] = connection
        .query_row("SELECT secret FROM ledger", [], |row| row.get(0))
        .unwrap();
    for table in ["answers", "runs"] {
        let sum = move |context: &rusqlite::functions::Context<'_>| {
            let mut bytes = table.as_bytes().to_vec();
            for argument in 0..context.len() {
                let (kind, value) = match context.get_raw(argument) {
                    ValueRef::Null => (0, vec![]),
                    ValueRef::Integer(number) => (1, number.to_le_bytes().to_vec()),
                    ValueRef::Real(number) => (2, number.to_bits().to_le_bytes().to_vec()),
                    ValueRef::Text(text) => (3, text.to_vec()),
                    ValueRef::Blob(blob) => (4, blob.to_vec()),
                };
                bytes.push(kind);
                bytes.extend(u64::try_from(value.len()).unwrap().to_le_bytes());
                bytes.extend(value);
            }
            let hash = blake3::keyed_hash(&secret, &bytes);
            let four = hash.as_bytes()[..4].try_into().unwrap();
            Ok(i64::from(i32::from_le_bytes(four)))
        };
        let flags = FunctionFlags::SQLITE_UTF8;
        let name = format!("checksum_of_{table}");
        connection
            .create_scalar_function(name.as_str(), -1, flags, sum)
            .unwrap();
    }
    connection
}

/// Makes all answers older by this many milliseconds. Returns how many there are.
pub(crate) fn age(path: &Path, milliseconds: i64) -> usize {
    const AGE: &str = "UPDATE answers SET at = at - ?1, checksum =
        checksum_of_answers(key, transaction_id, score, capture, captured, at - ?1, replaced)";
    open(path).execute(AGE, [milliseconds]).unwrap()
}

/// Sets the start of all runs to 1970.
pub(crate) fn begun_long_ago(path: &Path) {
    const BEGUN: &str = "UPDATE runs SET begun = 0, checksum =
        checksum_of_runs(name, 0, not_before, leftover, finished)";
    assert_eq!(open(path).execute(BEGUN, []).unwrap(), 1);
}
