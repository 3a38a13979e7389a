//! The arguments of `rescore run`.

mod service;

use std::collections::HashSet;
use std::io::IsTerminal;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::sources::Sources;
use super::values::{
    self, Column, ExistingArg, FormatArg, Map, PhoneArg, PlanArg, ProgressArg, Set,
};
use crate::base::decimal::Decimal;
use crate::base::error::{Error, Result, quoted};
use crate::commands::places::{self, Place};
use crate::config::{
    BudgetConfig, LedgerConfig, OutputConfig, PaceConfig, RejectsConfig, RunConfig, WatchConfig,
};
use crate::fields::Assignments;
use crate::input::{FormatChoice, Input, ReaderSettings};
use crate::layout::{PREVIOUS, VERDICT_COLUMNS};
use crate::ledger::{Place as LedgerPlace, Reuse, ledger_of};
use crate::output::{Replace, Target};
use crate::pace::{FailureBudget, FailureLimit, GiveUpAfter, Rate};
use crate::raw_json::Pointer;
use crate::scorer::Patience;
use crate::service::Plan;
use crate::verdict::DecisionPolicy;

const SERVICE: &str = "Service";
const FIELDS: &str = "Fields and decisions";
const PACE: &str = "Pace and limits";
const LEDGER: &str = "Ledger";
const FILES: &str = "Files";
const WATCH: &str = "Progress and summary";

#[derive(Debug, Args)]
#[allow(
    clippy::struct_excessive_bools,
    clippy::doc_markdown,
    reason = "flags are bools, and these comments are the help's text"
)]
pub(super) struct RunArgs {
    /// The users: a CSV, TSV or JSONL file, plain, gzip or zstd; `-` or nothing is standard input
    input: Option<PathBuf>,
    /// Write the rows to this file, compressed if it ends in .gz or .zst; `-` or nothing is standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Use the built-in stand-in instead of the service: no key, no cost, made-up scores
    #[arg(long)]
    sandbox: bool,

    /// Base address of the paid plan
    #[arg(long, value_name = "URL", help_heading = SERVICE)]
    base_url: Option<String>,
    /// Base address of the free plan
    #[arg(long, value_name = "URL", help_heading = SERVICE)]
    free_base_url: Option<String>,
    /// The plan to use
    #[arg(long, value_enum, default_value = "paid", help_heading = SERVICE)]
    plan: PlanArg,
    /// Identifier of the calling application (header X-Service-ID)
    #[arg(long, value_name = "ID", help_heading = SERVICE)]
    service_id: Option<String>,
    /// Read the API key from this file instead of the variable RESCORE_API_KEY
    #[arg(long, value_name = "FILE", help_heading = SERVICE)]
    api_key_file: Option<PathBuf>,
    /// Request VPN and proxy detection (paid plan)
    #[arg(long, help_heading = SERVICE)]
    vpn_check: bool,
    /// Request advanced processing (paid plan)
    #[arg(long, help_heading = SERVICE)]
    advanced: bool,
    /// Allow an address without HTTPS: keys and personal data are sent unencrypted
    #[arg(long, help_heading = SERVICE)]
    allow_http: bool,
    /// Trust one more certificate (PEM): a company's own authority, or the service's own certificate
    #[arg(long, value_name = "FILE", help_heading = SERVICE)]
    ca_file: Option<PathBuf>,

