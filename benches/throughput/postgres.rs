//! What a ledger on a PostgreSQL server costs beside one in a file: one process and four, on the same two cores as the
//! database and the service.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::bench::Bench;
use crate::cluster::{self, Cluster, Database};
use crate::process::Process;
use crate::program::{Ledger, REQUEST, ServerLedger, scored};
use crate::rounds::{FEW_ROUNDS, ROUNDS, in_turn};
use crate::server::Server;
use crate::table::{Table, lines, median, ratios, text};

/// Some seconds' worth.
const ROWS: u32 = 100_000;
const PROCESSES: usize = 4;
const LATENCY: Duration = Duration::from_millis(20);
/// Six seconds' worth with latency.
const SLOW_ROWS: u32 = 20_000;

pub(crate) fn postgres(bench: &Bench, table: &mut Table) {
    let Some(cluster) = cluster::own() else {
        return;
    };
    unknown(bench, table, &cluster);
    known(bench, table, &cluster);
    latency(bench, table, &cluster);
}

/// A new ledger on the server.
fn new_ledger(bench: &Bench, database: &Database, place: &Path) -> ServerLedger {
    let ledger = ServerLedger {
        url: database.url(),
        secret: place.join("secret"),
    };
    let mut command = bench.program.command("ledger");
    command.args(["init", &ledger.url, "--ledger-secret-file"]);
    command.arg(&ledger.secret);
    Process::start(&mut command).finish();
    ledger
}

/// Everything is asked.
fn unknown(bench: &Bench, table: &mut Table, cluster: &Cluster) {
    let server = Server::start(Duration::ZERO);
    let all = [bench.files.csv(ROWS)];
    let parts: [_; PROCESSES] = bench.files.csv_parts(ROWS);
    let sizes = RefCell::new(Vec::new());
    let in_file = |inputs: &[PathBuf]| {
        let place = bench.files.place();
        let path = place.path().join("answers.ledger");
        together(bench, (inputs, ROWS), &server.url, Ledger::Shared(&path))
    };
    let on_server = |inputs: &[PathBuf]| {
        let (place, database) = (bench.files.place(), cluster.database());
        let ledger = new_ledger(bench, &database, place.path());
        let speed = together(bench, (inputs, ROWS), &server.url, Ledger::Server(&ledger));
        sizes.borrow_mut().push(size(&database) / f64::from(ROWS));
        speed
    };
    let [file, postgres, file_four, postgres_four] = in_turn(
        ROUNDS,
        [
            &mut || in_file(&all),
            &mut || on_server(&all),
            &mut || in_file(&parts),
            &mut || on_server(&parts),
        ],
    );
    let baseline = |values: &[f64]| format!("`--ledger FILE` {}", text(median(values), 0));
    table.add(&lines::POSTGRES_SPEED, &postgres, baseline(&file));
    table.add(&lines::POSTGRES_FOUR, &postgres_four, baseline(&file_four));
    table.add(&lines::POSTGRES_SIZE, &sizes.into_inner(), "");
}

/// Nothing is asked.
fn known(bench: &Bench, table: &mut Table, cluster: &Cluster) {
    let mut server = Server::start(Duration::ZERO);
    let url = server.url.clone();
    let all = [bench.files.csv(ROWS)];
    let parts: [_; PROCESSES] = bench.files.csv_parts(ROWS);
    let (place, database) = (bench.files.place(), cluster.database());
    let path = place.path().join("answers.ledger");
    let (file, postgres) = (
        Ledger::Shared(&path),
        new_ledger(bench, &database, place.path()),
    );
    let postgres = Ledger::Server(&postgres);
    for ledger in [file, postgres] {
        together(bench, (&all, ROWS), &url, ledger);
    }
    assert_eq!(server.seen().requests, 2 * u64::from(ROWS), "asked once");
    let check = |ledger: Ledger| {
        let mut command = bench.program.command("check");
        command.arg(&all[0]).args(["--quiet", "--json"]);
        command.args(REQUEST).args(["--base-url", &url]);
        ledger.name_in(&mut command);
        f64::from(ROWS) / Process::start(&mut command).finish().seconds
    };
    let [
        file_one,
        postgres_one,
        file_four,
        postgres_four,
        file_check,
        postgres_check,
    ] = in_turn(
        ROUNDS,
        [
            &mut || together(bench, (&all, ROWS), &url, file),
            &mut || together(bench, (&all, ROWS), &url, postgres),
            &mut || together(bench, (&parts, ROWS), &url, file),
            &mut || together(bench, (&parts, ROWS), &url, postgres),
            &mut || check(file),
            &mut || check(postgres),
        ],
    );
    assert_eq!(server.seen().requests, 0, "everything is known");
    let baseline = |values: &[f64]| format!("`--ledger FILE` {}", text(median(values), 0));
    table.add(&lines::POSTGRES_KNOWN, &postgres_one, baseline(&file_one));
    table.add(
        &lines::POSTGRES_KNOWN_FOUR,
        &postgres_four,
        baseline(&file_four),
    );
    table.add(
        &lines::POSTGRES_LOOKUPS,
        &postgres_check,
        baseline(&file_check),
    );
}

/// As fast as a ledger in a file, where the service takes its time.
fn latency(bench: &Bench, table: &mut Table, cluster: &Cluster) {
    let server = Server::start(LATENCY);
    let input = [bench.files.csv(SLOW_ROWS)];
    let [file, postgres] = in_turn(
        FEW_ROUNDS,
        [
            &mut || {
                let place = bench.files.place();
                let path = place.path().join("answers.ledger");
                together(
                    bench,
                    (&input, SLOW_ROWS),
                    &server.url,
                    Ledger::Shared(&path),
                )
            },
            &mut || {
                let (place, database) = (bench.files.place(), cluster.database());
                let ledger = new_ledger(bench, &database, place.path());
                together(
                    bench,
                    (&input, SLOW_ROWS),
                    &server.url,
                    Ledger::Server(&ledger),
                )
            },
        ],
    );
    let speeds = format!(
        "{} against {} rows/s",
        text(median(&postgres), 0),
        text(median(&file), 0)
    );
    table.add(&lines::POSTGRES_LATENCY, &ratios(&postgres, &file), speeds);
}

/// The bytes of the answers on a server, with their index.
fn size(database: &Database) -> f64 {
    let size = database.sql("SELECT pg_total_relation_size('rescore.answers')");
    size.parse().unwrap()
}

/// A run over each of these inputs, all at the same time. Returns how many rows of all came in a second.
fn together(bench: &Bench, (inputs, rows): (&[PathBuf], u32), url: &str, ledger: Ledger) -> f64 {
    let place = bench.files.place();
    let began = Instant::now();
    let runs: Vec<Process> = (inputs.iter().enumerate())
        .map(|(number, input)| {
            let output = scored(place.path(), input).with_file_name(format!("scored-{number}.csv"));
            Process::start(&mut bench.program.run(input, &output, url, ledger))
        })
        .collect();
    for run in runs {
        run.finish();
    }
    f64::from(rows) / began.elapsed().as_secs_f64()
}
