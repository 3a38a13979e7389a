//! The config of each command.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgAction, Args, value_parser};
use serde_json::Value;

use super::values;
use crate::base::error::{Error, Result};
use crate::base::money::{Money, Tariff};
use crate::base::numbers::Tolerance;
use crate::engine::TimeOfDay;
use crate::input;
use crate::ledger::{Budget, LedgerLocation, Per, Reuse, default_file};
use crate::observe::Style;
use crate::pace::Rate;
use crate::raw_json::Pointer;
use crate::selection::Condition;
use crate::service::{Account, ClientSettings, Plan};
use crate::verdict::{DecisionPolicy, Thresholds};

/// What decides how rows are counted, for a run and for a check of it alike.
#[derive(Debug, Clone)]
pub(crate) struct CountConfig {
    /// The files.
    pub(crate) files: FilesConfig,
    /// Requirements on the input.
    pub(crate) limits: InputLimits,
    /// The plan, with its flags.
    pub(crate) plan: Plan,
    /// Which answers are stored and used.
    pub(crate) ledger: LedgerConfig,
    /// Further fields of the answer: those of the columns in their order, then a level that only decides.
    pub(crate) captured: Box<[Pointer]>,
    /// What the run may spend.
    pub(crate) budget: BudgetConfig,
    /// How many calls it may make by that.
    pub(crate) call_limits: Vec<Budget>,
}

/// `rescore run`.
#[derive(Debug, Clone)]
pub(crate) struct RunConfig {
    /// What decides how its rows are counted.
    pub(crate) count: CountConfig,
    /// What answers the calls.
    pub(crate) service: ServiceConfig,
    /// From a call's start to its answer's end.
    pub(crate) timeout: Duration,
    /// When calls are made.
    pub(crate) pace: PaceConfig,
    /// How decisions are made.
    pub(crate) policy: DecisionPolicy,
    /// How long to wait for another run that holds the output or the ledger; `None` is not at all.
    pub(crate) wait_lock: Option<Duration>,
    /// What people see.
    pub(crate) watch: WatchConfig,
    /// The profile of the settings file.
    pub(crate) profile: Option<String>,
    /// The options that were given in any way, by their names, without secrets and without constants that are sent.
    pub(crate) options: Value,
}

/// The most calls in flight if the user gives no number. Few services take more from one client, and each call takes some
/// 60 KB. It is only a ceiling: the search for the number that the service accepts starts far below.
pub(crate) const DEFAULT_CONCURRENCY: NonZeroUsize = NonZeroUsize::new(512).expect("above 0");

/// Requirements on the input, without which nothing is sent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Args)]
pub(crate) struct InputLimits {
    /// Send nothing if the input has fewer rows than this, or than this share of the output that is replaced
    ///
    /// For an export that may be empty or cut off. Without it, an input without rows replaces no output that has rows; `0` allows
    /// that. All rows are counted before the first call, so the input must be a file.
    #[arg(long, value_name = "N|N%", value_parser = values::tolerance)]
    pub(crate) min_rows: Option<Tolerance>,
    /// Send nothing if more rows than this, or than this share of the rows, cannot be sent
    ///
    /// Such rows lack a field, or have an invalid one. All rows are checked before the first call, so the input must be a
    /// file.
    #[arg(long, value_name = "N|N%", value_parser = values::tolerance)]
    pub(crate) max_invalid: Option<Tolerance>,
    /// Send nothing if more rows than this, or than this share of the rows, are new to the ledger
    ///
    /// For a nightly job: if a column goes or changes its form, all users look new, and would be paid for again. It does not
    /// count while nothing was ever paid for.
    #[arg(long, value_name = "N|N%", value_parser = values::tolerance)]
    pub(crate) max_new: Option<Tolerance>,
}

