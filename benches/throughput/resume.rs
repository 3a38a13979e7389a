//! A run that is killed after four million answers: how soon the next one makes its first new call, and what the kill
//! has cost.

use std::thread;
use std::time::Duration;

use crate::bench::Bench;
use crate::process::Process;
use crate::program::{Ledger, scored};
use crate::server::{Server, now};
use crate::table::{Table, lines, number};

const ROWS: u32 = 4_100_000;
/// After so many calls, the run is killed.
const ANSWERED: u64 = 4_000_000;
/// How often the server is asked; some hundred answers more are of no importance.
const STEP: Duration = Duration::from_millis(10);
/// Requests that were sent arrive within a millisecond or two.
const ON_THE_WAY: Duration = Duration::from_millis(100);
/// Input, output and ledger.
const GIGABYTES: u64 = 4;

pub(crate) fn measure(bench: &Bench, table: &mut Table) {
    if !bench.files.have_room(GIGABYTES) {
        return;
    }
    let mut server = Server::start(Duration::ZERO);
    let input = bench.files.csv(ROWS);
    let place = bench.files.place();
    let output = scored(place.path(), &input);
    let mut command = bench
        .program
        .run(&input, &output, &server.url, Ledger::Default);

    eprintln!("  a run that is killed");
    let run = Process::start(&mut command);
    let mut asked = 0;
    while asked < ANSWERED {
        assert!(!run.has_ended(), "it ended before it was killed");
        thread::sleep(STEP);
        asked += server.seen().requests;
    }
    run.kill();
    // What it had sent is on its way to the server, and must not be taken for the next run's.
    thread::sleep(ON_THE_WAY);
    asked += server.seen().requests;

    eprintln!("  the next run");
    let began = now();
    Process::start(&mut command).finish();
    bench.files.discard(&input);
    let seen = server.seen();
    let seconds = seen.first.saturating_sub(began).as_secs_f64();
    let again = asked + seen.requests - u64::from(ROWS);
    table.add(&lines::RESUME, &[seconds], "");
    let in_flight = "64 calls in flight at the kill";
    table.add(&lines::RESUME_AGAIN, &[number(again)], in_flight);
}
