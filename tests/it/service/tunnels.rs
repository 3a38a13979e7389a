//! Tunnels: a service over TLS that is reached through a proxy.

use std::io::{BufRead as _, BufReader, Write as _, copy};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::process::Place;
use crate::support::tls::{program_at, start};
use crate::support::users;

/// What a proxy was asked for.
type Heads = Arc<Mutex<Vec<String>>>;

/// A proxy that opens every tunnel, but always to this service.
fn proxy_to(service: SocketAddr) -> (SocketAddr, Heads) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, heads) = (listener.local_addr().unwrap(), Heads::default());
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
fn a_service_behind_a_proxy_is_reached_through_a_tunnel_that_hides_key_and_data() {
    let csv = users::csv(5);
    let place = Place::with("users.csv", &csv);
    // The certificate is for this name, which only the proxy has to know.
    let (service, served) = start("elsewhere.pem");
    let (proxy, heads) = proxy_to(service);
    let program = program_at(&place, "https://example.com", Some("authority.pem"));
    let done = program
        .env("HTTPS_PROXY", format!("http://me:pass-word@{proxy}"))
        .done();
    done.exits(0).silent_about("pass-word");
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    assert_eq!(served.load(Ordering::SeqCst), 5);
    let heads = heads.lock().unwrap();
    for head in &*heads {
        assert_eq!(
            head.to_lowercase(),
            concat!(
                "connect example.com:443 http/1.1\r\n",
                "host: example.com:443\r\n",
                "user-agent: rescore/",
                env!("CARGO_PKG_VERSION"),
                "\r\n",
                "proxy-authorization: basic bwu6cgfzcy13b3jk\r\n\r\n",
            )
        );
    }
    assert!((1..=5).contains(&heads.len()), "{heads:?}");
}

#[test]
fn a_certificate_is_checked_through_a_tunnel_too() {
    let place = Place::with("users.csv", users::csv(5));
    let (service, served) = start("good.pem");
    let (proxy, _) = proxy_to(service);
    let done = program_at(&place, "https://example.com", Some("authority.pem"))
        .env("HTTPS_PROXY", format!("http://{proxy}"))
        .done();
    done.exits(4)
        .says("error: the service's certificate is not trusted: ");
    assert_eq!(served.load(Ordering::SeqCst), 0);
}
