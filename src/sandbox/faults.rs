//! What goes wrong in a rehearsal, and how often.

use std::str::FromStr;

/// The number of kinds of faults.
pub(super) const KINDS: usize = 8;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// Status 402: the account is out of credit.
    OutOfCredit,
    /// Status 403 without a reason.
    Forbidden,
    /// Status 500.
    ServerError,
    /// Status 503.
    Unavailable,
    /// The connection is reset before the answer.
    Reset,
    /// No answer ever comes.
    Stall,
    /// Status 200 with broken JSON: billed.
    BadJson,
    /// The connection is reset instead of the answer: billed.
    Lost,
}

impl FaultKind {
    /// Every kind, in the order in which probabilities are added up.
    pub(crate) const ALL: [Self; KINDS] = [
        Self::OutOfCredit,
        Self::Forbidden,
        Self::ServerError,
        Self::Unavailable,
        Self::Reset,
        Self::Stall,
        Self::BadJson,
        Self::Lost,
    ];

    /// Its name on the command line and in the report.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::OutOfCredit => "402",
            Self::Forbidden => "403",
            Self::ServerError => "500",
            Self::Unavailable => "503",
            Self::Reset => "reset",
            Self::Stall => "stall",
            Self::BadJson => "bad-json",
            Self::Lost => "lost",
        }
    }
}

/// The probability of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Faults([f64; KINDS]);

impl Faults {
    /// Sets the probability of one kind.
    ///
    /// # Errors
    /// The probabilities of all kinds add up to more than 1.
    pub(crate) fn add(&mut self, kind: FaultKind, probability: f64) -> Result<(), String> {
        for (slot, other) in self.0.iter_mut().zip(FaultKind::ALL) {
            if other == kind {
                *slot = probability;
            }
        }
        // Tenths have no exact binary form: 0.7 + 0.2 + 0.1 may result in more than 1.
        if self.0.iter().sum::<f64>() > 1.0 + 1e-9 {
            Err("the probabilities add up to more than 1".to_owned())
        } else {
            Ok(())
        }
    }

    /// Whether all probabilities are 0.
    #[must_use]
    pub(crate) fn is_none(&self) -> bool {
        self.0.iter().all(|probability| *probability == 0.0)
    }

    /// The fault for a random number between 0 and 1, if any.
    #[must_use]
    pub(crate) fn pick(&self, chance: f64) -> Option<FaultKind> {
        let mut up_to = 0.0;
        self.0
            .iter()
            .zip(FaultKind::ALL)
            .find_map(|(probability, kind)| {
                up_to += probability;
                (chance < up_to).then_some(kind)
            })
    }
}

/// Parses `KIND=PROBABILITY`.
///
/// # Errors
/// What is wrong with it, and what is allowed.
pub(crate) fn parse(text: &str) -> Result<(FaultKind, f64), String> {
    text.parse::<FaultShare>()
        .map(|FaultShare(kind, probability)| (kind, probability))
}

struct FaultShare(FaultKind, f64);

impl FromStr for FaultShare {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed = || {
            "allowed are 402, 403, 500, 503, reset, stall, bad-json and lost with a probability, such as `500=0.01`"
                .to_owned()
        };
        let (name, probability) = text.split_once('=').ok_or_else(allowed)?;
        let kind = FaultKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(allowed)?;
        let probability: f64 = probability.parse().map_err(|_| allowed())?;
        if (0.0..=1.0).contains(&probability) {
            Ok(Self(kind, probability))
        } else {
            Err("a probability must be between 0 and 1".to_owned())
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_add_up() {
        let mut faults = Faults::default();
        assert!(faults.is_none());
        for text in ["500=0.1", "stall=0.2"] {
            let (kind, probability) = parse(text).unwrap();
            faults.add(kind, probability).unwrap();
        }
        assert_eq!(faults.pick(0.05), Some(FaultKind::ServerError));
        assert_eq!(faults.pick(0.15), Some(FaultKind::Stall));
        assert_eq!(faults.pick(0.31), None);
        assert!(faults.add(FaultKind::Reset, 0.9).is_err());
        for bad in ["404=1", "500", "500=2", "500=x"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
