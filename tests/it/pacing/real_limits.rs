//! Limits of real servers on real sockets, found by a run without any pace setting: the stand-in's, and nginx's if it is
//! installed. The tests check which limit was found and how many calls were refused, never how long it took.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::process::Place;
use crate::support::server::{Server, good};
use crate::support::stand_in::StandIn;
use crate::support::users;

/// Scores users without any pace setting, and returns the summary.
fn found(place: &Place, url: &str, rows: usize) -> Value {
    place.write("users.csv", users::csv(rows));
    let done = place.run_at(url).args("--summary summary.json").done();
    done.exits(0).says("limit found: ");
    let scored = place.text("scored.csv");
    assert!(!scored.contains(users::EMPTY), "each row has its verdict");
    place.json("summary.json")
}

fn check_rate(summary: &Value, rate: f64) {
    let limit = summary["pace"]["limit"].as_f64().unwrap();
    assert!(limit > rate * 0.5 && limit < rate * 1.5, "{summary:#}");
    let refused = summary["calls"]["throttled"].as_u64().unwrap();
    assert!((1..=40).contains(&refused), "{summary:#}");
    println!("{rate}/s: {limit} found, {refused} refused");
}

fn of_stand_in(more: &[&str]) {
    let place = Place::new();
    let limit = ["--latency", "20ms", "--rate-limit", "30", "--burst", "5"];
    let stand_in = StandIn::start(&place, [&limit, more].concat());
    let summary = found(&place, &stand_in.url(), 250);
    check_rate(&summary, 30.0);
    let bill = stand_in.bill();
    assert_eq!(bill["billed"], 250, "{bill:#}");
    assert_eq!(bill["throttled"], summary["calls"]["throttled"]);
}

#[test]
fn the_stand_ins_limit_is_found() {
    of_stand_in(&[]);
}

#[test]
fn the_stand_ins_limit_is_found_when_it_names_a_time() {
    of_stand_in(&["--retry-after", "1"]);
}

/// nginx before a server, until it is dropped.
struct Nginx {
    process: Child,
    url: String,
    _place: TempDir,
}

impl Nginx {
    /// Starts it with these limits in its configuration; `None` if nginx is not installed.
    fn start(behind: &Server, zone: &str, limit: &str) -> Option<Self> {
        let place = TempDir::new().unwrap();
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let (at, behind) = (place.path().display(), behind.url());
        let settings = format!(
            "daemon off; pid {at}/pid; error_log {at}/errors; worker_processes 1;
            events {{}}
            http {{
                access_log off; client_body_temp_path {at}/body; proxy_temp_path {at}/proxy;
                fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;
                {zone}
                server {{
                    listen 127.0.0.1:{port};
                    location / {{ {limit} proxy_pass {behind}; }}
                }}
            }}"
        );
        let file = place.path().join("nginx.conf");
        fs::write(&file, settings).unwrap();
        let mut command = Command::new("nginx");
        command.arg("-p").arg(place.path()).arg("-c").arg(&file);
        let process = command.stderr(Stdio::null()).spawn().ok()?;
        let nginx = Self {
            process,
            url: format!("http://127.0.0.1:{port}"),
            _place: place,
        };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "nginx does not listen"
            );
            thread::sleep(Duration::from_millis(10));
        }
        Some(nginx)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // When it is asked to stop, it stops its worker as well.
        let id = self.process.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &id]).status();
        let _ = self.process.wait();
    }
}

#[test]
fn the_rate_that_nginx_allows_is_found() {
    let (place, server) = (Place::new(), Server::start(good));
    let zone = "limit_req_zone $server_port zone=all:1m rate=30r/s;";
    let limit = "limit_req zone=all burst=5 nodelay; limit_req_status 429;";
    let Some(nginx) = Nginx::start(&server, zone, limit) else {
        println!("skipped: there is no nginx on this machine");
        return;
    };
    check_rate(&found(&place, &nginx.url, 300), 30.0);
    assert_eq!(server.calls(), 300);
}

#[test]
fn the_calls_in_flight_that_nginx_allows_are_found() {
    let latency = Duration::from_millis(100);
    let place = Place::new();
    let server = Server::start(move |request| good(request).after(latency));
    let zone = "limit_conn_zone $server_port zone=all:1m;";
    let limit = "limit_conn all 5; limit_conn_status 429;";
    let Some(nginx) = Nginx::start(&server, zone, limit) else {
        println!("skipped: there is no nginx on this machine");
        return;
    };
    let summary = found(&place, &nginx.url, 500);
    println!("{} {}", summary["pace"], summary["calls"]);
    // Five at 100 ms are 50/s, or less on a busy machine, and it takes a while to tell the two apart.
    let in_flight = summary["pace"]["limit_in_flight"].as_u64();
    let rate = summary["pace"]["limit"].as_f64();
    assert!(
        in_flight.is_some_and(|limit| (4..=6).contains(&limit))
            || rate.is_some_and(|rate| (15.0..=60.0).contains(&rate)),
        "{summary:#}"
    );
    let refused = summary["calls"]["throttled"].as_u64().unwrap();
    assert!((1..=40).contains(&refused), "{summary:#}");
    assert_eq!(server.calls(), 500);
}
