//! The arguments of `rescore run`, and the config that they make.

use std::io::IsTerminal;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::account::refuse_address;
use super::choices::{LogLevelArg, ProgressArg};
use super::columns::ColumnArgs;
use super::fields::FieldArgs;
use super::format::{FILES, FormatArgs, source};
use super::input_limits::InputLimitArgs;
use super::policy::PolicyArgs;
use super::price::{PACE, PriceArgs};
use super::selection::SelectionArgs;
use super::service::ServiceArgs;
use super::settings::SettingsArgs;
use super::sources::Sources;
use super::values;
use crate::base::error::{Error, Result, shown};
use crate::base::money::Money;
use crate::base::tolerance::Tolerance;
use crate::config::{
    BudgetConfig, FilesConfig, LedgerChoice, LedgerConfig, LogConfig, PaceConfig, RunConfig,
    ServiceConfig, TimeoutConfig, WatchConfig,
};
use crate::engine::Patience;
use crate::input::{Input, ReaderSettings};
use crate::layout::AddedColumns;
use crate::ledger::{LedgerLocation, Reuse};
use crate::observe::{LogTarget, Style};
use crate::pace::{CallLimit, FailureBudget, FailureLimit, GiveUpAfter, Rate};
use crate::telemetry::accepted_failures::AcceptedFailures;

const LEDGER: &str = "Ledger";
const WATCH: &str = "Progress and summary";

#[derive(Debug, Args)]
#[allow(
    clippy::struct_excessive_bools,
    clippy::doc_markdown,
    reason = "flags are bools, and these comments are the help's text"
)]
pub(super) struct RunArgs {
    /// The users: a CSV, TSV or JSONL file, plain, gzip or zstd; `-` or nothing is standard input
    ///
    /// Several files need `--output-dir`. A pattern such as `parts/*.csv` that the shell has not expanded is expanded.
    input: Vec<PathBuf>,
    /// Write the rows to this file, compressed if it ends in .gz or .zst; `-` or nothing is standard output
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Use the built-in stand-in for the service: no key, no cost, made-up scores
    #[arg(long)]
    sandbox: bool,
    #[command(flatten)]
    selection: SelectionArgs,

    #[command(flatten)]
    service: ServiceArgs,

    #[command(flatten)]
    fields: FieldArgs,
    #[command(flatten)]
    policy: PolicyArgs,

