//! Where a ledger is: a file, by default the one of this user, or tables on a PostgreSQL server.
//!
//! All commands use the user's file unless another ledger is named, from any folder, so that
//! nobody pays again because an output has another path.
//!
//! The address of a server is shown without its password, which comes from where PostgreSQL's own
//! programs take it. An encrypted connection always checks the server's certificate and its name,
//! whatever `sslmode` says: `disable` does not encrypt, `prefer`, the default, does if the server
//! can, and `require`, `verify-ca` and `verify-full` always do. `sslrootcert=FILE` names
//! authorities to trust besides the system's. With it, `require` is the default.
//!
//! This file must not know what is in a ledger.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::time::Instant;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config};

use crate::base::error::{Error, Result};
use crate::base::numbers;
use crate::base::private_file::{directory_of, read_small};
use crate::base::text::display;
use crate::base::threads::lock;

/// The name of a user's ledger.
const FILE_NAME: &str = "rescore.ledger";
/// Beside it, the ledger of made-up answers.
const SANDBOX_FILE_NAME: &str = "sandbox.ledger";
/// Beside it, the directory of what each run of the user reports of itself.
const RUNS_NAME: &str = "runs";
/// What names another ledger.
const HINT_NAME_LEDGER: &str = "name a ledger with `--ledger FILE` or `RESCORE_LEDGER`";
/// What only a container has: the marks of Docker and of Podman.
const CONTAINER_MARKS: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];

/// How long connecting to one host may take, unless `connect_timeout` says it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may be silent before the system asks the server for a sign of life.
/// Firewalls forget connections that are silent for some minutes, as during a long command.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);

/// How other programs let the address of a database start, in lower case and without blanks.
const ADDRESS_PREFIXES: &str =
    "postgres: postgresql: jdbc: host= hostaddr= server= datasource= dbname= user=";
/// What stands in front of a password there.
const PASSWORD_NAMES: &str = "password= passwd= pwd=";

/// Where a ledger is.
#[derive(Debug, Clone)]
pub(crate) enum LedgerLocation {
    /// In this file.
    File(PathBuf),
    /// On this server.
    Server(ServerUrl),
}

impl LedgerLocation {
    /// The ledger that the user has named: a file, or the address of a server.
    ///
    /// # Errors
    /// Exit code 2: the address cannot be read. The message has nothing of it, as it may contain a
    /// password.
    pub(crate) fn named(name: &Path) -> Result<Self> {
        let text = name.to_string_lossy();
        if ServerUrl::is_meant(&text) {
            return Ok(Self::Server(ServerUrl::parse(&text)?));
        }
        Ok(Self::File(name.to_owned()))
    }

    /// Its path or address, for people.
    pub(crate) fn to_display(&self) -> String {
        display(self.path())
    }

    /// Its file, if it is in one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Server(_) => None,
        }
    }

    /// Its path, or its address without the password.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::File(path) => path,
            Self::Server(url) => Path::new(&url.without_password),
        }
    }
}

/// The account that asks.
#[derive(Debug, Clone)]
pub(crate) struct LedgerAccount {
    /// The service's address.
    pub(crate) endpoint: String,
    /// The calling application's ID.
    pub(crate) service_id: String,
}

/// How a run waits for a ledger's server that does not answer. Clones share why it waits.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerWait {
    /// At most for this time.
    pub(crate) longest: Duration,
    reason: Arc<Mutex<Option<(Instant, String)>>>,
}

impl ServerWait {
    /// Waits for this time at most.
    pub(crate) fn new(longest: Duration) -> Self {
        Self {
            longest,
            ..Self::default()
        }
    }

    /// How long it has waited, and why, in the system's or the server's words; `None` while it
    /// does not wait.
    pub(crate) fn why(&self) -> Option<String> {
        let reason = lock(&self.reason);
        let (since, why) = reason.as_ref()?;
        Some(format!("{}: {why}", numbers::time(since.elapsed())))
    }

    /// It waits since then and for this reason, or no longer.
    pub(super) fn set(&self, reason: Option<(Instant, String)>) {
        *lock(&self.reason) = reason;
    }
}

