//! A ledger on a server that is open for a run that has not started.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use uuid::Uuid;

use super::contact::ServerContact;
use super::fault::{AtStart, ServerFault};
use super::ledger::ServerLedger;
use super::lookup::{ServerJudge, ServerLookup};
use super::own_answers::OwnAnswers;
use super::pace::ServerPace;
use super::runs::{self, ServerRun};
use super::server::{RUN_PATIENCE, Server};
use super::shell::in_shell;
use super::sources::FieldSources;
use super::spill::{Spill, SpillSettings};
use super::store::{ServerStore, StoreScope};
use super::{earlier_spills, limits, sources};
use crate::base::error::{Error, Result, shown};
use crate::ledger::clock::{self, LedgerClock};
use crate::ledger::db::runs::PreviousRun;
use crate::ledger::facts::LedgerFacts;
use crate::ledger::judge::JudgeScope;
use crate::ledger::kept_fields::FieldsToKeep;
use crate::ledger::lease::LeaseTerms;
use crate::ledger::named_ledger::ServerSettings;
use crate::ledger::request_key::RequestHasher;
use crate::ledger::settings::{LedgerSettings, Reuse};
use crate::ledger::write_thread::EndingThread;
use crate::ledger::writer::{LedgerWriter, WriterSettings};
use crate::raw_json::Pointer;
use crate::telemetry::shared_pace::SharedPace;

/// A ledger on a server that is open for a run that has not started.
pub(crate) struct OpenServer {
    server: Arc<Server>,
    contact: Arc<ServerContact>,
    context: i32,
    hasher: RequestHasher,
    run: ServerRun,
    ages: bool,
    clock: LedgerClock,
    captured: Vec<String>,
    fields: FieldSources,
    lease: LeaseTerms,
    in_flight: usize,
    own: Arc<OwnAnswers>,
    spill: Spill,
}

/// A ledger on a server that gets a run's answers.
pub(crate) struct StartedServer {
    /// Ends the writer's thread.
    pub(in crate::ledger) thread: EndingThread,
    /// Makes answers durable.
    pub(crate) writer: LedgerWriter,
    /// Knows whether the server answers.
    pub(crate) contact: Arc<ServerContact>,
}

impl OpenServer {
    /// Opens the ledger, and brings in what an earlier run has left on this machine. The run waits for the server for as
    /// long as `outage` if it is away later.
    ///
    /// # Errors
    /// Exit code 2: there is no ledger, or its secret is another one. Exit code 3: the server does not answer.
    pub(crate) fn open(
        on: &ServerSettings,
        settings: &LedgerSettings,
        outage: Duration,
    ) -> Result<(Self, LedgerFacts)> {
        let ledger = ServerLedger::open(on, RUN_PATIENCE)?;
        let secret = ledger.secret(on)?;
        let (now, server) = (ledger.now, Arc::new(ledger.server));
        let clock = LedgerClock::at(now);
        let url = server.shown();
        let hasher = RequestHasher::new(secret.bytes(), &settings.endpoint, &settings.service_id);
        let read = || -> Result<_, ServerFault> {
            let account = (&hasher, &*settings.endpoint);
            let (context, other_accounts) = sources::context_or_others(&server, &secret, account)?;
            let mut fields = sources::fields(&server, &settings.captured)?;
            let all = fields.to_keep().borrow().len();
            fields.number(all, |list| sources::of_fields(&server, context, list))?;
            let output = settings.output.as_deref();
            let (run, stopped) = plan(&server, (&hasher, output), settings.reuse, now)?;
            let lacking = sources::lacking(&server, context, &settings.captured, run.not_before)?;
            let facts = LedgerFacts {
                existed: true,
                place: Some(url.clone().into()),
                previous_run: stopped.map_or(PreviousRun::None, |_| PreviousRun::Stopped),
                continues: stopped.is_some(),
                lacking_answers: lacking,
                has_answers: sources::has_answers(&server, context)?,
                other_accounts,
                known_limit: limits::known(&server, context, SystemTime::now())?,
                ..LedgerFacts::default()
            };
            Ok((context, fields, run, facts))
        };
        let (context, fields, run, mut facts) = read().at_start("open", &url)?;
        let output = settings.output.as_deref();
        let path = earlier_spills::path_for(output);
        let spill = Spill::new(SpillSettings {
            import: import_command(&path, on),
            has_output: output.is_some(),
            path,
            secret,
            hasher: hasher.clone(),
            endpoint: settings.endpoint.clone(),
            fields: fields.to_keep(),
        });
        facts.brought_in = earlier_spills::bring_in(output, &server, &secret, run.started)?;
        let ledger = Self {
            contact: Arc::new(ServerContact::new(outage)),
            server,
            context,
            hasher,
            run,
            ages: matches!(settings.reuse, Reuse::Recent(_)),
            clock,
            captured: settings.captured.iter().map(Pointer::to_string).collect(),
            fields,
            lease: LeaseTerms::for_calls_of(settings.longest_call),
            in_flight: settings.in_flight.get(),
            own: Arc::default(),
            spill,
        };
        Ok((ledger, facts))
    }

