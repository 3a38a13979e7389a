//! The way to the service: addresses that do not answer, proxies that do not connect, and too few files for all calls.

use std::io::{Read as _, Write as _};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::support::process::{KEY, Place, Program};
use crate::support::server::{Action, Request, Server, answer, good, silence};
use crate::support::users;

/// A run against any address, with nothing that a test's server would add.
pub(crate) fn run<'a>(place: &'a Place, url: &str) -> Program<'a> {
    let args = [
        "run",
        "users.csv",
        "-o",
        "scored.csv",
        "--service-id",
        "test",
        "--base-url",
        url,
    ];
    place.rescore(args).env("RESCORE_API_KEY", KEY)
}

#[test]
fn a_host_that_does_not_exist_stops_at_once() {
    let place = Place::with("users.csv", users::csv(5));
    // A name that is reserved for not existing (RFC 6761).
    let done = run(&place, "https://rescore.invalid").done();
    done.exits(3)
        .says(
            "error: cannot resolve the host name `rescore.invalid`\n\nhint: check the base address",
        )
        .says("1 call\n");
    assert_eq!(place.names(), ["users.csv"]);
}

#[test]
fn nobody_listening_is_tried_again_and_then_stops_the_run() {
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let place = Place::with("users.csv", users::csv(9));
    let done = run(&place, &format!("http://{address}"))
        .arg("--retries")
        .arg("1")
        .done();
    done.exits(3)
        .says("error: no call gets through to `127.0.0.1`\n  the last call: cannot connect: connection refused")
        .says("2 calls, 1 of them retries");
    assert_eq!(place.names(), ["users.csv"]);
}

/// An address that takes no connection and refuses none, as behind a firewall that drops packets: a listener whose queue
/// is full. `None` where the system has no such address or queues without end.
fn black_hole(address: SocketAddr) -> Option<(Socket, Vec<TcpStream>)> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).ok()?;
    socket.bind(&address.into()).ok()?;
    socket.listen(0).ok()?;
    let mut queue = Vec::new();
    while let Ok(waiting) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
        queue.push(waiting);
        if queue.len() > 300 {
            return None;
        }
    }
    Some((socket, queue))
}

/// Runs a command with names of hosts of its own.
pub(crate) const HOSTS: &str = "mount --bind hosts /etc/hosts && exec \"$@\"\n";
pub(crate) const WITH_HOSTS: &[&str] = &["unshare", "-rm", "sh", "with-hosts.sh"];

#[test]
fn of_a_host_with_two_addresses_the_one_that_answers_is_used() {
    let csv = users::csv(20);
    let server = Server::good();
    let Some(_hole) = black_hole((Ipv6Addr::LOCALHOST, server.port()).into()) else {
        println!("skipped: there is no IPv6 here, or its queues never fill");
        return;
    };
    let place = Place::with("users.csv", &csv);
    // The address that does not answer is the one that is tried first.
    place.write("hosts", "::1 two.example\n127.0.0.1 two.example\n");
    place.write("with-hosts.sh", HOSTS);
    let probe = Command::new("unshare")
        .args([
            "-rm",
            "sh",
            "with-hosts.sh",
            "getent",
            "ahosts",
            "two.example",
        ])
        .current_dir(place.path(""))
        .output();
    let first = probe.map(|probe| String::from_utf8_lossy(&probe.stdout).starts_with("::1 "));
    if !first.unwrap_or_default() {
        println!("skipped: names of hosts cannot be set here");
        return;
    }
    let url = format!("http://two.example:{}", server.port());
    let done = run(&place, &url)
        .arg("--allow-http")
        .arg("-c")
        .arg("4")
        .under(WITH_HOSTS)
        .done();
    done.exits(0)
        .says("20 calls; ")
        .silent_about("of them retries");
    assert_eq!(server.calls(), 20);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));

    // Where the good one is gone as well, the time for connecting is over at some point.
    let place = Place::with("users.csv", &csv);
    let url = format!("http://[::1]:{}", server.port());
    let program = run(&place, &url).arg("--connect-timeout").arg("200ms");
    let done = program.arg("--retries").arg("1").done();
    done.exits(3)
        .says("the last call: cannot connect: timed out")
        .says("2 calls, 1 of them retries")
        .silent_about("billed");
    assert_eq!(place.names(), ["users.csv"]);
}