/// What a run reads and writes: one input to one output, or several, each to a file of its name in a directory.
#[derive(Debug, Clone, Args)]
pub(crate) struct FilesConfig {
    /// The inputs: one, or with an output directory any number. A name may be a pattern.
    #[arg(skip)]
    pub(crate) inputs: Vec<input::ReaderSettings>,
    /// Write the rows to this file, compressed if it ends in .gz or .zst; `-` is standard output
    #[arg(short, long, value_name = "FILE", help_heading = None, display_order = 0)]
    pub(crate) output: Option<PathBuf>,
    /// Write each input to a file of its name in this directory; files that are finished are skipped
    ///
    /// All inputs share one pace and one budget. An input that cannot be used does not stop the others.
    #[arg(
        id = "output_dir", long = "output-dir", value_name = "DIR", value_parser = values::file(), help_heading = FILES,
        conflicts_with_all = ["output", "rejects", "changes", "changes_key", "report", "limit", "sample"]
    )]
    pub(crate) directory: Option<PathBuf>,
    /// Copy rows without a verdict to this file, with the reason [default: OUTPUT.rejects.csv or .jsonl]
    #[arg(long, value_name = "FILE", value_parser = values::file(), help_heading = FILES)]
    pub(crate) rejects: Option<PathBuf>,
    /// Also write the rows whose decision changed to this file
    ///
    /// Each row comes with its old and new decision and score. The old ones come from the input, such as last night's
    /// output, or from the ledger.
    #[arg(long, value_name = "FILE", value_parser = values::file(), help_heading = FILES)]
    pub(crate) changes: Option<PathBuf>,
    /// Compare decisions by this column, such as an id, with those of the output that is replaced (needs --changes)
    ///
    /// A user counts as the same also if another email address is sent. The verdicts of that output are kept in memory: up to
    /// 60 MB for a million rows.
    #[arg(long, value_name = "COLUMN", requires = "changes", help_heading = FILES)]
    pub(crate) changes_key: Option<String>,
    /// Also write a report to this file, as a page of HTML, when the run is finished
    ///
    /// It is what `rescore report` makes: verdicts, scores, other thresholds, what has changed, and how the run went.
    #[arg(long, value_name = "FILE", value_parser = values::file(), help_heading = FILES)]
    pub(crate) report: Option<PathBuf>,
    /// Replace existing output, rejects, changes and report
    #[arg(long, help_heading = FILES)]
    pub(crate) overwrite: bool,
}

/// The heading of these options in the help.
pub(super) const FILES: &str = "Files";

impl FilesConfig {
    /// What names the run: the output, or the directory of its outputs; `None` for standard output.
    pub(crate) fn name(&self) -> Option<&Path> {
        self.directory.as_deref().or(self.output.as_deref())
    }
}

/// The words of `--at-limit`, and whether the run finishes.
const AT_LIMIT: &[(&str, bool)] = &[("stop", false), ("finish", true)];

/// What a run may spend, of money and of time.
#[derive(Debug, Clone, Args)]
pub(crate) struct BudgetConfig {
    /// Maximum number of calls, including retries: of the run, or in a day or month, such as `10000/month`
    ///
    /// The calls of all starts of the run count. `/day` and `/month` count all runs with the same ledger, address and service id, by calendar in UTC.
    #[arg(long, value_name = "N", value_parser = |text: &str| values::per(text, values::count))]
    max_calls: Option<(NonZeroU64, Per)>,
    /// Stop before the call that would bring the cost of these calls above this amount, such as `500` or `500/day` (needs --price)
    #[arg(long, value_name = "AMOUNT", value_parser = |text: &str| values::per(text, str::parse::<Money>))]
    max_cost: Option<(Money, Per)>,
    /// End the run in order at this time of day, such as `06:00`
    ///
    /// It is the next such time on the local clock after the start: calls in flight finish, the exit code is 5, and the same command
    /// continues.
    #[arg(long, value_name = "HH:MM")]
    pub(crate) until: Option<TimeOfDay>,
    /// End the run in order after this time, such as `8h`, with all that it waits for
    #[arg(long, value_name = "TIME", value_parser = values::run_time)]
    pub(crate) max_time: Option<Duration>,
    /// What to do when one of these is reached: `stop`, or `finish` the output without calls
    ///
    /// With `finish`, users without any answer come first, a row whose answer is too old keeps it, and other rows fail
    /// with the reason `limit`. The output is complete, the exit code is 5, and the same command asks for the missing answers.
    #[arg(
        id = "at_limit", long = "at-limit", value_name = "stop|finish", action = ArgAction::Set, value_parser = values::one_of(AT_LIMIT),
        default_value = "stop", conflicts_with = "output_dir"
    )]
    pub(crate) finishes_at_limit: bool,
    /// What a call costs, such as `0.004` or `'0.004 EUR'`
    ///
    /// Progress shows what is spent, and the summary what the verdicts cost.
    #[arg(long, value_name = "AMOUNT")]
    pub(crate) price: Option<Tariff>,
    /// Stop at the Nth row that fails, or at this share of the rows
    ///
    /// Each start counts for itself. A share is counted from the hundredth row on.
    #[arg(long, value_name = "N|N%", value_parser = values::failure_limit)]
    pub(crate) max_failures: Option<Tolerance>,
    /// End with exit code 0 if no more rows than this, or than this share of the rows, have no verdict
    ///
    /// For a nightly job in which some rows always fail. Only the exit code changes.
    #[arg(long, value_name = "N|N%", value_parser = values::tolerance)]
    pub(crate) accept_failures: Option<Tolerance>,
    /// Don't stop after many failures in a row or repeated ids
    #[arg(long)]
    pub(crate) keep_going: bool,
}