    /// Maximum number of calls in flight [default: 512, or fewer if few files may be open]
    ///
    /// Up to this, the number that the service accepts is found automatically.
    #[arg(
        short, long, value_name = "N", allow_negative_numbers = true,
        value_parser = values::whole::<u16>(1..=10_000), help_heading = PACE
    )]
    concurrency: Option<u16>,
    /// Maximum rate of calls: `50/s`, `600/m`, `1000/h`, `unlimited`, `auto` or `auto:80%` [default: auto, unlimited with
    /// --sandbox]
    ///
    /// With `auto`, the rate that the service accepts is found automatically. `auto:80%` leaves a fifth of it to others.
    #[arg(short, long, allow_hyphen_values = true, help_heading = PACE)]
    rate: Option<Rate>,
    /// How often to retry a row whose call failed; a 429 does not count
    #[arg(
        long, value_name = "N", default_value = "4", allow_negative_numbers = true,
        value_parser = values::whole::<u32>(0..=100), help_heading = PACE
    )]
    retries: u32,
    /// How many of these retries may follow a call whose outcome is unknown, and which may be billed twice
    #[arg(
        long, value_name = "N", default_value = "1", allow_negative_numbers = true,
        value_parser = values::whole::<u32>(0..=100), help_heading = PACE
    )]
    resend_unknown: u32,
    /// Time limit for one call
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = values::duration, help_heading = PACE)]
    timeout: Duration,
    /// Time limit for one connection attempt
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = values::duration, help_heading = PACE)]
    connect_timeout: Duration,
    /// Stop if the service asks for a longer pause, or throttles every call for this long
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = values::patience, help_heading = PACE)]
    max_wait: Duration,
    /// Stop if the service is down for this long
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = values::patience, help_heading = PACE)]
    max_outage: Duration,

    /// Maximum number of calls of the run, in all its starts, including retries
    #[arg(long, value_name = "N", value_parser = values::count, allow_negative_numbers = true, help_heading = PACE)]
    max_calls: Option<NonZeroU64>,
    /// Stop before the call that would bring the cost of the run's calls, in all its starts, including retries, above this amount (needs --price)
    #[arg(long, value_name = "AMOUNT", value_parser = values::money, allow_negative_numbers = true, help_heading = PACE)]
    max_cost: Option<Money>,
    #[command(flatten)]
    price: PriceArgs,
    /// Stop at the Nth row that fails in this start, or at this share of the rows
    ///
    /// A share is counted from the hundredth row on.
    #[arg(
        long, value_name = "N|N%", value_parser = values::failure_limit, allow_negative_numbers = true,
        help_heading = PACE
    )]
    max_failures: Option<FailureLimit>,
    /// End with exit code 0 if no more rows than this, or than this share of the rows, have no verdict
    ///
    /// For a nightly job in which some rows always fail. Only the exit code changes.
    #[arg(
        long, value_name = "N|N%", value_parser = values::tolerance, allow_negative_numbers = true,
        help_heading = PACE
    )]
    accept_failures: Option<Tolerance>,

    /// Stop after this many consecutive rows without a verdict, or `never` [default: 3 refused or useless answers before
    /// the first verdict, 20 useless ones later, 100 first rows that cannot be sent]
    #[arg(
        long, value_name = "N|never", value_parser = values::give_up_after, allow_negative_numbers = true,
        help_heading = PACE
    )]
    give_up_after: Option<GiveUpAfter>,

    /// Keep paid answers in this file or postgresql:// database, and use those that it has [default: rescore.ledger in the folder of the output]
    ///
    /// What is paid for is not paid for again, by any run with the same ledger.
    #[arg(long, value_name = "FILE", value_parser = values::file(), help_heading = LEDGER)]
    ledger: Option<PathBuf>,
    /// Ask again about rows whose answer is older than this, such as `30d` [default: answers do not age]
    #[arg(long, value_name = "TIME", value_parser = values::age, help_heading = LEDGER)]
    max_age: Option<Duration>,
    /// Ask again about every row
    #[arg(long, conflicts_with = "max_age", help_heading = LEDGER)]
    fresh: bool,
    /// Ask again about rows that have failed although their call was or may have been billed
    ///
    /// Other rows without a verdict are asked about again by any run. The results are put in their places.
    #[arg(long, conflicts_with_all = ["fresh", "max_age", "limit", "sample"], help_heading = LEDGER)]
    retry_failed: bool,
    /// Keep no answers: whatever stops the run, the next one pays again
    #[arg(long, conflicts_with_all = ["ledger", "max_age", "fresh", "retry_failed"], help_heading = LEDGER)]
    no_ledger: bool,
    /// Wait up to this long for another run that holds the output or the ledger, such as `10m`
    ///
    /// Without it, the run ends with exit code 75.
    #[arg(long, value_name = "TIME", value_parser = values::patience, help_heading = LEDGER)]
    wait_lock: Option<Duration>,

    #[command(flatten)]
    pub(super) limits: InputLimitArgs,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    columns: ColumnArgs,
    /// Copy rows without a verdict to this file, with the reason [default: OUTPUT.rejects.csv or .jsonl]
    #[arg(long, value_name = "FILE", value_parser = values::file(), help_heading = FILES)]
    rejects: Option<PathBuf>,
    /// Also write the rows whose decision changed to this file
    ///
    /// Each row comes with its old and new decision and score. The old ones come from the input, such as last night's
    /// output, or from the ledger.
    #[arg(long, value_name = "FILE", value_parser = values::file(), help_heading = FILES)]
    changes: Option<PathBuf>,
    /// Also write a report to this file, as a page of HTML, when the run is finished
    ///
    /// It is what `rescore report` makes: verdicts, scores, other thresholds, what has changed, and how the run went.
    #[arg(long, value_name = "FILE", value_parser = values::file(), help_heading = FILES)]
    report: Option<PathBuf>,
    /// Replace existing output, rejects, changes and report
    #[arg(long, help_heading = FILES)]
    overwrite: bool,
    /// Write each input to a file of its name in this directory; files that are finished are skipped
    ///
    /// All inputs share one ledger, rescore.ledger in that directory, and one pace. An input that cannot be used does not stop the others.
    #[arg(
        long, value_name = "DIR", value_parser = values::file(),
        conflicts_with_all = ["output", "rejects", "changes", "report", "limit", "sample"],
        help_heading = FILES
    )]
    pub(super) output_dir: Option<PathBuf>,
    /// With --output-dir: stop at the first input that cannot be used
    // `requires` alone accepts `-o FILE --fail-fast`, as `--output-dir` cannot be used with `-o`.
    #[arg(long, requires = "output_dir", conflicts_with = "output", help_heading = FILES)]
    fail_fast: bool,

    /// How progress is shown on standard error
    #[arg(long, value_name = "STYLE", value_enum, default_value = "auto", help_heading = WATCH)]
    progress: ProgressArg,
    /// Time between two progress lines
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = values::duration, help_heading = WATCH)]
    progress_every: Duration,
    /// Show only warnings, errors, and one line if rows failed
    #[arg(short, long, help_heading = WATCH)]
    quiet: bool,
    /// Write the summary to this file as JSON
    #[arg(long, value_name = "FILE", value_parser = values::file(), help_heading = WATCH)]
    summary: Option<PathBuf>,
    /// Keep metrics for Prometheus in this file, for the node exporter's textfile collector, which reads only `*.prom`
    #[arg(long, value_name = "FILE", value_parser = values::file(), help_heading = WATCH)]
    metrics: Option<PathBuf>,
    /// Add a JSON line for each event to this file; `-` is standard error
    ///
    /// At SIGHUP, a run without a terminal opens the file again, so that it can be rotated.
    #[arg(long, value_name = "FILE", help_heading = WATCH)]
    log: Option<PathBuf>,
    /// How much is logged
    #[arg(long, value_name = "LEVEL", value_enum, default_value = "info", help_heading = WATCH)]
    log_level: LogLevelArg,
    /// The name of this job in metrics, log, progress and summary [default: the output's name]
    #[arg(long, value_name = "NAME", value_parser = values::job, help_heading = WATCH)]
    job: Option<String>,

    // Read before this is made.
    #[command(flatten)]
    settings: SettingsArgs,
}

