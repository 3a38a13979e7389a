//! The status of a run in a small file of its own, from which `rescore status` tells how the run is, from any shell.
//!
//! The run holds the kernel's lock on its file for as long as it lives: a file that is not locked and has no exit code is that
//! of a run that was killed. A thread of its own writes it, in place, so that a disk that hangs delays nobody and a full one
//! has room. A run that cannot have such a file does without. What is in it has no value of a row and no key.

use std::cmp::Reverse;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Read as _;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::numbers::{one_line, utc_seconds};
use super::summary::{RunIdentity, RunSummary};
use crate::base::numbers::DAY;
use crate::base::private_file::{self, OWNER, not_trusted};

/// How often a run reports.
const INTERVAL: Duration = Duration::from_secs(2);
/// A run that has not reported for this long is stopped, or hangs: a busy machine delays a report by a second or two.
const SILENCE: Duration = Duration::from_secs(10);
/// How long the last report may delay the end of the process.
const MAX_LAST_WRITE: Duration = Duration::from_secs(1);
/// How many days the status of a run that has ended is kept: its output has long been used by then.
const DAYS_KEPT: u32 = 30;
/// How many runs to one output, or to standard output, have a file each at a time: few wait for each other.
const MAX_AT_A_TIME: usize = 100;
/// How often a status is read that is just being written, which takes some microseconds.
const MAX_READS: usize = 1_000;
/// How every such file starts: no other file is ever written to or removed.
const STATUS_START: &[u8] = br#"{"type":"status","#;

/// What a run reports of itself.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(tag = "type", rename = "status")]
pub(crate) struct RunStatus {
    /// Of the object's keys.
    version: u8,
    /// How far it is, as far as a reader can tell.
    #[serde(skip_deserializing)]
    pub(crate) state: RunPhase,
    /// Its process.
    pub(crate) pid: u32,
    /// The machine.
    pub(crate) host: Option<String>,
    /// When it started, in UTC.
    pub(crate) start_time: String,
    /// When it last reported.
    pub(crate) report_time: String,
    /// How it exited.
    pub(crate) exit_code: Option<u8>,
    /// The path of its only input, or its inputs in words.
    pub(crate) input: String,
    /// The path of its output with links followed; `None` is standard output.
    pub(crate) output: Option<String>,
    /// In words: how far it is and why it waits, or how it ended.
    pub(crate) message: String,
    /// If it was killed: what the same command does.
    pub(crate) hint: Option<String>,
    /// The object for programs while rows run.
    pub(super) progress: Option<Box<RawValue>>,
    /// The object for programs once they are done.
    summary: Option<Box<RawValue>>,
    /// When its file was last written to.
    #[serde(skip)]
    last_write: Option<SystemTime>,
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RunPhase {
    /// No row runs yet, or none in this round.
    #[default]
    Preparing,
    /// Its rows run, or its files are completed.
    Running,
    /// It lives, and does not report.
    Silent,
    /// It has ended by itself.
    Ended,
    /// It was killed, or the machine went down.
    Killed,
}

/// Brings what a run reports up to date.
type Reporter = Box<dyn FnMut(&mut RunStatus) + Send>;

/// Where each stage of this process's run leaves its reporter; other commands report nothing.
static REPORTERS: OnceLock<Sender<Reporter>> = OnceLock::new();

/// From now on, this brings up to date what the run reports.
pub(super) fn report(reporter: impl FnMut(&mut RunStatus) + Send + 'static) {
    // Without a receiver, the run has no such file.
    let _ = REPORTERS.get().map(|to| to.send(Box::new(reporter)));
}

/// From now on, the run prepares its rows, and this says what it waits for.
pub(crate) fn report_preparing(words: impl Fn() -> String + Send + 'static) {
    report(move |status| {
        (status.message, status.progress, status.summary) = (words(), None, None);
    });
}

/// The rows are done, or the run could not start. These are the words of its end.
pub(crate) fn report_summary(words: &str, summary: &RunSummary<'_>) {
    let words = words.trim_start_matches("rescore: ");
    let (words, json) = (words.replace("\n         ", "\n"), one_line(summary));
    report(move |status| {
        status.message.clone_from(&words);
        status.summary = RawValue::from_string(json.clone()).ok();
        status.progress = None;
    });
}

/// The process ends with this exit code. Waits briefly until that is written.
pub(crate) fn report_exit(code: u8) {
    let (until_written, written) = channel::<()>();
    report(move |status| {
        let _ = &until_written;
        status.exit_code = Some(code);
    });
    let _ = written.recv_timeout(MAX_LAST_WRITE);
}

/// From now on, the run reports to a file in this directory, which is made if it is missing.
pub(crate) fn start_reports(
    directory: PathBuf,
    identity: &RunIdentity,
    host: Option<String>,
    input: String,
    output: Option<String>,
) {
    let status = RunStatus {
        version: 1,
        pid: std::process::id(),
        host,
        start_time: utc_seconds(identity.start_time),
        input,
        output,
        message: "starting".to_owned(),
        hint: Some("it had made no call; the same command starts it again".to_owned()),
        ..RunStatus::default()
    };
    let (sender, reporters) = channel();
    let keep = move || {
        let file = status.open_in(&directory);
        file.map(|file| status.keep(&file, &reporters))
    };
    let thread = std::thread::Builder::new().name("status".to_owned());
    if REPORTERS.set(sender).is_ok() {
        // If it cannot be started, nothing is reported.
        let _ = thread.spawn(keep);
    }
}

impl RunStatus {
    /// Opens and locks the file of this run. The runs to one output have the same, one after the other; one that waits for
    /// another has the next.
    fn open_in(&self, directory: &Path) -> Option<File> {
        let mut builder = DirBuilder::new();
        // If it cannot be made, there are no files in it.
        let _ = builder.recursive(true).mode(0o700).create(directory);
        for path in paths_in(directory)? {
            let is_old = |run: &Self| !run.is_alive() && run.since_report() > DAYS_KEPT * DAY;
            if Self::read(&path).as_ref().is_some_and(is_old) {
                let _ = fs::remove_file(&path);
            }
        }
        let mut hasher = DefaultHasher::new();
        self.output.hash(&mut hasher);
        let mut names = (0..MAX_AT_A_TIME).map(|n| format!("{:016x}-{n}", hasher.finish()));
        names.find_map(|name| lock_file(&directory.join(name)))
    }

