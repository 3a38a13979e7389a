//! Strings that cannot be printed.
//!
//! A key lives in a [`Secret`] from the moment it is read until the one place that puts it into a header. It must not
//! know what the secret is for.

use std::fmt;
use std::sync::Arc;

/// A string whose `Debug` shows nothing and that has no `Display`. Clones share it.
#[derive(Clone)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Takes the string over.
    #[must_use]
    pub fn new(value: impl Into<Arc<str>>) -> Self {
        Self(value.into())
    }

    /// The string itself. Every caller of this is a place to review.
    #[must_use]
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
