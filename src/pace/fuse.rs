//! When the run must stop rather than let row after row fail.
//!
//! A wrong key, address or plan, or a service that is gone, must cost one call or ten, never a file.

use std::num::NonZeroU32;

/// What a call or row ran into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// A success without a verdict in it, which is billed.
    Useless(Speaker),
    /// The service refuses the row.
    Refused(Speaker),
    /// A bare 403.
    Forbidden,
    /// The host's name has no address.
    HostNotFound,
    /// A row used up its attempts because the service cannot be reached or is not well.
    GaveUp,
}

/// Who seems to have answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// Somebody who speaks JSON, or says nothing.
    Service,
    /// Somebody else: a proxy, a login page, another program on a wrong port.
    Stranger,
}

/// After how many rows in a row without a verdict a run gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GiveUpAfter {
    /// As many as is right for most: see [`AT_START`] and [`USELESS_LATER`].
    #[default]
    Usual,
    /// So many, before the first verdict and later.
    Rows(NonZeroU32),
    /// It goes on to the end.
    Never,
}

/// What trouble calls for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// Nothing but the row's own failure.
    GoOn,
    /// A warning: so many rows in a row were refused.
    Warn(u32),
    /// The run stops; without a verdict were so many rows in a row.
    Stop(u32),
}

/// Rows without a verdict that the start may have: one may be a bad row and two bad luck. Each is a person's data that
/// goes out, and may be paid for.
pub(crate) const AT_START: u32 = 3;
/// Useless answers in a row later, all paid for: a maintenance page is there for longer, a bad part of a file is shorter.
pub(crate) const USELESS_LATER: u32 = 20;
/// Refused rows in a row that are warned of. They cost nothing, so the run goes on.
const REFUSED_LATER: u32 = 50;
/// Bare 403 in a row: one is a firewall that dislikes a row, three are a key that was revoked.
const FORBIDDEN_IN_A_ROW: u32 = 3;

/// Counts trouble in a row.
#[derive(Debug, Default)]
pub(crate) struct Fuse {
    give_up_after: GiveUpAfter,
    verdicts: bool,
    /// An earlier run had verdicts from this service, for this account.
    known: bool,
    useless: u32,
    refused: u32,
    forbidden: u32,
    warned: bool,
}

impl Fuse {
    /// One that has seen nothing yet.
    #[must_use]
    pub(crate) fn new(give_up_after: GiveUpAfter) -> Self {
        Self {
            give_up_after,
            ..Self::default()
        }
    }

    /// A call brought a verdict.
    pub(crate) const fn verdict(&mut self) {
        self.verdicts = true;
        self.useless = 0;
        self.refused = 0;
        self.forbidden = 0;
    }

    /// An earlier run had a verdict. A run that goes on asks only rows that failed: that the first of them cannot be
    /// answered says little of the service, as it may fail whenever it is asked.
    pub(crate) const fn worked_before(&mut self) {
        self.known = true;
    }

    /// The service answered something about this row: it is there and well.
    pub(crate) const fn answered(&mut self) {
        self.forbidden = 0;
    }

    /// Takes note of trouble.
    #[must_use]
    pub(crate) fn react(&mut self, trouble: Trouble) -> Reaction {
        let stops = match trouble {
            Trouble::Useless(speaker) => {
                self.useless += 1;
                return self.without_verdict(speaker);
            }
            Trouble::Refused(speaker) => {
                self.answered();
                self.refused += 1;
                return self.without_verdict(speaker);
            }
            Trouble::Forbidden => {
                self.forbidden += 1;
                (!self.verdicts && !self.known) || self.forbidden >= FORBIDDEN_IN_A_ROW
            }
            Trouble::HostNotFound => !self.verdicts,
            // Later the breaker notices, and waits for the service to come back.
            Trouble::GaveUp => !self.verdicts && !self.known,
        };
        if stops {
            Reaction::Stop(1)
        } else {
            Reaction::GoOn
        }
    }

