//! The program as a user runs it: default options, the key in its environment, no terminal.

use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::postgres_server::PASSWORD;

/// Names another build of the program, best with its whole path: the working directory is the package's.
const OTHER: &str = "RESCORE_BIN";
/// How often a run is looked at.
const STEP: Duration = Duration::from_millis(5);

/// The program, and a directory for its files.
pub(crate) struct Program {
    path: PathBuf,
    directory: TempDir,
}

impl Program {
    pub(crate) fn new() -> Self {
        let built = env!("CARGO_BIN_EXE_rescore");
        Self {
            path: std::env::var_os(OTHER).map_or_else(|| built.into(), PathBuf::from),
            directory: tempfile::tempdir().unwrap(),
        }
    }

    /// A new empty directory.
    pub(crate) fn place(&self) -> TempDir {
        TempDir::new_in(self.directory.path()).unwrap()
    }

    /// Nothing of the environment here changes what it does.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
            .env("RESCORE_API_KEY", "bench")
            .env("PGPASSWORD", PASSWORD);
        command
    }

    /// Starts `rescore run` over users with these numbers against the service at `url`, with further options.
    pub(crate) fn start(
        &self,
        users: impl Iterator<Item = u32>,
        url: &str,
        options: &[&str],
    ) -> Run {
        let place = self.place();
        let input = place.path().join("users.csv");
        let mut file = BufWriter::new(File::create(&input).unwrap());
        writeln!(file, "user_id,name,email,ip,user_agent").unwrap();
        for n in users {
            writeln!(
                file,
                "{n},Jane Doe,user.{n}@mail.example,198.51.100.{},Mozilla/5.0 (X11)",
                n % 256
            )
            .unwrap();
        }
        // Writing it to the disk must not be measured.
        file.into_inner().unwrap().sync_all().unwrap();
        let mut command = self.command();
        command
            .arg("run")
            .arg(&input)
            .arg("-o")
            .arg(place.path().join("scored.csv"))
            .env("RESCORE_LEDGER", place.path().join("rescore.ledger"));
        command
            .args([
                "--base-url",
                url,
                "--service-id",
                "bench",
                "--progress",
                "off",
            ])
            .args(options);
        Run {
            began: Instant::now(),
            process: command.stderr(Stdio::null()).spawn().unwrap(),
            _place: place,
        }
    }
}

/// What is measured, and where.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cores = thread::available_parallelism().unwrap();
        write!(f, "{}, {cores} cores", self.path.display())
    }
}

/// A run of the program, which ends when this is dropped.
pub(crate) struct Run {
    began: Instant,
    process: Child,
    _place: TempDir,
}

impl Run {
    /// Waits for its end; after so long it is interrupted. Returns how many seconds it took.
    pub(crate) fn done(mut self, at_most: Duration) -> f64 {
        while self.process.try_wait().unwrap().is_none() {
            if self.began.elapsed() > at_most {
                kill_process(Pid::from_child(&self.process), Signal::INT).unwrap();
                self.process.wait().unwrap();
                break;
            }
            thread::sleep(STEP);
        }
        self.began.elapsed().as_secs_f64()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
