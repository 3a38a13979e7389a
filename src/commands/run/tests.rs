//! Every write of a run and every look-up fails, the first, the second, the third …, once or for ever: no row has another
//! one's verdict, no answer that was kept is asked for again, and the next run gives the bytes of a run where nothing
//! failed.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod reads;

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

use super::*;
use crate::fields::{Assignments, InvalidPhone};
use crate::input::{FormatChoice, Settings as InputSettings};
use crate::layout::{Existing, VERDICT_COLUMNS};
use crate::ledger::{LedgerLocation, LedgerSettings, OpenLedger, Removal, Reuse, StoreFaults};
use crate::output::{Replace, Sides, Sink};
use crate::pace::{FailureBudget, Rate};
use crate::scorer::Patience;
use crate::service::scripted::{Brings, Scripted};
use crate::verdict::DecisionPolicy;

const ROWS: usize = 30;
/// Every fifth row asks the same as the one before, and some the same as one that has its answer long since.
const UNIQUE: usize = 20;
const CONCURRENCY: usize = 3;

/// What fails in a run, or ends it.
#[derive(Clone, Copy)]
struct Trouble<'a> {
    keeping: StoreFaults,
    /// Look-ups of rows as they are read.
    reading: StoreFaults,
    /// Those just before a call.
    calling: StoreFaults,
    /// The output, which is the file otherwise.
    output: Option<&'a Unsteady>,
    /// As many calls as there can be.
    calls: Option<NonZeroU64>,
}

impl Trouble<'_> {
    const NONE: Self = Self {
        keeping: StoreFaults::NEVER,
        reading: StoreFaults::NEVER,
        calling: StoreFaults::NEVER,
        output: None,
        calls: None,
    };
}

/// The user that a row is of.
const fn user_of(row: usize) -> usize {
    match row % 5 {
        0 => row - 1,
        3 => (row - 1) % 10 + 1,
        _ => row,
    }
}

/// The file, and the file as it must come back; each row is longer by so many bytes.
fn users(longer: usize) -> (String, String) {
    let mut csv = "id,name,email,ip,user_agent,note\n".to_owned();
    let mut scored =
        "id,name,email,ip,user_agent,note,transaction_id,risk_score,decision\n".to_owned();
    for row in 1..=ROWS {
        let (user, note) = (user_of(row), "n".repeat(longer));
        let line = format!("{row},{user},u{user}@example.com,192.0.2.1,u,{note}");
        csv += &format!("{line}\n");
        scored += &format!("{line},t-{user},1,approve\n");
    }
    (csv, scored)
}

/// An output that takes a few bytes a write, and fails.
#[derive(Clone)]
struct Unsteady(Arc<Mutex<Taken>>);

struct Taken {
    bytes: Vec<u8>,
    writes: usize,
    fails: StoreFaults,
}

