//! The run's ledger, whichever it is: opened before any file is touched, introduced, ended with the run.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::desk::Desk;
use super::places::still_there;
use super::space;
use crate::base::error::{Error, Exit, Result, shown};
use crate::base::say::say;
use crate::config::LedgerConfig;
use crate::input::Input;
use crate::ledger::{
    ClosedLedger, EarlierAnswers, FinishedRun, KnownLimit, LedgerLocation, LedgerSettings,
    LedgerWriter, OpenLedger, OutputState, PreviousRun, Removal, RequestKey, Reuse, RunningLedger,
};
use crate::observe::{self, Kept, counted, day, moment, most, same_command};
use crate::output::{Replace, Sealed};
use crate::raw_json::Pointer;
use crate::service::ClientSettings;
use crate::telemetry::event::{CancelReason, Limit};
use crate::telemetry::stats::Stats;

/// A run that began longer ago may be another night's. One of days is told so as well, which does no harm.
const OLD: Duration = Duration::from_secs(24 * 60 * 60);

/// What closing the ledger gets when a service manager waits: all of a run's ends together take less than 30 s.
const LAST_COMMIT: Duration = Duration::from_millis(1_500);
/// What it gets otherwise: a large log goes into the database first. Ctrl-C ends it.
const CLOSING: Duration = Duration::from_secs(60);

/// The answers of earlier runs, before this one starts; or none, where nothing is stored.
pub(super) struct Answers {
    ledger: Option<OpenLedger>,
    dedupe: bool,
    /// The input's path; `None` for a stream, which has none that stays.
    input: Option<PathBuf>,
    /// It was started over.
    fresh: bool,
    /// They are a stand-in's: nobody pays for them.
    sandbox: bool,
}

/// The answers of a run that has started; or none, where nothing is stored.
pub(super) struct RunAnswers {
    ledger: Option<RunningLedger>,
    input: Option<PathBuf>,
    fresh: bool,
}

/// Who is asked, and on whose behalf.
pub(super) struct Whom {
    endpoint: String,
    service_id: String,
    sandbox: bool,
}

impl Whom {
    pub(super) fn of(client: &ClientSettings, sandbox: bool) -> Self {
        let endpoint = if sandbox {
            // Its port is another one each time.
            "the sandbox".to_owned()
        } else {
            client.endpoint.to_string()
        };
        Self {
            endpoint,
            service_id: client.service_id.as_str().to_owned(),
            sandbox,
        }
    }
}

/// The path of an input that is a file, with links followed.
fn path_of(input: &Input) -> Option<PathBuf> {
    match input {
        Input::File(path) if path.is_file() => path.canonicalize().ok(),
        Input::File(_) | Input::Stdin => None,
    }
}

impl Answers {
    pub(super) fn open(
        config: LedgerConfig,
        output: Option<&Path>,
        whom: Whom,
        input: &Input,
        captured: &[Pointer],
        in_flight: NonZeroUsize,
    ) -> Result<Self> {
        let LedgerConfig {
            location,
            reuse,
            dedupe,
        } = config;
        let Whom {
            endpoint,
            service_id,
            sandbox,
        } = whom;
        let open = |location| {
            OpenLedger::open(LedgerSettings {
                location,
                reuse,
                output: output.map(Path::to_owned),
                endpoint,
                service_id,
                captured: captured.to_vec(),
                in_flight,
            })
        };
        let scratch = location == Some(LedgerLocation::Scratch);
        let ledger = location.map(open).transpose();
        let ledger = ledger.map_err(|error| {
            if scratch {
                space::in_temporary(error)
            } else {
                space::at_the_start(error)
            }
        })?;
        Ok(Self {
            ledger,
            dedupe,
            input: path_of(input),
            fresh: reuse == Reuse::Nothing,
            sandbox,
        })
    }