    /// The address, as it may be shown.
    pub(crate) fn shown(&self) -> PathBuf {
        self.server.shown().into()
    }

    /// Makes the keys of requests.
    pub(crate) fn hasher(&self) -> RequestHasher {
        self.hasher.clone()
    }

    /// The additional fields that new answers must be stored with.
    pub(crate) fn fields(&self) -> FieldsToKeep {
        self.fields.to_keep()
    }

    /// The pace that runs with this ledger and this account keep together.
    pub(crate) fn shared_pace(&self) -> impl SharedPace + use<> {
        ServerPace::new(Arc::clone(&self.server), self.context)
    }

    /// Looks requests up.
    pub(crate) fn lookup(&self) -> ServerLookup {
        let (server, contact) = (Arc::clone(&self.server), Arc::clone(&self.contact));
        ServerLookup::new(server, contact, self.judge())
    }

    fn judge(&self) -> ServerJudge {
        let scope = JudgeScope {
            started: self.run.started,
            not_before: self.run.not_before,
            leftover: false,
            ages: self.ages,
            clock: self.clock,
            fields: self.captured.clone(),
        };
        ServerJudge::new(scope, Arc::clone(&self.own))
    }

    /// Starts the run: it is recorded, and its answers can be written.
    ///
    /// # Errors
    /// Exit code 2 or 3: the server is away or refuses, or a thread cannot be started.
    pub(crate) fn start(self) -> Result<StartedServer> {
        { self.run.record(&self.server) }.at_start("write", &self.server.shown())?;
        let settings = WriterSettings {
            // What fails to be written is the file on this machine.
            path: self.spill.path().to_owned(),
            hasher: self.hasher.clone(),
            earliest: self.run.earliest(),
            lookup: None,
            in_memory: false,
            lease: Some(self.lease),
            // Half of the answers gather while the other calls are out.
            enough: self.in_flight / 2,
        };
        let judge = self.judge();
        let scope = StoreScope {
            context: self.context,
            fields: self.fields,
            run: self.run,
            hasher: self.hasher,
            lease: self.lease.length,
            own: self.own,
        };
        let contact = Arc::clone(&self.contact);
        let store = ServerStore::new(self.server, self.contact, scope, judge, self.spill);
        let (writer, thread) = LedgerWriter::start(store, settings)?;
        Ok(StartedServer {
            thread,
            writer,
            contact,
        })
    }
}

/// The run to this output as it will be recorded: the one that was stopped, which is returned as well, or another one.
///
/// # Errors
/// The server is away, or the user may not look.
pub(super) fn plan(
    server: &Server,
    (hasher, output): (&RequestHasher, Option<&Path>),
    reuse: Reuse,
    now: i64,
) -> Result<(ServerRun, Option<ServerRun>), ServerFault> {
    let name = output.map(|output| Uuid::from_bytes(hasher.run_on_this_machine(output)));
    let stopped = name.map(|name| runs::find(server, name)).transpose()?;
    let stopped = stopped.flatten();
    let not_before = match reuse {
        Reuse::Recent(freshness) => clock::millis(freshness.not_before(clock::time(now))),
        Reuse::All | Reuse::Continue | Reuse::Retry | Reuse::Nothing => i64::MIN,
    };
    let run = match stopped {
        Some(run) => ServerRun {
            started: run.started.min(now),
            not_before: run.not_before.max(not_before),
            ..run
        },
        None => ServerRun {
            name,
            // To a run that uses no older answers, an answer that is too old is from before it.
            started: not_before.max(now),
            not_before,
            maybe_billed_twice: 0,
        },
    };
    Ok((run, stopped))
}

/// The command that brings the answers in this file to the server.
fn import_command(file: &Path, on: &ServerSettings) -> String {
    let mut import = format!(
        "rescore ledger import {} --ledger {}",
        in_shell(&shown(file)),
        in_shell(&on.url.to_string())
    );
    let files = [
        ("--ledger-secret-file", &on.secret_file),
        ("--ledger-password-file", &on.password_file),
    ];
    for (option, file) in files {
        if let Some(file) = file {
            import.push_str(&format!(" {option} {}", in_shell(&shown(file))));
        }
    }
    import
}

/// The error for an option that a ledger on a server has no use for.
pub(crate) fn refuse_reuse(reuse: Reuse, dedupe: bool) -> Result<()> {
    let option = match reuse {
        Reuse::Retry => "--retry-failed",
        Reuse::Nothing => "--fresh",
        _ if !dedupe => "--no-dedupe",
        Reuse::All | Reuse::Continue | Reuse::Recent(_) => return Ok(()),
    };
    let error = Error::usage(format!(
        "`{option}` cannot be used with a ledger on a server, which many runs share"
    ));
    Err(match option {
        "--retry-failed" => error.hint(
            "the same command with `--overwrite` instead sends only the rows without an answer",
        ),
        "--fresh" => error.hint("`--asked-since TIME` uses no older answers"),
        _ => error.hint("leave it out: identical rows share one answer there"),
    })
}
