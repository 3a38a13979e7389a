//! Ledgers whose files were damaged, cut or replaced; and what their bytes give away.

use std::fs;

use super::support::*;

const ANSWERS: u64 = 300;

/// A ledger with answers, which nobody has open.
fn ledger(path: &Path) {
    let mut run = Run::start(path, "a.csv", Reuse::All).unwrap();
    for request in 0..ANSWERS {
        run.keep(&[(request, answer(request))]);
    }
    run.leave(ANSWERS);
    run.end(RunEnd::Finished { failed: 0 });
}

/// Opens a ledger, and checks that no request gets an answer that is not its own; how many get theirs.
fn check(path: &Path) -> Option<usize> {
    let run = Run::start(path, "b.csv", Reuse::All)
        .inspect_err(|e| assert_eq!(e.exit().code(), 2))
        .ok()?;
    let all: Vec<_> = (0..ANSWERS).collect();
    let keys: Vec<_> = all.iter().map(|request| run.key(*request)).collect();
    let found = run.ledger.lookup().ok()?.look_up(&keys).ok()?;
    for (request, found) in all.iter().zip(&found) {
        let score = score(found);
        assert!(
            score.is_none_or(|score| score == *request),
            "{request}: {score:?}"
        );
    }
    Some(found.iter().filter(|found| found.known.is_some()).count())
}

#[test]
fn a_bit_flipped_anywhere_gives_nobody_anothers_answer() {
    let place = tempfile::tempdir().unwrap();
    let (path, copy) = (place.path().join("a.ledger"), place.path().join("b.ledger"));
    ledger(&path);
    assert_eq!(check(&path), Some(300));
    let whole = fs::read(&path).unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let (mut refused, mut all) = (0, 0);
    for _ in 0..60 {
        let mut bytes = whole.clone();
        let at = random.usize(..bytes.len());
        bytes[at] ^= 1 << random.u32(..8);
        fs::write(&copy, bytes).unwrap();
        match check(&copy) {
            None => refused += 1,
            Some(found) => {
                assert!(found >= 299, "one bit, one answer: {found} at {at}");
                all += usize::from(found == 300);
            }
        }
        fs::remove_file(&copy).unwrap();
    }
    assert!(
        refused < 60 && all < 60,
        "{refused} refused, {all} without a loss"
    );
}

#[test]
fn a_file_cut_at_any_length_is_refused_or_has_only_right_answers() {
    let place = tempfile::tempdir().unwrap();
    let (path, copy) = (place.path().join("a.ledger"), place.path().join("b.ledger"));
    ledger(&path);
    let whole = fs::read(&path).unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    for length in (0..30)
        .map(|_| random.usize(1..whole.len()))
        .chain([100, 4_096, 8_192])
    {
        fs::write(&copy, &whole[..length]).unwrap();
        assert_eq!(check(&copy), None, "{length}");
        assert_eq!(fs::read(&copy).unwrap(), &whole[..length], "left as it is");
        fs::remove_file(&copy).unwrap();
    }
}

#[test]
fn nobody_without_the_request_can_read_an_answer_or_what_it_is_about() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("rescore.ledger");
    let mut run = Run::start(&path, "secret-name.csv", Reuse::All).unwrap();
    let body = br#"{"transaction_id":"4f3e","summary":{"risk_score":1.5},"person":"Jane Doe"}"#;
    let words = Outcome::Failure(Failure::new(Reason::Refused, "jane@example.org is refused"));
    run.keep(&[(1, Outcome::Answer(Bytes::from_static(body))), (2, words)]);
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend(fs::read(path.with_file_name("rescore.ledger-wal")).unwrap());
    for word in [
        "Jane",
        "risk_score",
        "4f3e",
        "example.org",
        "refused",
        "\"request\"",
        "secret-name",
    ] {
        let found = bytes
            .windows(word.len())
            .any(|part| part == word.as_bytes());
        assert!(!found, "{word}");
    }
}

#[test]
fn other_files_and_ledgers_of_other_versions_are_refused_and_left_as_they_are() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("rescore.ledger");
    let other = rusqlite::Connection::open(place.path().join("other")).unwrap();
    other
        .execute_batch(
            "PRAGMA application_id = 0x7273636c; PRAGMA user_version = 4; CREATE TABLE t (a)",
        )
        .unwrap();
    drop(other);
    let version_4 = fs::read(place.path().join("other")).unwrap();
    for (bytes, words) in [
        (version_4, "version 4"),
        (b"a,b\n1,2\n".to_vec(), "not a rescore ledger"),
    ] {
        fs::write(&path, &bytes).unwrap();
        let refused = Run::start(&path, "a.csv", Reuse::All).err().unwrap();
        assert_eq!(refused.exit().code(), 2);
        assert!(refused.report().contains(words), "{}", refused.report());
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
}
