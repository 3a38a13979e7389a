//! Changes to a ledger's file that no run makes: older answers, and a limit that was found.

use std::path::Path;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use rusqlite::{Connection, params};

use super::server::Server;

const NONCE: usize = 12;
/// The smallest number means any time.
const OLDER_RUNS: &str = "UPDATE runs SET started = started - ?1,
    not_before = iif(not_before < 0, not_before, not_before - ?1),
    failures_from = iif(failures_from < 0, failures_from, failures_from - ?1)";

/// An answer's place, fingerprint and time, the answer, and what its account is listed by.
type Stored = (i64, i64, i64, Vec<u8>, String);

/// The fingerprint and the cipher of a request, with what the ledger lists its account by.
fn key(account: &str, body: &[u8]) -> (i64, LessSafeKey) {
    let account = blake3::Hash::from_hex(account).unwrap();
    let mut hasher = blake3::Hasher::new_keyed(account.as_bytes());
    hasher.update(body);
    let mut bytes = [0; 40];
    hasher.finalize_xof().fill(&mut bytes);
    let fingerprint = i64::from_le_bytes(bytes[..8].try_into().unwrap());
    let cipher = UnboundKey::new(&CHACHA20_POLY1305, &bytes[8..]).unwrap();
    (fingerprint, LessSafeKey::new(cipher))
}

/// Makes all answers to this server's requests, the runs, and whole days of what was spent, older by this many milliseconds. Returns how many answers there
/// are. They are sealed with their time, so that nobody can do this who has not the requests.
pub(crate) fn age(path: &Path, server: &Server, milliseconds: i64) -> usize {
    let mut ledger = Connection::open(path).unwrap();
    let change = ledger.transaction().unwrap();
    let rows: Vec<Stored> = change
        .prepare("SELECT seq, fp, at, sealed, hash FROM answers JOIN accounts ON id = account")
        .unwrap()
        .query_map([], |row| {
            let [seq, fp, at] = [0, 1, 2].map(|column| row.get(column));
            Ok((seq?, fp?, at?, row.get(3)?, row.get(4)?))
        })
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let requests = server.requests();
    for (seq, fp, at, sealed, account) in &rows {
        let mut keys = requests.iter().map(|request| key(account, &request.body));
        let (_, cipher) = keys.find(|(fingerprint, _)| fingerprint == fp).unwrap();
        let nonce: [u8; NONCE] = sealed[..NONCE].try_into().unwrap();
        let mut text = sealed[NONCE..].to_vec();
        let opened = cipher.open_in_place(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(at.to_le_bytes()),
            &mut text,
        );
        let mut text = opened.unwrap().to_vec();
        let at = at - milliseconds;
        let about = Aad::from(at.to_le_bytes());
        cipher
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), about, &mut text)
            .unwrap();
        let older = "UPDATE answers SET at = ?, sealed = ? WHERE seq = ?";
        let sealed = [&nonce[..], &text].concat();
        change.execute(older, params![at, sealed, seq]).unwrap();
    }
    change.execute(OLDER_RUNS, [milliseconds]).unwrap();
    let spent = "UPDATE spending SET day = day - ?1 / 86400000 WHERE day > 0";
    change.execute(spent, [milliseconds]).unwrap();
    change.commit().unwrap();
    rows.len()
}

/// A ledger with answers for the five users of [`super::users::csv`], made by the program whose ledgers had version 6.
pub(crate) fn version_6() -> Vec<u8> {
    zstd::decode_all(&include_bytes!("ledger-6.zst")[..]).unwrap()
}
