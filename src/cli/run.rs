//! The arguments of `rescore run`, and the config that they make; and those of `rescore check`, which are the same, so that it
//! can stand in the place of `run`: those that change no count are accepted and have no effect.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgMatches, Args};
use serde_json::Value;

use super::fields::{ColumnArgs, FieldArgs, PolicyArgs, capture};
use super::files::{FILES, FormatArgs, SelectionArgs, refuse_terminal, source};
use super::help::{as_typed, output_for};
use super::service::ServiceArgs;
use super::settings::{SettingsArgs, is_typed};
use crate::base::error::{Error, Result};
use crate::base::numbers::Tolerance;
use crate::config::{
    BudgetConfig, CheckConfig, CountConfig, FilesConfig, InputLimits, LedgerConfig, PaceConfig,
    RunConfig, ServiceConfig, WatchConfig, values,
};
use crate::input::{Input, ReaderSettings};
use crate::layout::AddedColumns;
use crate::ledger::{LedgerLocation, Reuse, sandbox_beside};
use crate::raw_json::Pointer;
use crate::service::Account;

const PACE: &str = "Pace and limits";
const LEDGER: &str = "Ledger";
const WATCH: &str = "Progress and summary";

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// The users: a CSV, TSV or JSONL file, plain, gzip or zstd; `-` is standard input
    ///
    /// Several files need `--output-dir`. A pattern such as `parts/*.csv` that the shell has not expanded is expanded.
    input: Vec<PathBuf>,
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

    #[command(flatten, next_help_heading = PACE)]
    pace: PaceConfig,
    /// Time limit for one call
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = values::duration, help_heading = PACE)]
    timeout: Duration,
    #[command(flatten, next_help_heading = PACE)]
    budget: BudgetConfig,

    /// Keep paid answers in this file or postgresql:// database, and use those in it
    ///
    /// The default is your own: ~/.local/state/rescore/rescore.ledger, or in $STATE_DIRECTORY or $XDG_STATE_HOME if one is set. No
    /// run pays again for an answer that is in its ledger.
    #[arg(long, value_name = "FILE", env = "RESCORE_LEDGER", value_parser = values::file(), help_heading = LEDGER)]
    ledger: Option<PathBuf>,
    /// Ask again about rows whose answer is older than this, such as `30d`
    ///
    /// With a range, such as `24d..30d`, each request has its own fixed age limit in it, so that the answers of one night are asked
    /// for again over six nights. Without this option, answers never expire.
    #[arg(long, value_name = "TIME", value_parser = values::ages, help_heading = LEDGER)]
    max_age: Option<(Duration, Duration)>,
    /// Ask again about every row
    #[arg(long, conflicts_with = "max_age", help_heading = LEDGER)]
    fresh: bool,
    /// Also retry failed rows that were or may have been billed
    ///
    /// Every run asks again about other rows without a verdict. The new verdicts replace the failures in the output.
    #[arg(long, conflicts_with_all = ["fresh", "max_age", "limit", "sample"], help_heading = LEDGER)]
    retry_failed: bool,
    /// Keep no answers: whatever stops the run, the next one pays again
    #[arg(long, conflicts_with_all = ["max_age", "fresh", "retry_failed"], help_heading = LEDGER)]
    no_ledger: bool,
    /// Wait up to this long for another run that holds the output or the ledger, such as `10m`
    ///
    /// Without it, the run ends with exit code 75.
    #[arg(long, value_name = "TIME", value_parser = values::patience, help_heading = LEDGER)]
    wait_lock: Option<Duration>,

    #[command(flatten)]
    files: FilesConfig,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    columns: ColumnArgs,
    #[command(flatten, next_help_heading = FILES)]
    limits: InputLimits,

    #[command(flatten, next_help_heading = WATCH)]
    watch: WatchConfig,

    // Read before this is made.
    #[command(flatten)]
    settings: SettingsArgs,
}

/// The command line of a run with one input.
const EXAMPLE: &str = "rescore run users.csv -o scored.csv";

