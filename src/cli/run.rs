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
use crate::input::{FormatChoice, Input, Settings};
use crate::layout::{PREVIOUS, VERDICT_COLUMNS};
use crate::ledger::{LedgerLocation, Reuse, ledger_of};
use crate::output::{Replace, Target};
use crate::pace::{FailureBudget, FailureLimit, GiveUpAfter, Rate};
use crate::raw_json::Pointer;
use crate::scorer::Patience;
use crate::service::Plan;
use crate::verdict::DecisionPolicy;

const SERVICE: &str = "Service";
const FIELDS: &str = "Fields";
const PACE: &str = "Pace";
const LEDGER: &str = "Ledger";
const FILES: &str = "Files";
const WATCH: &str = "Watching";

#[derive(Debug, Args)]
#[allow(
    clippy::struct_excessive_bools,
    clippy::doc_markdown,
    reason = "flags are bools, and these comments are the help's text"
)]
pub(super) struct RunArgs {
    /// The users: CSV, TSV or JSONL, plain, gzip or zstd; `-` or nothing is standard input
    input: Option<PathBuf>,
    /// Where the rows go, compressed when it ends in .gz or .zst; `-` or nothing is standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Ask a built-in stand-in instead of the service; needs no key, costs nothing, its scores mean nothing
    #[arg(long)]
    sandbox: bool,

    /// The paid plan's base address
    #[arg(long, value_name = "URL", help_heading = SERVICE)]
    base_url: Option<String>,
    /// The free plan's base address
    #[arg(long, value_name = "URL", help_heading = SERVICE)]
    free_base_url: Option<String>,
    /// The plan to use
    #[arg(long, value_enum, default_value = "paid", help_heading = SERVICE)]
    plan: PlanArg,
    /// The calling application's identifier (header X-Service-ID)
    #[arg(long, value_name = "ID", help_heading = SERVICE)]
    service_id: Option<String>,
    /// A file with the API key, instead of the variable `RESCORE_API_KEY`; the key is never an argument
    #[arg(long, value_name = "FILE", help_heading = SERVICE)]
    api_key_file: Option<PathBuf>,
    /// Ask for VPN and proxy detection (paid plan)
    #[arg(long, help_heading = SERVICE)]
    vpn_check: bool,
    /// Ask for advanced processing (paid plan)
    #[arg(long, help_heading = SERVICE)]
    advanced: bool,
    /// Allow an address that is not HTTPS: keys and personal data would be sent unencrypted
    #[arg(long, help_heading = SERVICE)]
    allow_http: bool,
    /// A certificate to trust as well, in PEM: a company's own authority, or the service's own certificate
    #[arg(long, value_name = "FILE", help_heading = SERVICE)]
    ca_file: Option<PathBuf>,

    /// Take a field (name, email, phone, ip, user_agent) from this column, from several as `name={first} {last}`, or
    /// in JSONL from a JSON pointer as `ip=/device/ip` (repeatable)
    #[arg(long, value_name = "FIELD=COLUMN", value_delimiter = '\n', value_parser = values::map, help_heading = FIELDS)]
    map: Vec<Map>,
    /// Send the same value for a field in every row (repeatable)
    #[arg(long, value_name = "FIELD=VALUE", value_delimiter = '\n', value_parser = values::set, help_heading = FIELDS)]
    set: Vec<Set>,
    /// What to do with a phone number that is not international
    #[arg(long, value_name = "ACTION", value_enum, default_value = "reject", help_heading = FIELDS)]
    invalid_phone: PhoneArg,
    /// Append a further field of the answer, such as `risk_level=/summary/risk_level` (repeatable)
    #[arg(long, value_name = "NAME=POINTER", value_delimiter = '\n', value_parser = values::column, help_heading = FIELDS)]
    column: Vec<Column>,
    /// Approve up to this score
    #[arg(long, value_name = "SCORE", default_value = "2", allow_negative_numbers = true, value_parser = values::threshold, help_heading = FIELDS)]
    approve_max: Decimal,
    /// Review up to this score, block above it
    #[arg(long, value_name = "SCORE", default_value = "5", allow_negative_numbers = true, value_parser = values::threshold, help_heading = FIELDS)]
    review_max: Decimal,

