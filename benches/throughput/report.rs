//! `rescore report` as a process: rows a second, and its memory at the highest. The baseline reads the same file and
//! counts its records.

use std::path::Path;
use std::time::Instant;

use crate::bench::Bench;
use crate::process::{Process, Used};
use crate::rounds::{ROUNDS, in_turn};
use crate::table::{Table, lines, median, text};

const ROWS: u32 = 1_000_000;
const FEW_ROWS: u32 = 10_000;
/// Two columns with as many values as rows.
const BY: [&str; 4] = ["--by", "user_id", "--by", "email"];

pub(crate) fn report(bench: &Bench, table: &mut Table) {
    let (many, few) = (
        bench.files.scored_csv(ROWS),
        bench.files.scored_csv(FEW_ROWS),
    );
    let run = |input: &Path, args: &[&str]| measure(bench, input, args);
    let speed = |used: &[Used], rows: u32| -> Vec<f64> {
        let speeds = used.iter().map(|used| f64::from(rows) / used.seconds);
        speeds.collect()
    };
    let peak = |used: &[Used]| -> Vec<f64> { used.iter().map(|used| used.peak).collect() };

    let [ours, reading] = in_turn(
        ROUNDS,
        [
            &mut || f64::from(ROWS) / run(&many, &[]).seconds,
            &mut || read(&many),
        ],
    );
    let reading = format!("csv crate, reading alone {}", text(median(&reading), 0));
    table.add(&lines::REPORT, &ours, reading);

    let [large, small] = in_turn(ROUNDS, [&mut || run(&many, &BY), &mut || run(&few, &BY)]);
    table.add(&lines::REPORT_BY, &speed(&large, ROWS), "");
    let small = format!("10,000 rows {}", text(median(&peak(&small)), 1));
    table.add(&lines::REPORT_BY_MEMORY, &peak(&large), small);

    let against = ["--against", many.to_str().unwrap(), "--key", "user_id"];
    let [both] = in_turn(ROUNDS, [&mut || run(&many, &against)]);
    table.add(&lines::REPORT_AGAINST, &speed(&both, 2 * ROWS), "");
    table.add(&lines::REPORT_AGAINST_MEMORY, &peak(&both), "");
}

fn measure(bench: &Bench, input: &Path, args: &[&str]) -> Used {
    let place = bench.files.place();
    let mut command = bench.program.command("report");
    command
        .arg(input)
        .arg("-o")
        .arg(place.path().join("report.html"));
    Process::start(command.args(args)).finish()
}

/// Rows a second when the csv crate takes the records apart.
fn read(input: &Path) -> f64 {
    let began = Instant::now();
    let mut reader = csv::ReaderBuilder::new().from_path(input).unwrap();
    let mut record = csv::ByteRecord::new();
    let mut rows = 0;
    while reader.read_byte_record(&mut record).unwrap() {
        rows += 1;
    }
    assert_eq!(rows, ROWS);
    f64::from(rows) / began.elapsed().as_secs_f64()
}
