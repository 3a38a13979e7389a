//! nginx with its own limits, where it is installed. Its log says when it accepted and refused what.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::service::Calls;

/// A limit as its settings have it.
pub(crate) struct Limit {
    pub(crate) name: &'static str,
    zone: &'static str,
    location: &'static str,
    /// Of the service behind it.
    pub(crate) latency: Duration,
    /// Calls a second that it allows.
    pub(crate) allows: f64,
}

pub(crate) const WITHOUT_BURST: Limit = Limit {
    name: "nginx limit_req 200/s, no burst",
    zone: "limit_req_zone $server_port zone=all:1m rate=200r/s;",
    location: "limit_req zone=all;",
    latency: Duration::from_millis(20),
    allows: 200.0,
};
pub(crate) const WITH_BURST: Limit = Limit {
    name: "nginx limit_req 200/s, burst=20 nodelay",
    location: "limit_req zone=all burst=20 nodelay;",
    ..WITHOUT_BURST
};
pub(crate) const WAITING: Limit = Limit {
    location: "limit_req zone=all burst=20;",
    ..WITHOUT_BURST
};
pub(crate) const SLOW: Limit = Limit {
    name: "nginx limit_req 1/s, no burst",
    zone: "limit_req_zone $server_port zone=all:1m rate=1r/s;",
    allows: 1.0,
    ..WITHOUT_BURST
};
pub(crate) const SLOW_WITH_BURST: Limit = Limit {
    name: "nginx limit_req 1/s, burst=5 nodelay",
    location: "limit_req zone=all burst=5 nodelay;",
    ..SLOW
};
pub(crate) const IN_FLIGHT: Limit = Limit {
    name: "nginx limit_conn 20, 100 ms",
    zone: "limit_conn_zone $server_port zone=all:1m;",
    location: "limit_conn all 20;",
    latency: Duration::from_millis(100),
    allows: 200.0,
};

/// nginx before a service, until it is dropped.
pub(crate) struct Nginx {
    pub(crate) url: String,
    process: Child,
    place: TempDir,
}

impl Nginx {
    /// Starts it; it listens when this returns. `None` where it is not installed.
    pub(crate) fn start(place: TempDir, behind: &str, limit: &Limit) -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let directories = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
        let installed = directories
            .map(|it| it.join("nginx"))
            .find(|it| it.is_file())?;
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let (at, Limit { zone, location, .. }) = (place.path().display(), limit);
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
        let process = command
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            thread::sleep(Duration::from_millis(10));
        }
        let url = format!("http://127.0.0.1:{port}");
        Some(Self {
            url,
            process,
            place,
        })
    }

    /// What its log says of calls: when they ended, and with which status.
    pub(crate) fn calls(&self) -> Calls {
        let log = fs::read_to_string(self.place.path().join("log")).unwrap();
        let calls = log.lines().filter_map(|line| line.split_once(' '));
        let calls: Vec<(f64, bool)> = calls
            .map(|(at, status)| (at.parse().unwrap(), status == "200"))
            .collect();
        let first = calls
            .iter()
            .map(|(at, _)| *at)
            .reduce(f64::min)
            .unwrap_or_default();
        Calls(
            calls
                .into_iter()
                .map(|(at, accepted)| (at - first, accepted))
                .collect(),
        )
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // It takes its worker with it when it is asked; a kill would leave that behind.
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let _ = self.process.wait();
    }
}