/// Runs a command with so many open files at most.
fn with_files(place: &Place, limit: &str) -> &'static [&'static str] {
    place.write("few-files.sh", format!("ulimit {limit}\nexec \"$@\"\n"));
    &["sh", "few-files.sh"]
}

/// Counts calls that are out at the same time.
fn crowded() -> (Server, Arc<AtomicUsize>) {
    let (now, most) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    let server = Server::start(move |request| {
        seen.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(5));
        now.fetch_sub(1, Ordering::SeqCst);
        good(request)
    });
    (server, most)
}

#[test]
fn where_few_files_may_be_open_fewer_calls_are_in_flight_and_that_is_said() {
    let csv = users::csv(90);
    for (limit, room) in [("64", 8), ("49", 1), ("26", 1)] {
        let (server, most) = crowded();
        let place = Place::with("users.csv", &csv);
        let under = with_files(&place, &format!("-n {limit}"));
        let args = ["users.csv", "-o", "scored.csv", "-c", "200", "-q"];
        let done = place.run(&server, args).under(under).done();
        done.exits(0);
        let warning = format!(
            "warning: at most {room} calls in flight instead of 200: this process may open only {limit} files (`ulimit -n`)\n"
        );
        done.check(done.stderr == warning, "the warning and nothing else");
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
        assert_eq!(server.calls(), 90);
        assert!(most.load(Ordering::SeqCst) <= room);
    }
}

#[test]
fn where_too_few_files_may_be_open_for_one_call_nothing_is_begun_and_their_number_is_said() {
    let run = ["run", "users.csv", "-o", "scored.csv"];
    for (limit, more, needed) in [
        (4, &[][..], 24),
        (20, &[], 24),
        (23, &[], 24),
        (25, &["--changes", "c.csv", "--summary", "s.json"], 26),
        (24, &["--sandbox"], 30),
    ] {
        let place = Place::with("users.csv", users::csv(3));
        let server = Server::good();
        let program = place.rescore(run).env("RESCORE_API_KEY", KEY);
        let program = program
            .env("RESCORE_BASE_URL", server.url())
            .env("RESCORE_SERVICE_ID", "test")
            .under(with_files(&place, &format!("-n {limit}")));
        let done = more
            .iter()
            .fold(program, |program, arg| program.arg(*arg))
            .done();
        done.exits(2);
        let words = format!(
            "error: this process may open only {limit} files (`ulimit -n`), and {needed} are needed\n\nhint: raise the limit, as with `ulimit -n 1024`\n"
        );
        done.check(done.stderr == words, "the refusal and nothing else");
        assert_eq!(place.names(), ["few-files.sh", "users.csv"]);
        assert_eq!(server.connections(), 0);
    }
}

#[test]
fn where_as_many_files_may_be_open_as_are_needed_the_run_ends_well() {
    let csv = users::csv(90);
    for (limit, more) in [
        (24, &[][..]),
        (26, &["--changes", "c.csv", "--summary", "s.json"]),
        (
            32,
            &["--changes", "c.csv", "--summary", "s.json", "--sandbox"],
        ),
    ] {
        let (place, server) = (Place::with("users.csv", &csv), Server::good());
        let under = with_files(&place, &format!("-n {limit}"));
        let program = place
            .rescore(["run", "users.csv", "-o", "scored.csv", "-q"])
            .env("RESCORE_API_KEY", KEY)
            .env("RESCORE_SERVICE_ID", "test")
            .env("RESCORE_BASE_URL", server.url());
        let done = more
            .iter()
            .fold(program, |program, arg| program.arg(*arg))
            .under(under)
            .done();
        done.exits(0);
        assert_eq!(place.text("scored.csv").lines().count(), 91);
    }
}

#[test]
fn where_nobody_says_how_many_calls_there_are_as_many_as_files_may_be_open_in_silence() {
    let csv = users::csv(90);
    let (server, most) = crowded();
    let place = Place::with("users.csv", &csv);
    let under = with_files(&place, "-n 64");
    let args = ["users.csv", "-o", "scored.csv", "--progress", "off"];
    let done = place.run(&server, args).under(under).done();
    done.exits(0)
        .says("up to 8 calls at a time, no rate limit")
        .silent_about("warning");
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    assert!(most.load(Ordering::SeqCst) <= 8);
    // With room for all, the ceiling is the one that the help names.
    let place = Place::with("users.csv", &csv);
    let under = with_files(&place, "-n 1072");
    let done = place.run(&server, args).under(under).done();
    done.exits(0)
        .says("up to 512 calls at a time, no rate limit");
}