impl BudgetConfig {
    /// How many calls may be made, with this ledger.
    ///
    /// # Errors
    /// There is no price, the amount does not pay for a single call, or there is no ledger that counts the calls of other runs.
    pub(crate) fn call_limits(&self, ledger: &LedgerConfig) -> Result<Vec<Budget>> {
        let calls = self
            .max_calls
            .map(|(calls, per)| Ok(Budget::calls(calls, per)));
        let max_cost = self.max_cost;
        let cost = max_cost.map(|(amount, per)| Budget::cost(amount, per, self.price.as_ref()));
        let limits = calls.into_iter().chain(cost);
        let limits: Vec<_> = limits.collect::<Result<_>>()?;
        if !ledger.is_kept && limits.iter().any(Budget::is_of_account) {
            let error = "a budget of a day or a month and `--no-ledger` cannot be used together";
            return Err(Error::usage(error)
                .hint("leave out `--no-ledger`: the ledger counts the calls of all runs"));
        }
        Ok(limits)
    }
}

/// Which answers are stored and used.
#[derive(Debug, Clone)]
pub(crate) struct LedgerConfig {
    /// Whether there is one.
    pub(crate) is_kept: bool,
    /// Which one; `None` is the user's.
    pub(crate) named: Option<LedgerLocation>,
    /// Which answers of earlier runs are used.
    pub(crate) reuse: Reuse,
}

impl LedgerConfig {
    /// Where the ledger of a run is; `None` if it keeps no answers.
    ///
    /// # Errors
    /// Exit code 2: none is named, and the user's cannot be used.
    pub(crate) fn location(&self, sandbox: bool) -> Result<Option<LedgerLocation>> {
        let of_user = || default_file(sandbox).map(LedgerLocation::File);
        let location = || self.named.clone().map_or_else(of_user, Ok);
        self.is_kept.then(location).transpose()
    }
}

/// What answers the calls of a run.
#[derive(Debug, Clone)]
pub(crate) enum ServiceConfig {
    /// The service.
    Real(Box<ClientSettings>),
    /// The built-in stand-in.
    Sandbox,
}

impl ServiceConfig {
    /// The service; `None` is the stand-in.
    pub(crate) fn real(&self) -> Option<&ClientSettings> {
        match self {
            Self::Real(settings) => Some(settings),
            Self::Sandbox => None,
        }
    }
}