/// The ledger of this user, or, for the sandbox, the one of made-up answers.
///
/// # Errors
/// Exit code 2: no directory is named for it, its directory is lost with this container, or the
/// file there belongs to another user.
pub(crate) fn default_file(sandbox: bool) -> Result<PathBuf> {
    let directory = directory(|name| env::var_os(name)).ok_or_else(|| {
        Error::usage("there is no place for your ledger: the variable HOME names no directory")
            .hint(HINT_NAME_LEDGER)
    })?;
    // Losing made-up answers costs nothing.
    if sandbox {
        return Ok(directory.join(SANDBOX_FILE_NAME));
    }
    let file = directory.join(FILE_NAME);
    if is_container() && is_lost_with_container(&directory) {
        let error = format!(
            "your ledger `{}` would be lost with this container",
            display(&file)
        );
        return Err(
            Error::usage(error).hint("mount a volume, and name a file on it with `RESCORE_LEDGER`")
        );
    }
    let owner = fs::symlink_metadata(&file).map(|metadata| metadata.uid());
    if owner.is_ok_and(|owner| owner != rustix::process::geteuid().as_raw()) {
        let error = format!("your ledger `{}` belongs to another user", display(&file));
        return Err(Error::usage(error)
            .detail("answers that another user has put there are not trusted")
            .hint(HINT_NAME_LEDGER));
    }
    Ok(file)
}

/// Where each run of this user reports how it is, whatever its ledger is; `None` if no directory is
/// named for it.
pub(crate) fn status_directory() -> Option<PathBuf> {
    Some(directory(|name| env::var_os(name))?.join(RUNS_NAME))
}

/// The ledger of made-up answers, beside the file that a variable or the settings file names.
/// `None`, if a server is named there, stands for the user's.
pub(crate) fn sandbox_beside(named: &Path) -> Option<LedgerLocation> {
    let named = LedgerLocation::named(named).ok()?;
    let file = named.file()?.with_file_name(SANDBOX_FILE_NAME);
    Some(LedgerLocation::File(file))
}

/// Makes the directory of a user's ledger, which only the user can look into.
///
/// # Errors
/// Exit code 2: it cannot be made.
pub(crate) fn make_directory(file: &Path) -> Result<()> {
    let directory = directory_of(file);
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(directory).map_err(|error| {
        let directory = display(directory);
        Error::usage(format!(
            "cannot make the directory `{directory}` for your ledger"
        ))
        .because(error)
        .hint(HINT_NAME_LEDGER)
    })
}

/// The directory of a user's ledger, by these variables: a service of systemd has a directory of
/// its own.
fn directory(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let named = |name| absolute(variable(name)?.into());
    // systemd separates several directories by colons.
    let of_service = variable("STATE_DIRECTORY");
    let of_service = of_service.and_then(|all| env::split_paths(&all).next());
    of_service.and_then(absolute).or_else(|| {
        let state = named("XDG_STATE_HOME");
        let state = state.or_else(|| Some(named("HOME")?.join(".local/state")))?;
        Some(state.join("rescore"))
    })
}

/// Whether this process is in a container.
fn is_container() -> bool {
    CONTAINER_MARKS.iter().any(|mark| Path::new(mark).exists())
        || env::var_os("KUBERNETES_SERVICE_HOST").is_some()
}

/// Whether a directory, or the one that it will be made in, is in the container's own layer or in
/// memory.
#[cfg(target_os = "linux")]
fn is_lost_with_container(directory: &Path) -> bool {
    /// The numbers of overlay, tmpfs and ramfs in Linux's `magic.h`.
    const LOST: [u64; 3] = [0x794c_7630, 0x0102_1994, 0x8584_58f6];
    let mut existing = directory.ancestors();
    let kind = existing.find_map(|existing| rustix::fs::statfs(existing).ok());
    kind.is_some_and(|kind| u64::try_from(kind.f_type).is_ok_and(|kind| LOST.contains(&kind)))
}

/// Only Linux has containers.
#[cfg(not(target_os = "linux"))]
const fn is_lost_with_container(_: &Path) -> bool {
    false
}

/// A connection to a server, and the runtime that drives it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) client: Client,
    pub(super) runtime: Runtime,
    /// How long an answer to a statement may take.
    pub(super) timeout: Duration,
}

/// Where a server and a database on it are, and how to connect to them. Its `Debug` output, too,
/// has no password.
#[derive(Debug, Clone)]
pub(crate) struct ServerUrl {
    pub(super) config: Box<Config>,
    /// A PEM file of authorities.
    pub(super) authorities: Option<PathBuf>,
    without_password: String,
    /// The connection, once it is made. All clones use it in turn.
    pub(super) connection: Arc<Mutex<Option<Connection>>>,
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.without_password)
    }
}

