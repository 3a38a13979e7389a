//! Which ledger a run has, whichever it is, and its lock: known once the output is, before any file is opened.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::super::lock_wait::LockWait;
use super::super::disk_space;
use super::prepared::PreparedLedger;
use crate::base::error::{Error, Result};
use crate::config::{LedgerChoice, LedgerConfig};
use crate::ledger::{LedgerLocation, LedgerSettings, OpenLedger, OutputLock, Reuse};
use crate::raw_json::Pointer;
use crate::service::{Account, Service};

/// Which answers are stored and used, once the output is known.
pub(in crate::commands::run) struct LedgerPlan {
    /// Where they are; `None` stores none.
    location: Option<LedgerLocation>,
    reuse: Reuse,
    dedupe: bool,
    /// The output that no other run may write; `None` for a stream.
    output: Option<PathBuf>,
    /// Its lock, once it is taken.
    lock: Option<OutputLock>,
}

/// What a ledger of the run's own would be beside.
#[derive(Debug, Clone, Copy)]
pub(in crate::commands::run) enum LedgerPlace<'a> {
    /// The output is a stream: there is no place.
    Nowhere,
    /// The output, a file.
    BesideFile(&'a Path),
    /// The directory of the outputs.
    BesideDirectory {
        /// The directory.
        directory: &'a Path,
        /// Finished outputs are replaced, too.
        overwrite: bool,
    },
}

/// How many calls there can be at a time, and how long each can take.
#[derive(Debug, Clone, Copy)]
pub(in crate::commands::run) struct CallShape {
    in_flight: NonZeroUsize,
    longest: Duration,
}

impl CallShape {
    /// Of a run that makes so many calls at a time to this service, at this pace.
    pub(in crate::commands::run) fn of(service: &impl Service, in_flight: NonZeroUsize) -> Self {
        Self {
            in_flight,
            longest: service.longest_call(),
        }
    }
}

impl LedgerPlan {
    /// Finds the location. An output that is a stream has no ledger of its own; to ask equal rows once, answers are then kept
    /// only as long as the run lasts.
    ///
    /// # Errors
    /// Exit code 2: answers that are not kept cannot be used again.
    pub(in crate::commands::run) fn new(
        config: &LedgerConfig,
        output: LedgerPlace<'_>,
    ) -> Result<Self> {
        let LedgerConfig {
            choice,
            reuse,
            dedupe,
        } = config;
        let (reuse, dedupe) = (*reuse, *dedupe);
        let (place, reuse) = match output {
            LedgerPlace::Nowhere => (None, reuse),
            LedgerPlace::BesideFile(file) => (Some(file), reuse),
            LedgerPlace::BesideDirectory {
                directory,
                overwrite,
            } => {
                // Further files continue a finished run that left rows without a verdict: what is paid for stays.
                let continues = reuse == Reuse::All && !overwrite;
                let reuse = if continues { Reuse::Continue } else { reuse };
                (Some(directory), reuse)
            }
        };
        let kept = match (choice, place) {
            (LedgerChoice::Shared(path), _) => Some(LedgerLocation::Shared(path.clone())),
            (LedgerChoice::Own, Some(output)) => Some(LedgerLocation::Beside(output.to_owned())),
            (LedgerChoice::Own, None) | (LedgerChoice::Nowhere, _) => None,
        };
        let option = match reuse {
            Reuse::All | Reuse::Continue => None,
            Reuse::Retry => Some("`--retry-failed`"),
            Reuse::Nothing => Some("`--fresh`"),
            Reuse::Recent(_) => Some("`--max-age` or `--asked-since`"),
        };
        if let (None, Some(option)) = (&kept, option) {
            return Err(Error::usage(format!(
                "{option} needs a ledger, and rows to a stream have none of their own"
            ))
            .hint("name one with `--ledger FILE`"));
        }
        Ok(Self {
            location: kept.or_else(|| dedupe.then_some(LedgerLocation::Scratch)),
            reuse,
            dedupe,
            output: place.map(Path::to_owned),
            lock: None,
        })
    }

    /// Where answers are stored, for people, where that is known before.
    pub(in crate::commands::run) fn shown(&self) -> Option<String> {
        self.location.as_ref().and_then(LedgerLocation::shown)
    }

    /// The path of the file that answers are stored in, where it is known before the file is made.
    pub(in crate::commands::run) fn path(&self) -> Option<PathBuf> {
        self.location.as_ref().and_then(LedgerLocation::path)
    }

    /// Takes the output's lock before the input is opened, if the run may wait for it: all that follows then finds what the
    /// other run has left. A run that does not wait takes it later, so that it blocks no other run while it waits for its
    /// input.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub(in crate::commands::run) fn lock_early(&mut self, wait: &LockWait<'_>) -> Result<()> {
        if wait.may_wait() {
            wait.until_free(|| self.lock())?;
        }
        Ok(())
    }

    fn lock(&mut self) -> Result<()> {
        if let (None, Some(output)) = (&self.lock, &self.output) {
            let lock = OutputLock::take(output).map_err(disk_space::at_the_start)?;
            self.lock = Some(lock);
        }
        Ok(())
    }

    /// Opens the ledger for a run of this account to `output`.
    ///
    /// # Errors
    /// Exit code 75: another run writes the output, or uses the ledger. Exit code 2: the ledger cannot be used or made. Exit
    /// code 3: the disk is full.
    pub(in crate::commands::run) fn open(
        mut self,
        account: Account,
        output: Option<&Path>,
        captured: &[Pointer],
        calls: CallShape,
        wait: &LockWait<'_>,
    ) -> Result<PreparedLedger> {
        wait.until_free(|| self.lock())?;
        let Self {
            location,
            reuse,
            dedupe,
            output: _,
            lock,
        } = self;
        let Account {
            endpoint,
            service_id,
            sandbox,
        } = account;
        let open = |location| {
            let settings = LedgerSettings {
                location,
                reuse,
                output: output.map(Path::to_owned),
                endpoint,
                service_id,
                captured: captured.to_vec(),
                in_flight: calls.in_flight,
                longest_call: calls.longest,
            };
            // Another program may be rewriting it.
            let open = || OpenLedger::open_with(settings.clone(), lock.clone());
            wait.until_free(open)
        };
        let explain: fn(Error, NonZeroUsize) -> Error = match location {
            Some(LedgerLocation::Beside(_) | LedgerLocation::Shared(_)) => disk_space::for_calls,
            Some(LedgerLocation::Scratch) => |error, _| disk_space::in_temporary(error),
            _ => |error, _| disk_space::at_the_start(error),
        };
        let opened = location.map(open).transpose();
        let opened = opened.map_err(|error| explain(error, calls.in_flight))?;
        let (ledger, facts) = opened.unzip();
        Ok(PreparedLedger {
            ledger,
            facts: facts.unwrap_or_default(),
            dedupe,
            reuse,
            sandbox,
            lock,
        })
    }
}
