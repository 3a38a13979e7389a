//! When the run must give up instead of letting row after row fail.
//!
//! A wrong key, address or plan, or a service that is gone, must cost a few calls, not one for every row.

use crate::base::error::Error;
use crate::base::numbers::Tolerance;
use crate::telemetry::counts::Counts;
use crate::verdict::most_frequent;

/// The trouble that a call or a row had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// A success without a verdict, which is billed.
    Useless,
    /// The service refuses the row.
    Refused,
    /// A bare 403.
    Forbidden,
    /// The host's name has no address.
    HostNotFound,
    /// A row used up its retries because the service cannot be reached or answers with errors.
    GaveUp,
}

/// Rows without a verdict at the start that stop the run: one may be a bad row, and two bad luck. Each sends a person's
/// data and may be billed. This number of bare 403 answers in a row stops it at any time: one is a firewall that dislikes a row, three
/// are a revoked key.
pub(crate) const AT_START: u32 = 3;
/// Useless answers in a row that stop the run later, all of them billed: a maintenance page stays longer than that, a bad
/// part of a file is shorter.
pub(crate) const LATER: u32 = 20;
/// Refused rows in a row that stop the run, also if the service gave verdicts before: a service that has started to refuse
/// everybody would be sent the whole file. A file may well have some tens of bad rows in a row.
pub(crate) const MOST_REFUSED: u32 = 100;

/// Counts trouble in a row, and says when it is too much.
#[derive(Debug, Default)]
pub(crate) struct GiveUpPolicy {
    /// The run continues all the same, as `--keep-going` says.
    pub(crate) keep_going: bool,
    /// A call of this run brought a verdict.
    pub(crate) has_verdicts: bool,
    /// An earlier run had verdicts from this service for this account. A resumed run asks only for rows that failed: if the first
    /// of them fails again, that says little about the service.
    pub(crate) worked_before: bool,
    /// The service refused a row although it worked before: it does its work.
    pub(crate) works: bool,
    /// Rows in a row that count before the first verdict.
    without_verdict: u32,
    useless: u32,
    refused: u32,
    forbidden: u32,
}

impl GiveUpPolicy {
    /// A policy before the first call.
    pub(crate) fn new(keep_going: bool) -> Self {
        Self {
            keep_going,
            ..Self::default()
        }
    }

    /// A call brought a verdict.
    pub(crate) const fn verdict(&mut self) {
        self.has_verdicts = true;
        self.without_verdict = 0;
        self.useless = 0;
        self.refused = 0;
        self.forbidden = 0;
    }

    /// The service answered something about this row: it works.
    pub(crate) const fn answered(&mut self) {
        self.forbidden = 0;
    }

    /// Counts trouble. Returns how many rows in a row had it, if the run must stop for that. `of_other_program`: the answer seems
    /// to come from something other than the service, such as a proxy, a login page, or another program on a wrong port.
    pub(crate) fn after(&mut self, trouble: Trouble, of_other_program: bool) -> Option<u32> {
        let stops = match trouble {
            Trouble::Useless => {
                self.useless += 1;
                self.without_verdict += 1;
                return self.without_verdict(of_other_program);
            }
            Trouble::Refused => {
                self.answered();
                self.refused += 1;
                // The service gave verdicts before, and a nightly run may send only rows that it always refuses.
                if self.worked_before && !of_other_program {
                    self.works = true;
                } else {
                    self.without_verdict += 1;
                }
                return self.without_verdict(of_other_program);
            }
            Trouble::Forbidden => {
                self.forbidden += 1;
                self.refused += 1;
                (!self.has_verdicts && !self.worked_before) || self.forbidden >= AT_START
            }
            Trouble::HostNotFound => !self.has_verdicts,
            // Later the circuit breaker notices, and waits for the service to come back.
            Trouble::GaveUp => !self.has_verdicts && !self.worked_before,
        };
        stops.then_some(1)
    }

    const fn without_verdict(&self, of_other_program: bool) -> Option<u32> {
        let (rows, most) = if self.refused >= MOST_REFUSED {
            (self.refused, MOST_REFUSED)
        } else if self.has_verdicts {
            (self.useless, LATER)
        } else {
            let most = if of_other_program { 1 } else { AT_START };
            (self.without_verdict, most)
        };
        if rows >= most && !self.keep_going {
            Some(rows)
        } else {
            None
        }
    }
}

/// A share counts from this many rows: the first row of a file may be its worst.
const ROWS_OF_A_SHARE: u64 = 100;

