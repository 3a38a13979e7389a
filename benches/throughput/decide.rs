//! `rescore decide` on a scored file: the program itself, as a user runs it; the baseline copies or reads the same file.

use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::bench::Bench;
use crate::process::Process;
use crate::program::scored;
use crate::rounds::{ROUNDS, in_turn};
use crate::table::{Line, Table, lines, median, text};

const ROWS: u32 = 1_000_000;

pub(crate) fn decide(bench: &Bench, table: &mut Table) {
    let csv = (&lines::DECIDE_CSV, &lines::DECIDE_CSV_WHAT_IF);
    measure(bench, table, &bench.files.scored_csv(ROWS), csv);
    let jsonl = (&lines::DECIDE_JSONL, &lines::DECIDE_JSONL_WHAT_IF);
    measure(bench, table, &bench.files.scored_jsonl(ROWS), jsonl);
}

/// Rows a second, from the start of the program to its end.
fn measure(
    bench: &Bench,
    table: &mut Table,
    input: &Path,
    (written, what_if): (&'static Line, &'static Line),
) {
    let place = bench.files.place();
    let output = scored(place.path(), input);
    let decide = |arguments: &[&str]| {
        let mut command = bench.program.command("decide");
        let used = Process::start(command.arg(input).args(arguments)).finish();
        f64::from(ROWS) / used.seconds
    };
    let to = output.to_str().unwrap();
    // A tenth of the decisions change.
    let rewrite = ["-o", to, "--overwrite", "--approve-max", "3", "-q"];
    let copy = || {
        rows_per_second(|| {
            fs::copy(input, &output).unwrap();
            fs::File::open(&output).unwrap().sync_all().unwrap();
        })
    };
    let read = || rows_per_second(|| drop(fs::read(input).unwrap()));
    let [ours, copied] = in_turn(ROUNDS, [&mut || decide(&rewrite), &mut || copy()]);
    let copied = format!("the file copied and synced {}", text(median(&copied), 0));
    table.add(written, &ours, copied);
    let [ours, read] = in_turn(ROUNDS, [&mut || decide(&["--what-if"]), &mut || read()]);
    let read = format!("the file read {}", text(median(&read), 0));
    table.add(what_if, &ours, read);
}

fn rows_per_second(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    f64::from(ROWS) / began.elapsed().as_secs_f64()
}
