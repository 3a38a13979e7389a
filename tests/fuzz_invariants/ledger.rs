//! Opening any file in a ledger's place: it is used or refused with a clear message, and a file that is not a ledger stays
//! as it is.
//!
//! The first byte of an input chooses the ledger and how it is opened. The rest is the file, or changes to a good ledger
//! of two answers: five bytes each, of which the first says what to do, the next three where, and the last with which
//! value.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use rescore::internals::error::Error;
use rescore::internals::ledger::{
    Freshness, KnownOutcome, LedgerLocation, LedgerSettings, LookupResult, OpenLedger, Removal,
    Reuse, read_stats,
};
use rescore::internals::raw_json::Pointer;
use rescore::internals::telemetry::{FoundLimit, Limit};
use rescore::internals::verdict::{Answer, Score, TransactionId};

const PATIENCE: Duration = Duration::from_secs(10);
const BODIES: [&[u8]; 3] = [br#"{"name":"A"}"#, br#"{"name":"B"}"#, br#"{"name":"C"}"#];
/// The requests for which a good ledger has answers.
const KEPT: usize = 2;
const SCORE: &str = "2.48";
const POINTER: &str = "/summary/risk_level";

pub(crate) fn holds(input: &[u8]) {
    let Some((flags, rest)) = input.split_first() else {
        return;
    };
    let has = |bit: u8| flags & (1 << bit) != 0;
    let [shared, other_kind, raw] = [has(0), has(1), has(3)];
    let directory = tempfile::tempdir().unwrap();
    let place = place(directory.path(), shared != other_kind);
    let path = place.path().unwrap();
    let files = if raw {
        BTreeMap::from([(String::new(), rest.to_vec())])
    } else {
        changed(good(shared, has(2)), rest)
    };
    for (end, bytes) in &files {
        fs::write(beside(&path, end), bytes).unwrap();
    }
    let foreign = !is_ledger(&files[""]);
    let reuse = match flags >> 4 & 3 {
        0 | 1 => Reuse::All,
        2 => Reuse::Recent(Freshness::of(Some(Duration::from_secs(3600)), None).unwrap()),
        _ => Reuse::Nothing,
    };
    let ended = read_stats(&path).map(drop);
    check(ended.as_ref().err(), &path, foreign);
    if foreign {
        assert!(ended.is_err());
        untouched(&path, &files);
    }
    let ended = go_through(settings(place, reuse, has(6)));
    check(ended.as_ref().err(), &path, foreign);
    if foreign && !files[""].is_empty() {
        assert!(ended.is_err());
        untouched(&path, &files);
    }
}

fn place(directory: &Path, shared: bool) -> LedgerLocation {
    if shared {
        LedgerLocation::Shared(directory.join("answers.ledger"))
    } else {
        LedgerLocation::Beside(directory.join("scored.csv"))
    }
}

fn settings(location: LedgerLocation, reuse: Reuse, captures: bool) -> LedgerSettings {
    let pointer = captures.then(|| Pointer::parse(POINTER).unwrap());
    LedgerSettings {
        location,
        reuse,
        output: None,
        endpoint: "https://api.example.com/v1/validate/user".to_owned(),
        service_id: "test".to_owned(),
        captured: pointer.into_iter().collect(),
        in_flight: 4.try_into().unwrap(),
        longest_call: std::time::Duration::from_secs(30),
    }
}

fn answer(number: usize) -> Answer {
    Answer {
        transaction_id: TransactionId::new(&format!("t-{number}")).unwrap(),
        score: Score::from_json_number(SCORE).unwrap(),
        captured: Box::new([Some("\"low\"".into())]),
    }
}

/// What a run does with a ledger, from opening to end.
fn go_through(settings: LedgerSettings) -> Result<(), Error> {
    let wanted = settings.captured.len();
    let ledger = OpenLedger::open(settings)?;
    let keys = ledger.hasher();
    ledger.output_state(Path::new("scored.csv"), None)?;
    if let Some(mut lookup) = ledger.lookup()? {
        for (number, body) in BODIES.iter().enumerate() {
            let found = lookup.find(&keys.key(body), body)?;
            if let Some(found) = usable(found) {
                // Damage may lose an answer, but never changes one.
                assert!(number < KEPT, "an answer that nobody gave: {found:?}");
                let captured = answer(number).captured.into_iter().take(wanted);
                let kept = Answer {
                    captured: captured.collect(),
                    ..answer(number)
                };
                assert_eq!(found, kept);
            }
        }
    }
    let fields = ledger.fields().borrow().len();
    let (ledger, writer) = ledger.start()?;
    let kept = wait(async {
        for (number, body) in BODIES.iter().enumerate() {
            let captured = (0..fields).map(|_| None).collect();
            let answer = Answer {
                captured,
                ..answer(number)
            };
            writer.keep(keys.key(body), answer).await?;
        }
        Ok(())
    });
    drop(writer);
    ledger.settle(Removal::WhenUsed(1), PATIENCE).finish()?;
    kept
}

fn usable(found: LookupResult) -> Option<Answer> {
    match found.known {
        Some(KnownOutcome::Answer(answer)) => Some(answer),
        _ => None,
    }
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread();
    { runtime }.build().unwrap().block_on(future)
}

/// The files of a good ledger by the ends of their names: closed properly, or as a killed run leaves them.
fn good(shared: bool, killed: bool) -> &'static BTreeMap<String, Vec<u8>> {
    static GOOD: OnceLock<[BTreeMap<String, Vec<u8>>; 4]> = OnceLock::new();
    let make = || [(false, false), (true, false), (false, true), (true, true)].map(make);
    &GOOD.get_or_init(make)[usize::from(shared) + 2 * usize::from(killed)]
}

