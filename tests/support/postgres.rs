//! A PostgreSQL server of the tests' own, in a temporary directory, and databases on it.
//!
//! Where PostgreSQL is not installed, tests that need it are skipped and say so on standard error, one line for each; with
//! `RESCORE_TEST_POSTGRES=1`, as `.ci/run` sets it where it can, they fail instead.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The user of the server that owns every database.
pub(crate) const OWNER: &str = "ledger";
/// Its password over a network address; the socket asks for none.
pub(crate) const PASSWORD: &str = "correct horse";

/// A server of our own. It ends with this process, however that ends.
pub(crate) struct Cluster {
    programs: PathBuf,
    /// Its directory, which is removed with it.
    directory: PathBuf,
    port: u16,
    /// Who runs it: PostgreSQL refuses to run as root.
    user: Option<(u32, u32)>,
    /// Stops the server and removes the directory when its standard input ends.
    watcher: Child,
}

/// A database of one test.
pub(crate) struct Database<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) name: String,
}

/// The server that tests share; `None` if there is no PostgreSQL here, which is said.
#[track_caller]
pub(crate) fn shared() -> Option<&'static Cluster> {
    static SHARED: OnceLock<Option<Cluster>> = OnceLock::new();
    let cluster = SHARED.get_or_init(|| programs().map(|programs| Cluster::start(&programs)));
    cluster.as_ref().or_else(skipped)
}

/// A server for a test that stops it.
#[track_caller]
pub(crate) fn own() -> Option<Cluster> {
    programs()
        .map(|programs| Cluster::start(&programs))
        .or_else(skipped)
}

/// How many tests were skipped.
static SKIPPED: AtomicUsize = AtomicUsize::new(0);

#[track_caller]
fn skipped<T>() -> Option<T> {
    assert!(
        std::env::var_os("RESCORE_TEST_POSTGRES").is_none(),
        "RESCORE_TEST_POSTGRES is set, and there is no `initdb` in /usr/lib/postgresql or PATH"
    );
    let test = thread::current();
    // Not through the test harness, which shows nothing of a test that passes.
    let _ = writeln!(
        std::io::stderr(),
        "skipped {}: {} needs PostgreSQL, which is not installed here (no `initdb`)",
        SKIPPED.fetch_add(1, Ordering::Relaxed) + 1,
        test.name().unwrap_or("a test"),
    );
    None
}

/// Where the newest installed version's programs are.
fn programs() -> Option<PathBuf> {
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut found: Vec<_> = debian
        .flatten()
        .map(|version| version.path().join("bin"))
        .collect();
    found.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    found.splice(0..0, std::env::split_paths(&path));
    found
        .into_iter()
        .rev()
        .find(|it| it.join("initdb").exists())
}

/// The user to run a server as, where this process is root's.
fn user() -> Option<(u32, u32)> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|it| {
        use std::os::unix::fs::MetadataExt as _;
        it.uid() == 0
    });
    let known = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let of = |name: &str| {
        let line = known
            .lines()
            .find(|line| line.starts_with(&format!("{name}:")))?;
        let mut fields = line.split(':').skip(2);
        let mut number = || fields.next()?.parse().ok();
        Some((number()?, number()?))
    };
    is_root.then(|| of("postgres").or_else(|| of("nobody")).unwrap())
}

