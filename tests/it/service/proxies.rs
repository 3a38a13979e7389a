//! Proxies: which addresses they serve, tunnels to a service over TLS, and what is said where one does not work.

use std::io::{BufRead as _, BufReader, Write as _, copy};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::process::{Done, Place};
use crate::support::server::{Action, Request, Server, answer, silence, status};
use crate::support::tls::{program, start};
use crate::support::users;

#[test]
fn a_proxy_serves_addresses_beyond_this_machine_and_none_on_it() {
    let (place, proxy) = (Place::with("users.csv", users::csv(1)), Server::good());
    let through = |base: &str, plain: &str| {
        let program = place.run_at(base).env("http_proxy", plain);
        let program = program.args("--overwrite --no-ledger --allow-http --retries 0");
        program.done()
    };
    through("http://users.example", &proxy.url()).exits(0);
    let path = proxy.only_request().path;
    assert_eq!(path, "http://users.example/v1/validate/user");
    through(&proxy.url(), "http://127.0.0.1:1").exits(0);

    let proxy = Server::start(|_| status(407));
    through("http://users.example", &proxy.url())
        .exits(4)
        .says("HTTP_PROXY");
    assert_eq!(proxy.calls(), 1);
}

/// A run of five users through this proxy, which gets nowhere.
fn fails_through(base: &str, variable: &'static str, proxy: &str) -> Done {
    let place = Place::with("users.csv", users::csv(5));
    let program = place.run_at(base).args("--retries 1 --allow-http");
    let done = program.env(variable, proxy).done();
    done.silent_about("pass-word").silent_about("billed");
    assert!(!place.path("scored.csv").exists());
    done
}

/// A run to a service over TLS, through a proxy that does this.
fn tunnelled(proxy: impl Fn(&Request) -> Action + Send + Sync + 'static) -> (Server, Done, String) {
    let proxy = Server::start(proxy);
    let host = proxy.url().replace("http://", "");
    let address = format!("http://me:pass-word@{host}");
    let done = fails_through("https://users.example", "HTTPS_PROXY", &address);
    for request in proxy.requests() {
        let line = format!("{} {}", request.method, request.path);
        assert_eq!(line, "CONNECT users.example:443");
        // Its own login, and nothing meant for the service.
        let login = request.header("proxy-authorization");
        assert_eq!(login, Some("Basic bWU6cGFzcy13b3Jk"));
        assert_eq!(request.header("authorization"), None);
        assert_eq!(request.header("x-service-id"), None);
        assert!(request.body.is_empty());
    }
    (proxy, done, host)
}

#[test]
fn a_proxy_that_asks_for_a_login_or_does_not_connect_stops_the_run() {
    let (proxy, done, host) = tunnelled(|_| answer(407, &[("proxy-authenticate", "Basic")], ""));
    done.exits(4).says(&format!(
        "error: the proxy `{host}` requires a login (407)\n"
    ));
    assert_eq!(proxy.calls(), 1);
    for (code, why) in [
        (502, "it refuses to connect to the service"),
        (403, "it refuses to connect to the service"),
        (0, "the other side closed the connection"),
    ] {
        let (proxy, done, host) = tunnelled(move |_| match code {
            0 => silence().then_close(),
            code => answer(code, &[], "<html>"),
        });
        done.exits(3)
            .says("error: no call gets through to `users.example`")
            .says(&format!(" through the proxy `{host}`: {why}\n"));
        assert_eq!(proxy.calls(), 2);
    }
}

#[test]
fn a_proxy_that_cannot_be_reached_is_named_and_not_the_service() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = listener.local_addr().unwrap();
    drop(listener);
    let proxy = format!("http://me:pass-word@{nobody}");
    let said = format!("cannot connect through the proxy `{nobody}`: connection refused\n");
    for name in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        fails_through("https://users.example", name, &proxy)
            .exits(3)
            .says(&said);
    }
    fails_through("http://users.example", "http_proxy", &proxy)
        .exits(3)
        .says(&said);
    let nowhere = "http://me:pass-word@no-such-proxy.invalid:3128";
    fails_through("https://users.example", "HTTPS_PROXY", nowhere)
        .exits(3)
        .says("error: cannot resolve the host name of the proxy `no-such-proxy.invalid:3128`\n")
        .silent_about("users.example`");
}

#[test]
fn a_proxy_variable_that_makes_no_sense_is_refused_and_nothing_goes_out_directly() {
    let direct = Server::good();
    // Nothing may go to the service directly: it is on this machine, but its name does not show that.
    let base = format!("http://service.localhost:{}", direct.port());
    for (name, value) in [
        ("http_proxy", "not a url pass-word"),
        ("HTTP_PROXY", " http://me:pass-word@proxy:3128"),
        ("ALL_PROXY", "ftp://me:pass-word@proxy"),
        ("all_proxy", "socks5://me:pass-word@proxy"),
    ] {
        fails_through(&base, name, value).exits(2).says(&format!(
            "error: `{name}` is not the address of an HTTP proxy\n"
        ));
    }
    assert_eq!(direct.connections(), 0);
}

/// A proxy that opens every tunnel, but always to this service, and what it was asked for.
fn proxy_to(service: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, heads) = (listener.local_addr().unwrap(), Arc::default());
    let seen = Arc::clone(&heads);
    thread::spawn(move || {
        for client in listener.incoming() {
            let seen = Arc::clone(&seen);
            thread::spawn(move || tunnel(client.unwrap(), service, &seen));
        }
    });
    (address, heads)
}

/// Ends with an error if either side has gone, which the test sees elsewhere.
fn tunnel(
    client: TcpStream,
    service: SocketAddr,
    seen: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut client = BufReader::new(client);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && client.read_line(&mut head)? > 0 {}
    seen.lock().unwrap().push(head);
    let mut back = client.get_ref().try_clone()?;
    back.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
    let mut server = TcpStream::connect(service)?;
    let mut answers = server.try_clone()?;
    thread::spawn(move || {
        let _ = copy(&mut answers, &mut back);
        back.shutdown(Shutdown::Both)
    });
    copy(&mut client, &mut server)?;
    server.shutdown(Shutdown::Both)
}

#[test]
fn a_tunnel_hides_key_and_data_and_the_certificate_is_checked_through_it() {
    let csv = users::csv(5);
    // One certificate is for this name, which only the proxy has to know; the other is for another one.
    for (certificate, code, calls) in [("elsewhere.pem", 0, 5), ("good.pem", 4, 0)] {
        let place = Place::with("users.csv", &csv);
        let (service, served) = start(certificate);
        let (proxy, heads) = proxy_to(service);
        let program = program(&place, "https://example.com", Some("authority.pem"));
        let program = program.env("HTTPS_PROXY", format!("http://me:pass-word@{proxy}"));
        let done = program.exits(code);
        done.silent_about("pass-word");
        assert_eq!(served.requests.load(Ordering::SeqCst), calls);
        if code == 0 {
            assert_eq!(place.text("scored.csv"), users::scored(&csv));
        }
        let heads = heads.lock().unwrap();
        assert!((1..=5).contains(&heads.len()), "{heads:?}");
        for head in &*heads {
            let mut names: Vec<_> = { head.lines().skip(1) }
                .filter_map(|line| Some(line.split_once(':')?.0.to_lowercase()))
                .collect();
            names.sort();
            assert!(head.starts_with("CONNECT example.com:443 "), "{head}");
            assert_eq!(names, ["host", "proxy-authorization", "user-agent"]);
        }
    }
}
