//! The server of a ledger: two connections, and the thread that drives them.
//!
//! Statements are for the tables of `rescore` and come from elsewhere; here they are sent, with a timer of our own: a server
//! whose process hangs says nothing for hours. Nothing is prepared under a name, which a pooler between us and the server
//! would not know again on the next connection.

use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::config::SslMode;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, NoTls, Row};

use super::fault::{SILENT, ServerFault};
use super::password;
use super::tls::Encryption;
use crate::base::error::{Error, Result};
use crate::base::secret::Secret;
use crate::ledger::server_url::{ServerHost, ServerUrl};

/// A statement of a run that has no answer by then will have none: the server or the network hangs.
pub(super) const RUN_PATIENCE: Duration = Duration::from_secs(5);

/// How long a command that looks at all answers may take: hours would be a hang, and minutes are needed for hundreds of
/// millions of them.
pub(super) const COMMAND_PATIENCE: Duration = Duration::from_secs(30 * 60);

/// How often a statement is sent again after another transaction was in its way: each time one of the two succeeds.
const MOST_CROSSED: u32 = 10;

/// A value for a statement, and its type.
pub(super) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// Which of the two connections a statement takes: what is looked at or claimed does not wait behind a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// For what need not be durable.
    Quick,
    /// For answers.
    Durable,
}

/// The server of a ledger.
pub(super) struct Server {
    address: Arc<Address>,
    patience: Duration,
    driver: Driver,
    quick: Mutex<Option<Arc<Client>>>,
    durable: Mutex<Option<Arc<Client>>>,
}

/// How the server is reached.
struct Address {
    url: ServerUrl,
    config: Config,
    /// `None` on this machine.
    encryption: Option<Encryption>,
}

/// The thread that reads and writes the connections; it ends with this.
struct Driver {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Server {
    /// The server of this address; nothing is connected yet.
    ///
    /// # Errors
    /// Exit code 2: a file with the password or with certificates cannot be used.
    pub(super) fn new(
        url: &ServerUrl,
        password_file: Option<&Path>,
        patience: Duration,
    ) -> Result<Self> {
        let password = password::find(password_file, url)?;
        Ok(Self {
            address: Arc::new(Address::new(url, password.as_ref())?),
            patience,
            driver: Driver::start()?,
            quick: Mutex::default(),
            durable: Mutex::default(),
        })
    }

    /// The address, for messages.
    pub(super) fn shown(&self) -> String {
        self.address.url.to_string()
    }

