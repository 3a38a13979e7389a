//! The way to the service: hosts and addresses that do not answer, and handshakes that fail.

use std::io::{Read as _, Write as _};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::support::process::{HOSTS, Place, WITH_HOSTS};
use crate::support::server::{Server, good};
use crate::support::users;

#[test]
fn a_host_that_does_not_exist_stops_the_run_immediately() {
    let place = Place::with("users.csv", users::csv(5));
    // A name that never exists (RFC 6761).
    let done = place.run_at("https://rescore.invalid").done();
    done.exits(3)
        .says(
            "error: cannot resolve the host name `rescore.invalid`\n\nhint: check the base address",
        )
        .says("1 call\n");
    assert_eq!(place.names(), ["rescore.ledger", "users.csv"]);
}

#[test]
fn a_service_that_nobody_can_reach_is_waited_for_and_then_stops_the_run() {
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let place = Place::with("users.csv", users::csv(9));
    let done = place
        .run_at(format!("http://{address}"))
        .args("--retries 1 --max-wait 1s")
        .done();
    done.exits(3)
        .says("the service cannot be reached: it is tried again")
        .says(&format!("error: `{address}` has accepted no call for "))
        .says("\n  the last call: cannot connect: connection refused");
    assert_eq!(place.names(), ["rescore.ledger", "users.csv"]);
}

#[test]
fn a_service_that_comes_up_after_the_start_answers_every_row() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let place = Place::with("users.csv", users::csv(9));
    let run = place.run_at(format!("http://{address}")).start();
    // Some calls have failed by then, and more may.
    thread::sleep(Duration::from_millis(700));
    let server = Server::start_on(TcpListener::bind(address).unwrap(), good);
    run.done().exits(0);
    assert_eq!(server.calls(), 9);
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(9)));
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
    let done = place
        .run_at(&url)
        .args("--allow-http -c 4")
        .under(WITH_HOSTS)
        .done();
    done.exits(0)
        .says("20 calls\n")
        .silent_about("of them retries");
    assert_eq!(server.calls(), 20);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));

    // If the good address is gone as well, the time limit of a connection ends the attempt: no more than most of a call's.
    let place = Place::with("users.csv", &csv);
    let url = format!("http://[::1]:{}", server.port());
    let program = place.run_at(&url).args("--timeout 2s");
    let done = program.args("--max-wait 1s").done();
    done.exits(3)
        .says("the last call: cannot connect: timed out")
        .silent_about("billed");
    assert_eq!(place.names(), ["rescore.ledger", "users.csv"]);
}

#[test]
fn a_tls_handshake_that_fails_is_tried_again_and_then_stops_the_run() {
    for (way, why) in [
        (
            "close",
            "cannot connect: the TLS handshake failed: the other side closed the connection\n",
        ),
        ("reset", "cannot connect: connection reset by peer"),
        ("silence", "cannot connect: timed out"),
        ("alert", "cannot connect: the TLS handshake failed: "),
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
        let place = Place::with("users.csv", users::csv(5));
        // Long enough on a busy machine if something comes, short if nothing does.
        let timeout = if way == "silence" { "2s" } else { "12s" };
        let done = place
            .run_at(format!("https://{address}"))
            .args("--retries 1 --max-wait 1s --timeout")
            .arg(timeout)
            .done();
        done.exits(3)
            .says(&format!("the last call: {why}"))
            .silent_about("billed");
        // Where no connection is made, the service is waited for.
        if matches!(way, "reset" | "silence") {
            done.says(&format!("error: `{address}` has accepted no call for "));
            assert!(came.load(Ordering::SeqCst) > 2, "{done}");
        } else {
            done.says(&format!("error: no call gets through to `{address}`"));
            assert_eq!(came.load(Ordering::SeqCst), 2, "{done}");
        }
        assert_eq!(place.names(), ["rescore.ledger", "users.csv"]);
    }
}
