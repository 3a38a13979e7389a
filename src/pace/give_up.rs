//! When the run must give up instead of letting row after row fail.
//!
//! A wrong key, address or plan, or a service that is gone, must cost a few calls, not one for every row.

/// The trouble that a call or a row had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// A success without a verdict, which is billed.
    Useless(AnsweredBy),
    /// The service refuses the row.
    Refused(AnsweredBy),
    /// A bare 403.
    Forbidden(AnsweredBy),
    /// The host's name has no address.
    HostNotFound,
    /// A row used up its attempts because the service cannot be reached or answers with errors.
    GaveUp,
}

/// Who seems to have answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnsweredBy {
    /// Something that answers with JSON, or with nothing.
    Service,
    /// Something else: a proxy, a login page, another program on a wrong port.
    OtherProgram,
}

/// How the run reacts to trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// Only the row fails.
    Continue,
    /// The run stops: this many rows in a row had no verdict.
    Stop(u32),
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
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct GiveUpPolicy {
    /// The run continues all the same, as `--keep-going` says.
    keep_going: bool,
    /// There was a verdict in this run.
    verdicts: bool,
    /// An earlier run had verdicts from this service for this account.
    known: bool,
    /// The service refused a row although it is known: it does its work.
    works: bool,
    /// Rows in a row that count before the first verdict.
    without_verdict: u32,
    useless: u32,
    refused: u32,
    forbidden: u32,
}

impl GiveUpPolicy {
    /// A policy that has seen nothing yet.
    pub(crate) fn new(keep_going: bool) -> Self {
        Self {
            keep_going,
            ..Self::default()
        }
    }

    /// Whether a refusal has shown that the service does its work.
    pub(crate) const fn works(&self) -> bool {
        self.works
    }

    /// A call brought a verdict.
    pub(crate) const fn verdict(&mut self) {
        self.verdicts = true;
        self.without_verdict = 0;
        self.useless = 0;
        self.refused = 0;
        self.forbidden = 0;
    }

    /// An earlier run had a verdict. A resumed run asks only for rows that failed: if the first of them fails again, that
    /// says little about the service.
    pub(crate) const fn worked_before(&mut self) {
        self.known = true;
    }

    /// Whether a call of this run has brought a verdict.
    pub(crate) const fn has_verdicts(&self) -> bool {
        self.verdicts
    }

    /// Whether the run stops by itself over what the service answers.
    pub(crate) const fn stops_by_itself(&self) -> bool {
        !self.keep_going
    }

    /// The service answered something about this row: it works.
    pub(crate) const fn answered(&mut self) {
        self.forbidden = 0;
    }

    /// Counts trouble and decides the reaction.
    pub(crate) fn react(&mut self, trouble: Trouble) -> Reaction {
        let stops = match trouble {
            Trouble::Useless(by) => {
                self.useless += 1;
                self.without_verdict += 1;
                return self.without_verdict(by);
            }
            Trouble::Refused(by) => {
                self.answered();
                self.refused += 1;
                if self.is_expected(by) {
                    self.works = true;
                } else {
                    self.without_verdict += 1;
                }
                return self.without_verdict(by);
            }
            Trouble::Forbidden(_) => {
                self.forbidden += 1;
                self.refused += 1;
                (!self.verdicts && !self.known) || self.forbidden >= AT_START
            }
            Trouble::HostNotFound => !self.verdicts,
            // Later the circuit breaker notices, and waits for the service to come back.
            Trouble::GaveUp => !self.verdicts && !self.known,
        };
        if stops {
            Reaction::Stop(1)
        } else {
            Reaction::Continue
        }
    }

    /// Whether a refused row says nothing about the service: it gave verdicts before, and a nightly run may have nothing else to
    /// send than what it always refuses.
    fn is_expected(&self, by: AnsweredBy) -> bool {
        self.known && by == AnsweredBy::Service
    }

