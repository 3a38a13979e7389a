//! The way to the service: which addresses are accepted, hosts that do not answer, handshakes, and certificates.

use std::io::{Read as _, Write as _};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::support::process::Place;
use crate::support::server::{Server, good};
use crate::support::users;

#[track_caller]
fn nothing_is_left(place: &Place) {
    assert_eq!(place.names(), ["rescore.ledger", "users.csv"]);
}

/// Runs a command with the host names in the file `hosts`: the script `with-hosts.sh`, and how to run it.
const HOSTS: &str = "mount --bind hosts /etc/hosts && exec \"$@\"\n";

const WITH_HOSTS: &[&str] = &["unshare", "-rm", "sh", "with-hosts.sh"];

/// Writes these host names for a command, and whether its resolver then gives `name` the address `first`.
fn hosts(place: &Place, hosts: &str, name: &str, first: &str) -> bool {
    place.write("hosts", hosts);
    place.write("with-hosts.sh", HOSTS);
    let mut probe = Command::new(WITH_HOSTS[0]);
    let probe = probe.args(&WITH_HOSTS[1..]);
    let probe = probe.args(["getent", "ahosts", name]);
    let probe = probe.current_dir(place.path("")).output();
    let found = probe.is_ok_and(|it| it.stdout.starts_with(format!("{first} ").as_bytes()));
    if !found {
        println!("skipped: names of hosts cannot be set here");
    }
    found
}

#[test]
fn localhost_is_this_machine_whatever_the_resolver_says() {
    let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
    if !hosts(&place, "192.0.2.1 localhost\n", "localhost", "192.0.2.1") {
        return;
    }
    let url = format!("http://localhost:{}", server.port());
    let program = place.run_at(&url).args("--retries 0");
    program.under(WITH_HOSTS).exits(0);
    assert_eq!(server.calls(), 3);
}

/// An address that neither accepts nor refuses connections, as behind a firewall that drops packets: a listener whose
/// queue is full. `None` if the system has no such address or queues without limit.
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

#[test]
fn of_a_host_with_two_addresses_the_one_that_answers_is_used() {
    let csv = users::csv(20);
    let server = Server::good();
    let Some(_hole) = black_hole((Ipv6Addr::LOCALHOST, server.port()).into()) else {
        println!("skipped: there is no IPv6 here, or its queues never fill");
        return;
    };
    let place = Place::with("users.csv", &csv);
    // The address that does not answer is tried first.
    let names = "::1 two.example\n127.0.0.1 two.example\n";
    if !hosts(&place, names, "two.example", "::1") {
        return;
    }
    let url = format!("http://two.example:{}", server.port());
    let program = place.run_at(&url).args("--allow-http -c 4");
    let done = program.under(WITH_HOSTS).exits(0);
    done.silent_about("of them retries");
    assert_eq!(server.calls(), 20);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn a_host_that_is_away_is_waited_for() {
    let place = Place::with("users.csv", users::csv(9));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let program = place.run_at(format!("http://{address}"));
    let done = program.args("--retries 1 --max-wait 1s").exits(3);
    done.says(&address.to_string());
    nothing_is_left(&place);
    // One that comes up answers every row.
    let run = place.run_at(format!("http://{address}")).start();
    // Some calls have failed by then, and more may.
    thread::sleep(Duration::from_millis(700));
    let server = Server::start_on(TcpListener::bind(address).unwrap(), good);
    run.exits(0);
    assert_eq!(server.calls(), 9);
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(9)));
}

/// Ends each connection in this way instead of answering the handshake. Counts the connections.
fn failing_handshake(way: &'static str) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, came) = (listener.local_addr().unwrap(), Arc::default());
    let count: Arc<AtomicUsize> = Arc::clone(&came);
    thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            count.fetch_add(1, Ordering::SeqCst);
            let mut greeting = [0; 4096];
            let read = stream.read(&mut greeting).unwrap();
            // Whatever it is, it is not a request.
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
    (address, came)
}

#[test]
fn a_tls_handshake_that_fails_is_tried_again_and_then_stops_the_run() {
    let fails = |way, timeout: &str, why: &str| {
        let (address, came) = failing_handshake(way);
        let place = Place::with("users.csv", users::csv(5));
        let program = place.run_at(format!("https://{address}"));
        let program = program.args("--retries 1 --max-wait 1s --timeout");
        let done = program.arg(timeout).exits(3);
        done.says(&format!("the last call: cannot connect: {why}"))
            .silent_about("billed");
        // Where no connection is made, the service is waited for.
        if matches!(way, "reset" | "silence") {
            done.says(&format!("error: `{address}` has accepted no call for "));
            assert!(came.load(Ordering::SeqCst) > 2, "{done}");
        } else {
            done.says(&format!("error: no call gets through to `{address}`"));
            assert_eq!(came.load(Ordering::SeqCst), 2, "{done}");
        }
        nothing_is_left(&place);
    };
    // They mostly wait: long where something comes, also on a busy machine, and short where nothing does.
    thread::scope(|scope| {
        scope.spawn(|| fails("close", "12s", "the TLS handshake failed: "));
        scope.spawn(|| fails("alert", "12s", "the TLS handshake failed: "));
        scope.spawn(|| fails("reset", "12s", "connection reset by peer"));
        scope.spawn(|| fails("silence", "1s", "timed out"));
    });
}
