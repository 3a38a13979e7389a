//! The address of a ledger's server, which is shown without its password, and the password, from where PostgreSQL's own programs
//! take it.
//!
//! Where a connection is encrypted, the server's certificate and its name are checked, whatever `sslmode` says: `disable` does
//! not encrypt, `prefer`, the default, does so if the server can, and `require`, `verify-ca` and `verify-full` do always.
//! `sslrootcert=FILE` names authorities to trust besides the system's. With it, `require` is the default.

use std::env;
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config};

use crate::base::error::{Error, Result};
use crate::base::private_file::read_small;

/// How long connecting to one host may take, unless `connect_timeout` says it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may be silent before the system asks the server for a sign of life. Firewalls forget connections that
/// are silent for some minutes, as during a long command.
const IDLE: Duration = Duration::from_secs(60);

/// How the address of a database starts where it is not `postgresql://`, in lower case and without blanks.
const ADDRESS_STARTS: &str =
    "postgres: postgresql: jdbc: host= hostaddr= server= datasource= dbname= user=";
/// What stands in front of a password there.
const PASSWORDS: &str = "password= passwd= pwd=";

/// A connection, and what drives it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) client: Client,
    pub(super) runtime: Runtime,
    /// How long the answer to a statement is waited for.
    pub(super) patience: Duration,
}

/// Where a server and a database on it are, and how to connect to them. A `Config` does not show its password either.
#[derive(Debug, Clone)]
pub(crate) struct ServerUrl {
    pub(super) config: Box<Config>,
    /// A PEM file of authorities.
    pub(super) authorities: Option<PathBuf>,
    /// Without the password.
    pub(super) shown: String,
    /// The connection that all who have a clone of this use in turn, once it is made.
    pub(super) connection: Arc<Mutex<Option<Connection>>>,
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl ServerUrl {
    /// Whether a text is the address of a server, and not a path.
    pub(crate) fn is_one(text: &str) -> bool {
        text.starts_with("postgresql://") || text.starts_with("postgres://")
    }

    /// Whether a text is meant as the address of a database, also in a form that other programs take. It may have a password,
    /// so it is neither shown nor taken for a path.
    pub(crate) fn is_meant(text: &str) -> bool {
        let plain: String = text.to_lowercase().split_whitespace().collect();
        let (first, _) = plain.split_once('/').unwrap_or((&plain, ""));
        let has_login = { first.rsplit_once('@') }.is_some_and(|(login, _)| login.contains(':'));
        has_login
            || plain.contains("://")
            || { ADDRESS_STARTS.split(' ') }.any(|start| plain.starts_with(start))
            || PASSWORDS.split(' ').any(|name| plain.contains(name))
    }

    /// Reads an address.
    ///
    /// # Errors
    /// Exit code 2: it cannot be read. The message has nothing of it, as that could be a part of the password.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let wrong = || {
            Error::usage("cannot read the address of the ledger's server")
                .detail("it looks like `postgresql://USER@HOST/DATABASE`, with settings behind it such as `?sslmode=verify-full`; a ledger in a file is named by its path alone")
                .hint("set `PGPASSWORD` rather than writing a password into it; there, `@`, `/` and `?` are `%40`, `%2F` and `%3F`")
        };
        let (address, settings) = text.split_once('?').unwrap_or((text, ""));
        let (_, place) = address.split_once("://").ok_or_else(wrong)?;
        let (login, place) =
            { place.split_once('@') }.map_or((String::new(), place), |(login, place)| {
                let user = login.split(':').next().unwrap_or_default();
                (format!("{user}@"), place)
            });
        let (mut mode, mut authorities) = (None, None);
        let (mut others, mut shown) = (Vec::new(), Vec::new());
        for setting in settings.split('&').filter(|setting| !setting.is_empty()) {
            match setting.split_once('=').ok_or_else(wrong)? {
                ("sslmode", value) => mode = Some(value),
                ("sslrootcert", file) => authorities = Some(file),
                (name, _) => {
                    others.push(setting);
                    // What tells one ledger from another. A name may be written in ways that hide that it is the password.
                    let is_place = ["host", "port", "user", "dbname", "options"].contains(&name);
                    shown.extend(is_place.then_some(setting));
                }
            }
        }
        let config = format!("{address}?{}", others.join("&")).parse::<Config>();
        let mut config = config.map_err(|_| wrong())?;
        if !Self::is_one(text)
            || text.trim() != text
            || place.contains('@')
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
        config.application_name("rescore").keepalives_idle(IDLE);
        let separator = if shown.is_empty() { "" } else { "?" };
        Ok(Self {
            config: Box::new(config),
            authorities: authorities
                .filter(|file| *file != "system")
                .map(PathBuf::from),
            shown: format!("postgresql://{login}{place}{separator}{}", shown.join("&")),
            connection: Arc::default(),
        })
    }

    /// The role that connects: by default the user of the system.
    pub(super) fn role(&self) -> Option<String> {
        let user = self.config.get_user().map(str::to_owned);
        user.or_else(|| env::var("USER").ok())
    }

    /// With the password of `PGPASSWORD`, or else of the file of `PGPASSFILE` or `~/.pgpass`, if it has none and nobody else
    /// can read that file.
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

/// The password of the first line of a `.pgpass` about this server: `host:port:database:user:password`.
fn find_password(text: &str, config: &Config, login: Option<&str>) -> Option<String> {
    let host = match config.get_hosts().first()? {
        Host::Tcp(host) => host.clone(),
        // PostgreSQL's own programs look for the usual socket under this name.
        Host::Unix(_) => "localhost".to_owned(),
    };
    let port = config.get_ports().first().unwrap_or(&5432).to_string();
    let user = config.get_user().or(login).unwrap_or_default();
    let server = [&host, &port, config.get_dbname().unwrap_or(user), user];
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(fields).find_map(|fields| {
        let (password, about) = fields.split_last()?;
        let fits = |(field, ours): (&String, &&str)| field == "*" || field == ours;
        let is_ours = about.len() == server.len() && about.iter().zip(&server).all(fits);
        is_ours.then(|| password.clone())
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

/// An address that may have a password in front of its host, or a key in its query, without all that follows. A run refuses
/// both.
pub(crate) fn without_secrets(value: &str) -> String {
    match value.split_once("://") {
        Some((scheme, rest)) if rest.contains(['@', '?', '#', ';']) => format!("{scheme}://…"),
        None if ServerUrl::is_meant(value) => "…".to_owned(),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

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