    /// Take a field (name, email, phone, ip, user_agent) from this column (repeatable)
    ///
    /// Several columns make one field as in `name={first} {last}`. In JSONL, a JSON pointer reaches nested members, as
    /// in `ip=/device/ip`.
    #[arg(long, value_name = "FIELD=COLUMN", value_delimiter = '\n', value_parser = values::map, help_heading = FIELDS)]
    map: Vec<Map>,
    /// Send the same value for a field in every row (repeatable)
    #[arg(long, value_name = "FIELD=VALUE", value_delimiter = '\n', value_parser = values::set, help_heading = FIELDS)]
    set: Vec<Set>,
    /// What to do with a phone number that is not international
    #[arg(long, value_name = "ACTION", value_enum, default_value = "reject", help_heading = FIELDS)]
    invalid_phone: PhoneArg,
    /// Append another field of the answer, such as `risk_level=/summary/risk_level` (repeatable)
    #[arg(
        long, value_name = "NAME=POINTER", value_delimiter = '\n', value_parser = values::column, help_heading = FIELDS
    )]
    column: Vec<Column>,
    /// Approve up to this score
    #[arg(
        long, value_name = "SCORE", default_value = "2", allow_negative_numbers = true,
        value_parser = values::threshold, help_heading = FIELDS
    )]
    approve_max: Decimal,
    /// Review up to this score, block above it
    #[arg(
        long, value_name = "SCORE", default_value = "5", allow_negative_numbers = true,
        value_parser = values::threshold, help_heading = FIELDS
    )]
    review_max: Decimal,

    /// Maximum number of calls in flight [default: 512, or as many as files may be open]
    ///
    /// Up to this, the number that the service accepts is found automatically.
    #[arg(
        short, long, value_name = "N", allow_negative_numbers = true,
        value_parser = clap::value_parser!(u16).range(1..=10_000), help_heading = PACE
    )]
    concurrency: Option<u16>,
    /// Maximum rate of calls: `50/s`, `600/m`, `1000/h`, `unlimited` or `auto` [default: auto, unlimited with
    /// --sandbox]
    ///
    /// With `auto`, the rate that the service accepts is found automatically.
    #[arg(short, long, allow_hyphen_values = true, help_heading = PACE)]
    rate: Option<Rate>,
    /// How often to retry a row whose call failed; a 429 does not count
    #[arg(
        long, value_name = "N", default_value = "4", allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(0..=100), help_heading = PACE
    )]
    retries: u32,
    /// How many of these retries may follow a call whose outcome is unknown, and which may be billed twice
    #[arg(
        long, value_name = "N", default_value = "1", allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(0..=100), help_heading = PACE
    )]
    resend_unknown: u32,
    /// Time limit for one call
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = values::duration, help_heading = PACE)]
    timeout: Duration,
    /// Time limit for one connection attempt
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = values::duration, help_heading = PACE)]
    connect_timeout: Duration,
    /// Stop if the service asks for a longer pause, or refuses every call for this long
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = values::patience, help_heading = PACE)]
    max_wait: Duration,
    /// Stop if the service is down for this long
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = values::patience, help_heading = PACE)]
    max_outage: Duration,

    /// Maximum number of calls, including retries
    #[arg(long, value_name = "N", value_parser = values::count, allow_negative_numbers = true, help_heading = PACE)]
    max_calls: Option<NonZeroU64>,
    /// Stop at the Nth row that fails, or at this share of the rows, counted from the hundredth row on
    #[arg(
        long, value_name = "N|N%", value_parser = values::failure_limit, allow_negative_numbers = true,
        help_heading = PACE
    )]
    max_failures: Option<FailureLimit>,

    /// Stop after this many consecutive rows without a verdict, or `never` [default: 3 refused or useless answers before
    /// the first verdict, 20 useless ones later, 100 first rows that cannot be sent]
    #[arg(
        long, value_name = "N|never", value_parser = values::give_up_after, allow_negative_numbers = true,
        help_heading = PACE
    )]
    give_up_after: Option<GiveUpAfter>,

    /// Keep paid answers in this file; several runs may share it, even at the same time [default: OUTPUT.ledger, until
    /// every row has a verdict]
    #[arg(long, value_name = "FILE", value_parser = values::file(), help_heading = LEDGER)]
    ledger: Option<PathBuf>,
    /// Use only answers that are not older than this, such as `7d` [default: all]
    #[arg(long, value_name = "TIME", value_parser = values::age, help_heading = LEDGER)]
    max_age: Option<Duration>,
    /// Ask for everything again: discard the answers in OUTPUT.ledger, or with --ledger use none that is there
    #[arg(long, conflicts_with = "max_age", help_heading = LEDGER)]
    fresh: bool,
    /// Send only the rows that have no verdict in the finished output, and put the results in their places
    #[arg(long, conflicts_with = "fresh", help_heading = LEDGER)]
    retry_failed: bool,
    /// Keep no answers: a run that stops cannot continue
    #[arg(long, conflicts_with_all = ["ledger", "max_age", "fresh", "retry_failed"], help_heading = LEDGER)]
    no_ledger: bool,
    /// Send each of several identical rows
    #[arg(long, help_heading = LEDGER)]
    no_dedupe: bool,

    /// Format of the input [default: by the file name, or by the first bytes]
    #[arg(long, value_enum, help_heading = FILES)]
    format: Option<FormatArg>,
    /// The character between cells, or `tab` [default: found automatically among , ; tab |]
    #[arg(long, value_name = "CHARACTER", value_parser = values::delimiter, help_heading = FILES)]
    delimiter: Option<u8>,
    /// The file has no header: its first row is a user, and `--map` takes column numbers, as in `email=3`
    #[arg(long, help_heading = FILES)]
    no_header: bool,
    /// What to do with the columns of an earlier run in the input; other columns with the same names are never replaced
    #[arg(long, value_name = "ACTION", value_enum, default_value = "replace", help_heading = FILES)]
    existing: ExistingArg,
    /// Put this before the names of all new columns, as in `rescore_decision`
    #[arg(
        long, value_name = "TEXT", default_value = "", hide_default_value = true, value_parser = values::prefix,
        help_heading = FILES
    )]
    prefix: String,
    /// Copy rows without a verdict to this file, with the reason [default: OUTPUT.rejects.csv or .jsonl]
    #[arg(long, value_name = "FILE", value_parser = values::file(), help_heading = FILES)]
    rejects: Option<PathBuf>,
    /// Also write the rows whose decision changed to this file
    ///
    /// Each row has its old and its new score. Earlier decisions and scores come from the input, such as last night's
    /// output, or from the ledger.
    #[arg(long, value_name = "FILE", value_parser = values::file(), help_heading = FILES)]
    changes: Option<PathBuf>,
    /// Replace existing output, rejects and changes
    #[arg(long, help_heading = FILES)]
    overwrite: bool,
    /// The longest record in bytes; a quote that is never closed must not swallow the file
    #[arg(
        long, value_name = "BYTES", default_value = "16777216", allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1_024..=1_073_741_824), help_heading = FILES
    )]
    max_record_bytes: u32,

    /// How progress is shown on standard error
    #[arg(long, value_name = "STYLE", value_enum, default_value = "auto", help_heading = WATCH)]
    progress: ProgressArg,
    /// Time between two progress lines
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = values::duration, help_heading = WATCH)]
    progress_every: Duration,
    /// Show only warnings and errors
    #[arg(short, long, help_heading = WATCH)]
    quiet: bool,
    /// Write the summary to this file as JSON
    #[arg(long, value_name = "FILE", value_parser = values::file(), help_heading = WATCH)]
    summary: Option<PathBuf>,
}