    /// That answers of an earlier run are known does not count here: these say nothing of who answers today.
    fn without_verdict(&mut self, speaker: Speaker) -> Reaction {
        let rows = self.useless + self.refused;
        let at_start = match (self.give_up_after, speaker) {
            (GiveUpAfter::Usual, Speaker::Stranger) => Some(1),
            (GiveUpAfter::Usual, Speaker::Service) => Some(AT_START),
            (GiveUpAfter::Rows(rows), _) => Some(rows.get()),
            (GiveUpAfter::Never, _) => None,
        };
        let useless_later = match self.give_up_after {
            GiveUpAfter::Usual => Some(USELESS_LATER),
            GiveUpAfter::Rows(rows) => Some(rows.get()),
            GiveUpAfter::Never => None,
        };
        let reaches = |count: u32, most: Option<u32>| most.is_some_and(|most| count >= most);
        if !self.verdicts && reaches(rows, at_start) {
            return Reaction::Stop(rows);
        }
        if self.verdicts && reaches(self.useless, useless_later) {
            return Reaction::Stop(self.useless);
        }
        if self.refused >= REFUSED_LATER && !std::mem::replace(&mut self.warned, true) {
            return Reaction::Warn(self.refused);
        }
        Reaction::GoOn
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const USELESS: Trouble = Trouble::Useless(Speaker::Service);
    const REFUSED: Trouble = Trouble::Refused(Speaker::Service);

    fn stops_after(fuse: &mut Fuse, trouble: Trouble) -> Option<usize> {
        (1..=100).find(|_| matches!(fuse.react(trouble), Reaction::Stop(_)))
    }

    fn later(give_up_after: GiveUpAfter) -> Fuse {
        let mut fuse = Fuse::new(give_up_after);
        fuse.verdict();
        fuse
    }

    #[test]
    fn at_the_start_little_is_enough_whatever_earlier_runs_were_told() {
        for known in [false, true] {
            for (trouble, after) in [
                (USELESS, Some(3)),
                (REFUSED, Some(3)),
                (Trouble::Useless(Speaker::Stranger), Some(1)),
                (Trouble::Refused(Speaker::Stranger), Some(1)),
                (Trouble::Forbidden, Some(if known { 3 } else { 1 })),
                (Trouble::HostNotFound, Some(1)),
                (Trouble::GaveUp, (!known).then_some(1)),
            ] {
                let mut fuse = Fuse::default();
                if known {
                    fuse.worked_before();
                }
                assert_eq!(stops_after(&mut fuse, trouble), after, "{trouble:?}");
            }
        }
        let mut mixed = Fuse::default();
        let reactions = [USELESS, REFUSED, USELESS].map(|trouble| mixed.react(trouble));
        assert_eq!(
            reactions,
            [Reaction::GoOn, Reaction::GoOn, Reaction::Stop(3)]
        );
    }

    #[test]
    fn later_it_takes_several_in_a_row() {
        for (trouble, after) in [
            (USELESS, Some(20)),
            (Trouble::Useless(Speaker::Stranger), Some(20)),
            (REFUSED, None),
            (Trouble::Forbidden, Some(3)),
            (Trouble::HostNotFound, None),
            (Trouble::GaveUp, None),
        ] {
            let mut fuse = later(GiveUpAfter::Usual);
            assert_eq!(stops_after(&mut fuse, trouble), after, "{trouble:?}");
        }
        for trouble in [Trouble::Forbidden, USELESS] {
            let mut fuse = later(GiveUpAfter::Usual);
            for _ in 0..100 {
                assert_eq!(fuse.react(trouble), Reaction::GoOn);
                fuse.verdict();
            }
        }
    }

    #[test]
    fn fifty_refused_rows_are_warned_of_once() {
        let mut fuse = later(GiveUpAfter::Usual);
        let warnings: Vec<_> = (1..=200)
            .filter(|_| fuse.react(REFUSED) == Reaction::Warn(50))
            .collect();
        assert_eq!(warnings, [50]);
    }

    #[test]
    fn one_number_changes_both_and_never_is_never() {
        let seven = GiveUpAfter::Rows(NonZeroU32::new(7).unwrap());
        for trouble in [USELESS, REFUSED, Trouble::Useless(Speaker::Stranger)] {
            assert_eq!(stops_after(&mut Fuse::new(seven), trouble), Some(7));
            assert_eq!(
                stops_after(&mut Fuse::new(GiveUpAfter::Never), trouble),
                None
            );
        }
        assert_eq!(stops_after(&mut later(seven), USELESS), Some(7));
        assert_eq!(stops_after(&mut later(GiveUpAfter::Never), USELESS), None);
    }
}
