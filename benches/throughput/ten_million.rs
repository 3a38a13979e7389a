//! Ten million rows with a ledger that stays, million by million, and a nightly run over them: of every hundred rows, one
//! is new.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::bench::{Bench, Ran};
use crate::ledger::size;
use crate::process::Process;
use crate::program::{Ledger, scored};
use crate::server::Server;
use crate::table::{Table, estimate, lines, number, text};

const ROWS: u32 = 10_000_000;
/// Of all rows, as [`crate::data::Files::next_night`] changes them.
const NEW_ROWS: u32 = ROWS / 100;
/// The curve has a point for each million.
const STEP: u64 = 1_000_000;
/// A hundred million rows, in steps.
const LATER: f64 = 100.0;
/// How often the server is asked how far the run is.
const PAUSE: Duration = Duration::from_millis(20);
/// Input, output and ledger.
const GIGABYTES: u64 = 8;

/// How far a run is.
#[derive(Debug, Clone, Copy, Default)]
struct Point {
    rows: u64,
    seconds: f64,
    /// Bytes sent to the disk, without the length of the output.
    written: f64,
}

pub(crate) fn measure(bench: &Bench, table: &mut Table) {
    if !bench.files.have_room(GIGABYTES) {
        return;
    }
    // The same for both runs: its address is part of each request.
    let mut server = Server::start(Duration::ZERO);
    let place = bench.files.place();
    let ledger = place.path().join("answers.ledger");
    first(bench, table, &mut server, &ledger);
    let answers = f64::from(ROWS);
    let size = number(size(place.path())) / answers;
    table.add(&lines::TEN_MILLION_SIZE, &[size], "");
    night(bench, table, &mut server, &ledger);
}

fn first(bench: &Bench, table: &mut Table, server: &mut Server, ledger: &Path) {
    let input = bench.files.csv(ROWS);
    let place = bench.files.place();
    let output = scored(place.path(), &input);
    let ledger = Ledger::At(ledger);
    let run = Process::start(&mut bench.program.run(&input, &output, &server.url, ledger));
    let points = curve(&run, server, &output);
    let ran = Ran::new(ROWS, run.finish(), &output);
    // What the last look has not seen must not be taken for the next run's.
    server.seen();
    bench.files.discard(&input);

    let steps = |of: fn(&Point) -> f64| -> Vec<f64> {
        let mut before = Point::default();
        let mut steps = Vec::new();
        for point in &points {
            steps.push((of(point) - of(&before)) / number(point.rows - before.rows));
            before = *point;
        }
        steps
    };
    let speeds: Vec<f64> = steps(|point| point.seconds)
        .into_iter()
        .map(f64::recip)
        .collect();
    let written = steps(|point| point.written);
    table.add(&lines::TEN_MILLION_SPEED, &speeds, in_order(&speeds));
    table.add(&lines::TEN_MILLION_WRITTEN, &written, in_order(&written));
    // With what the end of the run wrote.
    let all = [ran.written()];
    table.add(&lines::TEN_MILLION_ALL_WRITTEN, &all, "");
    let later = [estimate(&written, LATER)];
    let how = "each million costing more by as much as here";
    table.add(&lines::HUNDRED_MILLION_WRITTEN, &later, how);
    table.add(&lines::MEMORY_TEN_MILLION, &[ran.peak()], "");
}

/// Looks at a run whenever it has made another million calls.
fn curve(run: &Process, server: &mut Server, output: &Path) -> Vec<Point> {
    let partial = partial(output);
    let (mut points, mut rows) = (Vec::new(), 0);
    while !run.has_ended() && rows < u64::from(ROWS) {
        thread::sleep(PAUSE);
        rows += server.seen().requests;
        if rows / STEP > u64::try_from(points.len()).unwrap() {
            let output = fs::metadata(&partial).map_or(0, |file| file.len());
            let point = Point {
                rows,
                seconds: run.seconds(),
                written: number(run.written()) - number(output),
            };
            let per_row = text(point.written / number(rows), 0);
            eprintln!(
                "  {} s, {rows} rows, {per_row} bytes a row",
                text(point.seconds, 0)
            );
            points.push(point);
        }
    }
    points
}

/// What the output is called until it is complete.
fn partial(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

fn night(bench: &Bench, table: &mut Table, server: &mut Server, ledger: &Path) {
    let input = bench.files.next_night(ROWS);
    eprintln!("  the next night");
    let ran = bench.whole_run((&input, ROWS), &server.url, Ledger::At(ledger));
    bench.files.discard(&input);
    let asked = server.seen().requests;
    assert_eq!(asked, u64::from(NEW_ROWS), "only what is new is asked");
    table.add(&lines::NIGHT_SPEED, &[ran.speed()], "");
    let each = ran.written() * f64::from(ROWS / NEW_ROWS);
    table.add(&lines::NIGHT_WRITTEN, &[each], "");
    table.add(&lines::MEMORY_NIGHT, &[ran.peak()], "");
}

/// The values of the millions, one after the other.
fn in_order(values: &[f64]) -> String {
    let values: Vec<_> = values.iter().map(|value| text(*value, 0)).collect();
    format!("in order: {}", values.join("; "))
}
