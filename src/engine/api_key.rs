//! Which API key calls are sent with, by number, and whether it has brought a verdict.
//!
//! A key that is refused after it brought verdicts was revoked or rotated; then its file is worth another look. Only
//! numbers are known here, never a key.

/// The keys of a run, counted.
#[derive(Debug, Default)]
pub(super) struct KeyGeneration {
    number: u64,
    proven: bool,
}

/// What the refusal of a key calls for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyRefusal {
    /// Another key is in use since the call went out: try again with that one.
    Outdated,
    /// The key brought verdicts before, so it may have been rotated. Reported once; after that a verdict must come first.
    Revoked,
    /// The key has never been good, or was already looked for again.
    Useless,
}

impl KeyGeneration {
    /// The number of the key in use; a call that goes out now uses this key.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// Whether the key in use differs from the one that the run started with.
    pub(super) const fn has_changed(&self) -> bool {
        self.number > 0
    }

    /// A call with this key brought a verdict. A late answer to an old key says nothing about the new one.
    pub(super) const fn verdict(&mut self, number: u64) {
        if number == self.number {
            self.proven = true;
        }
    }

    /// A call with this key was refused because of the key.
    pub(super) const fn refused(&mut self, number: u64) -> KeyRefusal {
        if number != self.number {
            KeyRefusal::Outdated
        } else if std::mem::replace(&mut self.proven, false) {
            KeyRefusal::Revoked
        } else {
            KeyRefusal::Useless
        }
    }

    /// Another key is in use from now on.
    pub(super) const fn renewed(&mut self) {
        self.number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_looked_for_once_after_its_verdicts() {
        let mut key = KeyGeneration::default();
        assert_eq!(key.refused(0), KeyRefusal::Useless, "it was never good");
        key.verdict(0);
        assert_eq!(key.refused(0), KeyRefusal::Revoked);
        assert_eq!(
            key.refused(0),
            KeyRefusal::Useless,
            "it was already looked for"
        );
    }

    #[test]
    fn answers_to_an_old_key_say_nothing_about_the_new_one() {
        let mut key = KeyGeneration::default();
        key.verdict(0);
        assert_eq!(key.refused(0), KeyRefusal::Revoked);
        key.renewed();
        assert_eq!(key.refused(0), KeyRefusal::Outdated);
        key.verdict(0);
        assert_eq!(key.refused(1), KeyRefusal::Useless);
        key.verdict(1);
        assert_eq!(key.refused(1), KeyRefusal::Revoked);
    }
}