impl ServerUrl {
    /// Whether a text is meant as the address of a database, also in a form that other programs
    /// take. It may contain a password, so it is neither shown nor taken for a path.
    pub(crate) fn is_meant(text: &str) -> bool {
        let plain: String = text.to_lowercase().split_whitespace().collect();
        let (first, _) = plain.split_once('/').unwrap_or((&plain, ""));
        let login = first.rsplit_once('@').map(|(login, _)| login);
        login.is_some_and(|login| login.contains(':'))
            || plain.contains("://")
            || ADDRESS_PREFIXES
                .split(' ')
                .any(|prefix| plain.starts_with(prefix))
            || PASSWORD_NAMES.split(' ').any(|name| plain.contains(name))
    }

    /// Reads an address.
    ///
    /// # Errors
    /// Exit code 2: it cannot be read. The message has nothing of it, as that could be a part of
    /// the password.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let wrong = || {
            Error::usage("cannot read the address of the ledger's server")
                .detail("it looks like `postgresql://USER@HOST/DATABASE`, with settings behind it such as `?sslmode=verify-full`; a ledger in a file is named by its path alone")
                .hint("set `PGPASSWORD` rather than writing a password into it; there, `@`, `/` and `?` are `%40`, `%2F` and `%3F`")
        };
        let (address, settings) = text.split_once('?').unwrap_or((text, ""));
        let (scheme, rest) = address.split_once("://").ok_or_else(wrong)?;
        let (login, host) = match rest.split_once('@') {
            Some((login, host)) => (Some(login.split(':').next().unwrap_or_default()), host),
            None => (None, rest),
        };
        let (mut mode, mut authorities) = (None, None);
        let (mut others, mut harmless) = (Vec::new(), Vec::new());
        for setting in settings.split('&').filter(|setting| !setting.is_empty()) {
            match setting.split_once('=').ok_or_else(wrong)? {
                ("sslmode", value) => mode = Some(value),
                ("sslrootcert", file) => authorities = Some(file),
                (name, _) => {
                    others.push(setting);
                    // These tell one ledger from another. Another name may be the password's,
                    // however it is encoded.
                    if ["host", "port", "user", "dbname", "options"].contains(&name) {
                        harmless.push(setting);
                    }
                }
            }
        }
        let config = format!("{address}?{}", others.join("&")).parse::<Config>();
        let mut config = config.map_err(|_| wrong())?;
        if !["postgresql", "postgres"].contains(&scheme)
            || text.trim() != text
            || host.contains('@')
            || config.get_hosts().is_empty()
        {
            return Err(wrong());
        }
        config.ssl_mode(match mode {
            Some("disable") => SslMode::Disable,
            None | Some("prefer") if authorities.is_none() => SslMode::Prefer,
            None | Some("prefer" | "require" | "verify-ca" | "verify-full") => SslMode::Require,
            _ => return Err(wrong().detail("`sslmode` is `disable`, `prefer` or `verify-full`")),
        });
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        config
            .application_name("rescore")
            .keepalives_idle(KEEPALIVE_IDLE);
        let login = login.map(|user| format!("{user}@")).unwrap_or_default();
        let separator = if harmless.is_empty() { "" } else { "?" };
        let harmless = harmless.join("&");
        let authorities = authorities.filter(|file| *file != "system");
        Ok(Self {
            config: Box::new(config),
            authorities: authorities.map(PathBuf::from),
            without_password: format!("postgresql://{login}{host}{separator}{harmless}"),
            connection: Arc::default(),
        })
    }

    /// The role that connects: by default the user of the system.
    pub(super) fn role(&self) -> Option<String> {
        let user = self.config.get_user().map(str::to_owned);
        user.or_else(|| env::var("USER").ok())
    }

    /// The configuration with the password of the address, of `PGPASSWORD`, or of the file that
    /// `PGPASSFILE` names, by default `~/.pgpass`. Such a file counts only if nobody else can read
    /// it.
    pub(super) fn with_password(&self) -> Config {
        let mut config = Config::clone(&self.config);
        if config.get_password().is_none() {
            let set = |name| env::var(name).ok().filter(|value| !value.is_empty());
            let password = set("PGPASSWORD").or_else(|| {
                let usual = || Some(PathBuf::from(set("HOME")?).join(".pgpass"));
                let file = set("PGPASSFILE").map(PathBuf::from).or_else(usual)?;
                let mode = fs::metadata(&file).ok()?.permissions().mode();
                let is_private = mode.trailing_zeros() >= 6;
                let text =
                    String::from_utf8(read_small(&file).ok().filter(|_| is_private)?).ok()?;
                find_password(&text, &config, set("USER").as_deref())
            });
            if let Some(password) = password {
                config.password(password);
            }
        }
        config
    }
}