/// The error that stops the run once so many rows have failed.
pub(crate) fn failures_used_up(limit: Option<Tolerance>, counts: &Counts) -> Option<Error> {
    // With earlier failures, a run that was stopped by them would stop again immediately, although it does not retry them.
    let failed = counts.state.newly_failed.values().sum::<u64>();
    let (resolved, limit) = (counts.chosen(), limit?);
    let is_reached = match limit {
        Tolerance::Rows(most) => failed >= most,
        Tolerance::Percent(most) => {
            resolved >= ROWS_OF_A_SHARE && failed as f64 >= resolved as f64 * most / 100.0
        }
    };
    if !is_reached {
        return None;
    }
    let mut error = Error::limited(format!(
        "{failed} of {resolved} rows failed: `--max-failures {limit}` is reached"
    ));
    let before = counts.failed.rows - failed;
    if before > 0 {
        let words = format!("{before} that failed before this start do not count");
        error = error.detail(words);
    }
    let reasons = most_frequent(&counts.state.newly_failed);
    let error = error
        .detail(format!("most frequent: {reasons}"))
        .hint("fix the rows that fail, start again once the service has recovered, or raise `--max-failures`");
    Some(error)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::row::RowNumber;
    use crate::telemetry::event::{Event, Origin};
    use crate::verdict::{Reason, Resolution};

    // The trouble, and whether another program seems to have answered.
    const USELESS: (Trouble, bool) = (Trouble::Useless, false);
    const REFUSED: (Trouble, bool) = (Trouble::Refused, false);
    const USELESS_PAGE: (Trouble, bool) = (Trouble::Useless, true);
    const REFUSED_PAGE: (Trouble, bool) = (Trouble::Refused, true);

    fn after(policy: &mut GiveUpPolicy, trouble: (Trouble, bool)) -> Option<u32> {
        policy.after(trouble.0, trouble.1)
    }

    fn stops_after(policy: &mut GiveUpPolicy, trouble: (Trouble, bool)) -> Option<usize> {
        (1..=200).find(|_| after(policy, trouble).is_some())
    }

    #[test]
    fn at_the_start_little_trouble_is_enough_and_later_it_takes_several_in_a_row() {
        // The number that stops a first run, a run with verdicts in its ledger, and a run that has had a verdict.
        for (trouble, first, known, works) in [
            (USELESS, Some(3), Some(3), Some(20)),
            (REFUSED, Some(3), Some(100), Some(100)),
            (USELESS_PAGE, Some(1), Some(1), Some(20)),
            (REFUSED_PAGE, Some(1), Some(1), Some(100)),
            ((Trouble::Forbidden, false), Some(1), Some(3), Some(3)),
            ((Trouble::HostNotFound, false), Some(1), Some(1), None),
            ((Trouble::GaveUp, false), Some(1), None, None),
        ] {
            let [mut new, mut resumed, mut working] = [(); 3].map(|()| GiveUpPolicy::default());
            resumed.worked_before = true;
            working.verdict();
            let found = [&mut new, &mut resumed, &mut working].map(|it| stops_after(it, trouble));
            assert_eq!(found, [first, known, works], "{trouble:?}");
        }
        let mut mixed = GiveUpPolicy::default();
        let followed = [USELESS, REFUSED, USELESS].map(|trouble| after(&mut mixed, trouble));
        let expected = [None, None, Some(3)];
        assert_eq!(followed, expected);
        // A verdict in between ends the row of them.
        for trouble in [(Trouble::Forbidden, false), USELESS] {
            let mut policy = GiveUpPolicy::default();
            for _ in 0..100 {
                policy.verdict();
                assert_eq!(after(&mut policy, trouble), None);
            }
        }
    }

    #[test]
    fn a_service_that_is_known_may_refuse_rows_at_the_start() {
        let mut usual = GiveUpPolicy {
            worked_before: true,
            ..GiveUpPolicy::default()
        };
        assert!(!usual.works);
        for _ in 0..90 {
            assert_eq!(after(&mut usual, REFUSED), None);
        }
        assert!(usual.works);
        assert_eq!(stops_after(&mut usual, USELESS), Some(3), "that is billed");
    }

    #[test]
    fn ninety_nine_refused_rows_and_a_verdict_never_stop_a_run() {
        let mut policy = GiveUpPolicy::default();
        for _ in 0..3 {
            policy.verdict();
            for _ in 0..99 {
                assert_eq!(after(&mut policy, REFUSED), None);
            }
        }
        assert_eq!(after(&mut policy, REFUSED), Some(100));
    }

    #[test]
    fn a_run_that_keeps_going_never_gives_up() {
        for trouble in [USELESS, REFUSED, USELESS_PAGE] {
            assert_eq!(stops_after(&mut GiveUpPolicy::new(true), trouble), None);
        }
    }

    #[test]
    fn failures_of_this_start_stop_at_their_limit_and_the_most_frequent_reasons_are_named() {
        let good = (Resolution::Scored(None), Origin::Called);
        let failed = |reason, origin| (Resolution::Failed(reason), origin);
        let before = failed(Reason::Refused, Origin::Ledger(None));
        let ip = failed(Reason::InvalidIp, Origin::Called);
        let name = failed(Reason::MissingName, Origin::Duplicate);
        let [five, two] = [5, 2].map(Tolerance::Rows);
        let percent = Tolerance::Percent(10.0);
        // How many rows had failed before, are good, lack an IP address and lack a name.
        for (most, times, words) in [
            (five, [0, 9, 1, 3], ""),
            (five, [0, 9, 2, 3], "missing_name 3, invalid_ip 2"),
            (two, [5, 0, 1, 0], ""),
            (two, [5, 0, 2, 0], "2 of 7 rows failed: `--max-failures 2`"),
            (two, [5, 0, 2, 0], "5 that failed before this start do not"),
            // A share is not judged by the first rows.
            (percent, [0, 0, 99, 0], ""),
            (percent, [0, 91, 9, 0], ""),
            (percent, [0, 90, 10, 0], "10 of 100 rows failed"),
        ] {
            let mut counts = Counts::default();
            for ((resolution, origin), times) in [before, good, ip, name].into_iter().zip(times) {
                for _ in 0..times {
                    let row = RowNumber::FIRST;
                    let event = Event::RowResolved {
                        row,
                        resolution,
                        origin,
                    };
                    counts.apply(Duration::ZERO, &event);
                }
            }
            let error = failures_used_up(Some(most), &counts);
            let report = error.map(|error| error.report()).unwrap_or_default();
            assert_eq!(report.is_empty(), words.is_empty(), "{times:?}: {report}");
            assert!(report.contains(words), "{report}");
        }
    }
}