impl Write for Unsteady {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut taken = self.0.lock().unwrap();
        taken.writes += 1;
        let StoreFaults {
            nth,
            for_ever,
            durable,
            kind,
        } = taken.fails;
        let step = 100.min(bytes.len());
        if nth == 0 || taken.writes < nth || (taken.writes > nth && !for_ever) {
            taken.bytes.extend_from_slice(&bytes[..step]);
            return Ok(step);
        }
        if durable {
            taken.bytes.extend_from_slice(&bytes[..step / 2]);
        }
        Err(kind.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Course {
    place: TempDir,
    /// Bytes that each row is longer by.
    longer: usize,
    /// Whether the ledger is one that others may write to as well.
    shared: bool,
}

struct Ran {
    exit: Exit,
    error: Option<String>,
    /// Users that were asked for.
    asked: Vec<u64>,
    output: String,
}

impl Course {
    fn new() -> Self {
        Self::with(0, false)
    }

    fn with(longer: usize, shared: bool) -> Self {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("users.csv"), users(longer).0).unwrap();
        Self {
            place,
            longer,
            shared,
        }
    }

    fn output(&self) -> std::path::PathBuf {
        self.place.path().join("scored.csv")
    }

    fn ledger(&self) -> OpenLedger {
        let settings = LedgerSettings {
            location: if self.shared {
                LedgerLocation::Shared(self.place.path().join("answers.ledger"))
            } else {
                LedgerLocation::Beside(self.output())
            },
            reuse: Reuse::All,
            output: Some(self.output()),
            endpoint: "https://api.example.com/v1/validate/user".to_owned(),
            service_id: "test".to_owned(),
            captured: Vec::new(),
            in_flight: CONCURRENCY.try_into().unwrap(),
        };
        OpenLedger::open(settings).unwrap()
    }

    /// Users whose answers are durable now.
    fn durable(&self) -> HashSet<u64> {
        let ledger = self.ledger();
        let (keys, lookup) = (ledger.hasher(), ledger.lookup().unwrap());
        let Some(mut lookup) = lookup else {
            return HashSet::new();
        };
        let mut has = |user: &u64| {
            let body = Scripted::body(*user);
            lookup
                .find(&keys.key(&body), &body)
                .unwrap()
                .known
                .is_some()
        };
        (1..=ROWS as u64).filter(|user| has(user)).collect()
    }

    /// A run as `execute` does it, with this trouble.
    fn run(&self, trouble: Trouble<'_>) -> Ran {
        let Trouble {
            keeping,
            reading,
            calling,
            output: unsteady,
            calls,
        } = trouble;
        let settings = InputSettings {
            input: Input::File(self.place.path().join("users.csv")),
            format: FormatChoice::Detect,
            delimiter: None,
            no_header: false,
            judges_first_rows: true,
            assignments: Assignments::default(),
            invalid_phone: InvalidPhone::Reject,
            existing: Existing::Replace,
            columns: VERDICT_COLUMNS.map(str::to_owned).into(),
            max_record: 1 << 20,
        };
        let compose = Box::new(|request: &UserRequest<'_>, to: &mut BytesMut| {
            to.extend_from_slice(request.name.as_bytes());
        });
        let (reader, opened) = Reader::open(settings, compose).unwrap();
        let ledger = self.ledger();
        let target = Target::new(&self.output(), |_| Replace::Whole).unwrap();
        let sink = match unsteady {
            Some(unsteady) => Sink::stream(unsteady.clone()),
            None => target.open(0o666).unwrap(),
        };
        let desk = Desk::new(&ledger, true).unwrap().failing(reading);
        let (ledger, keeper) = ledger.start_failing(keeping).unwrap();
        keeper.fail_to_look(calling);
        let runtime = runtime().unwrap();
        let (service, events) = runtime.block_on(async {
            let service = Scripted::new(Brings::Verdict.at_once());
            (service, Events::new(Vec::new()))
        });
        let concurrency = CONCURRENCY.try_into().unwrap();
        let scorer = Scorer {
            service,
            gate: Gate::new(
                Bounds {
                    rate: Rate::Unlimited,
                    in_flight: concurrency,
                    known: Limit::NONE,
                    outage: Patience::DEFAULT.outage,
                },
                fastrand::Rng::with_seed(7),
            ),
            patience: Patience::DEFAULT,
            retries: RetryPolicy::new(4, 1),
            outage: Outage::default(),
            fuse: RefCell::new(Fuse::default()),
            calls: CallBudget::new(calls),
            failures: FailureBudget::default(),
            keeper: Some(keeper),
            keys: Keyring::default(),
            transactions: RefCell::default(),
            absent: RefCell::default(),
            policy: DecisionPolicy::default(),
            columns: Box::default(),
            host: "scripted.test".to_owned(),
            events: events.clone(),
        };
        let rows = (
            reader,
            desk,
            Writer::new(
                opened.layout,
                DecisionPolicy::default(),
                sink,
                Sides::default(),
            ),
        );
        let stops = mpsc::unbounded_channel();
        let (written, error) = drive(&runtime, &scorer, rows, stops, |_| ()).unwrap();
        let asked = scorer.service.rows();
        drop(scorer);
        let stats = events.with_stats(Clone::clone);
        let removed = if stats.exit() == Exit::Complete {
            Removal::WhenUsed(stats.known + stats.answered)
        } else if written.output.is_some() {
            Removal::Never
        } else {
            Removal::WhenEmpty
        };
        ledger.close(removed, Duration::from_secs(30)).unwrap();
        let output = match (unsteady, written.output) {
            (Some(unsteady), _) => unsteady.0.lock().unwrap().bytes.clone(),
            (None, Some(path)) => fs::read(path).unwrap(),
            (None, None) => Vec::new(),
        };
        Ran {
            exit: stats.exit(),
            error: error.map(|error| error.report()),
            asked,
            output: String::from_utf8(output).unwrap(),
        }
    }