impl Cluster {
    fn start(programs: &Path) -> Self {
        let directory = tempfile::Builder::new()
            // A socket's path may have 107 characters.
            .prefix("rescore-pg-")
            .tempdir_in("/tmp")
            .unwrap()
            .keep();
        let user = user();
        if let Some((user, group)) = user {
            chown(&directory, Some(user), Some(group)).unwrap();
        }
        let secret = directory.join("password");
        fs::write(&secret, PASSWORD).unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();
        // Free again before the server takes it.
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let port = port.unwrap().port();
        // The shell ends with this process, whose end closes its standard input, and takes everything with it.
        let watcher = as_user(Command::new("sh"), user)
            .args([
                "-c",
                "read _; \"$1/pg_ctl\" -D \"$2/data\" -m immediate stop; rm -rf \"$2\"",
                "sh",
            ])
            .args([programs, &directory])
            .current_dir(&directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let cluster = Self {
            programs: programs.to_owned(),
            directory,
            port,
            user,
            watcher,
        };
        let data = cluster.data();
        cluster.program("initdb", |it| {
            it.args([
                "-U",
                OWNER,
                "-A",
                "trust",
                "--auth-host=scram-sha-256",
                "-E",
                "UTF8",
                "--no-locale",
            ])
            .arg("--pwfile")
            .arg(&secret)
            .arg("-D")
            .arg(&data)
        });
        let settings = format!(
            "unix_socket_directories = '{}'\nlisten_addresses = '*'\nport = {port}\nshared_buffers = 32MB\nmax_connections = 200\nlog_min_messages = warning\n",
            cluster.directory.display()
        );
        let file = data.join("postgresql.auto.conf");
        fs::write(&file, settings).unwrap();
        cluster.start_server();
        cluster
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    fn program(&self, name: &str, with: impl FnOnce(&mut Command) -> &mut Command) -> Output {
        let mut program = as_user(Command::new(self.programs.join(name)), self.user);
        let program = with(program.current_dir(&self.directory));
        let done = program.output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{name}: {said}");
        done
    }

    fn control(&self, args: &[&str]) {
        let log = self.directory.join("log");
        self.program("pg_ctl", |it| {
            // A server that keeps a pipe of ours open would keep the test waiting for its end.
            it.args(args)
                .arg("-w")
                .arg("-D")
                .arg(self.data())
                .arg("-l")
                .arg(log)
        });
    }

    /// Starts the server again.
    pub(crate) fn start_server(&self) {
        self.control(&["start"]);
    }

    /// Stops the server, and breaks all connections.
    pub(crate) fn stop_server(&self) {
        self.control(&["stop", "-m", "fast"]);
    }

    /// Restarts the server as after a crash.
    pub(crate) fn crash_server(&self) {
        self.control(&["restart", "-m", "immediate"]);
    }

    /// Waits until the server has logged these words so often.
    pub(crate) fn wait_for_log(&self, words: &str, times: usize) {
        let began = Instant::now();
        while self.log().matches(words).count() < times {
            assert!(began.elapsed() < Duration::from_secs(60), "{}", self.log());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Starts the server again if it has ended by itself, and waits until it accepts connections.
    pub(crate) fn start_if_ended(&self) {
        while !self.is_up() {
            if self.data().join("postmaster.pid").exists() {
                thread::sleep(Duration::from_millis(100));
            } else {
                self.start_server();
            }
        }
    }

    fn is_up(&self) -> bool {
        let mut program = as_user(Command::new(self.programs.join("pg_isready")), self.user);
        let program = program.args(["-q", "-p", &self.port.to_string(), "-h"]);
        let asked = program.arg(&self.directory).status();
        asked.is_ok_and(|status| status.success())
    }

    /// What the server has logged.
    fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap()
    }

    /// A new database whose tables are in this directory.
    pub(crate) fn database_in(&self, directory: &Path) -> Database<'_> {
        let directory = directory.join("tables");
        fs::create_dir(&directory).unwrap();
        if let Some((user, group)) = self.user {
            chown(&directory, Some(user), Some(group)).unwrap();
        }
        let directory = directory.display();
        self.sql(
            "postgres",
            &format!("CREATE TABLESPACE elsewhere LOCATION '{directory}'"),
        );
        self.database_with("TABLESPACE elsewhere")
    }

    /// Moves the write-ahead log to this directory, where each of its files takes room only as it is written.
    pub(crate) fn move_log_to(&self, directory: &Path) {
        for setting in ["wal_init_zero = off", "wal_recycle = off"] {
            self.sql("postgres", &format!("ALTER SYSTEM SET {setting}"));
        }
        self.stop_server();
        let (log, to) = (self.data().join("pg_wal"), directory.join("pg_wal"));
        let mut moved = as_user(Command::new("mv"), self.user);
        assert!(moved.args([&log, &to]).status().unwrap().success());
        std::os::unix::fs::symlink(to, log).unwrap();
        self.start_server();
        self.sql("postgres", "SELECT pg_switch_wal()");
    }

    /// Makes the server speak TLS, with this certificate and its key.
    pub(crate) fn encrypt(&self, certificate: &Path) {
        let file = self.directory.join("server.pem");
        fs::copy(certificate, &file).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        if let Some((user, group)) = self.user {
            chown(&file, Some(user), Some(group)).unwrap();
        }
        let name = file.display();
        for setting in [
            format!("ssl_cert_file = '{name}'"),
            format!("ssl_key_file = '{name}'"),
            "ssl = on".to_owned(),
        ] {
            self.sql("postgres", &format!("ALTER SYSTEM SET {setting}"));
        }
        self.control(&["reload"]);
    }

    /// A new database.
    pub(crate) fn database(&self) -> Database<'_> {
        self.database_with("")
    }

    fn database_with(&self, options: &str) -> Database<'_> {
        static DATABASES: AtomicUsize = AtomicUsize::new(0);
        let name = format!("test{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name} {options}"));
        Database {
            cluster: self,
            name,
        }
    }

    /// Runs statements in a database; what they return, a line for each row.
    fn sql(&self, database: &str, statements: &str) -> String {
        let port = self.port.to_string();
        let done = self.program("psql", |it| {
            it.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", OWNER])
                .args(["-p", &port, "-d", database, "-c", statements, "-h"])
                .arg(&self.directory)
        });
        String::from_utf8(done.stdout)
            .unwrap()
            .trim_end()
            .to_owned()
    }

    /// Its port.
    pub(crate) const fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.watcher.stdin.take());
        let _ = self.watcher.wait();
    }
}

