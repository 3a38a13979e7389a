//! Services that accept everything: how soon the program is fast.

use std::time::Duration;

use crate::behaviour::Behaviour;
use crate::program::{Done, Program};
use crate::server::Server;
use crate::table::Line;

/// A run that takes longer is interrupted.
const AT_MOST: Duration = Duration::from_secs(60);

pub(crate) fn at_20_ms(program: &Program) {
    beside_unlimited(program, 20, 10_000, "≤ 5.5 s");
}

pub(crate) fn at_100_ms(program: &Program) {
    beside_unlimited(program, 100, 200, "≤ 2 s");
}

pub(crate) fn without_latency(program: &Program) {
    beside_unlimited(program, 0, 100_000, "≤ 6 s");
}

fn beside_unlimited(program: &Program, milliseconds: u64, rows: u32, aim: &str) {
    let latency = Duration::from_millis(milliseconds);
    let (done, server) = run(program, latency, rows, &[]);
    let (unlimited, _) = run(program, latency, rows, &["--rate", "unlimited"]);
    let [seconds, without] = [&done, &unlimited].map(|done| done.time.as_secs_f64());
    Line {
        service: &format!("accepts everything, {milliseconds} ms"),
        rows,
        seen: format!("{seconds:.2} s"),
        share: (!done.interrupted).then_some(without / seconds),
        refusals: server.counts().refusals(),
        aim,
        more: format!("{}; `--rate unlimited`: {without:.2} s", done.ending()),
    }
    .print();
}

fn run(program: &Program, latency: Duration, rows: u32, options: &[&str]) -> (Done, Server) {
    let server = Server::start(Behaviour::accepting(latency));
    let done = program
        .start(&program.users(rows), &server.url, options)
        .done(AT_MOST);
    (done, server)
}

pub(crate) fn at_300_ms(program: &Program) {
    // More than can be asked in that time.
    const ROWS: u32 = 100_000;
    let server = Server::start(Behaviour::accepting(Duration::from_millis(300)));
    let done = program
        .start(&program.users(ROWS), &server.url, &[])
        .done(Duration::from_secs(32));
    let counts = server.counts();
    Line {
        service: "accepts everything, 300 ms",
        rows: ROWS,
        seen: format!("{:.0}/s in second 29", counts.rate(29..30)),
        share: None,
        refusals: counts.refusals(),
        aim: "≥ 800/s within 30 s",
        more: format!(
            "best second {}, {} in flight at most; {}",
            counts.best_second(),
            server.most_in_flight(),
            done.ending()
        ),
    }
    .print();
}
