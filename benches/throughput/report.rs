//! `rescore report` as a process: rows a second, and its memory at the highest. The baseline reads the same file and
//! counts its records.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::data::Files;
use crate::measure::{ROUNDS, Spread, Table, in_turn, ratios};
use crate::process::{PROGRAM, peak};

const ROWS: u32 = 1_000_000;
const FEW_ROWS: u32 = 10_000;
/// Two columns with as many values as rows.
const BY: [&str; 4] = ["--by", "user_id", "--by", "email"];

/// Rows a second, and the memory at the highest in MiB.
type Seen = (f64, f64);

pub(crate) fn report(files: &Files, table: &mut Table) {
    let Some(program) = PROGRAM else {
        return table.skip("report, rows/s", "≥ 500,000", "no program was built");
    };
    let (many, few) = (files.scored_csv(ROWS), files.scored_csv(FEW_ROWS));
    let page = files.output("report.html");
    let run = |input: &Path, rows: u32, args: &[&str]| measure(program, (input, &page), rows, args);
    let (ours, baseline) = in_turn(ROUNDS, || run(&many, ROWS, &[]).0, || read(&many));
    let reading = format!("csv crate, reading alone: {:.0}", Spread::of(&baseline));
    table.add("report, rows/s", "≥ 500,000", &ours, 0, reading);
    let ratio = ratios(&ours, &baseline);
    table.add("… ratio", "–", &ratio, 3, "reading alone = 1");
    let (large, small) = in_turn(
        ROUNDS,
        || run(&many, ROWS, &BY),
        || run(&few, FEW_ROWS, &BY),
    );
    let column =
        |seen: &[Seen], value: fn(&Seen) -> f64| seen.iter().map(value).collect::<Vec<_>>();
    let speed = column(&large, |seen| seen.0);
    let what = "… with two `--by` columns of a million values, rows/s";
    table.add(what, "≥ 500,000", &speed, 0, "the same");
    let (large, small) = (column(&large, |seen| seen.1), column(&small, |seen| seen.1));
    let of_few = format!("10,000 rows: {:.1}", Spread::of(&small));
    table.add("… memory at the highest, MiB", "≤ 64", &large, 1, of_few);
    let against = ["--against", many.to_str().unwrap(), "--key", "user_id"];
    let seen: Vec<_> = (0..ROUNDS).map(|_| run(&many, ROWS, &against)).collect();
    let what = "… against a file of a million rows, rows/s of both";
    table.add(what, "–", &column(&seen, |seen| seen.0 * 2.0), 0, "");
    let what = "… memory at the highest, MiB";
    table.add(what, "–", &column(&seen, |seen| seen.1), 1, "");
}

fn measure(program: &str, (input, page): (&Path, &Path), rows: u32, args: &[&str]) -> Seen {
    let _ = fs::remove_file(page);
    let began = Instant::now();
    let child = Command::new(program)
        .arg("report")
        .arg(input)
        .arg("-o")
        .arg(page)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let peak = peak(child);
    let seconds = began.elapsed().as_secs_f64();
    (f64::from(rows) / seconds, peak)
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
