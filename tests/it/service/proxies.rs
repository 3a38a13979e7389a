//! Proxies: one that asks for a login, does not exist or does not connect, and variables that make no sense.

use std::net::TcpListener;

use crate::support::process::Place;
use crate::support::server::{Action, Request, Server, answer, silence};
use crate::support::users;

/// What a proxy sees and a run says when the proxy does this about a way to a service over TLS.
fn through(
    proxy: impl Fn(&Request) -> Action + Send + Sync + 'static,
) -> (Server, crate::support::process::Done) {
    let (place, proxy) = (
        Place::with("users.csv", users::csv(5)),
        Server::start(proxy),
    );
    let address = proxy.url().replace("http://", "http://me:pass-word@");
    let program = place
        .run_at("https://users.example")
        .env("HTTPS_PROXY", address);
    let done = program.args("--retries 1").done();
    assert_eq!(place.names(), ["rescore.ledger", "users.csv"]);
    for request in proxy.requests() {
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            ("CONNECT", "users.example:443")
        );
        // Its own login, and nothing meant for the service.
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
fn a_proxy_that_asks_for_a_login_stops_the_run_immediately() {
    let (proxy, done) = through(|_| answer(407, &[("proxy-authenticate", "Basic")], "who?"));
    let address = proxy.url().replace("http://", "");
    done.exits(4)
        .says(&format!(" through the proxy `{address}`; up to "))
        .says(&format!(
            "error: the proxy `{address}` requires a login\n\nhint: give it in the variable that names the proxy, such as "
        ));
    assert_eq!(proxy.calls(), 1);
}

#[test]
fn a_proxy_that_does_not_exist_is_named_and_stops_the_run_immediately() {
    for (proxy, name) in [
        (
            "http://no-such-proxy.invalid:3128",
            "no-such-proxy.invalid:3128",
        ),
        (
            "http://me:pass-word@no-such-proxy.invalid",
            "no-such-proxy.invalid",
        ),
        ("no-such-proxy.invalid:3128", "no-such-proxy.invalid:3128"),
    ] {
        let place = Place::with("users.csv", users::csv(5));
        let done = place
            .run_at("https://users.example")
            .env("HTTPS_PROXY", proxy)
            .done();
        done.exits(3)
            .says(&format!(
                "error: cannot resolve the host name of the proxy `{name}`\n\nhint: check "
            ))
            .says("1 call\n")
            .silent_about("users.example`")
            .silent_about("pass-word");
        assert_eq!(place.names(), ["rescore.ledger", "users.csv"]);
    }
}

#[test]
fn a_proxy_that_does_not_connect_is_asked_again_and_then_stops_the_run() {
    for (code, why) in [
        (502, "it refuses to connect to the service"),
        (403, "it refuses to connect to the service"),
        (0, "unexpected end of file"),
    ] {
        let (proxy, done) = through(move |_| match code {
            0 => silence().then_close(),
            code => answer(code, &[], "<html>"),
        });
        done.exits(3)
            .says("error: no call gets through to `users.example`")
            .says(&format!(
                "the last call: cannot connect through the proxy `{}`: {why}\n",
                proxy.url().replace("http://", "")
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
        let host = { proxy.rsplit_once(['@', '/']) }
            .map_or("", |(_, host)| host)
            .to_owned();
        let program = place.run_at(base).args("--retries 1 --allow-http");
        let done = program.env(name, proxy).done();
        done.exits(3)
            .says(&format!(
                "  the last call: cannot connect through the proxy `{host}`: {why}\n"
            ))
            .silent_about("pass-word")
            .silent_about("billed");
        assert_eq!(place.names(), ["rescore.ledger", "users.csv"]);
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
        "the TLS handshake failed: the other side closed the connection",
    );
    assert_eq!(not_tls.calls(), 0);
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
        let place = Place::with("users.csv", users::csv(5));
        let program = place.run_at(&base).args("--allow-http --retries 0");
        let done = program.env(name, value).done();
        done.exits(2)
            .says(&format!(
                "error: `{name}` is not the address of an HTTP proxy\n\nhint: give "
            ))
            .silent_about("pass-word");
        assert_eq!(place.names(), ["users.csv"]);
    }
    assert_eq!(direct.connections(), 0);
}
