//! What the summary says of a ledger that stays.

use std::path::PathBuf;

use super::words::{answers, same_command};
use crate::base::error::shown;
use crate::telemetry::event::CancelReason;
use crate::telemetry::stats::Stats;

/// A ledger that stays.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Answers of this service in it, where that is known.
    pub(crate) answers: Option<u64>,
    /// It is the run's own, and goes when every row has a verdict.
    pub(crate) own: bool,
    /// The run was told to start over: told so again, the next one would pay again.
    pub(crate) fresh: bool,
    /// It is damaged: no run goes on with it.
    pub(crate) damaged: bool,
}

impl Kept {
    /// What stays for the next run, and what that will do with it.
    pub(super) fn words(&self, stats: &Stats, sandbox: bool) -> String {
        let path = shown(&self.path);
        if self.damaged {
            return format!("{path} is damaged, and no run can go on with it");
        }
        let has = match self.answers {
            Some(0) => None,
            Some(number) => Some(answers(number, sandbox)),
            None if sandbox => Some("the answers".to_owned()),
            None => Some("the paid answers".to_owned()),
        };
        let has = has.map(|answers| format!("{path} has {answers}"));
        let then = |what: String| match &has {
            Some(has) => format!("{has}; {what}"),
            None => what,
        };
        // As it is, the same rows would stop it again.
        let once = match stats.cancelled {
            Some(CancelReason::MaxFailures) => {
                "once rows are fixed or `--max-failures` is raised, "
            }
            _ => "",
        };
        let same = same_command(self.fresh);
        match (stats.cancelled, self.own, stats.failures()) {
            (Some(_), _, _) => then(format!("{once}{same} goes on from there")),
            (None, false, 0) => format!("the answers are kept in {path}"),
            (None, true, 0) => format!(
                "{}, of other rows or for another account too; `--retry-failed` uses them, the next new run to this output replaces them",
                has.unwrap_or(path)
            ),
            (None, _, _) => {
                then("`--retry-failed` asks only the rows without a verdict".to_owned())
            }
        }
    }
}
