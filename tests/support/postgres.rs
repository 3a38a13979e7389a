//! A PostgreSQL server of the tests' own, where `TEST_POSTGRES` is set. The tests of `src/ledger` use it as well.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Of its user `ledger`, over the network; nobody needs it over the socket.
pub(crate) const PASSWORD: &str = "correct horse";

/// A PostgreSQL server of the tests' own, with its files. It ends with this process, however that ends.
pub(crate) struct Cluster {
    programs: PathBuf,
    pub(crate) directory: PathBuf,
    pub(crate) port: u16,
    /// Who runs it: PostgreSQL refuses to run as root.
    pub(crate) user: Option<(u32, u32)>,
    /// Stops the server and removes the directory when its standard input ends.
    _watcher: Child,
}

impl Cluster {
    /// `None` without the variable.
    pub(crate) fn start() -> Option<Self> {
        std::env::var_os("TEST_POSTGRES")?;
        // A socket's path may have 107 characters.
        let directory = tempfile::Builder::new()
            .prefix("rescore-pg-")
            .tempdir_in("/tmp");
        let directory = directory.unwrap().keep();
        let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
        let user = is_root.then(|| account("postgres").or_else(|| account("nobody")).unwrap());
        if let Some((user, group)) = user {
            chown(&directory, Some(user), Some(group)).unwrap();
        }
        let programs = programs().expect("TEST_POSTGRES is set, and there is no `initdb`");
        // Free again before the server takes it.
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let watch = "read _; \"$1/pg_ctl\" -D \"$2/data\" -m immediate stop; rm -rf \"$2\"";
        let mut watcher = Command::new("sh");
        watcher
            .args(["-c", watch, "sh"])
            .args([&programs, &directory]);
        let watcher = as_user(&mut watcher, user)
            .current_dir(&directory)
            .stdin(Stdio::piped());
        let watcher = watcher.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let cluster = Self {
            programs,
            directory,
            port,
            user,
            _watcher: watcher.unwrap(),
        };
        let secret = cluster.directory.join("password");
        fs::write(&secret, PASSWORD).unwrap();
        let options = "-U ledger -A trust --auth-host=scram-sha-256 -E UTF8 --no-locale -D data --pwfile password";
        cluster.program("initdb", &options.split(' ').collect::<Vec<_>>());
        let settings = format!(
            "unix_socket_directories = '{}'\nlisten_addresses = 'localhost'\nport = {port}\nshared_buffers = 32MB\n",
            cluster.directory.display()
        );
        fs::write(
            cluster.directory.join("data/postgresql.auto.conf"),
            settings,
        )
        .unwrap();
        cluster.control(&["start"]);
        Some(cluster)
    }

    /// Runs one of its programs in its directory.
    fn program(&self, name: &str, args: &[&str]) {
        let mut program = Command::new(self.programs.join(name));
        let program = as_user(&mut program, self.user).current_dir(&self.directory);
        let done = program.args(args).output().unwrap();
        assert!(
            done.status.success(),
            "{name}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
    }

    /// Stops it, or starts it again.
    pub(crate) fn control(&self, args: &[&str]) {
        self.program(
            "pg_ctl",
            &[args, &["-w", "-D", "data", "-l", "log"]].concat(),
        );
    }
    pub(crate) fn sql(&self, statements: &str) {
        let (directory, port) = (self.directory.display(), self.port);
        let server = format!("host={directory} port={port} user=ledger dbname=postgres");
        let stop = "-vON_ERROR_STOP=1";
        self.program("psql", &["-X", &server, stop, "-c", statements]);
    }
}

fn as_user(command: &mut Command, user: Option<(u32, u32)>) -> &mut Command {
    match user {
        Some((user, group)) => command.uid(user).gid(group),
        None => command,
    }
}

/// The numbers of a user and its group.
fn account(name: &str) -> Option<(u32, u32)> {
    let known = fs::read_to_string("/etc/passwd").unwrap();
    let line = known
        .lines()
        .find(|line| line.split(':').next() == Some(name))?;
    let mut numbers = line
        .split(':')
        .skip(2)
        .map(|number| number.parse().unwrap());
    Some((numbers.next()?, numbers.next()?))
}

/// Where the newest installed version's programs are.
fn programs() -> Option<PathBuf> {
    let debian = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let mut found: Vec<_> = debian.map(|version| version.path().join("bin")).collect();
    found.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    found.extend(std::env::split_paths(&path));
    found
        .into_iter()
        .rev()
        .find_map(|it| it.join("initdb").canonicalize().ok())?
        .parent()
        .map(Path::to_owned)
}
