//! nginx with its own limits, where it is installed, on a quiet machine and on a busy one. Its log says when it accepted
//! and refused what.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::behaviour::Behaviour;
use crate::busy::Busy;
use crate::children::Guarded;
use crate::counts::Counts;
use crate::limits::{FROM, ROWS, TIME, TO};
use crate::program::{Program, load};
use crate::server::Server;
use crate::table::{Line, skip};

/// A limit as its settings have it.
struct Limit {
    name: &'static str,
    zone: &'static str,
    location: &'static str,
    /// Of the service behind it.
    latency: Duration,
    /// Calls a second that it allows.
    allows: f64,
}

const RATE: Limit = Limit {
    name: "nginx limit_req 200/s, no burst",
    zone: "limit_req_zone $server_port zone=all:1m rate=200r/s;",
    location: "limit_req zone=all; limit_req_status 429;",
    latency: Duration::from_millis(20),
    allows: 200.0,
};

const BURST: Limit = Limit {
    name: "nginx limit_req 200/s, burst=20 nodelay",
    location: "limit_req zone=all burst=20 nodelay; limit_req_status 429;",
    ..RATE
};

const IN_FLIGHT: Limit = Limit {
    name: "nginx limit_conn 20, 100 ms",
    zone: "limit_conn_zone $server_port zone=all:1m;",
    location: "limit_conn all 20; limit_conn_status 429;",
    latency: Duration::from_millis(100),
    allows: 200.0,
};

const QUIET_AIM: &str = "≥ 0.6, at most 1 in 50";
const BUSY_AIM: &str = "≥ 0.3";

pub(crate) fn rate(program: &Program) {
    measure(program, &RATE, "", QUIET_AIM);
}

pub(crate) fn rate_busy(program: &Program) {
    let _busy = Busy::start();
    measure(program, &RATE, ", busy machine", BUSY_AIM);
}

pub(crate) fn burst(program: &Program) {
    measure(program, &BURST, "", QUIET_AIM);
}

pub(crate) fn burst_busy(program: &Program) {
    let _busy = Busy::start();
    measure(program, &BURST, ", busy machine", BUSY_AIM);
}

pub(crate) fn in_flight(program: &Program) {
    measure(program, &IN_FLIGHT, "", QUIET_AIM);
}

pub(crate) fn in_flight_busy(program: &Program) {
    let _busy = Busy::start();
    measure(program, &IN_FLIGHT, ", busy machine", BUSY_AIM);
}

fn measure(program: &Program, limit: &Limit, machine: &str, aim: &str) {
    let service = format!("{}{machine}", limit.name);
    let Some(installed) = installed() else {
        return skip(&service, "nginx is not installed");
    };
    let server = Server::start(Behaviour::accepting(limit.latency));
    let nginx = Nginx::start(&installed, program.place(), &server, limit);
    let load = load();
    let done = program
        .start(&program.users(ROWS), &nginx.url, &[])
        .done(TIME);
    let counts = nginx.counts();
    let rate = counts.rate(FROM..TO);
    Line {
        service: &service,
        rows: ROWS,
        seen: format!("{rate:.1}/s after 20 s"),
        share: Some(rate / limit.allows),
        refusals: counts.refusals(),
        aim,
        more: format!(
            "{} of the refusals after 20 s; {load}; {}",
            counts.refused_in(FROM..TO),
            done.ending()
        ),
    }
    .print();
}

/// Where nginx is, if anywhere.
fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        // Not everybody's `PATH` has this one.
        .chain(["/usr/sbin".into()])
        .map(|directory| directory.join("nginx"))
        .find(|nginx| nginx.is_file())
}

/// nginx before a service, until it is dropped.
struct Nginx {
    url: String,
    _process: Guarded,
    place: TempDir,
}

impl Nginx {
    /// Starts it; it listens when this returns.
    fn start(installed: &Path, place: TempDir, behind: &Server, limit: &Limit) -> Self {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let (at, behind) = (place.path().display(), &behind.url);
        let Limit { zone, location, .. } = limit;
        let settings = format!(
            "daemon off; pid {at}/pid; error_log {at}/errors; worker_processes 1;
            events {{ worker_connections 4096; }}
            http {{
                log_format times '$msec $status'; access_log {at}/log times;
                client_body_temp_path {at}/body; proxy_temp_path {at}/proxy;
                fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;
                {zone}
                server {{
                    listen 127.0.0.1:{port};
                    location / {{ {location} proxy_pass {behind}; }}
                }}
            }}"
        );
        let file = place.path().join("nginx.conf");
        fs::write(&file, settings).unwrap();
        let mut command = Command::new(installed);
        command.arg("-p").arg(place.path()).arg("-c").arg(&file);
        let process = Guarded::start(command.stdin(Stdio::null()).stderr(Stdio::null()));
        let began = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(began.elapsed() < TIME, "nginx does not listen");
            thread::sleep(Duration::from_millis(10));
        }
        Self {
            url: format!("http://127.0.0.1:{port}"),
            _process: process,
            place,
        }
    }

    /// What its log says of calls: when they ended, and with which status.
    fn counts(&self) -> Counts {
        let log = fs::read_to_string(self.place.path().join("log")).unwrap();
        let calls = log.lines().filter_map(|line| line.split_once(' '));
        let calls: Vec<(f64, &str)> = calls
            .map(|(at, status)| (at.parse().unwrap(), status))
            .collect();
        let first = calls.iter().map(|(at, _)| *at).reduce(f64::min);
        let mut counts = Counts::default();
        for (at, status) in &calls {
            let since = at - first.unwrap_or_default();
            counts.add(Duration::from_secs_f64(since), *status == "200");
        }
        counts
    }
}
