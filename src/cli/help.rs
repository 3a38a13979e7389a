//! What the help shows beside the options: examples, exit codes, variables, and which options `-h` leaves out.

use clap::Command;

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

/// What people use `rescore run` for.
const EXAMPLES: &str = "\
Examples:
  A whole user base; after an interruption, the same command continues:
    rescore run users.csv -o scored.csv --max-failures 5%
  Every night, paying only for users that are new, changed or not scored for 30 days:
    rescore run users.csv -o scored.csv --overwrite --max-age 30d -q
  The first 100 rows; the same command without `--limit` continues and pays for none of them again:
    rescore run users.csv -o scored.csv --limit 100";

/// What `-h` shows of `rescore run`: what most people need, in a screen and a half. `--help` shows everything.
pub(super) const COMMON: [&str; 23] = [
    "input",
    "output",
    "sandbox",
    "limit",
    "sample",
    "base_url",
    "service_id",
    "api_key_file",
    "map",
    "approve_max",
    "review_max",
    "concurrency",
    "rate",
    "max_calls",
    "price",
    "max_failures",
    "ledger",
    "max_age",
    "retry_failed",
    "changes",
    "overwrite",
    "quiet",
    "summary",
];

/// The help of `rescore run`: short for `-h`, complete for `--help`.
pub(super) fn of_run(run: Command, prefix: &str) -> Command {
    let note = note(prefix);
    run.mut_args(|argument| {
        let is_common = COMMON.contains(&argument.get_id().as_str());
        argument.hide_short_help(!is_common)
    })
    .after_help(format!(
        "{EXAMPLES}\n\n`--help` shows all options and the exit codes. {note}"
    ))
    .after_long_help(format!("{EXAMPLES}\n\n{EXIT_CODES}\n\n{note}"))
}

/// What people use `rescore check` for.
const CHECK_EXAMPLES: &str = "\
Examples:
  What would it cost, and what is wrong with my rows?
    rescore check users.csv --price 0.004 --currency EUR --rejects fix-first.csv
  Before the nightly run, with the answers that are already paid for:
    rescore check users.csv -o scored.csv --max-age 30d --rate 50/s
  For a script that asks before it spends:
    rescore check users.csv --json | jq .calls";

/// The exit codes of `rescore check`, as in `docs/reference.md`.
const CHECK_EXIT_CODES: &str = "\
Exit codes:
    0  every row can be sent
    1  some rows cannot be sent
    2  wrong usage, settings or input
    3  a file cannot be written";

/// Options of `run` that change what a check says, and how.
const OF_RUN_IN_CHECK: [(&str, &str); 10] = [
    (
        "output",
        "The output of the run, which is not written: what is in the ledger of its folder is paid for already",
    ),
    (
        "output_dir",
        "The directory of the run's outputs: what is in its ledger is paid for already, and files that are finished are skipped",
    ),
    (
        "rate",
        "Maximum rate of the calls, for the time that they take: `50/s`, `600/m`, `1000/h`, `unlimited` or `auto` [default: auto, unlimited with --sandbox]",
    ),
    ("fresh", "Use no answers from before the run first started"),
    ("no_ledger", "Use no answers"),
    (
        "retry_failed",
        "Count rows again that have failed although their call was or may have been billed",
    ),
    (
        "give_up_after",
        "With `never`, count the calls of a file whose first hundred rows all fail for the same reason; a run refuses it otherwise",
    ),
    (
        "accept_failures",
        "With `100%`, count the calls of a file that the run refuses otherwise, as with --give-up-after never",
    ),
    (
        "min_rows",
        "Warn if the input has fewer rows than this: the run sends nothing then",
    ),
    (
        "max_invalid",
        "Warn if more rows than this, or than this share of the rows, cannot be sent: the run sends nothing then",
    ),
];

/// What the help does not list.
const OTHERS_IN_CHECK: &str = "All other options of `rescore run` are accepted as well, so that `check` can stand in place of `run`. They change no count.";

/// The help of `rescore check`.
pub(super) fn of_check(check: Command, prefix: &str) -> Command {
    let note = note(prefix);
    let says = |check: Command, id: &'static str, help: &'static str| {
        check.mut_arg(id, |argument| {
            argument.help(help).long_help(help).hide(false)
        })
    };
    let check = OF_RUN_IN_CHECK
        .into_iter()
        .fold(check, |check, (id, help)| says(check, id, help));
    let check = says(check, "limit", "Check only the first N rows");
    let check = says(
        check,
        "sample",
        "Check only about this share of the rows, such as `1%`: those that `run --sample` takes",
    );
    let check = says(
        check,
        "price",
        "What a call costs, such as `0.004`, to show the cost of all calls",
    );
    check.after_help(format!(
        "{CHECK_EXAMPLES}\n\n{CHECK_EXIT_CODES}\n\n{OTHERS_IN_CHECK}\n\n{note}"
    ))
}

/// What people use `rescore decide` for.
const DECIDE_EXAMPLES: &str = "\
Examples:
  What would other thresholds do?
    rescore decide scored.csv --what-if
  The same file with other thresholds, and the rows whose decision changes:
    rescore decide scored.csv -o decided.csv --approve-max 3 --review-max 6 --changes changes.csv
  By a level that the run wrote with `--column risk_level=/summary/risk_level`:
    rescore decide scored.csv -o decided.csv --decide-by level=risk_level \\
      --approve-levels 0,low --review-levels 1,medium --block-levels 2,high";

/// The exit codes of `rescore decide`.
const DECIDE_EXIT_CODES: &str = "\
Exit codes:
    0  every row with a score has a decision
    1  finished, but some rows have no decision, or could not be read and stay as they were
    2  wrong usage, settings or input: nothing is written
    3  the output cannot be written: nothing is left of it";

/// The help of `rescore decide`.
pub(super) fn of_decide(decide: Command, prefix: &str) -> Command {
    let note = note(prefix);
    decide.after_help(format!(
        "{DECIDE_EXAMPLES}\n\n{DECIDE_EXIT_CODES}\n\n{note} {ONLY_TYPED}"
    ))
}

/// What people use `rescore report` for.
const REPORT_EXAMPLES: &str = "\
Examples:
  The verdicts of a run, with how the run went:
    rescore report scored.csv --run summary.json -o report.html
  What has changed since last month, and decisions by country:
    rescore report scored.csv --against last-month.csv --key id --by country -o report.html";

/// The exit codes of `rescore report`.
const REPORT_EXIT_CODES: &str = "\
Exit codes:
    0  the page is written, even if some rows have no verdict
    2  wrong usage, settings or input: nothing is written
    3  the page cannot be written";

/// What stands below the options of `rescore report`.
pub(super) fn of_report(prefix: &str) -> String {
    format!(
        "{REPORT_EXAMPLES}\n\n{REPORT_EXIT_CODES}\n\n{} {ONLY_TYPED}",
        note(prefix)
    )
}

/// What has no variable in a command that reads the output of a run.
const ONLY_TYPED: &str = "Options that say which files are written are only typed here: variables and settings files name the files of a run.";

/// How options are given by variables.
pub(super) fn note(prefix: &str) -> String {
    format!("Every option `--some-name` can also be given by the variable `{prefix}SOME_NAME`.")
}
