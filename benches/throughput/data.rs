//! Files of made-up users to measure with.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;
use serde::Serialize;
use tempfile::TempDir;

use crate::accounting;

/// Inputs and outputs, in a directory that is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Files {
    directory: TempDir,
    made: RefCell<BTreeSet<PathBuf>>,
}

#[derive(Serialize)]
struct Person {
    user_id: u32,
    name: String,
    email: String,
    phone: String,
    ip: String,
    user_agent: &'static str,
    signed_up: String,
    note: &'static str,
}

#[derive(Serialize)]
struct Verdict {
    transaction_id: String,
    risk_score: f64,
    decision: &'static str,
}

/// What browsers send; three of four have a comma in them and are quoted in CSV.
const USER_AGENTS: [&str; 4] = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)",
    "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0",
    "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Mobile",
];
const FIRST_NAMES: [&str; 8] = [
    "Jane", "Ahmed", "Mei", "Olga", "José", "Priya", "Lars", "Chloë",
];
const LAST_NAMES: [&str; 8] = [
    "Doe", "Müller", "Nguyen", "García", "Okafor", "Smith", "Tanaka", "Rossi",
];
/// Most notes are empty, some have quotes in them.
const NOTES: [&str; 8] = [
    "",
    "",
    "vip",
    "",
    "said \"call first\", twice",
    "",
    "trial, 30 days",
    "",
];

impl Files {
    /// In the directory of what is built: a temporary directory may be in memory.
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let files = Self {
            directory,
            made: RefCell::default(),
        };
        if !files.are_counted() {
            let place = files.directory().display();
            eprintln!("bytes written to {place} are not counted: it may be in memory");
        }
        files
    }

    /// Whether the kernel counts what is written here.
    fn are_counted(&self) -> bool {
        let before = accounting::written("self");
        let mut file = tempfile::tempfile_in(self.directory()).unwrap();
        file.write_all(&[0; 4096]).unwrap();
        file.sync_all().unwrap();
        accounting::written("self") > before
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A new empty directory.
    pub(crate) fn place(&self) -> TempDir {
        TempDir::new_in(self.directory()).unwrap()
    }

    /// Whether so many gigabytes are free on the disk; if not, it says so.
    pub(crate) fn have_room(&self, gigabytes: u64) -> bool {
        let disk = statvfs(self.directory()).unwrap();
        let enough = disk.f_bavail * disk.f_frsize >= gigabytes * 1_000_000_000;
        if !enough {
            let place = self.directory().display();
            eprintln!("  skipped: {gigabytes} GB must be free in {place}");
        }
        enough
    }

    /// A CSV file with that many rows.
    pub(crate) fn csv(&self, rows: u32) -> PathBuf {
        self.make(&format!("users-{rows}.csv"), |path| {
            let mut writer = csv::Writer::from_path(path).unwrap();
            for user in users(rows) {
                writer.serialize(user).unwrap();
            }
            writer.flush().unwrap();
        })
    }

    /// As [`Self::csv`] a day later: every hundredth user has another email address.
    pub(crate) fn next_night(&self, rows: u32) -> PathBuf {
        self.make(&format!("next-night-{rows}.csv"), |path| {
            let mut writer = csv::Writer::from_path(path).unwrap();
            for mut user in users(rows) {
                if user.user_id.is_multiple_of(100) {
                    user.email.insert_str(0, "new.");
                }
                writer.serialize(user).unwrap();
            }
            writer.flush().unwrap();
        })
    }

    /// Removes a large file that is not needed any more.
    pub(crate) fn discard(&self, path: &Path) {
        self.made.borrow_mut().remove(path);
        fs::remove_file(path).unwrap();
    }

    /// A JSONL file with that many rows.
    pub(crate) fn jsonl(&self, rows: u32) -> PathBuf {
        self.make(&format!("users-{rows}.jsonl"), |path| {
            let mut writer = BufWriter::new(File::create(path).unwrap());
            for user in users(rows) {
                serde_json::to_writer(&mut writer, &user).unwrap();
                writer.write_all(b"\n").unwrap();
            }
            writer.flush().unwrap();
        })
    }

    /// As [`Self::csv`], scored.
    pub(crate) fn scored_csv(&self, rows: u32) -> PathBuf {
        self.make(&format!("scored-{rows}.csv"), |path| {
            let mut writer = csv::Writer::from_path(path).unwrap();
            for (user, verdict) in users(rows).zip(verdicts()) {
                writer.serialize((user, verdict)).unwrap();
            }
            writer.flush().unwrap();
        })
    }

    /// As [`Self::jsonl`], scored.
    pub(crate) fn scored_jsonl(&self, rows: u32) -> PathBuf {
        self.make(&format!("scored-{rows}.jsonl"), |path| {
            let mut writer = BufWriter::new(File::create(path).unwrap());
            for (user, verdict) in users(rows).zip(verdicts()) {
                let [user, verdict] = [
                    serde_json::to_string(&user).unwrap(),
                    serde_json::to_string(&verdict).unwrap(),
                ];
                // One object of two.
                let (user, verdict) = (
                    user.strip_suffix('}').unwrap(),
                    verdict.strip_prefix('{').unwrap(),
                );
                writeln!(writer, "{user},{verdict}").unwrap();
            }
            writer.flush().unwrap();
        })
    }

    fn make(&self, name: &str, write: impl FnOnce(&Path)) -> PathBuf {
        let path = self.directory.path().join(name);
        if self.made.borrow_mut().insert(path.clone()) {
            write(&path);
            // Writing it out must not be part of what is measured.
            File::open(&path).unwrap().sync_all().unwrap();
        }
        path
    }
}

/// The same users every time.
fn users(rows: u32) -> impl Iterator<Item = Person> {
    let mut random = fastrand::Rng::with_seed(42);
    (1..=rows).map(move |user_id| {
        let mut number = |below: u32| random.u32(..below);
        let (first, last) = (
            FIRST_NAMES[number(8) as usize],
            LAST_NAMES[number(8) as usize],
        );
        Person {
            user_id,
            name: format!("{first} {last}"),
            email: format!("user.{user_id}@mail{}.example", number(100)),
            phone: format!("+1555{:07}", number(10_000_000)),
            ip: format!("198.51.{}.{}", number(256), number(256)),
            user_agent: USER_AGENTS[number(4) as usize],
            signed_up: format!("2024-{:02}-{:02}", 1 + number(12), 1 + number(28)),
            note: NOTES[number(8) as usize],
        }
    })
}

/// The same verdicts every time, with scores from 0 to 10 in hundredths.
fn verdicts() -> impl Iterator<Item = Verdict> {
    let mut random = fastrand::Rng::with_seed(43);
    (1_u64..).map(move |number| {
        let hundredths = random.u16(0..=1_000);
        Verdict {
            transaction_id: format!("44de328f-0000-4000-8000-{number:012}"),
            risk_score: f64::from(hundredths) / 100.0,
            decision: match hundredths {
                0..=200 => "approve",
                201..=500 => "review",
                _ => "block",
            },
        }
    })
}
