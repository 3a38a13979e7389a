//! A ledger that is open for a run that has not started, wherever it is. This only chooses; how each is opened is in `session`
//! and in `postgres`.

use std::path::Path;
use std::time::Duration;

use super::db::outputs::OutputState;
use super::facts::LedgerFacts;
use super::kept_fields::FieldsToKeep;
use super::location::LedgerLocation;
use super::lock::OutputLock;
#[cfg(feature = "postgres")]
use super::postgres::{OpenServer, StartedServer};
use super::request_key::RequestHasher;
use super::row_lookup::RowLookup;
use super::session::{OpenLedger, RunningLedger};
use super::settings::LedgerSettings;
use super::writer::LedgerWriter;
use crate::base::error::Result;
use crate::telemetry::shared_pace::SharedPace;

/// A ledger that is open for a run that has not started.
pub(crate) enum OpenedLedger {
    /// In a file.
    File(Box<OpenLedger>),
    /// On a server, which remembers less of other runs.
    #[cfg(feature = "postgres")]
    Server(Box<OpenServer>),
}

impl OpenedLedger {
    /// Opens the ledger, for a run that holds the lock of its output already. The run waits for a server for as long as
    /// `outage` if it is away later. Also returns what the run learns of it.
    ///
    /// # Errors
    /// As [`OpenLedger::open_with`]; exit code 3: the server does not answer.
    pub(crate) fn open(
        settings: LedgerSettings,
        lock: Option<OutputLock>,
        outage: Duration,
    ) -> Result<(Self, LedgerFacts)> {
        match &settings.location {
            #[cfg(feature = "postgres")]
            LedgerLocation::Server(on) => {
                let (server, facts) = OpenServer::open(on, &settings, outage)?;
                Ok((Self::Server(Box::new(server)), facts))
            }
            LedgerLocation::Beside(_) | LedgerLocation::Shared(_) | LedgerLocation::Scratch => {
                let _ = outage;
                let (ledger, facts) = OpenLedger::open_with(settings, lock)?;
                Ok((Self::File(Box::new(ledger)), facts))
            }
        }
    }

    /// How a file relates to the run that this one continues, over this input; `None` is an input without a path.
    ///
    /// # Errors
    /// Exit code 2: the ledger cannot be read.
    pub(crate) fn output_state(&self, file: &Path, input: Option<&Path>) -> Result<OutputState> {
        match self {
            Self::File(ledger) => ledger.output_state(file, input),
            #[cfg(feature = "postgres")]
            Self::Server(_) => Ok(OutputState::Foreign),
        }
    }

    /// Whether it is on a server.
    pub(crate) const fn is_on_server(&self) -> bool {
        !matches!(self, Self::File(_))
    }

    /// Makes the keys of requests.
    #[must_use]
    pub(crate) fn hasher(&self) -> RequestHasher {
        match self {
            Self::File(ledger) => ledger.hasher(),
            #[cfg(feature = "postgres")]
            Self::Server(server) => server.hasher(),
        }
    }

    /// The additional fields that new answers must be stored with.
    #[must_use]
    pub(crate) fn fields(&self) -> FieldsToKeep {
        match self {
            Self::File(ledger) => ledger.fields(),
            #[cfg(feature = "postgres")]
            Self::Server(server) => server.fields(),
        }
    }

    /// Looks up what earlier runs stored; `None` where there is nothing to find.
    ///
    /// # Errors
    /// Exit code 2: the ledger cannot be opened again.
    pub(crate) fn lookup(&self) -> Result<Option<RowLookup>> {
        Ok(match self {
            Self::File(ledger) => ledger.lookup()?.map(|it| RowLookup::File(Box::new(it))),
            #[cfg(feature = "postgres")]
            Self::Server(server) => Some(RowLookup::Server(Box::new(server.lookup()))),
        })
    }

    /// The pace that runs with this ledger keep together; `None` where each keeps its own.
    #[must_use]
    pub(crate) fn shared_pace(&self) -> Option<Box<dyn SharedPace>> {
        match self {
            Self::File(_) => None,
            #[cfg(feature = "postgres")]
            Self::Server(server) => Some(Box::new(server.shared_pace())),
        }
    }

    /// Starts the run, when everything else is ready: the run is recorded now, and its answers can be written.
    ///
    /// # Errors
    /// Exit code 2 or 3: the ledger cannot be opened again or written, or a thread cannot be started.
    pub(crate) fn start(self) -> Result<(RunningLedger, LedgerWriter)> {
        match self {
            Self::File(ledger) => ledger.start(),
            #[cfg(feature = "postgres")]
            Self::Server(server) => {
                let place = server.shown();
                let StartedServer {
                    thread,
                    writer,
                    contact,
                } = server.start()?;
                Ok((RunningLedger::on_server(place, thread, contact), writer))
            }
        }
    }
}