    /// Holds a run in which something failed, and the run after it, to what they promise.
    fn check(&self, failed: &Ran, words: &str, torn: bool, what: &str) {
        let scored = users(self.longer).1;
        assert_eq!(failed.exit, Exit::Stopped, "{what}");
        let error = failed.error.as_deref().unwrap_or_default();
        assert!(error.starts_with(words), "{what}: {error}");
        let durable = self.durable();
        let asked: HashSet<_> = failed.asked.iter().copied().collect();
        assert_eq!(asked.len(), failed.asked.len(), "{what}: once");
        let lost = asked.difference(&durable).count();
        assert!(lost <= 2 * CONCURRENCY, "{what}: {lost} are lost");

        // A stream cannot be cut back to its last whole row; a file can.
        let whole = failed.output.rfind('\n').map_or(0, |end| end + 1);
        let (rows, rest) = failed.output.split_at(whole);
        assert!(torn || rest.is_empty(), "{what}: {rest}");
        let mut expected = scored.split_inclusive('\n');
        let right = rows
            .split_inclusive('\n')
            .all(|row| expected.any(|expected| expected == row));
        assert!(right, "{what}: {rows}");
        let written: HashSet<_> = rows
            .lines()
            .skip(1)
            .map(|row| row.split(',').nth(1))
            .collect();
        assert!(
            written.len() <= durable.len(),
            "{what}: a row before its answer was durable"
        );

        let next = self.run(Trouble::NONE);
        assert_eq!((next.exit, next.error), (Exit::Complete, None), "{what}");
        assert_eq!(next.output, scored, "{what}");
        assert_eq!(
            next.asked.len(),
            UNIQUE - durable.len(),
            "{what}: only what was not durable"
        );
        assert!(
            !next.asked.iter().any(|user| durable.contains(user)),
            "{what}"
        );
        let names = fs::read_dir(self.place.path()).unwrap().count();
        let expected = 2 + usize::from(self.shared);
        assert_eq!(
            names, expected,
            "{what}: the input, the output, a shared ledger"
        );
    }
}

/// All ways to fail at the nth operation.
fn ways(nth: usize) -> impl Iterator<Item = StoreFaults> {
    [
        (false, false, io::ErrorKind::StorageFull),
        (true, false, io::ErrorKind::Other),
        (false, true, io::ErrorKind::Other),
    ]
    .into_iter()
    .map(move |(for_ever, durable, kind)| StoreFaults {
        nth,
        for_ever,
        durable,
        kind,
    })
}

#[test]
fn whichever_group_of_answers_cannot_be_kept_the_next_run_goes_on() {
    let mut failures = 0;
    for nth in 1.. {
        let mut any_failed = false;
        for fails in ways(nth) {
            let course = Course::new();
            let ran = course.run(Trouble {
                keeping: fails,
                ..Trouble::NONE
            });
            if ran.exit == Exit::Complete {
                assert_eq!((ran.output, ran.asked.len()), (users(0).1, UNIQUE));
                continue;
            }
            any_failed = true;
            failures += 1;
            let what = format!("{fails:?}");
            course.check(&ran, "error: cannot keep answers in", false, &what);
        }
        if !any_failed {
            break;
        }
    }
    // As many groups at least as two for each call in flight would make.
    assert!(failures >= 3 * UNIQUE / (2 * CONCURRENCY), "{failures}");
}

#[test]
fn whichever_write_of_the_output_fails_the_next_run_goes_on() {
    let mut failures = 0;
    for nth in 1.. {
        let mut any_failed = false;
        for fails in ways(nth) {
            let course = Course::new();
            let unsteady = Unsteady(Arc::new(Mutex::new(Taken {
                bytes: Vec::new(),
                writes: 0,
                fails,
            })));
            let ran = course.run(Trouble {
                output: Some(&unsteady),
                ..Trouble::NONE
            });
            if ran.exit == Exit::Complete {
                assert_eq!((ran.output, ran.asked.len()), (users(0).1, UNIQUE));
                continue;
            }
            any_failed = true;
            failures += 1;
            let what = format!("{fails:?}");
            course.check(&ran, "error: cannot write the output", true, &what);
        }
        if !any_failed {
            break;
        }
    }
    // Each write takes a hundred bytes at most.
    assert!(failures >= 3 * users(0).1.len() / 100, "{failures}");
}
