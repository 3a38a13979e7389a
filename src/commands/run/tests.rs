//! Every write of a run fails, the first, the second, the third …, once or for ever: no row has another one's verdict,
//! no answer that was kept is asked for again, and the next run gives the bytes of a run where nothing failed.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

use super::*;
use crate::fields::{Assignments, InvalidPhone};
use crate::input::{FormatChoice, Settings as InputSettings};
use crate::layout::{Existing, VERDICT_COLUMNS};
use crate::ledger::{self, Fails, Ledger, Place, Removed, Reuse};
use crate::output::{Replace, Sides, Sink};
use crate::pace::{FailureBudget, Rate};
use crate::scorer::Patience;
use crate::service::scripted::{Brings, Scripted};
use crate::verdict::DecisionPolicy;

const ROWS: usize = 30;
/// Every fifth row asks the same as the one before.
const UNIQUE: usize = 24;
const CONCURRENCY: usize = 3;
const NOTHING_FAILS: Fails = Fails {
    nth: 0,
    for_ever: false,
    durable: false,
    kind: io::ErrorKind::Other,
};

/// The file, and the file as it must come back.
fn users() -> (String, String) {
    let mut csv = "id,name,email,ip,user_agent\n".to_owned();
    let mut scored = "id,name,email,ip,user_agent,transaction_id,risk_score,decision\n".to_owned();
    for row in 1..=ROWS {
        let user = if row % 5 == 0 { row - 1 } else { row };
        let line = format!("{row},{user},u{user}@example.com,192.0.2.1,u");
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
    fails: Fails,
}

impl Write for Unsteady {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut taken = self.0.lock().unwrap();
        taken.writes += 1;
        let Fails {
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

struct Course(TempDir);

struct Ran {
    exit: Exit,
    error: Option<String>,
    /// Users that were asked for.
    asked: Vec<u64>,
    output: String,
}

impl Course {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("users.csv"), users().0).unwrap();
        Self(place)
    }

    fn output(&self) -> std::path::PathBuf {
        self.0.path().join("scored.csv")
    }

    fn ledger(&self) -> Ledger {
        let settings = ledger::Settings {
            place: Place::Beside(self.output()),
            reuse: Reuse::All,
            output: Some(self.output()),
            endpoint: "https://api.example.com/v1/validate/user".to_owned(),
            service_id: "test".to_owned(),
            captured: Vec::new(),
            in_flight: CONCURRENCY.try_into().unwrap(),
        };
        Ledger::open(settings).unwrap()
    }

    /// Answers that are durable now.
    fn durable(&self) -> usize {
        let held = self.ledger().held();
        held.map_or(0, |held| held.answers.try_into().unwrap())
    }

    /// A run as `execute` does it, with a ledger that fails as said, to the file or to an output that fails.
    fn run(&self, fails: Fails, unsteady: Option<&Unsteady>) -> Ran {
        let settings = InputSettings {
            input: Input::File(self.0.path().join("users.csv")),
            format: FormatChoice::Detect,
            delimiter: None,
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
        let mut ledger = self.ledger();
        let target = Target::new(&self.output(), |_| Replace::Whole).unwrap();
        let sink = match unsteady {
            Some(unsteady) => Sink::stream(unsteady.clone()),
            None => target.open().unwrap(),
        };
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
                    known: None,
                    outage: Patience::DEFAULT.outage,
                },
                fastrand::Rng::with_seed(7),
            ),
            patience: Patience::DEFAULT,
            retries: RetryPolicy::new(4, 1),
            outage: Outage::default(),
            fuse: RefCell::new(Fuse::default()),
            calls: CallBudget::new(None),
            failures: FailureBudget::default(),
            keeper: Some(ledger.failing_keeper(fails).unwrap()),
            keys: Keyring::default(),
            transactions: RefCell::default(),
            policy: DecisionPolicy::default(),
            columns: Box::default(),
            host: "scripted.test".to_owned(),
            events: events.clone(),
        };
        let desk = Desk::new(&ledger, true).unwrap();
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
        let (written, error) = drive(&runtime, &scorer, rows, concurrency, stops, |_| ()).unwrap();
        let asked = scorer.service.rows();
        drop(scorer);
        let stats = events.with_stats(Clone::clone);
        let removed = if stats.exit() == Exit::Complete {
            Removed::WhenUsed(stats.known + stats.answered)
        } else if written.output.is_some() {
            Removed::Never
        } else {
            Removed::WhenEmpty
        };
        ledger.end(removed, Duration::from_secs(30)).unwrap();
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
        let scored = users().1;
        assert_eq!(failed.exit, Exit::Stopped, "{what}");
        let error = failed.error.as_deref().unwrap_or_default();
        assert!(error.starts_with(words), "{what}: {error}");
        let durable = self.durable();
        let lost = failed.asked.len().saturating_sub(durable);
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
            written.len() <= durable,
            "{what}: a row before its answer was durable"
        );

        let next = self.run(NOTHING_FAILS, None);
        assert_eq!((next.exit, next.error), (Exit::Complete, None), "{what}");
        assert_eq!(next.output, scored, "{what}");
        assert_eq!(
            next.asked.len(),
            UNIQUE - durable,
            "{what}: only what was not durable"
        );
        let names = fs::read_dir(self.0.path()).unwrap().count();
        assert_eq!(names, 2, "{what}: the input and the output");
    }
}

/// All ways to fail at the nth operation.
fn ways(nth: usize) -> impl Iterator<Item = Fails> {
    [
        (false, false, io::ErrorKind::StorageFull),
        (true, false, io::ErrorKind::Other),
        (false, true, io::ErrorKind::Other),
    ]
    .into_iter()
    .map(move |(for_ever, durable, kind)| Fails {
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
            let ran = course.run(fails, None);
            if ran.exit == Exit::Complete {
                assert_eq!((ran.output, ran.asked.len()), (users().1, UNIQUE));
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
            let ran = course.run(NOTHING_FAILS, Some(&unsteady));
            if ran.exit == Exit::Complete {
                assert_eq!((ran.output, ran.asked.len()), (users().1, UNIQUE));
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
    assert!(failures >= 3 * users().1.len() / 100, "{failures}");
}
