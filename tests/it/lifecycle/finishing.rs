//! The moment between a run's last row and its end: its files have their names, and it says how it went. A pipe that takes no
//! summary makes this moment as long as a test needs.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;

use crate::support::process::{Place, Program, Running};
use crate::support::server::Server;
use crate::support::users::{self};

/// A full pipe that somebody holds open.
struct FullPipe(File);

impl FullPipe {
    fn at(place: &Place, name: &str) -> Self {
        let path = place.path(name);
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap();
        let mut options = OpenOptions::new();
        let pipe = options.read(true).write(true).custom_flags(flags);
        let mut pipe = pipe.open(path).unwrap();
        while pipe.write(&[b' '; 4096]).is_ok() {}
        Self(pipe)
    }

    /// Takes what is in it, and what comes.
    fn drain_until_ended(mut self, mut running: Running<'_>) -> String {
        let mut all = Vec::new();
        while !running.has_ended() {
            match self.0.read_to_end(&mut all) {
                Err(error) if error.kind() != ErrorKind::WouldBlock => panic!("{error}"),
                _ => thread::sleep(Duration::from_millis(2)),
            }
        }
        running.exits(0).stderr.clone()
    }
}

/// Starts a run whose rows are done, and that is about to write its summary.
fn finishing(program: Program<'_>, rows: usize) -> Running<'_> {
    let running = program.args("--summary pipe").start();
    running.wait_for_words(&format!("rescore: {rows} rows in "));
    running
}

#[test]
fn a_run_that_is_killed_after_its_last_row_is_finished_by_the_same_command_without_a_call() {
    for more in ["", "--overwrite"] {
        let (server, place) = (Server::good(), Place::with("users.csv", users::csv(9)));
        let pipe = FullPipe::at(&place, "pipe");
        let run = || place.scoring(&server).args("--report r.html").args(more);
        finishing(run(), 9).kill_when(|| true);
        drop(pipe);
        assert_eq!(place.text("scored.csv"), users::scored(&users::csv(9)));
        run().args("--summary s.json").exits(0);
        assert_eq!(place.text("scored.csv"), users::scored(&users::csv(9)));
        let left = "pipe r.html rescore.ledger s.json scored.csv users.csv";
        assert_eq!(place.names().join(" "), left, "{more}");
        assert_eq!(server.calls(), 9, "{more}");
    }
}

#[test]
fn a_signal_after_the_last_row_is_answered_and_the_second_one_names_the_ledger() {
    let (server, place) = (Server::good(), Place::with("users.csv", users::csv(9)));
    let pipe = FullPipe::at(&place, "pipe");
    let run = || place.scoring(&server).args("--overwrite");
    let running = finishing(run(), 9);
    running.signal("INT");
    running
        .wait_for_words("rescore: all rows are done, finishing; another signal stops immediately");
    let done = running.signal_until_it_ends("INT");
    done.exits(130)
        .says("rescore: stopped immediately\n")
        .says("`rescore.ledger` has the paid answers that reached the disk; the same command continues from there")
        .silent_about("partial");
    // One signal alone ends nothing.
    let running = finishing(run(), 9);
    running.signal("TERM");
    running.wait_for_words("all rows are done, finishing");
    pipe.drain_until_ended(running);
    assert_eq!(server.calls(), 9);
}