impl RunArgs {
    pub(super) fn into_config(self, sources: Sources<'_>) -> Result<RunConfig> {
        self.price.check(sources)?;
        let plan = self.service.plan()?;
        let pace = self.pace();
        let (columns, captured) = self.columns.added()?;
        let choice = self.policy.choice(sources, "/summary/risk_level")?;
        let (policy, captured) = choice.of_answers(captured)?;
        let files = self.files(&columns)?;
        let service = if self.sandbox {
            refuse_address(sources)?;
            // Addresses and keys in variables are for other runs: a stand-in never gets the real key.
            ServiceConfig::Sandbox
        } else {
            self.service.config(sources)?
        };
        let ledger = self.ledger()?;
        let budget = BudgetConfig {
            calls: self.call_limit()?,
            failures: FailureBudget(self.max_failures),
            give_up_after: self.give_up_after.unwrap_or_default(),
        };
        let rows_on_terminal = files.name().is_none() && std::io::stdout().is_terminal();
        let log = self.log.map(|path| LogConfig {
            target: values::log_target(path),
            level: self.log_level.into(),
        });
        let to_stderr = { log.as_ref() }.is_some_and(|log| log.target == LogTarget::Stderr);
        let watch = WatchConfig {
            style: match self.progress {
                // The log says what progress would, and both would be mixed up.
                ProgressArg::Auto if to_stderr => Style::Off,
                progress => progress.style(rows_on_terminal),
            },
            every: self.progress_every,
            quiet: self.quiet,
            summary: self.summary,
            metrics: self.metrics,
            log,
            job: self.job,
            profile: self.settings.into_profile(),
            accepted: AcceptedFailures(self.accept_failures),
            tariff: self.price.tariff(),
        };
        Ok(RunConfig {
            limits: self.limits.limits(),
            files,
            service,
            timeouts: TimeoutConfig {
                call: self.timeout,
                connect: self.connect_timeout,
            },
            plan,
            pace,
            budget,
            ledger,
            policy,
            captured: captured.into(),
            wait_lock: self.wait_lock,
            watch,
        })
    }

    /// Whether a file is refused whose first rows all fail for the same reason.
    pub(super) fn judges_first_rows(&self) -> bool {
        self.give_up_after != Some(GiveUpAfter::Never)
            && !self.accept_failures.is_some_and(Tolerance::is_everything)
    }