/// The password of the first line of a `.pgpass` about this server:
/// `host:port:database:user:password`.
fn find_password(text: &str, config: &Config, system_user: Option<&str>) -> Option<String> {
    let host = match config.get_hosts().first()? {
        Host::Tcp(host) => host.clone(),
        // PostgreSQL's own programs look for the usual socket under this name.
        Host::Unix(_) => "localhost".to_owned(),
    };
    let port = config.get_ports().first().unwrap_or(&5432).to_string();
    let user = config.get_user().or(system_user).unwrap_or_default();
    let server = [&host, &port, config.get_dbname().unwrap_or(user), user];
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(fields).find_map(|fields| {
        let (password, line) = fields.split_last()?;
        let fits = |(field, value): (&String, &&str)| field == "*" || field == value;
        let is_it = line.len() == server.len() && line.iter().zip(&server).all(fits);
        is_it.then(|| password.clone())
    })
}

/// The fields of a line; a backslash in front of a colon or a backslash makes it part of the field.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut field) = (Vec::new(), String::new());
    let mut characters = line.chars();
    while let Some(next) = characters.next() {
        match next {
            ':' if fields.len() < 4 => fields.push(std::mem::take(&mut field)),
            '\\' => field.extend(characters.next()),
            other => field.push(other),
        }
    }
    fields.push(field);
    fields
}

