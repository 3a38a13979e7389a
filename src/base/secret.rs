//! Strings that cannot be printed by accident.
//!
//! A key stays in a [`Secret`] from the moment it is read until it is put into a header, in one place. Nothing here knows
//! what the secret is for.

use std::fmt;
use std::sync::Arc;

/// A string whose `Debug` shows nothing and that has no `Display`. Clones share it.
#[derive(Clone)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps the string.
    pub fn new(value: impl Into<Arc<str>>) -> Self {
        Self(value.into())
    }

    /// The string itself. Every caller needs review.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing_of_the_secret() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "Secret(…)");
    }
}
