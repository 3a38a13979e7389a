//! Processes of the server that are ended, or that stand still.

use std::process::Command;
use std::thread;
use std::time::Duration;

use super::several::{IN_FLIGHT, NOTICED, Several, slow};
use crate::postgres::{Setup, init};
use crate::support::postgres::{Database, own, shared};
use crate::support::process::Place;
use crate::support::server::Server;

/// Sends a signal to processes.
fn signal(name: &str, processes: &[String]) {
    let sent = Command::new("kill").arg(name).args(processes).status();
    assert!(sent.unwrap().success());
}

/// Stops all processes that serve a database's connections until this is dropped.
struct Stopped(Vec<String>);

impl Stopped {
    fn all_of(database: &Database<'_>) -> Self {
        let processes = database.backends();
        signal("-STOP", &processes);
        Self(processes)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // Some may have ended before they were stopped.
        for process in &self.0 {
            let _ = Command::new("kill").args(["-CONT", process]).output();
        }
    }
}

#[test]
fn connections_that_the_server_ends_every_300_ms_cost_nothing() {
    const ROWS: usize = 300;
    let Some(cluster) = shared() else { return };
    let (database, place, server) = (cluster.database(), Place::new(), slow(150));
    init(&place, &database);
    let runs = Several::start(&place, &server, (4, ROWS), &database.url(), &[]);
    let mut ended = 0;
    while ended < 60 && server.calls() < ROWS * 3 / 4 {
        thread::sleep(Duration::from_millis(300));
        ended += database.terminate_backends();
    }
    let bill = runs.done();
    assert!(ended > 10, "{ended} connections were ended");
    assert_eq!(
        (database.count("answers"), database.count("claims")),
        (ROWS, 0)
    );
    bill.is_exact(&format!("{ended} connections ended by the server"));
}

#[test]
fn processes_of_the_server_that_stand_still_while_calls_are_out_are_left_for_others() {
    const ROWS: usize = 60;
    let Some(cluster) = own() else { return };
    let (server, release) = Server::holding(20);
    let setup = Setup::new(&cluster, ROWS, server);
    let running = setup.run("scored.csv").start();
    setup.server.wait_for_calls(20 + IN_FLIGHT);
    let stopped = Stopped::all_of(&setup.database);
    drop(release);
    running.done().exits(0).says(NOTICED);
    drop(stopped);
    setup.check_all("scored.csv");
}

#[test]
#[ignore = "takes minutes"]
fn processes_of_the_server_that_stand_still_for_twelve_seconds_at_work_cost_nothing() {
    const ROWS: usize = 2_000;
    let Some(cluster) = own() else { return };
    for round in 1..=5 {
        let (database, place, server) = (cluster.database(), Place::new(), slow(10));
        init(&place, &database);
        let runs = Several::start(&place, &server, (4, ROWS), &database.url(), &[]);
        server.wait_for_calls(ROWS / 10 * round);
        let stopped = Stopped::all_of(&database);
        thread::sleep(Duration::from_secs(12));
        drop(stopped);
        let bill = runs.done_within(Duration::from_secs(150));
        assert_eq!(
            (database.count("answers"), database.count("claims")),
            (ROWS, 0)
        );
        bill.is_exact(&format!("processes of the server still for 12 s, {round}"));
    }
}

#[test]
#[ignore = "takes a minute"]
fn processes_of_the_server_that_stand_still_for_longer_than_max_outage_stop_the_run_or_are_left() {
    const ROWS: usize = 2_000;
    let Some(cluster) = own() else { return };
    for round in 1..=3 {
        let setup = Setup::new(&cluster, ROWS, slow(5));
        let running = setup.run("scored.csv").args("--max-outage 3s").start();
        setup.server.wait_for_calls(ROWS / 8 * round);
        let stopped = Stopped::all_of(&setup.database);
        let done = running.done();
        done.exits_with_one_of(&[0, 3]);
        drop(stopped);
        println!("{}", done.stderr);
        if done.code() == Some(3) {
            setup
                .run("scored.csv")
                .done()
                .exits(0)
                .silent_about("twice");
        }
        let paid = setup.server.calls();
        println!("{ROWS} users | {paid} paid | {:?}", done.took);
        setup.check_all("scored.csv");
    }
}