fn make((shared, killed): (bool, bool)) -> BTreeMap<String, Vec<u8>> {
    let directory = tempfile::tempdir().unwrap();
    let place = place(directory.path(), shared);
    let path = place.path().unwrap();
    let read = || {
        let ends = ["", "-wal"].map(str::to_owned);
        let there = ends.into_iter().filter_map(|end| {
            let bytes = fs::read(beside(&path, &end)).ok()?;
            Some((end, bytes))
        });
        there.collect()
    };
    let ledger = OpenLedger::open(settings(place, Reuse::All, true)).unwrap();
    let keys = ledger.hasher();
    let (ledger, writer) = ledger.start().unwrap();
    let found = |value| Some(FoundLimit { value, times: 3 });
    writer.found(Limit {
        rate: found(7.5),
        in_flight: found(3.0),
    });
    for (number, body) in BODIES.iter().enumerate().take(KEPT) {
        wait(writer.keep(keys.key(body), answer(number))).unwrap();
    }
    let open: BTreeMap<_, _> = read();
    drop(writer);
    ledger.settle(Removal::Never, PATIENCE).finish().unwrap();
    if killed { open } else { read() }
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// The files with the changes that the input describes.
fn changed(good: &BTreeMap<String, Vec<u8>>, changes: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut files = good.clone();
    for change in changes.chunks_exact(5) {
        let end = if change[0] & 0x80 == 0 { "" } else { "-wal" };
        let Some(file) = files.get_mut(end).filter(|file| !file.is_empty()) else {
            continue;
        };
        let at = place_of(file, [change[1], change[2], change[3]]);
        match change[0] % 8 {
            0 | 1 => file[at] ^= change[4],
            2 | 3 => file[at] = change[4],
            4 => file.truncate(at),
            5 => file.extend(std::iter::repeat_n(change[4], at % 512)),
            // A sector that the disk lost, and one that it wrote to a wrong place.
            6 => {
                let sector = at / 512 * 512;
                let end = (sector + 512).min(file.len());
                file[sector..end].fill(change[4]);
            }
            _ => {
                let (from, to) = (at / 512 * 512, usize::from(change[4]) * 512);
                if from.max(to) + 512 <= file.len() {
                    file.copy_within(from..from + 512, to);
                }
            }
        }
    }
    files
}

/// Where a change is made: anywhere or, with the highest bit set, within 64 bytes of an answer's score.
fn place_of(file: &[u8], [high, middle, low]: [u8; 3]) -> usize {
    let score = SCORE.as_bytes();
    let scores = file.windows(score.len()).rposition(|bytes| bytes == score);
    match scores.filter(|_| high & 0x80 != 0) {
        Some(at) => (at + usize::from(low % 128)).saturating_sub(64) % file.len(),
        None => u32::from_be_bytes([0, high, middle, low]) as usize % file.len(),
    }
}

/// Whether a file claims to be a ledger, of any version; an empty file may become one.
fn is_ledger(file: &[u8]) -> bool {
    let ours = |id: &[u8]| id == b"rsco" || id == b"rscs";
    file.len() >= 72 && file.starts_with(b"SQLite format 3\0") && ours(&file[68..72])
}

fn untouched(path: &Path, files: &BTreeMap<String, Vec<u8>>) {
    for (end, bytes) in files {
        let now = fs::read(beside(path, end)).unwrap();
        assert!(now == *bytes, "`{end}` of what is not a ledger was changed");
    }
    let names = fs::read_dir(path.parent().unwrap()).unwrap().count();
    assert_eq!(
        names,
        files.len(),
        "something was left beside what is not a ledger"
    );
}

/// Words of the database that do not help a person.
const RAW: [&str; 12] = [
    "sql",
    "table",
    "column",
    "malformed",
    "constraint",
    "datatype",
    "index",
    "query",
    "no such",
    "utf-8",
    "os error",
    "disk image",
];

/// Asserts that a person can act on the error.
fn check(error: Option<&Error>, path: &Path, foreign: bool) {
    let Some(error) = error else {
        return;
    };
    let directory = path.parent().unwrap().display().to_string();
    let report = error.report().replace(&directory, "");
    let code = error.exit().code();
    assert!(
        code == 2 || (code == 3 && !foreign),
        "exit code {code}: {report}"
    );
    let lower = report.to_lowercase();
    for word in RAW {
        assert!(!lower.contains(word), "raw words: {report}");
    }
    assert!(
        report.len() < 400 && report.lines().count() <= 4,
        "too long: {report}"
    );
}
