//! What a client does with a user.

use serde::Serialize;

/// What the client does with a user who has that score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// Low risk.
    Approve,
    /// A person should look.
    Review,
    /// High risk.
    Block,
}

impl Decision {
    /// The word that is written to files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Review => "review",
            Self::Block => "block",
        }
    }
}
