//! The program itself as a process: its memory at the highest, and how soon its first request arrives.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::calls::bare_client;
use crate::data::Files;
use crate::measure::{ROUNDS, Spread, Table, in_turn, ratios};
use crate::server::{Server, now};

/// The argument that makes this binary the smallest client; the next one is the URL.
pub(crate) const WORD: &str = "first-request";

/// The program, where this was built together with one.
pub(crate) const PROGRAM: Option<&str> = option_env!("CARGO_BIN_EXE_rescore");
const FEW_ROWS: u32 = 10_000;
const MANY_ROWS: u32 = 1_000_000;
const MEMORY_TARGET: &str = "≤ 40";
const STARTS: usize = 20;
const START_TARGET: &str = "< 50";

pub(crate) fn memory(files: &Files, table: &mut Table) {
    let Some(program) = PROGRAM else {
        return table.skip(
            "memory at the highest, MiB",
            MEMORY_TARGET,
            "no program was built",
        );
    };
    let server = Server::start(Duration::ZERO);
    let (few, many) = (files.csv(FEW_ROWS), files.csv(MANY_ROWS));
    let peak_of = |input: &Path| -> f64 {
        let output = files.output("scored.csv");
        let _ = fs::remove_file(&output);
        peak(start(program, input, &output, &server.url))
    };
    let (large, small) = in_turn(ROUNDS, || peak_of(&many), || peak_of(&few));
    table.add(
        "memory at the highest, 1,000,000 rows, MiB",
        MEMORY_TARGET,
        &large,
        1,
        format!("10,000 rows: {:.1}", Spread::of(&small)),
    );
    table.add(
        "… ratio",
        "about 1",
        &ratios(&large, &small),
        3,
        "10,000 rows = 1",
    );
}

pub(crate) fn startup(files: &Files, table: &mut Table) {
    let measure = "start to first request, ms";
    let Some(program) = PROGRAM else {
        return table.skip(measure, START_TARGET, "no program was built");
    };
    let server = std::cell::RefCell::new(Server::start(Duration::ZERO));
    let url = server.borrow().url.clone();
    let input = files.csv(10);
    let since = |start: &dyn Fn() -> Child| -> f64 {
        let began = now();
        finish(start());
        let seen = server.borrow_mut().seen();
        assert!(seen.requests > 0, "no request arrived");
        seen.first.saturating_sub(began).as_secs_f64() * 1e3
    };
    let output = files.output("scored.csv");
    let (ours, bare) = in_turn(
        STARTS,
        || {
            let _ = fs::remove_file(&output);
            since(&|| start(program, &input, &output, &url))
        },
        || {
            since(&|| {
                Command::new(std::env::current_exe().unwrap())
                    .args([WORD, &url])
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap()
            })
        },
    );
    table.add(
        measure,
        START_TARGET,
        &ours,
        1,
        format!("bare reqwest program: {:.1}", Spread::of(&bare)),
    );
}

/// The least that a program can do that sends one request with this HTTP library.
pub(crate) fn first_request(url: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let request = bare_client().post(url).body("{}");
    runtime.block_on(async { request.send().await.unwrap().bytes().await.unwrap() });
}

fn start(program: &str, input: &Path, output: &Path, url: &str) -> Child {
    Command::new(program)
        .arg("run")
        .arg(input)
        .arg("-o")
        .arg(output)
        .args(["--base-url", url, "--service-id", "bench"])
        .args(["-r", "unlimited", "-c", "64", "--progress", "off"])
        .env("RESCORE_API_KEY", "bench")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The most memory that a process has had at its end, in MiB.
pub(crate) fn peak(mut child: Child) -> f64 {
    let mut peak = 0.0;
    loop {
        // What has ended has no memory to show.
        if let Some(now) = peak_so_far(child.id()) {
            peak = now;
        }
        if child.try_wait().unwrap().is_some() {
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    finish(child);
    peak
}

/// Waits for the end; what went wrong is shown, and the measure is worth nothing.
pub(crate) fn finish(child: Child) {
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The most memory that a process has had so far, in MiB; `None` when it has none any more.
fn peak_so_far(process: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes / 1024.0)
}
