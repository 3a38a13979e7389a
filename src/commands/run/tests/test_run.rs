//! A run of the stages over a scripted service, in which something fails, and checks of it and of the next run.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::BytesMut;
use tempfile::TempDir;

use crate::base::error::Exit;
use crate::base::private_file::Readers;
use crate::commands::run::finish::run_end;
use crate::commands::run::running::{RowStages, RowsEnd, run_rows};
use crate::commands::signals::runtime;
use crate::engine::{Fixture, directory, ledger};
use crate::fields::UserRequest;
use crate::input::{Compose, Input, Reader, ReaderSettings};
use crate::ledger::tests::faults::StoreFaults;
use crate::ledger::{Budget, OpenLedger, Per};
use crate::output::{OutputFile, Replace, RowFiles, Target, Writer};
use crate::service::scripted::{Scripted, ScriptedResult};
use crate::telemetry::counts::Events;
use crate::verdict::DecisionPolicy;

pub(super) const ROWS: usize = 30;
/// Every fifth row has the request of the row before, and some have the request of a row that was answered long before.
pub(super) const UNIQUE: usize = 20;
pub(super) const CONCURRENCY: usize = 3;

/// What fails in a run, or ends it.
#[derive(Clone, Copy)]
pub(super) struct InjectedFaults {
    pub(super) keeping: StoreFaults,
    /// Look-ups of rows as they are read.
    pub(super) reading: StoreFaults,
    /// Writes of the output, which goes to a stream then.
    pub(super) writing: StoreFaults,
    /// The most calls.
    pub(super) calls: Option<NonZeroU64>,
}

impl InjectedFaults {
    pub(super) const NONE: Self = Self {
        keeping: StoreFaults::NEVER,
        reading: StoreFaults::NEVER,
        writing: StoreFaults::NEVER,
        calls: None,
    };
}

/// What a run promises in which something failed.
#[derive(Clone, Copy)]
pub(super) struct Promised {
    /// How its error starts.
    pub(super) words: &'static str,
    /// Whether its last row may be cut off.
    pub(super) torn: bool,
    /// How many paid answers may be lost.
    pub(super) lost: usize,
}

/// The user in a row.
const fn user_of(row: usize) -> usize {
    match row % 5 {
        0 => row - 1,
        3 => (row - 1) % 10 + 1,
        _ => row,
    }
}

