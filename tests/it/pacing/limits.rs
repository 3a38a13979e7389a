//! Limits of services, found by a run without any pace setting: on real sockets, of nginx if it is installed, and known to
//! the next run. The tests check which limit was found and how many calls were refused, never how long it took.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::process::{KEY, Place, Program};
use crate::support::server::{Server, answer, good, good_body, status};
use crate::support::stand_in::StandIn;
use crate::support::users;

/// Scores users without any pace setting, and returns the summary.
fn found(place: &Place, url: &str, rows: usize) -> Value {
    place.write("users.csv", users::csv(rows));
    let done = place.run_at(url).args("--summary summary.json").done();
    done.exits(0).says("limit found: ");
    let scored = place.text("scored.csv");
    assert!(!scored.contains(users::EMPTY), "each row has its verdict");
    let summary = place.json("summary.json");
    let refused = summary["calls"]["throttled"].as_u64().unwrap();
    assert!((1..=40).contains(&refused), "{summary:#}");
    summary
}

#[track_caller]
fn is_near(summary: &Value, rate: f64) {
    let limit = summary["pace"]["limit"].as_f64().unwrap();
    assert!((rate * 0.5..rate * 1.5).contains(&limit), "{summary:#}");
}

#[test]
fn the_stand_ins_limit_is_found_and_its_bill_is_that_of_the_summary() {
    let place = Place::new();
    let limit = "--latency 20ms --rate-limit 40 --burst 5 --retry-after 1";
    let stand_in = StandIn::start(&place, limit);
    let summary = found(&place, &stand_in.url(), 150);
    is_near(&summary, 40.0);
    let bill = stand_in.bill();
    assert_eq!(bill["billed"], 150, "{bill:#}");
    assert_eq!(bill["throttled"], summary["calls"]["throttled"]);
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
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = port.local_addr().unwrap().port();
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
        let Ok(process) = command.stderr(Stdio::null()).spawn() else {
            println!("skipped: there is no nginx on this machine");
            return None;
        };
        let nginx = Self {
            process,
            url: format!("http://127.0.0.1:{port}"),
            _place: place,
        };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed().as_secs() < 30, "nginx does not listen");
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
    let (place, server) = (Place::new(), Server::good());
    let zone = "limit_req_zone $server_port zone=all:1m rate=40r/s;";
    let limit = "limit_req zone=all burst=5 nodelay; limit_req_status 429;";
    if let Some(nginx) = Nginx::start(&server, zone, limit) {
        is_near(&found(&place, &nginx.url, 250), 40.0);
        assert_eq!(server.calls(), 250);
    }
}

#[test]
fn the_calls_in_flight_that_nginx_allows_are_found() {
    let latency = Duration::from_millis(100);
    let (place, server) = (
        Place::new(),
        Server::start(move |it| good(it).after(latency)),
    );
    let zone = "limit_conn_zone $server_port zone=all:1m;";
    let limit = "limit_conn all 5; limit_conn_status 429;";
    if let Some(nginx) = Nginx::start(&server, zone, limit) {
        let summary = found(&place, &nginx.url, 400);
        // Five at 100 ms are 50/s, or less on a busy machine, and it takes a while to tell the two apart.
        let in_flight = summary["pace"]["limit_in_flight"].as_u64();
        let rate = summary["pace"]["limit"].as_f64();
        assert!(
            in_flight.is_some_and(|limit| (4..=6).contains(&limit))
                || rate.is_some_and(|rate| (15.0..=60.0).contains(&rate)),
            "{summary:#}"
        );
        assert_eq!(server.calls(), 400);
    }
}

#[test]
fn headers_with_the_remaining_quota_slow_a_run_down_before_anything_is_refused() {
    let server = Server::start(|request| {
        let left = format!(r#""all";r={};t=4"#, 20 - request.nth);
        answer(200, &[("ratelimit", &left)], &good_body(&request.name()))
    });
    let place = Place::with("users.csv", users::csv(12));
    let done = place.score(&server, "-c 2 --progress plain");
    done.exits(0).says("/s, as the service's headers ask");
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(12)));
}

/// Bears so many calls in flight and refuses the others, which are counted.
fn accepting(most: usize) -> (Server, Arc<AtomicUsize>) {
    let (now, refused) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&refused);
    let server = Server::start(move |request| {
        let action = if now.fetch_add(1, Ordering::SeqCst) < most {
            // Long enough for a run to have that many calls in flight soon.
            thread::sleep(Duration::from_millis(30));
            good(request)
        } else {
            seen.fetch_add(1, Ordering::SeqCst);
            status(429)
        };
        now.fetch_sub(1, Ordering::SeqCst);
        action
    });
    (server, refused)
}

/// Scores so many users with this name.
fn night<'a>(place: &'a Place, server: &Server, name: &str, users: usize) -> Program<'a> {
    let file = format!("{name}.csv");
    let names = (1..=users).map(|i| format!("{name} {i}"));
    place.write(&file, users::named(names));
    let args = [
        "run",
        &file,
        "--base-url",
        &server.url(),
        "--service-id",
        "test",
    ];
    let program = place.rescore(args).env("RESCORE_API_KEY", KEY);
    let output = format!("{name}.scored.csv");
    program.args(["-o", &output, "--ledger", "answers.ledger"])
}

#[test]
fn the_next_run_starts_near_the_limit_that_a_killed_one_found_and_is_refused_less() {
    let (place, (server, refused)) = (Place::new(), accepting(5));
    // A limit is kept once it is certain.
    let is_kept = || {
        thread::sleep(Duration::from_millis(200));
        let stats = place.rescore("ledger stats answers.ledger").done();
        stats.printed().contains("\n  limit found ")
    };
    let first = night(&place, &server, "first", 20_000).start();
    first.wait_for_file("answers.ledger", |_| true);
    let first = first.kill_when(is_kept);
    first.check(first.code().is_none(), "killed");
    first.silent_about("near it");
    let at_first = refused.swap(0, Ordering::SeqCst);

    let then = night(&place, &server, "then", 500).done();
    then.exits(0)
        .says("rescore: the limit found ")
        .says(": starting near it");
    let (csv, scored) = (place.text("then.csv"), place.text("then.scored.csv"));
    assert_eq!(scored, users::scored(&csv));
    // How many there are of the first depends on the machine.
    let later = refused.swap(0, Ordering::SeqCst);
    assert!(later <= at_first.max(10), "{later} after {at_first}");

    // With no limit asked for, there is none.
    let free = night(&place, &server, "free", 5).args("-c 2 --rate unlimited");
    free.done().exits(0).silent_about("near it");
}