    /// Sends a statement and returns its rows.
    ///
    /// # Errors
    /// The server is away, or refuses it.
    pub(super) fn query(
        &self,
        lane: Lane,
        statement: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, ServerFault> {
        self.wait(self.send(lane, statement, params))
    }

    /// Sends statements that take no values, in one transaction.
    ///
    /// # Errors
    /// The server is away, or refuses one of them.
    pub(super) fn batch(&self, statements: &str) -> Result<(), ServerFault> {
        self.wait(async {
            let until = Instant::now() + self.patience;
            let client = self.client(Lane::Durable, until).await?;
            let done = timeout_at(until, client.batch_execute(statements)).await;
            self.judge(Lane::Durable, &client, done)
        })
    }

    /// Waits for what is sent. It must not be called on a thread that drives a runtime.
    pub(super) fn wait<T>(&self, sent: impl Future<Output = T>) -> T {
        self.driver.handle.block_on(sent)
    }

    /// As [`Self::query`], to be waited for with others. All of it takes no longer than this is patient.
    pub(super) async fn send(
        &self,
        lane: Lane,
        statement: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, ServerFault> {
        // A pooler or a restart may have closed a connection that rested: that alone is not an outage.
        let mut may_have_rested = self.current(lane).is_some();
        let mut crossed = 0;
        let until = Instant::now() + self.patience;
        loop {
            match self.send_once(lane, statement, params, until).await {
                Err(ServerFault::Away(words)) if may_have_rested && words != SILENT => {
                    may_have_rested = false;
                }
                Err(ServerFault::Crossed) if crossed < MOST_CROSSED => crossed += 1,
                result => return result,
            }
        }
    }

    /// Opens a connection where there is none.
    pub(super) async fn connect(&self, lane: Lane) -> Result<(), ServerFault> {
        let until = Instant::now() + self.patience;
        self.client(lane, until).await.map(drop)
    }

    async fn send_once(
        &self,
        lane: Lane,
        statement: &str,
        params: &[Param<'_>],
        until: Instant,
    ) -> Result<Vec<Row>, ServerFault> {
        let client = self.client(lane, until).await?;
        let sent = timeout_at(until, client.query_typed(statement, params)).await;
        self.judge(lane, &client, sent)
    }

    /// The result of a statement; a connection that broke or hangs is closed.
    fn judge<T>(
        &self,
        lane: Lane,
        client: &Arc<Client>,
        sent: Result<Result<T, tokio_postgres::Error>, tokio::time::error::Elapsed>,
    ) -> Result<T, ServerFault> {
        let result = if let Ok(result) = sent {
            result.map_err(|error| ServerFault::of(&error))
        } else {
            self.cancel(client);
            Err(ServerFault::silent())
        };
        if matches!(result, Err(ServerFault::Away(_))) {
            self.close(lane, client);
        }
        result
    }

    /// Has the server end a statement that nobody waits for any more: it may wait for another one's lock, keep a lock
    /// itself, and would keep its connection. It is not known whether that succeeds.
    fn cancel(&self, client: &Arc<Client>) {
        let (address, client) = (Arc::clone(&self.address), Arc::clone(client));
        self.driver.handle.spawn(async move {
            // A pooler forgets which statement it was when the connection is closed.
            let _ = timeout(RUN_PATIENCE, address.cancel(&client)).await;
        });
    }

    fn slot(&self, lane: Lane) -> &Mutex<Option<Arc<Client>>> {
        match lane {
            Lane::Quick => &self.quick,
            Lane::Durable => &self.durable,
        }
    }

    fn current(&self, lane: Lane) -> Option<Arc<Client>> {
        let slot = self.slot(lane).lock();
        slot.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, lane: Lane, client: Option<Arc<Client>>) {
        *self
            .slot(lane)
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = client;
    }

    /// Closes a connection; the next statement opens another one.
    fn close(&self, lane: Lane, client: &Arc<Client>) {
        let mut slot = self
            .slot(lane)
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // Statements on the same connection may have closed it, and others have opened another one.
        slot.take_if(|current| Arc::ptr_eq(current, client));
    }

    async fn client(&self, lane: Lane, until: Instant) -> Result<Arc<Client>, ServerFault> {
        if let Some(client) = self.current(lane).filter(|client| !client.is_closed()) {
            return Ok(client);
        }
        let until = until.min(Instant::now() + RUN_PATIENCE);
        let connected = timeout_at(until, self.address.connect(&self.driver.handle)).await;
        let client = Arc::new(connected.unwrap_or_else(|_| Err(ServerFault::silent()))?);
        self.set(lane, Some(Arc::clone(&client)));
        Ok(client)
    }
}

/// A stream to the server.
enum Stream {
    Socket(UnixStream),
    Network(TcpStream),
}

impl Address {
    fn new(url: &ServerUrl, password: Option<&Secret>) -> Result<Self> {
        let mut config = Config::new();
        config
            .user(url.user())
            .dbname(url.database())
            .application_name("rescore");
        if let Some(password) = password {
            config.password(password.expose());
        }
        let encryption = match url.host() {
            // Nobody is in between; a file of authorities says that the server has a certificate all the same.
            ServerHost::Network(name) if !url.is_local() || url.root_certificates().is_some() => {
                let roots = url.root_certificates().map(std::path::PathBuf::as_path);
                Some(Encryption::new(name, roots)?)
            }
            ServerHost::Network(_) | ServerHost::Socket(_) => None,
        };
        config.ssl_mode(match encryption {
            Some(_) => SslMode::Require,
            None => SslMode::Disable,
        });
        Ok(Self {
            url: url.clone(),
            config,
            encryption,
        })
    }

    async fn stream(&self) -> io::Result<Stream> {
        match self.url.host() {
            ServerHost::Socket(directory) => {
                let socket = directory.join(format!(".s.PGSQL.{}", self.url.port()));
                UnixStream::connect(socket).await.map(Stream::Socket)
            }
            ServerHost::Network(name) => {
                let stream = TcpStream::connect((name.as_str(), self.url.port())).await?;
                stream.set_nodelay(true)?;
                Ok(Stream::Network(stream))
            }
        }
    }

    async fn connect(&self, driver: &Handle) -> Result<Client, ServerFault> {
        let stream = self.stream().await;
        let stream = stream.map_err(|error| ServerFault::of_system(&error))?;
        match (stream, &self.encryption) {
            (Stream::Socket(stream), _) => self.log_in(stream, NoTls, driver).await,
            (Stream::Network(stream), None) => self.log_in(stream, NoTls, driver).await,
            (Stream::Network(stream), Some(encryption)) => {
                self.log_in(stream, encryption.clone(), driver).await
            }
        }
    }

    /// Asks for the end of a connection's statement, on a connection of its own.
    async fn cancel(&self, client: &Client) {
        let token = client.cancel_token();
        let Ok(stream) = self.stream().await else {
            return;
        };
        let _ = match (stream, &self.encryption) {
            (Stream::Socket(stream), _) => token.cancel_query_raw(stream, NoTls).await,
            (Stream::Network(stream), None) => token.cancel_query_raw(stream, NoTls).await,
            (Stream::Network(stream), Some(encryption)) => {
                token.cancel_query_raw(stream, encryption.clone()).await
            }
        };
    }

    async fn log_in<S, T>(&self, stream: S, tls: T, driver: &Handle) -> Result<Client, ServerFault>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
        T: tokio_postgres::tls::TlsConnect<S>,
        T::Stream: Send + 'static,
    {
        let connected = self.config.connect_raw(stream, tls).await;
        let (client, connection) = connected.map_err(|error| ServerFault::of(&error))?;
        // A caller that waits for an answer hears of its end from the client.
        driver.spawn(async move {
            let _ = connection.await;
        });
        Ok(client)
    }
}

impl Driver {
    fn start() -> Result<Self> {
        let cannot = |e| Error::stopped("cannot start a thread").because(e);
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(cannot)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new()
            .name("ledger-server".to_owned())
            .spawn(move || {
                let _ = runtime.block_on(stopped);
                // A look-up of a name that hangs must not hold up the end.
                runtime.shutdown_background();
            })
            .map_err(cannot)?;
        Ok(Self {
            handle,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has nothing left to do but to end.
            let _ = thread.join();
        }
    }
}
