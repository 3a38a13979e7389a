//! The program as a user runs it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::data::Files;

/// Names another build of the program, best with its whole path: the working directory is the package's.
pub(crate) const OTHER: &str = "RESCORE_BIN";

/// The program.
#[derive(Debug)]
pub(crate) struct Program {
    path: PathBuf,
    /// For its own temporary files: they must be on a disk like all others.
    temporary: PathBuf,
}

/// Where a run keeps its answers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ledger<'a> {
    /// Beside the output, as by default.
    Default,
    /// In this file.
    At(&'a Path),
    /// Nowhere.
    None,
}

impl Ledger<'_> {
    /// The options that name it.
    pub(crate) fn name_in(self, command: &mut Command) {
        match self {
            Self::Default => {}
            Self::At(path) => {
                command.arg("--ledger").arg(path);
            }
            Self::None => {
                command.arg("--no-ledger");
            }
        }
    }
}

impl Program {
    /// The one that was built together with this, unless the environment names another.
    pub(crate) fn new(files: &Files) -> Self {
        let built = env!("CARGO_BIN_EXE_rescore");
        Self {
            path: std::env::var_os(OTHER).map_or_else(|| built.into(), PathBuf::from),
            temporary: files.directory().to_owned(),
        }
    }

    /// A command of it. Nothing of the environment here changes what it does.
    pub(crate) fn command(&self, name: &str) -> Command {
        let mut command = Command::new(&self.path);
        command
            .env_clear()
            .env("TMPDIR", &self.temporary)
            .env("RESCORE_API_KEY", "bench")
            .arg(name);
        command
    }

    /// The number of its version.
    pub(crate) fn version(&self) -> String {
        let output = Command::new(&self.path).arg("--version").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_whitespace().nth(1).unwrap().to_owned()
    }

    /// A run with 64 calls in flight as fast as the service answers.
    pub(crate) fn run(&self, input: &Path, output: &Path, url: &str, ledger: Ledger) -> Command {
        self.run_at("unlimited", (input, output), url, ledger)
    }

    /// The same at this rate.
    pub(crate) fn run_at(
        &self,
        rate: &str,
        (input, output): (&Path, &Path),
        url: &str,
        ledger: Ledger,
    ) -> Command {
        let mut command = self.command("run");
        command
            .arg(input)
            .arg("-o")
            .arg(output)
            .args(["--overwrite", "-c", "64", "--rate", rate])
            .args(REQUEST)
            .args(["--base-url", url, "--progress", "off"]);
        ledger.name_in(&mut command);
        command
    }
}

/// What else is part of each request, for runs and for `check`.
pub(crate) const REQUEST: [&str; 3] = ["--service-id", "bench", "--vpn-check"];

/// The output for an input, in the same format.
pub(crate) fn scored(directory: &Path, input: &Path) -> PathBuf {
    directory
        .join("scored")
        .with_extension(input.extension().unwrap())
}