    /// When calls are made.
    pub(super) fn pace(&self) -> PaceConfig {
        let rate = self.rate.unwrap_or(if self.sandbox {
            Rate::Unlimited
        } else {
            Rate::Auto
        });
        PaceConfig {
            concurrency: self
                .concurrency
                .and_then(|calls| NonZeroUsize::new(calls.into())),
            rate,
            retries: self.retries,
            resends: self.resend_unknown,
            patience: Patience {
                wait: self.max_wait,
                outage: self.max_outage,
            },
        }
    }

    /// The most calls: the smaller of `--max-calls` and what `--max-cost` pays for.
    ///
    /// # Errors
    /// There is no price, or the amount does not pay for a single call.
    fn call_limit(&self) -> Result<Option<CallLimit>> {
        let calls = self.max_calls.map(CallLimit::Calls);
        let Some(amount) = self.max_cost else {
            return Ok(calls);
        };
        let Some(tariff) = self.price.tariff() else {
            return Err(Error::usage("`--max-cost` needs the price of a call")
                .hint("add it, as in `--price 0.004`"));
        };
        let paid = tariff.price.calls_for(amount).ok_or_else(|| {
            Error::usage(format!(
                "`--max-cost` is {}, which is less than the price of a call: {}",
                tariff.shown(amount),
                tariff.shown_for(1)
            ))
        })?;
        let both = calls.into_iter().chain([CallLimit::Cost(paid)]);
        Ok(both.min_by_key(|limit| limit.calls()))
    }

    fn files(&self, columns: &AddedColumns) -> Result<FilesConfig> {
        let inputs = if self.output_dir.is_some() {
            self.named_inputs()?
        } else {
            vec![self.only_input()?]
        };
        let inputs = inputs.into_iter();
        let inputs = inputs.map(|input| self.input(input, columns.clone()));
        let output = self.output.as_ref().filter(|path| *path != Path::new("-"));
        Ok(FilesConfig {
            inputs: inputs.collect::<Result<_>>()?,
            output: output.cloned(),
            directory: self.output_dir.clone(),
            rejects: self.rejects.clone(),
            changes: self.changes.clone(),
            report: self.report.clone(),
            overwrite: self.overwrite,
            fail_fast: self.fail_fast,
        })
    }

    /// # Errors
    /// Several inputs are named, or none although standard input is a terminal.
    fn only_input(&self) -> Result<Input> {
        let input = match self.input.as_slice() {
            [] => None,
            [input] => Some(input.as_path()),
            [_, second, ..] => {
                return Err(Error::usage(format!(
                    "a second input, `{}`, needs a directory for the outputs",
                    shown(second)
                ))
                .hint("name one with `--output-dir DIR`"));
            }
        };
        source(input, "rescore run users.csv -o scored.csv")
    }

    /// # Errors
    /// No file is named, or standard input, which has no name that an output could have.
    fn named_inputs(&self) -> Result<Vec<Input>> {
        if self.input.is_empty() || self.input.iter().any(|input| input == Path::new("-")) {
            return Err(Error::usage("`--output-dir` needs the names of the inputs")
                .hint("name them, as in `rescore run parts/*.csv --output-dir scored`"));
        }
        Ok(self.input.iter().cloned().map(Input::File).collect())
    }

    fn input(&self, input: Input, columns: AddedColumns) -> Result<ReaderSettings> {
        Ok(ReaderSettings {
            file: self.format.file(input)?,
            assignments: self.fields.assignments()?,
            phones: self.fields.phones(),
            existing: self.columns.existing(),
            columns,
            judges_first_rows: self.judges_first_rows(),
            selection: self.selection.selection(),
            scored: None,
        })
    }

    /// Which answers are stored and used.
    ///
    /// # Errors
    /// The address of a ledger's server is not one.
    pub(super) fn ledger(&self) -> Result<LedgerConfig> {
        Ok(LedgerConfig {
            choice: match &self.ledger {
                Some(ledger) => LedgerChoice::Named(LedgerLocation::named(ledger)?),
                None if self.no_ledger => LedgerChoice::Nowhere,
                None => LedgerChoice::Folder,
            },
            reuse: self.reuse(),
        })
    }

    fn reuse(&self) -> Reuse {
        match self.max_age {
            Some(age) => Reuse::Recent(age),
            None if self.retry_failed => Reuse::Retry,
            None if self.fresh => Reuse::Nothing,
            None => Reuse::All,
        }
    }
}