    const fn without_verdict(&self, by: AnsweredBy) -> Reaction {
        let (rows, most) = match by {
            _ if self.refused >= MOST_REFUSED => (self.refused, MOST_REFUSED),
            _ if self.verdicts => (self.useless, LATER),
            AnsweredBy::OtherProgram => (self.without_verdict, 1),
            AnsweredBy::Service => (self.without_verdict, AT_START),
        };
        if rows >= most && !self.keep_going {
            return Reaction::Stop(rows);
        }
        Reaction::Continue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USELESS: Trouble = Trouble::Useless(AnsweredBy::Service);
    const REFUSED: Trouble = Trouble::Refused(AnsweredBy::Service);
    const USELESS_PAGE: Trouble = Trouble::Useless(AnsweredBy::OtherProgram);
    const REFUSED_PAGE: Trouble = Trouble::Refused(AnsweredBy::OtherProgram);

    fn stops_after(policy: &mut GiveUpPolicy, trouble: Trouble) -> Option<usize> {
        (1..=200).find(|_| matches!(policy.react(trouble), Reaction::Stop(_)))
    }

    #[test]
    fn at_the_start_little_trouble_is_enough_and_later_it_takes_several_in_a_row() {
        // After how many the run stops: the first one ever, one whose ledger has verdicts, and one that has had a verdict.
        for (trouble, first, known, works) in [
            (USELESS, Some(3), Some(3), Some(20)),
            (REFUSED, Some(3), Some(100), Some(100)),
            (USELESS_PAGE, Some(1), Some(1), Some(20)),
            (REFUSED_PAGE, Some(1), Some(1), Some(100)),
            (
                Trouble::Forbidden(AnsweredBy::Service),
                Some(1),
                Some(3),
                Some(3),
            ),
            (Trouble::HostNotFound, Some(1), Some(1), None),
            (Trouble::GaveUp, Some(1), None, None),
        ] {
            let [mut new, mut resumed, mut working] = [(); 3].map(|()| GiveUpPolicy::default());
            resumed.worked_before();
            working.verdict();
            let found = [&mut new, &mut resumed, &mut working].map(|it| stops_after(it, trouble));
            assert_eq!(found, [first, known, works], "{trouble:?}");
        }
        let mut mixed = GiveUpPolicy::default();
        let reactions = [USELESS, REFUSED, USELESS].map(|trouble| mixed.react(trouble));
        let expected = [Reaction::Continue, Reaction::Continue, Reaction::Stop(3)];
        assert_eq!(reactions, expected);
        // A verdict in between ends the row of them.
        for trouble in [Trouble::Forbidden(AnsweredBy::Service), USELESS] {
            let mut policy = GiveUpPolicy::default();
            for _ in 0..100 {
                policy.verdict();
                assert_eq!(policy.react(trouble), Reaction::Continue);
            }
        }
    }

    #[test]
    fn a_service_that_is_known_may_refuse_rows_at_the_start() {
        let mut usual = GiveUpPolicy::default();
        usual.worked_before();
        assert!(!usual.works());
        for _ in 0..90 {
            assert!(!matches!(usual.react(REFUSED), Reaction::Stop(_)));
        }
        assert!(usual.works());
        assert_eq!(stops_after(&mut usual, USELESS), Some(3), "that is billed");
    }

    #[test]
    fn ninety_nine_refused_rows_and_a_verdict_never_stop_a_run() {
        let mut policy = GiveUpPolicy::default();
        for _ in 0..3 {
            policy.verdict();
            for _ in 0..99 {
                assert!(!matches!(policy.react(REFUSED), Reaction::Stop(_)));
            }
        }
        assert_eq!(policy.react(REFUSED), Reaction::Stop(100));
    }

    #[test]
    fn a_run_that_keeps_going_never_gives_up() {
        for trouble in [USELESS, REFUSED, USELESS_PAGE] {
            assert_eq!(stops_after(&mut GiveUpPolicy::new(true), trouble), None);
        }
    }
}
