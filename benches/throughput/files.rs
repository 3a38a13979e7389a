//! Reading and writing alone: every row gets the same verdict immediately, without a call.
//!
//! The reader's and the writer's threads are connected as in a run; the baseline copies the file on one thread with
//! the usual library and puts the same bytes in.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use rescore::internals::{
    Answer, Compose, DecisionPolicy, Reader, Replace, Row, RowFiles, RowState, Score, Target,
    TransactionId, Verdict, Writer,
};

use crate::bench::Bench;
use crate::program::scored;
use crate::reading::{compose, nothing, reader_settings};
use crate::rounds::{ROUNDS, in_turn};
use crate::table::{Line, Table, lines, median, text};

const ROWS: u32 = 1_000_000;
/// Batches between threads, as in a run.
const BATCHES: usize = 2;
const ID: &str = "44de328f-0000-4000-8000-000000000000";
const SCORE: &str = "1.68";
const DECISION: &str = "approve";

pub(crate) fn files(bench: &Bench, table: &mut Table) {
    let csv = (&lines::CSV_FILE, &lines::CSV_FILE_BODIES);
    let input = bench.files.csv(ROWS);
    measure(bench, table, &input, csv, ("csv crate", copy_csv));
    let jsonl = (&lines::JSONL_FILE, &lines::JSONL_FILE_BODIES);
    let input = bench.files.jsonl(ROWS);
    let copying = (
        "copying line by line",
        copy_jsonl as fn(&Path, &Path) -> f64,
    );
    measure(bench, table, &input, jsonl, copying);
}

fn measure(
    bench: &Bench,
    table: &mut Table,
    input: &Path,
    (alone, with_bodies): (&'static Line, &'static Line),
    (copier, copy): (&str, fn(&Path, &Path) -> f64),
) {
    let place = bench.files.place();
    let output = scored(place.path(), input);
    let [ours, baseline] = in_turn(
        ROUNDS,
        [&mut || through(input, &output, nothing()), &mut || {
            copy(input, &output)
        }],
    );
    // Not in turn with the others: what ran right after a copy was a tenth slower, with bodies or without.
    let [with] = in_turn(ROUNDS, [&mut || through(input, &output, compose())]);
    let baseline = format!("{copier} {}", text(median(&baseline), 0));
    table.add(alone, &ours, baseline);
    table.add(with_bodies, &with, "");
}

/// Rows a second through reader and writer.
fn through(input: &Path, output: &Path, compose: Compose) -> f64 {
    let answer = Answer {
        transaction_id: TransactionId::new(ID).unwrap(),
        score: Score::from_json_number(SCORE).unwrap(),
        captured: Box::default(),
    };
    let decision = DecisionPolicy::default().decide(&answer);
    let verdict = Verdict::Scored(answer, decision);

    let began = Instant::now();
    let (mut reader, opened) = Reader::open(reader_settings(input), compose).unwrap();
    let output = Target::new(output, |_| Replace::Whole)
        .unwrap()
        .open(0o666)
        .unwrap();
    let mut writer = Writer::new(
        opened.layout,
        DecisionPolicy::default(),
        RowFiles::new(output, None, None),
    );
    let (batches, read) = sync_channel(BATCHES);
    let (finished, write) = sync_channel::<Vec<Row>>(BATCHES);
    let reading = spawn("reader", move || {
        while let Some(batch) = reader.next_batch().unwrap() {
            batches.send(batch).unwrap();
        }
    });
    let writing = spawn("writer", move || {
        for rows in write {
            writer.write(&rows).unwrap();
        }
        writer
    });
    for mut batch in read {
        for row in &mut batch.rows {
            assert!(row.state.failure().is_none());
            let verdict = verdict.clone();
            row.state = RowState::Done { verdict, old: None };
        }
        finished.send(batch.rows).unwrap();
    }
    drop(finished);
    reading.join().unwrap();
    let writer = writing.join().unwrap();
    let seconds = began.elapsed().as_secs_f64();
    // Makes it durable: that is the disk's speed, and the baseline's output has its turn outside of the time as well.
    assert!(writer.into_files().commit(|_| ()).error.is_none());
    f64::from(ROWS) / seconds
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    // Named, so that a profiler tells them apart.
    let builder = thread::Builder::new().name(name.to_owned());
    builder.spawn(work).unwrap()
}

/// Rows a second when the csv crate takes records apart and puts them together with three more cells.
fn copy_csv(input: &Path, output: &Path) -> f64 {
    let began = Instant::now();
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .from_path(input)
        .unwrap();
    let mut writer = csv::Writer::from_path(output).unwrap();
    let mut record = csv::ByteRecord::new();
    while reader.read_byte_record(&mut record).unwrap() {
        for cell in [ID, SCORE, DECISION] {
            record.push_field(cell.as_bytes());
        }
        writer.write_byte_record(&record).unwrap();
    }
    writer.flush().unwrap();
    let seconds = began.elapsed().as_secs_f64();
    File::open(output).unwrap().sync_all().unwrap();
    f64::from(ROWS) / seconds
}

/// Rows a second when lines are copied with three more members at their end.
fn copy_jsonl(input: &Path, output: &Path) -> f64 {
    let began = Instant::now();
    let mut reader = BufReader::new(File::open(input).unwrap());
    let mut writer = BufWriter::new(File::create(output).unwrap());
    let tail = format!(
        r#","transaction_id":"{ID}","risk_score":{SCORE},"decision":"{DECISION}"}}{}"#,
        '\n'
    );
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).unwrap() > 0 {
        writer
            .write_all(line.strip_suffix(b"}\n").unwrap())
            .unwrap();
        writer.write_all(tail.as_bytes()).unwrap();
        line.clear();
    }
    writer.flush().unwrap();
    let seconds = began.elapsed().as_secs_f64();
    File::open(output).unwrap().sync_all().unwrap();
    f64::from(ROWS) / seconds
}
