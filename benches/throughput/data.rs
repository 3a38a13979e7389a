//! Files of made-up users to measure with, and the program that scores them.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Names another build of the program, best with its whole path: the working directory is the package's.
const OTHER: &str = "RESCORE_BIN";

/// What browsers send; the first has a comma in it and is quoted in CSV.
const USER_AGENTS: [&str; 2] = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0",
    "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0",
];
const NAMES: [&str; 4] = ["Jane Doe", "Mei Nguyen", "José García", "Ahmed Okafor"];

/// Inputs and outputs, in a directory that is removed when this is dropped.
pub(crate) struct Files(TempDir);

impl Files {
    /// In the directory of what is built: a temporary directory may be in memory.
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    /// A new empty directory.
    pub(crate) fn place(&self) -> TempDir {
        TempDir::new_in(self.0.path()).unwrap()
    }

    /// A CSV file with so many users, the same ones every time; with a verdict each if they are `scored`.
    pub(crate) fn csv(&self, rows: u32, scored: bool) -> PathBuf {
        let path = self.0.path().join(format!("users-{rows}-{scored}.csv"));
        if path.exists() {
            return path;
        }
        let mut random = fastrand::Rng::with_seed(42);
        let mut file = BufWriter::new(File::create(&path).unwrap());
        let more = if scored {
            ",transaction_id,risk_score,decision"
        } else {
            ""
        };
        writeln!(
            file,
            "user_id,name,email,phone,ip,user_agent,signed_up{more}"
        )
        .unwrap();
        for user in 1..=rows {
            let mut number = |below: u32| random.u32(..below);
            let (name, agent) = (NAMES[number(4) as usize], USER_AGENTS[number(2) as usize]);
            let (phone, ip, day) = (number(10_000_000), number(256), 1 + number(28));
            write!(file, "{user},{name},user.{user}@mail{ip}.example,+1555{phone:07},198.51.100.{ip},\"{agent}\",2024-03-{day:02}").unwrap();
            if scored {
                let (score, decision) =
                    [("1.68", "approve"), ("4.20", "review"), ("7.31", "block")][user as usize % 3];
                write!(
                    file,
                    ",44de328f-0000-4000-8000-{user:012},{score},{decision}"
                )
                .unwrap();
            }
            file.write_all(b"\n").unwrap();
        }
        // Writing it out must not be part of what is measured.
        file.into_inner().unwrap().sync_all().unwrap();
        path
    }

    /// A command of the program. Nothing of the environment here changes what it does.
    pub(crate) fn command(&self, name: &str) -> Command {
        let built = env!("CARGO_BIN_EXE_rescore");
        let program = std::env::var_os(OTHER).map_or_else(|| built.into(), PathBuf::from);
        let mut command = Command::new(program);
        // Its own temporary files must be on a disk like all others.
        command
            .env_clear()
            .env("TMPDIR", self.0.path())
            .env("HOME", self.0.path())
            .env("RESCORE_API_KEY", "bench");
        command.arg(name);
        command
    }

    /// A run with 64 calls in flight at this rate, with further options.
    pub(crate) fn run(&self, input: &Path, output: &Path, url: &str, options: &[&str]) -> Command {
        let mut command = self.command("run");
        command
            .arg(input)
            .arg("-o")
            .arg(output)
            .args(["--base-url", url, "-c", "64"])
            .env("RESCORE_LEDGER", output.with_file_name("rescore.ledger"));
        command.args([
            "--service-id",
            "bench",
            "--vpn-check",
            "--overwrite",
            "--progress",
            "off",
        ]);
        command.args(options);
        command
    }
}