/// When calls are made.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct PaceConfig {
    /// Maximum number of calls in flight, 512 if not given
    ///
    /// Fewer if the process may open only few files. Up to this, the number that the service accepts is found automatically.
    #[arg(short, long, value_name = "N", value_parser = values::concurrency)]
    pub(crate) concurrency: Option<NonZeroUsize>,
    /// Maximum rate of calls, such as `50/s` or `600/m`, found automatically if not given
    ///
    /// `50/s`, `600/m`, `1000/h`, `unlimited`, `auto` or `auto:80%`; with --sandbox, it is `unlimited` if not given. With `auto`, the rate that the service accepts is found automatically; `auto:80%` leaves a fifth of it to others.
    #[arg(
        short,
        long,
        allow_hyphen_values = true,
        default_value = "auto",
        hide_default_value = true,
        default_value_if("sandbox", "true", "unlimited")
    )]
    pub(crate) rate: Rate,
    /// How often to retry a row whose call failed; a 429 does not count
    #[arg(long, value_name = "N", default_value = "4", value_parser = value_parser!(u32).range(0..=100))]
    pub(crate) retries: u32,
    /// How many of these retries may follow a call whose outcome is unknown, and which may be billed twice
    #[arg(
        long = "resend-unknown", value_name = "N", default_value = "1", value_parser = value_parser!(u32).range(0..=100),
    )]
    pub(crate) resends: u32,
    /// Stop if the service accepts no call for this long, or asks for a longer pause
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = values::patience)]
    pub(crate) max_wait: Duration,
}

/// The words of `--progress`.
const STYLES: &[(&str, Style)] = &[
    ("auto", Style::Auto),
    ("bar", Style::Bar),
    ("plain", Style::Plain),
    ("json", Style::Json),
    ("off", Style::Off),
];

/// What people see.
#[derive(Debug, Clone, Args)]
pub(crate) struct WatchConfig {
    /// How progress is shown on standard error
    #[arg(long = "progress", value_name = "STYLE", value_parser = values::one_of(STYLES), default_value = "auto")]
    pub(crate) style: Style,
    /// Show only warnings, errors, and one line if rows failed
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Write the summary to this file as JSON
    #[arg(long, value_name = "FILE", value_parser = values::file())]
    pub(crate) summary: Option<PathBuf>,
    /// Keep metrics for Prometheus in this file, for the node exporter's textfile collector, which reads only `*.prom`
    #[arg(long, value_name = "FILE", value_parser = values::file())]
    pub(crate) metrics: Option<PathBuf>,
    /// Add a JSON line for each event and call to this file
    #[arg(long, value_name = "FILE", value_parser = values::file())]
    pub(crate) log: Option<PathBuf>,
}

impl WatchConfig {
    /// Whether words for people are shown besides warnings and errors.
    pub(crate) fn shows_text(&self) -> bool {
        !self.quiet && self.style != Style::Json
    }
}

/// `rescore check`: the run to come, and how the result is shown.
#[derive(Debug)]
pub(crate) struct CheckConfig {
    /// What decides how rows are counted.
    pub(crate) count: CountConfig,
    /// Whose answers; `None` is the only account that the ledger has.
    pub(crate) account: Option<Account>,
    /// The result is for programs.
    pub(crate) json: bool,
    /// How many requests to show.
    pub(crate) show: usize,
}

/// `rescore decide`.
#[derive(Debug)]
pub(crate) struct DecideConfig {
    /// The scored file.
    pub(crate) file: input::FileSettings,
    /// The first characters of the names of the verdict's columns.
    pub(crate) prefix: String,
    /// What to do with it.
    pub(crate) task: DecideTask,
}

/// What to do with a scored file.
#[derive(Debug)]
pub(crate) enum DecideTask {
    /// Write it again with other decisions.
    Rewrite {
        /// How decisions are made.
        policy: DecisionPolicy,
        /// The column with the level, if levels decide: its name, or a JSON pointer.
        level: Option<String>,
        /// Where rows go.
        output: DecideOutput,
    },
    /// Count what other thresholds would do.
    WhatIf {
        /// What is asked about them.
        asked: AskedThresholds,
        /// For programs.
        json: bool,
    },
}

/// The part of the help about thresholds.
pub(crate) const WHAT_IF: &str = "What other thresholds would do";

