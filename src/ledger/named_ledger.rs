//! Ledgers as people name them: a file, or one on a server with what is needed to reach it. Nothing is opened here.

use std::fmt;
use std::path::PathBuf;

#[cfg(feature = "postgres")]
use super::server_url::ServerUrl;
use crate::base::error::shown;

/// A ledger as a person names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NamedLedger {
    /// A file.
    File(PathBuf),
    /// On a server.
    #[cfg(feature = "postgres")]
    Server(Box<ServerSettings>),
}

/// As it may be shown.
impl fmt::Display for NamedLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.write_str(&shown(path)),
            #[cfg(feature = "postgres")]
            Self::Server(settings) => settings.url.fmt(f),
        }
    }
}

/// A ledger on a PostgreSQL server.
#[cfg(feature = "postgres")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    /// Where it is.
    pub(crate) url: ServerUrl,
    /// The file with the password, if an option names one.
    pub(crate) password_file: Option<PathBuf>,
    /// The file with the secret that keys are made with, which not every command needs.
    pub(crate) secret_file: Option<PathBuf>,
}

/// How a ledger is made on a server.
#[cfg(feature = "postgres")]
#[derive(Debug)]
pub(crate) struct InitSettings {
    /// The server.
    pub(crate) server: ServerSettings,
    /// A ledger in a file whose secret the new one takes over, so that its answers can be imported.
    pub(crate) secret_from: Option<PathBuf>,
    /// Who gets which rights.
    pub(crate) grants: Grants,
}

/// Existing roles that get rights on a ledger.
#[cfg(feature = "postgres")]
#[derive(Debug, Default)]
pub(crate) struct Grants {
    /// Those who call the service.
    pub(crate) workers: Vec<String>,
    /// Those who look answers up.
    pub(crate) readers: Vec<String>,
    /// Those who remove old answers and forget people.
    pub(crate) keepers: Vec<String>,
}