    /// What may be written over unasked at a file's place: what the run that this one goes on with left there.
    pub(super) fn replace(&self, file: &Path) -> Result<Replace> {
        let Some(ledger) = self.ledger.as_ref().filter(|ledger| ledger.existed()) else {
            return Ok(Replace::Nothing);
        };
        let is_new =
            matches!(ledger.previous_run(), PreviousRun::Finished { .. }) && !ledger.continues();
        if is_new && file.exists() {
            return Err(finished(file, ledger));
        }
        // Of a run that shares its ledger only this one's own run can have left rows here that are paid for.
        if is_new || (!ledger.is_own() && !ledger.continues()) {
            return Ok(Replace::Nothing);
        }
        let retries = matches!(ledger.previous_run(), PreviousRun::Finished { .. });
        if !ledger.is_own() && !retries {
            return Ok(Replace::Partial);
        }
        let shown = file.display();
        let run = if retries { "finished" } else { "unfinished" };
        let why = match ledger.output_state(file, self.input.as_deref())? {
            OutputState::Absent => return Ok(Replace::Partial),
            OutputState::AsLeft => return Ok(Replace::Whole),
            OutputState::Changed => format!("`{shown}` has changed since the {run} run left it"),
            OutputState::OfOtherInput => {
                format!("`{shown}` was written by a run over another input")
            }
            OutputState::Foreign => format!("`{shown}` is not from the run that is {run}"),
        };
        Err(Error::usage(why).hint("move it away, or replace it with `--overwrite`"))
    }

    /// A warning of what is lost by starting over. A finished run's answers have done their work.
    pub(super) fn thrown_away(&self) -> Option<String> {
        let ledger = self.ledger.as_ref()?;
        let EarlierAnswers { answers, started } = ledger.replaced_answers()?;
        let is_wanted = !matches!(ledger.previous_run(), PreviousRun::Finished { .. });
        (is_wanted && answers > 0).then(|| {
            format!(
                "starting over; the {} of the run of {} are thrown away",
                observe::answers(answers, self.sandbox),
                moment(started)
            )
        })
    }

    /// A warning where a run of another day goes on.
    pub(super) fn aged(&self) -> Option<String> {
        let ledger = self.ledger.as_ref()?;
        let EarlierAnswers { answers, started } = ledger.earlier_answers()?;
        let old = started.elapsed().is_ok_and(|age| age >= OLD);
        (old && answers > 0 && ledger.previous_run() == PreviousRun::Stopped).then(|| {
            format!(
                "the run that goes on began at {}: {} of it are used, unless `--fresh` or `--max-age` says otherwise",
                moment(started),
                counted(answers, "answer")
            )
        })
    }

    /// Says what there is of earlier runs. `near` is what calls begin near of what is known: not all of it may be of use.
    pub(super) fn introduce(&self, near: Limit) {
        if let Some(KnownLimit { found, .. }) = self.known().filter(|_| near != Limit::NONE) {
            let first = if near.is_doubtful() {
                ", and checking it first"
            } else {
                ""
            };
            say(&format!(
                "rescore: the limit found {} was {}: starting near it{first}",
                day(found),
                most(near)
            ));
        }
        let Some(ledger) = &self.ledger else {
            return;
        };
        let Some(EarlierAnswers { answers, started }) = ledger.earlier_answers() else {
            return;
        };
        let has = match (answers, self.sandbox) {
            (0, _) => String::new(),
            (1, false) => ": 1 answer is paid for".to_owned(),
            (_, false) => format!(": {} are paid for", counted(answers, "answer")),
            (_, true) => format!(": it has {}", counted(answers, "answer")),
        };
        let started = moment(started);
        say(&match ledger.previous_run() {
            PreviousRun::Finished { .. } => {
                format!("rescore: retrying the failed rows of the run of {started}{has}")
            }
            PreviousRun::Stopped | PreviousRun::None => format!(
                "rescore: continuing the run of {started}{has} (`--fresh` asks everything again)"
            ),
        });
    }

    /// The limit that an earlier run found.
    pub(super) fn known(&self) -> Option<KnownLimit> {
        self.ledger.as_ref().and_then(OpenLedger::known_limit)
    }

    /// Requests that the service failed on in earlier runs while it answered others.
    pub(super) fn failing_requests(&self) -> HashSet<RequestKey> {
        let failing = self.ledger.as_ref().map(OpenLedger::failing_requests);
        failing.unwrap_or_default()
    }

    /// The further fields that answers must be brought with, those that are written first.
    pub(super) fn fields(&self, captured: Box<[Pointer]>) -> Box<[Pointer]> {
        match &self.ledger {
            Some(ledger) => ledger.fields().into(),
            None => captured,
        }
    }

    /// Whether rows of earlier runs are written again without a call.
    pub(super) fn go_on(&self) -> bool {
        self.ledger.as_ref().is_some_and(OpenLedger::existed) && !self.fresh
    }

    /// Whether they are there for another run.
    pub(super) fn stay(&self) -> bool {
        self.ledger.as_ref().and_then(OpenLedger::path).is_some()
    }

