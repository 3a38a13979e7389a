//! The address of a ledger that is on a PostgreSQL server, as it is named on the command line.
//!
//! People paste passwords into addresses, and everybody on the machine can see an argument. So an address with a password
//! is refused, and no message repeats an address that was not understood. This file must not open a connection or a file.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use url::Url;

use crate::base::error::{Error, Result, quoted};

/// The port that PostgreSQL listens on unless it is told otherwise.
const PORT: u16 = 5432;

/// The address of a ledger on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerUrl {
    user: String,
    host: ServerHost,
    port: u16,
    database: String,
    root_certificates: Option<PathBuf>,
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::ledger) enum ServerHost {
    /// At a socket in this directory, on this machine.
    Socket(PathBuf),
    /// At a name or an IP address.
    Network(String),
}

impl ServerUrl {
    /// Whether a ledger is named by an address and not by a file.
    #[must_use]
    pub(crate) fn is_one(text: &str) -> bool {
        // Also where the case or the rest is wrong: such a file would have the password in its name.
        let scheme = text.split_once(':').map(|(scheme, _)| scheme);
        scheme.is_some_and(|it| {
            ["postgres", "postgresql"]
                .iter()
                .any(|known| it.eq_ignore_ascii_case(known))
        })
    }

    /// Reads an address. `default_user` is who connects if it names nobody.
    ///
    /// # Errors
    /// Exit code 2: it is not such an address, has a password, or asks for something that is not supported.
    pub(crate) fn parse(text: &str, default_user: Option<&str>) -> Result<Self> {
        let url: Url = with_host(text).parse().map_err(|e| {
            Error::usage("the address of the ledger is not a URL")
                .because(e)
                .hint("give it as `postgresql://USER@HOST:PORT/DATABASE`")
        })?;
        if url.password().is_some() {
            return Err(with_password());
        }
        let mut parts = UrlParts::of(&url)?;
        for (name, value) in url.query_pairs() {
            parts.set(&name, &value)?;
        }
        let user = { parts.user.as_deref().or(default_user) }.ok_or_else(|| {
            Error::usage("the address of the ledger names no user")
                .hint("give it as `postgresql://USER@HOST:PORT/DATABASE`, or set `PGUSER`")
        })?;
        let host = parts.host.filter(|host| !host.is_empty()).ok_or_else(|| {
            Error::usage("the address of the ledger names no host").hint(
                "give it as `postgresql://USER@HOST:PORT/DATABASE`; for a socket, add `?host=/run/postgresql`",
            )
        })?;
        if host.contains(',') {
            return Err(
                Error::usage("the address of the ledger names several hosts")
                    .hint("name one that always leads to the primary server"),
            );
        }
        Ok(Self {
            database: parts.database.unwrap_or_else(|| user.to_owned()),
            user: user.to_owned(),
            host: if host.starts_with('/') {
                ServerHost::Socket(host.into())
            } else {
                ServerHost::Network(host)
            },
            port: parts.port.unwrap_or(PORT),
            root_certificates: parts.root_certificates,
        })
    }

    /// Who connects.
    pub(in crate::ledger) fn user(&self) -> &str {
        &self.user
    }

    /// Where the server listens.
    pub(in crate::ledger) const fn host(&self) -> &ServerHost {
        &self.host
    }

    /// Its port.
    pub(in crate::ledger) const fn port(&self) -> u16 {
        self.port
    }

    /// The database.
    pub(in crate::ledger) fn database(&self) -> &str {
        &self.database
    }

    /// The file with the certificates of authorities to trust, instead of the system's.
    pub(in crate::ledger) const fn root_certificates(&self) -> Option<&PathBuf> {
        self.root_certificates.as_ref()
    }

    /// Whether nothing leaves this machine.
    pub(in crate::ledger) fn is_local(&self) -> bool {
        match &self.host {
            ServerHost::Socket(_) => true,
            ServerHost::Network(name) => {
                name.eq_ignore_ascii_case("localhost")
                    || name
                        .parse()
                        .is_ok_and(|address: IpAddr| address.is_loopback())
            }
        }
    }
}

/// As it may be shown: there is no password in it.
impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            user,
            host,
            port,
            database,
            ..
        } = self;
        match host {
            ServerHost::Socket(directory) => {
                let directory = directory.display();
                write!(f, "postgresql://{user}@:{port}/{database}?host={directory}")
            }
            ServerHost::Network(name) if name.contains(':') => {
                write!(f, "postgresql://{user}@[{name}]:{port}/{database}")
            }
            ServerHost::Network(name) => write!(f, "postgresql://{user}@{name}:{port}/{database}"),
        }
    }
}

/// The parts of an address while it is read; those in the query come after the others, as for PostgreSQL's own programs.
struct UrlParts {
    user: Option<String>,
    host: Option<String>,
    port: Option<u16>,
    database: Option<String>,
    root_certificates: Option<PathBuf>,
}

