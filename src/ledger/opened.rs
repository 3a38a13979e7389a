//! A ledger that is open for a run that has not started, wherever it is. This only chooses; how each is opened is in `session`
//! and in `postgres`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::db::captures::LackingAnswers;
use super::db::outputs::OutputState;
use super::db::runs::PreviousRun;
use super::known_limit::KnownLimit;
use super::location::LedgerLocation;
use super::lock::OutputLock;
#[cfg(feature = "postgres")]
use super::postgres::{OpenServer, StartedServer};
use super::request_key::{RequestHasher, RequestKey};
use super::row_lookup::RowLookup;
use super::session::{EarlierAnswers, OpenLedger, RunningLedger};
use super::settings::LedgerSettings;
use super::writer::LedgerWriter;
use crate::base::error::Result;
use crate::raw_json::Pointer;
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
    /// `outage` if it is away later.
    ///
    /// # Errors
    /// As [`OpenLedger::open_with`]; exit code 3: the server does not answer.
    pub(crate) fn open(
        settings: LedgerSettings,
        lock: Option<OutputLock>,
        outage: Duration,
    ) -> Result<Self> {
        match &settings.location {
            #[cfg(feature = "postgres")]
            LedgerLocation::Server(on) => {
                let server = OpenServer::open(on, &settings, outage)?;
                Ok(Self::Server(Box::new(server)))
            }
            LedgerLocation::Beside(_) | LedgerLocation::Shared(_) | LedgerLocation::Scratch => {
                let _ = outage;
                Ok(Self::File(Box::new(OpenLedger::open_with(settings, lock)?)))
            }
        }
    }

    /// What the run's own ledger has of the run that this one continues.
    #[must_use]
    pub(crate) fn earlier_answers(&self) -> Option<EarlierAnswers> {
        self.file().and_then(OpenLedger::earlier_answers)
    }

    /// What the run's own ledger has and will lose with the run's first answer.
    #[must_use]
    pub(crate) fn replaced_answers(&self) -> Option<EarlierAnswers> {
        self.file().and_then(OpenLedger::replaced_answers)
    }

    /// Answers that could be used if they had all fields that the run needs.
    #[must_use]
    pub(crate) fn lacking_answers(&self) -> Option<&LackingAnswers> {
        match self {
            Self::File(ledger) => ledger.lacking_answers(),
            #[cfg(feature = "postgres")]
            Self::Server(server) => server.lacking_answers(),
        }
    }

    #[cfg_attr(
        not(feature = "postgres"),
        expect(clippy::unnecessary_wraps, reason = "only a server has another answer")
    )]
    fn file(&self) -> Option<&OpenLedger> {
        match self {
            Self::File(ledger) => Some(ledger),
            #[cfg(feature = "postgres")]
            Self::Server(_) => None,
        }
    }

    /// What was recorded about the previous run to this output.
    #[must_use]
    pub(crate) fn previous_run(&self) -> PreviousRun {
        match self {
            Self::File(ledger) => ledger.previous_run(),
            #[cfg(feature = "postgres")]
            Self::Server(server) if server.continues() => PreviousRun::Stopped,
            #[cfg(feature = "postgres")]
            Self::Server(_) => PreviousRun::None,
        }
    }

    /// Whether this run continues the previous one, or retries what failed there.
    #[must_use]
    pub(crate) fn continues(&self) -> bool {
        match self {
            Self::File(ledger) => ledger.continues(),
            #[cfg(feature = "postgres")]
            Self::Server(server) => server.continues(),
        }
    }

    /// Whether the ledger was there when it was opened.
    #[must_use]
    pub(crate) fn existed(&self) -> bool {
        self.file().is_none_or(OpenLedger::existed)
    }

    /// Where it is, for people; `None` for one that is removed with the run.
    #[must_use]
    pub(crate) fn place(&self) -> Option<PathBuf> {
        match self {
            Self::File(ledger) => ledger.path().map(Path::to_owned),
            #[cfg(feature = "postgres")]
            Self::Server(server) => Some(server.shown()),
        }
    }

    /// Whether it is the run's own and stays until every row has a verdict.
    #[must_use]
    pub(crate) fn is_own(&self) -> bool {
        self.file().is_some_and(OpenLedger::is_own)
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

    /// The limit that an earlier run found, unless that was too long ago.
    #[must_use]
    pub(crate) fn known_limit(&self) -> Option<KnownLimit> {
        match self {
            Self::File(ledger) => ledger.known_limit(),
            #[cfg(feature = "postgres")]
            Self::Server(server) => server.known_limit(),
        }
    }

    /// Requests that the service failed on in earlier runs while it answered others.
    #[must_use]
    pub(crate) fn failing_requests(&self) -> HashSet<RequestKey> {
        { self.file().map(OpenLedger::failing_requests) }.unwrap_or_default()
    }

    /// How many answers were brought to the server that had waited on this machine.
    #[must_use]
    pub(crate) fn brought_in(&self) -> u64 {
        match self {
            Self::File(_) => 0,
            #[cfg(feature = "postgres")]
            Self::Server(server) => server.brought_in(),
        }
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
    pub(crate) fn fields(&self) -> &[Pointer] {
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
                    counts,
                    writer,
                    contact,
                } = server.start()?;
                Ok((RunningLedger::on_server(place, counts, contact), writer))
            }
        }
    }
}
