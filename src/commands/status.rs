//! `rescore status`: which runs of this user run, how far they are and why they wait, and how others have ended. It reads what
//! runs report of themselves, and asks neither a run nor a ledger.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use super::text::print;
use crate::base::error::{Error, Exit, Result};
use crate::base::numbers::DAY;
use crate::base::private_file::directory_of;
use crate::base::text::{display, printable};
use crate::config::StatusConfig;
use crate::ledger::status_directory;
use crate::observe::{RunPhase, RunStatus, from_utc, known_runs, moment, one_line, whole_seconds};
use crate::output::end_of_links;

/// Prints how runs are.
///
/// # Errors
/// Exit code 2: no run of this user is known that writes or wrote this output. Exit code 3: the result cannot be printed.
pub(crate) fn execute(config: &StatusConfig) -> Result<Exit> {
    let directory = status_directory();
    let mut runs = directory.as_deref().map(known_runs).unwrap_or_default();
    if let Some(output) = &config.output {
        let name = real_name(output);
        runs.retain(|run| run.output.as_ref() == Some(&name));
        if runs.is_empty() {
            let output = display(output);
            let error = format!("no run of this user is known that writes or wrote `{output}`");
            return Err(Error::usage(error).hint("`rescore status` shows the runs that are known"));
        }
    }
    let is_news =
        |run: &RunStatus| run.is_alive() || config.output.is_none() && run.since_report() < DAY;
    // Where there is no news, the last run is shown.
    if runs.iter().any(is_news) {
        runs.retain(is_news);
    } else {
        runs.truncate(1);
    }
    if config.json {
        let mut objects = runs.iter().map(one_line);
        return objects.try_fold(Exit::Complete, |_, object| print(&object));
    }
    let is_whole = config.output.is_some();
    let blocks: Vec<_> = runs.iter().map(|run| text(run, is_whole)).collect();
    if blocks.is_empty() {
        return print("no run of this user is known");
    }
    print(&blocks.join("\n\n"))
}

/// The path of a file with links followed, which need not be there. Both a run and the question about it are in these words.
pub(super) fn real_name(path: &Path) -> String {
    let end = end_of_links(path).unwrap_or_else(|_| path.to_owned());
    let directory = || fs::canonicalize(directory_of(&end)).ok();
    let missing = || Some(directory()?.join(end.file_name()?));
    let real = fs::canonicalize(&end).ok().or_else(missing);
    real.unwrap_or(end).to_string_lossy().into_owned()
}

/// How a run is, for people: `is_whole` is with all lines about its end.
fn text(run: &RunStatus, is_whole: bool) -> String {
    let times = [&run.start_time, &run.report_time].map(|time| from_utc(time));
    let ago = |time: SystemTime| whole_seconds(time.elapsed().unwrap_or_default());
    let ([lasts, silence], [start, report]) = (times.map(ago), times.map(moment));
    let host = run.host.as_ref().map(|host| format!(" on {host}"));
    let process = format!("process {}{}", run.pid, host.unwrap_or_default());
    let since = format!("since {start} ({lasts}), {process}");
    let code = run.exit_code.unwrap_or_default();
    let state = match run.state {
        RunPhase::Preparing => format!("preparing {since}"),
        RunPhase::Running => format!("running {since}"),
        RunPhase::Silent => format!("stopped or hanging, no report for {silence}: runs {since}"),
        RunPhase::Ended => format!("ended {report} with exit code {code}"),
        RunPhase::Killed => format!("killed, or the machine went down: last report {report}"),
    };
    let output = run.output.as_deref().unwrap_or("standard output");
    let head = format!("{} → {output}", run.input);
    let is_short = run.state == RunPhase::Ended && !is_whole;
    let most = if is_short { 1 } else { usize::MAX };
    let message = run.message.lines().take(most);
    let lines = [&*head, &*state].into_iter().chain(message);
    let lines = lines.chain(run.hint.as_deref()).map(printable);
    lines.collect::<Vec<_>>().join("\n  ")
}