#[test]
fn where_few_files_may_be_open_no_call_lacks_one() {
    // A service that answers this fast has many connections made that no call waits for any more.
    let csv = users::csv(3_000);
    let place = Place::with("users.csv", &csv);
    let under = with_files(&place, "-n 256");
    let args = ["run", "users.csv", "-o", "scored.csv", "--sandbox"];
    let done = place.rescore(args).under(under).done();
    done.exits(0)
        .says("up to 52 calls at a time, no rate limit")
        .silent_about("down")
        .silent_about("retries");
}

#[test]
fn a_limit_that_may_be_raised_is_raised_in_silence() {
    const TOGETHER: usize = 100;
    let csv = users::csv(1 + TOGETHER);
    // Nobody but the first is answered before all are there.
    let all = Barrier::new(TOGETHER);
    let server = Server::start(move |request| {
        if request.nth > 1 {
            all.wait();
        }
        good(request)
    });
    let place = Place::with("users.csv", &csv);
    let under = with_files(&place, "-Sn 64");
    let args = ["users.csv", "-o", "scored.csv", "-c", "100", "-q"];
    let done = place.run(&server, args).under(under).done();
    done.exits(0);
    done.check(done.stderr.is_empty(), "nothing to be said");
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

/// What a proxy sees and a run says when the proxy does this about a way to a service over TLS.
fn through(
    proxy: impl Fn(&Request) -> Action + Send + Sync + 'static,
) -> (Server, crate::support::process::Done) {
    let (place, proxy) = (
        Place::with("users.csv", users::csv(5)),
        Server::start(proxy),
    );
    let address = proxy.url().replace("http://", "http://me:pass-word@");
    let program = run(&place, "https://users.example").env("HTTPS_PROXY", address);
    let done = program.arg("--retries").arg("1").done();
    assert_eq!(place.names(), ["users.csv"]);
    for request in proxy.requests() {
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            ("CONNECT", "users.example:443")
        );
        // Its own login, and nothing that is the service's.
        assert_eq!(
            request.header("proxy-authorization"),
            Some("Basic bWU6cGFzcy13b3Jk")
        );
        assert_eq!(request.header("authorization"), None);
        assert_eq!(request.header("x-service-id"), None);
        assert!(request.body.is_empty());
    }
    done.silent_about("pass-word").silent_about("billed");
    (proxy, done)
}

#[test]
fn a_proxy_that_asks_for_a_login_stops_the_run_at_once() {
    let (proxy, done) = through(|_| answer(407, &[("proxy-authenticate", "Basic")], "who?"));
    done.exits(4).says(
        "error: the proxy `127.0.0.1` of `HTTPS_PROXY` requires a login\n\nhint: give it in `HTTPS_PROXY`, such as `http://user:password@proxy:3128`",
    );
    assert_eq!(proxy.calls(), 1);
}

#[test]
fn a_proxy_that_does_not_exist_is_named_and_stops_the_run_at_once() {
    for (proxy, name) in [
        ("http://no-such-proxy.invalid:3128", "no-such-proxy.invalid"),
        (
            "http://me:pass-word@no-such-proxy.invalid",
            "no-such-proxy.invalid",
        ),
        ("no-such-proxy.invalid:3128", "no-such-proxy.invalid"),
    ] {
        let place = Place::with("users.csv", users::csv(5));
        let done = run(&place, "https://users.example")
            .env("HTTPS_PROXY", proxy)
            .done();
        done.exits(3)
            .says(&format!(
                "error: cannot resolve the host name of the proxy `{name}` of `HTTPS_PROXY`\n\nhint: check "
            ))
            .says("1 call\n")
            .silent_about("users.example`")
            .silent_about("pass-word");
        assert_eq!(place.names(), ["users.csv"]);
    }
}

#[test]
fn a_proxy_that_does_not_connect_is_asked_again_and_then_stops_the_run() {
    for (code, why) in [
        (502, "it refuses to connect to the service"),
        (403, "it refuses to connect to the service"),
        (0, "the other side closed the connection"),
    ] {
        let (proxy, done) = through(move |_| match code {
            0 => silence().then_close(),
            code => answer(code, &[], "<html>"),
        });
        done.exits(3)
            .says("error: no call gets through to `users.example`")
            .says(&format!(
                "the last call: cannot connect through the proxy `127.0.0.1` of `HTTPS_PROXY`: {why}\n"
            ));
        assert_eq!(proxy.calls(), 2);
    }
}

