//! Whole runs in this process against a server in another: rows a second, CPU time a row, and the rate that is kept.
//!
//! A run goes through `commands::run`, so it is exactly what the program does; the baseline is the least that can be
//! done with the same HTTP library: bodies made before, answers read and forgotten.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream::{FuturesUnordered, StreamExt};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use rescore::internals::commands::run;
use rescore::internals::config::{
    BudgetConfig, FilesConfig, InputLimits, KeySource, LedgerChoice, LedgerConfig, OneFileConfig,
    OutputConfig, PaceConfig, RealService, RunConfig, ServiceConfig, TimeoutConfig, WatchConfig,
};
use rescore::internals::encoding::TextEncoding;
use rescore::internals::error::Exit;
use rescore::internals::fields::{Assignments, PhoneRules};
use rescore::internals::input::{self, Compose, FileSettings, FormatChoice, Input, Reader};
use rescore::internals::layout::{Existing, VERDICT_COLUMNS};
use rescore::internals::ledger::Reuse;
use rescore::internals::observe::Style;
use rescore::internals::pace::{FailureBudget, GiveUpAfter, Rate};
use rescore::internals::scorer::Patience;
use rescore::internals::secret::Secret;
use rescore::internals::selection::Selection;
use rescore::internals::service::{self, Endpoint, Plan, ServiceId};
use rescore::internals::telemetry::AcceptedFailures;
use rescore::internals::verdict::DecisionPolicy;

use crate::data::Files;
use crate::measure::{ROUNDS, Spread, Table, cpu_seconds, in_turn, ratios};
use crate::server::{Seen, Server};

/// Calls in flight.
const CONCURRENCY: usize = 64;
/// A few seconds' worth without latency.
pub(crate) const ROWS: u32 = 150_000;
pub(crate) const LATENCY: Duration = Duration::from_millis(20);
/// Thirteen seconds' worth with latency. The canary, the wait for the last answers and making the output durable take 35
/// to 85 ms whatever the length of a run: of six seconds up to a percent, of a real run's minutes nothing.
pub(crate) const ROWS_WITH_LATENCY: u32 = 40_000;
const RATE: u32 = 1_000;
const RATE_SECONDS: u32 = 10;

const PLAN: Plan = Plan::Paid {
    vpn_check: true,
    advanced: false,
};

/// Rows a second, and CPU time a row in microseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Round {
    pub(crate) speed: f64,
    pub(crate) cpu: f64,
}

impl Round {
    pub(crate) fn of(rows: u32, work: impl FnOnce()) -> Self {
        let (began, cpu) = (Instant::now(), cpu_seconds());
        work();
        let rows = f64::from(rows);
        Self {
            speed: rows / began.elapsed().as_secs_f64(),
            cpu: (cpu_seconds() - cpu) / rows * 1e6,
        }
    }
}

pub(crate) fn end_to_end(files: &Files, table: &mut Table) {
    let (ours, bare, _) = rounds(files, ROWS, Duration::ZERO);
    let column = |rounds: &[Round], value: fn(&Round) -> f64| -> Vec<f64> {
        rounds.iter().map(value).collect()
    };
    let speeds = (
        column(&ours, |round| round.speed),
        column(&bare, |round| round.speed),
    );
    let cpus = (
        column(&ours, |round| round.cpu),
        column(&bare, |round| round.cpu),
    );
    table.add(
        "end to end, rows/s",
        "–",
        &speeds.0,
        0,
        format!("bare reqwest loop: {:.0}", Spread::of(&speeds.1)),
    );
    table.add(
        "… ratio",
        "≥ 0.80",
        &ratios(&speeds.0, &speeds.1),
        3,
        "bare reqwest loop = 1",
    );
    table.add(
        "end to end, client's CPU a row, µs",
        "–",
        &cpus.0,
        1,
        format!("bare reqwest loop: {:.1}", Spread::of(&cpus.1)),
    );
    table.add(
        "… ratio",
        "≤ 1.3",
        &ratios(&cpus.0, &cpus.1),
        3,
        "bare reqwest loop = 1",
    );
}

/// In flight at most with that latency, rows a second.
#[allow(clippy::cast_precision_loss, reason = "64")]
pub(crate) fn most_with_latency() -> f64 {
    CONCURRENCY as f64 / LATENCY.as_secs_f64()
}

pub(crate) fn latency(files: &Files, table: &mut Table) {
    let most = most_with_latency();
    let (ours, bare, seen) = rounds(files, ROWS_WITH_LATENCY, LATENCY);
    let share = |rounds: &[Round]| -> Vec<f64> {
        rounds
            .iter()
            .map(|round| round.speed / most * 100.0)
            .collect()
    };
    table.add(
        "20 ms latency, 64 in flight: % of 3,200 rows/s",
        "≥ 95",
        &share(&ours),
        1,
        format!("bare reqwest loop: {:.1}", Spread::of(&share(&bare))),
    );
    #[allow(clippy::cast_precision_loss, reason = "some 400,000")]
    let waited = seen.waited.as_secs_f64() / seen.requests as f64 * 1e3;
    table.add(
        "… the server's latency as it was, mean, ms",
        "20",
        &[waited],
        2,
        "all rounds of both",
    );
}

pub(crate) fn rate(files: &Files, table: &mut Table) {
    let rows = RATE * RATE_SECONDS;
    let input = files.csv(rows);
    let mut server = Server::start(Duration::ZERO);
    let shares: Vec<f64> = (1..=ROUNDS)
        .map(|round| {
            eprintln!("  round {round} of {ROUNDS}");
            let pace = Rate::PerSecond(f64::from(RATE));
            whole_run(&input, &files.output("scored.csv"), &server.url, pace);
            let seen = server.seen();
            assert_eq!(seen.requests, u64::from(rows), "requests that arrived");
            // Between the first and the last there is one step less than requests.
            f64::from(rows - 1)
                / seen.last.saturating_sub(seen.first).as_secs_f64()
                / f64::from(RATE)
                * 100.0
        })
        .collect();
    table.add(
        "10 s at 1,000/s: % of the rate, as the server saw it",
        "98–100.5",
        &shares,
        2,
        "the rate asked for = 100",
    );
}

