//! Which key calls go out with, by number, and whether it has proved good.
//!
//! A key that is refused after it brought verdicts was revoked or rotated: then its file is worth another look. This
//! knows numbers alone, never a key.

use std::cell::Cell;

/// The keys of a run, counted. Runs on one thread.
#[derive(Debug, Default)]
pub(crate) struct Keyring {
    number: Cell<u64>,
    proven: Cell<bool>,
}

/// What a refused key calls for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// Another key is in use since the call went out: try again with that.
    Outdated,
    /// The key brought verdicts before: it may have been rotated. Said once; then a verdict must come first again.
    Revoked,
    /// The key has never been any good, or was looked for again already.
    Useless,
}

impl Keyring {
    /// The number of the key in use; it belongs to the call that goes out now.
    pub(super) const fn number(&self) -> u64 {
        self.number.get()
    }

    /// Whether the key in use is not the one that the run began with.
    pub(super) const fn has_changed(&self) -> bool {
        self.number.get() > 0
    }

    /// A call with this key brought a verdict. A late answer to an old key says nothing of the new one.
    pub(super) fn verdict(&self, number: u64) {
        if number == self.number.get() {
            self.proven.set(true);
        }
    }

    /// A call with this key was refused for it.
    pub(super) fn refused(&self, number: u64) -> Refused {
        if number != self.number.get() {
            Refused::Outdated
        } else if self.proven.replace(false) {
            Refused::Revoked
        } else {
            Refused::Useless
        }
    }

    /// Another key is in use from now on.
    pub(super) fn renewed(&self) {
        self.number.set(self.number.get() + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_looked_for_once_after_its_verdicts() {
        let keys = Keyring::default();
        assert_eq!(keys.refused(0), Refused::Useless, "it was never any good");
        keys.verdict(0);
        assert_eq!(keys.refused(0), Refused::Revoked);
        assert_eq!(keys.refused(0), Refused::Useless, "it was looked for");
    }

    #[test]
    fn answers_to_an_old_key_say_nothing_of_the_new_one() {
        let keys = Keyring::default();
        keys.verdict(0);
        assert_eq!(keys.refused(0), Refused::Revoked);
        keys.renewed();
        assert_eq!(keys.refused(0), Refused::Outdated);
        keys.verdict(0);
        assert_eq!(keys.refused(1), Refused::Useless);
        keys.verdict(1);
        assert_eq!(keys.refused(1), Refused::Revoked);
    }
}
