//! The program as a user runs it: default options, the key in its environment, no terminal.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::children::Guarded;
use crate::users;

/// Names another build of the program, best with its whole path: the working directory is the package's.
const OTHER: &str = "RESCORE_BIN";

/// The program, and a directory for its files.
pub(crate) struct Program {
    path: PathBuf,
    directory: TempDir,
    made: RefCell<BTreeSet<PathBuf>>,
}

impl Program {
    pub(crate) fn new() -> Self {
        let built = env!("CARGO_BIN_EXE_rescore");
        Self {
            path: std::env::var_os(OTHER).map_or_else(|| built.into(), PathBuf::from),
            directory: tempfile::tempdir().unwrap(),
            made: RefCell::default(),
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A new empty directory.
    pub(crate) fn place(&self) -> TempDir {
        TempDir::new_in(self.directory()).unwrap()
    }

    /// A file with so many users.
    pub(crate) fn users(&self, rows: u32) -> PathBuf {
        self.made(format!("users-{rows}.csv"), 1..=rows)
    }

    /// The same without one of them.
    pub(crate) fn users_without(&self, rows: u32, row: u32) -> PathBuf {
        let name = format!("users-{rows}-without-{row}.csv");
        self.made(name, (1..=rows).filter(move |number| *number != row))
    }

    fn made(&self, name: String, numbers: impl Iterator<Item = u32>) -> PathBuf {
        let path = self.directory().join(name);
        if self.made.borrow_mut().insert(path.clone()) {
            users::write(&path, numbers);
        }
        path
    }

    /// Starts `rescore run` on this file against the service at `url`, with further options.
    pub(crate) fn start(&self, input: &Path, url: &str, options: &[&str]) -> Run {
        let place = self.place();
        let mut command = self.command();
        command
            .arg("run")
            .arg(input)
            .arg("-o")
            .arg(place.path().join("scored.csv"))
            .args(["--base-url", url, "--service-id", "bench"])
            .args(options)
            .stdout(Stdio::null())
            .stderr(File::create(place.path().join("said")).unwrap());
        Run {
            began: Instant::now(),
            process: Guarded::start(&mut command),
            place,
        }
    }

    /// The limit that a ledger keeps for the next run, in the words of `rescore ledger stats`.
    pub(crate) fn kept_limit(&self, ledger: &Path) -> String {
        let mut command = self.command();
        let output = command.args(["ledger", "stats"]).arg(ledger).output();
        let output = output.unwrap();
        let text =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        let limits: Vec<_> = text
            .lines()
            .map(str::trim)
            .filter(|line| line.contains("limit"))
            .collect();
        match limits.as_slice() {
            [] if output.status.success() => "no limit in the ledger".to_owned(),
            [] => format!("ledger stats: {}", text.trim()),
            limits => format!("in the ledger: {}", limits.join(", ")),
        }
    }

    /// Nothing of the environment here changes what it does.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command
            .env_clear()
            .env("RESCORE_API_KEY", "bench")
            .stdin(Stdio::null());
        command
    }
}

/// What is measured, and where.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cores = thread::available_parallelism().unwrap();
        write!(f, "{}, {cores} cores", self.path.display())
    }
}

/// The average load of the last minute: a busy machine is worth a remark.
pub(crate) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = text.split_whitespace().next().unwrap_or("unknown");
    format!("load {load}")
}

/// A run of the program.
pub(crate) struct Run {
    began: Instant,
    process: Guarded,
    place: TempDir,
}

impl Run {
    /// Waits until so long after its start, or for its end if that is earlier.
    pub(crate) fn wait(&mut self, time: Duration) {
        let _ = self.process.wait_until(self.began + time);
    }

    /// Waits for its end; after so long it is interrupted.
    pub(crate) fn done(mut self, at_most: Duration) -> Done {
        let ended = self.process.wait_until(self.began + at_most);
        let time = self.began.elapsed();
        let status = ended.unwrap_or_else(|| self.process.end(Signal::INT));
        Done {
            time,
            interrupted: ended.is_none(),
            code: status.code(),
            place: self.place,
        }
    }
}

/// Waits for the end of several runs at a time.
pub(crate) fn all_done(runs: impl IntoIterator<Item = Run>, at_most: Duration) -> Vec<Done> {
    let wait = |run: Run| thread::spawn(move || run.done(at_most));
    let waiting: Vec<_> = runs.into_iter().map(wait).collect();
    waiting.into_iter().map(|run| run.join().unwrap()).collect()
}

/// A run that has ended.
pub(crate) struct Done {
    /// Until its end, or until it was interrupted.
    pub(crate) time: Duration,
    pub(crate) interrupted: bool,
    code: Option<i32>,
    place: TempDir,
}

impl Done {
    /// How it ended.
    pub(crate) fn ending(&self) -> String {
        let code = self
            .code
            .map_or("killed".to_owned(), |code| format!("exit code {code}"));
        let seconds = self.time.as_secs_f64();
        match self.code {
            _ if self.interrupted => format!("interrupted after {seconds:.0} s, {code}"),
            Some(0 | 1) => code,
            _ => format!("{code} after {seconds:.0} s: {}", self.last_words()),
        }
    }

    /// The reason that the rejects file gives for a row.
    pub(crate) fn reason_of(&self, row: u32) -> Option<String> {
        let mut rejects =
            csv::Reader::from_path(self.place.path().join("scored.rejects.csv")).ok()?;
        rejects
            .records()
            .filter_map(Result::ok)
            .find(|reject| reject.get(0) == Some(&row.to_string()))
            .and_then(|reject| reject.get(1).map(str::to_owned))
    }

    /// The first line of the error.
    fn last_words(&self) -> String {
        let said = fs::read_to_string(self.place.path().join("said")).unwrap_or_default();
        let error = said.lines().find(|line| line.contains("error"));
        error
            .or(said.lines().last())
            .unwrap_or_default()
            .replace('|', "\\|")
    }
}