/// What a command asks about the thresholds of a scored file.
#[derive(Debug, Args)]
pub(crate) struct AskedThresholds {
    /// Count what would be caught, missed and falsely alarmed: in COLUMN these values mean fraud (bad), others good, none not known
    ///
    /// Bad rows are caught if they would be blocked or reviewed, and missed if approved; good rows that would be blocked or
    /// reviewed are false alarms. Outcomes are known only of users who were let in.
    #[arg(long, value_name = "COLUMN=VALUE,..", value_parser = values::outcome, help_heading = WHAT_IF)]
    pub(crate) outcome: Option<Condition>,
    /// Name the thresholds that catch this share of the bad rows with the fewest reviews, and block no more rows than today
    #[arg(long, value_name = "N%", value_parser = values::catch, requires = "outcome", help_heading = WHAT_IF)]
    pub(crate) catch: Option<f64>,
    /// The summary that `rescore run --summary FILE` wrote: how the run went, and whether the rows are a sample
    #[arg(long, value_name = "FILE", value_parser = values::file())]
    pub(crate) run: Option<PathBuf>,
    /// Those of today, which other options name.
    #[arg(skip)]
    pub(crate) today: Thresholds,
}

/// Where the rows of a scored file are written, and how they are reported.
#[derive(Debug, Args)]
pub(crate) struct DecideOutput {
    /// Write the rows to this file, compressed if it ends in .gz or .zst; `-` or nothing is standard output
    #[arg(short, long, value_name = "FILE", display_order = 0)]
    pub(crate) output: Option<PathBuf>,
    /// Also write the rows whose decision changed to this file
    #[arg(long, value_name = "FILE", value_parser = values::file(), help_heading = FILES)]
    pub(crate) changes: Option<PathBuf>,
    /// Replace existing output and changes
    #[arg(long, help_heading = FILES)]
    pub(crate) overwrite: bool,
    /// Show only warnings and errors
    #[arg(short, long, help_heading = "Summary")]
    pub(crate) quiet: bool,
    /// Write the summary to this file as JSON
    #[arg(long, value_name = "FILE", value_parser = values::file(), help_heading = "Summary")]
    pub(crate) summary: Option<PathBuf>,
}

/// `rescore report`.
#[derive(Debug)]
pub(crate) struct ReportConfig {
    /// The scored file.
    pub(crate) scored: input::FileSettings,
    /// What stands before the names of the verdict's columns, also in the earlier file.
    pub(crate) prefix: String,
    /// The file that it is compared with, if there is one.
    pub(crate) against: Option<EarlierFile>,
    /// Columns by whose values decisions are counted.
    pub(crate) by: Vec<String>,
    /// What it shows of thresholds.
    pub(crate) asked: AskedThresholds,
    /// Where the report goes; `None` is standard output.
    pub(crate) output: Option<PathBuf>,
    /// A report that exists may be replaced.
    pub(crate) overwrite: bool,
}

/// An earlier scored file.
#[derive(Debug)]
pub(crate) struct EarlierFile {
    /// The file.
    pub(crate) file: input::FileSettings,
    /// The column by which rows are paired.
    pub(crate) key: String,
}

/// `rescore status`.
#[derive(Debug, Args)]
pub(crate) struct StatusConfig {
    /// The run that writes or wrote this output, or this directory of outputs [default: all runs of this user that run, or
    /// ended in the last 24 hours]
    pub(crate) output: Option<PathBuf>,
    /// Print one JSON object for each run
    #[arg(long)]
    pub(crate) json: bool,
}

/// `rescore ledger`.
#[derive(Debug)]
pub(crate) struct AdminConfig {
    /// The ledger; `None` is the user's.
    pub(crate) ledger: Option<LedgerLocation>,
    /// How long to wait for a run that uses it; `None` is not at all.
    pub(crate) wait_lock: Option<Duration>,
    /// The result is for programs.
    pub(crate) json: bool,
    /// The task.
    pub(crate) task: AdminTask,
}

/// A task for a ledger.
#[derive(Debug)]
pub(crate) enum AdminTask {
    /// Make it on a server.
    Init,
    /// Show what is in it, and what was spent by day or month.
    Stats(Per),
    /// Copy it into this one.
    Copy(LedgerLocation),
    /// Remove old answers.
    Prune {
        /// The age above which they are removed.
        older_than: Duration,
        /// Also if there are many.
        yes: bool,
    },
    /// Remove answers about users.
    Forget {
        /// The file of the users, as a run reads it.
        users: Box<input::ReaderSettings>,
        /// Only about those of them who have the values of a row of this file, in whichever fields it has.
        list: Option<Box<input::ReaderSettings>>,
        /// Also if there are many.
        yes: bool,
    },
}