impl RunArgs {
    pub(super) fn into_config(self, given: &ArgMatches) -> Result<RunConfig> {
        // First: the end of an address that is not in quotes would be taken for an input.
        let ledger = self.ledger(given)?;
        let (columns, mut captured) = self.columns.added()?;
        let policy = self.policy.of_answers(&mut captured)?;
        let files = self.files(&columns)?;
        let service = if self.sandbox {
            Self::refuse_address(given)?;
            // Addresses and keys in variables are for other runs: the stand-in never gets the real key.
            ServiceConfig::Sandbox
        } else {
            self.service.config(self.timeout)?
        };
        let rows_on_terminal = files.name().is_none() && std::io::stdout().is_terminal();
        Ok(RunConfig {
            count: self.count(files, ledger, captured)?,
            service,
            timeout: self.timeout,
            pace: self.pace,
            policy,
            wait_lock: self.wait_lock,
            watch: WatchConfig {
                style: self.watch.style.chosen(rows_on_terminal),
                ..self.watch
            },
            profile: self.settings.profile,
            options: Value::Null,
        })
    }

    /// What decides how rows are counted.
    ///
    /// # Errors
    /// A flag of the paid plan with the free one, or a budget without what it needs.
    fn count(
        &self,
        files: FilesConfig,
        ledger: LedgerConfig,
        captured: Vec<Pointer>,
    ) -> Result<CountConfig> {
        self.refuse_rounds()?;
        Ok(CountConfig {
            files,
            limits: self.limits,
            plan: self.service.plan()?,
            call_limits: self.budget.call_limits(&ledger)?,
            ledger,
            captured: captured.into(),
            budget: self.budget.clone(),
        })
    }

    /// Refuses options with which the rounds of `--sample auto` would pay again for the rounds before, or count the wrong rows.
    fn refuse_rounds(&self) -> Result<()> {
        let others = [
            ("--limit", self.selection.limit.is_some()),
            ("--retry-failed", self.retry_failed),
            ("--no-ledger", self.no_ledger),
            (
                "standard output",
                self.files.output.is_some() && self.output().is_none(),
            ),
        ];
        let other = others.into_iter().find(|(_, is_given)| *is_given);
        match other.filter(|_| self.selection.grows()) {
            Some((other, _)) => Err(Error::usage(format!(
                "`--sample auto` and {other} cannot be used together: it runs in rounds, and each continues the one before"
            ))),
            None => Ok(()),
        }
    }

    /// Refuses `--sandbox` with an address on the command line: a user who types one means the service, and must not get
    /// made-up scores.
    pub(super) fn refuse_address(given: &ArgMatches) -> Result<()> {
        let addresses = ["--base-url", "--free-base-url"];
        match addresses.into_iter().find(|flag| is_typed(given, flag)) {
            None => Ok(()),
            Some(flag) => Err(Error::usage(format!(
                "`--sandbox` and `{flag}` cannot be used together: with `--sandbox` the built-in stand-in answers, not the service"
            ))
            .hint(format!("leave out `--sandbox` to call the service, or `{flag}` to call the stand-in"))),
        }
    }

    /// Whether to refuse a file whose first rows all fail for the same reason.
    pub(super) fn judges_first_rows(&self) -> bool {
        let budget = &self.budget;
        !budget.keep_going && !budget.accept_failures.is_some_and(Tolerance::is_everything)
    }

    fn files(&self, columns: &AddedColumns) -> Result<FilesConfig> {
        let inputs = self.inputs()?.into_iter();
        let inputs = inputs.map(|input| self.input(input, columns.clone()));
        Ok(FilesConfig {
            inputs: inputs.collect::<Result<_>>()?,
            output: self.output().cloned(),
            ..self.files.clone()
        })
    }

    /// The output; `None` for standard output.
    fn output(&self) -> Option<&PathBuf> {
        let output = self.files.output.as_ref();
        output.filter(|path| *path != Path::new("-"))
    }

