//! What a value should be.

use std::fmt;

use super::numbers::thousands;

/// What a value should be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Aim {
    /// Nothing in particular: the value explains others.
    None,
    AtLeast(f64),
    AtMost(f64),
    Below(f64),
    Between(f64, f64),
}

impl Aim {
    pub(crate) fn is_met(self, value: f64) -> bool {
        match self {
            Self::None => true,
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
            Self::Below(limit) => value < limit,
            Self::Between(least, most) => (least..=most).contains(&value),
        }
    }
}

impl fmt::Display for Aim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |value: f64| thousands(&value.to_string());
        match *self {
            Self::None => Ok(()),
            Self::AtLeast(least) => write!(f, "≥ {}", number(least)),
            Self::AtMost(most) => write!(f, "≤ {}", number(most)),
            Self::Below(limit) => write!(f, "< {}", number(limit)),
            Self::Between(least, most) => write!(f, "{}–{}", number(least), number(most)),
        }
    }
}