impl RunArgs {
    pub(super) fn into_config(self, sources: Sources<'_>) -> Result<RunConfig> {
        let plan = self.plan()?;
        let pace = self.pace();
        let policy = self.policy()?;
        let (names, captured) = self.columns()?;
        let input = self.input(names)?;
        let mut warnings = Vec::new();
        let service = self.service(sources, &mut warnings)?;
        let output = self.output(&input.input)?;
        let ledger = self.ledger(&output)?;
        let budget = BudgetConfig {
            calls: self.max_calls,
            failures: FailureBudget(self.max_failures),
            give_up_after: self.give_up_after.unwrap_or_default(),
        };
        let rows_on_terminal = output.target.is_none() && std::io::stdout().is_terminal();
        let watch = WatchConfig {
            style: self.progress.style(rows_on_terminal),
            every: self.progress_every,
            quiet: self.quiet,
            summary: self.summary,
        };
        Ok(RunConfig {
            input,
            output,
            service,
            plan,
            pace,
            budget,
            ledger,
            policy,
            captured,
            watch,
            warnings,
        })
    }

    fn plan(&self) -> Result<Plan> {
        let Self {
            vpn_check,
            advanced,
            ..
        } = *self;
        match self.plan {
            PlanArg::Paid => Ok(Plan::Paid {
                vpn_check,
                advanced,
            }),
            PlanArg::Free if vpn_check || advanced => {
                let flag = if vpn_check {
                    "--vpn-check"
                } else {
                    "--advanced"
                };
                Err(Error::usage(format!("`{flag}` is for the paid plan only"))
                    .hint("leave it out, or use `--plan paid`"))
            }
            PlanArg::Free => Ok(Plan::Free),
        }
    }

