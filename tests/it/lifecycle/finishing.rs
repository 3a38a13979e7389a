//! The moment between a run's last row and its end: its files have their names, and it says how it went. A pipe that takes no
//! summary makes this moment as long as a test needs.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;

use crate::support::process::{Place, Program, Running};
use crate::support::server::{Server, good_body, ok};
use crate::support::users::{self, Verdict};

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
        running.done().exits(0).stderr.clone()
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
        let again = run().args("--summary s.json").done();
        again.exits(0).says("9 rows already paid for");
        assert_eq!(place.text("scored.csv"), users::scored(&users::csv(9)));
        let left = "pipe r.html rescore.ledger s.json scored.csv users.csv";
        assert_eq!(place.names().join(" "), left, "{more}");
        assert_eq!(server.calls(), 9, "{more}");
    }
}

#[test]
fn a_run_that_is_killed_leaves_the_earlier_summary_whole() {
    let place = Place::with("users.csv", users::csv(9));
    let good = Server::good();
    let (server, release) = Server::holding_if(|request| request.nth >= 3);
    let run = |server| place.scoring(server).args("--summary s.json -c 1");
    run(&good).done().exits(0);
    let earlier = place.text("s.json");
    let running = run(&server).args("--fresh --overwrite").start();
    server.wait_for_calls(3);
    running.kill_when(|| true);
    drop(release);
    assert_eq!(place.text("s.json"), earlier);
    // At any moment, it is one of the two.
    for after in [0, 1, 2, 4, 8, 16] {
        let running = run(&good).args("--fresh --overwrite").start();
        running.wait_for_words("rescore: 9 rows in ");
        thread::sleep(Duration::from_millis(after));
        running.kill_when(|| true);
        let summary = place.json("s.json");
        assert_eq!(summary["type"], "summary");
        assert_eq!(summary["exit_code"], 0);
    }
}

#[test]
fn changes_of_a_run_that_is_killed_after_its_last_row_are_not_lost() {
    let tonight = Arc::new(AtomicBool::new(false));
    let server = Server::start({
        let tonight = Arc::clone(&tonight);
        move |request| {
            let body = good_body(&request.name());
            let score = Verdict::of(&request.name()).score;
            let now = if tonight.load(Relaxed) { "9.5" } else { "0.5" };
            ok(&body.replace(&format!(":{score}}}"), &format!(":{now}}}")))
        }
    });
    let place = Place::with("users.csv", users::csv(5));
    let pipe = FullPipe::at(&place, "pipe");
    let run = || {
        place
            .scoring(&server)
            .args("--fresh --changes changes.csv --overwrite")
    };
    run().done().exits(0);
    tonight.store(true, Relaxed);
    finishing(run(), 5).kill_when(|| true);
    drop(pipe);
    let changes = place.text("changes.csv");
    assert_eq!(changes.lines().count(), 6);
    run().done().exits(0).says("5 of 5 decisions changed");
    assert_eq!((place.text("changes.csv"), server.calls()), (changes, 10));
    // The next night has none.
    run().done().exits(0);
    assert_eq!(server.calls(), 15);
    assert_eq!(place.text("changes.csv").lines().count(), 1);
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
    running.signal("INT");
    let done = running.done();
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