/// The text, cut where a password in front of a host or a key in a query could follow. A run
/// refuses addresses with either.
pub(crate) fn without_secrets(value: &str) -> String {
    match value.split_once("://") {
        Some((scheme, rest)) if rest.contains(['@', '?', '#', ';']) => format!("{scheme}://…"),
        None if ServerUrl::is_meant(value) => "…".to_owned(),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_absolute_directory_counts() {
        for (variables, expected) in [
            (&[][..], None),
            (&[("HOME", "")], None),
            (&[("HOME", "home/jane")], None),
            (
                &[("HOME", "/home/jane")],
                Some("/home/jane/.local/state/rescore"),
            ),
            (
                &[("HOME", "/home/jane"), ("XDG_STATE_HOME", "state")],
                Some("/home/jane/.local/state/rescore"),
            ),
            (
                &[("HOME", "/home/jane"), ("XDG_STATE_HOME", "/state")],
                Some("/state/rescore"),
            ),
            (
                &[
                    ("XDG_STATE_HOME", "/state"),
                    ("STATE_DIRECTORY", "/var/lib/a:/var/lib/b"),
                ],
                Some("/var/lib/a"),
            ),
        ] {
            let of = |name: &str| {
                let mut all = variables.iter();
                all.find(|(there, _)| *there == name)
                    .map(|(_, value)| OsString::from(value))
            };
            assert_eq!(directory(of), expected.map(PathBuf::from), "{variables:?}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_is_in_memory_is_lost_with_a_container() {
        assert!(is_lost_with_container(Path::new(
            "/dev/shm/nowhere/rescore"
        )));
        assert!(!is_lost_with_container(Path::new("/proc")));
    }

    fn url(text: &str) -> ServerUrl {
        ServerUrl::parse(text).unwrap()
    }

    #[test]
    fn a_password_is_never_shown() {
        for (text, shown) in [
            (
                "postgres://ann:s3cret@db1:5433/x",
                "postgresql://ann@db1:5433/x",
            ),
            ("postgresql://ann:s3cret%3f@a,b/x", "postgresql://ann@a,b/x"),
            (
                "postgresql://db1/x?password=s3cret&sslmode=require",
                "postgresql://db1/x",
            ),
            (
                "postgresql://db1/x?user=ann&pass%77ord=s3cret",
                "postgresql://db1/x?user=ann",
            ),
            (
                "postgresql://ann:s3cret@/x?host=/run&port=5433&options=-c%20search_path%3Dt",
                "postgresql://ann@/x?host=/run&port=5433&options=-c%20search_path%3Dt",
            ),
        ] {
            let url = url(text);
            assert_eq!(url.to_string(), shown);
            assert!(!format!("{url:?}").contains("s3cret"));
            let again = ServerUrl::parse(shown).unwrap().to_string();
            assert_eq!(again, shown, "it can be given again");
        }
        for text in [
            "postgresql://ann:s3cret/x@db1:y/z",
            "postgresql://ann:1@s3cret@db1/z",
            "postgresql://ann:s3cret?x@db1/z",
            "postgresql://ann:s3cret@db1/x?s3cret",
            "postgresql://ann:s3cret@db1/x?s3cret=1",
            "postgresql:///x?password=s3cret",
            "host=db1 password=s3cret",
            "postgresql://db1/x?sslmode=s3cret",
            "POSTGRESQL://ann:s3cret@db1/x",
            " postgresql://ann:s3cret@db1/x",
            "postgresql://ann:s3cret@db1/x\n",
            "postgresql:/ann:s3cret@db1/x",
            "postgresql+psycopg2://ann:s3cret@db1/x",
            "jdbc:postgresql://db1/x?user=ann&password=s3cret",
            "jdbc:oracle:thin:ann/s3cret@db1",
            "mysql://ann:s3cret@db1/x",
            "ann:s3cret@db1/x",
            "user=ann password = 's3cret' host=db1",
            "dbname=x PASSWORD=s3cret",
            "Server=db1;User Id=ann;Pwd=s3cret",
        ] {
            assert!(ServerUrl::is_meant(text), "{text}");
            let error = ServerUrl::parse(text).unwrap_err();
            assert_eq!(error.exit().code(), 2);
            assert!(!error.report().contains("s3cret"), "{text}");
        }
    }

    #[test]
    fn an_address_is_shown_without_what_may_be_a_secret() {
        for (value, expected) in [
            ("https://api.example.com/x", "https://api.example.com/x"),
            ("https://me:pw@host/x", "https://…"),
            ("https://host/x?key=pw", "https://…"),
            ("https://host/#pw", "https://…"),
            ("sqlserver://host;password=pw", "sqlserver://…"),
            ("host=db1 password=pw", "…"),
            ("me:pw@host/x", "…"),
            ("50/s", "50/s"),
            ("email={name}@example.com", "email={name}@example.com"),
        ] {
            assert_eq!(without_secrets(value), expected);
        }
    }

    #[test]
    fn a_path_is_not_taken_for_an_address() {
        for path in [
            "rescore.ledger",
            "/data/host=db1/rescore.ledger",
            "./ann:x@db1",
            "2026-11-28T19:13.ledger",
            "backups/19:13@db1/rescore.ledger",
            "postgresql/rescore.ledger",
            "host.ledger",
            "/srv/passwords.ledger",
        ] {
            assert!(!ServerUrl::is_meant(path), "{path}");
        }
    }

    #[test]
    fn a_mode_or_an_authority_asks_for_encryption() {
        for (settings, mode, authorities) in [
            ("", SslMode::Prefer, None),
            ("?sslmode=prefer", SslMode::Prefer, None),
            ("?sslmode=disable", SslMode::Disable, None),
            ("?sslmode=require", SslMode::Require, None),
            (
                "?sslmode=verify-full&sslrootcert=system",
                SslMode::Require,
                None,
            ),
            ("?sslrootcert=system", SslMode::Require, None),
            (
                "?sslrootcert=/a.pem",
                SslMode::Require,
                Some("/a.pem".into()),
            ),
        ] {
            let url = url(&format!("postgresql://ann@db1/x{settings}"));
            assert_eq!(url.config.get_ssl_mode(), mode, "{settings}");
            assert_eq!(url.authorities, authorities, "{settings}");
        }
    }

    #[test]
    fn the_first_line_about_a_server_has_its_password() {
        let file = "# a comment\nother:*:*:*:no\ndb1:5432:x:ann:a\\:b\\\\c:d\n*:*:*:ann:last:one\n";
        let found = |text| find_password(file, &url(text).config, None);
        assert_eq!(found("postgresql://ann@db1/x").as_deref(), Some("a:b\\c:d"));
        assert_eq!(found("postgresql://ann@db1/y").as_deref(), Some("last:one"));
        assert_eq!(found("postgresql://bob@db1/x"), None);
        let socket = url("postgresql:///x?host=/run").config;
        let found = find_password("localhost:*:x:ann:s", &socket, Some("ann"));
        assert_eq!(found.as_deref(), Some("s"));
    }
}