    fn keep(mut self, file: &File, reporters: &Receiver<Reporter>) {
        let mut report: Reporter = Box::new(|_| {});
        loop {
            report(&mut self);
            self.report_time = utc_seconds(SystemTime::now());
            // The run goes on without it. What is left of a longer report stays behind the line end, and is not read.
            let _ = file.write_all_at((one_line(&self) + "\n").as_bytes(), 0);
            if self.exit_code.is_some() {
                return;
            }
            if let Ok(next) = reporters.recv_timeout(INTERVAL) {
                report = next;
            }
        }
    }

    /// Reads the status of a run; `None` if there is none in this file.
    fn read(path: &Path) -> Option<Self> {
        let file = private_file::open(path, OpenOptions::new().read(true)).ok()?;
        let is_locked = || {
            let locked = file.try_lock_shared();
            let _ = file.unlock();
            matches!(locked, Err(TryLockError::WouldBlock))
        };
        let read = || {
            let mut text = vec![0; usize::try_from(file.metadata().ok()?.len()).ok()?];
            file.read_exact_at(&mut text, 0).ok()?;
            serde_json::from_slice(text.split(|byte| *byte == b'\n').next()?).ok()
        };
        // The run may start or end meanwhile.
        let was_alive = is_locked();
        let mut status: Self = (0..MAX_READS).find_map(|_| read())?;
        status.last_write = file.metadata().ok()?.modified().ok();
        status.state = match status.exit_code {
            Some(_) => RunPhase::Ended,
            None if !was_alive && !is_locked() => RunPhase::Killed,
            None if status.since_report() > SILENCE => RunPhase::Silent,
            None if status.progress.is_some() || status.summary.is_some() => RunPhase::Running,
            None => RunPhase::Preparing,
        };
        status.hint = status.hint.filter(|_| status.state == RunPhase::Killed);
        Some(status)
    }

    /// Whether its process is there.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, RunPhase::Ended | RunPhase::Killed)
    }

    /// How long ago it last reported.
    pub(crate) fn since_report(&self) -> Duration {
        let age = self.last_write.map(|last| last.elapsed());
        age.and_then(Result::ok).unwrap_or_default()
    }
}

/// The runs whose status is in this directory: those that run, and then those that have ended, the latest first.
pub(crate) fn known_runs(directory: &Path) -> Vec<RunStatus> {
    let paths = paths_in(directory).into_iter().flatten();
    let mut runs: Vec<_> = paths.filter_map(|path| RunStatus::read(&path)).collect();
    runs.sort_by_cached_key(|run| {
        let end = run.last_write.filter(|_| !run.is_alive());
        Reverse((run.is_alive(), end, run.start_time.clone()))
    });
    runs
}

/// The files in a directory; `None` if a stranger can have put something into it, or if it is a link.
fn paths_in(directory: &Path) -> Option<Vec<PathBuf>> {
    let there = fs::symlink_metadata(directory).ok()?;
    let is_own = there.is_dir() && not_trusted(&there).is_none();
    let entries = fs::read_dir(directory).ok().filter(|_| is_own)?;
    Some(entries.flatten().map(|entry| entry.path()).collect())
}

/// Opens the file of a status, or makes it, and locks it for this process, unless another one has it or it is something else.
fn lock_file(path: &Path) -> Option<File> {
    let mut how = OpenOptions::new();
    how.read(true).write(true).create(true).mode(OWNER);
    let file = private_file::open(path, &mut how).ok()?;
    file.try_lock().ok()?;
    let mut start = Vec::new();
    let most = STATUS_START.len() as u64;
    (&file).take(most).read_to_end(&mut start).ok()?;
    // A power cut may leave bytes of zero.
    let is_status = STATUS_START.starts_with(&start) || start.iter().all(|byte| *byte == 0);
    is_status.then_some(file)
}
