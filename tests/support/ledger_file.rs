//! Changes to a ledger's file: making it older, or damaging it.

use std::path::Path;
use std::time::SystemTime;

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use rusqlite::params;
use rusqlite::types::ValueRef;

/// Opens a ledger, with a function that sums up values as the program does: a keyed hash over the table's name and, for
/// each value, its kind, its length where it varies, and its bytes.
pub(crate) fn open(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    let secret: [u8; 32] = connection
        .query_row("SELECT secret FROM ledger", [], |row| row.get(0))
        .unwrap();
    for table in ["answer_blocks", "runs", "limits"] {
        let sum = move |context: &rusqlite::functions::Context<'_>| {
            let mut bytes = table.as_bytes().to_vec();
            for argument in 0..context.len() {
                let varying = |value: &[u8]| {
                    let length = u64::try_from(value.len()).unwrap().to_le_bytes();
                    [&length[..], value].concat()
                };
                let (kind, value) = match context.get_raw(argument) {
                    ValueRef::Null => (0, vec![]),
                    ValueRef::Integer(number) => (1, number.to_le_bytes().to_vec()),
                    ValueRef::Real(number) => (2, number.to_bits().to_le_bytes().to_vec()),
                    ValueRef::Text(text) => (3, varying(text)),
                    ValueRef::Blob(blob) => (4, varying(blob)),
                };
                bytes.push(kind);
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
    // All times of a block's answers are counted from the block's.
    const AGE: &str = "UPDATE answer_blocks SET at = at - ?1, checksum =
        checksum_of_answer_blocks(context, capture, at - ?1, answers, bytes)";
    let ledger = open(path);
    ledger.execute(AGE, [milliseconds]).unwrap();
    let count = "SELECT sum(answers) FROM answer_blocks";
    let answers: i64 = ledger.query_row(count, [], |row| row.get(0)).unwrap();
    usize::try_from(answers).unwrap()
}

/// Sets the start of all runs to 1970.
pub(crate) fn begun_long_ago(path: &Path) {
    const BEGUN: &str = "UPDATE runs SET started = 0, checksum =
        checksum_of_runs(name, 0, not_before, leftover, finished, unsent, calls, only_failed)";
    assert_eq!(open(path).execute(BEGUN, []).unwrap(), 1);
}

/// Sets the rate of calls that a run has found, for the only service that was asked.
pub(crate) fn set_limit(path: &Path, rate: f64) {
    const SET: &str = "INSERT OR REPLACE INTO limits (context, rate, rate_times, in_flight, in_flight_times, at, checksum)
        SELECT id, ?1, 9, NULL, NULL, ?2, checksum_of_limits(id, ?1, 9, NULL, NULL, ?2) FROM contexts";
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = i64::try_from(now.unwrap().as_millis()).unwrap();
    assert_eq!(open(path).execute(SET, params![rate, now]).unwrap(), 1);
}
