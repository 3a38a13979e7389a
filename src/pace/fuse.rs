//! When the run must stop rather than let row after row fail.
//!
//! A wrong key, address or plan, or a service that is gone, must cost one call or ten, never a file.

/// What a call or row ran into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// A success without a verdict in it.
    Useless,
    /// A bare 403.
    Forbidden,
    /// The host's name has no address.
    HostNotFound,
    /// A row used up its attempts because the service cannot be reached or is not well.
    GaveUp,
}

/// Counts trouble in a row.
#[derive(Debug, Default)]
pub struct Fuse {
    verdicts: bool,
    /// An earlier run had verdicts from this service, for this account.
    known: bool,
    useless: u32,
    forbidden: u32,
}

/// Successes without a verdict that the start may have: each is paid for.
const USELESS_AT_START: u32 = 3;
/// Bare 403 in a row: one is a firewall that dislikes a row, three are a key that was revoked.
const FORBIDDEN_IN_A_ROW: u32 = 3;

impl Fuse {
    /// A call brought a verdict.
    pub const fn verdict(&mut self) {
        *self = Self {
            verdicts: true,
            known: self.known,
            useless: 0,
            forbidden: 0,
        };
    }

    /// An earlier run had a verdict. A run that goes on asks only rows that failed: the first of them says little of the
    /// service, as it may fail whenever it is asked.
    pub const fn worked_before(&mut self) {
        self.known = true;
    }

    /// The service answered something about this row: it is there and well.
    pub const fn answered(&mut self) {
        self.forbidden = 0;
    }

    /// Takes note of trouble; whether the run must stop.
    #[must_use]
    pub const fn blows(&mut self, trouble: Trouble) -> bool {
        match trouble {
            Trouble::Useless => {
                self.useless += 1;
                !self.verdicts && !self.known && self.useless >= USELESS_AT_START
            }
            Trouble::Forbidden => {
                self.forbidden += 1;
                (!self.verdicts && !self.known) || self.forbidden >= FORBIDDEN_IN_A_ROW
            }
            Trouble::HostNotFound => !self.verdicts,
            // Later the breaker notices, and waits for the service to come back.
            Trouble::GaveUp => !self.verdicts && !self.known,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blows_after(fuse: &mut Fuse, trouble: Trouble) -> Option<u32> {
        (1..=20).find(|_| fuse.blows(trouble))
    }

    #[test]
    fn at_the_start_little_is_enough() {
        for (trouble, after) in [
            (Trouble::Useless, 3),
            (Trouble::Forbidden, 1),
            (Trouble::HostNotFound, 1),
            (Trouble::GaveUp, 1),
        ] {
            assert_eq!(
                blows_after(&mut Fuse::default(), trouble),
                Some(after),
                "{trouble:?}"
            );
        }
    }

    #[test]
    fn later_it_takes_several_in_a_row() {
        for (trouble, after) in [
            (Trouble::Useless, None),
            (Trouble::Forbidden, Some(3)),
            (Trouble::HostNotFound, None),
            (Trouble::GaveUp, None),
        ] {
            let mut fuse = Fuse::default();
            fuse.verdict();
            assert_eq!(blows_after(&mut fuse, trouble), after, "{trouble:?}");
        }
        let mut fuse = Fuse::default();
        fuse.verdict();
        for _ in 0..100 {
            assert!(!fuse.blows(Trouble::Forbidden));
            fuse.answered();
        }
    }
}
