//! The help's texts beside the options: examples, exit codes, and which options fit on its one page. Manual pages and
//! completions are made from the same command line.

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

/// The exit codes, as in `docs/reference.md`.
pub(super) const EXIT_CODES: &str = "\
Exit codes:
    0  every row has a verdict and a decision, or failures are accepted
    1  finished, but some rows have no verdict or no decision
    2  wrong usage, settings or input
    3  stopped early; the same command continues
    4  refused by the service
    5  stopped by --max-calls, --max-cost or --max-failures; raise it to continue
   70  internal error
   75  another run holds the output or the ledger: try again later
  129  interrupted by SIGHUP
  130  interrupted by SIGINT (Ctrl-C)
  143  interrupted by SIGTERM";

/// What `-h` and `--help` show of `rescore run`: what most people need, on one page. `--help-all` shows everything.
const COMMON_IN_RUN: &str = "input output sandbox limit only base_url service_id api_key_file map set approve_max review_max \
    concurrency rate max_calls max_cost price max_failures ledger max_age retry_failed overwrite quiet summary";

/// What they show of `rescore check`.
const COMMON_IN_CHECK: &str = "input json output limit only base_url service_id map set default null phone_region invalid \
    price ledger max_age format encoding";

/// What has a variable: that which differs between machines.
const VARIABLES: &str = "\
Variables: RESCORE_BASE_URL, RESCORE_FREE_BASE_URL, RESCORE_SERVICE_ID, RESCORE_API_KEY, RESCORE_API_KEY_FILE, RESCORE_LEDGER, RESCORE_CONFIG and RESCORE_PROFILE stand for the options of these names. All options can be in the settings file.";

const RUN: &str = "\
Examples:
  A whole user base; after an interruption, the same command continues:
    rescore run users.csv -o scored.csv --max-failures 5%
  Every night, paying only for users that are new, changed or not scored for 30 days:
    rescore run users.csv -o scored.csv --overwrite --max-age 30d -q";

const CHECK: &str = "\
Examples:
  What would it cost, and what is wrong with my rows?
    rescore check users.csv --price '0.004 EUR'
  Before the nightly run, with the answers that are already paid for:
    rescore check users.csv -o scored.csv --max-age 30d";

const DECIDE: &str = "\
Examples:
  What would other thresholds do?
    rescore decide scored.csv --what-if
  The same file with other thresholds, and the rows whose decision changes:
    rescore decide scored.csv -o decided.csv --approve-max 3 --review-max 6 --changes changes.csv
  By a level that the run wrote with `--column risk_level=/summary/risk_level`:
    rescore decide scored.csv -o decided.csv --decide-by level=risk_level \\
      --approve-levels 0,low --review-levels 1,medium --block-levels 2,high";

const REPORT: &str = "\
Examples:
  The verdicts of a run, with how the run went:
    rescore report scored.csv --run summary.json -o report.html
  What has changed since last month, and decisions by country:
    rescore report scored.csv --against last-month.csv --key id --by country -o report.html";

/// The command with its texts, and with its most used options alone on the one page.
pub(super) fn with_texts(command: Command) -> Command {
    let (common, examples, codes) = match command.get_name() {
        "run" => (COMMON_IN_RUN, RUN, EXIT_CODES),
        "check" => (COMMON_IN_CHECK, CHECK, ""),
        "decide" => return command.after_help(DECIDE),
        "report" => return command.after_help(REPORT),
        _ => return command,
    };
    let long_help = [examples, VARIABLES, codes].join("\n\n");
    command
        .after_help(format!("{examples}\n\n`--help-all` shows all options."))
        .after_long_help(long_help.trim_end().to_owned())
        .mut_args(|arg| {
            let is_common = common.split_whitespace().any(|id| arg.get_id() == id);
            arg.hide_short_help(!is_common)
        })
}

/// The shells with completions.
pub(super) const SHELLS: &[(&str, Shell)] = &[
    ("bash", Shell::Bash),
    ("fish", Shell::Fish),
    ("zsh", Shell::Zsh),
];

/// The script with which a shell completes commands, options and values.
pub(super) fn completions(shell: Shell, mut command: Command) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "rescore", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// The main manual page.
pub(super) fn man_page(command: Command) -> String {
    let mut page = Vec::new();
    // Writing to memory cannot fail.
    let _ = Man::new(command).render(&mut page);
    String::from_utf8_lossy(&page).into_owned()
}
