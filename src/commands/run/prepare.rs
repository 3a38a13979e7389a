//! The first phase: opens and checks everything that a run needs. Nothing is sent yet, and whatever can be refused is
//! refused before a file is made or replaced.

use std::fs::File;
use std::num::NonZeroUsize;

use super::fd_limit::{self, FdLimitFit};
use super::files::OutputFiles;
use super::input::{InputFacts, OpenInput};
use super::ledger::RunLedger;
use super::service::{Answerer, ConnectedService};
use super::stop_signals::StopSignals;
use super::threads::StopChannel;
use crate::base::error::Result;
use crate::config::{BudgetConfig, PaceConfig, RunConfig, WatchConfig};
use crate::input::Reader;
use crate::layout::Layout;
use crate::ledger::KnownLimit;
use crate::output::{Sides, Sink, Target};
use crate::pace::{Bounds, Gate};
use crate::raw_json::Pointer;
use crate::sandbox::Sandbox;
use crate::service::{Client, Endpoint};
use crate::telemetry::event::Limit;
use crate::verdict::DecisionPolicy;

/// A run that is ready to start.
pub(super) struct PreparedRun {
    pub(super) context: Context,
    pub(super) rows: RowParts,
    pub(super) calls: CallParts,
    pub(super) stops: StopChannel,
    pub(super) signals: StopSignals,
    /// What to say before the first call.
    pub(super) warnings: Vec<String>,
}

/// What all phases need.
pub(super) struct Context {
    pub(super) input: InputFacts,
    pub(super) endpoint: Endpoint,
    /// The built-in stand-in, where it answers instead of the service.
    pub(super) stand_in: Option<Sandbox>,
    /// The output; `None` is standard output.
    pub(super) output: Option<Target>,
    pub(super) ledger: RunLedger,
    /// Where the summary goes as JSON.
    pub(super) summary: Option<File>,
    pub(super) watch: WatchConfig,
}

/// What rows pass through.
pub(super) struct RowParts {
    pub(super) reader: Reader,
    pub(super) layout: Layout,
    pub(super) sink: Sink,
    pub(super) sides: Sides,
}

/// What calls are made with.
pub(super) struct CallParts {
    pub(super) client: Client,
    pub(super) gate: Gate,
    pub(super) concurrency: NonZeroUsize,
    pub(super) pace: PaceConfig,
    pub(super) budget: BudgetConfig,
    pub(super) policy: DecisionPolicy,
    pub(super) captured: Box<[Pointer]>,
}

impl Context {
    /// Whether the stand-in answers.
    pub(super) const fn is_sandbox(&self) -> bool {
        self.stand_in.is_some()
    }
}

/// Opens and checks everything.
///
/// # Errors
/// Whatever keeps the run from starting. No file has been made or replaced then, but for an empty summary and what
/// [`OutputFiles::open`] says.
pub(super) fn prepare(config: RunConfig) -> Result<PreparedRun> {
    // Before anything is opened.
    let FdLimitFit {
        concurrency,
        warning: lowered,
    } = fd_limit::fit(&config)?;
    let answerer = Answerer::new(config.service, config.plan)?;
    let stops = StopChannel::new();
    // Before the header is read, which may take for ever.
    let signals = StopSignals::start(stops.sender.clone())?;
    let OpenInput {
        reader,
        layout,
        mode,
        facts,
    } = OpenInput::open(config.input, config.plan, config.watch.speaks())?;
    let files = OutputFiles::new(config.output, config.watch.summary.clone(), &layout)?;
    files.refuse_clashes(&facts.source, &config.ledger, &answerer)?;
    files.check_names(layout.format)?;
    let account = answerer.account();
    let ConnectedService {
        client,
        endpoint,
        stand_in,
    } = answerer.connect()?;
    // Before any file is touched: another run may be writing them.
    let ledger = RunLedger::open(
        config.ledger,
        account,
        files.known_by(),
        &facts.source,
        &config.captured,
        concurrency,
    )?;
    let files = files.open(&ledger, mode, facts.size)?;
    Ok(PreparedRun {
        rows: RowParts {
            reader,
            layout,
            sink: files.sink,
            sides: files.sides,
        },
        calls: CallParts {
            client,
            gate: gate(config.pace, concurrency, ledger.known_limit()),
            concurrency,
            pace: config.pace,
            budget: config.budget,
            policy: config.policy,
            captured: config.captured,
        },
        context: Context {
            input: facts,
            endpoint,
            stand_in,
            output: files.output,
            ledger,
            summary: files.summary,
            watch: config.watch,
        },
        stops,
        signals,
        warnings: config.warnings.into_iter().chain(lowered).collect(),
    })
}

fn gate(pace: PaceConfig, in_flight: NonZeroUsize, known: Option<KnownLimit>) -> Gate {
    let bounds = Bounds {
        rate: pace.rate,
        in_flight,
        known: known.map_or(Limit::NONE, |known| known.limit),
        outage: pace.patience.outage,
    };
    Gate::new(bounds, fastrand::Rng::new())
}
