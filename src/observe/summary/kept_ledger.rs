//! What the summary says about a ledger that stays.

use std::path::PathBuf;

use crate::base::error::shown;
use crate::observe::numbers::answers;
use crate::observe::words::same_command;
use crate::telemetry::event::CancelReason;
use crate::telemetry::stats::Stats;

/// A ledger that stays.
#[derive(Debug, Clone)]
pub(crate) struct KeptLedger {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// The number of this service's answers in it, if known.
    pub(crate) answers: Option<u64>,
    /// It belongs to this run alone, and is deleted once every row has a verdict and a decision.
    pub(crate) own: bool,
    /// The run was started with `--fresh`; with it, the next one would pay again.
    pub(crate) fresh: bool,
    /// It is damaged: no run can continue with it.
    pub(crate) damaged: bool,
}

impl KeptLedger {
    /// What stays for the next run, and what that run will do with it.
    pub(super) fn words(&self, stats: &Stats, sandbox: bool) -> String {
        let path = shown(&self.path);
        if self.damaged {
            return format!("{path} is damaged: no run can continue with it");
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
        // Otherwise the same rows would stop it again.
        let once = match stats.cancelled {
            Some(CancelReason::MaxFailures) => {
                "once rows are fixed or `--max-failures` is raised, "
            }
            _ => "",
        };
        let same = same_command(self.fresh);
        match (stats.cancelled, self.own, stats.failures()) {
            (Some(_), _, _) => then(format!("{once}{same} continues from there")),
            (None, _, 0) if stats.undecided > 0 => {
                then("`--retry-failed` with all levels listed decides without a call".to_owned())
            }
            (None, false, 0) => format!("the answers are kept in {path}"),
            (None, true, 0) => format!(
                "{}, also for other rows or another account; `--retry-failed` uses them, the next new run to this output replaces them",
                has.unwrap_or(path)
            ),
            (None, _, _) => {
                then("`--retry-failed` sends only the rows without a verdict".to_owned())
            }
        }
    }
}
