//! The arguments of `rescore check`: those of `run`, with the same names and meanings. Those that change no count are
//! hidden.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, FromArgMatches as _};

use super::account::{AccountArgs, MissingSetting, refuse_address};
use super::columns::ColumnArgs;
use super::fields::{FIELDS, FieldArgs};
use super::format::{FILES, FormatArgs, source};
use super::policy;
use super::price::PriceArgs;
use super::run::RunArgs;
use super::run_options::RunOptions;
use super::selection::SelectionArgs;
use super::settings::SettingsArgs;
use super::sources::Sources;
use super::values::{self, DecideBy};
use crate::base::error::{Error, Result};
use crate::config::{CheckConfig, FilesConfig, LedgerChoice};
use crate::input::ReaderSettings;
use crate::layout::AddedColumns;
use crate::observe::Style;
use crate::service::Account;

const LEDGER: &str = "Ledger";

#[derive(Debug, Args)]
#[allow(
    clippy::struct_excessive_bools,
    clippy::doc_markdown,
    reason = "flags are bools, and these comments are the help's text"
)]
pub(super) struct CheckArgs {
    /// The users: CSV, TSV or JSONL files, plain, gzip or zstd; `-` or nothing is standard input
    ///
    /// A pattern such as `parts/*.csv` that the shell has not expanded is expanded.
    input: Vec<PathBuf>,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
    /// Show no progress, only warnings and errors
    #[arg(short, long)]
    quiet: bool,

    #[command(flatten)]
    price: PriceArgs,

    /// Look for paid answers in this file or postgresql:// database [default: rescore.ledger in the folder of the output]
    #[arg(long, value_name = "FILE", value_parser = values::file(), help_heading = LEDGER)]
    ledger: Option<PathBuf>,
    /// Use only answers that are not older than this, such as `30d` [default: answers do not age]
    #[arg(long, value_name = "TIME", value_parser = values::age, help_heading = LEDGER)]
    max_age: Option<Duration>,

    #[command(flatten)]
    selection: SelectionArgs,

    #[command(flatten)]
    account: AccountArgs,
    /// Look for the answers of the built-in stand-in
    #[arg(long, help_heading = super::account::SERVICE)]
    sandbox: bool,

    #[command(flatten)]
    fields: FieldArgs,
    /// Name the level that the run will decide by, as in `level=/summary/risk_level`
    #[arg(
        long, value_name = "score|level=PLACE", default_value = "score", value_parser = values::decide_by,
        help_heading = FIELDS
    )]
    decide_by: DecideBy,

    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    columns: ColumnArgs,
    /// Copy the rows that cannot be sent to this file, with the reason, in the form that `run` gives them; with -o, this
    /// is left to the run
    #[arg(long, value_name = "FILE", value_parser = values::file(), help_heading = FILES)]
    rejects: Option<PathBuf>,
    /// Count the rows of finished files in --output-dir as well; replace existing rejects
    #[arg(long, help_heading = FILES)]
    overwrite: bool,

    // Read before this is made.
    #[command(flatten)]
    settings: SettingsArgs,

    // The last: they are those that the others are not.
    #[command(flatten)]
    run: RunOptions,
}

impl CheckArgs {
    pub(super) fn into_config(self, sources: Sources<'_>) -> Result<CheckConfig> {
        self.price.check(sources)?;
        let (columns, mut captured) = self.columns.added()?;
        if let DecideBy::Level(place) = &self.decide_by {
            policy::capture(place, &mut captured)?;
        }
        let run = RunArgs::from_arg_matches(sources.matches())
            .map_err(|error| Error::internal("cannot read the options of `run`").because(error))?;
        let ledger = run.ledger()?;
        let keeps_answers = !matches!(ledger.choice, LedgerChoice::Nowhere);
        Ok(CheckConfig {
            files: FilesConfig {
                inputs: self.inputs(&columns, run.judges_first_rows())?,
                rejects: { self.rejects.clone() }
                    .filter(|_| run.output.is_none() && run.output_dir.is_none()),
                output: run.output.clone().filter(|path| path != Path::new("-")),
                directory: run.output_dir.clone(),
                changes: None,
                report: None,
                overwrite: self.overwrite,
            },
            limits: run.limits.limits(),
            plan: self.account.plan()?,
            ledger,
            account: { keeps_answers.then(|| self.account(sources)) }
                .transpose()?
                .flatten(),
            captured: captured.into(),
            rate: run.pace().rate,
            tariff: self.price.tariff(),
            json: self.json,
            style: if self.quiet {
                Style::Off
            } else {
                Style::automatic()
            },
        })
    }

    fn inputs(
        &self,
        columns: &AddedColumns,
        judges_first_rows: bool,
    ) -> Result<Vec<ReaderSettings>> {
        let settings = |input| {
            Ok(ReaderSettings {
                file: self.format.file(input)?,
                assignments: self.fields.assignments()?,
                phones: self.fields.phones(),
                columns: columns.clone(),
                judges_first_rows,
                selection: self.selection.selection(),
                scored: None,
            })
        };
        let named: Vec<_> = match self.input.as_slice() {
            [] => vec![None],
            paths => paths.iter().map(|path| Some(path.as_path())).collect(),
        };
        let named = named.into_iter();
        named
            .map(|path| settings(source(path, "rescore check users.csv")?))
            .collect()
    }

    /// The account whose answers are looked up; `None` is the only one that the ledger has.
    ///
    /// # Errors
    /// One of address and service ID is missing, or not valid.
    fn account(&self, sources: Sources<'_>) -> Result<Option<Account>> {
        if self.sandbox {
            refuse_address(sources)?;
            return Ok(Some(Account::of_sandbox()));
        }
        let given = self.account.given();
        if given.is_nothing() {
            return Ok(None);
        }
        // Nothing is sent, so nothing is sent unencrypted.
        let Some((endpoint, service_id)) = given.parse(true, sources)? else {
            return Err(MissingSetting::error(&given.missing()).hint(
                "without either, the ledger is used if all of its answers are of one service",
            ));
        };
        Ok(Some(Account::of_service(&endpoint, &service_id)))
    }
}
