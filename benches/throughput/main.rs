//! How fast `rescore` is, and how lean: always beside a baseline measured in the same run, round by round in turn.
//!
//! `cargo bench --bench throughput` takes less than ten minutes. After `--`, names of sections choose some of them, `--list`
//! names them, `--long` measures those with millions of rows as well (less than an hour), and `--write` puts the values into
//! `docs/benchmarks.md`. With `RESCORE_BIN=PATH` another build of the program is run. Nothing is asserted: the table says
//! what was aimed at and what was seen. The server and the smallest client that starts are this same binary, run again
//! with a word of their own, so that their CPU time is not counted.

#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark measures the real clock, across processes"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::indexing_slicing,
    clippy::exit,
    reason = "a benchmark whose setting breaks must end immediately, and printing is its purpose"
)]

mod accounting;
mod arguments;
mod bare;
mod bench;
mod check;
mod data;
mod decide;
mod end_to_end;
mod files;
mod four_million;
mod interrupt;
#[path = "../shared/interrupted.rs"]
mod interrupted;
mod known;
mod latency;
mod ledger;
mod machine;
mod phones;
mod process;
mod program;
mod reading;
mod report;
mod resume;
mod rounds;
mod server;
mod startup;
mod table;
mod ten_million;

use std::time::{Duration, Instant};
use std::{fs, process::ExitCode};

use arguments::{Measure, Wanted};
use bench::Bench;
use table::{Document, Run, Section, Table};

/// The program's own, for the baselines as well.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Where the values are written to.
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/benchmarks.md");

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        [server::WORD, milliseconds] => {
            server::serve(Duration::from_millis(milliseconds.parse().unwrap()));
            Ok(())
        }
        [bare::WORD, url] => {
            bare::first_request(url);
            Ok(())
        }
        words => arguments::parse(words).and_then(|wanted| match wanted {
            Wanted::List => {
                list();
                Ok(())
            }
            Wanted::Nothing => {
                println!("this is run by `cargo bench --bench throughput`");
                Ok(())
            }
            Wanted::Measure(wanted) => measure(&wanted),
        }),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

fn list() {
    for section in Section::ALL {
        let long = if section.is_long() { " (--long)" } else { "" };
        println!("{}{long}", section.name());
        let lines = table::lines::GROUPS.iter().flat_map(|group| group.lines);
        for line in lines.filter(|line| line.section == section) {
            println!("  {}", line.measure);
        }
    }
}

fn measure(wanted: &Measure) -> Result<(), String> {
    if wanted.write {
        if std::env::var_os(program::OTHER).is_some() {
            return Err(format!(
                "--write is for the program that was built here, not for {}",
                program::OTHER
            ));
        }
        // What is wrong with it is better known before an hour of measuring.
        document()?;
    }
    let bench = Bench::new();
    interrupt::watch(bench.files.directory().to_owned());
    let run = machine::run(&bench.program);
    let mut all = Table::default();
    for section in &wanted.sections {
        eprintln!("{}", section.name());
        let began = Instant::now();
        let mut table = Table::default();
        of(*section)(&bench, &mut table);
        eprintln!("  {} s", began.elapsed().as_secs());
        if wanted.write {
            // Now, so that an interrupt costs one section and not all.
            write(&table, &run)?;
        }
        all.append(table);
    }
    println!(
        "{}, {}, version {}\n{all}",
        run.machine, run.day, run.version
    );
    Ok(())
}

fn document() -> Result<Document, String> {
    let text = fs::read_to_string(DOCUMENT).map_err(|error| format!("{DOCUMENT}: {error}"))?;
    Document::read(&text).map_err(|error| format!("{DOCUMENT}: {error}"))
}

fn write(table: &Table, run: &Run) -> Result<(), String> {
    let mut document = document()?;
    for (line, entry) in table.entries() {
        document.put(line, entry, run);
    }
    fs::write(DOCUMENT, document.text()).map_err(|error| format!("{DOCUMENT}: {error}"))
}

/// What measures a section.
fn of(section: Section) -> fn(&Bench, &mut Table) {
    match section {
        Section::EndToEndCsv => end_to_end::csv,
        Section::EndToEndJsonl => end_to_end::jsonl,
        Section::Latency => latency::latency,
        Section::Rate => latency::rate,
        Section::Startup => startup::startup,
        Section::Ledger => ledger::ledger,
        Section::Known => known::known,
        Section::Memory => ledger::memory,
        Section::FourMillion => four_million::measure,
        Section::Resume => resume::measure,
        Section::TenMillion => ten_million::measure,
        Section::Files => files::files,
        Section::Check => check::check,
        Section::CheckTenMillion => check::ten_million,
        Section::Decide => decide::decide,
        Section::Report => report::report,
        Section::Phones => phones::phones,
    }
}
