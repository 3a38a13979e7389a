//! What the help shows beside the options: examples, exit codes, variables, and which options `-h` leaves out.

use clap::Command;

/// The exit codes, as in `docs/reference.md`.
pub(super) const EXIT_CODES: &str = "\
Exit codes:
    0  every row has a verdict and a decision
    1  finished, but some rows have no verdict or no decision
    2  wrong usage, settings or input
    3  stopped early; the same command continues
    4  refused by the service
   70  internal error
  129  interrupted by SIGHUP
  130  interrupted by SIGINT (Ctrl-C)
  143  interrupted by SIGTERM";

/// What people use `rescore run` for.
const EXAMPLES: &str = "\
Examples:
  A whole user base; after an interruption, the same command continues:
    rescore run users.csv -o scored.csv --max-failures 5%
  Every night, paying only for users that are new, changed or not scored for 30 days:
    rescore run users.csv -o scored.csv --overwrite --ledger answers.ledger --max-age 30d -q
  A quick look in a pipe, for 1,000 calls at most:
    head -n 1001 users.csv | rescore run --ledger answers.ledger --max-calls 1000 > sample.csv";

/// What `-h` shows of `rescore run`: what most people need, in a screen and a half. `--help` shows everything.
pub(super) const COMMON: [&str; 20] = [
    "input",
    "output",
    "sandbox",
    "base_url",
    "service_id",
    "api_key_file",
    "map",
    "approve_max",
    "review_max",
    "concurrency",
    "rate",
    "max_calls",
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

/// How options are given by variables.
pub(super) fn note(prefix: &str) -> String {
    format!("Every option `--some-name` can also be given by the variable `{prefix}SOME_NAME`.")
}