    /// What a run that is ended at once says of the answers that stay; `None` where none do.
    pub(super) fn farewell(&self) -> Option<String> {
        let path = self.ledger.as_ref()?.path()?;
        Some(format!(
            "`{}` has the {}answers that reached the disk; {} goes on from there",
            shown(path),
            if self.sandbox { "" } else { "paid " },
            same_command(self.fresh)
        ))
    }

    pub(super) fn desk(&self) -> Result<Desk> {
        match &self.ledger {
            Some(ledger) => Desk::new(ledger, self.dedupe),
            None => Ok(Desk::default()),
        }
    }

    /// Starts the run.
    pub(super) fn start(self) -> Result<(RunAnswers, Option<LedgerWriter>)> {
        let (ledger, writer) = self.ledger.map(OpenLedger::start).transpose()?.unzip();
        let answers = RunAnswers {
            ledger,
            input: self.input,
            fresh: self.fresh,
        };
        Ok((answers, writer))
    }
}

impl RunAnswers {
    /// Records how the run is about to leave its files.
    pub(super) fn record_outputs(&self, files: &[Sealed]) {
        if let Some(ledger) = self.ledger.as_ref().filter(|ledger| !ledger.is_scratch()) {
            // Without the record the same command asks before it replaces them. That is better than to end with none.
            let _ = ledger.record_outputs(files, self.input.as_deref());
        }
    }

    /// What ended the run early, with the space that it needs and where, as far as it comes from there.
    pub(super) fn explain(&self, error: Error, size: Option<u64>, stats: &Stats) -> Error {
        let ledger = self.ledger.as_ref();
        if stats.cancelled == Some(CancelReason::Ledger)
            && ledger.is_some_and(RunningLedger::is_scratch)
        {
            return space::in_temporary(error);
        }
        space::for_the_rest(error, size, stats)
    }

    /// How a run ended that reached the end of its input.
    pub(super) fn finished(stats: &Stats) -> FinishedRun {
        FinishedRun {
            failed_rows: stats.failures(),
            failed_calls: stats.failed_calls(),
        }
    }

    /// Closes the ledger, once its writer is gone: what is left of it, and a warning where it should have been removed and
    /// is there. `rows_stay` when an output is there, complete or not.
    pub(super) fn close(self, stats: &Stats, rows_stay: bool) -> (Option<Kept>, Option<String>) {
        let Some(ledger) = self.ledger else {
            return (None, None);
        };
        let patience = if stats.terminated {
            LAST_COMMIT
        } else {
            CLOSING
        };
        let (path, own) = (ledger.path().map(Path::to_owned), ledger.is_own());
        let damaged = stats.cancelled == Some(CancelReason::Ledger) && ledger.is_damaged();
        let removal = if stats.exit() == Exit::Complete {
            Removal::WhenUsed(stats.known + stats.answered)
        } else if rows_stay {
            // Without a ledger the next run would refuse to replace them.
            Removal::Never
        } else {
            Removal::WhenEmpty
        };
        match ledger.close(removal, patience) {
            Ok(ClosedLedger::Kept(answers)) => {
                let fresh = self.fresh;
                let kept = |path| Kept {
                    path,
                    answers,
                    own,
                    fresh,
                    damaged,
                };
                (still_there(path).map(kept), None)
            }
            Ok(ClosedLedger::Removed) => (None, None),
            Err(error) => (None, Some(error.report().replacen("error", "warning", 1))),
        }
    }
}

/// The refusal of a file that a finished run has left, with both ways on and what they cost.
fn finished(file: &Path, ledger: &OpenLedger) -> Error {
    let failed = match ledger.previous_run() {
        PreviousRun::Finished { failed } => failed,
        PreviousRun::None | PreviousRun::Stopped => 0,
    };
    let retry = match failed {
        0 => "calls only for rows that were fixed since".to_owned(),
        failed => format!("{} at most", counted(failed, "call")),
    };
    let fresh = match ledger.replaced_answers() {
        Some(EarlierAnswers { answers, .. }) => {
            format!(
                "asks everybody (about {})",
                counted(answers + failed, "call")
            )
        }
        None => "uses what the ledger has".to_owned(),
    };
    Error::usage(format!("`{}` exists already", file.display()))
        .detail(format!(
            "`--retry-failed` asks only the rows without a verdict, and puts them in their places ({retry})"
        ))
        .detail(format!("`--overwrite` starts a new run, which {fresh}"))
        .hint("add one of the two")
}