    /// The input of a run with one output, or all those of a run with a directory of outputs.
    ///
    /// # Errors
    /// Their number does not fit, a name that an output needs is missing, or rows would fill the terminal.
    fn inputs(&self) -> Result<Vec<Input>> {
        // Word processors make them of hyphens.
        let has_dash = |input: &&PathBuf| input.to_string_lossy().starts_with(['–', '—']);
        if let Some(dashed) = self.input.iter().find(has_dash) {
            let what = as_typed(dashed) + " starts with a long dash";
            return Err(Error::usage(what)
                .hint("options start with one or two hyphens, as in `-o` and `--output`"));
        }
        if self.files.directory.is_some() {
            if self.input.is_empty() || self.input.iter().any(|input| input == Path::new("-")) {
                return Err(Error::usage("`--output-dir` needs the names of the inputs")
                    .hint("name them, as in `rescore run parts/*.csv --output-dir scored`"));
            }
            return Ok(self.input.iter().cloned().map(Input::File).collect());
        }
        if let [first, second, rest @ ..] = self.input.as_slice() {
            let (first, second) = (as_typed(first), as_typed(second));
            let more = if rest.is_empty() { "" } else { " …" };
            let error = Error::usage(format!(
                "`{first}` and `{second}` are two inputs for one output"
            ));
            return Err(error.hint(format!(
                "`rescore run {first} {second}{more} --output-dir scored` scores each of them; \
                 `rescore run {first} -o {second}` writes the rows of the first to the second"
            )));
        }
        let input = source(self.input.first().map(PathBuf::as_path), EXAMPLE)?;
        let command = match &input {
            Input::File(path) => format!(
                "rescore run {} -o {}",
                as_typed(path),
                output_for("scored", path)
            ),
            Input::Stdin => "rescore run - -o scored.csv".to_owned(),
        };
        refuse_terminal(self.files.output.as_deref(), &command)?;
        Ok(vec![input])
    }

    /// How this input is read.
    pub(super) fn input(&self, input: Input, columns: AddedColumns) -> Result<ReaderSettings> {
        Ok(ReaderSettings {
            file: self.format.file(input)?,
            assignments: self.fields.assignments()?,
            rules: self.fields.rules()?,
            columns,
            judges_first_rows: self.judges_first_rows(),
            notes_quality: false,
            refuses_cut: false,
            selection: self.selection.selection(),
            only: self.selection.only.clone(),
            key: self.files.changes_key.clone(),
            scored: None,
        })
    }

    /// Which answers are stored and used.
    ///
    /// # Errors
    /// The address of a ledger's server is not one.
    pub(super) fn ledger(&self, given: &ArgMatches) -> Result<LedgerConfig> {
        // A ledger in the variable or the settings file gives way to `--no-ledger`.
        if self.no_ledger && is_typed(given, "--ledger") {
            return Err(
                Error::usage("`--ledger` and `--no-ledger` cannot be used together")
                    .hint("leave one of them out"),
            );
        }
        let is_typed = is_typed(given, "--ledger");
        Ok(LedgerConfig {
            is_kept: !self.no_ledger,
            named: match &self.ledger {
                // Made-up answers stay out of it.
                Some(ledger) if self.sandbox && !is_typed => sandbox_beside(ledger),
                Some(ledger) => Some(LedgerLocation::named(ledger)?),
                None => None,
            },
            reuse: match self.max_age {
                Some((least, most)) => Reuse::Recent { least, most },
                None if self.retry_failed => Reuse::Retry,
                None if self.fresh => Reuse::Nothing,
                None => Reuse::All,
            },
        })
    }
}

// A doc comment would be taken for the help of the command.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
    /// Also print the first N requests exactly as they would be sent, without the key
    #[arg(long, value_name = "N", default_value = "0", hide_default_value = true)]
    show: usize,
}

impl CheckArgs {
    pub(super) fn into_config(self, given: &ArgMatches) -> Result<CheckConfig> {
        let run = self.run;
        let (columns, mut captured) = run.columns.added()?;
        if let Some(place) = run.policy.level() {
            capture(place, &mut captured)?;
        }
        let named: Vec<_> = match run.input.as_slice() {
            [] => vec![None],
            paths => paths.iter().map(|path| Some(path.as_path())).collect(),
        };
        let input = |path: Option<&Path>| {
            let source = source(path, "rescore check users.csv")?;
            run.input(source, columns.clone())
        };
        let inputs = named.into_iter().map(input).collect::<Result<_>>()?;
        let ledger = run.ledger(given)?;
        let account = if run.no_ledger {
            None
        } else if run.sandbox {
            RunArgs::refuse_address(given)?;
            Some(Account::of_sandbox())
        } else {
            run.service.account()?
        };
        let files = FilesConfig {
            inputs,
            rejects: None,
            output: run.output().cloned(),
            changes: None,
            report: None,
            ..run.files.clone()
        };
        Ok(CheckConfig {
            count: run.count(files, ledger, captured)?,
            account,
            json: self.json,
            show: self.show,
        })
    }
}
