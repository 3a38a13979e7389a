//! A proxy between the program and a server: it cuts connections, and holds back what goes one way or both, as a test tells it.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    ToServer,
    ToClient,
}

/// The proxy. Its threads live as long as the test binary.
pub(crate) struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Ways on which nothing goes on now.
    held: Vec<Way>,
    /// Both ends of each connection so far.
    ends: Vec<TcpStream>,
    connections: usize,
    /// Each connection breaks after some bytes, up to these, one way or the other; `None` if it does not.
    most_bytes: Option<usize>,
    random: fastrand::Rng,
}

impl Proxy {
    /// A proxy to a port of this machine.
    pub(crate) fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared::default());
        shared.state.lock().unwrap().random = fastrand::Rng::with_seed(19);
        let all = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A server that is down closes the connection.
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else {
                    continue;
                };
                let _ = all.connect(&client, &server);
            }
        });
        Self { port, shared }
    }

    /// Its port.
    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// How many connections were made so far.
    pub(crate) fn connections(&self) -> usize {
        self.shared.state.lock().unwrap().connections
    }

    /// From now on each new connection breaks after some bytes, up to so many, in the middle of a message or not.
    pub(crate) fn cut_after(&self, most_bytes: Option<usize>) {
        self.shared.state.lock().unwrap().most_bytes = most_bytes;
    }

    /// From now on only what goes other ways than these goes on; what waited for that does too.
    pub(crate) fn hold(&self, ways: &[Way]) {
        self.shared.state.lock().unwrap().held = ways.to_vec();
        self.shared.changed.notify_all();
    }

    /// Breaks all connections, whose bytes on the way are lost.
    pub(crate) fn cut(&self) {
        let mut state = self.shared.state.lock().unwrap();
        for end in state.ends.drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    fn connect(self: &Arc<Self>, client: &TcpStream, server: &TcpStream) -> std::io::Result<()> {
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let mut state = self.state.lock().unwrap();
        state.connections += 1;
        state
            .ends
            .extend([client.try_clone()?, server.try_clone()?]);
        for (from, to, way) in [
            (client, server, Way::ToServer),
            (server, client, Way::ToClient),
        ] {
            let (from, to) = (from.try_clone()?, to.try_clone()?);
            let lasts = state.most_bytes;
            let lasts = lasts.map_or(usize::MAX, |most| state.random.usize(most / 4..most));
            let shared = Arc::clone(self);
            thread::spawn(move || {
                // An error means that one of the ends is gone.
                let _ = shared.pass(&from, &to, way, lasts);
                for end in [from, to] {
                    let _ = end.shutdown(Shutdown::Both);
                }
            });
        }
        Ok(())
    }

    /// Passes on so many bytes.
    fn pass(
        &self,
        mut from: &TcpStream,
        mut to: &TcpStream,
        way: Way,
        mut lasts: usize,
    ) -> std::io::Result<()> {
        let mut block = vec![0; 16 * 1024];
        while lasts > 0 {
            let room = block.len().min(lasts);
            let read = from.read(&mut block[..room])?;
            if read == 0 {
                break;
            }
            let state = self.state.lock().unwrap();
            drop(self.changed.wait_while(state, |it| it.held.contains(&way)));
            to.write_all(&block[..read])?;
            lasts -= read;
        }
        Ok(())
    }
}