/// Whole runs and bare loops in turn, and what the server saw of both.
fn rounds(files: &Files, rows: u32, latency: Duration) -> (Vec<Round>, Vec<Round>, Seen) {
    let (input, output) = (files.csv(rows), files.output("scored.csv"));
    let mut server = Server::start(latency);
    let bodies = bodies(&input);
    let (ours, bare) = in_turn(
        ROUNDS,
        || {
            Round::of(rows, || {
                whole_run(&input, &output, &server.url, Rate::Unlimited);
            })
        },
        || Round::of(rows, || bare_loop(&server.url, &bodies)),
    );
    (ours, bare, server.seen())
}

/// Without a ledger, and each row asked: what other sections are about.
pub(crate) const NOTHING_KEPT: LedgerConfig = LedgerConfig {
    choice: LedgerChoice::Nowhere,
    reuse: Reuse::All,
    dedupe: false,
};

fn whole_run(input: &Path, output: &Path, url: &str, rate: Rate) {
    run_with(input, output, url, rate, NOTHING_KEPT);
}

pub(crate) fn run_with(input: &Path, output: &Path, url: &str, rate: Rate, ledger: LedgerConfig) {
    let exit = run::execute(RunConfig {
        idempotency: None,
        limits: InputLimits::default(),
        files: FilesConfig::One(Box::new(OneFileConfig {
            input: reader_settings(input),
            output: OutputConfig {
                path: Some(output.to_owned()),
                rejects: None,
                changes: None,
                report: None,
                overwrite: true,
            },
        })),
        service: ServiceConfig::Real(Box::new(RealService {
            endpoint: Endpoint::new(url, false).unwrap(),
            key: KeySource::Variable(Secret::new("bench")),
            service_id: ServiceId::new("bench").unwrap(),
            proxy: None,
            ca_file: None,
        })),
        timeouts: TimeoutConfig {
            call: Duration::from_secs(30),
            connect: Duration::from_secs(10),
        },
        plan: PLAN,
        pace: PaceConfig {
            concurrency: Some(CONCURRENCY.try_into().unwrap()),
            rate,
            retries: 0,
            resends: 0,
            patience: Patience::DEFAULT,
        },
        budget: BudgetConfig {
            give_up_after: GiveUpAfter::default(),
            calls: None,
            failures: FailureBudget::default(),
        },
        ledger,
        wait_lock: None,
        policy: DecisionPolicy::default(),
        captured: Box::default(),
        watch: WatchConfig {
            tariff: None,
            accepted: AcceptedFailures::default(),
            style: Style::Off,
            every: Duration::from_secs(10),
            quiet: true,
            summary: None,
            metrics: None,
            log: None,
            job: None,
            profile: None,
        },
    });
    assert_eq!(exit.unwrap(), Exit::Complete);
}

/// What a reader of a plain file needs.
pub(crate) fn reader_settings(input: &Path) -> input::ReaderSettings {
    input::ReaderSettings {
        file: FileSettings {
            input: Input::File(PathBuf::from(input)),
            format: FormatChoice::Detect,
            encoding: TextEncoding::UTF_8,
            delimiter: None,
            no_header: false,
            max_record: 1024 * 1024,
        },
        judges_first_rows: true,
        selection: Selection::default(),
        assignments: Assignments::default(),
        phones: PhoneRules::default(),
        existing: Existing::Replace,
        columns: VERDICT_COLUMNS.map(str::to_owned).to_vec(),
    }
}

/// How a run makes bodies.
pub(crate) fn compose() -> Compose {
    Compose::new(|request, to| service::write_body(request, PLAN, to))
}

/// The bodies that a run over this file sends.
fn bodies(input: &Path) -> Vec<Bytes> {
    let (mut reader, _) = Reader::open(reader_settings(input), compose()).unwrap();
    std::iter::from_fn(|| reader.next_batch().unwrap())
        .flat_map(|batch| batch.rows)
        .map(|prepared| prepared.request.unwrap())
        .collect()
}

fn bare_loop(url: &str, bodies: &[Bytes]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let client = bare_client();
    let url: reqwest::Url = format!("{url}/v1/validate/user").parse().unwrap();
    let send = |body: &Bytes| {
        let request = client.post(url.clone()).body(body.clone()).send();
        async { request.await.unwrap().bytes().await.unwrap().len() }
    };
    runtime.block_on(async {
        let mut waiting = bodies.iter();
        let mut running: FuturesUnordered<_> =
            waiting.by_ref().take(CONCURRENCY).map(send).collect();
        while running.next().await.is_some() {
            running.extend(waiting.next().map(send));
        }
    });
}

/// A client with the program's settings, set up and used as anybody would.
pub(crate) fn bare_client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut authorization = HeaderValue::from_static("Bearer bench");
    authorization.set_sensitive(true);
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, authorization);
    headers.insert("x-service-id", HeaderValue::from_static("bench"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reqwest::Client::builder()
        .user_agent("rescore/bench")
        .default_headers(headers)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .pool_idle_timeout(Duration::from_secs(4))
        .connect_timeout(Duration::from_secs(10))
        .timeout(Duration::from_secs(30))
        .no_proxy()
        .tls_certs_only([])
        .build()
        .unwrap()
}