impl Database<'_> {
    /// Its address over the socket.
    pub(crate) fn url(&self) -> String {
        self.url_of(OWNER)
    }

    /// Its address over the socket for another user.
    pub(crate) fn url_of(&self, user: &str) -> String {
        let Cluster {
            directory, port, ..
        } = self.cluster;
        let directory = directory.display();
        format!("postgresql://{user}@:{port}/{}?host={directory}", self.name)
    }

    /// Its address over the network.
    pub(crate) fn url_at(&self, host: &str, port: u16) -> String {
        format!("postgresql://{OWNER}@{host}:{port}/{}", self.name)
    }

    /// Runs statements; what they return, a line for each row.
    pub(crate) fn sql(&self, statements: &str) -> String {
        self.cluster.sql(&self.name, statements)
    }

    /// Waits until a table has so many rows.
    pub(crate) fn wait_for(&self, rows: usize, table: &str) {
        let started = Instant::now();
        while self.count(table) < rows {
            assert!(started.elapsed() < Duration::from_secs(60), "{table}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// The processes of the server that serve its other connections.
    pub(crate) fn backends(&self) -> Vec<String> {
        let others = "SELECT pid FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()";
        self.sql(others).lines().map(str::to_owned).collect()
    }

    /// Breaks its other connections; how many there were.
    pub(crate) fn terminate_backends(&self) -> usize {
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()";
        self.sql(end).lines().count()
    }

    /// How many rows a table has.
    pub(crate) fn count(&self, table: &str) -> usize {
        let count = self.sql(&format!("SELECT count(*) FROM rescore.{table}"));
        count.parse().unwrap()
    }
}

fn as_user(mut command: Command, user: Option<(u32, u32)>) -> Command {
    if let Some((user, group)) = user {
        command.uid(user).gid(group);
    }
    command
}