#[test]
fn a_proxy_that_cannot_be_reached_is_named_and_not_the_service() {
    let nobody = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let not_tls = Server::good();
    let through = |base: &str, name, proxy: String, why: &str| {
        let place = Place::with("users.csv", users::csv(5));
        let program = run(&place, base)
            .arg("--retries")
            .arg("1")
            .arg("--allow-http");
        let done = program.env(name, proxy).done();
        done.exits(3)
            .says(&format!(
                "  the last call: cannot connect through the proxy `127.0.0.1` of `{name}`: {why}\n"
            ))
            .silent_about("pass-word")
            .silent_about("billed");
        assert_eq!(place.names(), ["users.csv"]);
    };
    let address = format!("http://me:pass-word@{nobody}");
    for name in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        let base = "https://users.example";
        through(base, name, address.clone(), "connection refused");
    }
    let base = "http://users.example";
    through(base, "http_proxy", address, "connection refused");
    let tls = not_tls.url().replace("http:", "https:");
    through(
        "https://users.example",
        "HTTPS_PROXY",
        tls,
        "the other side closed the connection",
    );
    assert_eq!(not_tls.calls(), 0);
}

#[test]
fn a_proxy_variable_that_makes_no_sense_is_refused_and_nothing_goes_out_directly() {
    let direct = Server::good();
    // To the service itself nothing may go: it is on this machine, but not by a name that is known to be.
    let base = format!("http://service.localhost:{}", direct.port());
    for (name, value, why) in [
        (
            "http_proxy",
            "not a url pass-word",
            "is not a proxy address",
        ),
        (
            "HTTP_PROXY",
            " http://me:pass-word@proxy:3128",
            "is not a proxy address",
        ),
        (
            "ALL_PROXY",
            "ftp://me:pass-word@proxy",
            "names a proxy of an unknown kind, and only HTTP proxies are supported",
        ),
        (
            "all_proxy",
            "socks5://me:pass-word@proxy",
            "names a SOCKS proxy, and only HTTP proxies are supported",
        ),
    ] {
        let place = Place::with("users.csv", users::csv(5));
        let program = run(&place, &base)
            .arg("--allow-http")
            .arg("--retries")
            .arg("0");
        let done = program.env(name, value).done();
        done.exits(2)
            .says(&format!("error: `{name}` {why}\n\nhint: give "))
            .silent_about("pass-word");
        assert_eq!(place.names(), ["users.csv"]);
    }
    assert_eq!(direct.connections(), 0);
}

#[test]
fn a_tls_handshake_that_fails_is_tried_again_and_then_stops_the_run() {
    for (way, why) in [
        (
            "close",
            "the TLS handshake failed: the other side closed the connection\n",
        ),
        ("reset", "cannot connect: connection reset by peer"),
        ("silence", "cannot connect: timed out"),
        ("alert", "the TLS handshake failed: "),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let came = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&came);
        thread::spawn(move || {
            let mut kept = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                let mut greeting = [0; 4096];
                let read = stream.read(&mut greeting).unwrap();
                // Whatever it is, it is no request.
                assert!(greeting[..read].starts_with(&[0x16, 3]));
                match way {
                    "reset" => socket2::SockRef::from(&stream)
                        .set_linger(Some(Duration::ZERO))
                        .unwrap(),
                    "silence" => kept.push(stream),
                    // A fatal alert: handshake failure.
                    "alert" => stream.write_all(&[0x15, 3, 3, 0, 2, 2, 40]).unwrap(),
                    _ => {}
                }
            }
        });
        let place = Place::with("users.csv", users::csv(5));
        // Long enough for a busy machine where something comes, short where nothing does.
        let patience = if way == "silence" { "300ms" } else { "10s" };
        let done = run(&place, &format!("https://{address}"))
            .arg("--retries")
            .arg("1")
            .arg("--connect-timeout")
            .arg(patience)
            .done();
        done.exits(3)
            .says("error: no call gets through to `127.0.0.1`")
            .says(&format!("the last call: {why}"))
            .silent_about("billed");
        assert_eq!(came.load(Ordering::SeqCst), 2, "{done}");
        assert_eq!(place.names(), ["users.csv"]);
    }
}