/// The input, and the output that it must give; each row is longer by this many bytes.
pub(super) fn users(longer: usize) -> (String, String) {
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

/// An output that takes a few bytes per write, and fails.
#[derive(Clone)]
struct FailingOutput(Arc<Mutex<Taken>>);

struct Taken {
    bytes: Vec<u8>,
    writes: usize,
    fails: StoreFaults,
}

impl Write for FailingOutput {
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

pub(super) struct TestRun {
    place: TempDir,
    /// How many bytes longer each row is.
    pub(super) longer: usize,
}

pub(super) struct TestRunEnd {
    pub(super) exit: Exit,
    pub(super) error: Option<String>,
    /// Users that were asked for.
    pub(super) asked: Vec<u64>,
    pub(super) output: String,
}

impl TestRun {
    pub(super) fn new(longer: usize) -> Self {
        let place = directory();
        fs::write(place.path().join("users.csv"), users(longer).0).unwrap();
        Self { place, longer }
    }

    fn output(&self) -> std::path::PathBuf {
        self.place.path().join("scored.csv")
    }

    fn ledger(&self, calls: Option<NonZeroU64>) -> OpenLedger {
        let path = self.place.path().join("rescore.ledger");
        let limits = calls.map(|most| Budget::calls(most, Per::Run));
        let limits = limits.into_iter().collect();
        ledger(&path, Some(self.output()), CONCURRENCY, limits)
    }

    /// Users whose answers are durable now.
    pub(super) fn durable(&self) -> HashSet<u64> {
        let ledger = self.ledger(None);
        let (keys, mut lookup) = (ledger.facts.hasher.clone(), ledger.lookup().unwrap());
        let users: Vec<_> = (1..=ROWS as u64).collect();
        let keys: Vec<_> = { users.iter() }
            .map(|user| keys.key(&Scripted::body(*user)))
            .collect();
        let found = lookup.look_up(&keys).unwrap();
        let known = users.into_iter().zip(found);
        let known = known.filter(|(_, found)| found.result.is_some());
        known.map(|(user, _)| user).collect()
    }

    /// A run as the command makes it, with these failures.
    #[allow(clippy::too_many_lines, reason = "it is the whole run, in its order")]
    pub(super) fn run(&self, faults: InjectedFaults) -> TestRunEnd {
        let InjectedFaults {
            keeping,
            reading,
            writing,
            calls,
        } = faults;
        let input = Input::File(self.place.path().join("users.csv"));
        let settings = ReaderSettings::without_options(input);
        let compose = Compose::new(|request: &UserRequest<'_>, to: &mut BytesMut| {
            to.extend_from_slice(request.name.as_bytes());
        });
        let (reader, opened) = Reader::open(settings, compose).unwrap();
        let ledger = self.ledger(calls).failing(Some(keeping), reading);
        let target = Target::new(&self.output(), Replace::Whole).unwrap();
        let stream = FailingOutput(Arc::new(Mutex::new(Taken {
            bytes: Vec::new(),
            writes: 0,
            fails: writing,
        })));
        let output = match writing.nth {
            0 => target.open(Readers::EVERYBODY).unwrap(),
            _ => OutputFile::stream(stream.clone()),
        };
        let lookup = ledger.lookup().unwrap();
        let (ledger, ledger_writer) = ledger.start().unwrap();
        let runtime = runtime().unwrap();
        let (service, events) = runtime.block_on(async {
            let service = Scripted::new(ScriptedResult::Verdict.immediately());
            (service, Events::new())
        });
        let engine = Fixture::new(service).build_with(|it| {
            it.concurrency = CONCURRENCY;
            it.ledger = ledger_writer;
            it.events = events.clone();
        });
        let decisions = DecisionPolicy::default();
        let rows = RowStages {
            reader,
            stops_at_broken: true,
            lookup: Arc::new(Mutex::new(lookup)),
            writer: Writer::new(opened.layout, decisions, RowFiles::new(output, None, None)),
        };
        let ended = run_rows(
            &runtime,
            &engine,
            rows,
            &mut tokio::sync::mpsc::unbounded_channel(),
            |_| (),
        );
        let RowsEnd { written, error, .. } = ended.unwrap();
        engine.end(events.with_counts(run_end));
        let asked = engine.service().rows();
        drop(engine);
        let stats = events.with_counts(Clone::clone);
        assert!(ledger.wait_until_stored(Duration::from_secs(30)));
        ledger.finish(Duration::from_secs(30));
        let streamed = stream.0.lock().unwrap().bytes.clone();
        let output = written.output.map(|path| fs::read(path).unwrap());
        let output = output.unwrap_or(streamed);
        TestRunEnd {
            exit: stats.exit(),
            error: error.map(|error| error.report()),
            asked,
            output: String::from_utf8(output).unwrap(),
        }
    }

    /// Checks what a run in which something failed promises, and the run after it.
    pub(super) fn check(&self, failed: &TestRunEnd, promised: Promised, what: &str) {
        let Promised { words, torn, lost } = promised;
        let scored = users(self.longer).1;
        assert_eq!(failed.exit, Exit::Stopped, "{what}");
        let error = failed.error.as_deref().unwrap_or_default();
        assert!(error.starts_with(words), "{what}: {error}");
        let durable = self.durable();
        let asked: HashSet<_> = failed.asked.iter().copied().collect();
        assert_eq!(asked.len(), failed.asked.len(), "{what}: once");
        let really_lost = asked.difference(&durable).count();
        assert!(really_lost <= lost, "{what}: {really_lost} are lost");

        // A file is cut back to its last whole row; a stream cannot be.
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
        let is_durable = written.len() <= durable.len();
        assert!(is_durable, "{what}: a row before its answer was durable");

        let next = self.run(InjectedFaults::NONE);
        assert_eq!((next.exit, next.error), (Exit::Complete, None), "{what}");
        assert_eq!(next.output, scored, "{what}");
        assert_eq!(next.asked.len(), UNIQUE - durable.len(), "{what}");
        let again = next.asked.iter().any(|user| durable.contains(user));
        assert!(!again, "{what}: what was durable is asked for again");
        let names = fs::read_dir(self.place.path()).unwrap().count();
        assert_eq!(names, 3, "{what}: the input, the output, the ledger");
    }
}
