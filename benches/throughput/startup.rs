//! How soon the program's first request arrives.

use std::cell::RefCell;
use std::process::Command;
use std::time::Duration;

use crate::bare;
use crate::bench::Bench;
use crate::process::Process;
use crate::program::{Ledger, scored};
use crate::rounds::in_turn;
use crate::server::{Server, now};
use crate::table::{Table, lines, median, text};

const STARTS: usize = 20;

pub(crate) fn startup(bench: &Bench, table: &mut Table) {
    let server = RefCell::new(Server::start(Duration::ZERO));
    let url = server.borrow().url.clone();
    let input = bench.files.csv(10);
    let until_first = |command: &mut Command| -> f64 {
        let began = now();
        Process::start(command).finish();
        let seen = server.borrow_mut().seen();
        assert!(seen.requests > 0, "no request arrived");
        seen.first.saturating_sub(began).as_secs_f64() * 1e3
    };
    let [ours, bare] = in_turn(
        STARTS,
        [
            &mut || {
                let place = bench.files.place();
                let output = scored(place.path(), &input);
                until_first(&mut bench.program.run(&input, &output, &url, Ledger::Default))
            },
            &mut || {
                let mut itself = Command::new(std::env::current_exe().unwrap());
                until_first(itself.args([bare::WORD, &url]))
            },
        ],
    );
    let bare = format!("bare reqwest program {}", text(median(&bare), 1));
    table.add(&lines::STARTUP, &ours, bare);
}