    /// Calls in flight at most; as many as the service is found to bear, up to this [default: 512, or as many as files may
    /// be open]
    #[arg(short, long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(1..=10_000), help_heading = PACE)]
    concurrency: Option<u16>,
    /// Calls at most, as `50/s`, `600/m`, `1000/h` or `unlimited`; `auto` finds what the service bears [default: auto,
    /// unlimited with --sandbox]
    #[arg(short, long, allow_hyphen_values = true, help_heading = PACE)]
    rate: Option<Rate>,
    /// Further attempts for a row whose call failed; a 429 uses up none
    #[arg(long, value_name = "N", default_value = "4", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(0..=100), help_heading = PACE)]
    retries: u32,
    /// How many of them may follow a call whose outcome is unknown and which may be billed twice
    #[arg(long, value_name = "N", default_value = "1", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(0..=100), help_heading = PACE)]
    resend_unknown: u32,
    /// From a call's begin to its answer's end
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = values::duration, help_heading = PACE)]
    timeout: Duration,
    /// For making a connection
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = values::duration, help_heading = PACE)]
    connect_timeout: Duration,
    /// Stop when the service asks for a longer pause, or for pauses of so long in all without an answer in between
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = values::patience, help_heading = PACE)]
    max_wait: Duration,
    /// Stop when the service has been down for so long
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = values::patience, help_heading = PACE)]
    max_outage: Duration,

    /// Calls at most, those for rows that are tried again included
    #[arg(long, value_name = "N", value_parser = values::count, allow_negative_numbers = true, help_heading = PACE)]
    max_calls: Option<NonZeroU64>,
    /// Stop at the Nth row that fails (1: at the first), or at a share of the rows as `5%`, counted from the hundredth on
    #[arg(long, value_name = "N|N%", value_parser = values::failure_limit, allow_negative_numbers = true, help_heading = PACE)]
    max_failures: Option<FailureLimit>,

    /// Stop after so many rows in a row without a verdict, or `never` [default: 3 refused or useless answers before the
    /// first verdict, 20 useless ones later, 100 first rows that cannot be sent]
    #[arg(long, value_name = "N|never", value_parser = values::give_up_after, allow_negative_numbers = true, help_heading = PACE)]
    give_up_after: Option<GiveUpAfter>,

    /// Keep paid answers in this file, which other runs may use too, also at once [default: OUTPUT.ledger, until every
    /// row has a verdict]
    #[arg(long, value_name = "FILE", value_parser = values::file(), help_heading = LEDGER)]
    ledger: Option<PathBuf>,
    /// Use answers that are not older, such as `7d` [default: all]
    #[arg(long, value_name = "TIME", value_parser = values::age, help_heading = LEDGER)]
    max_age: Option<Duration>,
    /// Ask everything anew: throws away what OUTPUT.ledger has, or with --ledger uses no answer that is there
    #[arg(long, conflicts_with = "max_age", help_heading = LEDGER)]
    fresh: bool,
    /// Ask only the rows without a verdict of the finished run to this output again, and put them in their places
    #[arg(long, conflicts_with = "fresh", help_heading = LEDGER)]
    retry_failed: bool,
    /// Keep no answers: a run that stops cannot go on
    #[arg(long, conflicts_with_all = ["ledger", "max_age", "fresh", "retry_failed"], help_heading = LEDGER)]
    no_ledger: bool,
    /// Ask about every row, also equal ones; answers then belong to row numbers, so a run that continues on an edited input
    /// asks again about rows that moved
    #[arg(long, help_heading = LEDGER)]
    no_dedupe: bool,

    /// The format [default: by the name's end, or by a look at the first bytes]
    #[arg(long, value_enum, help_heading = FILES)]
    format: Option<FormatArg>,
    /// The byte between cells, or `tab` [default: found out among , ; tab |]
    #[arg(long, value_name = "CHARACTER", value_parser = values::delimiter, help_heading = FILES)]
    delimiter: Option<u8>,
    /// The file has no header: its first row is a user, and `--map` takes the numbers of columns, as in `email=3`
    #[arg(long, help_heading = FILES)]
    no_header: bool,
    /// What to do with columns of an earlier run in the input; other columns with the same names are never replaced
    #[arg(long, value_name = "ACTION", value_enum, default_value = "replace", help_heading = FILES)]
    existing: ExistingArg,
    /// Put this in front of the names of all new columns, as in `rescore_decision`
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true, value_parser = values::prefix, help_heading = FILES)]
    prefix: String,
    /// Where rows without a verdict go as well, with the reason [default: OUTPUT.rejects.csv or .jsonl]
    #[arg(long, value_name = "FILE", value_parser = values::file(), help_heading = FILES)]
    rejects: Option<PathBuf>,
    /// Where rows go as well whose decision is another one than before, with old and new score. Earlier decisions and
    /// scores are found in the input, as in last night's output, or in the ledger
    #[arg(long, value_name = "FILE", value_parser = values::file(), help_heading = FILES)]
    changes: Option<PathBuf>,
    /// Replace output, rejects and changes that exist
    #[arg(long, help_heading = FILES)]
    overwrite: bool,
    /// The longest record in bytes: a quote that is never closed must not swallow the file
    #[arg(long, value_name = "BYTES", default_value = "16777216", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1_024..=1_073_741_824), help_heading = FILES)]
    max_record_bytes: u32,

    /// How progress is shown on standard error
    #[arg(long, value_name = "STYLE", value_enum, default_value = "auto", help_heading = WATCH)]
    progress: ProgressArg,
    /// Time between lines of progress
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = values::duration, help_heading = WATCH)]
    progress_every: Duration,
    /// Say nothing but warnings and errors
    #[arg(short, long, help_heading = WATCH)]
    quiet: bool,
    /// Write the summary as JSON
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

    /// Names of all columns that we write, and where the further ones come from.
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
                "`--column`: there is a column {} already",
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

    fn input(&self, columns: Vec<String>) -> Result<Settings> {
        let input = match &self.input {
            Some(path) if path != Path::new("-") => Input::File(path.clone()),
            _ if std::io::stdin().is_terminal() => {
                return Err(Error::usage("no input").hint(
                    "name a file as in `rescore run users.csv -o scored.csv`, or pipe rows in",
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
                "`--delimiter` has no meaning with `--format jsonl`",
            ));
        }
        Ok(Settings {
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
            // First of all: the hint to overwrite an output that exists must never be given for the input.
            places::refuse_clashes(&[Place::input(input), Place::output(path)])?;
        }
        let target = path
            .map(|path| Target::new(path, |real| self.replace(real)))
            .transpose()?;
        let rejects = match (&self.rejects, path) {
            (Some(path), _) => RejectsConfig::At(path.clone()),
            // Beside `/dev/null` there is no place for files.
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

    /// What may be written over at the place of the output, as far as it can be told before the run has the place for
    /// itself: what a ledger has the answers of, or what we are told to.
    fn replace(&self, output: &Path) -> Replace {
        let has_answers = |ledger: &Path| ledger.metadata().is_ok_and(|file| file.len() > 0);
        let own = || has_answers(&ledger_of(output));
        // Of what they know, the ledger itself has the last word. A pipe is not waited for to be refused then.
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
        let location = match (&self.ledger, beside) {
            (Some(path), _) => Some(LedgerLocation::Shared(path.clone())),
            (None, Some(target)) if !self.no_ledger => {
                Some(LedgerLocation::Beside(target.path().to_owned()))
            }
            _ => dedupe.then_some(LedgerLocation::Scratch),
        };
        let reuse = match self.max_age {
            // It uses what the finished run used, whatever that is.
            _ if self.retry_failed => Reuse::Retry,
            Some(age) => Reuse::Younger(age),
            None if self.fresh => Reuse::Nothing,
            None => Reuse::All,
        };
        let keeps = matches!(
            location,
            Some(LedgerLocation::Shared(_) | LedgerLocation::Beside(_))
        );
        if reuse != Reuse::All && !keeps {
            let flag = match reuse {
                Reuse::Retry => "--retry-failed",
                Reuse::Nothing => "--fresh",
                Reuse::All | Reuse::Younger(_) => "--max-age",
            };
            return Err(Error::usage(format!(
                "`{flag}` has no meaning without a ledger, and a stream has none of its own"
            ))
            .hint("name one with `--ledger FILE`"));
        }
        Ok(LedgerConfig {
            location,
            reuse,
            dedupe,
        })
    }
}
