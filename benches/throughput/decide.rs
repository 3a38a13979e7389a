//! `rescore decide` on a scored file: the program itself, as a user runs it; the baseline copies the same file.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::data::Files;
use crate::measure::{ROUNDS, Spread, Table, in_turn, ratios};
use crate::process::PROGRAM;

const ROWS: u32 = 1_000_000;
const TARGET: &str = "≥ 1,000,000";

/// Rows a second of both ways, from the start of the program to its end.
pub(crate) fn decide(files: &Files, table: &mut Table) {
    let (csv, jsonl) = (files.scored_csv(ROWS), files.scored_jsonl(ROWS));
    for (name, target, input) in [("CSV", TARGET, csv), ("JSONL", "–", jsonl)] {
        let output = files.output(&format!("decided.{}", name.to_lowercase()));
        let measure = format!("{name} decided again and written, rows/s");
        let Some(program) = PROGRAM else {
            return table.skip(&measure, target, "no program was built");
        };
        let decide = |arguments: &[&str]| rows_per_second(|| run(program, &input, arguments));
        let to = output.to_str().unwrap();
        // A tenth of the decisions change.
        let rewrite = ["-o", to, "--overwrite", "--approve-max", "3", "-q"];
        let copy = || {
            rows_per_second(|| {
                fs::copy(&input, &output).unwrap();
                fs::File::open(&output).unwrap().sync_all().unwrap();
            })
        };
        let (ours, copied) = in_turn(ROUNDS, || decide(&rewrite), copy);
        let baseline = format!("the file copied and synced: {:.0}", Spread::of(&copied));
        table.add(&measure, target, &ours, 0, baseline);
        table.add("… ratio", "–", &ratios(&ours, &copied), 3, "copy = 1");
        let read = || rows_per_second(|| drop(fs::read(&input).unwrap()));
        let (ours, read) = in_turn(ROUNDS, || decide(&["--what-if"]), read);
        let baseline = format!("the file read: {:.0}", Spread::of(&read));
        let measure = format!("{name} with `--what-if`, rows/s");
        table.add(&measure, target, &ours, 0, baseline);
    }
}

fn rows_per_second(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    f64::from(ROWS) / began.elapsed().as_secs_f64()
}

fn run(program: &str, input: &Path, arguments: &[&str]) {
    let mut command = Command::new(program);
    let command = command.arg("decide").arg(input).args(arguments);
    let status = command.stdout(Stdio::null()).status().unwrap();
    assert!(status.success(), "{command:?}");
}