    fn pace(&self) -> PaceConfig {
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

    fn policy(&self) -> Result<DecisionPolicy> {
        let Self {
            approve_max,
            review_max,
            ..
        } = self;
        DecisionPolicy::new(approve_max.clone(), review_max.clone()).ok_or_else(|| {
            Error::usage(format!(
                "`--approve-max {approve_max}` is above `--review-max {review_max}`"
            ))
        })
    }

    /// The names of all columns that we write, and where those of `--column` come from.
    fn columns(&self) -> Result<(Vec<String>, Box<[Pointer]>)> {
        let further = self.column.iter().map(|Column(name, _)| name.as_str());
        let names: Vec<String> = VERDICT_COLUMNS
            .into_iter()
            .chain(further)
            .map(|name| format!("{}{name}", self.prefix))
            .collect();
        let mut seen = HashSet::new();
        if let Some(twice) = names.iter().find(|name| !seen.insert(name.to_lowercase())) {
            return Err(Error::usage(format!(
                "`--column`: there already is a column {}",
                quoted(twice)
            )));
        }
        let kept = |name: &String| names.contains(&format!("{PREVIOUS}{name}"));
        if let (ExistingArg::Keep, Some(name)) =
            (self.existing, names.iter().find(|name| kept(name)))
        {
            return Err(Error::usage(format!(
                "`--column`: {} is the name that `--existing keep` gives to an old {}",
                quoted(&format!("{PREVIOUS}{name}")),
                quoted(name)
            )));
        }
        Ok((
            names,
            self.column
                .iter()
                .map(|Column(_, pointer)| pointer.clone())
                .collect(),
        ))
    }

    fn input(&self, columns: Vec<String>) -> Result<ReaderSettings> {
        let input = match &self.input {
            Some(path) if path != Path::new("-") => Input::File(path.clone()),
            _ if std::io::stdin().is_terminal() => {
                return Err(Error::usage("no input").hint(
                    "name a file, as in `rescore run users.csv -o scored.csv`, or pipe rows in",
                ));
            }
            _ => Input::Stdin,
        };
        let mut assignments = Assignments::default();
        for Map(field, template) in self.map.clone() {
            assignments.map(field, template)?;
        }
        for Set(field, value) in self.set.clone() {
            assignments.set(field, value)?;
        }
        if matches!(self.format, Some(FormatArg::Jsonl)) && self.delimiter.is_some() {
            return Err(Error::usage(
                "`--delimiter` has no effect with `--format jsonl`",
            ));
        }
        Ok(ReaderSettings {
            input,
            format: self.format.map_or(FormatChoice::Detect, Into::into),
            delimiter: self.delimiter,
            no_header: self.no_header,
            assignments,
            invalid_phone: self.invalid_phone.into(),
            existing: self.existing.into(),
            columns,
            max_record: usize::try_from(self.max_record_bytes).unwrap_or(usize::MAX),
            judges_first_rows: self.give_up_after != Some(GiveUpAfter::Never),
        })
    }

    fn output(&self, input: &Input) -> Result<OutputConfig> {
        let path = self.output.as_ref().filter(|path| *path != Path::new("-"));
        if let (Some(path), Input::File(input)) = (path, input) {
            // First: the hint to overwrite an existing output must never be given for the input.
            places::refuse_clashes(&[Place::input(input), Place::output(path)])?;
        }
        let target = path
            .map(|path| Target::new(path, |real| self.replace(real)))
            .transpose()?;
        let rejects = match (&self.rejects, path) {
            (Some(path), _) => RejectsConfig::At(path.clone()),
            // No file can be put beside `/dev/null`.
            (None, Some(path)) if target.as_ref().is_some_and(|target| !target.is_special()) => {
                RejectsConfig::Beside(path.clone())
            }
            (None, _) => RejectsConfig::Nowhere,
        };
        Ok(OutputConfig {
            target,
            rejects,
            changes: self.changes.clone(),
            overwrite: self.overwrite,
        })
    }

    /// What may be replaced at the path of the output, as far as that is known before the run holds its lock: files
    /// that a ledger has the answers of, or everything with `--overwrite`.
    fn replace(&self, output: &Path) -> Replace {
        let has_answers = |ledger: &Path| ledger.metadata().is_ok_and(|file| file.len() > 0);
        let own = || has_answers(&ledger_of(output));
        // The ledger itself decides later what it knows. With a pipe as input it is decided here: nobody should wait
        // for rows first, and be refused then.
        let is_known = match &self.ledger {
            None => !self.no_ledger && own(),
            Some(shared) => {
                let is_file = { &self.input }
                    .as_deref()
                    .is_some_and(|path| path != Path::new("-"));
                is_file && has_answers(shared)
            }
        };
        if self.overwrite || self.retry_failed || is_known {
            Replace::Whole
        } else if self.ledger.as_deref().is_some_and(has_answers) {
            Replace::Partial
        } else {
            Replace::Nothing
        }
    }

    fn ledger(&self, output: &OutputConfig) -> Result<LedgerConfig> {
        let dedupe = !self.no_dedupe;
        let beside = output.target.as_ref().filter(|target| !target.is_special());
        let place = match (&self.ledger, beside) {
            (Some(path), _) => Some(LedgerPlace::Shared(path.clone())),
            (None, Some(target)) if !self.no_ledger => {
                Some(LedgerPlace::Beside(target.path().to_owned()))
            }
            _ => dedupe.then_some(LedgerPlace::Scratch),
        };
        let reuse = match self.max_age {
            // It uses the answers that the finished run used.
            _ if self.retry_failed => Reuse::Retry,
            Some(age) => Reuse::Younger(age),
            None if self.fresh => Reuse::Nothing,
            None => Reuse::All,
        };
        let keeps = matches!(place, Some(LedgerPlace::Shared(_) | LedgerPlace::Beside(_)));
        if reuse != Reuse::All && !keeps {
            let flag = match reuse {
                Reuse::Retry => "--retry-failed",
                Reuse::Nothing => "--fresh",
                Reuse::All | Reuse::Younger(_) => "--max-age",
            };
            return Err(Error::usage(format!(
                "`{flag}` needs a ledger, and rows to a stream have none of their own"
            ))
            .hint("name one with `--ledger FILE`"));
        }
        Ok(LedgerConfig {
            place,
            reuse,
            dedupe,
        })
    }
}
