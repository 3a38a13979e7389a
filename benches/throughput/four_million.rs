//! Four million rows with the run's own ledger, beside a hundred thousand, and beside as many without a ledger.

use std::time::Duration;

use crate::bench::{Bench, Ran};
use crate::ledger::column;
use crate::program::Ledger;
use crate::server::Server;
use crate::table::{Table, lines, median, text};

const MANY: u32 = 4_000_000;
/// Runs of so few rows before and after: what the machine does changes in minutes.
const FEW: u32 = 100_000;
const RUNS_OF_FEW: usize = 2;
/// Input, output and ledger.
const GIGABYTES: u64 = 4;

pub(crate) fn measure(bench: &Bench, table: &mut Table) {
    if !bench.files.have_room(GIGABYTES) {
        return;
    }
    let server = Server::start(Duration::ZERO);
    let (few, many) = (bench.files.csv(FEW), bench.files.csv(MANY));
    let mut small = Vec::new();
    let mut runs_of_few = || {
        small.extend(
            (0..RUNS_OF_FEW).map(|_| bench.whole_run((&few, FEW), &server.url, Ledger::Default)),
        );
    };
    runs_of_few();
    eprintln!("  {MANY} rows with a ledger");
    let with = bench.whole_run((&many, MANY), &server.url, Ledger::Default);
    runs_of_few();
    eprintln!("  {MANY} rows without");
    let without = bench.whole_run((&many, MANY), &server.url, Ledger::None);
    bench.files.discard(&many);

    let of_few = |of, digits| format!("100,000 rows {}", text(median(&column(&small, of)), digits));
    let (speed, small_speed) = (with.speed(), median(&column(&small, Ran::speed)));
    table.add(&lines::FOUR_MILLION_SPEED, &[speed], of_few(Ran::speed, 0));
    table.add(&lines::FOUR_MILLION_SHARE, &[speed / small_speed], "");
    let bare = format!("without {}", text(without.speed(), 0));
    let share = speed / without.speed();
    table.add(&lines::FOUR_MILLION_SHARE_WITHOUT, &[share], bare);
    let written = of_few(Ran::written, 0);
    table.add(&lines::FOUR_MILLION_WRITTEN, &[with.written()], written);
    let peak = format!("without {}", text(without.peak(), 1));
    table.add(&lines::MEMORY_FOUR_MILLION, &[with.peak()], peak);
}