impl UrlParts {
    fn of(url: &Url) -> Result<Self> {
        let decoded = |text: &str| -> Result<Option<String>> {
            let decoded = decode(text).ok_or_else(|| {
                Error::usage("the address of the ledger has a `%` that starts no character")
            })?;
            Ok(Some(decoded).filter(|text| !text.is_empty()))
        };
        let host = url.host_str().filter(|host| *host != NO_HOST);
        let host = host.unwrap_or_default();
        Ok(Self {
            user: decoded(url.username())?,
            // In a URL, an IPv6 address is in brackets.
            host: decoded(host.trim_start_matches('[').trim_end_matches(']'))?,
            port: url.port(),
            database: decoded(url.path().trim_start_matches('/'))?,
            root_certificates: None,
        })
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let text = || Some(value.to_owned()).filter(|value| !value.is_empty());
        match name {
            "user" => self.user = text(),
            "host" => self.host = text(),
            "dbname" => self.database = text(),
            "port" => {
                let port = value.parse().map_err(|_| {
                    Error::usage("the address of the ledger has a `port` that is not a port")
                })?;
                self.port = Some(port);
            }
            "sslrootcert" => self.root_certificates = text().map(PathBuf::from),
            // There is no other mode, except on this machine.
            "sslmode" if value == "verify-full" => {}
            "sslmode" => {
                return Err(Error::usage(format!(
                    "the address of the ledger asks for `sslmode` {}, and only `verify-full` is supported",
                    quoted(value)
                ))
                .hint("leave it out: a connection is encrypted and checked, except on this machine"));
            }
            // People use it for the program's name in the server's lists; we have one.
            "application_name" => {}
            "password" | "passfile" => return Err(with_password()),
            other => {
                return Err(Error::usage(format!(
                    "the address of the ledger has the unknown parameter {}",
                    quoted(other)
                ))
                .detail(
                    "known: host, port, user, dbname, sslmode, sslrootcert, application_name",
                ));
            }
        }
        Ok(())
    }
}

/// Stands for the host that an address leaves out; no host has this name.
const NO_HOST: &str = "_";

/// The address with a host, which a URL with a user must have: PostgreSQL's own programs accept it without one.
fn with_host(text: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.into();
    };
    let (login, rest) = match rest.split_once('@') {
        Some((login, rest)) => (format!("{login}@"), rest),
        None => (String::new(), rest),
    };
    if rest.starts_with([':', '/']) || rest.is_empty() {
        format!("{scheme}://{login}{NO_HOST}{rest}").into()
    } else {
        text.into()
    }
}

fn with_password() -> Error {
    Error::usage("the address of the ledger contains a password, which everybody on this machine could see")
        .hint("leave it out, and name a file that has it with `--ledger-password-file FILE`, or set `PGPASSWORD` or `PGPASSFILE`")
}

/// The text with its `%XX` as what they stand for.
fn decode(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(if byte == b'%' {
            let mut digit = || char::from(bytes.next()?).to_digit(16);
            let (high, low) = (digit()?, digit()?);
            u8::try_from(high << 4 | low).ok()?
        } else {
            byte
        });
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        ServerUrl::parse(text, Some("me")).unwrap().to_string()
    }

    #[test]
    fn an_address_is_read_as_other_programs_read_it() {
        for (text, expected) in [
            (
                "postgresql://ann@db1:5433/scores",
                "postgresql://ann@db1:5433/scores",
            ),
            (
                "postgres://db1/scores?sslmode=verify-full",
                "postgresql://me@db1:5432/scores",
            ),
            ("postgresql://ann@db1", "postgresql://ann@db1:5432/ann"),
            ("postgresql://ann@[::1]/x", "postgresql://ann@[::1]:5432/x"),
            ("postgresql://a%40b@db1/x", "postgresql://a@b@db1:5432/x"),
            (
                "postgresql:///x?host=/run/postgresql&port=7",
                "postgresql://me@:7/x?host=/run/postgresql",
            ),
            (
                "postgresql://ann@:7/x?host=/run/postgresql",
                "postgresql://ann@:7/x?host=/run/postgresql",
            ),
            (
                "postgresql://%2Frun%2Fpostgresql/x",
                "postgresql://me@:5432/x?host=/run/postgresql",
            ),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn only_this_machine_is_local() {
        for (text, local) in [
            ("postgresql://127.0.0.1/x", true),
            ("postgresql://localhost/x", true),
            ("postgresql://[::1]/x", true),
            ("postgresql:///x?host=/run/postgresql", true),
            ("postgresql://10.0.0.1/x", false),
            ("postgresql://localhost.example.com/x", false),
        ] {
            let url = ServerUrl::parse(text, Some("me")).unwrap();
            assert_eq!(url.is_local(), local, "{text}");
        }
    }

    #[test]
    fn no_refusal_repeats_a_password() {
        for text in [
            "postgresql://ann:hunter2@db1/x",
            "postgresql://db1/x?password=hunter2",
            "postgresql://ann:hunter2@db 1/x",
            "postgresql://ann:hunter2@[db1/x",
            "POSTGRES:hunter2",
        ] {
            assert!(ServerUrl::is_one(text), "{text}");
            let report = ServerUrl::parse(text, None).unwrap_err().report();
            assert!(!report.contains("hunter2"), "{report}");
        }
    }

    #[test]
    fn what_is_not_supported_is_refused() {
        let refused = |text: &str| ServerUrl::parse(text, None).unwrap_err().report();
        assert!(refused("postgresql://ann@db1/x?sslmode=disable").contains("`disable`"));
        assert!(refused("postgresql://ann@db1/x?target=1").contains("`target`"));
        assert!(refused("postgresql://db1/x").contains("names no user"));
        assert!(refused("postgresql://ann@a,b/x").contains("several hosts"));
        assert!(refused("postgresql:///x?user=ann").contains("names no host"));
    }
}
