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
    /// All decisions, in the order in which they are shown.
    pub(crate) const ALL: [Self; 3] = [Self::Approve, Self::Review, Self::Block];

    /// The decision with this word.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.word() == word)
    }

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
